"""rewrite_unsafe_select: a ``T.Select`` whose sides may fail, or read what is not read anyway, becomes the lazy
``T.if_then_else``.

Select evaluates both sides; a read that is only in bounds where the condition holds must not happen otherwise.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, op
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Select
from ....ir.stmt import BufferStore
from ....ir.types import Expr
from ....ir.walk import Rewriter, collect
from ...infra.passes import prim_func_pass
from ..analysis.eager import is_eager, reads_anyway


class _Lazy(Rewriter):
    def __init__(self) -> None:
        super().__init__({Select: self.select})
        self.read: list[BufferLoad] = []

    def enter(self, node: Any) -> Any | None:
        if type(node) is BufferStore and collect(node.value, Select):
            self.read = reads_anyway(node.value)
            value = self.visit(node.value)
            self.read = []
            return replace(node, value=value)
        return None

    def select(self, expr: Select) -> Expr:
        if is_eager(expr.true_value, self.read) and is_eager(expr.false_value, self.read):
            return expr
        return Call(op("T.if_then_else"), (expr.cond, expr.true_value, expr.false_value), {}, (), expr.ty, expr.span)


@prim_func_pass()
def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """Make a ``T.Select`` lazy if one side may fail or reads memory that is not read in any case. Gives ``T.if_then_else``."""
    if not collect(func.body, Select):
        return func
    return replace(func, body=_Lazy()(func.body))
