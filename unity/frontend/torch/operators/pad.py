"""Table entries: borders around a tensor. Widths are numbers, or sizes that only a call knows.

Invariant: a width below zero cuts away, as torch has it, also where its sign is known only at a call.
"""

from __future__ import annotations

from .... import op
from ....ir import build
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import put_at
from ..context.context import Args, Context, aten, is_float, number, rank_of, shape_of, to_dim
from .shape import slice_axis


@aten("constant_pad_nd.default", "pad.default")
def _pad(c: Context, a: Args) -> Expr:
    mode = getattr(a, "mode", "constant")
    value = a.value or 0.0
    widths = [to_dim(w) for w in a.pad]
    if all([type(w) is IntImm for w in widths]):
        return _known(c, a.self, [w.value for w in widths], mode, value)  # type: ignore[attr-defined]
    x, last = a.self, rank_of(a.self) - 1
    for n in range(len(widths) // 2):
        low, high = widths[2 * n : 2 * n + 2]
        if not (build.is_int(low, 0) and build.is_int(high, 0)):
            x = c.emit(
                _constant(c, x, last - n, low, high, value)
                if mode == "constant"
                else _extend(x, last - n, low, high, mode)
            )
    return c.reshape(x)


def _known(c: Context, x: Expr, widths: list[int], mode: str, value: float) -> Expr:
    rank, later = rank_of(x), []
    before, after = [0] * rank, [0] * rank
    for i in range(len(widths) // 2):
        axis = rank - 1 - i
        low, high = widths[2 * i], widths[2 * i + 1]
        before[axis], after[axis] = max(low, 0), max(high, 0)
        if mode == "circular" and (low < 0 or high < 0):
            extent = shape_of(x)[axis] + (min(low, 0) + min(high, 0))
            x = slice_axis(x, axis, max(-low, 0), extent)
        elif low < 0 or high < 0:
            later.append((axis, max(-low, 0)))
    pads = tuple([w for both in zip(before, after) for w in both])
    result = (
        op.nn_pad(x, pad_width=pads, pad_mode=mode, pad_value=value if is_float(x) else int(value)) if any(pads) else x
    )
    for axis, begin in later:  # a border grows from the whole tensor; what is cut away goes afterwards
        result = slice_axis(result, axis, begin, c.shape[axis])
    return result


def _crop(x: Expr, axis: int, low: Expr, high: Expr) -> tuple[Expr, Expr, Expr]:
    """The part of an axis that widths below zero leave, and the widths that are left to add."""
    size = shape_of(x)[axis] + (build.minimum(low, 0) + build.minimum(high, 0))
    left = slice_axis(x, axis, build.maximum(-low, 0), size)
    return left, build.maximum(low, 0), build.maximum(high, 0)


def _constant(c: Context, x: Expr, axis: int, low: Expr, high: Expr, value: float) -> Expr:
    """A value before and after one axis."""
    kept, low, high = _crop(x, axis, low, high)
    borders: list[list[Expr]] = []
    for width in (low, high):
        shape = tuple(put_at(shape_of(x), axis, width))
        borders.append([] if build.is_int(width, 0) else [op.full(shape, number(value, c.dtype), c.dtype)])
    return op.concat([*borders[0], kept, *borders[1]], axis=axis)


def _extend(x: Expr, axis: int, low: Expr, high: Expr, mode: str) -> Expr:
    """Elements of the axis itself before and after it: those at its positions counted on beyond its ends."""
    if mode == "circular":  # goes around what is left; the others count on from the whole axis
        x, low, high = _crop(x, axis, low, high)
    extent = shape_of(x)[axis]
    position: Expr = op.arange(-low, extent + high, 1, dtype="int64")
    last = op.full((), extent - 1, "int64")
    if mode == "circular":
        position = op.floor_mod(position, op.full((), extent, "int64"))
    elif mode == "reflect":
        position = last - op.abs(last - op.abs(position))
    else:
        position = op.minimum(op.maximum(position, 0), last)
    return op.take(x, position, axis=axis)
