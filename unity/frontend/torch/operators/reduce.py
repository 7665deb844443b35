"""Table entries: reductions, norms and scans along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm, TupleGetItem
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    aten,
    axis_of,
    dtype_of,
    number,
    rank_of,
    refuse,
    shape_of,
)
from .rounding import rounded_once


def _axes(value: Any, rank: int) -> tuple[int, ...] | None:
    if value is None or value == []:
        return None
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple([axis_of(v, rank) for v in values])


def reduce(fn: Callable[..., Expr], x: Expr, dim: Any, keepdim: bool) -> Expr:
    """A reduction over torch's ``dim``; a scalar is its own reduction."""
    if rank_of(x) == 0:
        return x
    return fn(x, axis=_axes(dim, rank_of(x)), keepdims=bool(keepdim))


def _reduced(fn: Callable[..., Expr], x: Expr, a: Args) -> Expr:
    """A reduction over the axes among the arguments, all where there are none."""
    return reduce(fn, x, getattr(a, "dim", None), getattr(a, "keepdim", False))


def _reduction(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    return lambda c, a: _reduced(fn, c.cast(a.self, c.dtype), a)


aten("sum.default", "sum.dim_IntList")(_reduction(op.sum))
aten("mean.default", "mean.dim")(_reduction(op.mean))
aten("prod.default", "prod.dim_int")(_reduction(op.prod))


def _extreme_of_all(largest: bool) -> Callable[[Context, Args], Expr]:
    """The largest or smallest elements; of truth values whether any, or all, are true."""
    truth, numbers = (op.any, op.max) if largest else (op.all, op.min)
    return lambda c, a: _reduced(truth if dtype_of(a.self) == "bool" else numbers, a.self, a)


aten("amax.default", "max.default")(_extreme_of_all(True))
aten("amin.default", "min.default")(_extreme_of_all(False))


def _truth(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    return lambda c, a: c.cast(_reduced(fn, c.cast(a.self, "bool"), a), c.dtype)


aten("any.default", "any.dim", "any.dims", "_is_any_true.default")(_truth(op.any))
aten("all.default", "all.dim", "all.dims", "_is_all_true.default")(_truth(op.all))


def _extreme(largest: bool) -> Callable[[Context, Args], list[Expr]]:
    def translate(c: Context, a: Args) -> list[Expr]:
        if rank_of(a.self) == 0:
            return [a.self, number(0, "int64")]
        x = c.emit(a.self)
        positions = c.emit(c.cast(_argument(x, largest, a.dim, True), "int64"))
        values = op.gather_elements(x, positions, axis=axis_of(a.dim, x))
        return [c.reshape(x, c.symbols.dims(v.shape)) for x, v in zip((values, positions), c.value)]

    return translate


def _argument(x: Expr, largest: bool, dim: int | None, keepdim: bool) -> Expr:
    if rank_of(x) == 0:
        return number(0, "int64")
    axis = None if dim is None else axis_of(dim, x)
    return (op.argmax if largest else op.argmin)(x, axis=axis, keepdims=bool(keepdim))


aten("max.dim")(_extreme(True))
aten("min.dim")(_extreme(False))
aten("argmax.default")(lambda c, a: c.cast(_argument(a.self, True, a.dim, a.keepdim), "int64"))
aten("argmin.default")(lambda c, a: c.cast(_argument(a.self, False, a.dim, a.keepdim), "int64"))


def _count(c: Context, x: Expr, axes: Sequence[int]) -> Expr:
    """Number of elements reduced, as an expression."""
    result = build.const(1, "int64")
    for axis in axes:
        result = result * shape_of(x)[axis]
    return result


def _variance(c: Context, a: Args) -> Expr:
    """The mean squared distance, corrected: n / (n - correction) times it; not a number where nothing is left."""
    correction = getattr(a, "correction", None)
    if correction is None:
        correction = 1 if getattr(a, "unbiased", True) else 0
    rank, x = rank_of(a.self), a.self
    axes = _axes(getattr(a, "dim", None), rank) or tuple(range(rank))
    result = op.variance(x, axis=axes, keepdims=bool(getattr(a, "keepdim", False))) if rank else x - x
    if correction == 0:
        return result
    count = _count(c, x, axes)
    if type(count) is IntImm:
        rest = max(count.value - correction, 0)
        return result * (count.value / rest if rest else math.inf)
    left = op.maximum(c.cast(count, c.dtype) - number(correction, c.dtype), 0)
    return result * (c.cast(count, c.dtype) / left)


aten("var.correction", "var.dim", "var.default")(rounded_once(_variance))
aten("std.correction", "std.dim", "std.default")(rounded_once(lambda c, a: op.sqrt(_variance(c, a))))


def _with_mean(root: bool) -> Callable[[Context, Args], list[Expr]]:
    def translate(c: Context, a: Args) -> list[Expr]:
        variance = _variance(c, a)
        mean = _reduced(op.mean, a.self, a)
        return [op.sqrt(variance) if root else variance, mean]

    return translate


aten("var_mean.correction", "var_mean.dim", "var_mean.default")(rounded_once(_with_mean(False)))
aten("std_mean.correction", "std_mean.dim", "std_mean.default")(rounded_once(_with_mean(True)))


aten("logsumexp.default")(_reduction(op.logsumexp))


# ---- norms


def norm(c: Context, value: Expr, order: Any, dim: Any, keepdim: bool) -> Expr:
    """The vector norm of an order: 0 counts, infinities take the extreme, else the root of the sum of powers.

    Powers of 16-bit floats are taken in float32.
    """
    order = 2 if order is None else order
    dtype = "float32" if c.dtype in ("float16", "bfloat16") else c.dtype
    x = c.emit(c.cast(value, dtype))
    size = c.emit(op.abs(x))
    if order == 2:
        result: Expr = op.sqrt(reduce(op.sum, x * x, dim, keepdim))
    elif order == 1:
        result = reduce(op.sum, size, dim, keepdim)
    elif order in (math.inf, -math.inf):
        result = reduce(op.max if order > 0 else op.min, size, dim, keepdim)
    elif order == 0:
        result = reduce(op.sum, c.cast(op.not_equal(x, 0), dtype), dim, keepdim)
    else:
        total = reduce(op.sum, op.power(size, number(order, dtype)), dim, keepdim)
        result = op.power(total, number(1 / order, dtype))
    return c.cast(result, c.dtype)


@aten("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype",
      "norm.ScalarOpt_dtype")  # fmt: skip
def _vector_norm(c: Context, a: Args) -> Expr:
    order = a.ord if hasattr(a, "ord") else a.p
    return norm(c, c.cast(a.self, c.dtype), order, getattr(a, "dim", None), getattr(a, "keepdim", False))


# ---- order


@aten("median.default", "median.dim")
def _median(c: Context, a: Args) -> Any:
    if not hasattr(a, "dim"):
        return a.self if rank_of(a.self) == 0 else op.median(a.self)
    if rank_of(a.self) == 0:
        return [a.self, number(0, "int64")]
    result = c.emit(op.median(a.self, axis=axis_of(a.dim, a.self), keepdims=bool(a.keepdim)))
    return [TupleGetItem(result, 0), TupleGetItem(result, 1)]


@aten("histc.default")
def _histc(c: Context, a: Args) -> Expr:
    """The number of elements in each of equal parts of a range; those outside and NaN count nowhere."""
    known = isinstance(a.min, (int, float)) and isinstance(a.max, (int, float))
    refuse(not known or a.min >= a.max, "a range that only the data knows")
    low, high = (number(float(v), c.dtype) for v in (a.min, a.max))
    x = c.emit(op.flatten(a.self))
    inside = c.emit(op.logical_and(op.greater_equal(x, low), op.less_equal(x, high)))
    part = op.where(inside, (x - low) * number(a.bins, c.dtype) / (high - low), 0)
    place = op.minimum(op.astype(part, "int64"), a.bins - 1)
    return op.scatter_elements(op.zeros((a.bins,), c.dtype), place, op.astype(inside, c.dtype), axis=0, reduction="add")


# ---- scans


def _scan(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        result = c.cast(a.self, c.dtype)
        return result if rank_of(result) == 0 else fn(result, axis=axis_of(a.dim, result), dtype=c.dtype)

    return translate


aten("cumsum.default")(_scan(op.cumsum))
aten("cumprod.default")(_scan(op.cumprod))
