"""compute_inline and reverse_compute_inline: a block disappears into its consumers or into its producer.

Not here: the rewriting itself (`transform/schedule/rewrites/inline_blocks.py`, which fusion uses too, and
`transform/schedule/rewrites/reverse_inline.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.build import is_int
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import Block, BlockRealize, BufferStore, Stmt
from ....ir.walk import collect, rewrite, used_vars
from ....support.errors import PassError
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref
from ..core.state import ScheduleState
from ..core.tree import TRUE
from ..preconditions.coverage import runs_whole_domain
from ..preconditions.dependence import regions, scope_of
from ..rewrites import inline_blocks, reverse_inline

_RESULT = "one element for each point"


@primitive(
    checks=("complete block", _RESULT, "buffer of its own"),
    rewrite="B[vi] = f(A[vi]); C[vj] = g(B[h(vj)])  ->  C[vj] = g(f(A[h(vj)]))",
    example='sch.compute_inline(sch.cache_read(sch.get_block("C"), 0, "global"))',
)
def compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Inline a block into its consumers: they compute its value themselves, and its buffer disappears.

    The block must store one element for each of its points, at its own iterators (``B[vi, vj] = ...``) or at indices that have an
    inverse on the whole buffer (``B[vi // 4, vj, vi % 4] = ...``). Raises ScheduleError E439 if it does not, or if what it reads is
    overwritten before a consumer runs.
    """
    nearest = "compute_at moves a block to where it is read, reverse_compute_inline folds it into what it reads"
    _inline(state, block, inline_blocks.compute_inline, nearest)


@primitive(
    checks=("complete block", _RESULT, "reads each element of one producer once", "complete producer"),
    rewrite="B[vi] = f(A[vi]); C[vj] = g(B[vj])  ->  C[vi] = g(f(A[vi]))",
    example='sch.reverse_compute_inline(sch.cache_write(sch.get_block("D"), 0, "global"))',
)
def reverse_compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Inline a consumer into its only producer, which then computes the consumer's value at once.

    The producer must be a complete block with one store, and the consumer must read each of its elements exactly once, at indices
    that have an inverse. Raises ScheduleError E439 otherwise.
    """
    nearest = "reverse_compute_at moves a block to where what it reads is computed"
    _inline(state, block, reverse_inline.reverse_compute_inline, nearest)


def _require_own_scope(state: ScheduleState, block: Sref) -> None:
    """Refuse E439 where a buffer that a block writes is used outside of the block it stands in: there it cannot be computed."""
    scope = scope_of(block)
    written = {w.buffer for w in regions(state, block.block)[1]} - set(scope.block.alloc_buffers)
    if scope.parent is None or not written:
        return
    everywhere, inside = [collect(item.realize, (BufferLoad, BufferStore)) for item in (state.root(block.func), scope)]
    known = {id(access) for access in inside}
    for access in everywhere:
        if access.buffer in written and id(access) not in known:
            refuse("E439", f"cannot inline: {access.buffer.name} is used outside of block {scope.name}",
                   "can be inlined", [block, scope], "inline before blockize")  # fmt: skip


def _inline(state: ScheduleState, block: Sref, inlined: Callable[[Stmt, Block], Stmt], nearest: str) -> None:
    root = state.root(block.func)
    _require_own_scope(state, block)
    everywhere = not is_int(block.realize.predicate, 1) and runs_whole_domain(state, block)
    given = _without_condition(root.realize, block.realize) if everywhere else root.realize
    try:
        with deep_recursion():
            made = inlined(given, block.block)
    except PassError as problem:
        refuse("E439", problem.message, "can be inlined", block, nearest)
    assert isinstance(made, BlockRealize)
    left = inline_blocks.allocations(root.realize) - inline_blocks.allocations(made)
    used = set(used_vars(made)) if left else set()
    for buffer in left:
        if buffer.data in used:  # an enclosing block declares that it touches the buffer
            refuse("E439", f"cannot inline: a block around its producer or consumer declares a region of {buffer.name}",
                   "can be inlined", block, "inline before blockize")  # fmt: skip
    state.replace(root, made, _pairs(root.realize, made, block.block))


def _without_condition(body: Stmt, realize: BlockRealize) -> Stmt:
    """The body with a block that its condition keeps from no point of its domain, without that condition."""
    free = replace(realize, predicate=TRUE)
    return rewrite(body, {BlockRealize: lambda node: free if node.block is realize.block else node})


def _pairs(before: Stmt, after: Stmt, removed: Block) -> dict[Block, Block]:
    """The correspondence of blocks: inlining keeps the order of all blocks but the removed one."""
    old = [r.block for r in inline_blocks.realizes(before) if r.block is not removed]
    new = [r.block for r in inline_blocks.realizes(after)]
    return {a: b for a, b in zip(old, new, strict=True) if a is not b}
