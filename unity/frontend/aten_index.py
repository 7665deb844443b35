"""Table entries: choosing and writing elements by index tensors, sorting."""

from __future__ import annotations

from .. import op
from ..ir.expr import IntImm
from ..ir.types import Expr
from .aten_shape import permute
from .context import Args, Context, aten, axis_of, dtype_of, is_float, number, rank_of, refuse, shape_of, static, to_dim


def _needs_elements(x: Expr, axis: int) -> None:
    extent = shape_of(x)[axis]
    refuse(type(extent) is IntImm and extent.value == 0, "the axis has no element")


@aten("embedding.default")
def _embedding(c: Context, a: Args) -> Expr:
    _needs_elements(a.weight, 0)
    return op.take(a.weight, a.indices, axis=0)


@aten("index_select.default")
def _index_select(c: Context, a: Args) -> Expr:
    refuse(rank_of(a.self) == 0, "a scalar")
    indices = c.reshape(a.index, [1]) if rank_of(a.index) == 0 else a.index
    return op.take(a.self, indices, axis=axis_of(a.dim, rank_of(a.self)))


@aten("gather.default")
def _gather(c: Context, a: Args) -> Expr:
    refuse(rank_of(a.self) == 0 or rank_of(a.self) != rank_of(a.index), "indices of another rank")
    return op.gather_elements(a.self, a.index, axis=axis_of(a.dim, rank_of(a.self)))


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(c: Context, a: Args) -> Expr:
    given = [(axis, t) for axis, t in enumerate(a.indices) if t is not None]
    refuse(any([dtype_of(t) in ("bool", "uint8") for _, t in given]), "indexing by a mask")
    if len(given) == 1:
        axis, index = given[0]
        return op.take(a.self, index, axis=axis)
    axes = [axis for axis, _ in given]
    others = [i for i in range(rank_of(a.self)) if i not in axes]
    made = op.index_tensor(permute(a.self, axes + others), [c.cast(t, "int64") for _, t in given])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return made  # indices apart from each other: torch puts their axes first
    count = rank_of(made) - len(others)
    places = list(range(count, rank_of(made)))
    return permute(made, [*places[: axes[0]], *range(count), *places[axes[0] :]])


@aten("index_put.default", "_unsafe_index_put.default")
def _index_put(c: Context, a: Args) -> Expr:
    refuse(any([t is None or dtype_of(t) in ("bool", "uint8") for t in a.indices]), "indexing by a mask or a slice")
    indices = [c.cast(t, "int64") for t in a.indices]
    return op.index_put(a.self, indices, c.cast(a.values, c.dtype), accumulate=a.accumulate)


def _updates_of_index_shape(a: Args) -> None:
    same = [static(d) for d in shape_of(a.src)] == [static(d) for d in shape_of(a.index)]
    refuse(not same, "a source larger than the index")


@aten("scatter.src", "scatter_add.default")
def _scatter(c: Context, a: Args) -> Expr:
    _updates_of_index_shape(a)
    how = "add" if "add" in str(c.node_target) else "update"
    return op.scatter_elements(a.self, a.index, a.src, axis=axis_of(a.dim, rank_of(a.self)), reduction=how)


@aten("scatter.value")
def _scatter_value(c: Context, a: Args) -> Expr:
    updates = c.broadcast(number(a.value, c.dtype), shape_of(a.index))
    return op.scatter_elements(a.self, a.index, updates, axis=axis_of(a.dim, rank_of(a.self)), reduction="update")


@aten("take_along_dim.default")
def _take_along(c: Context, a: Args) -> Expr:
    refuse(a.dim is None, "an index into the flattened tensor")
    return op.gather_elements(a.self, a.indices, axis=axis_of(a.dim, rank_of(a.self)))


@aten("one_hot.default")
def _one_hot(c: Context, a: Args) -> Expr:
    refuse(a.num_classes < 0, "the number of classes depends on the data")
    return op.one_hot(c.cast(a.self, "int64"), 1, 0, depth=static(to_dim(a.num_classes)), axis=-1)


@aten("sort.default", "sort.stable")
def _sort(c: Context, a: Args) -> list[Expr]:
    x = _orderable(c, a.self)
    axis = axis_of(a.dim, rank_of(x))
    order = c.emit(op.argsort(x, axis=axis, descending=a.descending, dtype="int64"))
    return [op.gather_elements(a.self, order, axis=axis), order]


@aten("argsort.default", "argsort.stable")
def _argsort(c: Context, a: Args) -> Expr:
    x = _orderable(c, a.self)
    return op.argsort(x, axis=axis_of(a.dim, rank_of(x)), descending=a.descending, dtype="int64")


@aten("topk.default")
def _topk(c: Context, a: Args) -> list[Expr]:
    x = _orderable(c, a.self)
    axis = axis_of(a.dim, rank_of(x))
    count = static(to_dim(a.k), "k")
    made = c.emit(op.topk(x, k=count, axis=axis, ret_type="indices", largest=a.largest, dtype="int64"))
    return [op.gather_elements(a.self, made, axis=axis), made]


def _orderable(c: Context, x: Expr) -> Expr:
    refuse(rank_of(x) == 0, "a scalar has no order")
    return x if is_float(x) or dtype_of(x) != "bool" else c.cast(x, "int32")
