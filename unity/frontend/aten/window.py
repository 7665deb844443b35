"""Table entries: convolution and pooling over one, two or three spatial axes. Not here: windows as columns (``columns``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import op
from ...ir.build import is_int, mul
from ...ir.expr import Call, ShapeExpr, TupleGetItem
from ...ir.relation import Answer, same_dim
from ...ir.types import Expr
from ...op.rules import product
from ..context import Args, Context, aten, dtype_of, number, pair, rank_of, refuse, shape_of, static, to_dim
from .columns import grouped
from .rounding import sum_dtype
from .shape import cut

_CONV = {1: op.nn_conv1d, 2: op.nn_conv2d, 3: op.nn_conv3d}
_TRANSPOSED = {1: op.nn_conv1d_transpose, 2: op.nn_conv2d_transpose, 3: op.nn_conv3d_transpose}
_MAX = {1: op.nn_max_pool1d, 2: op.nn_max_pool2d, 3: op.nn_max_pool3d}
_MAX_INDICES = {
    1: op.nn_max_pool1d_with_indices, 2: op.nn_max_pool2d_with_indices, 3: op.nn_max_pool3d_with_indices,
}  # fmt: skip
_MEAN = {1: op.nn_avg_pool1d, 2: op.nn_avg_pool2d, 3: op.nn_avg_pool3d}
_ADAPTIVE_MEAN = {1: op.nn_adaptive_avg_pool1d, 2: op.nn_adaptive_avg_pool2d, 3: op.nn_adaptive_avg_pool3d}
_ADAPTIVE_MAX = {1: op.nn_adaptive_max_pool1d, 2: op.nn_adaptive_max_pool2d, 3: op.nn_adaptive_max_pool3d}


def _batched(c: Context, x: Expr, rank: int) -> Expr:
    """The tensor with a batch axis in front where torch leaves it out."""
    return x if rank_of(x) == rank + 2 else c.reshape(x, [1, *shape_of(x)])


def _unbatched(c: Context, made: Expr, x: Expr, rank: int) -> Expr:
    return made if rank_of(x) == rank + 2 else c.reshape(made)


# ---- convolution


def _convolve(c: Context, a: Args) -> Expr:
    rank = rank_of(a.weight) - 2
    x = _batched(c, a.input, rank)
    stride, dilation = pair(a.stride, rank), pair(a.dilation, rank)
    out_dtype = None if a.bias is None else sum_dtype(c)
    transposed = getattr(a, "transposed", False)
    if not isinstance(a.groups, int):
        refuse(isinstance(a.padding, str), "padding by name and groups whose number only a call knows")
        made: Expr = grouped(c, x, a.weight, to_dim(a.groups), stride, pair(a.padding, rank), dilation, transposed)
    elif transposed:
        padding, extra = pair(a.padding, rank), pair(a.output_padding, rank)
        made = _TRANSPOSED[rank](
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
        made = _CONV[rank](
            x, a.weight, strides=stride, padding=pads, dilation=dilation, groups=a.groups, out_dtype=out_dtype
        )
    if a.bias is not None:
        bias = c.reshape(a.bias, [1, shape_of(a.bias)[0], *([1] * rank)])
        made = c.cast(op.add(made, c.cast(bias, dtype_of(made))), c.dtype)
    return _unbatched(c, made, a.input, rank)


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


class _Window:
    """Kernel, stride, padding and dilation of a pooling; ``after`` is the border torch's rounding up needs behind the data."""

    def __init__(self, c: Context, a: Args, rank: int) -> None:
        self.rank = rank
        self.kernel = pair(a.kernel_size, rank)
        self.stride = pair(a.stride, rank) if a.stride not in (None, [], ()) else self.kernel
        self.before = pair(a.padding, rank)
        self.dilation = pair(getattr(a, "dilation", 1), rank)
        self.after = self.before
        if a.ceil_mode:
            spans = zip(shape_of(a.self)[-rank:], c.shape[-rank:], self.kernel, self.stride, self.before, self.dilation)
            self.after = tuple([_rest(*values) for values in spans])

    def attrs(self) -> dict[str, Any]:
        return {
            "pool_size": self.kernel,
            "strides": self.stride,
            "padding": self.before + self.after,
            "dilation": self.dilation,
        }


def _rest(span: Expr, out: Expr, kernel: int, stride: int, before: int, dilation: int) -> int:
    """Border behind the data so that exactly the windows torch takes when it rounds up fit."""
    reach = (static(out, "the output of a pooling that rounds up") - 1) * stride + (kernel - 1) * dilation + 1
    return max(reach - static(span, "the size under a pooling that rounds up") - before, 0)


def _rank(c: Context) -> int:
    return next(n for n in (1, 2, 3) if f"{n}d" in c.node_target)


def _max_pool(c: Context, a: Args) -> Expr:
    rank = _rank(c)
    made = _MAX[rank](_batched(c, a.self, rank), **_Window(c, a, rank).attrs())
    return _unbatched(c, made, a.self, rank)


aten("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")(_max_pool)


def _both(c: Context, row: Callable[..., Expr], x: Expr, rank: int, attrs: dict[str, Any]) -> list[Expr]:
    made = c.emit(row(_batched(c, x, rank), **attrs))
    return [_unbatched(c, TupleGetItem(made, n), x, rank) for n in (0, 1)]


@aten("max_pool1d_with_indices.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool_indices(c: Context, a: Args) -> list[Any]:
    rank = _rank(c)
    if not c.uses(1):
        return [_max_pool(c, a), None]
    return _both(c, _MAX_INDICES[rank], a.self, rank, _Window(c, a, rank).attrs())


@aten("max_pool2d_with_indices_backward.default")
def _max_pool_backward(c: Context, a: Args) -> Expr:
    """Every gradient goes to the element its window chose."""
    *lead, height, width = shape_of(a.self)
    lines = c.reshape(op.zeros(ShapeExpr(shape_of(a.self)), c.dtype), [*lead, mul(height, width)])
    flat = [c.reshape(t, [*lead, mul(shape_of(t)[-2], shape_of(t)[-1])]) for t in (a.indices, a.grad_output)]
    return c.reshape(op.scatter_elements(lines, *flat, axis=len(lead), reduction="add"))


@aten("fractional_max_pool2d.default", "fractional_max_pool3d.default")
def _fractional(c: Context, a: Args) -> list[Any]:
    """Windows whose first places are steps of a fraction, moved by the sample of their channel; the last ends at the border."""
    rank = 2 if "2d" in c.node_target else 3
    x = c.emit(_batched(c, a.self, rank))
    batch, channels, *spans = shape_of(x)
    samples = c.broadcast(c.cast(a.random_samples, c.dtype), [batch, channels, to_dim(rank)])
    index: Expr = number(0, "int64")
    lead, count = (batch, channels), 2 * rank
    for n, span in enumerate(spans):
        size, out, kernel = static(span, "a size"), a.output_size[n], a.kernel_size[n]
        sample = c.emit(cut(samples, 2, to_dim(rank - 1 - n), to_dim(1)))
        alpha = number((size - kernel) / max(out - 1, 1), c.dtype)
        line = op.constant(np.arange(out).astype(c.numpy_dtype).reshape(1, 1, out))
        moved = op.trunc(op.multiply(op.add(line, sample), alpha))
        first = op.astype(op.subtract(moved, op.trunc(op.multiply(sample, alpha))), "int64")
        last = op.constant(np.arange(out).reshape(1, 1, out) == out - 1)
        first = op.where(last, number(size - kernel, "int64"), first)
        places = [*lead, *[out if k == n else 1 for k in range(count)]]
        inner = op.constant(np.arange(kernel).reshape([1, 1, *[kernel if k == rank + n else 1 for k in range(count)]]))
        index = op.add(op.multiply(index, number(size, "int64")), op.add(c.reshape(first, places), inner))
    windows = math.prod(a.kernel_size)
    index = c.emit(c.reshape(index, [*lead, math.prod(a.output_size), windows]))
    flat = c.emit(c.reshape(index, [*lead, math.prod(a.output_size) * windows]))
    lines = c.reshape(x, [*lead, product(spans)])
    values = c.emit(c.reshape(op.gather_elements(lines, flat, axis=2), shape_of(index)))
    best = c.emit(op.astype(op.argmax(values, axis=3, keepdims=True), "int64"))
    return [c.reshape(op.gather_elements(t, best, axis=3)) for t in (values, index)]


@aten("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def _average(c: Context, a: Args) -> Expr:
    rank = _rank(c)
    window, counted = _Window(c, a, rank), bool(a.count_include_pad)
    x = _batched(c, a.self, rank)
    divisor = getattr(a, "divisor_override", None)
    if divisor is None and window.after == window.before:
        made = _MEAN[rank](x, **window.attrs(), count_include_pad=counted)
        return _unbatched(c, made, a.self, rank)
    # the border as zeros, so that each mean is over the whole window; then another divisor
    pads = (0, 0, 0, 0, *[w for both in zip(window.before, window.after) for w in both])
    padded = op.nn_pad(x, pad_width=pads, pad_value=0.0)
    mean = _MEAN[rank](padded, pool_size=window.kernel, strides=window.stride)
    scale = _scale(c, window, x, divisor, counted)
    made = op.multiply(_cut(mean, c, rank), op.constant(scale.astype(c.numpy_dtype)))
    return _unbatched(c, made, a.self, rank)


def _cut(mean: Call, c: Context, rank: int) -> Expr:
    """Without the windows that fit only because of the border made of zeros."""
    ends = [static(d) for d in c.shape[-rank:]]
    if [static(d) for d in shape_of(mean)[-rank:]] == ends:
        return mean
    axes = tuple(range(2, rank + 2))
    return op.strided_slice(mean, axes=axes, begin=(0,) * rank, end=tuple(ends))


def _scale(c: Context, window: _Window, x: Expr, divisor: int | None, counted: bool) -> np.ndarray:
    """What the mean over whole windows is multiplied with, for each output place."""
    rank = window.rank
    made = np.full((1,) * rank, float(np.prod(window.kernel)))
    if divisor is not None:
        return made / divisor
    for n, (span, out) in enumerate(zip(shape_of(x)[-rank:], c.shape[-rank:])):
        size, border = static(span), window.before[n]
        start = np.arange(static(out)) * window.stride[n] - border
        low, high = (start, size + border) if counted else (np.maximum(start, 0), size)
        count = np.minimum(start + window.kernel[n], high) - low
        made = made / count.reshape([-1 if i == n else 1 for i in range(rank)])
    return made


# ---- pooling to a given size


def _whole(c: Context, x: Expr, rank: int) -> tuple[int, ...] | None:
    """The axes pooled to one element where all others stay as they are, else None."""
    pooled = [n for n in range(-rank, 0) if same_dim(shape_of(x)[n], c.shape[n]) is not Answer.YES]
    return tuple(pooled) if all([is_int(c.shape[n], 1) for n in pooled]) else None


@aten("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
      "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")  # fmt: skip
def _adaptive_mean(c: Context, a: Args) -> Expr:
    rank = _rank(c)
    whole = _whole(c, a.self, rank)
    if whole is not None:
        return op.mean(a.self, axis=whole, keepdims=True) if whole else c.reshape(a.self)
    out = tuple([static(d, "the output size") for d in c.shape[-rank:]])
    refuse(0 in out, "an output without elements")
    made = _ADAPTIVE_MEAN[rank](_batched(c, a.self, rank), output_size=out)
    return _unbatched(c, made, a.self, rank)


@aten("adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _adaptive_max(c: Context, a: Args) -> list[Any]:
    rank = _rank(c)
    whole = _whole(c, a.self, rank)
    if whole is not None and not c.uses(1):
        return [op.max(a.self, axis=whole, keepdims=True) if whole else c.reshape(a.self), None]
    out = tuple([static(d, "the output size") for d in c.shape[-rank:]])
    refuse(0 in out, "an output without elements")
    return _both(c, _ADAPTIVE_MAX[rank], a.self, rank, {"output_size": out})
