"""Neural network operators: activations and softmax. Normalisations: norm.py. Convolution and pooling: conv.py, pool.py.

narrow floats are computed in float32 and rounded once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call
from ...ir.op import Param
from ...ir.types import Expr, Type
from ..common import channels_last
from ..common.gradients import dtype_of, mask_grad, unary_grad
from ..common.lowering import cast_tensor, elementwise, let_value, upcast
from ..common.table import Operator, R, attribute, rows
from ..common.type_rules import attr, axis_attr, fail, float_tensor, int_attr, put_at
from ..elementwise.unary import in_float32, number_type
from ..reduction.reduce import highest_number, reduce_tensor

row = rows("nn")


def float_attr(call: Call, name: str, default: float | None = None) -> float:
    """Number attribute. Raises E214."""
    value = attr(call, name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise fail(call, "E214", f"{name} must be a number, got {value!r}")
    return float(value)


def _activation(
    name: str,
    rule: Callable[[Call], Type],
    ref: Any,
    fn: Callable[[Call, te.Value], te.Value],
    doc: str,
    *params: Param,
    **fields: Any,
) -> Operator:
    return row(
        f"nn.{name}",
        ("data", *params),
        rule,
        doc,
        ref=in_float32(ref),
        lower=lambda call, x: elementwise(call, lambda v: fn(call, v), x),
        pointwise=True,
        **{"domain": (-8.0, 8.0), **fields},
    )


def _c(value: float, x: te.Value) -> te.Value:
    return te.const(value, x.dtype)


def _phi(x: np.ndarray) -> np.ndarray:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    x64 = x.astype(np.float64)
    return (0.5 * (1 + (erf(x64 / math.sqrt(2)) if x.size else x64))).astype(x.dtype)


def _gelu_tanh_ref(x: np.ndarray) -> np.ndarray:
    x64 = x.astype(np.float64)
    return np.asarray(0.5 * x64 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x64 + 0.044715 * x64**3))), x.dtype)


def _silu_ref(x: np.ndarray) -> np.ndarray:
    x64 = x.astype(np.float64)
    return np.asarray(x64 / (1 + np.exp(-x64)), x.dtype)


def _softplus_ref(x: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    soft = np.logaddexp(0, x.astype(np.float64) * beta) / beta
    return np.where(x * beta > threshold, x, soft).astype(x.dtype)


def _softplus(call: Call, x: te.Value) -> te.Value:
    beta, threshold = float_attr(call, "beta"), float_attr(call, "threshold")
    scaled = x * beta
    soft = (te.maximum(scaled, 0) + te.log1p(te.exp(0 - te.abs(scaled)))) / beta
    return te.select(scaled > _c(threshold, x), x, soft)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_GELU_TANH = math.sqrt(2 / math.pi)


def _relu6_backward(g: Expr, x: Expr) -> Expr:
    return mask_grad(g, R.logical_and(R.greater(x, 0.0), R.less(x, 6.0)))


def _leaky_grad(call: Call, g: Expr) -> list[Any]:
    return [R.where(R.greater(call.args[0], 0.0), g, g * float_attr(call, "alpha"))]


# fmt: off
relu = _activation("relu", number_type, lambda x: np.maximum(x, x.dtype.type(0)), lambda c, x: te.maximum(x, 0),
                   "Returns max(x, 0); NaN stays NaN.", grad=unary_grad(lambda g, x: mask_grad(g, R.greater(x, 0.0))),
                   mixed_precision="follow", torch=("relu",))
relu6 = _activation("relu6", number_type, lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6)),
                    lambda c, x: te.minimum(te.maximum(x, 0), 6), "Limits x to [0, 6]; NaN stays NaN.",
                    grad=unary_grad(_relu6_backward), torch=("relu6",))
leakyrelu = _activation("leakyrelu", float_tensor, lambda x, alpha=0.01: np.where(x > 0, x, x * x.dtype.type(alpha)),
                        lambda c, x: te.select(x > 0, x, x * float_attr(c, "alpha", 0.01)),
                        "Returns x if positive, else alpha * x.", attribute("alpha", 0.01, "slope below 0"),
                        samples="f32[5], alpha=0.3", grad=_leaky_grad, mixed_precision="follow", torch=("leaky_relu",))
# fmt: on
_TAIL = (
    -0.7978848404730516,
    -0.318306071234823,
    -0.036352563309197054,
    0.00481657601891574,
    1.679190632838598e-06,
    -0.00019590703292425826,
    5.3863776624268905e-05,
    -7.772237214403967e-06,
    6.1043621610693e-07,
    -2.0442053249627464e-08,
)  # fmt: skip
"""Polynomial of log(erfc(x / sqrt(2))) / x for 0 <= x <= 6.5, weighted by what the result adds to gelu (benchmarks/fit_gelu.py);
it falls without end beyond."""


def _gelu(call: Call, x: te.Value) -> te.Value:
    """In float32 through the smaller tail of the normal distribution, which keeps its digits and needs one exponential."""
    if x.dtype.name == "float64":
        return x * (te.erf(x * math.sqrt(0.5)) * 0.5 + 0.5)

    def both(a: te.Value) -> te.Value:
        result = _c(_TAIL[-1], x)
        for coefficient in _TAIL[-2::-1]:
            result = te.Value(build.intrinsic("fma", result.expr, a.expr, _c(coefficient, x).expr))
        return let_value(te.exp(a * result) * 0.5, lambda tail: te.select(x < 0, tail, 1 - tail))

    return x * let_value(te.abs(x), both)


def _gelu_backward(g: Expr, x: Expr) -> Expr:
    density = R.exp(R.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * ((R.erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + x * density)


def _gelu_tanh_backward(g: Expr, x: Expr) -> Expr:
    t = R.tanh(x * _GELU_TANH * (R.square(x) * 0.044715 + 1.0))
    rising = x * (1.0 - R.square(t)) * ((R.square(x) * (3 * 0.044715) + 1.0) * _GELU_TANH)
    return g * ((t + 1.0 + rising) * 0.5)


def _silu_backward(g: Expr, x: Expr) -> Expr:
    s = R.sigmoid(x)
    return g * (s * (x * (1.0 - s) + 1.0))


def _selu_backward(g: Expr, x: Expr) -> Expr:
    above = R.astype(R.greater(x, 0.0), dtype_of(x))
    return g * (R.where(R.greater(x, 0.0), above, R.exp(x) * _SELU_ALPHA) * _SELU_SCALE)


def _softplus_grad(call: Call, g: Expr) -> list[Any]:
    return [g * R.sigmoid(call.args[0] * float_attr(call, "beta"))]


# fmt: off
gelu = _activation("gelu", float_tensor, lambda x: x * _phi(x), _gelu,
                   "Returns x times the standard normal distribution function of x (Hendrycks and Gimpel 2016).",
                   grad=unary_grad(_gelu_backward), mixed_precision="follow")
gelu_tanh = _activation("gelu_tanh", float_tensor, _gelu_tanh_ref,
                        lambda c, x: x * 0.5 * (te.tanh((x + x * x * x * 0.044715) * _GELU_TANH) + 1.0),
                        "Returns the tanh approximation of gelu.", grad=unary_grad(_gelu_tanh_backward))
silu = _activation("silu", float_tensor, _silu_ref, lambda c, x: x * te.sigmoid(x), "Returns x * sigmoid(x).",
                   grad=unary_grad(_silu_backward), mixed_precision="follow", torch=("silu",))
selu = _activation("selu", float_tensor,
                   lambda x: (_SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0)))).astype(x.dtype),
                   lambda c, x: te.select(x > 0, x, (te.exp(x) - 1.0) * _SELU_ALPHA) * _SELU_SCALE,
                   "Returns the scaled exponential linear unit (Klambauer et al. 2017).", torch=("selu",),
                   grad=unary_grad(_selu_backward))
softplus = _activation("softplus", float_tensor, _softplus_ref, _softplus,
                       "Returns log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.",
                       attribute("beta", 1.0, "steepness"),
                       attribute("threshold", 20.0, "value of beta * x above which the result is x"), grad=_softplus_grad,
                       torch=("softplus",), samples="f32[4], beta=2.0")
# fmt: on


def _softmax_type(call: Call) -> Type:
    ty = float_tensor(call, 0)
    if ty.ndim == 0:
        raise fail(call, "E212", "expected at least one axis", arg=0)
    axis_attr(call, ty.ndim if ty.ndim != -1 else 64)
    return ty


def _softmax(log: bool) -> Callable[..., te.Tensor]:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axis = axis_attr(call, x.ndim)
        high = highest_number(x, [axis])

        def at(i: Sequence[Any]) -> list[Any]:
            return put_at(i, axis, 0)

        exponential = te.compute(x.shape, lambda *i: te.exp(upcast(x[i]) - high[at(i)]), "exponent")
        total = reduce_tensor(exponential, [axis], True, te.sum, lambda v, _: v, "total")
        if log:
            result = te.compute(x.shape, lambda *i: upcast(x[i]) - high[at(i)] - te.log(total[at(i)]), "log_softmax")
        else:
            share = te.compute(total.shape, lambda *i: 1.0 / total[i], "share")
            result = te.compute(x.shape, lambda *i: exponential[i] * share[at(i)], "softmax")
        return cast_tensor(result, x.data_type, "softmax_cast")

    return lower


def _softmax_ref(x: np.ndarray, axis: int = -1) -> np.ndarray:
    exponential = np.exp(x - np.max(x, axis=axis, keepdims=True)) if x.size else x
    return np.asarray(exponential / np.sum(exponential, axis=axis, keepdims=True))


def _log_softmax_ref(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - np.max(x, axis=axis, keepdims=True) if x.size else x
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def _softmax_grad(call: Call, g: Expr) -> list[Any]:
    axis = int_attr(call, "axis")
    weighted = g * call
    return [weighted - call * R.sum(weighted, axis=[axis], keepdims=True)]


def _log_softmax_grad(call: Call, g: Expr) -> list[Any]:
    return [g - R.exp(call) * R.sum(g, axis=[int_attr(call, "axis")], keepdims=True)]


softmax = row(
    "nn.softmax",
    ("data", attribute("axis", -1)),
    _softmax_type,
    "Returns exp(x) divided by its sum along an axis, without overflow.",
    lower=_softmax(False),
    ref=in_float32(_softmax_ref),
    grad=_softmax_grad,
    layout=channels_last.along_axis(-1),
    samples="f32[3,4,5]; f32[3,4](-100,100), axis=0; f16[4]",
)
log_softmax = row(
    "nn.log_softmax",
    ("data", attribute("axis", -1)),
    _softmax_type,
    "Returns the logarithm of softmax along an axis, without overflow.",
    lower=_softmax(True),
    ref=in_float32(_log_softmax_ref),
    grad=_log_softmax_grad,
    layout=channels_last.along_axis(-1),
    samples="f32[3,4,5]; f32[3,4](-100,100), axis=0; f16[4]",
)
