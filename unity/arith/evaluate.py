"""Value of an integer expression under an assignment of its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir.build import dtype_of
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)  # fmt: skip
from ..ir.types import Expr


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Div: _truncdiv,
    Mod: lambda a, b: a - b * _truncdiv(a, b),
    Min: min,
    Max: max,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}


def evaluate(expr: Expr, assignment: Mapping[Var, int]) -> int | None:
    """The value, or None when the expression holds something else than integer arithmetic, an unassigned variable, or a
    division by zero."""
    kind = type(expr)
    if kind is IntImm:
        return expr.value  # type: ignore[attr-defined, no-any-return]
    if isinstance(expr, Var):
        return assignment.get(expr)
    fold = _BINARY.get(kind)
    if fold is not None:
        return _binary(fold, expr, assignment)
    match expr:
        case And(a, b):
            left = evaluate(a, assignment)
            return left if not left else evaluate(b, assignment)
        case Or(a, b):
            left = evaluate(a, assignment)
            return left if left is None or left else evaluate(b, assignment)
        case Not(a):
            value = evaluate(a, assignment)
            return None if value is None else 1 - value
        case Cast(inner) if dtype_of(expr).is_integral and not dtype_of(inner).is_float:
            return evaluate(inner, assignment)
        case Select(cond, yes, no):
            chosen = evaluate(cond, assignment)
            return None if chosen is None else evaluate(yes if chosen else no, assignment)
        case Call(Op("T.likely"), (a,)):
            return evaluate(a, assignment)
        case Call(Op("T.if_then_else"), (cond, yes, no)):
            chosen = evaluate(cond, assignment)
            return None if chosen is None else evaluate(yes if chosen else no, assignment)
    return None


def _binary(fold: Callable[[int, int], int], node: Any, assignment: Mapping[Var, int]) -> int | None:
    if dtype_of(node.a).is_float:
        return None
    a = evaluate(node.a, assignment)
    b = None if a is None else evaluate(node.b, assignment)
    if a is None or b is None or (b == 0 and type(node) in (FloorDiv, FloorMod, Div, Mod)):
        return None
    return fold(a, b)
