"""Conditions between blocks: region cover, stage pipeline, compact dataflow, and whether iterations of a loop are
independent.

Each ``why_not_...`` gives None when the condition is proved, else the block at fault and the reason in words. Not here:
conditions on one block (``conditions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....arith import Analyzer
from ....arith.intset import IntSet, eval_set, of_range, union
from ....ir.buffer import Buffer, BufferRegion, Range
from ....ir.build import add, const, dtype_of, is_int, le, mul, sub
from ....ir.expr import IntImm, Var
from ....ir.scalar import LT, And, FloorDiv, FloorMod
from ....ir.types import Expr
from ....ir.walk import collect, free_vars, substitute
from ...tir.analysis.touched_regions import domains_of
from ..core.refuse import refuse
from ..core.sref import Sref, loops_of
from ..core.state import ScheduleState
from ..rewrites.rewriting import analyzer_at, iteration_map, loop_range
from .dependence import Scope, block_scope, regions, scope_of
from .enclosing import instance_key, loads_around, triangular, value_key, why_irregular
from .first_step import init_predicate
from .full_write import fills
from .layout_cover import reads_written_layout


@dataclass(slots=True, frozen=True)
class Fault:
    """A condition that does not hold (or is not proved): where, and why."""

    block: Sref
    reason: str


def common_ancestor(first: Sref, *others: Sref) -> Sref:
    """The lowest loop or block around all (their own enclosing items only)."""
    around = [set(other.above()) for other in others]
    return next((item for item in first.above() if all([item in above for above in around])), first)


def bound_region(block: Sref, region: BufferRegion) -> list[Range]:
    """A region of a block in terms of the loops around it."""
    mapping = dict(zip([axis.var for axis in block.block.iter_vars], block.realize.iter_values))
    return [Range(substitute(r.min, mapping), substitute(r.extent, mapping)) for r in region.region]


def relaxed_region(
    state: ScheduleState, block: Sref, region: BufferRegion, upto: Sref, also: Sequence[Sref] = ()
) -> list[IntSet]:
    """Box that holds a region of a block for all iterations of the loops inside ``upto`` and of the loops ``also`` (an
    over-approximation)."""
    key = ("relaxed", *_cells_key(region), _span(state, block, upto, also))
    loops = [*also, *loops_of(block, upto)]
    return list(state.cached(key, lambda: _relaxed_region(state, block, region, upto, loops)))


def box_read(
    state: ScheduleState, readers: Sequence[Sref], buffer: Buffer, upto: Sref, also: Sequence[Sref] = ()
) -> list[IntSet] | None:
    """Box that holds all cells of a buffer that some blocks read, as in ``relaxed_region``; None where they read none."""
    read = [(reader, r) for reader in readers for r in regions(state, reader.block)[0] if r.buffer is buffer]
    boxes = [relaxed_region(state, reader, r, upto, also) for reader, r in read]
    ana = analyzer_at(state, upto)
    return [union(list(axis), ana) for axis in zip(*boxes)] if boxes else None


def _cells_key(region: BufferRegion) -> tuple[Any, ...]:
    """The cells of a region, whatever the buffer, in its block's iterators."""
    return tuple([value_key(e) for r in region.region for e in (r.min, r.extent)])


def _span(state: ScheduleState, block: Sref, upto: Sref, also: Sequence[Sref]) -> tuple[Any, ...]:
    """A key of all that decides the cells that a block reaches inside ``upto`` while the loops ``also`` run too."""
    loops = [loop.loop for loop in also]
    below = None if upto.is_block else upto.loop.loop_var
    return below, *[(loop.loop_var, loop.min, loop.extent) for loop in loops], instance_key(state, block)


def _relaxed_region(
    state: ScheduleState, block: Sref, region: BufferRegion, upto: Sref, loops: Sequence[Sref]
) -> list[IntSet]:
    ana = analyzer_at(state, block)
    domains = domains_of([s.loop for s in loops], ana)
    boxes = []
    for r in bound_region(block, region):
        first = ana.simplify(r.min) if collect(r.min, (FloorDiv, FloorMod)) else r.min
        low = last = eval_set(first, domains, ana)
        if not is_int(r.extent, 1):
            last = eval_set(sub(add(first, r.extent), const(1, dtype_of(first))), domains, ana)
        moves = any([v in domains for e in (r.min, r.extent) for v in free_vars(e)])
        ends = [e if not moves or _is_defined(state, e, upto) else None for e in (low.low, last.high)]
        boxes.append(IntSet(*ends))
    return boxes


def _is_defined(state: ScheduleState, bound: Expr | None, at: Sref) -> bool:
    """True if a bound has a value where the loops around a block run not at all."""
    return bound is None or isinstance(bound, (IntImm, Var)) or is_defined(bound, lambda: analyzer_at(state, at))


def is_defined(bound: Expr, analyzer: Callable[[], Analyzer]) -> bool:
    """True if a bound divides by no size that may be zero."""
    divisors = [d.b for d in collect(bound, (FloorDiv, FloorMod)) if type(d.b) is not IntImm]
    return not divisors or all([analyzer().can_prove_greater_equal(divisor, 1) for divisor in divisors])


def exact_region(state: ScheduleState, block: Sref, region: BufferRegion, upto: Sref) -> list[IntSet] | None:
    """Box that a region of a block fills completely, no cell missing, while the loops inside ``upto`` run; None where not proved.

    A predicate that only keeps the written indices inside the buffer is left out: the box then ends at the buffer's
    bounds.
    """
    if not fills(state, block, region) or not _filled_inside(state, block, region):
        return None
    shape = region.buffer.shape
    key = ("exact", *_cells_key(region), *[value_key(dim) for dim in shape], _span(state, block, upto, ()))
    return state.cached(key, lambda: exact_box(state, block, bound_region(block, region), shape, upto))


def _filled_inside(state: ScheduleState, block: Sref, region: BufferRegion) -> bool:
    """True if one of the blocks inside a block writes all of a region, or none writes its buffer."""
    inner = [(b, w) for b in state.blocks_below(block) for w in regions(state, b.block)[1] if w.buffer is region.buffer]
    if not inner:
        return True
    wanted = [of_range(r) for r in region.region]
    ana = analyzer_at(state, block)
    for other, write in inner:
        box = exact_region(state, other, write, block)
        if box is not None and covers(ana, box, wanted, region.buffer.shape):
            return True
    return False


def exact_box(
    state: ScheduleState, block: Sref, bound: Sequence[Range], shape: Sequence[Expr], upto: Sref
) -> list[IntSet] | None:
    """``exact_region`` of ranges given in terms of the loops around a block, inside a space of the given shape."""
    ana = analyzer_at(state, block)
    loops = loops_of(block, upto)
    if triangular(loops) is not None or why_irregular(state, block) is not None:
        return None
    ranges = {s.loop.loop_var: loop_range(s.loop) for s in loops}
    moving = {v for r in bound for e in (r.min, r.extent) for v in free_vars(e)}
    still = [s.loop for s in loops if s.loop.loop_var not in moving]
    predicate: Expr | None = init_predicate(
        ana, block.realize.predicate, {}, still
    )  # one step that fills the region is enough
    if is_int(predicate, 1) or _only_clips(ana, predicate, bound, shape):  # type: ignore[arg-type]
        predicate = None
    elif any([v not in ranges for v in free_vars(predicate)]):  # type: ignore[arg-type]
        return None
    found = iteration_map([r.min for r in bound], ranges, predicate, analyzer_at(state, upto), "onto")
    if not found or not found.exact:
        return None
    boxes: list[IntSet] = []
    for s, r in zip(found.indices, bound):
        one = const(1, dtype_of(r.min))
        if not s.args:
            boxes.append(IntSet(s.base, sub(add(s.base, r.extent), one)))
            continue
        step = s.args[0].scale
        ends = [s.base, add(s.base, mul(sub(s.args[0].extent, one), step))]
        if not ana.can_prove(le(one, step)):  # from the last cell to the first
            ends, step = ends[::-1], ana.simplify(sub(const(0, dtype_of(step)), step))
        if len(s.args) > 1 or not ana.can_prove(le(one, step)) or not ana.can_prove(le(step, r.extent)):
            return None
        boxes.append(IntSet(ana.simplify(ends[0]), ana.simplify(sub(add(ends[1], r.extent), one))))
    return boxes


def _only_clips(ana: Analyzer, predicate: Expr, bound: Sequence[Range], shape: Sequence[Expr]) -> bool:
    """True if the predicate is a conjunction of ``index < dimension`` over the given region."""
    if isinstance(predicate, And):
        return _only_clips(ana, predicate.a, bound, shape) and _only_clips(ana, predicate.b, bound, shape)
    if not isinstance(predicate, LT):
        return False
    gap = sub(predicate.b, predicate.a)
    return any([ana.can_prove_equal(sub(dim, r.min), gap) for r, dim in zip(bound, shape)])


def runs_whole_domain(state: ScheduleState, block: Sref) -> bool:
    """True if it is proved that the loops around a block run every value of its iterators (whose domains begin at zero)."""
    axes = block.block.iter_vars
    domains = [axis.domain for axis in axes if is_int(axis.domain.min, 0)]
    if len(domains) != len(axes):
        return False
    extents = [dom.extent for dom in domains]
    bound = [Range(value, const(1, dtype_of(value))) for value in block.realize.iter_values]
    upto = scope_of(block)
    box = exact_box(state, block, bound, extents, upto)
    wanted = [of_range(dom) for dom in domains]
    return box is not None and covers(analyzer_at(state, upto), box, wanted, extents)


def covers(ana: Analyzer, outer: Sequence[IntSet], inner: Sequence[IntSet], shape: Sequence[Expr]) -> bool:
    """True if one box contains the other, as far as that lies inside a shape."""
    for big, small, dim in zip(outer, inner, shape):
        if big.low is None or big.high is None:
            return False
        zero, last = const(0, dtype_of(dim)), sub(dim, const(1, dtype_of(dim)))
        low_ok = (small.low is not None and ana.can_prove(le(big.low, small.low))) or ana.can_prove(le(big.low, zero))
        high_ok = (small.high is not None and ana.can_prove(le(small.high, big.high))) or ana.can_prove(
            le(last, big.high)
        )
        if not low_ok or not high_ok:
            return False
    return True


def why_not_covered(state: ScheduleState, consumer: Sref) -> Fault | None:
    """Region cover: what a block reads of buffers written in its scope was written before, in the iteration that reads
    it."""
    scope = block_scope(state, consumer)
    producers = scope.producers(consumer)
    key = ("cover", *[(block.block, instance_key(state, block)) for block in (consumer, *producers)])
    reason = state.cached(key, lambda: _why_not_covered(state, consumer, producers))
    return None if reason is None else Fault(consumer, reason)


def _why_not_covered(state: ScheduleState, consumer: Sref, producers: list[Sref]) -> str | None:
    around = loads_around(state, consumer)
    for producer in producers if around else ():
        shared = common_ancestor(producer, consumer)
        both = [b for b in around if b in block_scope(state, consumer).writes[producer]]
        if both and not shared.is_block:
            return f"block {consumer.name} runs as {both[0].name} says, which block {producer.name} writes in loop {shared.name}"
    for read in regions(state, consumer.block)[0]:
        writers = [(p, w) for p in producers for w in regions(state, p.block)[1] if w.buffer is read.buffer]
        if not writers:
            continue
        if not any([_covered(state, consumer, read, p, w) for p, w in writers]):
            names = ", ".join([p.name for p, _ in writers])
            return (
                f"it is not proved that block {names} writes all of {read.buffer.name} that block {consumer.name} reads"
            )
    return None


def _covered(state: ScheduleState, consumer: Sref, read: BufferRegion, producer: Sref, write: BufferRegion) -> bool:
    meet = common_ancestor(producer, consumer)
    made = exact_region(state, producer, write, meet)
    if made is None:
        return reads_written_layout(state, consumer, read, producer, write, loops_of(producer, meet))
    wanted = relaxed_region(state, consumer, read, meet)
    shape = read.buffer.shape
    key = ("covers", *[e and value_key(e) for box in (made, wanted) for part in box for e in (part.low, part.high)],
           *[value_key(dim) for dim in shape], None if meet.is_block else meet.loop.loop_var)  # fmt: skip
    return state.cached(key, lambda: covers(analyzer_at(state, meet), made, wanted, shape))


def why_no_stage_pipeline(state: ScheduleState, scope: Sref) -> Fault | None:
    """Stage pipeline: every block of a scope reads only what earlier blocks wrote completely; nothing is written after
    it was read."""
    blocks = state.blocks_below(scope)
    if not blocks:
        return None
    known = block_scope(state, blocks[0])
    for block in blocks:
        fault = _why_written_after_read(known, block, known.after(block)) or why_not_covered(state, block)
        if fault is not None:
            return fault
    return None


def _why_written_after_read(known: Scope, block: Sref, later: Sequence[Sref], where: str = "") -> Fault | None:
    """A later block that writes one of the buffers that a block reads (other than those it writes itself)."""
    read = [buffer for buffer in known.reads[block] if buffer not in known.writes[block]]
    late = next(((other, buffer) for other in later for buffer in read if buffer in known.writes[other]), None)
    if late is None:
        return None
    return Fault(block, f"block {late[0].name} writes {late[1].name} after block {block.name} read it{where}")


def require_stage_pipeline(state: ScheduleState, at: Sref) -> None:
    """Refuse E415 unless the scope that ``at`` stands in is a stage pipeline."""
    fault = why_no_stage_pipeline(state, scope_of(at))
    if fault is not None:
        refuse(
            "E415",
            fault.reason,
            "stage pipeline",
            fault.block,
            "cache_write gives a block that writes again a buffer of its own; else take this step before blocks are moved",
        )


def _writers_disjoint(state: ScheduleState, loop: Sref, blocks: Sequence[Sref]) -> Fault | None:
    """If several blocks inside a loop write a buffer, one of them must write all that the others do in the same iteration."""
    known = block_scope(state, blocks[0])
    for buffer in dict.fromkeys([b for block in blocks for b in known.writes[block]]):
        writers = [(b, w) for b in blocks for w in regions(state, b.block)[1] if w.buffer is buffer]
        if len({b for b, _ in writers}) < 2:
            continue
        key = ("apart", *[value_key(dim) for dim in buffer.shape],
               *[(b.block, *_cells_key(w), *_span(state, b, loop, ())) for b, w in writers])  # fmt: skip
        if not state.cached(key, partial(_one_writes_all, state, loop, writers)):
            names = ", ".join(dict.fromkeys([b.name for b, _ in writers]))
            return Fault(
                writers[-1][0], f"blocks {names} write {buffer.name}, not proved to the same cells in each iteration"
            )
    return None


def _one_writes_all(state: ScheduleState, loop: Sref, writers: Sequence[tuple[Sref, BufferRegion]]) -> bool:
    """True if one of the blocks writes all cells that the others write in an iteration."""
    ana = analyzer_at(state, loop)
    boxes = [relaxed_region(state, b, w, loop) for b, w in writers]
    for index, (block, region) in enumerate(writers):
        made = exact_region(state, block, region, loop)
        others = boxes[:index] + boxes[index + 1 :]
        if made is not None and all([covers(ana, made, box, region.buffer.shape) for box in others]):
            return True
    return False


def why_not_independent(state: ScheduleState, loop: Sref) -> Fault | None:
    """Independent iterations: inside a loop nothing is read that another iteration writes, as far as blocks of the
    scope say."""
    blocks = state.blocks_below(loop)
    if len(blocks) < 2:
        return None
    known = block_scope(state, blocks[0])
    inside = set(blocks)
    fault = _writers_disjoint(state, loop, blocks)
    if fault is not None:
        return fault
    for block in blocks:
        later = [b for b in known.after(block) if b in inside]
        fault = _why_written_after_read(known, block, later, ", in one loop")
        if fault is None and any([p in inside for p in known.producers(block)]):
            fault = why_not_covered(state, block)
        if fault is not None:
            return fault
    return None
