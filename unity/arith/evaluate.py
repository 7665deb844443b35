"""Value of an integer expression under an assignment of its variables, as a machine computes it: results wrap in their types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..ffi.abi import DIVISIONS, INTEGERS
from ..ir.build import dtype_of
from ..ir.constant import wrap_int
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.scalar import OPERATOR_NAMES, And, Cast, Not, Or, Select
from ..ir.types import Expr

BITS: dict[str, Callable[[int, int], int]] = {
    "T.bitwise_and": operator.and_, "T.bitwise_or": operator.or_, "T.bitwise_xor": operator.xor,
    "T.shift_left": operator.lshift, "T.shift_right": operator.rshift,
}  # fmt: skip
"""Meaning of the calls of two integers."""


def evaluate(expr: Expr, assignment: Mapping[Var, int]) -> int | None:
    """The value, or None when the expression holds something else than integer arithmetic, an unassigned variable, a division by
    zero, or a shift by less than nothing or more than there is."""
    if type(expr) is IntImm:
        return expr.value
    if isinstance(expr, Var):
        return assignment.get(expr)
    name = OPERATOR_NAMES.get(type(expr))
    if name is not None and not isinstance(expr, (And, Or)):
        return _binary(name, expr, assignment)
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
            return _wrapped(evaluate(inner, assignment), expr)
        case Select(cond, yes, no) | Call(Op("T.if_then_else"), (cond, yes, no)):
            chosen = evaluate(cond, assignment)
            return None if chosen is None else evaluate(yes if chosen else no, assignment)
        case Call(Op(called), (a, b)) if called in BITS:
            left, right = evaluate(a, assignment), evaluate(b, assignment)
            if left is None or right is None or ("shift" in called and not 0 <= right < dtype_of(expr).bits):
                return None
            return _wrapped(BITS[called](left, right), expr)
        case Call(Op("T.likely"), (a,)):
            return evaluate(a, assignment)
    return None


def _binary(name: str, node: Any, assignment: Mapping[Var, int]) -> int | None:
    if dtype_of(node.a).is_float:
        return None
    a = evaluate(node.a, assignment)
    b = None if a is None else evaluate(node.b, assignment)
    return None if a is None or b is None or (b == 0 and name in DIVISIONS) else _wrapped(INTEGERS[name](a, b), node)


def _wrapped(value: int | None, node: Any) -> int | None:
    return None if value is None else wrap_int(value, dtype_of(node))
