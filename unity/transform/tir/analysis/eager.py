"""Expressions that may be evaluated where they are not asked for: they read only what is read in any case, and cannot fail."""

from __future__ import annotations

from typing import Any

from ....ir.build import dtype_of
from ....ir.expr import Call
from ....ir.scalar import And, BufferLoad, Div, FloorDiv, FloorMod, Mod, Or, Select
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import children, collect
from .loop_nests import PURE_CALLS, is_choice


def reads_anyway(expr: Expr) -> list[BufferLoad]:
    """Elements that are read whatever the conditions in an expression are."""
    found: list[BufferLoad] = []
    rest: list[Any] = [expr]
    while rest:
        node = rest.pop()
        if is_choice(node):
            rest.append(node.args[0])
        elif type(node) is Select:
            rest.append(node.cond)
        elif isinstance(node, (And, Or)):
            rest.append(node.a)
        else:
            if type(node) is BufferLoad and node.predicate is None:
                found.append(node)
            rest += children(node)
    return found


def is_eager(side: Expr, read: list[BufferLoad]) -> bool:
    """True if an expression can be evaluated where it is not asked for, beside reads of these elements."""
    for part in collect(side, (BufferLoad, Call, Div, FloorDiv, FloorMod, Mod)):
        if type(part) is BufferLoad:
            if part.predicate is not None or not any([structural_equal(part, other) for other in read]):
                return False
        elif type(part) is Call:
            if part.op_name not in PURE_CALLS:
                return False
        elif not dtype_of(part).is_float:
            return False
    return True
