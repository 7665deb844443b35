"""Distinct cells: different values of a block's spatial iterators write different cells. Without it "spatial" is a
false promise. A counter-example, two iterations that write the same cell, is found by trying: it says why a step is refused, and
never allows one.

Not here: what reductions may do (``conditions.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import prod

from ....arith.evaluate import evaluate
from ....arith.index_map import IndexMap
from ....ir.buffer import BufferRegion, Range
from ....ir.build import int_value, is_int, le
from ....ir.expr import Var
from ....ir.types import Expr
from ....ir.walk import free_vars, substitute, uses_any
from ....support.errors import TypeRuleError
from ..core.refuse import Conflict, refuse
from ..core.sref import Sref, loops_of
from ..core.state import ScheduleState
from ..rewrites.rewriting import analyzer_at, iteration_map, size_vars
from .dependence import regions

MAX_POINTS = 4096
SIZE = 3
"""Value tried for a symbolic size."""


def require_distinct(state: ScheduleState, block: Sref, loop: Sref) -> None:
    """Refuse E417 when iterations of ``loop`` or of loops inside of it write one cell twice through spatial iterators
    of a block; where neither is proved the step is tested."""
    proved = distinct_cells(state, block, loop)
    if proved:
        return
    found = clash(state, block, over=loop) or clash(state, block)
    if found is not None or proved is False:
        refuse(
            "E417",
            f"spatial iterators of block {block.name} write the same cell more than once",
            "distinct cells",
            [loop, block],
            clash=found,
            nearest="declare the iterator that repeats as a reduction (T.axis.reduce)",
        )
    state.assumptions.append(f"spatial iterators of block {block.name} write different cells")


def moving_iterators(block: Sref, loop: Sref) -> dict[Var, Range]:
    """Spatial iterators of a block, with their domains, that change while ``loop`` or a loop inside of it runs."""
    around = loops_of(block)
    inside = around[around.index(loop) :] if loop in around else around
    loops = {item.loop.loop_var for item in inside}
    return {
        axis.var: axis.domain
        for axis, value in block.realize.bindings
        if axis.kind == "S" and not is_int(axis.domain.extent, 1) and uses_any(value, loops)
    }


def distinct_cells(state: ScheduleState, block: Sref, loop: Sref) -> bool | None:
    """True if different values of the spatial iterators that move inside ``loop`` write different cells: True proved, False
    refuted, None not known."""
    spatial = moving_iterators(block, loop)

    def find() -> bool | None:
        writes = regions(state, block.block)[1] if spatial else ()
        answers = [_cells_of(state, block, spatial, region) for region in writes]
        return True if all(answers) else False if any([a is False for a in answers]) else None

    return state.cached(("distinct", block.block, *spatial), find)


def _cells_of(state: ScheduleState, block: Sref, spatial: dict[Var, Range], region: BufferRegion) -> bool | None:
    used = {v for r in region.region for v in free_vars(r.min) if v in spatial}
    if len(used) < len(spatial):
        return False
    moving = [r for r in region.region if uses_any(r.min, spatial)]
    plain = [r.min for r in moving if isinstance(r.min, Var) and is_int(r.extent, 1)]
    if len(plain) == len(set(plain)) == len(spatial) == len(moving):
        return True
    ana = analyzer_at(state, block, inside=False)
    found = iteration_map([r.min for r in moving], spatial, None, ana)
    if not found:
        return _invertible(spatial, moving)
    steps = [s.args[0].scale if s.args else None for s in found.indices]
    return True if all([step is None or ana.can_prove(le(r.extent, step)) for step, r in zip(steps, moving)]) else None


def _invertible(spatial: dict[Var, Range], cells: list[Range]) -> bool | None:
    """Points of a layout with padding, such as ``(v // 64, v % 64)`` where 64 does not divide the extent."""
    if not all([is_int(r.extent, 1) for r in cells]) or not all([is_int(dom.min, 0) for dom in spatial.values()]):
        return None
    try:
        IndexMap(tuple(spatial), tuple([r.min for r in cells])).require_injective([d.extent for d in spatial.values()])
    except TypeRuleError:
        return None
    return True


def conflict_with_example(state: ScheduleState, block: Sref, over: Sref | None = None) -> Conflict | None:
    """``clash`` for a refusal that is drawn; None where the schedule draws none."""
    return clash(state, block, over) if state.draws else None


def clash(state: ScheduleState, block: Sref, over: Sref | None = None) -> Conflict | None:
    """Two iterations of the loops around a block that write the same cell (that differ in the loop ``over``, if
    given)."""
    loops = loops_of(block)
    sizes = dict.fromkeys(size_vars(state, block.func), SIZE)
    bound = dict(zip([axis.var for axis in block.block.iter_vars], block.realize.iter_values))
    _, writes = regions(state, block.block)
    extents = [int_value(sref.loop.extent, SIZE) for sref in loops]
    variables = [sref.loop.loop_var for sref in loops]
    for region in writes:
        cell = [substitute(r.min, bound) for r in region.region]
        if all([_closed(e, [*variables, *sizes]) for e in cell]):
            found = _meet(region.buffer.name, cell, variables, extents, sizes, block.realize.predicate, over)
            if found is not None:
                return found
    return None


def _closed(expr: Expr, known: Sequence[Var]) -> bool:
    return all([v in known for v in free_vars(expr)])


def _meet(
    name: str,
    cell: list[Expr],
    variables: list[Var],
    extents: list[int],
    sizes: Mapping[Var, int],
    predicate: Expr,
    over: Sref | None,
) -> Conflict | None:
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    spans = _spans(extents)
    for point in itertools.islice(itertools.product(*spans), MAX_POINTS):
        values = {**sizes, **dict(zip(variables, point))}
        if evaluate(predicate, values) == 0:
            continue
        reached = [evaluate(e, values) for e in cell]
        if any([n is None for n in reached]):
            return None
        where = tuple([int(n) for n in reached if n is not None])
        other = seen.setdefault(where, point)
        position = variables.index(over.loop.loop_var) if over is not None else None
        if other is point or (position is not None and other[position] == point[position]):
            continue
        shown = [", ".join([f"{v.name} = {n}" for v, n in zip(variables, p)]) for p in (other, point)]
        return Conflict(
            dict(zip(variables, point)), f"{shown[0]} and {shown[1]} write {name}[{', '.join([str(n) for n in where])}]"
        )
    return None


def _spans(extents: list[int]) -> list[range]:
    """Ranges to try: all of each loop, or as much of every loop as stays within ``MAX_POINTS`` together."""
    limit = max(extents, default=1)
    while limit > 2 and prod([min(n, limit) for n in extents]) > MAX_POINTS:
        limit = max(2, limit * 3 // 4)
    return [range(min(n, limit)) for n in extents]
