"""Table entries: reductions of segments, places of elements in tables of a given size.

Not here: equal elements (``unique.py``), sums over axes (``reduce.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    aten,
    number,
    shape_of,
    static,
    to_dim,
)
from .index import has_none
from .scatter import reduced
from .shape import cut


@aten("segment_reduce.default")
def _segments(c: Context, a: Args) -> Expr:
    """Runs along an axis joined, whose lengths or first places are given for each line; an empty run is ``initial`` or what changes
    nothing."""
    *lead, count = shape_of(a.data)[: a.axis + 1]
    lines, inner = product(lead), c.shape[a.axis + 1 :]
    segments = c.shape[a.axis]
    if a.lengths is not None:
        ends: Expr = op.cumsum(c.cast(a.lengths, "int64"), axis=a.axis)
    else:
        ends = cut(c.cast(a.offsets, "int64"), a.axis, 1, segments)
    place = c.broadcast(op.arange(0, count, 1, dtype="int64"), [lines, count])
    owner: Expr = op.searchsorted(c.reshape(ends, [lines, segments]), place, right=True)
    each = segments + 1  # the last takes what belongs to no segment
    first = op.arange(0, lines, 1, dtype="int64") * c.cast(each, "int64")
    rows, total = lines * each, lines * count
    owner = c.emit(c.reshape(owner + c.reshape(first, [lines, 1]), [total]))

    def kept(made: Expr, rest: Sequence[Any]) -> Expr:
        return c.reshape(cut(c.emit(c.reshape(made, [lines, each, *rest])), 1, 0, segments), [*lead, segments, *rest])

    how = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}[a.reduce]
    start = {"sum": 0, "mean": 0, "max": -math.inf, "min": math.inf, "prod": 1}[a.reduce]
    start = start if a.initial is None else a.initial
    base = c.broadcast(number(start, c.dtype), [rows, *inner])
    spread = c.broadcast(c.reshape(owner, [total, *([1] * len(inner))]), [total, *inner])
    made = kept(reduced(c, base, 0, spread, c.reshape(a.data, [total, *inner]), how, True), inner)
    if a.reduce != "mean":
        return made
    ones = op.ones((total,), c.dtype)
    size: Expr = op.scatter_elements(op.zeros((rows,), c.dtype), owner, ones, axis=0, reduction="add")
    size = kept(size, [1] * len(inner))
    empty = op.equal(size, 0)
    nothing = number(math.nan if a.initial is None else a.initial, c.dtype)
    return op.where(empty, nothing, made / size)


@aten("nonzero_static.default")
def _nonzero_static(c: Context, a: Args) -> Expr:
    """The first places that are not 0 in a table of a given number of rows, the rest filled."""
    rows = static(to_dim(a.size), "the number of rows")
    shape = shape_of(a.self)
    if rows == 0 or not shape or has_none(a.self):
        return c.broadcast(number(a.fill_value, "int64"))
    total = product(shape)
    flat = c.emit(c.cast(c.reshape(op.not_equal(a.self, 0), [total]), "int64"))
    rank = op.cumsum(flat, axis=0) - 1
    hit = op.logical_and(op.equal(flat, 1), op.less(c.emit(rank), number(rows, "int64")))
    target = c.emit(op.where(hit, rank, number(rows, "int64")))
    line = op.arange(0, total, 1, dtype="int64")
    begun = op.full([rows + 1], number(-1, "int64"), "int64")
    found = c.emit(cut(op.scatter_elements(begun, target, line, axis=0), 0, 0, rows))
    missing = c.emit(op.less(found, 0))
    columns, rest = [], found
    for size in reversed(shape):
        extent = c.cast(size, "int64")
        columns.append(op.where(missing, number(a.fill_value, "int64"), op.floor_mod(rest, extent)))
        rest = c.emit(rest // extent)
    return op.stack(columns[::-1], axis=1)
