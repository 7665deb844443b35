"""Table entries: choosing elements by index tensors, sorting, different elements. Writing elements: scatter.py."""

from __future__ import annotations

from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm
from ....ir.relation import Answer, same_dims, tensor_type
from ....ir.scalar import Min
from ....ir.types import Expr, ShapeType
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    axis_of,
    dtype_of,
    has_none,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
    to_dim,
)
from .shape import permute, slice_axis


def is_mask(index: Expr) -> bool:
    """True if an index tensor selects per element (a mask)."""
    return dtype_of(index) in ("bool", "uint8")


def at_least_vector(c: Context, x: Expr) -> Expr:
    """A scalar as a vector of one element, as torch treats it along axis 0."""
    return c.reshape(x, [1]) if rank_of(x) == 0 else x


@aten("embedding.default")
def _embedding(c: Context, a: Args) -> Expr:
    return op.take(a.weight, a.indices, axis=0)


@aten("index_select.default")
def _index_select(c: Context, a: Args) -> Expr:
    x, indices = at_least_vector(c, a.self), at_least_vector(c, a.index)
    result = op.take(x, indices, axis=axis_of(a.dim, x))
    return result if rank_of(a.self) else c.reshape(result)


@aten("gather.default")
def _gather(c: Context, a: Args) -> Expr:
    x, indices = at_least_vector(c, a.self), at_least_vector(c, a.index)
    refuse(rank_of(x) != rank_of(indices), "indices of another rank")
    result = op.gather_elements(x, indices, axis=axis_of(a.dim, x))
    return result if rank_of(a.index) else c.reshape(result)


def mask_indices(c: Context, mask: Expr, size: Any) -> list[Expr]:
    """Places of the elements a mask chooses: one vector for each of its axes, of a size that becomes a symbol."""
    return _columns(c, _places(c, mask, _bound(c, size)))


def counted_mask_indices(c: Context, mask: Expr, length: Expr) -> list[Expr]:
    """As ``mask_indices``, for a number of positions that is checked where it is known, and bound where it is a new variable."""
    return _columns(c, _places(c, mask, length))


def _bound(c: Context, size: Any) -> Expr:
    if not c.symbols.knows([size]):
        c.symbols.bind(size)
    return c.symbols.expr(size)


def _places(c: Context, mask: Expr, length: Expr) -> Expr:
    """The places as one tensor (axes, length)."""
    ty = tensor_type((to_dim(rank_of(mask)), length), "int64")
    return c.builder.match_cast(c.emit(op.nonzero(c.cast(mask, "bool"))), ty, "places")


def _columns(c: Context, places: Expr) -> list[Expr]:
    axes, length = shape_of(places)
    return [c.emit(c.reshape(slice_axis(places, 0, n, 1), [length])) for n in range(static(axes))]


def expand_masks(c: Context, indices: list[Any], first: Any) -> list[Any]:
    """Index tensors with every mask replaced by one vector for each of its axes; ``first`` is the size these have."""
    result: list[Any] = []
    for index in indices:
        if index is not None and is_mask(index):
            refuse(rank_of(index) == 0, "a mask without axes")
            result += mask_indices(c, index, first)
        else:
            result.append(index)
    return result


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(c: Context, a: Args) -> Expr:
    indices = list(a.indices)
    if any([t is not None and is_mask(t) for t in indices]):
        indices = expand_masks(c, indices, c.value.shape[_result_axis(indices)])
    given = [(axis, t) for axis, t in enumerate(indices) if t is not None]
    if len(given) == 1:
        axis, index = given[0]
        return op.take(a.self, index, axis=axis)
    axes = [axis for axis, _ in given]
    others = [i for i in range(rank_of(a.self)) if i not in axes]
    result = op.index_tensor(permute(a.self, axes + others), [c.cast(t, "int64") for _, t in given])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return result  # indices apart from each other: torch puts their axes first
    count = rank_of(result) - len(others)
    positions = list(range(count, rank_of(result)))
    return permute(result, [*positions[: axes[0]], *range(count), *positions[axes[0] :]])


def _result_axis(indices: list[Any]) -> int:
    """Axis of the result the (broadcast) indices begin at; their own last axis is that of the positions a mask chose."""
    spots: list[int] = []
    axis, rank = 0, 0
    for index in indices:
        if index is not None:
            spots += list(range(axis, axis + (rank_of(index) if is_mask(index) else 1)))
            rank = max(rank, 1 if is_mask(index) else rank_of(index))
        axis += rank_of(index) if index is not None and is_mask(index) else 1
    together = spots == list(range(spots[0], spots[0] + len(spots)))
    return (spots[0] if together else 0) + rank - 1


@aten("masked_select.default")
def _masked_select(c: Context, a: Args) -> Expr:
    shape = _common_shape(c, a.self, a.mask)
    x, mask = c.emit(c.broadcast(a.self, shape)), c.broadcast(a.mask, shape)
    if not shape:
        x, mask = c.reshape(x, [1]), c.reshape(mask, [1])
    return op.index_tensor(x, mask_indices(c, mask, c.value.shape[0]))


def _common_shape(c: Context, *tensors: Expr) -> tuple[Expr, ...]:
    """Shape several tensors are broadcast to."""
    total: Expr = c.cast(tensors[0], "bool")
    for tensor in tensors[1:]:
        total = op.logical_or(total, c.cast(tensor, "bool"))
    return shape_of(total)


@aten("nonzero.default")
def _nonzero(c: Context, a: Args) -> Expr:
    if rank_of(a.self) == 0:  # the column of a vector of one tells how many rows there are
        line = c.reshape(a.self, [1])
        (column,) = mask_indices(c, op.not_equal(line, 0), c.value.shape[0])
        return op.zeros((shape_of(column)[0], 0), "int64")
    return permute(_places(c, op.not_equal(a.self, 0), _bound(c, c.value.shape[0])), [1, 0])


@aten("repeat_interleave.Tensor")
def _repeat_interleave(c: Context, a: Args) -> Expr:
    """Each position as often as its count says: of an element the first position whose counts reach beyond it."""
    counts = c.emit(c.cast(a.repeats, "int64"))
    size = c.value.shape[0]
    ends = c.emit(op.cumsum(counts, axis=0))
    if not c.symbols.knows([size]):
        total = c.emit(c.reshape(op.sum(counts), [1]))
        c.builder.match_cast(c.emit(op.tensor_to_shape(total)), ShapeType((c.symbols.bind(size),), 1))
    line = op.arange(0, c.symbols.expr(size), 1, dtype="int64")
    return c.cast(op.searchsorted(ends, line, right=True), c.dtype)


@aten("one_hot.default")
def _one_hot(c: Context, a: Args) -> Expr:
    refuse(a.num_classes < 0, "the number of classes depends on the data")
    return op.one_hot(c.cast(a.self, "int64"), 1, 0, depth=static(to_dim(a.num_classes)), axis=-1)


# ---- order


@aten("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def _bucketize(c: Context, a: Args) -> Expr:
    edges = getattr(a, "boundaries", None)
    edges = a.sorted_sequence if edges is None else edges
    if getattr(a, "sorter", None) is not None and rank_of(edges):
        edges = op.gather_elements(edges, a.sorter, axis=rank_of(edges) - 1)
    dtype = c.promoted(a.self, edges)
    dtype = "int32" if dtype == "bool" else dtype
    right = a.right if getattr(a, "side", None) is None else a.side == "right"
    values, sequence = c.cast(a.self, dtype), c.cast(edges, dtype)
    return op.searchsorted(sequence, values, right=bool(right), out_int32=bool(a.out_int32))


@aten("sort.default", "sort.stable")
def _sort(c: Context, a: Args) -> list[Expr]:
    if rank_of(a.self) == 0:
        return [a.self, number(0, "int64")]
    axis = axis_of(a.dim, a.self)
    order = c.emit(op.argsort(_orderable(c, a.self), axis=axis, descending=a.descending, dtype="int64"))
    return [_gather_axis(a.self, order, axis), order]


@aten("topk.default")
def _topk(c: Context, a: Args) -> list[Expr]:
    count = to_dim(a.k)
    if rank_of(a.self) == 0:
        refuse(not build.is_int(count, 1), "no element")
        return [a.self, number(0, "int64")]
    axis = axis_of(a.dim, a.self)
    if build.is_int(count, 0):
        return [op.zeros(c.shape, kind) for kind in (c.dtype, "int64")]
    result = c.emit(_topk_indices(_orderable(c, a.self), count, axis, a.largest))
    return [_gather_axis(a.self, result, axis), result]


def _topk_indices(x: Expr, count: Expr, axis: int, largest: bool) -> Expr:
    """Places of the first ``count`` elements in order; of a count that only a call knows, all are put in order."""
    known = count
    if type(count) is Min:  # ``topk`` takes all of an axis that is shorter
        known = next(
            (v for v, extent in ((count.a, count.b), (count.b, count.a)) if extent == shape_of(x)[axis]), count
        )
    if type(known) is IntImm:
        return op.topk(x, k=known.value, axis=axis, ret_type="indices", largest=largest, dtype="int64")
    return slice_axis(op.argsort(x, axis=axis, descending=largest, dtype="int64"), axis, 0, count)


def _gather_axis(x: Expr, order: Expr, axis: int) -> Expr:
    return (
        x
        if has_none(x) and same_dims(shape_of(x), shape_of(order)) is Answer.YES
        else op.gather_elements(x, order, axis=axis)
    )


def _orderable(c: Context, x: Expr) -> Expr:
    return c.cast(x, "int32") if dtype_of(x) == "bool" else x


@aten("_unique2.default")
def _unique(c: Context, a: Args) -> Result:
    """Sorted, then runs of equal elements, which those begin that differ from the one before (NaN from all); the way back goes
    through the order of the sort."""
    refuse(has_none(a.self), "no element")
    count = product(shape_of(a.self))
    x = c.emit(c.reshape(_orderable(c, a.self), [count]))
    order = c.emit(op.argsort(x, axis=0, dtype="int64"))
    rows, line = c.emit(op.take(x, order, axis=0)), c.emit(op.arange(0, count, 1, dtype="int64"))
    differs = op.not_equal(rows, op.take(rows, op.maximum(line - 1, 0), axis=0))
    begins = c.emit(op.logical_or(op.equal(line, 0), differs))
    (positions,) = mask_indices(c, begins, c.value[0].shape[0])
    groups, zeros = c.emit(op.cumsum(c.cast(begins, "int64"), axis=0) - 1), op.zeros((count,), "int64")
    inverse = c.reshape(op.scatter_elements(zeros, order, groups, axis=0), shape_of(a.self))
    ones, runs = op.ones((count,), "int64"), op.zeros(shape_of(positions), "int64")
    counts = op.scatter_elements(runs, groups, ones, axis=0, reduction="add")
    values = c.cast(op.take(rows, positions, axis=0), c.dtype)
    return [values, inverse if a.return_inverse else None, counts if a.return_counts else None]
