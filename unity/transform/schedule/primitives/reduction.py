"""decompose_reduction: the initialisation of a reduction becomes a block of its own."""

from __future__ import annotations

from ....ir.analysis import block_regions
from ....ir.buffer import BufferRegion
from ....ir.node import replace as with_fields
from ....ir.stmt import AllocBuffer, Block, BlockRealize, Stmt, seq
from ....ir.types import Expr
from ....ir.walk import collect, free_vars, fresh_copy, substitute
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, LoopRef, Sref, block_of, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import require_no_repetition, require_reduction, same_region
from ..preconditions.dependence import block_scope
from ..preconditions.distinct import require_distinct
from ..preconditions.first_step import init_predicate
from ..rewrites.rewriting import analyzer_at, copied_nest, loop_copies


@primitive(
    checks=(
        "reduction block",
        "loop around the block",
        "above all reduction loops",
        "distinct cells",
        "not read before",
        "allocated outside of the loop",
    ),
    rewrite="block C with T.init()  ->  block C_init before the loop, block C_update without T.init()",
    example='block = sch.get_block("C")\ni, j, k = sch.get_loops(block)\ninit = sch.decompose_reduction(block, k)',
)
def decompose_reduction(state: ScheduleState, block: BlockRef, loop: LoopRef) -> BlockRef:
    """Move the initialisation of a reduction into a block before ``loop``. Returns that block.

    It is named ``<name>_init``, in copies of ``loop`` and of the loops inside it that spatial iterators use; the old block becomes
    ``<name>_update``. Raises ScheduleError E412 unless the block is a reduction block, E427 unless ``loop`` is around it and no
    reduction loop is outside ``loop``.
    """
    require_reduction(state, block)
    loops = loops_of(block)
    if loop not in loops:
        refuse(
            "E427",
            f"loop {loop.name} is not around block {block.name}",
            "loop around the block",
            [loop, block],
            f"one of its own loops: {', '.join([s.name for s in loops]) or 'it has none'}",
        )
    old, realize = block.block, block.realize
    depth = loops.index(loop)
    reducing = [v for axis, v in realize.bindings if axis.kind == "R"]
    spatial = [v for axis, v in realize.bindings if axis.kind != "R"]
    for outer in loops[:depth]:
        if any([outer.loop.loop_var in free_vars(v) for v in reducing]):
            refuse(
                "E427", f"loop {outer.name} drives a reduction iterator and is outside of {loop.name}",
                "above all reduction loops", [outer, loop],
                f"sch.decompose_reduction({block.name}, {outer.name}), or reorder the reduction loops inside",
            )  # fmt: skip
    require_no_repetition(block, loops[depth:])
    _require_unread(state, block, loop)
    own = {s.buffer for s in collect(loop.loop, AllocBuffer)}
    if not own.isdisjoint(block_scope(state, block).writes[block]):
        refuse(
            "E427", f"what {block.name} writes is allocated inside loop {loop.name}", "allocated outside of the loop",
            [loop, block], "give a loop inside of the allocation, or take this step before parallel",
        )  # fmt: skip
    if any([loop.loop.loop_var in free_vars(v) for loop in loops[depth:] for v in spatial]):
        require_distinct(state, block, loop)
    init = _init_nest(state, block, loops[depth:], spatial, reducing)
    state.change(block, name=f"{old.name}_update", init=None, reads=reads_of_update(old))
    state.replace(loop, seq(init, loop.loop))
    return state.sref(block.func, block_of(init))


def _require_unread(state: ScheduleState, block: Sref, loop: Sref) -> None:
    """Refuse E427 when a block inside the loop reads the result before the reduction: it would see the initial value
    instead."""
    scope = block_scope(state, block)
    inside = set(state.blocks_below(loop))
    for other in scope.before(block):
        if other in inside and not set(scope.writes[block]).isdisjoint(scope.reads[other]):
            refuse(
                "E427", f"block {other.name} reads what {block.name} writes, earlier inside loop {loop.name}",
                "not read before", [loop, other],
                f"a loop inside of {loop.name}, or reverse_compute_at of {other.name}",
            )  # fmt: skip


def _init_nest(state: ScheduleState, block: Sref, loops: list[Sref], spatial: list[Expr], reducing: list[Expr]) -> Stmt:
    """The initialisation in copies of the loops that spatial iterators use."""
    old, realize = block.block, block.realize
    used = {v for e in spatial for v in free_vars(e)}
    mixed = {v for e in reducing for v in free_vars(e)}
    copies, mapping = loop_copies([sref.loop for sref in loops], used, "_init")
    gone = [sref.loop for sref in loops if sref.loop.loop_var not in used]
    predicate = init_predicate(analyzer_at(state, loops[0], inside=False), realize.predicate, mapping, gone)
    axes = tuple([axis for axis in old.iter_vars if axis.kind != "R"])
    assert old.init is not None
    made = Block(axes, None, None, (), (), {}, f"{old.name}_init", old.init)
    if old.writes is not None:
        made = with_fields(made, reads=block_regions(made, derive=True)[0], writes=old.writes)
    made = fresh_copy(made)
    realized = BlockRealize(tuple([substitute(v, mapping) for v in spatial]), predicate, made)
    return copied_nest(copies, mapping, realized, mixed)


def reads_of_update(block: Block) -> tuple[BufferRegion, ...] | None:
    """Declared reads of a reduction without its initialisation: the cells that are updated are among them."""
    if block.reads is None or block.writes is None:
        return block.reads
    return (*[w for w in block.writes if not any([same_region(w, r) for r in block.reads])], *block.reads)
