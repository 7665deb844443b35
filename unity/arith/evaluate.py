"""Value of an integer expression under an assignment of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ffi.abi import DIVISIONS, INTEGERS
from ..ir.build import dtype_of
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.scalar import OPERATOR_NAMES, And, Cast, Not, Or, Select
from ..ir.types import Expr


def evaluate(expr: Expr, assignment: Mapping[Var, int]) -> int | None:
    """The value, or None when the expression holds something else than integer arithmetic, an unassigned variable, or a
    division by zero."""
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


def _binary(name: str, node: Any, assignment: Mapping[Var, int]) -> int | None:
    if dtype_of(node.a).is_float:
        return None
    a = evaluate(node.a, assignment)
    b = None if a is None else evaluate(node.b, assignment)
    return None if a is None or b is None or (b == 0 and name in DIVISIONS) else INTEGERS[name](a, b)
