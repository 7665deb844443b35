"""Table entries: views with strides (diagonal, unfold), copies of views, pieces and turns of tensors, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import ATEN, Args, Context, aten, axis_of, rank_of, refuse, shape_of, static, to_dim
from .shape import cut, permute


def strides_of(x: Expr) -> list[Expr]:
    """Strides of a dense tensor in row-major order."""
    dims = shape_of(x)
    return [product(dims[n + 1 :]) for n in range(len(dims))]


def places(c: Context, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Expr:
    """Positions ``offset + sum(index * stride)`` of a strided view, an int64 tensor of its shape."""
    made: Expr = c.cast(to_dim(offset), "int64")
    rank = len(sizes)
    for n, (size, stride) in enumerate(zip(sizes, strides)):
        line = op.arange(0, to_dim(size), 1, dtype="int64") * c.cast(to_dim(stride), "int64")
        made = made + c.reshape(line, [size if i == n else 1 for i in range(rank)])
    return made


def strided(c: Context, x: Expr, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Expr:
    """A view of a dense tensor with given sizes and strides (in elements), as a copy."""
    if has_none(sizes) or has_none(shape_of(x)):
        return op.zeros(_shape(sizes), c.dtype)
    flat = c.reshape(x, [product(shape_of(x))])
    return op.take(flat, places(c, sizes, strides, offset), axis=0)


def _shape(sizes: Sequence[Any]) -> Any:
    return tuple([to_dim(s) for s in sizes])


def has_none(sizes: Sequence[Any]) -> bool:
    return any([build.is_int(to_dim(s), 0) for s in sizes])


def diagonal_places(c: Context, x: Expr, offset: Any, first: int, second: int) -> tuple[list[Expr], list[Expr], Expr]:
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
    return strided(c, x, c.shape, *diagonal_places(c, x, a.offset, a.dim1, a.dim2)[1:])


def _put_on_diagonal(c: Context, area: Expr, values: Expr, offset: Any, first: int, second: int) -> Expr:
    """A tensor with the elements of one diagonal replaced."""
    sizes, steps, begin = diagonal_places(c, area, offset, first, second)
    if has_none(sizes):
        return area
    flat = c.reshape(area, [product(shape_of(area))])
    at = c.reshape(places(c, sizes, steps, begin), [product(sizes)])
    made = op.scatter_elements(flat, at, c.reshape(c.cast(values, c.dtype), [product(sizes)]), axis=0)
    return c.reshape(made)


@aten("diag_embed.default")
def _diag_embed(c: Context, a: Args) -> Expr:
    zeros = op.zeros(_shape(c.shape), c.dtype)
    return _put_on_diagonal(c, zeros, a.self, a.offset, a.dim1, a.dim2)


@aten("diagonal_scatter.default")
def _diagonal_scatter(c: Context, a: Args) -> Expr:
    return _put_on_diagonal(c, a.self, a.src, a.offset, a.dim1, a.dim2)


@aten("diag.default")
def _diag(c: Context, a: Args) -> Expr:
    a.offset, a.dim1, a.dim2 = a.diagonal, -2, -1
    made: Expr = _diag_embed(c, a) if rank_of(a.self) == 1 else _diagonal(c, a)
    return made


@aten("unfold.default", "unfold_copy.default")
def _unfold(c: Context, a: Args) -> Expr:
    """Windows along an axis; the place in the window comes last."""
    rank, x = rank_of(a.self), a.self
    if rank == 0:
        return c.reshape(x)
    axis, steps = axis_of(a.dimension, rank), strides_of(x)
    inner = steps[axis]
    steps[axis] = inner * to_dim(a.step)
    return strided(c, x, c.shape, [*steps, inner], 0)


@aten("rot90.default")
def _rot90(c: Context, a: Args) -> Expr:
    """A quarter turn is a reflection and an exchange of the two axes."""
    rank, turns = rank_of(a.self), a.k % 4
    first, second = [axis_of(d, rank) for d in a.dims]
    if turns == 2:
        return op.flip(op.flip(a.self, axis=first), axis=second)
    if turns == 0:
        return c.reshape(a.self)
    axes = list(range(rank))
    axes[first], axes[second] = axes[second], axes[first]
    if turns == 1:
        return permute(op.flip(a.self, axis=second), axes)
    return op.flip(permute(a.self, axes), axis=second)


aten("mH.default", "adjoint.default", "matrix_H.default")(lambda c, a: _transposed(a.self))


def _transposed(x: Expr) -> Expr:
    rank = rank_of(x)
    return permute(x, [*range(rank - 2), rank - 1, rank - 2])


@aten("movedim.intlist")
def _movedim(c: Context, a: Args) -> Expr:
    rank = rank_of(a.self)
    source, target = [[axis_of(d, rank) for d in dims] for dims in (a.source, a.destination)]
    rest = iter([n for n in range(rank) if n not in source])
    moved = dict(zip(target, source))
    return permute(a.self, [moved[n] if n in moved else next(rest) for n in range(rank)])


@aten("tensor_split.indices", "hsplit.int", "vsplit.int", "dsplit.int", "hsplit.array", "vsplit.array", "dsplit.array",
      "split_with_sizes_copy.default", "split_copy.Tensor")  # fmt: skip
def _pieces(c: Context, a: Args) -> list[Expr]:
    axis = axis_of(a.dim, rank_of(a.self)) if hasattr(a, "dim") else _split_axis(c, rank_of(a.self))
    start, made = to_dim(0), []
    begins: Sequence[Expr | None] = _ends(a, shape_of(a.self)[axis]) or [None] * len(c.value)
    for value, begin in zip(c.value, begins):
        size = c.symbols.dims(value.shape)[axis]
        made.append(_piece(c, a.self, axis, start if begin is None else begin, size, value))
        start = start + size
    return made


def _split_axis(c: Context, rank: int) -> int:
    kind = "vhd".index(c.node_target.split(".")[1][0])
    return 0 if kind == 1 and rank == 1 else kind


def _ends(a: Args, extent: Expr) -> list[Expr] | None:
    """Starts of pieces at given indices: these may overlap where the indices do not rise."""
    if not isinstance(getattr(a, "indices", None), (list, tuple)):
        return None
    count = static(extent, "the size of a split axis")
    found = [static(to_dim(n), "the place of a split") for n in a.indices]
    return [to_dim(0), *[to_dim(min(max(n + count if n < 0 else n, 0), count)) for n in found]]


def _piece(c: Context, x: Expr, axis: int, start: Expr, size: Expr, value: Any) -> Expr:
    if type(size) is IntImm and size.value == 0:
        return op.zeros(_shape(c.symbols.dims(value.shape)), c.dtype)
    return cut(x, axis, start, size)


@aten("hstack.default", "vstack.default", "dstack.default", "column_stack.default")
def _stacked(c: Context, a: Args) -> Expr:
    """Joined along the second, first or third axis after each tensor got the axes it lacks."""
    kind, rank = c.node_target.split(".")[1][0], len(c.shape)
    axis = {"v": 0, "h": min(rank - 1, 1), "d": 2, "c": 1}[kind]
    parts: list[Expr] = []
    for tensor in a.tensors:
        dims: list[Any] = list(shape_of(tensor)) or [1]
        if len(dims) < rank:
            dims = {"v": [1, *dims], "d": [*([1] * (2 - len(dims))), *dims, 1], "c": [dims[0], 1]}[kind]
        parts.append(c.cast(c.reshape(tensor, dims) if rank_of(tensor) != len(dims) else tensor, c.dtype))
    return parts[0] if len(parts) == 1 else op.concat(parts, axis=axis)


@aten("atleast_1d.default", "atleast_2d.default", "atleast_3d.default", "resize_as.default", "view_copy.default",
      "unsqueeze_copy.default", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims",
      "_reshape_copy.default")  # fmt: skip
def _same_order(c: Context, a: Args) -> Expr:
    if "resize" not in c.node_target:
        return c.reshape(a.self)
    same = build.is_int(product(shape_of(a.self)) - product(c.shape), 0)
    refuse(not same, "a resize to another number of elements")
    return c.reshape(a.self)


@aten("atleast_1d.Sequence", "atleast_2d.Sequence", "atleast_3d.Sequence")
def _sequences(c: Context, a: Args) -> list[Expr]:
    return [c.reshape(t, c.symbols.dims(v.shape)) for t, v in zip(a.tensors, c.value)]


for _name in ("permute_copy.default", "transpose_copy.int", "t_copy.default", "expand_copy.default", "select_copy.int",
              "slice_copy.Tensor", "unbind_copy.int"):  # fmt: skip
    aten(_name)(ATEN[f"aten.{_name.replace('_copy', '')}"])


@aten("block_diag.default")
def _block_diag(c: Context, a: Args) -> Expr:
    refuse(
        any([rank_of(t) == 1 and build.is_int(shape_of(t)[0], 0) for t in a.tensors]),
        "blocks of rank 1 without elements",
    )
    columns, made, left = c.shape[1], [], to_dim(0)
    for tensor in a.tensors:
        block = c.reshape(c.cast(tensor, c.dtype), [to_dim(1), to_dim(1), *shape_of(tensor)][-2:])
        rows, width = shape_of(block)
        right = columns - left - width
        sides = [None if build.is_int(n, 0) else op.zeros((rows, n), c.dtype) for n in (left, right)]
        pieces = [piece for piece in (sides[0], block, sides[1]) if piece is not None]
        made.append(op.concat(pieces, axis=1) if len(pieces) > 1 else block)
        left = left + width
    return op.concat(made, axis=0) if len(made) > 1 else made[0]


@aten("cartesian_prod.default")
def _cartesian(c: Context, a: Args) -> Expr:
    if len(a.tensors) == 1:
        return c.reshape(a.tensors[0])
    lengths = [shape_of(t)[0] for t in a.tensors]
    made = []
    for n, tensor in enumerate(a.tensors):
        line = c.reshape(tensor, [lengths[n] if i == n else 1 for i in range(len(lengths))])
        made.append(c.reshape(c.broadcast(line, lengths), [product(lengths)]))
    return op.stack(made, axis=1)


@aten("tril_indices.default", "triu_indices.default")
def _triangle_indices(c: Context, a: Args) -> Expr:
    fn = c.torch.tril_indices if "tril" in c.node_target else c.torch.triu_indices
    return c.constant(fn(a.row, a.col, a.offset, dtype=getattr(c.torch, c.dtype)))


@aten("vander.default", "linalg_vander.default")
def _vander(c: Context, a: Args) -> Expr:
    x = c.emit(c.reshape(c.cast(a.x, c.dtype), [*(shape_of(a.x) or [1]), 1]))
    count = static(c.shape[-1], "the number of powers")
    refuse(count == 0, "no power")
    powers: list[Expr] = [op.ones(_shape(shape_of(x)), c.dtype)]
    for _ in range(count - 1):
        powers.append(c.emit(powers[-1] * x))
    rising = getattr(a, "increasing", "linalg" in c.node_target)
    return op.concat(powers if rising else powers[::-1], axis=-1) if count > 1 else powers[0]


# ---- repetition


@aten("repeat.default", "tile.default")
def _repeat(c: Context, a: Args) -> Expr:
    given = [to_dim(n) for n in (a.repeats if hasattr(a, "repeats") else a.dims)]
    more = len(given) - rank_of(a.self)
    counts, sizes = [to_dim(1)] * -more + given, [to_dim(1)] * more + list(shape_of(a.self))
    numbers = [n.value for n in counts if type(n) is IntImm]
    if len(numbers) < len(counts):  # a new axis before each, as long as there are repeats
        return c.reshape(c.broadcast(c.reshape(a.self, _woven([to_dim(1)] * len(sizes), sizes)), _woven(counts, sizes)))
    if 0 in numbers:
        return op.zeros(c.shape, c.dtype)
    return op.tile(c.reshape(a.self, sizes), tuple(numbers)) if numbers else a.self


def _woven(first: list[Expr], second: list[Expr]) -> list[Expr]:
    return [d for both in zip(first, second) for d in both]


@aten("repeat_interleave.self_int")
def _repeat_interleave(c: Context, a: Args) -> Expr:
    x, dim = (c.reshape(a.self, [product(shape_of(a.self))]), 0) if a.dim is None else (a.self, a.dim)
    x = x if rank_of(x) else c.reshape(x, [1])
    axis, count, sizes = axis_of(dim, rank_of(x)), to_dim(a.repeats), shape_of(x)
    if type(count) is not IntImm:  # a new axis after it, as long as there are repeats
        rows, rest = sizes[: axis + 1], sizes[axis + 1 :]
        return c.reshape(c.broadcast(c.reshape(x, [*rows, 1, *rest]), [*rows, count, *rest]))
    return op.repeat(x, count.value, axis=axis) if count.value else op.zeros(c.shape, c.dtype)
