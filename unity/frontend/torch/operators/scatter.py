"""Table entries: writing elements at positions given by index tensors."""

from __future__ import annotations

import math
from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import product, put_at
from ..context.context import (
    Args,
    Context,
    aten,
    axis_of,
    dtype_of,
    has_none,
    is_float,
    number,
    rank_of,
    refuse,
    shape_of,
    to_dim,
)
from .index import at_least_vector, counted_mask_indices, is_mask
from .shape import permute, slice_axis

_REDUCTIONS = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "add",
}


def _fitted(x: Expr, index: Expr) -> Expr:
    """The part of a source an index of smaller extents reads."""
    for axis, size in enumerate(shape_of(index)):
        if shape_of(x)[axis] is not size:
            x = slice_axis(x, axis, 0, size)
    return x


def _write(c: Context, x: Expr, axis: int, index: Expr, updates: Expr, how: str) -> Expr:
    """scatter_elements for torch's forms: scalars, empty indices."""
    if has_none(index):
        return x
    result = op.scatter_elements(at_least_vector(c, x), index, updates, axis=axis, reduction=how)
    return result if rank_of(x) else c.reshape(result, [])


@aten("scatter.src", "scatter_add.default", "scatter.reduce")
def _scatter(c: Context, a: Args) -> Expr:
    index, source = at_least_vector(c, a.index), at_least_vector(c, a.src)
    how = _REDUCTIONS[a.reduce] if hasattr(a, "reduce") else "add" if "add" in c.node_target else "update"
    return _write(c, a.self, axis_of(a.dim, a.self), index, _fitted(source, index), how)


@aten("scatter.value", "scatter.value_reduce")
def _scatter_value(c: Context, a: Args) -> Expr:
    index = at_least_vector(c, a.index)
    how = _REDUCTIONS[a.reduce] if hasattr(a, "reduce") else "update"
    if has_none(index):
        return c.cast(a.self, c.dtype)
    updates = c.broadcast(number(a.value, c.dtype), shape_of(index))
    return _write(c, a.self, axis_of(a.dim, a.self), index, updates, how)


def _neutral(c: Context, how: str) -> Any:
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    if c.dtype == "bool":
        return how == "min"
    if c.dtype.startswith(("float", "bfloat")):
        return -math.inf if how == "max" else math.inf
    info = c.torch.iinfo(getattr(c.torch, c.dtype))
    return info.min if how == "max" else info.max


def reduced(c: Context, x: Expr, axis: int, index: Expr, source: Expr, reduce: str, include: bool) -> Expr:
    """Scatter with a reduction; without the old values these are first replaced where something is written."""
    how = _REDUCTIONS[reduce]
    if has_none(index):
        return x
    x, ones = c.emit(x), None
    touched = None
    if not include or reduce == "mean":
        ones = c.broadcast(number(1, "int64"), shape_of(index))
        zero = op.zeros(shape_of(at_least_vector(c, x)), "int64")
        touched = c.emit(op.scatter_elements(zero, index, ones, axis=axis, reduction="add"))
        touched = touched if rank_of(x) else c.emit(c.reshape(touched, []))
    begun = x
    if not include:
        assert touched is not None
        begun = op.where(op.greater(touched, 0), number(_neutral(c, how), c.dtype), x)
    result = _write(c, begun, axis, index, source, how)
    if reduce != "mean" or touched is None:
        return result
    count = op.maximum(touched + number(1 if include else 0, "int64"), 1)
    total = c.cast(count, c.dtype)
    return result / total if is_float(result) else result // total


@aten("scatter_reduce.two")
def _scatter_reduce(c: Context, a: Args) -> Expr:
    index = at_least_vector(c, a.index)
    source = _fitted(at_least_vector(c, a.src), index)
    return reduced(c, a.self, axis_of(a.dim, a.self), index, source, a.reduce, a.include_self)


def _broadcast_slices(c: Context, x: Expr, axis: int, index: Expr, source: Expr) -> tuple[Expr, Expr, Expr]:
    """(data, index for every element, source) of an operator whose index vector chooses slices."""
    data, slices = at_least_vector(c, x), at_least_vector(c, source)
    rank = rank_of(data)
    vector = c.cast(at_least_vector(c, index), "int64")
    length = shape_of(vector)[0]
    line = c.reshape(vector, [length if n == axis else 1 for n in range(rank)])
    shape = put_at(shape_of(data), axis, length)
    return data, c.broadcast(line, shape), c.broadcast(slices, shape)


@aten("index_add.default")
def _index_add(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    if has_none(a.index) or has_none(a.source):
        return c.cast(a.self, c.dtype)
    source = c.cast(a.source, c.dtype)
    if a.alpha != 1:
        source = (op.logical_and if c.dtype == "bool" else op.multiply)(source, number(a.alpha, c.dtype))
    return _write_slices(c, axis, a.index, source, c.cast(a.self, c.dtype), "add")


@aten("index_copy.default")
def _index_copy(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    if has_none(a.index) or has_none(a.source):
        return c.cast(a.self, c.dtype)
    return _write_slices(c, axis, a.index, a.source, a.self, "update")


def _write_slices(c: Context, axis: int, index: Expr, source: Expr, data: Expr, how: str) -> Expr:
    """Slices written along an axis: whole ones along the first, else element by element."""
    if axis == 0 and rank_of(data) > 1 and rank_of(source) == rank_of(data):
        return op.scatter_nd(data, c.reshape(index, [*shape_of(source)[:1], 1]), source, reduction=how)
    data, index, source = _broadcast_slices(c, data, axis, index, source)
    result = op.scatter_elements(data, index, source, axis=axis, reduction=how)
    return result if rank_of(data) == len(c.shape) else c.reshape(result)


@aten("masked_scatter.default")
def _masked_scatter(c: Context, a: Args) -> Expr:
    """The n-th position of the mask takes the n-th element of the source."""
    if has_none(a.source):
        return c.broadcast(a.self)
    source = c.reshape(a.source, [product(shape_of(a.source))])
    return _by_mask(c, c.broadcast(a.self), c.emit(c.broadcast(a.mask)), source)


def _by_mask(c: Context, x: Expr, mask: Expr, source: Expr) -> Expr:
    """Slices for the positions of a mask of the leading axes: one for all of them, or the n-th for the n-th position."""
    inner = rank_of(x) - rank_of(mask)
    if rank_of(source) > inner and build.is_int(shape_of(source)[0], 1):
        source = c.reshape(source, shape_of(source)[1:])
    if rank_of(source) > inner:
        order = op.cumsum(c.cast(c.reshape(mask, [product(shape_of(mask))]), "int64"), axis=0)
        rest = shape_of(source)[1:]
        if type(shape_of(source)[0]) is not IntImm:  # there may be nothing to take when the program runs
            source = op.concat([source, op.zeros((1, *rest), dtype_of(source))], axis=0)
        position = op.maximum(order - 1, 0)
        source = c.reshape(op.take(source, position, axis=0), [*shape_of(mask), *rest])
    return op.where(c.reshape(mask, [*shape_of(mask), *[1] * inner]), source, x)


# ---- index_put


@aten("index_put.default", "_unsafe_index_put.default")
def _index_put(c: Context, a: Args) -> Expr:
    given = [t for t in a.indices if t is not None]
    if has_none(a.self) or any([has_none(t) for t in given]) or has_none(a.values):
        return c.cast(a.self, c.dtype)
    values = c.cast(a.values, c.dtype)
    if (
        len(given) == 1
        and is_mask(given[0])
        and not a.accumulate
        and all([build.is_int(d, 1) for d in shape_of(values)])
    ):
        return _where_mask(c, a, given[0], c.reshape(values, []))
    if len(given) == 1 and is_mask(given[0]) and not a.accumulate and a.indices[0] is not None:
        return _by_mask(c, a.self, c.emit(c.cast(given[0], "bool")), values)
    indices = _by_indices(c, a, values) if any([is_mask(t) for t in given]) else list(a.indices)
    axes = [n for n, t in enumerate(indices) if t is not None]
    others = [n for n in range(rank_of(a.self)) if n not in axes]
    order = axes + others
    tensors = [c.cast(t, "int64") for t in indices if t is not None]
    result = op.index_put(
        permute(a.self, order),
        tensors,
        _indexed_axes_first(c, values, axes, others, tensors),
        accumulate=a.accumulate,
    )
    return permute(result, [order.index(n) for n in range(len(order))])


def _by_indices(c: Context, a: Args, values: Expr) -> list[Any]:
    """Index tensors with every mask replaced by the positions it chooses, as many as the other indices or the values have."""
    axes: list[int] = []
    sizes: list[Expr] = []
    axis = 0
    for index in a.indices:
        width = rank_of(index) if index is not None and is_mask(index) else 1
        if index is not None:
            refuse(width == 0, "a mask without axes")
            axes += range(axis, axis + width)
            if not is_mask(index):
                sizes += shape_of(index)[-1:]
        axis += width
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    behind = (
        rank_of(a.self) - len(axes) - (axes[0] if together else 0)
    )  # axes of the values after that of the positions
    sizes += shape_of(values)[-1 - behind : rank_of(values) - behind]
    length = next((size for size in sizes if not build.is_int(size, 1)), build.index_var("places"))
    result: list[Any] = []
    for index in a.indices:
        result += counted_mask_indices(c, index, length) if index is not None and is_mask(index) else [index]
    return result


def _where_mask(c: Context, a: Args, mask: Expr, value: Expr) -> Expr:
    """One value for all positions of a mask; axes before and after the mask are free."""
    rank, lead = rank_of(a.self), [t is not None for t in a.indices].index(True)
    shape = [to_dim(1)] * lead + list(shape_of(mask))
    shape += [to_dim(1)] * (rank - len(shape))
    return op.where(c.reshape(c.cast(mask, "bool"), shape), value, a.self)


def _indexed_axes_first(c: Context, values: Expr, axes: list[int], others: list[int], tensors: list[Expr]) -> Expr:
    """Values with the axes of the indices in front, as index_put takes them."""
    if axes[0] == 0 or axes != list(range(axes[0], axes[0] + len(axes))):
        return values  # there they stand already
    rank = max([rank_of(t) for t in tensors])
    dims = list(shape_of(values))
    full = [to_dim(1)] * (rank + len(others) - len(dims)) + dims
    lead = axes[0]
    order = [*range(lead, lead + rank), *range(lead), *range(lead + rank, len(full))]
    return permute(c.reshape(values, full), order)
