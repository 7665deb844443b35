"""Distinct cells: different values of a block's spatial iterators write different cells. Without it "spatial" is a
false promise.

Not here: what reductions may do (``conditions.py``).
"""

from __future__ import annotations

from ....arith.index_map import IndexMap
from ....ir.buffer import BufferRegion, Range
from ....ir.build import is_int, le
from ....ir.expr import Var
from ....ir.walk import free_vars, uses_any
from ....support.errors import TypeRuleError
from ..core.refuse import refuse
from ..core.sref import Sref, loops_of
from ..core.state import ScheduleState
from ..rewrites.rewriting import analyzer_at, iteration_map
from .cell_conflicts import clash
from .dependence import regions


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
