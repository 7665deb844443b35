"""compute_at and reverse_compute_at: run a producer or a consumer inside a loop of the other, for the cells of one
iteration.

Source: the primitives of the same names in Halide and TVM. Invariant: a block moves with its iterators, regions and
body unchanged; only the loops around it and its bindings are new.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith import Analyzer
from ....arith.intset import IntSet, union
from ....ir.buffer import Buffer, BufferRegion
from ....ir.build import is_int
from ....ir.node import replace as with_fields
from ....ir.stmt import NOTHING, SeqStmt, Stmt, statements_of
from ....ir.walk import free_vars
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, LoopRef, Sref, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import (
    iter_map,
    region_vars,
    require_not_empty,
    require_regular,
    why_not_affine,
    why_not_complete_or_reduction,
)
from ..preconditions.coverage import (
    box_read,
    covers,
    exact_region,
    relaxed_region,
    require_stage_pipeline,
    runs_whole_domain,
)
from ..preconditions.dependence import Scope, block_scope, regions, scope_of
from ..preconditions.domains import Domains, nest_of, solve
from ..preconditions.enclosing import loads_around
from ..preconditions.independence import require_kinds
from ..rewrites.moving import move, position_of
from ..rewrites.rewriting import analyzer_at, takes_all

_CHECKS = ("same scope", "loop not around the block", "stage pipeline", "complete or reduction block", "whole domain")


@primitive(
    checks=(*_CHECKS, "no output block", "all consumers under the loop"),
    rewrite="for i, j: B[i, j] = ...; for i, j: C[i, j] = f(B[i, j])  ->  for i, j: { B[i, j] = ...; C[i, j] = f(B[i, j]) }",
    example='i, j = sch.get_loops(sch.get_block("D"))\nsch.compute_at(sch.get_block("C"), i)',
)
def compute_at(
    state: ScheduleState, block: BlockRef, loop: LoopRef, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a producer into a loop that contains all its consumers, and compute in each iteration only the cells they read there.

    New loops ``ax0``, ``ax1``, ... over these cells replace the producer's own. Cells that two iterations read are computed twice.
    ``index``: position in the loop's body; -1 is as late as possible (before the first consumer), -2 as early as possible (after
    the last producer). ``preserve_unit_loops``: keep loops of one iteration. Raises ScheduleError E430 to E436.
    """
    scope = _require_movable(state, block, loop)
    if scope.is_output(block):
        refuse("E432", f"block {block.name} writes a buffer that is not allocated in its scope", "no output block",
               block, "move its consumers with reverse_compute_at, or cache_write first")  # fmt: skip
    consumers = scope.consumers(block)
    outside = [c for c in consumers if loop not in c.above()]
    if outside or not consumers:
        what = (
            f"its consumer {outside[0].name} is not under loop {loop.name}"
            if outside
            else "nothing reads what it writes"
        )
        refuse(
            "E433",
            f"block {block.name}: {what}",
            "all consumers under the loop",
            [block, *outside[:1]],
            f"a loop around {outside[0].name}, or compute_at of {outside[0].name} first"
            if outside
            else "an unread block may stay where it is",
        )
    for consumer in consumers:
        if not set(scope.writes[block]).isdisjoint(loads_around(state, consumer)):
            require_regular(state, consumer)
    if block.block.init is not None or not is_int(block.realize.predicate, 1):
        _require_whole_domain(state, block)  # else an instance more than before changes nothing that anyone reads
    position = _place(scope, loop, scope.producers(block), consumers, index)
    ana = analyzer_at(state, loop)
    domains: Domains = {}
    for written in regions(state, block.block)[1]:
        box = box_read(state, consumers, written.buffer, loop, _threads(loop, written.buffer))
        if box is not None:
            for var, part in solve(block.block.iter_vars, written, box, ana).items():
                domains[var] = union([domains[var], part], ana) if var in domains else part
    written_count = len({w.buffer for w in regions(state, block.block)[1]})
    _settle(
        state,
        block,
        loop,
        domains if written_count == 1 else _shared(state, block, domains),
        ana,
        position,
        preserve_unit_loops,
    )


@primitive(
    checks=(*_CHECKS, "producers under the loop", "reduction finished", "reads what is there"),
    rewrite="for i, j: B[i, j] = ...; for i, j: C[i, j] = f(B[i, j])  ->  for i, j: { B[i, j] = ...; C[i, j] = f(B[i, j]) }",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nsch.reverse_compute_at(sch.get_block("D"), j)',
)
def reverse_compute_at(
    state: ScheduleState, block: BlockRef, loop: LoopRef, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a consumer into a loop of its producers, and run it in each iteration for the cells that are finished there.

    ``index``: position in the loop's body; -1 is as late as possible, -2 directly after the last producer. ``preserve_unit_loops``:
    keep loops of one iteration. Raises ScheduleError E430 to E437.
    """
    scope = _require_movable(state, block, loop)
    producers = [p for p in scope.producers(block) if loop in p.above()]
    if not producers:
        known = ", ".join([p.name for p in scope.producers(block)])
        refuse(
            "E433",
            f"no block under loop {loop.name} writes what block {block.name} reads",
            "producers under the loop",
            [loop, block],
            f"a loop around a producer: {known}" if known else "nothing in its scope feeds it: it stays where it is",
        )
    _require_whole_domain(state, block)
    first = next(b for b in scope.blocks if loop in b.above())
    for producer in scope.producers(block):
        if loop in producer.above():
            _require_finished(producer, loop)
        elif producer not in scope.before(first):
            refuse("E433", f"block {producer.name} writes what block {block.name} reads, and stands after loop {loop.name}",
                   "producers under the loop", [loop, producer],
                   f"move {producer.name} under the loop first")  # fmt: skip
    later = [c for c in scope.consumers(block) if loop in c.above()]
    position = _place(scope, loop, producers, later, index)
    ana = analyzer_at(state, loop)
    domains: Domains = {}
    boxes: list[tuple[BufferRegion, list[IntSet]]] = []
    for read in regions(state, block.block)[0]:
        box = _provided(state, read.buffer, producers, loop)
        if box is not None:
            boxes.append((read, box))
            for var, part in solve(block.block.iter_vars, read, box, ana).items():
                domains[var] = part if var not in domains else _same_part(state, block, domains[var], part, ana)
    if block.block.init is not None:
        _require_once(state, block, producers, loop)
    _settle(state, block, loop, domains, ana, position, preserve_unit_loops)
    if not runs_whole_domain(state, block):
        state.assumptions.append(
            f"block {block.name} still runs for all of its domain: every cell it reads is read by it"
        )
    for read, box in boxes:
        inside = relaxed_region(state, block, read, loop)
        if not covers(analyzer_at(state, loop), box, inside, read.buffer.shape):
            refuse("E435", f"block {block.name} reads cells of {read.buffer.name} that loop {loop.name} has not computed yet",
                   "reads what is there", [loop, block],
                   "move it to a loop further out, or compute_at the producer instead")  # fmt: skip


# ---- conditions


def _require_movable(state: ScheduleState, block: Sref, loop: Sref) -> Scope:
    if scope_of(loop) is not scope_of(block):
        refuse(
            "E430",
            f"loop {loop.name} and block {block.name} stand in different blocks",
            "same scope",
            [loop, block],
            "take this step before blockize, or move the blocks inside one outer block",
        )
    if loop in block.above():
        refuse("E430", f"block {block.name} stands under loop {loop.name} already", "loop not around the block",
               [loop, block],
               "a loop that does not hold the block yet")  # fmt: skip
    require_stage_pipeline(state, block)
    reason = why_not_complete_or_reduction(state, block)
    if reason is not None:
        refuse(
            "E431",
            reason,
            "complete or reduction block",
            block,
            "take this step before decompose_reduction, or declare what repeats as T.axis.reduce, with T.init()",
        )
    return block_scope(state, block)


def _require_whole_domain(state: ScheduleState, block: Sref) -> None:
    """The loops run every instance of the block: only then may other loops replace them."""
    ana = analyzer_at(state, block, inside=False)
    found = iter_map(state, block)
    for index, axis in enumerate(block.block.iter_vars):
        if not (found and found.exact and takes_all(found.indices[index], axis.domain, ana)):
            reason = f": {found.errors[0]}" if found.errors else ""
            refuse("E436", f"it is not proved that the loops around block {block.name} run all of iterator {axis.var.name}{reason}",
                   "whole domain", block,
                   "split with factors that divide, or take this step before the loops are split")  # fmt: skip


def _require_finished(producer: Sref, loop: Sref) -> None:
    """No loop outside of (or equal to) ``loop`` goes on with a reduction of the producer."""
    values = [v for axis, v in producer.realize.bindings if axis.kind == "R"]
    used = {v for value in values for v in free_vars(value)}
    for outer in (loop, *[s for s in loop.above() if not s.is_block]):
        if outer.loop.loop_var in used:
            refuse("E434", f"loop {outer.name} drives the reduction of block {producer.name}: its result is complete only after it",
                   "reduction finished", [outer, producer],
                   "reorder the reduction loops inside, or move to a loop further out")  # fmt: skip


def _require_once(state: ScheduleState, block: Sref, producers: Sequence[Sref], loop: Sref) -> None:
    """A reduction may run each instance once only: the producers' cells must not be computed twice."""
    for producer in producers:
        driven = {v for value in producer.realize.iter_values for v in free_vars(value)}
        for outer in loops_of(producer):
            if outer.loop.loop_var not in driven and not is_int(outer.loop.extent, 1):
                refuse("E437", f"loop {outer.name} repeats block {producer.name}: {block.name} would count its cells twice",
                       "each cell once", [outer, block],
                       f"a loop inside of {outer.name}")  # fmt: skip
        reason = why_not_affine(state, producer)
        if reason is not None:
            refuse(
                "E437",
                f"the reduction {block.name} might count a cell twice: {reason}",
                "each cell once",
                block,
                "take this step before the loops of the producer are fused or split",
            )


# ---- regions


def _threads(loop: Sref, buffer: Buffer) -> list[Sref]:
    """Loops around (and including) ``loop`` bound to threads that share the buffer: one iteration serves all of
    them."""
    rank = 0 if buffer.scope == "global" else 1 if buffer.scope.startswith("shared") else 2
    found = []
    for at in (loop, *[s for s in loop.above() if not s.is_block]):
        thread = at.loop.thread or ""
        if at.loop.kind == "thread_binding" and rank <= (0 if thread.startswith("blockIdx") else 1):
            found.append(at)
    return found


def _provided(state: ScheduleState, buffer: Buffer, producers: Sequence[Sref], loop: Sref) -> list[IntSet] | None:
    """Box of the cells that one iteration completes; refused where it is not known exactly."""
    for producer in producers:
        for written in regions(state, producer.block)[1]:
            if written.buffer is not buffer:
                continue
            box = exact_region(state, producer, written, loop)
            if box is None:
                refuse("E435", f"which cells of {buffer.name} block {producer.name} computes in an iteration is not known exactly",
                       "reads what is there", [loop, producer],
                       "a loop further out, or compute_at of the producer instead")  # fmt: skip
            return box
    return None


def _same_part(state: ScheduleState, block: Sref, a: IntSet, b: IntSet, ana: Analyzer) -> IntSet:
    """Two buffers read by one block must offer the same instances."""
    for x, y in ((a.low, b.low), (a.high, b.high)):
        if x is None or y is None or not ana.can_prove_equal(x, y):
            refuse("E435", f"the buffers that block {block.name} reads are computed in different order",
                   "reads what is there", block,
                   "a loop further out, in which both are complete")  # fmt: skip
    return a


def _shared(state: ScheduleState, block: Sref, domains: Domains) -> Domains:
    """Domains of a block with several outputs: only what every output determines."""
    inside = [set(region_vars(w)) for w in regions(state, block.block)[1]]
    return {var: part for var, part in domains.items() if all([var in used for used in inside])}


# ---- the move


def _place(scope: Scope, loop: Sref, before: Sequence[Sref], after: Sequence[Sref], index: int) -> int:
    """The position of the block in the loop's body. Refuses E433 for an index that is too early or too late."""
    stmts = statements_of(loop.loop.body)
    first = max(
        [position_of(stmts, b.block) for b in before if loop in b.above()] or [-1], key=lambda k: -1 if k is None else k
    )
    last = min([k for b in after if (k := position_of(stmts, b.block)) is not None] or [len(stmts)])
    low = (-1 if first is None else first) + 1
    if index == -1:
        return last
    if index == -2:
        return low
    if not low <= index <= last:
        refuse("E433", f"place {index} in loop {loop.name} is not from {low} (after producers) to {last} (before consumers)",
               "after producers, before consumers", loop,
               "index=-1 is as late as possible, index=-2 as early as possible")  # fmt: skip
    return index


def _settle(
    state: ScheduleState,
    block: Sref,
    loop: Sref,
    domains: Domains,
    ana: Analyzer,
    position: int,
    preserve_unit_loops: bool,
) -> None:
    """Put the block, in loops over its domains, into the body of ``loop``."""
    around = [loop, *loops_of(loop)]
    require_not_empty(state, loop, around)
    nest, _ = nest_of(block.block.iter_vars, block.block, domains, ana, preserve_unit_loops)
    stmts = statements_of(loop.loop.body)
    body: Stmt = SeqStmt((*stmts[:position], nest, *stmts[position:]))
    scope = scope_of(loop)
    move(state, scope, [(block.realize, NOTHING), (loop.loop, with_fields(loop.loop, body=body))])
    require_kinds(state, loop)
