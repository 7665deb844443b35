"""Table entries: convolution and pooling over one, two or three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from .... import op
from ....ir.build import is_int
from ....ir.relation import Answer, same_dim
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    aten,
    dtype_of,
    is_float,
    number,
    pair,
    rank_of,
    refuse,
    shape_of,
    static,
)
from .math import truncated_quotient
from .resize import spatial_rank
from .rounding import sum_dtype
from .shape import slice_axis

_CONV = {1: op.nn_conv1d, 2: op.nn_conv2d, 3: op.nn_conv3d}
_TRANSPOSED = {1: op.nn_conv1d_transpose, 2: op.nn_conv2d_transpose, 3: op.nn_conv3d_transpose}
_MAX = {1: op.nn_max_pool1d, 2: op.nn_max_pool2d, 3: op.nn_max_pool3d}
_MEAN = {1: op.nn_avg_pool1d, 2: op.nn_avg_pool2d, 3: op.nn_avg_pool3d}
_ADAPTIVE_MEAN = {1: op.nn_adaptive_avg_pool1d, 2: op.nn_adaptive_avg_pool2d, 3: op.nn_adaptive_avg_pool3d}
_ADAPTIVE_MAX = {1: op.nn_adaptive_max_pool1d, 2: op.nn_adaptive_max_pool2d, 3: op.nn_adaptive_max_pool3d}


def _batched(c: Context, x: Expr, rank: int) -> Expr:
    """The tensor with a batch axis in front where torch leaves it out."""
    return x if rank_of(x) == rank + 2 else c.reshape(x, [1, *shape_of(x)])


def _unbatched(c: Context, result: Expr, x: Expr, rank: int) -> Expr:
    return result if rank_of(x) == rank + 2 else c.reshape(result)


# ---- convolution


def _convolve(c: Context, a: Args) -> Expr:
    rank = rank_of(a.weight) - 2
    x = _batched(c, a.input, rank)
    stride, dilation = pair(a.stride, rank), pair(a.dilation, rank)
    out_dtype = None if a.bias is None else sum_dtype(c)
    transposed = getattr(a, "transposed", False)
    refuse(not isinstance(a.groups, int), "groups whose number only a call knows")
    if transposed:
        padding, extra = pair(a.padding, rank), pair(a.output_padding, rank)
        result: Expr = _TRANSPOSED[rank](
            x,
            a.weight,
            strides=stride,
            padding=padding * 2,
            output_padding=extra,
            dilation=dilation,
            groups=a.groups,
            out_dtype=out_dtype,
        )
    else:
        pads = _same(a, rank, stride, dilation) if isinstance(a.padding, str) else pair(a.padding, rank) * 2
        result = _CONV[rank](
            x, a.weight, strides=stride, padding=pads, dilation=dilation, groups=a.groups, out_dtype=out_dtype
        )
    if a.bias is not None:
        bias = c.reshape(a.bias, [1, shape_of(a.bias)[0], *([1] * rank)])
        result = c.cast(result + c.cast(bias, dtype_of(result)), c.dtype)
    return _unbatched(c, result, a.input, rank)


def _same(a: Args, rank: int, stride: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    if a.padding == "valid":
        return (0,) * (2 * rank)
    refuse(any([s != 1 for s in stride]), "padding 'same' with a stride")
    kernel = [static(d, "the kernel") for d in shape_of(a.weight)[2:]]
    total = [d * (k - 1) for d, k in zip(dilation, kernel)]
    return (*[t // 2 for t in total], *[t - t // 2 for t in total])


aten("conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding",
     "convolution.default")(_convolve)  # fmt: skip


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def _transposed(c: Context, a: Args) -> Expr:
    a.transposed = True
    return _convolve(c, a)


# ---- pooling over windows of a given size


def _window(a: Args, rank: int) -> dict[str, Any]:
    """The attributes of a pooling."""
    kernel = pair(a.kernel_size, rank)
    return {
        "pool_size": kernel,
        "strides": pair(a.stride, rank) if a.stride not in (None, [], ()) else kernel,
        "padding": pair(a.padding, rank) * 2,
        "dilation": pair(getattr(a, "dilation", 1), rank),
        "ceil_mode": bool(a.ceil_mode),
    }


def _pooled(c: Context, result: Expr, x: Expr, rank: int) -> Expr:
    """Without the windows that begin after the data and its border, which torch leaves out where it rounds up."""
    for axis, size in enumerate(c.shape[-rank:], 2):
        result = slice_axis(result, axis, 0, size)
    return _unbatched(c, result, x, rank)


def _max_pool(c: Context, a: Args) -> Expr:
    rank = spatial_rank(c)
    result = _MAX[rank](_batched(c, a.self, rank), **_window(a, rank))
    return _pooled(c, result, a.self, rank)


aten("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")(_max_pool)


@aten("max_pool1d_with_indices.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool_alone(c: Context, a: Args) -> list[Any]:
    refuse(c.uses(1), "the places of the largest elements")
    return [_max_pool(c, a), None]


@aten("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def _average(c: Context, a: Args) -> Expr:
    """The mean of each window; a mean of integers is cut, as their division is."""
    rank = spatial_rank(c)
    window, x = _window(a, rank), _batched(c, a.self, rank)
    divisor = getattr(a, "divisor_override", None)
    if divisor is None:
        result: Expr = _MEAN[rank](x, **window, count_include_pad=bool(a.count_include_pad))
    else:  # the border as zeros, so that each mean is over the whole window; then another divisor
        kernel, steps, border = window["pool_size"], window["strides"], window["padding"][:rank]
        after = [w + (s - 1 if window["ceil_mode"] else 0) for w, s in zip(border, steps)]
        pads = (0, 0, 0, 0, *[w for both in zip(border, after) for w in both])
        padded = op.nn_pad(x, pad_width=pads, pad_value=0)
        if is_float(x):
            result = _MEAN[rank](padded, pool_size=kernel, strides=steps) * (math.prod(kernel) / divisor)
        else:
            one_channel = c.reshape(padded, [product(shape_of(padded)[:2]), 1, *shape_of(padded)[2:]])
            total = c.emit(_CONV[rank](one_channel, op.ones((1, 1, *kernel), c.dtype), strides=steps))
            result = truncated_quotient(total, number(divisor, c.dtype))
            result = c.reshape(result, [*shape_of(x)[:2], *shape_of(result)[2:]])
    return _pooled(c, result, a.self, rank)


# ---- pooling to a given size


def _adaptive(c: Context, x: Expr, all_of: Callable[..., Expr], rows: Mapping[int, Callable[..., Expr]]) -> Expr:
    """Pooling by a row of ``rows``; over whole axes by ``all_of``."""
    rank = spatial_rank(c)
    pooled = [n for n in range(-rank, 0) if same_dim(shape_of(x)[n], c.shape[n]) is not Answer.YES]
    if all([is_int(c.shape[n], 1) for n in pooled]):
        return all_of(x, axis=tuple(pooled), keepdims=True) if pooled else c.reshape(x)
    out = tuple([static(d, "the output size") for d in c.shape[-rank:]])
    refuse(0 in out, "an output without elements")
    return _unbatched(c, rows[rank](_batched(c, x, rank), output_size=out), x, rank)


@aten("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
      "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")  # fmt: skip
def _adaptive_mean(c: Context, a: Args) -> Expr:
    return _adaptive(c, a.self, op.mean, _ADAPTIVE_MEAN)


@aten("adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _adaptive_max(c: Context, a: Args) -> list[Any]:
    refuse(c.uses(1), "the places of the largest elements")
    return [_adaptive(c, a.self, op.max, _ADAPTIVE_MAX), None]
