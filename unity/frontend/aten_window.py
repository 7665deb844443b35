"""Table entries: convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import op
from ..ir.types import Expr
from .context import Args, Context, aten, pair, rank_of, refuse, shape_of, static

_CONV = {1: op.nn_conv1d, 2: op.nn_conv2d, 3: op.nn_conv3d}


def _convolve(c: Context, a: Args, x: Expr) -> Expr:
    rank = rank_of(a.weight) - 2
    batched = x if rank_of(x) == rank + 2 else c.reshape(x, [1, *shape_of(x)])
    stride, dilation = pair(a.stride, rank), pair(a.dilation, rank)
    padding = _same(a, rank, stride, dilation) if isinstance(a.padding, str) else pair(a.padding, rank) * 2
    made = _CONV[rank](batched, a.weight, strides=stride, padding=padding, dilation=dilation, groups=a.groups)
    if a.bias is not None:
        made = op.add(made, c.reshape(a.bias, [1, shape_of(a.bias)[0], *([1] * rank)]))
    return made if batched is x else c.reshape(made)


def _same(a: Args, rank: int, stride: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    if a.padding == "valid":
        return (0,) * (2 * rank)
    refuse(any([s != 1 for s in stride]), "padding 'same' with a stride")
    kernel = [static(d, "the kernel") for d in shape_of(a.weight)[2:]]
    total = [d * (k - 1) for d, k in zip(dilation, kernel)]
    return (*[t // 2 for t in total], *[t - t // 2 for t in total])


@aten("conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def _conv(c: Context, a: Args) -> Expr:
    return _convolve(c, a, a.input)


@aten("convolution.default")
def _convolution(c: Context, a: Args) -> Expr:
    refuse(a.transposed, "transposed convolution")
    return _convolve(c, a, a.input)


def _pool(fn: Callable[..., Expr], c: Context, a: Args, rank: int, **options: Any) -> Expr:
    """Pooling over the last ``rank`` (1 or 2) axes as pooling of images."""
    x = a.self
    kernel = pair(a.kernel_size, rank)
    stride = pair(a.stride, rank) if a.stride not in (None, [], ()) else kernel
    padding, dilation = pair(a.padding, rank), pair(getattr(a, "dilation", 1), rank)
    shape = list(shape_of(x))
    lead = shape[: len(shape) - rank]
    images = [*([1] * (2 - len(lead))), *lead, *([1] * (2 - rank)), *shape[len(shape) - rank :]]
    refuse(len(images) != 4, "this rank")
    front = (1,) * (2 - rank)
    window = {"pool_size": front + kernel, "strides": front + stride, "dilation": front + dilation}
    pads = (0,) * (2 - rank) + padding
    made = fn(x if len(shape) == 4 and rank == 2 else c.reshape(x, images), **window, padding=pads * 2, **options)
    return made if len(shape) == 4 and rank == 2 else c.reshape(made)


aten("max_pool2d.default")(lambda c, a: _pool(op.nn_max_pool2d, c, a, 2, ceil_mode=bool(a.ceil_mode)))
aten("max_pool1d.default")(lambda c, a: _pool(op.nn_max_pool2d, c, a, 1, ceil_mode=bool(a.ceil_mode)))
aten("max_pool2d_with_indices.default")(
    lambda c, a: [_pool(op.nn_max_pool2d, c, a, 2, ceil_mode=bool(a.ceil_mode)), None]
)


def _average(c: Context, a: Args, rank: int) -> Expr:
    refuse(bool(a.ceil_mode) or getattr(a, "divisor_override", None) is not None, "rounding up or a given divisor")
    return _pool(op.nn_avg_pool2d, c, a, rank, count_include_pad=bool(a.count_include_pad))


aten("avg_pool2d.default")(lambda c, a: _average(c, a, 2))
aten("avg_pool1d.default")(lambda c, a: _average(c, a, 1))


@aten("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default", "adaptive_avg_pool1d.default")
def _adaptive(c: Context, a: Args) -> Expr:
    one = "1d" in str(c.node_target)
    out = [static(d, "the output size") for d in (c.shape[-1:] if one else c.shape[-2:])]
    shape = list(shape_of(a.self))
    images = [*shape[:-1], 1, shape[-1]] if one else shape
    images = [*([1] * (4 - len(images))), *images]
    if out == [1] * len(out) and not one:
        return c.reshape(op.mean(a.self, axis=(-2, -1), keepdims=True))
    x = a.self if len(shape) == 4 and not one else c.reshape(a.self, images)
    made = op.nn_adaptive_avg_pool2d(x, output_size=(1, out[0]) if one else tuple(out))
    return made if x is a.self else c.reshape(made)
