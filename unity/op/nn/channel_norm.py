"""Normalisations whose parameters belong to channels: of each channel, and of groups of them. Not here: others (`norm.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call
from ...ir.relation import dims, indivisible
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.gradients import operand_shape, operand_sizes, sum_except
from ..common.lowering import upcast
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axes_attr,
    axis_attr,
    bool_attr,
    fail,
    float_tensor,
    int_attr,
    product,
    same_dtype,
    tensor_arg,
)
from .activations import float_attr
from .norm import channel_params, moments, moments_backward, norm_axes, normalize, normalize_ref

row = rows("nn")


def _instance_norm_type(call: Call) -> Type:
    ty = float_tensor(call, 0, "data")
    norm_axes(call, ty)
    channel_params(call, ty, ("gamma", "beta"), axis_attr(call, ty.ndim, "channel_axis"))
    return ty


def _instance_norm(call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    channel = axis_attr(call, x.ndim, "channel_axis")
    return normalize(call, x, gamma, beta, (channel,), "instance_norm")


def _instance_norm_ref(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, channel_axis: int = 1, axes: Any = None, **options: Any
) -> np.ndarray:
    if axes is None:
        axes = [a for a in range(1, x.ndim) if a != channel_axis % x.ndim]
    return normalize_ref(x, gamma, beta, axes, **options, param_axes=(channel_axis,))


def channel_norm_grad(call: Call, g: Expr) -> list[Any]:
    """group_norm and instance_norm: the parameters belong to the channels, the moments to groups or axes."""
    x, gamma, beta = call.args
    shape = operand_shape(call, x)
    rank = len(shape)
    channel = axis_attr(call, rank, "channel_axis")
    eps, scale = float(attr(call, "epsilon")), bool_attr(call, "scale")
    spread = tuple([shape[a] if a == channel else 1 for a in range(rank)])
    weighted = g * R.reshape(gamma, spread) if scale else g
    if call.attrs.get("num_groups") is not None:
        groups, sizes = int_attr(call, "num_groups"), operand_sizes(call, x)
        parts = (*sizes[:channel], groups, sizes[channel] // groups, *sizes[channel + 1 :])
        axes = [a for a in range(1, rank + 1) if a != channel]
        normal, inverse = moments(R.reshape(x, parts), axes, eps, True)
        data: Expr = R.reshape(moments_backward(R.reshape(weighted, parts), normal, inverse, axes, True), shape)
        normal = R.reshape(normal, shape)
    else:
        ty = x.ty
        assert isinstance(ty, TensorType)
        axes = list(norm_axes(call, ty))
        normal, inverse = moments(x, axes, eps, True)
        data = moments_backward(weighted, normal, inverse, axes, True)
    first = sum_except(g * normal, [channel], rank) if scale else R.zeros_like(gamma)
    return [data, first, sum_except(g, [channel], rank) if bool_attr(call, "center") else R.zeros_like(beta)]


instance_norm = row(
    "nn.instance_norm",
    (
        "data",
        "gamma",
        "beta",
        attribute("channel_axis", 1),
        attribute("axes", None, doc="the axes to normalise over; None: all but those of the batch and of channels"),
        attribute("epsilon", 1e-5),
        attribute("center", True),
        attribute("scale", True),
    ),
    _instance_norm_type,
    "Normalises each channel of each instance to mean 0 and variance 1, then scales by gamma and shifts by beta.",
    lower=_instance_norm,
    ref=_instance_norm_ref,
    grad=channel_norm_grad,
    layout=channels_last.channel_norm,
    samples="f32[2,3,4,2], f32[3], f32[3], axes=[2,3]; f32[2,4,3], f32[3], f32[3], channel_axis=2; "
    "f16[2,4,3], f16[3], f16[3], axes=[1], channel_axis=-1, epsilon=1e-3; "
    "f32[2,3,4], f32[3], f32[3], axes=[-1], center=False, scale=False",
)


def _group_norm_type(call: Call) -> Type:
    ty = float_tensor(call, 0)
    same_dtype(call, ty, tensor_arg(call, 1, "gamma"), tensor_arg(call, 2, "beta"))
    axis = axis_attr(call, ty.ndim, "channel_axis")
    groups = int_attr(call, "num_groups")
    known = dims(ty)
    if ty.ndim < 2 or axis == 0:
        raise fail(call, "E214", "group_norm needs a batch axis and channels on another axis", arg=0)
    given = axes_attr(call, "axes", ty.ndim)
    if given is not None and {*given} | {axis} != {*range(1, ty.ndim)}:
        raise fail(call, "E214", f"axes must be all but batch and channels, got {given}", arg=0)
    if groups < 1 or (known is not None and indivisible(known[axis], build.const(groups, "int64"))):
        size = "the" if known is None else known[axis]
        raise fail(call, "E213", f"{size} channels do not divide into {groups} groups", arg=0)
    return ty


def _group_norm(call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    axis = axis_attr(call, x.ndim, "channel_axis")
    groups, eps = int_attr(call, "num_groups"), float_attr(call, "epsilon")
    center, scale = bool_attr(call, "center"), bool_attr(call, "scale")
    batch, channels = x.shape[0], x.shape[axis]
    each = channels // groups
    positions = [n for a, n in enumerate(x.shape) if a not in (0, axis)]
    acc_dtype = "float64" if x.dtype == "float64" else "float32"
    size = te.Value(build.cast(each * product(positions), acc_dtype))

    def at(n: te.Value, c: te.Value, ks: list[te.Value]) -> list[te.Value]:
        return [n, *ks[: axis - 1], c, *ks[axis - 1 :]]

    def total(source: Any, name: str) -> te.Tensor:
        """Sums over a group; where channels stand last, of each channel before, so that neighbours are read together."""
        c = te.reduce_axis((0, each), "c")
        ks = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(positions)]
        shape = (batch, groups)
        if axis == 1 or not positions:
            return te.compute(shape, lambda n, g: te.sum(source(n, g * te.Value(each) + c, ks), axis=[c, *ks]), name)
        parts = te.compute((batch, channels), lambda n, f: te.sum(source(n, f, ks), axis=ks), f"{name}_of_channel")
        return te.compute(shape, lambda n, g: te.sum(parts[n, g * te.Value(each) + c], axis=[c]), name)

    first = total(lambda n, c, ks: upcast(x[at(n, c, ks)]), "sum")
    mean = te.compute((batch, channels), lambda n, c: first[n, c // te.Value(each)] / size, "mean")
    second = total(lambda n, c, ks: _square(upcast(x[at(n, c, ks)]) - mean[n, c]), "squares")

    def factor(n: te.Value, c: te.Value) -> te.Value:
        value = 1.0 / te.sqrt(second[n, c // te.Value(each)] / size + eps)
        return value * upcast(gamma[c]) if scale else value

    spread = te.compute((batch, channels), factor, "factor")

    def body(*i: te.Value) -> te.Value:
        value = (upcast(x[i]) - mean[i[0], i[axis]]) * spread[i[0], i[axis]]
        return (value + upcast(beta[i[axis]]) if center else value).astype(x.dtype)

    return te.compute(x.shape, body, "group_norm")


def _square(x: te.Value) -> te.Value:
    return x * x


def _group_norm_ref(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    num_groups: int,
    channel_axis: int = 1,
    axes: Any = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> np.ndarray:
    first = np.moveaxis(x, channel_axis, 1)
    x64 = first.astype(np.float64).reshape(x.shape[0], num_groups, -1)
    result = ((x64 - x64.mean(-1, keepdims=True)) / np.sqrt(x64.var(-1, keepdims=True) + epsilon)).reshape(first.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    result = result * gamma.reshape(shape) if scale else result
    result = result + beta.reshape(shape) if center else result
    return np.moveaxis(result.astype(x.dtype), 1, channel_axis)


group_norm = row(
    "nn.group_norm",
    (
        "data",
        "gamma",
        "beta",
        attribute("num_groups", doc="number of groups"),
        attribute("channel_axis", 1),
        attribute("axes", None, doc="the spatial axes; None: all but the first and the channels"),
        attribute("epsilon", 1e-5),
        attribute("center", True),
        attribute("scale", True),
    ),
    _group_norm_type,
    "Normalises groups of channels to mean 0 and variance 1, then scales by gamma and shifts by beta per channel.",
    lower=_group_norm,
    ref=_group_norm_ref,
    grad=channel_norm_grad,
    layout=channels_last.channel_norm,
    samples="f32[2,6,3,2], f32[6], f32[6], num_groups=3; "
    "f32[2,3,2,6], f32[6], f32[6], num_groups=3, channel_axis=-1; "
    "f32[2,3,4,5], f32[4], f32[4], num_groups=2, channel_axis=2, scale=False",
)
