"""Short lines taken together: two loops over an image become one line of vectors, where the image lies in memory line after line.

A line of seven values fills less than half a vector. Where every operand moves by one element along the lines and by one step
from line to line, lanes may run on over what lies between the lines (the border of a padded image): those lanes do not count.
Part of `tile_reductions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.build import dtype_of, floordiv, floormod, int_imm, logical_and, lt
from ....ir.expr import IntImm, Var
from ....ir.stmt import Evaluate, For
from ....ir.types import Expr, prim_type
from ..analysis.loop_nests import Update, linear_step
from ..analysis.tiles import Corner, extent_of, iterators_of, operands_of

GAIN = 1.1
"""The number of further lanes that must count for lines to be taken together."""
MOST_VECTORS = 4
"""Vectors of one tile: with something between the lines the walk must fit in one, so that which lanes count is constant."""


@dataclass(slots=True)
class Walk:
    """``loop`` runs over positions; ``across`` is the loop from line to line, ``along`` that along a line; lines begin
    ``step`` positions apart."""

    loop: For
    across: For
    along: For
    step: int

    def places(self, at: Expr) -> Corner:
        """Values of both loop variables at a position."""
        step = int_imm(self.step, prim_type(dtype_of(self.loop.loop_var)))
        return {self.across.loop_var: floordiv(at, step), self.along.loop_var: floormod(at, step)}

    def inside(self, at: Expr, condition: Expr | None) -> Expr | None:
        """``condition``, and the position is on a line."""
        length = extent_of(self.along)
        if length == self.step:
            return condition
        step = int_imm(self.step, prim_type(dtype_of(self.loop.loop_var)))
        on_line = lt(floormod(at, step), length)
        return on_line if condition is None else logical_and(condition, on_line)


def _filled(count: int, length: int, lanes: int) -> float:
    """Share of lanes that count when vectors cover ``length``."""
    return count / (-(-length // lanes) * lanes)


def find_walk(update: Update, loops: list[For], along: For, lanes: int) -> Walk | None:
    """The walk over another of ``loops`` and ``along`` that fills more lanes, if there is one."""
    iterator = iterators_of(update)
    if type(along.extent) is not IntImm:
        return None
    length = extent_of(along)
    for across in loops:
        if (
            across is along
            or type(across.extent) is not IntImm
            or dtype_of(across.extent) is not dtype_of(along.extent)
        ):
            continue
        steps: set[int | None] = set()
        for load in operands_of(update):
            one, many = linear_step(load, iterator[along.loop_var]), linear_step(load, iterator[across.loop_var])
            if one == 0 and many == 0:
                continue
            steps.add(many if one == 1 else None)
        if len(steps) != 1:
            continue
        step = steps.pop()
        if step is None or step < length:
            continue
        reach = (extent_of(across) - 1) * step + length
        count = extent_of(across) * length
        if step != length and reach > MOST_VECTORS * lanes:
            continue
        if _filled(count, reach, lanes) < GAIN * _filled(length, length, lanes):
            continue
        ty = prim_type(dtype_of(along.loop_var))
        zero = int_imm(0, ty)
        loop = For(Var("position", ty), zero, int_imm(reach, ty), "serial", Evaluate(zero))
        return Walk(loop, across, along, step)
    return None
