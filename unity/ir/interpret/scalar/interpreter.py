"""The scalar reference interpreter: functions of a module by name, Python values in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ....support.recursion import deep_recursion
from ...expr import ExternFunc
from ...function import Function, PrimFunc
from ...module import IRModule
from ...verifier.verifier import violations
from .graph import GraphEvaluator, registered
from .machine import Machine
from .primfunc import CompiledPrimFunc
from .values import FunctionValue, from_value, to_value


class Interpreter:
    """Runs functions of one module. ``max_steps`` bounds the number of loop iterations of all runs together."""

    def __init__(self, mod: IRModule, max_steps: int | None = None) -> None:
        self.mod = mod
        self.machine = Machine(mod, self._call, max_steps)
        self.graph = GraphEvaluator(self.machine, self._call)

    def run(self, name: str, *args: Any) -> Any:
        """Call function ``name`` with numpy arrays, Tensors, numbers, tuples (shapes of ints, tuples of tensors).

        Graph functions give numpy arrays (tuples, numbers); tensor programs write into the arrays they are given and give
        their returned value or None. Raises InterpreterError.
        """
        with deep_recursion(), np.errstate(all="ignore"):
            try:
                values = [FunctionValue(a) if isinstance(a, Function) else to_value(a) for a in args]
                return from_value(self._call(name, values, None))
            except RecursionError:
                span = getattr(self.mod[name], "span", None)
                raise InterpreterError("E325", f"{name} recurses too deeply", span) from None
            except MemoryError:
                span = getattr(self.mod[name], "span", None)
                raise InterpreterError("E319", f"{name} needs more memory than there is", span) from None
            except (TypeError, ValueError, IndexError, AttributeError) as error:
                for found in violations(self.mod):  # closures trust the verifier: ask it what they stumbled over
                    raise InterpreterError(
                        "E326", f"not a valid program: {found.message}", found.span, found.notes
                    ) from error
                raise

    def _call(self, name: str, args: list[Any], span: Any) -> Any:
        fn = self.mod[name]
        span = span or getattr(fn, "span", None)
        if isinstance(fn, Function):
            return self.graph.function(fn, args, {}, name, span)
        if isinstance(fn, PrimFunc):
            compiled = self.machine.compiled.get(name)
            if compiled is None:
                compiled = self.machine.compiled[name] = CompiledPrimFunc(fn, name, self.machine)
            return compiled.call(args, span)
        if isinstance(fn, ExternFunc):
            return self.graph.apply(registered(fn.name, span), args, span)
        raise InterpreterError("E318", f"{name} cannot be run: it is a {type(fn).__name__}", span)
