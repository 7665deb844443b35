"""Table entries: bags of embeddings."""

from __future__ import annotations

import math
from functools import partial

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
    kind = "max" if a.mode == 2 else "add"
    count, padding = shape_of(a.indices)[0], _padding(c, a)
    size = _bag_size(c, bags, count)
    front = [bags, size] if size else [count]
    indices = c.reshape(a.indices, front)
    rows: Expr = upcast(c, op.take(a.weight, indices, axis=0))
    dtype = dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [*front, 1]), dtype)
    valid: Expr = c.broadcast(number(True, "bool"), front)
    if padding is not None:
        valid = c.emit(op.not_equal(c.cast(indices, "int64"), number(padding, "int64")))
        rows = op.where(c.reshape(valid, [*front, 1]), rows, _NEUTRAL[kind])
    gather = _even_bags if size else partial(_uneven_bags, c, _bag_of_rows(c, a, bags, count), bags)
    result = c.emit(gather(rows, kind, [width]))
    if size and padding is None:
        return [c.cast(result / size if a.mode == 1 else result, c.dtype), None, None, None]
    counted = c.reshape(gather(c.cast(valid, "int64"), "add", []), [bags, 1])
    if a.mode == 1:
        result = result / c.cast(op.maximum(counted, 1), dtype)
    elif a.mode == 2:
        result = op.where(op.equal(counted, 0), 0, result)
    return [c.cast(result, c.dtype), None, None, None]


_NEUTRAL = {"add": 0, "max": -math.inf}


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


def _even_bags(rows: Expr, kind: str, rest: list[Expr]) -> Expr:
    """Rows of bags of one size, reduced along an axis."""
    return (op.max if kind == "max" else op.sum)(rows, axis=1)


def _uneven_bags(c: Context, bag: Expr, bags: Expr, rows: Expr, kind: str, rest: list[Expr]) -> Expr:
    """Each row added to its bag."""
    area = c.broadcast(number(_NEUTRAL[kind], dtype_of(rows)), [bags, *rest])
    return op.scatter_nd(area, bag, rows, reduction=kind)


def _bag_of_rows(c: Context, a: Args, bags: Expr, count: Expr) -> Expr:
    """The bag of each row: how many begin up to it, as the offsets say."""
    offsets = slice_axis(a.offsets, 0, 0, bags) if a.include_last_offset else a.offsets
    begins = op.scatter_elements(
        op.zeros((count + 1,), "int64"), c.cast(offsets, "int64"), op.ones((bags,), "int64"),
        reduction="add",
    )  # fmt: skip
    begun = slice_axis(c.emit(op.cumsum(begins, axis=0)), 0, 0, count)
    return c.emit(c.reshape(c.emit(begun - 1), [count, 1]))
