"""Symbols of shapes become numbers: ``bind_symbolic_vars.with_options(symbols={"n": 16})(mod)``.

Rewrite: ``main(x: R.Tensor(("n", 4)))`` -> ``main(x: R.Tensor((16, 4)))``; index arithmetic is computed and types are deduced anew.
Symbols are named by their name or variable; those of ``func_name`` are bound, of every public function when it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ir.analysis import defined_symbols
from ....ir.expr import IntImm
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.types import PrimType
from ....support.errors import PassError
from ...infra.passes import module_pass
from ..rewriting.reinfer_types import with_params


def _bind(fn: Function, sizes: Mapping[Any, int], used: set[Any]) -> Function:
    mapping: dict[Any, Any] = {}
    for symbol in defined_symbols(fn):
        for key, size in sizes.items():
            if (symbol is key or symbol.name == key) and isinstance(symbol.ty, PrimType):
                used.add(key)
                mapping[symbol] = IntImm(int(size), symbol.ty)
    return with_params(fn, fn.params, mapping) if mapping else fn


@module_pass()
def bind_symbolic_vars(
    mod: IRModule, *, symbols: Mapping[Any, int] | tuple[tuple[Any, int], ...] = (), func_name: str = ""
) -> IRModule:
    """Replace symbols of shapes by numbers.

    ``symbols``: sizes by symbol (name or variable); ``func_name``: the one function, all public ones when empty.
    """
    sizes = dict(symbols)
    for key, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise PassError("E557", f"the size of {getattr(key, 'name', key)} must be a number from 0 up, got {size!r}")
    changes: dict[str, Any] = {}
    used: set[Any] = set()
    for name, fn in mod.graph_functions().items():
        chosen = name == func_name if func_name else "global_symbol" in fn.attrs
        if chosen:
            changes[name] = _bind(fn, sizes, used)
    unknown = [getattr(k, "name", k) for k in sizes if k not in used]
    if unknown:
        raise PassError("E557", f"no function has the symbols {', '.join(map(str, unknown))}")
    return mod.with_functions(changes)
