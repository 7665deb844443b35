"""Normalisations: layer, root mean square, batch, and dropout, which does nothing at inference.

Means and variances of narrow floats are taken in float32; the result is rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir.expr import Call
from ...ir.relation import dims, unequal
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common import channels_last
from ..common.gradients import Rule, field_of, fields_of, operand_shape, sum_except
from ..common.lowering import upcast
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axes_attr,
    axis_attr,
    bool_attr,
    fail,
    float_tensor,
    same_dtype,
    tensor_arg,
)
from ..reduction.reduce import mean_tensor, variance_tensor
from .activations import float_attr

row = rows("nn")


def norm_axes(call: Call, ty: TensorType | te.Tensor) -> tuple[int, ...]:
    """Axes normalised over, in order; None are all but those of the batch and of channels."""
    axes = axes_attr(call, "axes", ty.ndim)
    if axes is None:
        channel = axis_attr(call, ty.ndim, "channel_axis")
        axes = tuple([a for a in range(1, ty.ndim) if a != channel])
    if not axes:
        raise fail(call, "E214", "axes must name at least one axis")
    return tuple(sorted(axes))


def _norm_type(weights: int) -> Callable[[Call], Type]:
    def rule(call: Call) -> Type:
        ty = float_tensor(call, 0)
        params = [
            tensor_arg(call, 1 + i, name)
            for i, name in enumerate(("weight" if weights == 1 else "gamma", "beta")[:weights])
        ]
        same_dtype(call, ty, *params)
        axes = norm_axes(call, ty)
        known = dims(ty)
        for index, param in enumerate(params):
            shape = dims(param)
            if param.ndim not in (-1, len(axes)):
                raise fail(
                    call,
                    "E212",
                    f"the weight must have one axis for each of the {len(axes)} normalised axes",
                    arg=1 + index,
                )
            if known is not None and shape is not None:
                for a, d in zip(axes, shape):
                    if unequal(known[a], d):
                        raise fail(call, "E213", f"axis {a} has size {known[a]}, the weight {d}", arg=1 + index)
        return ty

    return rule


def channel_params(call: Call, ty: TensorType, names: tuple[str, ...], axis: int) -> list[TensorType]:
    """Types of the parameters after the data: vectors of one element for each channel."""
    params = [float_tensor(call, n + 1, name, 1) for n, name in enumerate(names)]
    same_dtype(call, ty, *params)
    known = dims(ty)
    for n, param in enumerate(params):
        shape = dims(param)
        if known is not None and shape is not None and unequal(known[axis], shape[0]):
            raise fail(call, "E213", f"axis {axis} has size {known[axis]}, {names[n]} {shape[0]}", arg=n + 1)
    return params


def normalize(
    call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor, param_axes: Sequence[int], name: str
) -> te.Tensor:
    """The data with mean 0 and variance 1 over the axes of a call, scaled and shifted by parameters ``param_axes`` some axes."""
    axes, eps = norm_axes(call, x), float_attr(call, "epsilon")
    center, scale = bool_attr(call, "center"), bool_attr(call, "scale")
    mean, variance = mean_tensor(x, axes, True, "mean"), variance_tensor(x, axes, True, "variance")

    def body(*i: te.Value) -> te.Value:
        index, w = [0 if a in axes else v for a, v in enumerate(i)], [i[a] for a in param_axes]
        value = (upcast(x[i]) - mean[index]) * (1.0 / te.sqrt(variance[index] + eps))
        value = value * upcast(gamma[w]) if scale else value
        return (value + upcast(beta[w]) if center else value).astype(x.dtype)

    return te.compute(x.shape, body, name)


def _layer_norm(call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    return normalize(call, x, gamma, beta, norm_axes(call, x), "layer_norm")


def _broadcast_axes(w: np.ndarray, rank: int, axes: Sequence[int]) -> np.ndarray:
    positions = sorted([a % rank for a in axes])
    return w.reshape([w.shape[positions.index(a)] if a in positions else 1 for a in range(rank)])


def normalize_ref(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    param_axes: Sequence[int] | None = None,
) -> np.ndarray:
    """Mean 0 and variance 1 over axes; the parameters run along these, or ``param_axes`` others."""
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    param_axes = axes if param_axes is None else param_axes
    x64 = x.astype(np.float64)
    result = (x64 - x64.mean(axes, keepdims=True)) / np.sqrt(x64.var(axes, keepdims=True) + epsilon)
    result = result * _broadcast_axes(gamma, x.ndim, param_axes) if scale else result
    return np.asarray(result + _broadcast_axes(beta, x.ndim, param_axes) if center else result, x.dtype)


def moments(x: Expr, axes: Sequence[int], eps: float, centred: bool) -> tuple[Expr, Expr]:
    """The normalised tensor and 1 / deviation."""
    centered = x - R.mean(x, axis=list(axes), keepdims=True) if centred else x
    inverse = R.rsqrt(R.mean(R.square(centered), axis=list(axes), keepdims=True) + eps)
    return centered * inverse, inverse


def moments_backward(g: Expr, normal: Expr, inverse: Expr, axes: Sequence[int], centred: bool) -> Expr:
    """The gradient of the data from that of the normalised tensor."""
    part = normal * R.mean(g * normal, axis=list(axes), keepdims=True)
    rest = g - part
    return inverse * (rest - R.mean(g, axis=list(axes), keepdims=True) if centred else rest)


def _norm_grad(centred: bool) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        x, gamma = call.args[0], call.args[1]
        shape = operand_shape(call, x)
        axes = sorted(axes_attr(call, "axes", len(shape)) or ())
        normal, inverse = moments(x, axes, float(attr(call, "epsilon")), centred)
        scale = bool_attr(call, "scale", True)
        weight = R.reshape(gamma, tuple([shape[a] if a in axes else 1 for a in range(len(shape))]))
        result = [moments_backward(g * weight if scale else g, normal, inverse, axes, centred)]
        result.append(sum_except(g * normal, axes, len(shape)) if scale else R.zeros_like(gamma))
        if centred:
            result.append(sum_except(g, axes, len(shape)) if bool_attr(call, "center") else R.zeros_like(call.args[2]))
        return result

    return rule


layer_norm = row(
    "nn.layer_norm",
    (
        "data",
        "gamma",
        "beta",
        attribute("axes"),
        attribute("epsilon", 1e-5),
        attribute("center", True),
        attribute("scale", True),
    ),
    _norm_type(2),
    "Normalises over the axes to mean 0 and variance 1, then scales by gamma and shifts by beta.",
    lower=_layer_norm,
    ref=normalize_ref,
    grad=_norm_grad(True),
    samples="f32[2,3,4], f32[4], f32[4], axes=[-1]; "
    "f32[2,3,4], f32[3,4], f32[3,4], axes=[1,2], epsilon=1e-3; "
    "f32[2,4], f32[4], f32[4], axes=[-1], center=False, scale=False; "
    "f32[4], f32[4], f32[4], axes=[0]",
)


def _rms_norm(call: Call, x: te.Tensor, weight: te.Tensor) -> te.Tensor:
    axes, eps = norm_axes(call, x), float_attr(call, "epsilon")
    squares = te.compute(x.shape, lambda *i: upcast(x[i]) * upcast(x[i]), "square")
    mean = mean_tensor(squares, axes, True, "mean")

    def body(*i: te.Value) -> te.Value:
        index = [0 if a in axes else v for a, v in enumerate(i)]
        return (upcast(x[i]) * (1.0 / te.sqrt(mean[index] + eps)) * upcast(weight[[i[a] for a in axes]])).astype(
            x.dtype
        )

    return te.compute(x.shape, body, "rms_norm")


def _rms_norm_ref(x: np.ndarray, weight: np.ndarray, axes: Any = (-1,), epsilon: float = 1e-5) -> np.ndarray:
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    x64 = x.astype(np.float64)
    result = x64 / np.sqrt((x64 * x64).mean(axes, keepdims=True) + epsilon)
    return np.asarray(result * _broadcast_axes(weight, x.ndim, axes), x.dtype)


rms_norm = row(
    "nn.rms_norm",
    ("data", "weight: scales, in the shape of the axes", attribute("axes", (-1,)), attribute("epsilon", 1e-5)),
    _norm_type(1),
    "Divides by the root mean square over the axes, then multiplies by weight.",
    lower=_rms_norm,
    ref=_rms_norm_ref,
    grad=_norm_grad(False),
    samples="f32[2,8], f32[8], axes=[-1]; f32[3,4], f32[4]",
)


def _batch_norm_type(call: Call) -> Type:
    ty = float_tensor(call, 0)
    names, axis = ("gamma", "beta", "moving_mean", "moving_var"), axis_attr(call, ty.ndim)
    params = channel_params(call, ty, names, axis)
    bool_attr(call, "training")
    return TupleType((ty, *params[2:]))


def statistics_axes(call: Call, rank: int) -> list[int]:
    """The axes a batch normalisation takes its statistics over in training: all but that of the channels."""
    axis = axis_attr(call, rank)
    return [a for a in range(rank) if a != axis]


def _batch_norm(
    call: Call, x: te.Tensor, gamma: te.Tensor, beta: te.Tensor, mean: te.Tensor, variance: te.Tensor
) -> tuple[te.Tensor, ...]:
    axis, eps = axis_attr(call, x.ndim), float_attr(call, "epsilon")
    center, scale = bool_attr(call, "center"), bool_attr(call, "scale")
    used, running = [mean, variance], [mean, variance]
    if bool_attr(call, "training"):
        axes, momentum = statistics_axes(call, x.ndim), float_attr(call, "momentum")
        used = [mean_tensor(x, axes, False, "mean"), variance_tensor(x, axes, False, "variance")]

        def update_running(old: te.Tensor, new: te.Tensor, name: str) -> te.Tensor:
            def body(c: te.Value) -> te.Value:
                return (upcast(old[c]) * (1 - momentum) + new[c] * momentum).astype(old.dtype)

            return te.compute(old.shape, body, name)

        running = [update_running(mean, used[0], "moved_mean"), update_running(variance, used[1], "moved_variance")]

    def body(*i: te.Value) -> te.Value:
        c = i[axis]
        value = (upcast(x[i]) - upcast(used[0][c])) / te.sqrt(upcast(used[1][c]) + eps)
        value = value * upcast(gamma[c]) if scale else value
        return (value + upcast(beta[c]) if center else value).astype(x.dtype)

    return te.compute(x.shape, body, "batch_norm"), *running


def _batch_norm_ref(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> tuple[np.ndarray, ...]:
    used: tuple[np.ndarray, ...]
    running: tuple[np.ndarray, ...]
    x64, used, running = x.astype(np.float64), (mean, variance), (mean, variance)
    if training:
        axes = tuple([a for a in range(x.ndim) if a != axis % x.ndim])
        used = (x64.mean(axes), x64.var(axes))
        old = [p.astype(np.float64) for p in running]
        running = tuple([(o * (1 - momentum) + n * momentum).astype(x.dtype) for o, n in zip(old, used)])
    m, v, g, b = [_broadcast_axes(p.astype(np.float64), x.ndim, (axis,)) for p in (*used, gamma, beta)]
    result = (x64 - m) / np.sqrt(v + epsilon)
    result = result * g if scale else result
    return (result + b if center else result).astype(x.dtype), *running


def _batch_norm_grad(call: Call, g: Expr) -> list[Any]:
    x, gamma, beta, center, variance = call.args
    shape = operand_shape(call, x)
    axis = axis_attr(call, len(shape))
    channel_shape = tuple([shape[a] if a == axis else 1 for a in range(len(shape))])
    out, grad_mean, grad_variance = fields_of(g)
    if bool_attr(call, "training"):
        return _batch_norm_in_training(call, out, grad_mean, grad_variance, channel_shape)
    inverse = R.rsqrt(variance + float(attr(call, "epsilon")))
    centered = x - R.reshape(center, channel_shape)
    scale = gamma * inverse if bool_attr(call, "scale") else inverse
    total = sum_except(out, [axis], len(shape))
    moved = sum_except(out * centered, [axis], len(shape))
    return [
        out * R.reshape(scale, channel_shape),
        moved * inverse if bool_attr(call, "scale") else R.zeros_like(gamma),
        total if bool_attr(call, "center") else R.zeros_like(beta),
        grad_mean - total * scale,
        grad_variance - moved * 0.5 * (scale * R.square(inverse)),
    ]


def _batch_norm_in_training(call: Call, g: Expr, grad_mean: Expr, grad_variance: Expr, channel_shape: Any) -> list[Any]:
    """The moments are those of the data; the given ones reach only the statistics handed on."""
    x, gamma, beta = call.args[:3]
    axes = statistics_axes(call, len(channel_shape))
    channel, momentum = [a for a in range(len(channel_shape)) if a not in axes], float(attr(call, "momentum"))
    eps, scale = float(attr(call, "epsilon")), bool_attr(call, "scale")
    normal, inverse = moments(x, axes, eps, True)
    data = moments_backward(g * R.reshape(gamma, channel_shape) if scale else g, normal, inverse, axes, True)
    each = momentum / sum_except(R.ones_like(x), channel, len(channel_shape))
    centered = normal / inverse * 2.0
    moved = R.reshape(grad_mean * each, channel_shape) + R.reshape(grad_variance * each, channel_shape) * centered
    return [
        data + moved,
        sum_except(g * normal, channel, len(channel_shape)) if scale else R.zeros_like(gamma),
        sum_except(g, channel, len(channel_shape)) if bool_attr(call, "center") else R.zeros_like(beta),
        grad_mean * (1 - momentum),
        grad_variance * (1 - momentum),
    ]


batch_norm = row(
    "nn.batch_norm",
    (
        "data",
        "gamma",
        "beta",
        "moving_mean: (channels,)",
        "moving_var: (channels,)",
        attribute("axis", 1, doc="the axis of channels"),
        attribute("epsilon", 1e-5),
        attribute("center", True),
        attribute("scale", True),
        attribute("momentum", 0.1, doc="step of the moving values towards those of the batch"),
        attribute("training", False, doc="normalise by mean and variance of the batch"),
    ),
    _batch_norm_type,
    "Normalises each channel with the moving mean and variance, or those of the batch; also returns the new moving values.",
    lower=_batch_norm,
    ref=_batch_norm_ref,
    grad=_batch_norm_grad,
    layout=channels_last.along_axis(1),
    samples="f32[2,3,4], f32[3], f32[3], f32[3], f32[3](0.1,2); "
    "f32[2,3,4], f32[4], f32[4], f32[4], f32[4](0.1,2), axis=-1, center=False, scale=False; "
    "f32[2,3,4], f32[3], f32[3], f32[3], f32[3](0.1,2), training=True, momentum=0.3; "
    "f32[5,2], f32[5], f32[5], f32[5], f32[5](0.1,2), training=True, axis=0, center=False; "
    "f16[4,3,5], f16[3], f16[3], f16[3], f16[3](0.1,2), training=True",
)


def _dropout_type(call: Call) -> Type:
    ty = float_tensor(call, 0)
    float_attr(call, "rate")
    return TupleType((ty, ty))


def _dropout(call: Call, x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    return x, te.compute(x.shape, lambda *i: te.const(1, x.dtype), "mask")


dropout = row(
    "nn.dropout",
    ("data", attribute("rate", 0.5, doc="share of elements that training would drop")),
    _dropout_type,
    "Returns data unchanged and a mask of ones: dropout at inference.",
    lower=_dropout,
    ref=lambda x, rate=0.5: (x, np.ones_like(x)),
    grad=lambda call, g: [field_of(g, 0)],
    samples="f32[3]",
)
