"""rewrite_unsafe_select: a ``T.Select`` whose sides read memory or may fail becomes the lazy ``T.if_then_else``.

Select evaluates both sides; a read that is only in bounds where the condition holds must not happen otherwise.
"""

from __future__ import annotations

from ....ir.build import dtype_of
from ....ir.expr import Call, op
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Div, FloorDiv, FloorMod, Mod, Select
from ....ir.types import Expr
from ....ir.walk import collect, rewrite
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import PURE_CALLS


def _unsafe(expr: Expr) -> bool:
    for part in collect(expr, (BufferLoad, Call, Div, FloorDiv, FloorMod, Mod)):
        if type(part) is BufferLoad:
            return True
        if type(part) is Call:
            if part.op_name not in PURE_CALLS:
                return True
        elif not dtype_of(part).is_float:
            return True
    return False


def _select(expr: Select) -> Expr:
    if _unsafe(expr.true_value) or _unsafe(expr.false_value):
        return Call(op("T.if_then_else"), (expr.cond, expr.true_value, expr.false_value), {}, (), expr.ty, expr.span)
    return expr


@prim_func_pass()
def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """Make a ``T.Select`` lazy if one side reads memory or may fail. Gives ``T.if_then_else``."""
    if not collect(func.body, Select):
        return func
    return replace(func, body=rewrite(func.body, {Select: _select}))
