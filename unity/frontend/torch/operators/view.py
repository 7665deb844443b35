"""Table entries: views with strides (diagonal, unfold), pieces of tensors, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import Args, Context, aten, axis_of, has_none, rank_of, refuse, shape_of, to_dim


def strides_of(x: Expr) -> list[Expr]:
    """Strides of a dense tensor in row-major order."""
    dims = shape_of(x)
    return [product(dims[n + 1 :]) for n in range(len(dims))]


def strided_indices(c: Context, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Expr:
    """Positions ``offset + sum(index * stride)`` of a strided view, an int64 tensor of its shape."""
    result: Expr = c.cast(to_dim(offset), "int64")
    rank = len(sizes)
    for n, (size, stride) in enumerate(zip(sizes, strides)):
        line = op.arange(0, to_dim(size), 1, dtype="int64") * c.cast(to_dim(stride), "int64")
        result = result + c.reshape(line, [size if i == n else 1 for i in range(rank)])
    return result


def strided(c: Context, x: Expr, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Expr:
    """A view of a dense tensor with given sizes and strides (in elements), as a copy."""
    flat = c.reshape(x, [product(shape_of(x))])
    return op.take(flat, strided_indices(c, sizes, strides, offset), axis=0)


def diagonal_view(x: Expr, offset: Any, first: int, second: int) -> tuple[list[Expr], list[Expr], Expr]:
    """Sizes, strides and offset of the view of a diagonal, whose axis comes last."""
    rank, dims, steps = rank_of(x), shape_of(x), strides_of(x)
    i, j = axis_of(first, rank), axis_of(second, rank)
    rest = [n for n in range(rank) if n not in (i, j)]
    start = to_dim(offset)
    down = build.maximum(-start, 0)
    right = build.maximum(start, 0)
    begin = down * steps[i] + right * steps[j]
    length = build.minimum(dims[i] - down, dims[j] - right)
    sizes = [*[dims[n] for n in rest], build.maximum(length, 0)]
    return sizes, [*[steps[n] for n in rest], steps[i] + steps[j]], begin


@aten("diagonal.default", "diagonal_copy.default", "linalg_diagonal.default")
def _diagonal(c: Context, a: Args) -> Expr:
    x = a.A if hasattr(a, "A") else a.self
    return strided(c, x, c.shape, *diagonal_view(x, a.offset, a.dim1, a.dim2)[1:])


def _write_diagonal(c: Context, area: Expr, values: Expr, offset: Any, first: int, second: int) -> Expr:
    """A tensor with the elements of one diagonal replaced."""
    sizes, steps, begin = diagonal_view(area, offset, first, second)
    if has_none(sizes):
        return area
    flat = c.reshape(area, [product(shape_of(area))])
    indices = c.reshape(strided_indices(c, sizes, steps, begin), [product(sizes)])
    result = op.scatter_elements(flat, indices, c.reshape(c.cast(values, c.dtype), [product(sizes)]), axis=0)
    return c.reshape(result)


@aten("diagonal_scatter.default")
def _diagonal_scatter(c: Context, a: Args) -> Expr:
    return _write_diagonal(c, a.self, a.src, a.offset, a.dim1, a.dim2)


@aten("unfold.default", "unfold_copy.default")
def _unfold(c: Context, a: Args) -> Expr:
    """Windows along an axis; the position in the window comes last."""
    rank, x = rank_of(a.self), a.self
    if rank == 0:
        return c.reshape(x)
    axis, steps = axis_of(a.dimension, rank), strides_of(x)
    inner = steps[axis]
    steps[axis] = inner * to_dim(a.step)
    return strided(c, x, c.shape, [*steps, inner], 0)


@aten("resize_as.default")
def _resize_as(c: Context, a: Args) -> Expr:
    refuse(not build.is_int(product(shape_of(a.self)) - product(c.shape), 0), "a resize to another number of elements")
    return c.reshape(a.self)


@aten("tril_indices.default", "triu_indices.default")
def _triangle_indices(c: Context, a: Args) -> Expr:
    fn = c.torch.tril_indices if "tril" in c.node_target else c.torch.triu_indices
    return c.constant(fn(a.row, a.col, a.offset, dtype=getattr(c.torch, c.dtype)))


# ---- repetition


@aten("repeat.default", "tile.default")
def _repeat(c: Context, a: Args) -> Expr:
    given = [to_dim(n) for n in (a.repeats if hasattr(a, "repeats") else a.dims)]
    more = len(given) - rank_of(a.self)
    counts, sizes = [to_dim(1)] * -more + given, [to_dim(1)] * more + list(shape_of(a.self))
    numbers = build.int_values(counts)
    if len(numbers) < len(counts):  # a new axis before each, as long as there are repeats
        return c.reshape(
            c.broadcast(c.reshape(a.self, _interleave([to_dim(1)] * len(sizes), sizes)), _interleave(counts, sizes))
        )
    return op.tile(c.reshape(a.self, sizes), tuple(numbers)) if numbers else a.self


def _interleave(first: list[Expr], second: list[Expr]) -> list[Expr]:
    return [d for both in zip(first, second) for d in both]


@aten("repeat_interleave.self_int")
def _repeat_interleave(c: Context, a: Args) -> Expr:
    x, dim = (c.reshape(a.self, [product(shape_of(a.self))]), 0) if a.dim is None else (a.self, a.dim)
    x = x if rank_of(x) else c.reshape(x, [1])
    axis, count, sizes = axis_of(dim, x), to_dim(a.repeats), shape_of(x)
    if type(count) is not IntImm:  # a new axis after it, as long as there are repeats
        rows, rest = sizes[: axis + 1], sizes[axis + 1 :]
        return c.reshape(c.broadcast(c.reshape(x, [*rows, 1, *rest]), [*rows, count, *rest]))
    return op.repeat(x, count.value, axis=axis)
