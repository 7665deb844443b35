"""Operators on images that know their channel axis: prelu, instance_norm, pixel_shuffle.

Means and variances of 16-bit floats are taken in float32; the result is rounded once at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.build import const
from ...ir.expr import Call, ShapeExpr
from ...ir.relation import dims, indivisible, unequal
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.gradients import number_like, operand_shape, operand_sizes, sum_but
from ..common.lowering import result_dims, widened
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axes_attr,
    bool_attr,
    fail,
    float_tensor,
    int_attr,
    is_one,
    normal_axis,
    same_dtype,
    tensor_arg,
    with_rank,
    with_shape,
)
from ..elementwise.unary import in_float32
from ..reduction.reduce import mean_tensor, variance_tensor
from .activations import float_attr
from .norm import moments, norm_axes, through_moments

row = rows("nn")


def _channels(call: Call, ty: TensorType, names: tuple[str, ...], axis: int, single: bool = False) -> None:
    """Parameters after the data must be vectors of one element for each channel (or one in all)."""
    params = [float_tensor(call, n + 1, name, 1) for n, name in enumerate(names)]
    same_dtype(call, ty, *params)
    known = dims(ty)
    for n, param in enumerate(params):
        shape = dims(param)
        if known is None or shape is None or (single and is_one(shape[0])):
            continue
        if unequal(known[axis], shape[0]):
            raise fail(call, "E213", f"axis {axis} has size {known[axis]}, {names[n]} {shape[0]}", arg=n + 1)


def _prelu_type(call: Call) -> Type:
    ty = float_tensor(call, 0, "data")
    _channels(call, ty, ("alpha",), normal_axis(call, int_attr(call, "axis"), ty.ndim), single=True)
    return ty


def _prelu(call: Call, x: te.Tensor, alpha: te.Tensor) -> te.Tensor:
    axis = normal_axis(call, int_attr(call, "axis"), x.ndim)

    def body(*i: te.Value) -> te.Value:
        value, slope = widened(x[i]), widened(alpha[0 if is_one(alpha.shape[0]) else i[axis]])
        return te.select(value > 0, value, value * slope).astype(x.dtype)

    return te.compute(x.shape, body, "prelu")


def _prelu_ref(x: np.ndarray, alpha: np.ndarray, axis: int = 1) -> np.ndarray:
    shape = [1] * x.ndim
    shape[axis] = alpha.shape[0]
    return np.where(x > 0, x, x * alpha.reshape(shape))


def _prelu_grad(call: Call, g: Expr) -> list[Any]:
    x, alpha = call.args
    shape, (channels,) = operand_shape(call, x), operand_shape(call, alpha)
    axis = normal_axis(call, int_attr(call, "axis"), len(shape))
    wide = R.reshape(alpha, tuple([channels if a == axis else 1 for a in range(len(shape))]))
    positive = R.greater(x, 0.0)
    below = R.where(positive, number_like(0.0, x), g * x)
    total = R.collapse_sum_to(below, ShapeExpr(operand_shape(call, wide)))
    return [R.where(positive, g, g * wide), R.reshape(total, ShapeExpr((channels,)))]


prelu = row(
    "nn.prelu",
    ("data", "alpha: slopes below 0, one or one per channel", attribute("axis", 1, doc="the axis of channels")),
    _prelu_type,
    "Returns x if positive, else x times the slope of its channel.",
    lower=_prelu,
    ref=in_float32(_prelu_ref),
    grad=_prelu_grad,
    layout=channels_last.along(1),
    samples="f32[2,3,4](-2,2), f32[3]; f32[2,3](-2,2), f32[1], axis=-1; f32[0,3], f32[3]; f16[2,3], f16[2], axis=0",
)


def _instance_type(call: Call) -> Type:
    ty = float_tensor(call, 0, "data")
    norm_axes(call, ty)
    _channels(call, ty, ("gamma", "beta"), normal_axis(call, int_attr(call, "channel_axis"), ty.ndim))
    return ty


def _instance(call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    assert isinstance(call.ty, TensorType)
    axes, channel = norm_axes(call, call.ty), normal_axis(call, int_attr(call, "channel_axis"), x.ndim)
    eps = float_attr(call, "epsilon")
    center, scale = bool_attr(call, "center"), bool_attr(call, "scale")
    mean, spread = mean_tensor(x, axes, True, "mean"), variance_tensor(x, axes, True, "variance")

    def body(*i: te.Value) -> te.Value:
        at = [0 if a in axes else v for a, v in enumerate(i)]
        value = (widened(x[i]) - mean[at]) * (1.0 / te.sqrt(spread[at] + eps))
        value = value * widened(gamma[i[channel]]) if scale else value
        return (value + widened(beta[i[channel]]) if center else value).astype(x.dtype)

    return te.compute(x.shape, body, "instance_norm")


def _instance_ref(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    axes: Any,
    channel_axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> np.ndarray:
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    wide = x.astype(np.float64)
    shape = [1] * x.ndim
    shape[channel_axis] = x.shape[channel_axis]
    made = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    made = made * gamma.reshape(shape) if scale else made
    return np.asarray(made + beta.reshape(shape) if center else made, x.dtype)


def channel_norm_grad(call: Call, g: Expr) -> list[Any]:
    """group_norm and instance_norm: the parameters belong to the channels, the moments to groups or axes."""
    x, gamma, beta = call.args
    shape = operand_shape(call, x)
    rank = len(shape)
    channel = normal_axis(call, int_attr(call, "channel_axis"), rank)
    eps, scale = float(attr(call, "epsilon")), bool_attr(call, "scale")
    spread = tuple([shape[a] if a == channel else 1 for a in range(rank)])
    weighted = g * R.reshape(gamma, spread) if scale else g
    if call.attrs.get("num_groups") is not None:
        groups, sizes = int_attr(call, "num_groups"), operand_sizes(call, x)
        parts = (*sizes[:channel], groups, sizes[channel] // groups, *sizes[channel + 1 :])
        axes = [a for a in range(1, rank + 1) if a != channel]
        normal, inverse = moments(R.reshape(x, parts), axes, eps, True)
        data: Expr = R.reshape(through_moments(R.reshape(weighted, parts), normal, inverse, axes, True), shape)
        normal = R.reshape(normal, shape)
    else:
        axes = sorted(axes_attr(call, "axes", rank) or ())
        normal, inverse = moments(x, axes, eps, True)
        data = through_moments(weighted, normal, inverse, axes, True)
    first = sum_but(g * normal, [channel], rank) if scale else R.zeros_like(gamma)
    return [data, first, sum_but(g, [channel], rank) if bool_attr(call, "center") else R.zeros_like(beta)]


instance_norm = row(
    "nn.instance_norm",
    (
        "data",
        "gamma",
        "beta",
        attribute("axes"),
        attribute("channel_axis", 1),
        attribute("epsilon", 1e-5),
        attribute("center", True),
        attribute("scale", True),
    ),
    _instance_type,
    "Normalises each channel of each instance to mean 0 and variance 1, then scales by gamma and shifts by beta.",
    lower=_instance,
    ref=_instance_ref,
    grad=channel_norm_grad,
    layout=channels_last.channel_norm,
    samples="f32[2,3,4,2], f32[3], f32[3], axes=[2,3]; "
    "f16[2,4,3], f16[3], f16[3], axes=[1], channel_axis=-1, epsilon=1e-3; "
    "f32[2,3,4], f32[3], f32[3], axes=[-1], center=False, scale=False",
)


def _factor(call: Call) -> int:
    value = int_attr(call, "upscale_factor")
    if value < 1:
        raise fail(call, "E214", f"upscale_factor must be positive, got {value}")
    return value


def _shuffle_type(call: Call) -> Type:
    ty, r = tensor_arg(call, 0, "data"), _factor(call)
    if ty.ndim != -1 and ty.ndim < 3:
        raise fail(call, "E212", f"expected rank 3 or more, got {ty.ndim}", arg=0)
    known = dims(ty)
    if known is None:
        return with_rank(ty, ty.ndim)
    *batch, channels, high, wide = known
    if indivisible(channels, build.const(r * r, "int64")):
        raise fail(call, "E213", f"{channels} channels do not divide by {r} * {r}", arg=0)
    made = [*batch, channels // (r * r), high * r, wide * r]
    return with_shape(ty, made)


def _shuffle(call: Call, x: te.Tensor) -> te.Tensor:
    r = _factor(call)

    def body(*i: te.Value) -> te.Value:
        *batch, c, h, w = i
        return x[[*batch, c * (r * r) + (h % r) * r + w % r, h // r, w // r]]

    return te.compute(result_dims(call), body, "pixel_shuffle")


def _shuffle_ref(x: np.ndarray, upscale_factor: int) -> np.ndarray:
    r, (*batch, c, h, w) = upscale_factor, x.shape
    rank, parts = len(batch), x.reshape(*batch, c // (r * r), r, r, h, w)
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    return parts.transpose(order).reshape(*batch, c // (r * r), h * r, w * r)


def _shuffle_grad(call: Call, g: Expr) -> list[Any]:
    shape, factor = operand_shape(call, call.args[0]), int_attr(call, "upscale_factor")
    lead, (height, width) = len(shape) - 3, shape[-2:]
    channels = operand_shape(call, g)[-3]
    apart = (*shape[:lead], channels, height, const(factor, "int64"), width, const(factor, "int64"))
    order = [*range(lead + 1), lead + 2, lead + 4, lead + 1, lead + 3]
    return [R.reshape(R.permute_dims(R.reshape(g, ShapeExpr(apart)), axes=order), ShapeExpr(shape))]


pixel_shuffle = row(
    "nn.pixel_shuffle",
    ("data", attribute("upscale_factor", doc="r, the factor of height and width")),
    _shuffle_type,
    "Rearranges channels into blocks of pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r).",
    lower=_shuffle,
    ref=_shuffle_ref,
    grad=_shuffle_grad,
    samples="f32[1,8,3,2], upscale_factor=2; i32[9,1,2], upscale_factor=3",
)
