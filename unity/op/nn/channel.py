"""Operators on images that know their channel axis: prelu, pixel_shuffle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.build import const
from ...ir.expr import Call, ShapeExpr
from ...ir.relation import dims, indivisible
from ...ir.types import Expr, Type
from ..common import channels_last
from ..common.gradients import number_like, operand_shape
from ..common.lowering import result_dims, upcast
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    fail,
    float_tensor,
    int_attr,
    is_one,
    normal_axis,
    tensor_arg,
    with_rank,
    with_shape,
)
from ..elementwise.unary import in_float32
from .norm import channel_params

row = rows("nn")


def _prelu_type(call: Call) -> Type:
    ty = float_tensor(call, 0, "data")
    channel_params(call, ty, ("alpha",), normal_axis(call, int_attr(call, "axis"), ty.ndim), single=True)
    return ty


def _prelu(call: Call, x: te.Tensor, alpha: te.Tensor) -> te.Tensor:
    axis = normal_axis(call, int_attr(call, "axis"), x.ndim)

    def body(*i: te.Value) -> te.Value:
        value, slope = upcast(x[i]), upcast(alpha[0 if is_one(alpha.shape[0]) else i[axis]])
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
    weight = R.reshape(alpha, tuple([channels if a == axis else 1 for a in range(len(shape))]))
    positive = R.greater(x, 0.0)
    below = R.where(positive, number_like(0.0, x), g * x)
    total = R.collapse_sum_to(below, ShapeExpr(operand_shape(call, weight)))
    return [R.where(positive, g, g * weight), R.reshape(total, ShapeExpr((channels,)))]


prelu = row(
    "nn.prelu",
    ("data", "alpha: slopes below 0, one or one per channel", attribute("axis", 1, doc="the axis of channels")),
    _prelu_type,
    "Returns x if positive, else x times the slope of its channel.",
    lower=_prelu,
    ref=in_float32(_prelu_ref),
    grad=_prelu_grad,
    layout=channels_last.along_axis(1),
    samples="f32[2,3,4](-2,2), f32[3]; f32[2,3](-2,2), f32[1], axis=-1; f32[0,3], f32[3]; f16[2,3], f16[2], axis=0",
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
    *batch, channels, height, width = known
    if indivisible(channels, build.const(r * r, "int64")):
        raise fail(call, "E213", f"{channels} channels do not divide by {r} * {r}", arg=0)
    result = [*batch, channels // (r * r), height * r, width * r]
    return with_shape(ty, result)


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
