"""Neighbouring bindings without effects are put into dataflow blocks; variables used only inside are visible only there.

Conditionals, local functions, match_casts outside a block and calls with effects stay between the blocks. Runs shorter than
``min_size`` stay as they are.

And back, ``to_non_dataflow``: dataflow blocks become plain ones, and their variables visible everywhere; neighbours are joined.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Binding, BindingBlock, Call, DataflowBlock, If, SeqExpr, Var, VarBinding, is_dataflow_var
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.node import replace
from ....ir.walk import Rewriter, free_vars
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import join_blocks


def _may_enter(binding: Binding) -> bool:
    value = binding.value
    if not isinstance(binding, VarBinding) or isinstance(value, (If, Function, SeqExpr)):
        return False
    return type(value) is not Call or is_pure_call(value)


class _Grouping:
    def __init__(self, min_size: int) -> None:
        self.min_size = min_size

    def group(self, node: SeqExpr) -> SeqExpr:
        parts: list[BindingBlock] = []
        for block in node.blocks:
            if type(block) is DataflowBlock:
                parts.append(block)
                continue
            run: list[Binding] = []
            for binding in block.bindings:
                if run and _may_enter(binding) != _may_enter(run[0]):
                    parts.append(self._part(run))
                    run = []
                run.append(binding)
            if run:
                parts.append(self._part(run))
        merged = join_blocks(parts, dataflow=True)
        if [type(p) for p in merged] == [type(b) for b in node.blocks] and all(
            [x.bindings == y.bindings for x, y in zip(merged, node.blocks)]
        ):
            return node
        return self._hide(SeqExpr(merged, node.body, node.span))

    def _part(self, run: list[Binding]) -> BindingBlock:
        kind = DataflowBlock if _may_enter(run[0]) and len(run) >= self.min_size else BindingBlock
        return kind(tuple(run))

    def _hide(self, node: SeqExpr) -> SeqExpr:
        """Variables that nothing outside their block uses become visible only inside."""
        outside = set(free_vars(node.body))
        owner = {b.var: index for index, block in enumerate(node.blocks) for b in block.bindings}
        for index, block in enumerate(node.blocks):
            used = free_vars(block)
            outside.update([v for v in used if type(block) is BindingBlock or owner.get(v, index) != index])
        blocks: list[BindingBlock] = []
        for block in node.blocks:
            if type(block) is not DataflowBlock:
                blocks.append(block)
                continue
            inner: dict[Any, Any] = {
                b.var: replace(b.var, dataflow=True)
                for b in block.bindings
                if not b.var.dataflow and b.var not in outside
            }
            blocks.append(Rewriter(mapping=inner)(block) if inner else block)
        return SeqExpr(tuple(blocks), node.body, node.span)


@function_pass()
def convert_to_dataflow(fn: Function, *, min_size: int = 2) -> Function:
    """Group at least ``min_size`` neighbouring bindings without effects into a dataflow block. Requires normal form.

    ``min_size``: least number of bindings that make a block.
    """
    return Rewriter({SeqExpr: _Grouping(min_size).group})(fn)


class _Plain(Rewriter):
    def define(self, node: Any) -> Any:
        if is_dataflow_var(node):
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
