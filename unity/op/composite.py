"""Names for combinations of operators, as TVM has them: a call makes the calls it stands for.

The backward steps are what the gradients of the forward operators are made of. Not here: operators (they have rows of their own).
Invariant: nothing downstream sees these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ffi.dtype import DataType
from ..ir.build import const
from ..ir.expr import IntImm, ShapeExpr, Tuple
from ..ir.op import OPS
from ..ir.relation import dims, indivisible, tensor_dtype, unequal_shapes
from ..ir.types import Expr, TensorType
from ..support.errors import TypeRuleError
from .common.table import R, constant
from .common.type_rules import ONE, product

COMPOSITES: dict[str, Callable[..., Expr]] = {}
"""Combinations by script name."""


def _combination(group: str) -> Callable[[Callable[..., Expr]], Callable[..., Expr]]:
    """Enter a function under its name in a group."""

    def enter(function: Callable[..., Expr]) -> Callable[..., Expr]:
        return COMPOSITES.setdefault(f"{group}.{function.__name__}", function)

    return enter


@_combination("R")
def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None) -> Expr:
    """``data @ weight.T + bias``: what torch calls linear. Shapes: (..., k), (n, k), (n,) -> (..., n)."""
    product = R.matmul(data, R.permute_dims(weight), out_dtype=out_dtype)
    return product if bias is None else R.add(product, bias)


@_combination("R")
def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``value`` where the mask is true, else ``x``. Shapes: those of ``x`` and the mask broadcast together."""
    dtype = x.ty.dtype if isinstance(x.ty, TensorType) else None
    return R.where(mask, R.full_like(x, value if isinstance(value, Expr) else constant(value, dtype)), x)


@_combination("R")
def hamming_window(
    window_size: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: str = "float32"
) -> Expr:
    """``alpha - beta * cos(2 pi i / n)`` for i < window_size; n is window_size if periodic, else window_size - 1."""
    size = window_size.value if isinstance(window_size, IntImm) else window_size
    if not isinstance(size, int) or size < 0:
        raise TypeRuleError("E214", f"window_size must be a number that is not negative, got {window_size}")
    turns = max(size if periodic else size - 1, 1)
    values = alpha - beta * np.cos(2 * math.pi / turns * np.arange(size))
    return constant(np.ones(1) if size == 1 else values, dtype)


@_combination("R")
def eye_like(x: Expr, k: int = 0, dtype: str | None = None) -> Expr:
    """A matrix in the shape of ``x`` with ones on diagonal k and zeros elsewhere, in the data type of ``x`` unless one is given."""
    ones = R.ones_like(x, dtype=dtype)
    return R.triu(R.tril(ones, k=k), k=k)


@_combination("R")
def multinomial_from_uniform(prob: Expr, uniform_sample: Expr, sample_indices: Expr, dtype: str = "int64") -> Expr:
    """The first class of a row of ``prob`` whose cumulative probability exceeds the uniform sample.

    Shapes: (batch, classes), (n, 1), (n, 1): the row of ``prob`` for each sample -> (n, 1).
    """
    total = R.take(R.cumsum(R.astype(prob, "float64"), axis=1), R.squeeze(sample_indices, axis=[1]), axis=0)
    others = R.strided_slice(total, axes=[1], begin=[0], end=[-1])  # the last class is what is left
    below = R.less_equal(others, R.astype(uniform_sample, "float64"))
    return R.sum(R.astype(below, dtype), axis=[1], keepdims=True)


def _per_channel(data: Expr, param: Expr, axis: int) -> Expr:
    """A scalar, or a vector along an axis of ``data``, in a shape that is broadcast to that of ``data``."""
    own, rank = dims(param.ty), data.ty.ndim if isinstance(data.ty, TensorType) else -1
    if own is None or len(own) > 1 or rank < 0 or (own and not -max(rank, 1) <= axis < max(rank, 1)):
        raise TypeRuleError("E212", f"expected a scalar or a vector along axis {axis} of {data.ty}, got {param.ty}")
    return (
        R.reshape(param, ShapeExpr(tuple([own[0] if a == axis % rank else ONE for a in range(rank)])))
        if own and rank
        else param
    )


def _wide(x: Expr) -> Expr:
    return R.astype(x, "float64")


@_combination("R")
def quantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "int8") -> Expr:
    """``round(data / scale) + zero_point``, clipped to the range of ``out_dtype``; NaN gives zero_point.

    Shapes: scale and zero_point are scalars or vectors along ``axis``.
    """
    if not DataType(out_dtype).is_integral or DataType(out_dtype).is_bool:
        raise TypeRuleError("E214", f"out_dtype must be an integer type, got {out_dtype}")
    step, offset = [_wide(_per_channel(data, p, axis)) for p in (scale, zero_point)]
    value = R.round(_wide(data) / step) + offset
    limits = np.iinfo(out_dtype)
    value = R.clip(R.where(R.isnan(value), offset, value), min=float(limits.min), max=float(limits.max))
    return R.astype(value, out_dtype)


@_combination("R")
def dequantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "float32") -> Expr:
    """``(data - zero_point) * scale``. Shapes: scale and zero_point are scalars or vectors along ``axis``."""
    if not DataType(out_dtype).is_float:
        raise TypeRuleError("E214", f"out_dtype must be a float type, got {out_dtype}")
    step, offset = [_wide(_per_channel(data, p, axis)) for p in (scale, zero_point)]
    return R.astype((_wide(data) - offset) * step, out_dtype)


@_combination("R.nn")
def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Expr:
    """``data`` where it is positive, else times the slope of its channel. Shapes: alpha is (channels,) or (1,)."""
    return R.where(R.greater(data, 0.0), data, data * _per_channel(data, alpha, axis))


@_combination("R.nn")
def pixel_shuffle(data: Expr, upscale_factor: int) -> Expr:
    """Channels rearranged into blocks of pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r)."""
    known, r = dims(data.ty), upscale_factor
    if known is None or len(known) < 3 or r < 1 or indivisible(known[-3], const(r * r, "int64")):
        raise TypeRuleError("E213", f"the channels of {data.ty} do not divide by {r} * {r}")
    *lead, channels, height, width = known
    rank, each, factor = len(lead), channels // (r * r), const(r, "int64")
    apart = R.reshape(data, ShapeExpr((*lead, each, factor, factor, height, width)))
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    return R.reshape(R.permute_dims(apart, axes=order), ShapeExpr((*lead, each, height * r, width * r)))


@_combination("R.nn")
def cross_entropy_with_logits(predictions: Expr, labels: Expr) -> Expr:
    """``-sum(predictions * labels)``, divided by the size of the first axis if there are several."""
    known, wanted = dims(predictions.ty), dims(labels.ty)
    if known is None or wanted is None or not known or unequal_shapes(known, wanted):
        raise TypeRuleError(
            "E213", f"predictions {predictions.ty} and labels {labels.ty} must have one shape of rank 1 or more"
        )
    lines = (
        R.sum(predictions * labels, axis=list(range(1, len(known)))) if len(known) > 1 else R.sum(predictions * labels)
    )
    return -R.mean(lines) if len(known) > 1 else -lines


@_combination("R")
def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Expr:
    """The first ``seq_lengths[b]`` elements of each sequence in reverse; a length beyond the axis reverses all of it.

    Shapes: seq_lengths is (sequences,), of integers.
    """
    known = dims(data.ty)
    if known is None or seq_axis % len(known) == batch_axis % len(known):
        raise TypeRuleError("E214", f"{data.ty} has no axes {seq_axis} and {batch_axis} for elements and sequences")
    line = R.arange(known[seq_axis], dtype="int64")
    index = _per_channel(data, line, seq_axis)
    length = R.minimum(_per_channel(data, R.astype(seq_lengths, "int64"), batch_axis), R.sum(R.ones_like(line)))
    index = R.where(R.less(index, length), length - 1 - index, index)
    return R.gather_elements(data, R.broadcast_to(index, ShapeExpr(known)), axis=seq_axis)


@_combination("R")
def outer(x1: Expr, x2: Expr) -> Expr:
    """The product of each element of one vector with each of another."""
    return R.expand_dims(x1, [1]) * R.expand_dims(x2, [0])


@_combination("R.nn")
def batch_flatten(data: Expr) -> Expr:
    """``data`` reshaped to two axes, the first one kept."""
    known = dims(data.ty)
    if not known:
        raise TypeRuleError("E212", f"expected at least one axis of known size, got {data.ty}")
    return R.reshape(data, ShapeExpr((known[0], product(known[1:]))))


@_combination("R")
def collapse_sum_like(data: Expr, collapse_target: Expr) -> Expr:
    """``data`` summed to the shape of another tensor, as collapse_sum_to does."""
    known = dims(collapse_target.ty)
    if known is None:
        raise TypeRuleError("E218", f"the shape of {collapse_target.ty} is not known", help="name it with R.match_cast")
    return R.collapse_sum_to(data, ShapeExpr(known))


@_combination("R")
def wrap_param(data: Expr, dtype: str = "float32") -> Expr:
    """A weight converted to a data type."""
    return R.astype(data, dtype)


@_combination("R")
def bucketize(input_tensor: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False) -> Expr:
    """For each value the number of boundaries below it. Shapes: boundaries is a vector in rising order."""
    return R.searchsorted(boundaries, input_tensor, right=right, out_int32=out_int32)


@_combination("R.image")
def affine_grid(data: Expr, size: Any, align_corners: bool = True) -> Expr:
    """The sampling grid of an image or volume of a size under affine maps; coordinates run from -1 to 1.

    Shapes: (batch, n, n + 1) and n sizes -> (batch, n, *sizes); coordinates are x then y, or x, y and z.
    """
    extents = list(
        size.values if isinstance(size, ShapeExpr) else [const(s, "int64") if isinstance(s, int) else s for s in size]
    )
    known, count = dims(data.ty), len(extents)
    wanted = (const(count, "int64"), const(count + 1, "int64"))
    if not isinstance(data.ty, TensorType) or known is None or len(known) != 3 or unequal_shapes(known[1:], wanted):
        raise TypeRuleError("E213", f"data must be (batch, {count}, {count + 1}) for {count} sizes, got {data.ty}")
    kind = "float64" if tensor_dtype(data.ty) == "float64" else "float32"
    lines = []
    for axis, extent in enumerate(extents):
        index = _wide(R.arange(extent, dtype="int64"))
        steps = R.sum(R.ones_like(index))
        if align_corners:
            place = R.where(R.greater(steps, 1.0), index * 2.0 / R.maximum(steps - 1.0, 1.0) - 1.0, 0.0)
        else:
            place = (index * 2.0 + 1.0) / steps - 1.0
        spread = R.reshape(place, ShapeExpr(tuple([extent if a == axis else ONE for a in range(count)])))
        lines.append(R.astype(R.broadcast_to(spread, ShapeExpr(tuple(extents))), kind))
    points = R.reshape(R.stack(Tuple((*lines[::-1], R.ones_like(lines[0])))), ShapeExpr((wanted[1], product(extents))))
    grid = R.matmul(R.astype(data, kind), points)
    return R.astype(R.reshape(grid, ShapeExpr((*known[:2], *extents))), data.ty.dtype or kind)


def _gradient(call: Any, flow: Expr) -> Expr:
    """The gradient of the first argument of a call."""
    rule: Any = OPS[call.op_name].grad
    return rule(call, flow)[0]  # type: ignore[no-any-return]


@_combination("R.grad")
def take_backward(output_grad: Expr, x: Expr, indices: Expr, axis: int = 0) -> Expr:
    """The gradient of take with respect to ``x``."""
    return _gradient(R.take(x, indices, axis=axis), output_grad)


@_combination("R.grad")
def nll_loss_backward(
    output_grad: Expr, predictions: Expr, targets: Expr, weights: Expr | None = None, reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:  # fmt: skip
    """The gradient of nn.nll_loss with respect to ``predictions``."""
    given = [predictions, targets, *([] if weights is None else [weights])]
    return _gradient(R.nn.nll_loss(*given, reduction=reduction, ignore_index=ignore_index), output_grad)


def _pool_backward(name: str, flow: Expr, data: Expr, layout: str, out_layout: str | None, *window: Any) -> Expr:
    """``window``: size, strides, padding, dilation and so on, in the order of the forward operator."""
    if layout != "NCHW" or out_layout not in (None, "", layout):
        raise TypeRuleError("E214", f"layout must be NCHW, got {layout!r}", help="use R.permute_dims before")
    return _gradient(getattr(R.nn, name)(data, *window), flow)


@_combination("R.grad")
def max_pool2d_backward(
    output_grad: Expr, data: Expr, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The gradient of nn.max_pool2d with respect to ``data``: each element goes to the first of the largest in its window."""
    window = pool_size, strides, padding, dilation, ceil_mode
    return _pool_backward("max_pool2d", output_grad, data, layout, out_layout, *window)


@_combination("R.grad")
def avg_pool2d_backward(
    output_grad: Expr, data: Expr, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The gradient of nn.avg_pool2d with respect to ``data``: each element is shared out over its window."""
    window = pool_size, strides, padding, dilation, ceil_mode, count_include_pad
    return _pool_backward("avg_pool2d", output_grad, data, layout, out_layout, *window)
