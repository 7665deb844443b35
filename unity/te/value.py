"""``Value``: a scalar expression with Python operators, the language of ``te.compute`` bodies.

IR nodes have no operators; a Value wraps one and builds folded expressions through ``ir/build.py``. Python numbers
adopt the type of the other operand. Comparisons give Values, so a Value has no truth value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar, overload

from ..ffi.dtype import DataType
from ..ir import build
from ..ir.expr import Var
from ..ir.types import Expr, prim_type
from ..support.arguments import guarded_class, short
from ..support.errors import ArgumentError, TypeRuleError

_T = TypeVar("_T")


class Operand:
    """An operand that stands for an expression, ``expr``, among Values."""

    __slots__ = ()
    expr: Expr


Scalar = Operand | Expr | float
"""The types that may stand where a scalar is expected: Value, IR expression, Python number."""


@overload
def unwrap(value: Operand) -> Expr: ...
@overload
def unwrap(value: _T) -> _T: ...
def unwrap(value: object) -> object:
    """Return the IR expression of a Value or another Operand; other values of ``value`` as they are."""
    return value.expr if isinstance(value, Operand) else value


def to_scalar(value: Scalar, dtype: str | None = None) -> Expr:
    """Return the IR expression of ``value``: a Value, an expression, or a number (of ``dtype``)."""
    found = unwrap(value)
    return found if isinstance(found, Expr) else build.const(found, dtype)


Method = Callable[["Value", Scalar], "Value"]


def _left(make: Callable[..., Expr]) -> Method:
    """The method of an operator whose left operand is the Value."""
    return lambda value, other: Value(make(value.expr, unwrap(other)))


def _both(make: Callable[..., Expr]) -> tuple[Method, Method]:
    """The methods of an operator with the Value on the left and on the right."""
    return _left(make), lambda value, other: Value(make(unwrap(other), value.expr))


@guarded_class
class Value(Operand):
    """A scalar expression with operators."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        if not isinstance(expr, Expr):
            raise ArgumentError(
                "E717", f"a Value of {short(expr)}, expected an Expr", help="te.const(1.0), te.var('n')"
            )
        self.expr = expr

    @property
    def dtype(self) -> DataType:
        """Data type of the expression."""
        return build.dtype_of(self.expr)

    def astype(self, dtype: DataType | str) -> Value:
        """Return the value cast to ``dtype``."""
        return Value(build.cast(self.expr, dtype))

    def __bool__(self) -> bool:
        raise TypeRuleError(
            "E217",
            "a tensor expression has no truth value",
            help="use te.if_then_else, te.all, te.any instead of if, and, or",
        )

    __hash__ = object.__hash__

    __add__, __radd__ = _both(build.add)
    __sub__, __rsub__ = _both(build.sub)
    __mul__, __rmul__ = _both(build.mul)
    __truediv__, __rtruediv__ = _both(build.div)
    __floordiv__, __rfloordiv__ = _both(build.floordiv)
    __mod__, __rmod__ = _both(build.floormod)
    __pow__ = _left(partial(build.intrinsic, "pow"))
    __lt__, __le__, __gt__, __ge__ = map(_left, (build.lt, build.le, build.gt, build.ge))
    __eq__, __ne__ = map(_left, (build.eq, build.ne))  # type: ignore[assignment]

    def __neg__(self) -> Value:
        return Value(build.negate(self.expr))

    def __and__(self, other: Scalar) -> Value:
        if self.dtype.is_bool:
            return Value(build.logical_and(self.expr, unwrap(other)))
        return Value(build.intrinsic("bitwise_and", self.expr, unwrap(other)))

    def __or__(self, other: Scalar) -> Value:
        if self.dtype.is_bool:
            return Value(build.logical_or(self.expr, unwrap(other)))
        return Value(build.intrinsic("bitwise_or", self.expr, unwrap(other)))

    def __xor__(self, other: Scalar) -> Value:
        if self.dtype.is_bool:
            return Value(build.ne(self.expr, build.as_bool(unwrap(other))))
        return Value(build.intrinsic("bitwise_xor", self.expr, unwrap(other)))

    def __invert__(self) -> Value:
        if self.dtype.is_bool:
            return Value(build.logical_not(self.expr))
        return Value(build.intrinsic("bitwise_not", self.expr))

    def __lshift__(self, other: Scalar) -> Value:
        return Value(build.intrinsic("shift_left", self.expr, build.cast(to_scalar(other, "int32"), self.dtype)))

    def __rshift__(self, other: Scalar) -> Value:
        return Value(build.intrinsic("shift_right", self.expr, build.cast(to_scalar(other, "int32"), self.dtype)))

    def __repr__(self) -> str:
        return f"Value({self.expr!r})"


def var(name: str, dtype: str = "int64") -> Value:
    """A scalar variable ``name`` of ``dtype``, e.g. a symbolic dimension."""
    return Value(Var(name, prim_type(dtype)))


def size_var(name: str, dtype: str = "int64") -> Value:
    """A scalar variable ``name`` of ``dtype`` that stands for a size."""
    return var(name, dtype)


def const(value: Scalar, dtype: str | DataType | None = None) -> Value:
    """The constant ``value`` of ``dtype``; None: int32, float32 or bool, as it is."""
    return Value(build.const(value, dtype))


def _of_two(make: Callable[..., Expr], doc: str) -> Callable[[Scalar, Scalar], Value]:
    def function(a: Scalar, b: Scalar) -> Value:
        return Value(make(unwrap(a), unwrap(b)))

    function.__name__ = function.__qualname__ = make.__name__
    function.__doc__ = doc
    return function


floordiv = _of_two(build.floordiv, "Division rounding down.")
floormod = _of_two(build.floormod, "Remainder of the division rounding down.")
maximum = _of_two(build.maximum, "Larger of two.")
minimum = _of_two(build.minimum, "Smaller of two.")
truncdiv = _of_two(build.truncdiv, "Integer division towards zero.")
truncmod = _of_two(build.truncmod, "Remainder of the truncating division.")


def div(a: Scalar, b: Scalar) -> Value:
    """Division as C has it: of integers towards zero."""
    x, y = build.unify(unwrap(a), unwrap(b))
    return Value(build.div(x, y) if build.dtype_of(x).is_float else build.truncdiv(x, y))


def if_then_else(cond: Scalar, true_value: Scalar, false_value: Scalar) -> Value:
    """``true_value`` where ``cond`` holds, else ``false_value``; only the chosen one is evaluated."""
    return Value(build.if_then_else(to_scalar(cond), unwrap(true_value), unwrap(false_value)))


def select(cond: Scalar, true_value: Scalar, false_value: Scalar) -> Value:
    """``true_value`` where ``cond`` holds, else ``false_value``; both are evaluated."""
    return Value(build.select(to_scalar(cond), unwrap(true_value), unwrap(false_value)))


def all(*conditions: Scalar) -> Value:
    """True if all ``conditions`` hold."""
    result = build.const(True)
    for condition in conditions:
        result = build.logical_and(result, unwrap(condition))
    return Value(result)


def any(*conditions: Scalar) -> Value:
    """True if one of the ``conditions`` holds."""
    result = build.const(False)
    for condition in conditions:
        result = build.logical_or(result, unwrap(condition))
    return Value(result)


def intrinsic(name: str, *args: Scalar, dtype: str | None = None) -> Value:
    """Call the intrinsic ``T.<name>`` on ``args``; ``dtype``: type of the result; None: inferred."""
    return Value(build.intrinsic(name, *[unwrap(a) for a in args], dtype=dtype))


def min_value(dtype: DataType | str) -> Value:
    """Return the smallest finite value of ``dtype``."""
    return Value(build.min_value(dtype))


def max_value(dtype: DataType | str) -> Value:
    """Return the largest finite value of ``dtype``."""
    return Value(build.max_value(dtype))


def infinity(dtype: DataType | str) -> Value:
    """Return positive infinity of the float type ``dtype``."""
    return Value(build.infinity(dtype))


__all__ = [
    "Value", "all", "any", "const", "div", "floordiv", "floormod", "if_then_else", "infinity", "intrinsic", "max_value",
    "maximum", "min_value", "minimum", "select", "size_var", "to_scalar", "truncdiv", "truncmod", "unwrap", "var",
]  # fmt: skip
