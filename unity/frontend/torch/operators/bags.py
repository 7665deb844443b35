"""Table entries: bags of embeddings."""

from __future__ import annotations

import math

from .... import op
from ....ir import build
from ....ir.types import Expr
from ..context.context import Args, Context, Result, aten, dtype_of, has_none, number, refuse, shape_of, static
from .rounding import upcast
from .shape import slice_axis


@aten(
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
    "embedding_bag.padding_idx",
    "embedding_bag.default",
)
def _embedding_bag(c: Context, a: Args) -> Result:
    """Rows of each bag summed, averaged, or the largest taken; a bag is where the offsets say it begins."""
    bags, width = c.symbols.dims(c.value[0].shape)
    if build.is_int(bags, 0) or has_none(a.indices):
        return [op.zeros((bags, width), c.dtype), None, None, None]
    refuse(has_none(a.weight), "no row to take")
    count = shape_of(a.indices)[0]
    size = _bag_size(c, bags, count)
    result = _even_bags(c, a, bags, size) if size else _uneven_bags(c, a, bags, width)
    return [c.cast(result, c.dtype), None, None, None]


def _bag_size(c: Context, bags: Expr, count: Expr) -> int:
    """Indices of each bag where the offsets are a range that gives all of them as many (what two axes of indices become), or 0."""
    offsets = c.node.args[2]
    if str(offsets.target) != "aten.arange.start_step" or offsets.args[0] != 0 or type(offsets.args[2]) is not int:
        return 0
    step: int = offsets.args[2]
    return step if step > 0 and build.is_int(bags * step - count, 0) else 0


def _padding(c: Context, a: Args) -> int | None:
    """The row that counts as missing."""
    padding: int | None = a.padding_idx
    if padding is not None and padding < 0:
        return padding + static(shape_of(a.weight)[0], "the number of rows") if "padding_idx" in c.node_target else None
    return padding


def _even_bags(c: Context, a: Args, bags: Expr, size: int) -> Expr:
    """Bags of one size: reductions along an axis."""
    rows: Expr = upcast(c, op.take(a.weight, c.reshape(a.indices, [bags, size]), axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [bags, size, 1]), kind)
    if padding is None:
        return c.emit((op.sum, op.mean, op.max)[a.mode](rows, axis=1))
    valid = c.emit(op.not_equal(c.reshape(c.cast(a.indices, "int64"), [bags, size, 1]), number(padding, "int64")))
    rows = op.where(valid, rows, -math.inf if a.mode == 2 else 0)
    result = c.emit((op.max if a.mode == 2 else op.sum)(rows, axis=1))
    counted = c.emit(op.sum(c.cast(valid, kind), axis=1))
    if a.mode == 1:
        return result / op.maximum(counted, 1)
    return result if a.mode == 0 else op.where(op.equal(counted, 0), 0, result)


def _uneven_bags(c: Context, a: Args, bags: Expr, width: Expr) -> Expr:
    """Bags that begin where the offsets say: each row is added to its bag."""
    count = shape_of(a.indices)[0]
    offsets = slice_axis(a.offsets, 0, 0, bags) if a.include_last_offset else a.offsets
    begins = op.scatter_elements(
        op.zeros((count + 1,), "int64"), c.cast(offsets, "int64"), op.ones((bags,), "int64"),
        reduction="add",
    )  # fmt: skip
    begun = slice_axis(c.emit(op.cumsum(begins, axis=0)), 0, 0, count)
    bag = c.emit(begun - 1)
    rows: Expr = upcast(c, op.take(a.weight, a.indices, axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [count, 1]), kind)
    valid: Expr = op.ones((count,), "bool")
    if padding is not None:
        valid = op.not_equal(c.cast(a.indices, "int64"), number(padding, "int64"))
    mask = c.emit(valid)
    column = c.reshape(mask, [count, 1])
    low = number(-math.inf if a.mode == 2 else 0, kind)
    rows = rows if padding is None else op.where(column, rows, low)
    area = c.broadcast(low, [bags, width])
    result: Expr = op.scatter_nd(area, c.reshape(bag, [count, 1]), rows, reduction="max" if a.mode == 2 else "add")
    zeros = op.zeros((bags,), "int64")
    counted = op.scatter_elements(zeros, bag, c.cast(mask, "int64"), axis=0, reduction="add")
    sizes = c.reshape(op.maximum(counted, 1), [bags, 1])
    if a.mode == 1:
        result = result / c.cast(sizes, kind)
    elif a.mode == 2:
        result = op.where(op.equal(result, low), 0, result)
    return result
