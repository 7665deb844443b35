"""Dataflow blocks become plain binding blocks, DataflowVars plain variables; neighbouring plain blocks are joined."""

from __future__ import annotations

from typing import Any

from ....ir.expr import BindingBlock, DataflowVar, SeqExpr, Var
from ....ir.function import Function
from ....ir.walk import Rewriter
from ...infra.passes import function_pass


class _Plain(Rewriter):
    def define(self, node: Any) -> Any:
        if type(node) is DataflowVar:
            found = self.mapping.get(node)
            if found is None:
                found = self.mapping[node] = Var(node.name, self.visit(node.ty), node.span)
            return found
        return super().define(node)

    def leave(self, node: Any) -> Any:
        if type(node) is not SeqExpr or not node.blocks:
            return node
        if len(node.blocks) == 1 and type(node.blocks[0]) is BindingBlock:
            return node
        bindings = node.bindings
        blocks = (BindingBlock(tuple(bindings), node.blocks[0].span),) if bindings else ()
        return SeqExpr(blocks, node.body, node.span)


@function_pass()
def to_non_dataflow(fn: Function) -> Function:
    """Turn dataflow blocks into plain binding blocks."""
    made: Function = _Plain()(fn)
    return made
