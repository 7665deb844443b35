"""Loops over tiles: what the passes that tile reductions share. The content of a tile is theirs.

A tile has a corner (a value for each loop variable of the nest) and a size along each tiled loop. Where the size does not divide
the extent, the rest is a tile of its own, so that no tile needs conditions; a symbolic rest is covered by smaller and smaller
tiles, along vectors by single vectors and one whose lanes are limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....ir.build import add, ceildiv, dtype_of, floordiv, floormod, int_imm, int_value, is_int, minimum, mul, sub
from ....ir.expr import IntImm, Var
from ....ir.node import replace
from ....ir.scalar import Div, FloorDiv, FloorMod, Mod
from ....ir.stmt import For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, fresh_copy
from ...tir.analysis.loop_nests import Nest, cell_nest
from ...tir.analysis.parallel_cost import SHARED_WORK, is_few, store_work
from ..common.choices import choose
from ..common.tile_shape import UNKNOWN

MOST_SHARED = 3
"""Loops that threads share together, at most."""

Corner = dict[Var, Expr]
"""Value of each loop variable at the first cell of a tile."""


@dataclass(slots=True, frozen=True)
class Piece:
    """Cells of a tile along a loop; ``limit``: how many of them count, where that is not known to be all."""

    size: int
    limit: Expr | None = None


def extent_of(loop: For) -> int:
    """The constant extent of a loop; `UNKNOWN` for a symbolic one."""
    return int_value(loop.extent, UNKNOWN)


def shared_loops(nest: Nest, order: Sequence[For]) -> list[For]:
    """The loops over tiles, outermost first, that threads share together: by its own choice where there is enough work the first
    that turns, with the next where it has few turns. A symbolic extent counts as 64."""
    turning = [loop for loop in order if not is_int(loop.extent, 1)]
    large = store_work(nest.store) * math.prod([extent_of(loop) for loop in nest.loops]) >= SHARED_WORK
    own = min(len(turning), 2 if turning and is_few(turning[0].extent) else 1) if large else 0
    return turning[: choose(nest.block, "parallel", range(min(MOST_SHARED, len(turning)) + 1), own)]


def _may_fail(value: Expr) -> bool:
    """Integer division by what is not a constant: not to be tried in lanes that do not count."""
    divisions = collect(value, (Div, Mod, FloorDiv, FloorMod))
    return any([not dtype_of(d).is_float and (type(d.b) is not IntImm or d.b.value == 0) for d in divisions])


def reduction_nest(stmt: Stmt) -> Nest | None:
    """The nest over one reduction block that a statement is, of numbers that vectors of lanes hold; None for any other."""
    nest = cell_nest(stmt)
    if nest is None or nest.block.init is None or not nest.of_kind("R"):
        return None
    dtype = nest.store.buffer.dtype
    return None if dtype.bits < 8 or dtype.lanes != 1 or dtype.is_bool or _may_fail(nest.store.value) else nest


def loop_order(loops: Sequence[For], nest: Nest) -> list[For]:
    """Loops over tiles from the outside in: first those that move in the largest operand, so that it is read once."""
    if not nest.operands:
        return list(loops)
    largest = max(nest.operands, key=lambda load: math.prod([int_value(n, UNKNOWN) for n in load.buffer.shape]))
    return sorted(loops, key=lambda loop: nest.stride(largest, loop) == 0)


def _parts(loop: For, size: int, lanes: int, bordered: bool) -> list[tuple[Expr, Expr, Piece]]:
    """(how many, first cell, piece) that cover a loop; ``lanes``: of one vector, for the loop that becomes vectors; ``bordered``:
    its first tile and its last stand alone, as their cells meet other conditions."""
    ty = prim_type(dtype_of(loop.loop_var))
    if type(loop.extent) is IntImm:
        whole, rest = divmod(loop.extent.value, size)
        first = int(bordered and whole > 1)
        last = int(bordered and whole > 2 and not rest)
        counts = [(first, 0, size), (whole - first - last, first, size), (last, whole - 1, size), (1, whole, rest)]
        return [(int_imm(n, ty), int_imm(at * size, ty), Piece(cells)) for n, at, cells in counts if n and cells]
    parts: list[tuple[Expr, Expr, Piece]] = []
    done: Expr = int_imm(0, ty)
    left: Expr = loop.extent
    while size >= max(1, lanes):
        width = int_imm(size, ty)
        count = floordiv(left, width)
        parts.append((count, done, Piece(size)))
        done, left = add(done, mul(count, width)), floormod(left, width)
        size = size // 2 if not lanes else lanes if size > lanes else 0
    if lanes:
        parts.append((minimum(left, int_imm(1, ty)), done, Piece(lanes, left)))
    return parts


def over_tiles(
    order: Sequence[For],
    sizes: Mapping[For, int],
    shared: Sequence[For],
    leaf: Callable[[Corner, dict[For, Piece]], Stmt],
    vectors: tuple[For, int] | None = None,
    bordered: Sequence[For] = (),
) -> Stmt:
    """Loops over tiles with ``leaf(corner, piece by loop)`` inside; threads share the ``shared`` loops.
    ``vectors``: the loop that becomes vectors, and their lanes; ``bordered``: loops whose first
    and last tiles stand alone."""
    corner: Corner = {}
    pieces: dict[For, Piece] = {}

    def write(position: int) -> Stmt:
        if position == len(order):
            return leaf(dict(corner), dict(pieces))
        loop = order[position]
        kind = "parallel" if loop in shared else "serial"
        size = sizes.get(loop)
        if size is None:
            corner[loop.loop_var] = loop.loop_var
            return replace(loop, body=write(position + 1), kind=kind)
        parts: list[Stmt] = []
        ty = prim_type(dtype_of(loop.loop_var))
        lanes = vectors[1] if vectors is not None and vectors[0] is loop else 0
        for count, first, piece in _parts(loop, size, lanes, loop in bordered and kind == "serial"):
            tile = Var(f"{loop.loop_var.name}_tile", ty)
            once = is_int(count, 1)
            corner[loop.loop_var] = first if once else add(first, mul(tile, int_imm(piece.size, ty)))
            pieces[loop] = piece
            body = write(position + 1)
            parts.append(body if once else For(tile, int_imm(0, ty), count, kind, body))
        return seq(*[fresh_copy(part) for part in parts])

    return write(0)


def split_loop(loop: For, size: int, name: str = "chunk") -> tuple[For, For, Expr]:
    """A loop from 0 as a loop over chunks of ``size`` steps, one over the steps of a chunk, and what the loop variable is there."""
    ty = prim_type(dtype_of(loop.loop_var))
    chunk, here, most = Var(name, ty), Var(loop.loop_var.name, ty), int_imm(size, ty)
    start = mul(chunk, most)
    whole = type(loop.extent) is IntImm and loop.extent.value % size == 0
    inner = replace(loop, loop_var=here, extent=most if whole else minimum(most, sub(loop.extent, start)))
    return replace(loop, loop_var=chunk, extent=ceildiv(loop.extent, most)), inner, add(start, here)


def nested(loops: Sequence[For], body: Stmt) -> Stmt:
    """The loops, outermost first, around a body."""
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body
