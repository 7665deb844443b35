"""Table entries: shape and order of elements, joining, cutting, creation."""

from __future__ import annotations

from typing import Any

from .... import op
from ....arith import Analyzer
from ....ir import build
from ....ir.expr import IntImm, ShapeExpr
from ....ir.relation import Answer, same_dim
from ....ir.types import Expr, ShapeType
from ....op.common.type_rules import product, put_at
from ..context.context import (
    Args,
    Context,
    aten,
    axis_of,
    has_none,
    rank_of,
    refuse,
    shape_of,
    static,
    to_dim,
)


@aten("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unsqueeze.default",
      "squeeze.default", "squeeze.dim", "squeeze.dims", "unflatten.int", "reshape_as.default", "view_as.default",
      "ravel.default", "atleast_1d.default", "atleast_2d.default", "atleast_3d.default", "view_copy.default",
      "unsqueeze_copy.default", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims",
      "_reshape_copy.default")  # fmt: skip
def _reshape(c: Context, a: Args) -> Expr:
    return c.reshape(a.self)


@aten("expand.default", "expand_copy.default", "expand_as.default", "broadcast_to.default")
def _expand(c: Context, a: Args) -> Expr:
    return c.broadcast(a.self)


def permute(x: Expr, axes: list[int]) -> Expr:
    """Axes in another order; the tensor itself where the order stays."""
    return x if axes == list(range(len(axes))) else op.permute_dims(x, tuple(axes))


def swap(x: Expr, first: int, second: int) -> Expr:
    """Two axes exchanged."""
    rank = rank_of(x)
    axes = list(range(rank))
    if rank:
        i, j = axis_of(first, rank), axis_of(second, rank)
        axes[i], axes[j] = axes[j], axes[i]
    return permute(x, axes)


@aten("permute.default", "permute_copy.default")
def _permute(c: Context, a: Args) -> Expr:
    return permute(a.self, [axis_of(d, a.self) for d in a.dims])


aten("transpose.int", "transpose_copy.int")(lambda c, a: swap(a.self, a.dim0, a.dim1))
aten("swapaxes.default")(lambda c, a: swap(a.self, a.axis0, a.axis1))
aten("mT.default", "mH.default", "adjoint.default", "matrix_H.default")(lambda c, a: swap(a.self, -1, -2))
aten("t.default", "t_copy.default")(lambda c, a: swap(a.self, 0, 1) if rank_of(a.self) == 2 else a.self)
aten("numpy_T.default")(lambda c, a: permute(a.self, list(range(rank_of(a.self)))[::-1]))


# ---- cutting


def slice_axis(x: Expr, axis: int, begin: Expr | int, size: Expr | int, step: int = 1) -> Expr:
    """``size`` elements along an axis from ``begin``; torch has shown that they are there."""
    begin, size = to_dim(begin), to_dim(size)
    if step == 1 and type(begin) is IntImm and begin.value == 0 and same_dim(size, shape_of(x)[axis]) is Answer.YES:
        return x
    end = Analyzer().simplify(begin + size if step == 1 else begin + ((size - 1) * step + 1))
    first, last = [build.int_value(v, v) for v in (begin, end)]
    return op.strided_slice(x, axes=(axis,), begin=(first,), end=(last,), strides=(step,), assume_inbound=True)


def slice_bound(c: Context, value: Any, extent: Expr, beyond: bool = False) -> Expr:
    """A bound of a slice as torch (and Python) takes it; the sign of a number may be known at run time only.

    Where nothing past the end is taken the bound may stay ``beyond`` it.
    """
    start = to_dim(value)
    if type(start) is IntImm and start.value >= 0:
        return start if beyond and type(extent) is not IntImm else build.minimum(start, extent)
    after = start if beyond else build.minimum(start, extent)
    if c.symbols.is_nonnegative(start):
        return after
    from_end = c.symbols.simplify(extent + start)
    if not c.symbols.is_nonnegative(from_end):
        from_end = build.maximum(from_end, 0)
    if c.symbols.is_nonnegative(-1 - start):
        return from_end
    return build.select(build.lt(start, 0), from_end, after)


def _begin(c: Context, a: Args, axis: int) -> Expr:
    """First element of a slice; past the end only where it is empty."""
    return slice_bound(c, 0 if a.start is None else a.start, shape_of(a.self)[axis], beyond=True)


def _define_size(c: Context, a: Args, axis: int, begin: Expr) -> None:
    """Let the symbol that torch made for the size of a slice with bounds from the data stand for what that size is."""
    extent, torch_size = shape_of(a.self)[axis], c.value.shape[axis]
    refuse(not torch_size.node.expr.is_Symbol, f"the size {torch_size} depends on the data")
    end = extent if a.end is None else slice_bound(c, a.end, extent)
    count = build.ceildiv(end - begin, static(to_dim(a.step), "the step"))
    size = build.maximum(count, 0)
    c.builder.match_cast(ShapeExpr((size,)), ShapeType((c.symbols.bind(torch_size),), 1))


@aten("slice.Tensor", "slice_copy.Tensor")
def _slice(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    begin = _begin(c, a, axis)
    if not c.symbols.knows([c.value.shape[axis]]):
        _define_size(c, a, axis, begin)
    return slice_axis(a.self, axis, begin, c.shape[axis], static(to_dim(a.step), "the step"))


@aten("narrow.default", "narrow_copy.default")
def _narrow(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    return slice_axis(a.self, axis, _begin(c, a, axis), c.shape[axis])


def _one(c: Context, x: Expr, axis: int, index: Any, shape: Any) -> Expr:
    position = to_dim(index)
    if type(position) is not IntImm:  # only the program knows it, and its sign
        return op.take(x, position, axis=axis)
    if position.value < 0:
        position = shape_of(x)[axis] + position
    return c.reshape(slice_axis(x, axis, position, to_dim(1)), shape)


@aten("select.int", "select_copy.int")
def _select(c: Context, a: Args) -> Expr:
    return _one(c, a.self, axis_of(a.dim, a.self), a.index, c.shape)


@aten("unbind.int", "unbind_copy.int")
def _unbind(c: Context, a: Args) -> list[Expr]:
    axis = axis_of(a.dim, a.self)
    return [_one(c, a.self, axis, i, c.symbols.dims(v.shape)) for i, v in enumerate(c.value)]


@aten(
    "split.Tensor",
    "split.sizes",
    "split_with_sizes.default",
    "chunk.default",
    "tensor_split.sections",
    "unsafe_split.Tensor",
    "unsafe_chunk.default",
    "unsafe_split_with_sizes.default",
    "split_with_sizes_copy.default",
    "split_copy.Tensor",
)
def _split(c: Context, a: Args) -> list[Expr]:
    axis = axis_of(a.dim, a.self)
    start: Expr = to_dim(0)
    parts = []
    for value in c.value:
        size = c.symbols.dims(value.shape)[axis]
        parts.append(slice_axis(a.self, axis, start, size))
        start = start + size
    return parts


# ---- joining


@aten("cat.default", "concat.default", "concatenate.default")
def _cat(c: Context, a: Args) -> Expr:
    rank = len(c.shape)
    parts = [c.cast(t, c.dtype) for t in a.tensors if rank_of(t) == rank]  # torch skips empty tensors of rank 1
    return parts[0] if len(parts) == 1 else op.concat(parts, axis=axis_of(a.dim, rank))


@aten("stack.default")
def _stack(c: Context, a: Args) -> Expr:
    return op.stack([c.cast(t, c.dtype) for t in a.tensors], axis=axis_of(a.dim, len(c.shape)))


@aten("roll.default")
def _roll(c: Context, a: Args) -> Expr:
    if not a.dims:
        flat = c.reshape(a.self, [product(shape_of(a.self))])
        return c.reshape(_rolled(c, flat, 0, a.shifts[0]))
    x: Expr = a.self
    for shift, dim in zip(a.shifts, a.dims):
        x = _rolled(c, x, axis_of(dim, x), shift)
    return x


def _rolled(c: Context, x: Expr, axis: int, shift: Any) -> Expr:
    """The last elements along an axis in front; the extent may be a symbol."""
    extent = shape_of(x)[axis]
    by = to_dim(shift) % extent if not build.is_int(extent, 0) else to_dim(0)
    if build.is_int(by, 0):
        return x
    x = c.emit(x)
    rest = extent - by
    return op.concat([slice_axis(x, axis, rest, by), slice_axis(x, axis, 0, rest)], axis=axis)


@aten("flip.default")
def _flip(c: Context, a: Args) -> Expr:
    x: Expr = a.self
    for dim in a.dims:
        x = op.flip(x, axis=axis_of(dim, a.self))
    return x


@aten("tril.default", "triu.default")
def _triangle(c: Context, a: Args) -> Expr:
    lower = "tril" in c.node_target
    if isinstance(a.diagonal, int) and c.dtype != "bool":
        return (op.tril if lower else op.triu)(a.self, a.diagonal)
    rows, columns = shape_of(a.self)[-2:]
    edge = _row_numbers(c, rows) + c.cast(a.diagonal, "int64")
    inside = (op.greater_equal if lower else op.less_equal)(edge, op.arange(0, columns, 1, dtype="int64"))
    return op.logical_and(a.self, inside) if c.dtype == "bool" else op.where(inside, a.self, 0)


def _row_numbers(c: Context, rows: Expr) -> Expr:
    """0, 1, ... as a column."""
    return c.reshape(op.arange(0, rows, 1, dtype="int64"), [rows, 1])


# ---- creation


@aten("arange.default", "arange.start", "arange.start_step")
def _arange(c: Context, a: Args) -> Expr:
    start, step = getattr(a, "start", 0), getattr(a, "step", 1)
    step = 1 if step is None else step
    given = (start, a.end, step)
    if type(step) is int and not c.holds_number(given) and not any([isinstance(v, float) for v in given]):
        return op.arange(start, a.end, step, dtype=c.dtype)
    if not any([isinstance(v, Expr) for v in given]):
        return c.constant(c.torch.arange(*given, dtype=getattr(c.torch, c.dtype)))
    # torch makes integers of all three before it counts, where the result has integers
    kind = "int64" if c.dtype.startswith(("int", "uint")) else "float64"
    start, step = [int(v) if kind == "int64" and isinstance(v, float) else v for v in (start, step)]
    steps = op.arange(0, c.shape[0], 1, dtype=kind) * c.cast(step, kind)
    return c.cast(steps + c.cast(start, kind), c.dtype)


@aten("full.default", "full_like.default", "new_full.default", "scalar_tensor.default", "prims.scalar_tensor.default")
def _full(c: Context, a: Args) -> Expr:
    value = a.fill_value if hasattr(a, "fill_value") else a.s
    result = c.cast(value, c.dtype)
    return c.broadcast(result) if c.shape else result


@aten("zeros.default", "zeros_like.default", "new_zeros.default", "zero.default", "empty.memory_format",
      "empty_like.default", "new_empty.default", "empty_permuted.default", "empty_strided.default",
      "new_empty_strided.default")  # fmt: skip
def _zeros(c: Context, a: Args) -> Expr:
    return op.zeros(c.shape, c.dtype)


@aten("ones.default", "ones_like.default", "new_ones.default")
def _ones(c: Context, a: Args) -> Expr:
    return op.ones(c.shape, c.dtype)


@aten("eye.default", "eye.m")
def _eye(c: Context, a: Args) -> Expr:
    return unit_matrix(c, *c.shape)


def unit_matrix(c: Context, rows: Expr, columns: Expr) -> Expr:
    """A matrix with ones on the diagonal."""
    if type(rows) is IntImm and type(columns) is IntImm:
        return op.eye(rows.value, columns.value, dtype=c.dtype)
    return c.cast(op.equal(_row_numbers(c, rows), op.arange(0, columns, 1, dtype="int64")), c.dtype)


@aten("hann_window.default", "hann_window.periodic", "hamming_window.default", "hamming_window.periodic",
      "hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta", "bartlett_window.default",
      "bartlett_window.periodic", "blackman_window.default", "blackman_window.periodic", "kaiser_window.default",
      "kaiser_window.periodic", "kaiser_window.beta", "linspace.default", "logspace.default")  # fmt: skip
def _window(c: Context, a: Args) -> Expr:
    """Windows and points of a known number are constants."""
    refuse(any([isinstance(v, Expr) for v in vars(a).values()]), "points whose number only a call knows")
    return c.constant(c.node.target(*c.node.args, **c.node.kwargs))


@aten("slice_scatter.default")
def _slice_scatter(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    begin, step = _begin(c, a, axis), static(to_dim(a.step), "the step")
    if has_none(a.src):
        return c.cast(a.self, c.dtype)
    if step == 1:
        return replace_slice(c, a.self, axis, begin, a.src)
    last = begin + (shape_of(a.src)[axis] - 1) * to_dim(step)
    return op.slice_scatter(a.self, c.cast(a.src, c.dtype), begin, last + 1, step, axis=axis)


@aten("select_scatter.default")
def _select_scatter(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, a.self)
    extent, index = shape_of(a.self)[axis], to_dim(a.index)
    shape = put_at(shape_of(a.self), axis, to_dim(1))
    part = c.cast(c.reshape(a.src, shape), c.dtype)
    if type(index) is not IntImm:  # only the program knows it
        line = [extent if i == axis else to_dim(1) for i in range(len(shape))]
        positions = op.reshape(op.arange(0, extent, dtype="int64"), tuple(line))
        return op.where(op.equal(positions, c.cast(slice_bound(c, index, extent), "int64")), part, a.self)
    return replace_slice(c, a.self, axis, extent + index if index.value < 0 else index, part)


def replace_slice(c: Context, x: Expr, axis: int, begin: Expr, part: Expr) -> Expr:
    """The tensor with the elements from ``begin`` along an axis replaced."""
    extent, after = shape_of(x)[axis], begin + shape_of(part)[axis]
    pieces = [slice_axis(x, axis, 0, begin), c.cast(part, c.dtype), slice_axis(x, axis, after, extent - after)]
    nonempty = [p for p in pieces if not build.is_int(shape_of(p)[axis], 0)]
    return nonempty[0] if len(nonempty) == 1 else op.concat(nonempty, axis=axis)
