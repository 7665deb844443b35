"""Distinct cells: different values of a block's spatial iterators write different cells. Without it "spatial" is a
false promise.

Not here: what reductions may do (``conditions.py``).
"""

from __future__ import annotations

from ...arith.itermap import detect_iter_map
from ...ir.buffer import BufferRegion, Range
from ...ir.build import is_int, le
from ...ir.expr import Var
from ...ir.walk import free_vars
from .clash import clash
from .dependence import regions
from .refuse import refuse
from .rewriting import analyzer_at
from .sref import Sref
from .state import ScheduleState


def require_distinct(state: ScheduleState, block: Sref, loop: Sref | None = None) -> None:
    """Refuse E417 when spatial iterators of a block write one cell twice; where neither is proved the step is
    tested."""
    proved = distinct_cells(state, block)
    if proved:
        return
    found = clash(state, block, over=loop)
    if found is not None or proved is False:
        refuse(
            "E417", f"spatial iterators of block {block.name} write the same cell more than once", condition="distinct cells",
            at=[block] if loop is None else [loop, block], clash=found,
            nearest="declare the iterator that repeats as a reduction (T.axis.reduce)",
        )  # fmt: skip
    state.assumptions.append(f"spatial iterators of block {block.name} write different cells")


def distinct_cells(state: ScheduleState, block: Sref) -> bool | None:
    """Do different values of the spatial iterators write different cells: True proved, False refuted, None not
    known."""
    key = ("distinct", block.block)
    if key not in state.cache:
        state.cache[key] = _distinct_cells(state, block)
    return state.cache[key]  # type: ignore[no-any-return]


def _distinct_cells(state: ScheduleState, block: Sref) -> bool | None:
    spatial = {
        a.var: a.dom
        for a in block.block.iter_vars
        if a.kind == "S" and a.dom is not None and not is_int(a.dom.extent, 1)
    }
    if not spatial:
        return True
    answers = [_cells_of(state, block, spatial, region) for region in regions(state, block.block)[1]]
    if not answers:
        return True
    return True if all(answers) else False if any([a is False for a in answers]) else None


def _cells_of(state: ScheduleState, block: Sref, spatial: dict[Var, Range], region: BufferRegion) -> bool | None:
    mins = [r.min for r in region.region]
    plain = [m for m in mins if isinstance(m, Var) and m in spatial]
    used = {v for m in mins for v in free_vars(m) if v in spatial}
    if len(used) < len(spatial):
        return False
    if len(plain) == len(set(plain)) == len(spatial) and all([is_int(r.extent, 1) for r in region.region]):
        return True
    others = [m for m in mins if not any([v in spatial for v in free_vars(m)])]
    indices = [m for m in mins if m not in others]
    ana = analyzer_at(state, block, inside=False)
    found = detect_iter_map(indices, spatial, None, "surjective", ana)
    if not found:
        return None
    extents = [r.extent for r in region.region if r.min in indices]
    steps = [s.args[0].scale if s.args else None for s in found.indices]
    apart = [step is None or ana.can_prove(le(extent, step)) for step, extent in zip(steps, extents)]
    return True if all(apart) else None
