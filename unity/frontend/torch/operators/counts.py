"""Table entries: what comes most often, histograms, reductions of segments, places of elements in tables of a given size.

Not here: equal elements (``unique.py``), sums over axes (``reduce.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import op
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    axis_of,
    dtype_of,
    is_float,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
    to_dim,
)
from .index import has_none
from .scatter import reduced
from .shape import cut


@aten("mode.default")
def _mode(c: Context, a: Args) -> Result:
    """The smallest of the elements that come most often, and its last place. A NaN equals no other."""
    rank = rank_of(a.self)
    if rank == 0:
        return [a.self, number(0, "int64")]
    refuse(has_none(a.self), "an empty tensor")
    axis, last = axis_of(a.dim, rank), rank - 1
    order = [*[n for n in range(rank) if n != axis], axis]
    kind = dtype_of(a.self)
    lines = c.emit(op.permute_dims(c.cast(a.self, "int32") if kind == "bool" else a.self, axes=order))
    places = c.emit(op.argsort(lines, axis=last, dtype="int64"))
    values = c.emit(op.gather_elements(lines, places, axis=last))
    ends = c.emit(op.searchsorted(values, values, right=True))
    counts = ends - op.searchsorted(values, values)
    own = op.arange(0, shape_of(lines)[-1], 1, dtype="int64")
    if is_float(values):
        alone = c.emit(op.isnan(values))
        counts = op.where(alone, 1, counts)
        ends = c.emit(op.where(alone, own + 1, ends))
    first = c.emit(op.astype(op.argmax(c.emit(counts), axis=last, keepdims=True), "int64"))
    end = op.gather_elements(ends, first, axis=last) - 1
    found = [
        op.gather_elements(values, first, axis=last),
        op.gather_elements(places, end, axis=last),
    ]
    back = [*range(axis), last, *range(axis, last)]
    made = [op.permute_dims(t, axes=back) if a.keepdim else op.squeeze(t, axis=[last]) for t in found]
    return [c.cast(made[0], kind), made[1]]


# ---- histograms


def _range(c: Context, x: Expr, given: Any, bins: int) -> Expr:
    """Edges of equal bins between two numbers, by default the least and the most; one wide where these are equal."""
    if given is None:
        low, high = c.emit(op.min(x)), c.emit(op.max(x))
    else:
        low, high = number(given[0], c.dtype), number(given[1], c.dtype)
    half = op.where(op.equal(low, high), number(0.5, c.dtype), number(0, c.dtype))
    low, high = c.emit(low - half), c.emit(high + half)
    line = number(np.arange(bins + 1), c.dtype)
    step = c.emit((high - low) / number(bins, c.dtype))
    back = number(np.arange(bins, -1, -1), c.dtype)
    ahead, behind = low + line * step, high - back * step
    return c.emit(op.where(op.constant(np.arange(bins + 1) < (bins + 1) / 2), ahead, behind))


def _counted(c: Context, columns: Sequence[Expr], edges: Sequence[Expr], weight: Any, density: bool) -> Expr:
    """The number of rows in each box of a grid; the last box of an axis contains its upper edge."""
    sizes = [static(shape_of(e)[0], "the number of bins") - 1 for e in edges]
    index: Expr = number(0, "int64")
    kept: Expr | None = None
    for x, edge, size in zip(columns, edges, sizes):
        last = cut(edge, 0, size, 1)
        inside = op.logical_and(op.greater_equal(x, cut(edge, 0, 0, 1)), op.less_equal(x, last))
        kept = inside if kept is None else op.logical_and(kept, inside)
        place = op.searchsorted(edge, x, right=True) - 1
        place = op.minimum(op.maximum(place, 0), number(size - 1, "int64"))
        index = index * number(size, "int64") + place
    assert kept is not None
    amount = number(1, c.dtype) if weight is None else c.reshape(weight, shape_of(columns[0]))
    added = op.where(kept, amount, 0)
    total = op.zeros([math.prod(sizes)], c.dtype)
    made = c.emit(op.scatter_elements(total, c.emit(index), added, axis=0, reduction="add"))
    made = c.emit(c.reshape(made, sizes))
    if not density:
        return made
    made = made / op.sum(made)
    for n, (edge, size) in enumerate(zip(edges, sizes)):
        width = cut(edge, 0, 1, size) - cut(edge, 0, 0, size)
        made = made / c.reshape(width, [size if k == n else 1 for k in range(len(sizes))])
    return made


@aten("histogram.bin_ct", "histogram.bins_tensor")
def _histogram(c: Context, a: Args) -> Result:
    refuse(has_none(a.self), "an empty tensor")
    x = c.emit(c.reshape(a.self, [product(shape_of(a.self))]))
    edges = _range(c, x, getattr(a, "range", None), a.bins) if isinstance(a.bins, int) else c.emit(a.bins)
    return [_counted(c, [x], [edges], a.weight, bool(a.density)), edges]


def _columns(c: Context, x: Expr) -> list[Expr]:
    """The coordinates of points, given along the last axis."""
    width = static(shape_of(x)[-1], "the number of coordinates")
    rows = c.emit(c.reshape(x, [product(shape_of(x)[:-1]), width]))
    return [c.emit(c.reshape(cut(rows, 1, n, 1), shape_of(rows)[:1])) for n in range(width)]


def _all_edges(c: Context, columns: Sequence[Expr], a: Args) -> list[Expr]:
    ranges = [None] * len(columns) if a.range is None else [a.range[2 * n : 2 * n + 2] for n in range(len(columns))]
    return [_range(c, x, given, bins) for x, given, bins in zip(columns, ranges, a.bins)]


@aten("_histogramdd_bin_edges.default")
def _edges(c: Context, a: Args) -> Result:
    refuse(has_none(a.self), "an empty tensor")
    return _all_edges(c, _columns(c, a.self), a)


@aten("_histogramdd_from_bin_cts.default", "_histogramdd_from_bin_tensors.default")
def _grid(c: Context, a: Args) -> Expr:
    refuse(has_none(a.self), "an empty tensor")
    columns = _columns(c, a.self)
    edges = _all_edges(c, columns, a) if hasattr(a, "range") else [c.emit(e) for e in a.bins]
    return _counted(c, columns, edges, a.weight, bool(a.density))


# ---- segments and tables of a given size


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
