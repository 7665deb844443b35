"""Table entries: different elements, and runs of equal ones.

The elements that begin a run are chosen by comparing each with the one before; their number is known when the program runs. NaN is
equal to nothing, as in torch. Not here: slices in order (``R.unique`` along an axis runs as a builtin of the VM).
"""

from __future__ import annotations

from .... import op
from ....ir.expr import TupleGetItem
from ....ir.relation import tensor_type
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    axis_of,
    dtype_of,
    rank_of,
    refuse,
    shape_of,
    to_dim,
)
from .index import chosen, has_none
from .shape import permute


def _flat(c: Context, x: Expr) -> Expr:
    count = to_dim(1)
    for extent in shape_of(x):
        count = count * extent
    return c.emit(c.reshape(x, [count]))


def _begins(c: Context, rows: Expr) -> Expr:
    """For each row, does it differ from the one before? The first does."""
    count = shape_of(rows)[0]
    line = c.emit(op.arange(0, count, 1, dtype="int64"))
    before = op.take(rows, op.maximum(line - 1, 0), axis=0)
    differs = op.not_equal(rows, before)
    if rank_of(rows) == 2:
        differs = op.greater(op.sum(c.cast(differs, "int64"), axis=(1,)), 0)
    return c.emit(op.logical_or(op.equal(line, 0), differs))


def _groups(c: Context, begins: Expr) -> Expr:
    """The number of the run each row belongs to."""
    return c.emit(op.cumsum(c.cast(begins, "int64"), axis=0) - 1)


def _counts(c: Context, groups: Expr, runs: Expr) -> Expr:
    """Rows of each run."""
    ones, zeros = op.ones((shape_of(groups)[0],), "int64"), op.zeros((runs,), "int64")
    return op.scatter_elements(zeros, groups, ones, axis=0, reduction="add")


@aten("unique_consecutive.default")
def _unique_consecutive(c: Context, a: Args) -> Result:
    refuse(has_none(a.self), "no element")
    rank = rank_of(a.self)
    if a.dim is None or rank < 2:
        axis, rows = 0, _flat(c, a.self)
    else:
        axis = axis_of(a.dim, rank)
        first = c.emit(permute(a.self, [axis, *[k for k in range(rank) if k != axis]]))
        rest = to_dim(1)
        for extent in shape_of(first)[1:]:
            rest = rest * extent
        rows = c.emit(c.reshape(first, [shape_of(first)[0], rest]))
    begins = _begins(c, rows)
    places = c.emit(chosen(c, begins, c.value[0].shape[axis])[0])
    groups = _groups(c, begins)
    values = op.take(rows if a.dim is None or rank < 2 else a.self, places, axis=axis)
    back = c.reshape(groups, shape_of(a.self)) if a.dim is None else groups
    return [
        values,
        back if a.return_inverse else None,
        _counts(c, groups, shape_of(places)[0]) if a.return_counts else None,
    ]


@aten("_unique2.default")
def _unique(c: Context, a: Args) -> Result:
    """Sorted, then runs of equal elements; the way back goes through the order of the sort."""
    refuse(has_none(a.self), "no element")
    x = _flat(c, a.self if dtype_of(a.self) != "bool" else c.cast(a.self, "uint8"))
    order = c.emit(op.argsort(x, axis=0, dtype="int64"))
    rows = c.emit(op.take(x, order, axis=0))
    begins = _begins(c, rows)
    places = c.emit(chosen(c, begins, c.value[0].shape[0])[0])
    groups = _groups(c, begins)
    back = op.scatter_elements(op.zeros(shape_of(x), "int64"), order, groups, axis=0)
    return [
        c.cast(op.take(rows, places, axis=0), c.dtype),
        c.reshape(back, shape_of(a.self)) if a.return_inverse else None,
        _counts(c, groups, shape_of(places)[0]) if a.return_counts else None,
    ]


@aten("unique_dim.default")
def _unique_dim(c: Context, a: Args) -> Result:
    refuse(has_none(a.self), "no element")
    rank = rank_of(a.self)
    refuse(rank == 0, "a scalar")
    x = c.cast(a.self, "uint8") if dtype_of(a.self) == "bool" else a.self
    axis = axis_of(a.dim, rank)
    size = c.value[0].shape[axis]
    if not c.symbols.knows([size]):
        c.symbols.bind(size)
    runs = c.symbols.expr(size)
    found = c.emit(op.unique(x, return_inverse=True, return_counts=True, axis=axis))
    shape = [runs if k == axis else extent for k, extent in enumerate(shape_of(a.self))]
    values = c.builder.match_cast(c.emit(TupleGetItem(found, 0)), tensor_type(shape, dtype_of(x)), "values")
    counts = c.builder.match_cast(c.emit(TupleGetItem(found, 2)), tensor_type((runs,), "int64"), "counts")
    back = c.builder.match_cast(c.emit(TupleGetItem(found, 1)), tensor_type((shape_of(a.self)[axis],), "int64"), "back")
    return [c.cast(values, c.dtype), back if a.return_inverse else None, counts if a.return_counts else None]
