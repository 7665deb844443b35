"""Sizes of torch (integers, SymInt over sympy) as scalar expressions over symbols of the IR.

Invariant: one sympy symbol is one variable; a symbol no parameter binds is a ``Gap``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import build
from ..ir.expr import Var
from ..ir.types import Expr, prim_type
from .report import Gap


def _fold(fn: Callable[[Any, Any], Expr]) -> Callable[[list[Expr]], Expr]:
    def apply(values: list[Expr]) -> Expr:
        made = values[0]
        for value in values[1:]:
            made = fn(made, value)
        return made

    return apply


_FUNCTIONS: dict[str, Callable[[list[Expr]], Expr]] = {
    "Add": _fold(build.add), "Mul": _fold(build.mul), "Max": _fold(build.maximum), "Min": _fold(build.minimum),
    "FloorDiv": _fold(build.floordiv), "CleanDiv": _fold(build.floordiv), "Mod": _fold(build.floormod),
    "PythonMod": _fold(build.floormod), "And": _fold(build.logical_and), "Or": _fold(build.logical_or),
    "Not": lambda v: build.logical_not(v[0]),
    "Equality": _fold(build.eq), "Unequality": _fold(build.ne), "GreaterThan": _fold(build.ge),
    "StrictGreaterThan": _fold(build.gt), "LessThan": _fold(build.le), "StrictLessThan": _fold(build.lt),
}  # fmt: skip


class Symbols:
    """Variables of the sympy symbols met so far."""

    def __init__(self) -> None:
        self._vars: dict[str, Var] = {}

    def bind(self, value: Any) -> Expr:
        """Expression of a size that stands in a parameter: its symbols become known."""
        if isinstance(value, int):
            return build.const(value, "int64")
        for symbol in sorted(value.node.expr.free_symbols, key=str):
            self._vars.setdefault(str(symbol), Var(str(symbol), prim_type("int64")))
        return self.expr(value)

    def knows(self, shape: Sequence[Any]) -> bool:
        """Are all symbols of a shape bound?"""
        sizes = [d for d in shape if not isinstance(d, int)]
        return all([str(s) in self._vars for d in sizes for s in d.node.expr.free_symbols])

    def known(self, name: str) -> Var | None:
        """Variable of a symbol by name."""
        return self._vars.get(name)

    def expr(self, value: Any) -> Expr:
        """Expression of an int, bool, SymInt or SymBool. Raises Gap."""
        if isinstance(value, bool):
            return build.const(value, "bool")
        if isinstance(value, int):
            return build.const(value, "int64")
        return self._convert(value.node.expr)

    def dims(self, shape: Sequence[Any]) -> tuple[Expr, ...]:
        """Expressions of a shape. Raises Gap."""
        return tuple([self.expr(d) for d in shape])

    def _convert(self, e: Any) -> Expr:
        if e.is_Integer:
            return build.const(int(e), "int64")
        kind = type(e).__name__
        if kind in ("BooleanTrue", "BooleanFalse"):
            return build.const(bool(e), "bool")
        if e.is_Symbol:
            found = self._vars.get(str(e))
            if found is None:
                raise Gap(f"the size {e} depends on the data")
            return found
        if kind == "Pow" and e.args[1].is_Integer and int(e.args[1]) > 0:
            return _fold(build.mul)([self._convert(e.args[0])] * int(e.args[1]))
        fn = _FUNCTIONS.get(kind)
        if fn is None:
            raise Gap(f"sizes with {kind} are not expressible: {e}")
        return fn([self._convert(a) for a in e.args])
