"""Short lines taken together: two loops over an image become one line of vectors, where the image lies in memory line after line.

A line of seven values fills less than half a vector. Where every operand moves by one element along the lines and by one step
from line to line, lanes may run on over what lies between the lines (the border of a padded image): those lanes do not count. With
something between the lines, or a condition that places of a line meet, a tile has whole lines, so that it is constant which lanes
count and meet it. Part of `tile_reductions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ....ir.build import add, dtype_of, floordiv, floormod, int_imm, logical_and, lt
from ....ir.expr import Call, IntImm, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import Evaluate, For
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, used_vars
from ...tir.analysis.loop_nests import Nest, is_choice, linear_step, slope
from ..common.choices import choose
from ..common.tile_shape import tile_cost, tile_rows
from .tiles import Corner, extent_of

GAIN = 1.1
"""Cycles of line after line by those of lines together from which on they are, where they take no more vectors."""
MOST_VECTORS, MOST_LINES = 4, 16
"""Vectors and lines of a tile of whole lines, at most."""
MOST_BORDERED = 16
"""The same vectors, where lines that lie side by side meet a condition."""


@dataclass(slots=True)
class Walk:
    """``loop`` runs over positions; ``across`` is the loop from line to line, ``along`` that along a line; lines begin ``step``
    positions apart. ``lines``: of a tile; 0 where tiles begin and end anywhere."""

    loop: For
    across: For
    along: For
    step: int
    lines: int

    @property
    def tiled(self) -> For:
        """The loop that tiles go along."""
        return self.across if self.lines else self.loop

    def width(self, size: int) -> int:
        """Positions of a tile of ``size`` turns of that loop."""
        return (size - 1) * self.step + extent_of(self.along) if self.lines else size

    def places(self, at: Expr, first: Expr | None) -> Corner:
        """Values of both loop variables at a position; ``first`` is the first line of the tile, where it has whole lines."""
        step = int_imm(self.step, prim_type(dtype_of(self.loop.loop_var)))
        line = floordiv(at, step)
        return {
            self.across.loop_var: line if first is None else add(first, line),
            self.along.loop_var: floormod(at, step),
        }

    def inside(self, at: Expr, condition: Expr | None) -> Expr | None:
        """``condition``, and the position is on a line."""
        length = extent_of(self.along)
        if length == self.step:
            return condition
        step = int_imm(self.step, prim_type(dtype_of(self.loop.loop_var)))
        on_line = lt(floormod(at, step), length)
        return on_line if condition is None else logical_and(condition, on_line)


def step_of(nest: Nest, across: For, along: For) -> int | None:
    """Positions from line to line, the same for all operands; None where lines cannot be taken together."""
    if across is along or type(across.extent) is not IntImm or type(along.extent) is not IntImm:
        return None
    if dtype_of(across.extent) is not dtype_of(along.extent):
        return None
    steps: set[int | None] = set()
    for load in nest.operands:
        one, many = [linear_step(load, nest.iterator[loop.loop_var].var) for loop in (along, across)]
        if one != 0 or many != 0:
            steps.add(many if one == 1 else None)
    step = steps.pop() if len(steps) == 1 else None
    return step if step is not None and step >= extent_of(along) else None


def runs_on(load: BufferLoad, across: Var) -> BufferLoad | None:
    """A read of a line whose last index runs on into the lines behind it, with the indices of the cells there; ``across`` is the
    iterator of lines. None where these are not those of the last but one axis."""
    if len(load.indices) < 2 or load.buffer.strides or not slope(load.indices[-2], across):
        return None
    *first, line, place = load.indices
    width = load.buffer.shape[-1]
    return replace(load, indices=(*first, add(line, floordiv(place, width)), floormod(place, width)))


def _run_on(nest: Nest, across: For, lines_apart: bool) -> bool:
    """True if what moves from line to line can be read behind a line as well."""
    var = nest.iterator[across.loop_var].var
    return not lines_apart or all([runs_on(load, var) for load in nest.operands if nest.stride(load, across)])


def _in_groups(
    count: int, lines: int, length: int, step: int, lanes: int, rows: int, registers: int
) -> tuple[float, int]:
    """The cycles of a step and the vectors of ``count`` lines, so many together, and ``rows`` rows."""
    cost, vectors = 0.0, 0
    for times, together in ((count // lines, lines), (1, count % lines)):
        if times and together:
            width = -(-((together - 1) * step + length) // lanes)
            cost, vectors = cost + times * tile_rows(rows, width, registers)[0], vectors + times * width
    return cost, vectors


def meets_condition(nest: Nest, loop: For) -> bool:
    """True if a value depends on a condition that a loop meets: the border of an image."""
    choices = [call for call in collect(nest.store.value, Call) if is_choice(call)]
    return any([nest.iterator[loop.loop_var].var in used_vars(call.args[0]) for call in choices])


def find_walk(
    nest: Nest,
    loops: list[For],
    along: For,
    lanes: int,
    registers: int,
    rows: Callable[[For | None], int],
) -> Walk | None:
    """The walk over another of ``loops`` and ``along``, as many lines together as take the fewest cycles, or as was decided.
    ``rows`` gives the rows that tiles share out where a loop is taken."""
    length, best, is_bordered = extent_of(along), None, meets_condition(nest, along)
    for across in loops:
        step = step_of(nest, across, along)
        if step is None or meets_condition(nest, across) or not _run_on(nest, across, step > length):
            continue
        count, height = extent_of(across), rows(across)
        widest = MOST_VECTORS if step > length else MOST_BORDERED
        most = min(count, MOST_LINES, max(1, (widest * lanes - length) // step + 1))
        options: tuple[int, ...] = tuple(range(2, most + 1))
        if step > length or is_bordered:
            found = [(*_in_groups(count, n, length, step, lanes, height, registers), n) for n in (1, *options)]
        else:
            options = (count,)
            found = [(tile_cost(height, count * length, lanes, registers)[0], -(-count * length // lanes), count)]
        alone = count * -(-length // lanes)
        cost, lines = min([(cost if vectors <= alone else math.inf, lines) for cost, vectors, lines in found])
        if best is None or cost / (count * height) < best[0]:
            best = cost / (count * height), lines, options, across, step
    if best is None:
        return None
    cost, lines, options, across, step = best
    height = rows(None)
    own = lines if cost * GAIN <= tile_cost(height, length, lanes, registers)[0] / height else 0
    lines = choose(nest.block, "walk", (0, *options), own)
    if not lines:
        return None
    ty = prim_type(dtype_of(along.loop_var))
    zero, reach = int_imm(0, ty), (lines - 1) * step + length
    loop = For(Var("position", ty), zero, int_imm(reach, ty), "serial", Evaluate(zero))
    return Walk(loop, across, along, step, lines if step > length or is_bordered else 0)
