"""Entry of the reference interpreter: ``run``."""

from __future__ import annotations

from typing import Any

from ..function import Function, PrimFunc
from ..module import IRModule
from .scalar.interpreter import Interpreter
from .threads.program import ThreadedInterpreter, needs_threads


def run(mod: IRModule | Function | PrimFunc, name: str | None = None, *args: Any, max_steps: int | None = None) -> Any:
    """Run a function of a module (``run(mod, "main", x, w)``), or a single function (``run(fn, None, x)``).

    Loops over thread axes run one thread after the other, but where the threads of a program work together (barriers, shuffles,
    matrix units) they run side by side; a fault found there is raised.
    """
    if isinstance(mod, (Function, PrimFunc)):
        name = name or str(mod.attrs.get("global_symbol", "main"))
        mod = IRModule({name: mod}, {}, {})
    if not any([needs_threads(fn) for fn in mod.prim_funcs().values()]):
        return Interpreter(mod, max_steps).run(name or "main", *args)
    interpreter = ThreadedInterpreter(mod, max_steps, traffic=False)
    value = interpreter.run(name or "main", *args)
    for finding in interpreter.log.findings.values():
        raise finding
    return value
