"""Counter-examples on cells: two iterations that write the same cell of a buffer, found by trying.

Not here: proofs. Used to say why a step is refused, never to allow one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import prod

from ....arith.evaluate import evaluate
from ....ir.build import int_value
from ....ir.expr import Var
from ....ir.types import Expr
from ....ir.walk import free_vars, substitute
from ..core.refuse import Conflict
from ..core.sref import Sref, loops_of
from ..core.state import ScheduleState
from ..rewrites.rewriting import size_vars
from .dependence import regions

MAX_POINTS = 4096
SIZE = 3
"""Value tried for a symbolic size."""


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
