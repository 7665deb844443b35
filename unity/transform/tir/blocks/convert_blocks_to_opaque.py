"""convert_blocks_to_opaque: block iterators are replaced by the values bound to them; blocks keep no iterators."""

from __future__ import annotations

from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import BlockRealize
from ....ir.walk import rewrite, substitute
from ....support.errors import PassError
from ...infra.passes import prim_func_pass


def _realize(realize: BlockRealize) -> BlockRealize:
    block = realize.block
    if not block.iter_vars:
        return realize
    if block.init is not None:
        raise PassError("E504", f"block {block.name} still has an initialisation", realize.span,
                        help="run lower_init_block first")  # fmt: skip
    values = {iterator.var: value for iterator, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    bare = replace(block, iter_vars=())
    return BlockRealize((), realize.predicate, substitute(bare, values), realize.span)


@prim_func_pass()
def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """Replace block iterators by the values bound to them. Gives blocks without iterators, as ``lower_opaque_block`` requires."""
    return rewrite(func, {BlockRealize: _realize})
