"""Blocks become plain statements, in three passes.

- lower_init_block: ``with T.init(): s`` -> ``if r1 == 0 and r2 == 0: s`` before the body, at the first reduction step. Where the
  reduction may have no step at all, the initial value is written before its loops (`ir/analysis/reductions.py`). Blocks with
  reduction iterators are marked ``reduction`` so that code generation may reassociate their additions.
- convert_blocks_to_opaque: block iterators are replaced by the values bound to them.
- lower_opaque_block: a block's allocations become ``T.alloc_buffer`` statements around its body, its predicate an ``if``; loops of
  one iteration are replaced by their body; a block marked ``reduction`` becomes ``T.attr(0, "reduction", ..)``.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from ....ir.analysis.reductions import REDUCTION, init_empty_reductions
from ....ir.analysis.regions import block_regions
from ....ir.build import const, eq, is_int, logical_and
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import AllocBuffer, AttrStmt, Block, BlockRealize, Break, Continue, For, IfThenElse, Stmt, While, seq
from ....ir.walk import children, rewrite, substitute
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.touched_regions import LEAVING

DOUBLE_BUFFER = "double_buffer_scope"
"""Annotation of a block: number of the written buffer that is to exist twice; attribute of its body on the buffer's pointer."""


def refuse_block(block: Block) -> Stmt:
    """Raise PassError E504: for passes that change buffers, of which blocks declare regions."""
    raise PassError("E504", f"block {block.name} declares regions of buffers", block.span,
                    help="run lower_opaque_block first")  # fmt: skip


def _realize(realize: BlockRealize) -> Stmt:
    block = realize.block
    if block.iter_vars or block.init is not None or block.match_buffers:
        raise PassError("E504", f"block {block.name} still has iterators, initialisation or views", realize.span)
    body = block.body
    if block.annotations.get(REDUCTION):
        body = AttrStmt(const(0, "int32"), REDUCTION, block.annotations[REDUCTION], body)
    for key, value in block.annotations.items():
        if key.startswith("pragma_"):
            body = AttrStmt(const(0, "int32"), key, value, body)
    if DOUBLE_BUFFER in block.annotations:
        body = AttrStmt(_written(block, block.annotations[DOUBLE_BUFFER]), DOUBLE_BUFFER, 1, body)
    if block.alloc_buffers:
        body = seq(*[AllocBuffer(buffer) for buffer in block.alloc_buffers], body)
    return body if is_int(realize.predicate, 1) else IfThenElse(realize.predicate, body)


def _written(block: Block, number: object) -> Var:
    """Pointer of the buffer a block writes, by number. Raises PassError E532."""
    writes = block_regions(block)[1]
    position = number.value if isinstance(number, IntImm) else number
    if not isinstance(position, int) or not 0 <= position < len(writes):
        raise PassError(
            "E532", f"{DOUBLE_BUFFER} of block {block.name} must number one of the buffers it writes", block.span
        )
    return writes[position].buffer.data


def _loop(loop: For) -> Stmt:
    if is_int(loop.extent, 1) and loop.kind != "thread_binding" and not loop.annotations and not leaves_loop(loop.body):
        return substitute(loop.body, {loop.loop_var: loop.min})
    return loop


def leaves_loop(body: Stmt) -> bool:
    """True when a break or continue in the body belongs to the loop around it."""
    pending: list[Any] = [body]
    while pending:
        stmt = pending.pop()
        if isinstance(stmt, (Break, Continue)) or (type(stmt) is Call and stmt.op_name in LEAVING):
            return True
        if not isinstance(stmt, (For, While)):
            pending += [child for child in children(stmt) if isinstance(child, (Stmt, Call))]
    return False


@prim_func_pass()
def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """Replace blocks by allocations, conditions and plain statements.

    Requires ``convert_blocks_to_opaque``. Gives programs without blocks.
    """
    return rewrite(func, {BlockRealize: _realize, For: _loop})


def _unbind(realize: BlockRealize) -> BlockRealize:
    block = realize.block
    if not block.iter_vars:
        return realize
    if block.init is not None:
        raise PassError("E504", f"block {block.name} still has an initialisation", realize.span,
                        help="run lower_init_block first")  # fmt: skip
    values = {iterator.var: value for iterator, value in realize.bindings}
    bare = replace(block, iter_vars=())
    return BlockRealize((), realize.predicate, substitute(bare, values), realize.span)


@prim_func_pass()
def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """Replace block iterators by the values bound to them. Gives blocks without iterators, as ``lower_opaque_block`` requires."""
    return rewrite(func, {BlockRealize: _unbind})


def _block(block: Block) -> Block:
    reductions = [i for i in block.iter_vars if i.kind == "R"]
    notes = block.annotations
    if reductions and REDUCTION not in notes:
        notes = {**notes, REDUCTION: 1}
    if block.init is None:
        return replace(block, annotations=notes)
    at_first = [eq(iterator.var, iterator.domain.min) for iterator in reductions]
    init = IfThenElse(reduce(logical_and, at_first), block.init) if at_first else block.init
    return replace(block, init=None, body=seq(init, block.body), annotations=notes)


@prim_func_pass()
def lower_init_block(func: PrimFunc) -> PrimFunc:
    """Run the initialisation of a reduction block under a condition in its body. Gives blocks without ``T.init``."""
    return replace(func, body=rewrite(init_empty_reductions(func.body), {Block: _block}))
