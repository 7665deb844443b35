"""Conditions on blocks, by the names refusals use: complete block, reduction block, affine binding, and the iterators a
loop drives.

Each ``why_not_...`` gives None when the condition holds, else the reason in words; ``require_...`` refuses. Not here:
conditions on several blocks of a scope (``coverage.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith.itermap import IterMap
from ....ir.buffer import BufferRegion
from ....ir.build import ge, int_value, is_int
from ....ir.expr import IntImm, Var
from ....ir.stmt import AllocBuffer, AllocConst, BlockRealize, DeclBuffer, SeqStmt, While
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import free_vars, uses_any
from ..core.refuse import refuse
from ..core.sref import Sref, inner_statements, loops_of
from ..core.state import ScheduleState
from ..rewrites.rewriting import analyzer_at, iteration_map, loop_range
from .dependence import block_scope, regions
from .distinct import conflict_with_example
from .enclosing import instance_key, why_irregular


def iter_map(state: ScheduleState, block: Sref, within: Sref | None = None, check: str = "surjective") -> IterMap:
    """Normal form of a block's bindings over the loops around it, from ``within`` inwards where one is given (its truth
    value: they are quasi-affine and independent; ``check`` as for ``detect_iter_map``)."""
    key = ("affine", check, within and within.loop.loop_var, instance_key(state, block))

    def find() -> IterMap:
        loops = loops_of(block)
        loops = loops[loops.index(within) :] if within is not None else loops
        ranges = {s.loop.loop_var: loop_range(s.loop) for s in loops}
        ana = analyzer_at(state, block, inside=False)
        return iteration_map(block.realize.iter_values, ranges, block.realize.predicate, ana, check)

    return state.cached(key, find)


def check_of(block: Sref) -> str:
    """The check of a block's bindings, as for ``detect_iter_map``: what writes the same values again needs no part of a loop that
    it does not use, a reduction would add them again."""
    again = block.block.init is None and all([axis.kind == "S" for axis in block.block.iter_vars])
    return "onto" if again else "surjective"


def why_not_affine(state: ScheduleState, block: Sref, within: Sref | None = None) -> str | None:
    """Affine binding: each iterator is an independent quasi-affine expression of the loops. With a loop it may also be one while
    what is outside of it stands still."""
    loops = {s.loop.loop_var for s in loops_of(block)}
    values = block.realize.iter_values
    plain = [v for v in values if isinstance(v, Var)]
    trivial = len(set(plain)) == len(plain) and all(
        [v in loops if isinstance(v, Var) else type(v) is IntImm for v in values]
    )
    if trivial and is_int(block.realize.predicate, 1):
        return None
    found = iter_map(state, block)
    if within is not None and not found and iter_map(state, block, within):
        return None
    return None if found else f"block {block.name} is bound by expressions that are not affine: {found.errors[0]}"


def why_not_complete(state: ScheduleState, block: Sref, dominant: bool = True) -> str | None:
    """Complete block: all iterators spatial, the only writer of its outputs in its scope, reading none of what it
    writes."""
    irregular = why_irregular(state, block)
    if irregular is not None:
        return irregular
    for axis in block.block.iter_vars:
        if axis.kind != "S":
            return f"iterator {axis.var.name} of block {block.name} is not spatial"
    if dominant and (reason := _why_not_alone(state, block)) is not None:
        return reason
    reads, writes = regions(state, block.block)
    written = {w.buffer for w in writes}
    for region in reads:
        if region.buffer in written:
            return f"block {block.name} reads {region.buffer.name}, which it writes"
    return None


def why_not_reduction(state: ScheduleState, block: Sref) -> str | None:
    """Reduction block: has an initialisation, affine binding, spatial and reduction iterators only, the only writer of
    its outputs, and no reduction iterator selects the cell written."""
    if block.block.init is None:
        return f"block {block.name} has no initialisation"
    return why_not_update(state, block)


def why_not_update(state: ScheduleState, block: Sref, dominant: bool = True, within: Sref | None = None) -> str | None:
    """As a reduction block, but the initialisation may stand elsewhere (after decompose_reduction): every step combines
    into the cell it reads. ``within``: as for ``why_not_affine``."""
    irregular = why_irregular(state, block)
    if irregular is not None:
        return irregular
    for axis in block.block.iter_vars:
        if axis.kind not in ("S", "R"):
            return f"iterator {axis.var.name} of block {block.name} is {axis.kind}"
    reason = why_not_affine(state, block, within)
    if reason is not None:
        return reason
    if dominant and (reason := _why_not_alone(state, block)) is not None:
        return reason
    reductions = {axis.var for axis in block.block.iter_vars if axis.kind == "R"}
    writes = regions(state, block.block)[1]
    for region in writes:
        used = [v for v in region_vars(region) if v in reductions]
        if used:
            return f"reduction iterator {used[0].name} selects the cell of {region.buffer.name} that is written"
    return why_other_cells(state, block)


def why_other_cells(state: ScheduleState, block: Sref) -> str | None:
    """A block that reads other cells of a buffer than it writes: what it finds there depends on the order of its instances."""
    reads, writes = regions(state, block.block)
    for region in reads:
        targets = [w for w in writes if w.buffer is region.buffer]
        if targets and not any([same_region(region, w) for w in targets]):
            return f"block {block.name} reads other cells of {region.buffer.name} than it writes"
    return None


def require_own_cells(state: ScheduleState, block: Sref) -> None:
    """Refuse E411 where a block reads other cells of a buffer than it writes."""
    reason = why_other_cells(state, block)
    if reason is not None:
        refuse(
            "E411",
            reason,
            "independent instances",
            block,
            clash=conflict_with_example(state, block),
            nearest="a recurrence runs in order: leave its loops as they are, or write each step into a buffer of its own",
        )


def why_not_complete_or_reduction(state: ScheduleState, block: Sref) -> str | None:
    """Complete block, or reduction block (the reason of the one that is nearer)."""
    complete = why_not_complete(state, block)
    if complete is None:
        return None
    reduces = block.block.init is not None or any([axis.kind == "R" for axis in block.block.iter_vars])
    reduction = why_not_reduction(state, block)
    return None if reduction is None else reduction if reduces else complete


def require_complete(state: ScheduleState, block: Sref) -> None:
    """Refuse E411 unless the block is complete."""
    reason = why_not_complete(state, block)
    if reason is not None:
        refuse("E411", f"{block.name} is not a complete block: {reason}", "complete block", block,
               "take this step before decompose_reduction, or on a block that alone writes its buffer")  # fmt: skip


def require_reduction(state: ScheduleState, block: Sref) -> None:
    """Refuse E412 unless the block is a reduction block."""
    reason = why_not_reduction(state, block)
    if reason is not None:
        found = conflict_with_example(state, block)
        refuse(
            "E412", f"{block.name} is not a reduction block: {reason}", "reduction block", block,
            clash=found,
            nearest="take this step before decompose_reduction; declare what repeats as T.axis.reduce, with T.init()",
        )  # fmt: skip


def require_affine(state: ScheduleState, block: Sref, within: Sref | None = None, repeats: bool = True) -> None:
    """Refuse E413 unless the block's binding is affine; with a loop, while what is outside of it stands still. A block that
    ``repeats`` and has spatial iterators alone need not use every part of a loop."""
    check = check_of(block) if repeats else "surjective"
    reason = why_not_affine(state, block)
    if reason is not None and not any([iter_map(state, block, at, check) for at in {None, within}]):
        found = conflict_with_example(state, block)
        refuse(
            "E413", reason, "affine binding", block, clash=found,
            nearest="split with factors that divide, and fuse only loops that were split from one",
        )  # fmt: skip


def require_regular(state: ScheduleState, block: Sref) -> None:
    """Refuse E418 unless a block runs in every iteration of its loops (that its predicate lets through), whatever the data."""
    reason = why_irregular(state, block)
    if reason is not None:
        refuse("E418", reason, "regular loops", block,
               "put the condition or the load into the block")  # fmt: skip


def require_blocks_only(at: Sref) -> None:
    """Refuse E418 when something other than blocks does work inside a loop: its order is not known to be free."""
    pending = list(inner_statements(at.node)) if at.node is not None else []
    while pending:
        stmt = pending.pop()
        if type(stmt) is BlockRealize or type(stmt) in _DECLARATIONS:
            continue
        inner = inner_statements(stmt)
        if type(stmt) is While or (not inner and type(stmt) is not SeqStmt):
            refuse(
                "E418", f"a {type(stmt).__name__} stands inside {at.name} outside of every block", "blocks only", at,
                "put the statement into a block",
            )  # fmt: skip
        pending.extend(inner)


_DECLARATIONS = (AllocBuffer, AllocConst, DeclBuffer)


def require_complete_values(state: ScheduleState, blocks: Sequence[Sref], over: Sref | None = None) -> None:
    """Refuse E415 when one of the blocks reads the result of another inside a loop that still reduces into it; with ``over``,
    inside that loop."""
    known = block_scope(state, blocks[0])
    inside = set(blocks)
    for block in blocks:
        for producer in known.producers(block):
            around = set(loops_of(producer)) if producer in inside else set()
            for loop in [s for s in loops_of(block) if s in around and over in (None, s)]:
                if any([kind == "R" for kind, _ in iterators_driven(producer, loop)]):
                    refuse(
                        "E415", f"block {block.name} would read {producer.name} before loop {loop.name} completes its reduction",
                        "complete values", [block, producer],
                        f"reorder the reduction loops of {producer.name} inside of {loop.name}",
                    )  # fmt: skip


def idle_loops(block: Sref, loops: Sequence[Sref]) -> list[Sref]:
    """Loops of more than one iteration that no iterator of a block uses: the block does all its work again in each."""
    used = {v for value in block.realize.iter_values for v in free_vars(value)}
    return [s for s in loops if s.loop.loop_var not in used and not is_int(s.loop.extent, 1)]


def require_no_repetition(block: Sref, loops: Sequence[Sref]) -> None:
    """Refuse E414 when one of the loops starts a block's reduction anew in each iteration: its initialisation belongs inside."""
    idle = idle_loops(block, loops)
    if idle and block.block.init is not None:
        refuse("E414", f"loop {idle[0].name} does the reduction of block {block.name} again in every iteration",
               "no repetition", [idle[0], block], "give a loop inside of it")  # fmt: skip


def require_not_empty(state: ScheduleState, inside: Sref, loops: Sequence[Sref]) -> None:
    """Refuse E419 when one of the loops drives the reduction of a block inside ``inside`` that still has its initialisation,
    and may have no iteration: a reduction over nothing gives the initial value, which only a plain nest of its loops does."""
    for block in state.blocks_below(inside):
        if block.block.init is None:
            continue
        for loop in loops:
            runs = (int_value(loop.loop.extent) or 0) > 0
            if runs or all([kind != "R" for kind, _ in iterators_driven(block, loop)]):
                continue
            if not analyzer_at(state, loop, inside=False).can_prove(ge(loop.loop.extent, 1)):
                refuse(
                    "E419", f"loop {loop.name} may have no iteration: block {block.name} would not be initialised",
                    "reduction not empty", [loop, block], f"decompose_reduction of {block.name} first",
                )  # fmt: skip


def _why_not_alone(state: ScheduleState, block: Sref) -> str | None:
    """Another block of the scope that writes a buffer this block writes, in words."""
    scope = block_scope(state, block)
    for buffer in scope.writes.get(block, ()):
        for writer in scope.writers(buffer):
            if writer is not block:
                return f"block {writer.name} writes {buffer.name} too"
    return None


def region_vars(region: BufferRegion) -> list[Var]:
    """Variables in the bounds of a region."""
    return [v for r in region.region for e in (r.min, r.extent) for v in free_vars(e)]


def same_region(a: BufferRegion, b: BufferRegion) -> bool:
    """Structurally the same cells of the same buffer."""
    if a.buffer is not b.buffer:
        return False
    return all(
        [structural_equal(x.min, y.min) and structural_equal(x.extent, y.extent) for x, y in zip(a.region, b.region)]
    )


def iterators_driven(block: Sref, loop: Sref) -> list[tuple[str, Expr]]:
    """(kind, value) of the block's iterators whose value uses the loop."""
    var = loop.loop.loop_var
    return [(axis.kind, value) for axis, value in block.realize.bindings if uses_any(value, (var,))]
