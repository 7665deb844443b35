"""Tensor programs of Winograd's algorithm for 3x3 convolutions with channels last: tiles of an image and of a result transformed.

F(m x m, 3 x 3) gives m x m results of each overlapping tile of (m + 2) x (m + 2) elements: both are transformed by small constant
matrices, between them stands one matrix product over channels for each of the (m + 2)^2 places of a tile. Not here: the graph
around the programs, the weights (``transform/relax/layout/winograd.py``).

Source: Lavin, Gray, "Fast algorithms for convolutional neural networks", CVPR 2016 (points 0, 1, -1 and, for m = 4, 2, -2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import te
from ...ir.function import PrimFunc
from ...ir.types import Expr
from .base import mark_scheduled, program_of, schedule_of


@dataclass(slots=True, frozen=True)
class Matrices:
    """``Y = after . ((before . d . before^T) * (kernel . g . kernel^T)) . after^T`` for a tile d and a kernel g."""

    before: np.ndarray
    kernel: np.ndarray
    after: np.ndarray


MATRICES = {
    2: Matrices(
        np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]),
        np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]) / 2,
        np.array([[1, 1, 1, 0], [0, 1, -1, -1]]),
    ),
    4: Matrices(
        np.array([
            [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ]),
        np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24,
        np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]),
    ),
}  # fmt: skip
"""By the side m of a tile of results."""
DTYPE = "float32"


def _combined(rows: np.ndarray, row: te.Value, term: Callable[[int], te.Value]) -> te.Value:
    """The combination of terms with the coefficients of a row, which is known where the loop over rows is unrolled."""
    made = []
    for coefficients in rows.tolist():
        parts = [term(k) if c == 1 else term(k) * te.const(float(c), DTYPE) for k, c in enumerate(coefficients) if c]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        made.append(total)
    chosen = made[-1]
    for k in range(len(made) - 2, -1, -1):
        chosen = te.select(row == k, made[k], chosen)
    return chosen


def tiles_of_image(shape: Sequence[Expr], padding: Sequence[int], tiles: Sequence[int], m: int, lanes: int) -> Any:
    """``(batch, H, W, C)`` -> ``(m + 2, m + 2, batch, tiles.., C)``: the program and its symbols. ``padding``: before H and W."""
    before, side = MATRICES[m].before, m + 2
    x = te.placeholder(shape, DTYPE, "x")
    batch, height, width, channels = x.shape

    def bordered(b: te.Value, i: te.Value, j: te.Value, c: te.Value) -> te.Value:
        i, j = i - padding[0], j - padding[1]
        inside = te.all(i >= 0, i < te.Value(height), j >= 0, j < te.Value(width))
        return te.if_then_else(inside, x[b, i, j, c], te.const(0, DTYPE))

    whole = te.compute((batch, tiles[0] * m + 2, tiles[1] * m + 2, channels), bordered, "padded")
    half = te.compute(
        (side, side, batch, *tiles, channels),
        lambda r, j, b, p, q, c: _combined(before, r, lambda i: whole[b, p * m + i, q * m + j, c]),
        "half",
    )
    made = te.compute(
        (side, side, batch, *tiles, channels),
        lambda r, s, b, p, q, c: _combined(before, s, lambda j: half[r, j, b, p, q, c]),
        "transformed",
    )
    func, symbols = te.create_prim_func_with_symbols([x, made], attrs={"tir.noalias": True})
    return _scheduled(func, "transformed", (2, 3, 4), lanes), symbols


def result_of_tiles(shape: Sequence[Expr], m: int, lanes: int) -> Any:
    """``(m + 2, m + 2, batch, tiles.., C)`` -> ``(batch, tiles of H, m, tiles of W, m, C)``: the program and its symbols."""
    after = MATRICES[m].after
    x = te.placeholder(shape, DTYPE, "x")
    _, side, batch, high, wide, channels = x.shape
    half = te.compute(
        (m, side, batch, high, wide, channels),
        lambda r, j, b, p, q, c: _combined(after, r, lambda i: x[i, j, b, p, q, c]),
        "half",
    )
    made = te.compute(
        (batch, high, m, wide, m, channels),
        lambda b, p, r, q, s, c: _combined(after, s, lambda j: half[r, j, b, p, q, c]),
        "result",
    )
    func, symbols = te.create_prim_func_with_symbols([x, made], attrs={"tir.noalias": True})
    return _scheduled(func, "result", (0, 1, 3), lanes), symbols


def _scheduled(func: PrimFunc, last: str, outer: Sequence[int], lanes: int) -> PrimFunc:
    """A tile at a time, in vectors of channels: the first combination stays in registers, both are written out."""
    sch = schedule_of(func)
    block = sch.get_block(last)
    loops = sch.get_loops(block)
    places, inner = [loops[k] for k in outer], [loops[k] for k in range(5) if k not in outer]
    groups, lane = sch.split(loops[5], [None, lanes])
    sch.reorder(*places, groups, *inner, lane)
    half = sch.get_block("half")
    sch.compute_at(half, groups)
    sch.set_scope(half, 0, "local")
    *_, first, second, wide = sch.get_loops(half)
    for loop in (*inner, first, second):
        sch.unroll(loop)
    for loop in (lane, wide):
        sch.vectorize(loop)
    sch.parallel(sch.fuse(*places[:2]))
    for copy in sch.get_producers(half):
        *rows, columns = sch.get_loops(copy)
        sch.vectorize(sch.split(columns, [None, lanes])[1])
        sch.parallel(sch.fuse(*rows))
    return mark_scheduled(program_of(sch))


__all__ = ["MATRICES", "Matrices", "result_of_tiles", "tiles_of_image"]
