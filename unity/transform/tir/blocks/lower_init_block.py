"""lower_init_block: the ``init`` of a reduction block becomes a conditional statement at the first reduction step.

Where the reduction may have no step at all, the initial value is written before its loops (`ir/analysis/empty_reduction.py`).

Rewrite: ``with T.init(): s`` -> ``if r1 == 0 and r2 == 0: s`` before the body; blocks with reduction iterators are marked
``reduction`` so that code generation may reassociate their additions.
"""

from __future__ import annotations

from ....ir.analysis.empty_reduction import init_empty_reductions
from ....ir.build import eq, logical_and
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import Block, IfThenElse, seq
from ....ir.types import Expr
from ....ir.walk import rewrite
from ...infra.passes import prim_func_pass

REDUCTION = "reduction"
"""Block annotation and attribute key: additions inside may be reassociated."""


def _block(block: Block) -> Block:
    reductions = [i for i in block.iter_vars if i.kind == "R"]
    notes = (
        {**block.annotations, REDUCTION: 1} if reductions and REDUCTION not in block.annotations else block.annotations
    )
    if block.init is None:
        return replace(block, annotations=notes)
    condition: Expr | None = None
    for iterator in reductions:
        first = iterator.domain.min
        at_first = eq(iterator.var, first)
        condition = at_first if condition is None else logical_and(condition, at_first)
    init = block.init if condition is None else IfThenElse(condition, block.init)
    return replace(block, init=None, body=seq(init, block.body), annotations=notes)


@prim_func_pass()
def lower_init_block(func: PrimFunc) -> PrimFunc:
    """Run the initialisation of a reduction block under a condition in its body. Gives blocks without ``T.init``."""
    return replace(func, body=rewrite(init_empty_reductions(func.body), {Block: _block}))
