"""Sizes of torch (integers, SymInt over sympy) as scalar expressions over symbols of the IR.

Invariant: one sympy symbol is one variable; a symbol no parameter binds is a ``Gap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ....arith import Analyzer
from ....ir import build
from ....ir.expr import Var
from ....ir.types import Expr, prim_type
from ....ir.walk import free_vars
from .report import Gap


def _fold(fn: Callable[[Any, Any], Expr]) -> Callable[[list[Expr]], Expr]:
    def apply(values: list[Expr]) -> Expr:
        result = values[0]
        for value in values[1:]:
            result = fn(result, value)
        return result

    return apply


_FUNCTIONS: dict[str, Callable[[list[Expr]], Expr]] = {
    "Add": _fold(build.add), "Mul": _fold(build.mul), "Max": _fold(build.maximum), "Min": _fold(build.minimum),
    "FloorDiv": _fold(build.floordiv), "CleanDiv": _fold(build.floordiv), "Mod": _fold(build.floormod),
    "PythonMod": _fold(build.floormod), "And": _fold(build.logical_and), "Or": _fold(build.logical_or),
    "Not": lambda v: build.logical_not(v[0]),
    "Equality": _fold(build.eq), "Unequality": _fold(build.ne), "GreaterThan": _fold(build.ge),
    "StrictGreaterThan": _fold(build.gt), "LessThan": _fold(build.le), "StrictLessThan": _fold(build.lt),
}  # fmt: skip


_ROUNDINGS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "TruncToInt": build.floordiv, "FloorToInt": build.floordiv, "CeilToInt": build.ceildiv,
}  # fmt: skip
"""Conversions of a quotient of at least 0 to an integer."""
_EXACT_BITS = 20
"""A float whose numerator has no more bits gives exact products with all sizes below 2^33."""


class Symbols:
    """Expressions of the sympy symbols met so far, and what must hold for them (``contracts``).

    ``read``: makes a symbol of a size that is rounded from floats, by a computation when the program runs.
    """

    def __init__(self) -> None:
        self._known: dict[str, Expr] = {}
        self._analyzer = Analyzer()
        self.contracts: list[Expr] = []
        self.read: Callable[[Any], Expr] | None = None

    def bind(self, value: Any) -> Expr:
        """Expression of a size that stands in a parameter: its symbols become known.

        A size such as ``2 * k + 1`` becomes a variable of its own, from which ``k`` follows. Raises Gap.
        """
        if isinstance(value, int):
            return build.const(value, "int64")
        size = value.node.expr
        unknown = [s for s in size.free_symbols if str(s) not in self._known]
        if size.is_Symbol and unknown:
            self._known[str(size)] = var = Var(str(size), prim_type("int64"))
            if value.node.shape_env.bound_sympy(size).lower >= 0:
                self._analyzer.bind_size(var)
        elif unknown:
            return self._solve(size, unknown)
        return self.expr(value)

    def bind_plain(self, sizes: Sequence[Any]) -> None:
        """Let the sizes that are one symbol bind it before others are solved for theirs: of ``a * b`` no factor follows."""
        for size in sizes:
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                self.bind(size)

    def bind_flag(self, value: Any) -> Expr:
        """The variable ``u`` of a condition ``u == 1``, as torch writes a bool that only the data knows. Raises Gap."""
        names = [str(s) for s in value.node.expr.free_symbols]
        if len(names) != 1:
            raise Gap(f"the condition {value} depends on the data")
        return self._known.setdefault(names[0], Var(names[0], prim_type("int64")))

    def _solve(self, size: Any, unknown: list[Any]) -> Expr:
        symbol = unknown[0]
        factor, rest = size.coeff(symbol, 1), size.subs(symbol, 0)
        if len(unknown) > 1 or not factor.is_Integer or factor == 0 or size != factor * symbol + rest:
            raise Gap(f"the size {size} does not determine its symbols")
        var = Var(f"{symbol}_size", prim_type("int64"))
        offset, times = self.convert(rest), build.const(int(factor), "int64")
        found = self._known[str(symbol)] = (var - offset) // times
        self.contracts.append(build.eq(found * times + offset, var))
        return var

    def limit(self, name: str, low: int | None, high: int | None) -> None:
        """Say that the program checks a symbol of its inputs: from here on its sizes lie between these, None being no limit."""
        var = self._known[name]
        if low is not None:
            self._analyzer.assume(build.ge(var, low))
        if high is not None:
            self._analyzer.assume(build.le(var, high))

    def knows(self, shape: Sequence[Any]) -> bool:
        """True if all symbols of a shape are bound."""
        sizes = [d for d in shape if not isinstance(d, int)]
        return all([str(s) in self._known for d in sizes for s in d.node.expr.free_symbols])

    def known(self, name: str) -> Expr | None:
        """Expression of a symbol by name."""
        return self._known.get(name)

    def is_nonnegative(self, size: Expr) -> bool:
        """True if torch's ranges of symbols show that an expression is never negative."""
        return self._analyzer.can_prove_greater_equal(size, 0)

    def simplify(self, e: Expr) -> Expr:
        """An expression in simpler words, as far as the ranges of the symbols allow."""
        return self._analyzer.simplify(e)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope of facts: those that become known inside are forgotten afterwards."""
        outer = dict(self._known)
        try:
            yield
        finally:
            self._known = outer

    def define(self, value: Any, var: Expr) -> None:
        """Let an expression stand for a size that is one symbol. Raises Gap for others."""
        if not value.node.expr.is_Symbol:
            raise Gap(f"the number {value} is not a symbol")
        self._known[str(value.node.expr)] = var

    def variables(self) -> list[Var]:
        """The variables that the sizes known so far are made of, each once."""
        return list(dict.fromkeys([var for size in self._known.values() for var in free_vars(size)]))

    def expr(self, value: Any) -> Expr:
        """Expression of an int, bool, SymInt or SymBool. Raises Gap."""
        if isinstance(value, bool):
            return build.const(value, "bool")
        if isinstance(value, int):
            return build.const(value, "int64")
        return self.convert(value.node.expr)

    def dims(self, shape: Sequence[Any]) -> tuple[Expr, ...]:
        """Expressions of a shape. Raises Gap."""
        return tuple([self.expr(d) for d in shape])

    def convert(self, e: Any) -> Expr:
        """Expression of what sympy wrote. Raises Gap."""
        if e.is_Integer:
            return build.const(int(e), "int64")
        kind = type(e).__name__
        if kind in ("BooleanTrue", "BooleanFalse"):
            return build.const(bool(e), "bool")
        if e.is_Symbol:
            found = self._known.get(str(e))
            if found is None:
                raise Gap(f"the size {e} depends on the data")
            return found
        if kind == "Pow" and e.args[1].is_Integer and int(e.args[1]) > 0:
            return _fold(build.mul)([self.convert(e.args[0])] * int(e.args[1]))
        if kind == "Piecewise":
            result = self.convert(e.args[-1][0])
            for value, cond in reversed(e.args[:-1]):
                result = build.select(self.convert(cond), self.convert(value), result)
            return result
        if kind in _ROUNDINGS or kind == "RoundToInt":
            return self._rounded(e)
        fn = _FUNCTIONS.get(kind)
        if fn is None:
            raise Gap(f"sizes with {kind} are not expressible: {e}")
        return fn([self.convert(a) for a in e.args])

    def _rounded(self, e: Any) -> Expr:
        """A size such as ``int(0.5 * n)``: by integers where the product is exact, else as torch computes it."""
        found = self._known.get(str(e))
        if found is not None:
            return found
        quotient, rounding = _quotient(e.args[0]), _ROUNDINGS.get(type(e).__name__)
        if quotient is not None and rounding is not None:
            size, numerator, denominator = quotient
            over = self.convert(size) * numerator
            return rounding(over, build.const(denominator, "int64"))
        if self.read is None:
            raise Gap(f"sizes with {type(e).__name__} are not expressible: {e}")
        found = self._known[str(e)] = self.read(e)
        return found


def _quotient(e: Any) -> tuple[Any, int, int] | None:
    """(size, numerator, denominator) of a float that is exactly ``size * numerator / denominator``, with a size from 0."""
    kind = type(e).__name__
    if kind == "IntTrueDiv" and e.args[1].is_Integer and int(e.args[1]) > 0:
        size, factor = e.args[0], (1, int(e.args[1]))
    elif kind == "Mul" and len(e.args) == 2 and e.args[0].is_Float and type(e.args[1]).__name__ == "ToFloat":
        size, factor = e.args[1].args[0], float(e.args[0]).as_integer_ratio()
    else:
        return None
    exact = 0 <= factor[0] < 1 << _EXACT_BITS and factor[1] < 1 << _EXACT_BITS
    return (size, *factor) if exact and size.is_nonnegative else None
