"""Unary elementwise operators: one tensor in, the same shape out.

float16 and bfloat16 are computed in float32 and rounded once. Meaning of NaN, infinities and integers is numpy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir.expr import Call
from ...ir.types import TensorType
from ..common.lowering import elementwise
from ..common.table import Operator, attribute, row
from ..common.type_rules import attr, fail, float_tensor, like, tensor_arg

_BOOL = DataType("bool")
_SMALL = ("float16", "bfloat16")


def in_float32(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The numpy function with 16-bit floats computed in float32 and rounded once, without warnings."""

    def wide(x: Any, *rest: Any, **attrs: Any) -> np.ndarray:
        values = [np.asarray(v) for v in (x, *rest)]
        small = next((v.dtype for v in values if str(v.dtype) in _SMALL), None)
        with np.errstate(all="ignore"):
            if small is None:
                return np.asarray(fn(*values, **attrs))
            made = np.asarray(fn(*[v.astype(np.float32) if str(v.dtype) in _SMALL else v for v in values], **attrs))
            return made.astype(small) if made.dtype == np.float32 else made

    return wide


def any_tensor(call: Call) -> TensorType:
    """Rule: any tensor, result of the same type."""
    return tensor_arg(call, 0)


def _float(call: Call) -> TensorType:
    return float_tensor(call, 0)


def _number(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_bool:
        raise fail(
            call, "E211", "expected a tensor of numbers, got bool", 'cast first: R.astype(x, "int32")', call.args[0]
        )
    return ty


def _bits(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_float:
        raise fail(call, "E211", f"expected an integer or bool tensor, got {ty.dtype.name}", None, call.args[0])
    return ty


def _logical(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and not ty.dtype.is_bool:
        raise fail(
            call,
            "E211",
            f"expected a bool tensor, got {ty.dtype.name}",
            'cast first: R.astype(x, "bool")',
            call.args[0],
        )
    return ty


def _test(call: Call) -> TensorType:
    return like(float_tensor(call, 0), _BOOL)


def unary(
    name: str,
    rule: Callable[[Call], TensorType],
    ref: Callable[..., Any],
    fn: Callable[[te.Value], Any],
    doc: str,
    **fields: Any,
) -> Operator:
    """Register a unary operator: type rule, numpy meaning, meaning per element."""
    return row(
        name,
        ("x",),
        rule,
        doc,
        family="unary",
        ref=in_float32(ref),
        lower=lambda call, x: elementwise(call, fn, x),
        **fields,
    )


def _on_floats(fn: Callable[[te.Value], te.Value]) -> Callable[[te.Value], te.Value]:
    """For operators that leave integers as they are."""
    return lambda x: fn(x) if x.dtype.is_float else x


def _abs(x: te.Value) -> te.Value:
    return x if x.dtype.is_uint or x.dtype.is_bool else te.abs(x)


def _sign(x: te.Value) -> te.Value:
    one, zero = te.const(1, x.dtype), te.const(0, x.dtype)
    if x.dtype.is_uint:
        return te.select(x > 0, one, zero)
    side = te.select(x > 0, one, te.select(x < 0, te.const(-1, x.dtype), zero))
    return te.select(te.isnan(x), x, side) if x.dtype.is_float else side


def _sign_ref(x: np.ndarray) -> np.ndarray:
    return np.sign(x)  # type: ignore[no-any-return]


_vector_erf = np.vectorize(math.erf, otypes=[np.float64])


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(_vector_erf(x) if x.size else x).astype(x.dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


abs_ = unary("abs", _number, np.abs, _abs, "Absolute value.")
acos = unary("acos", _float, np.arccos, te.acos, "Inverse cosine, in radians.")
acosh = unary("acosh", _float, np.arccosh, te.acosh, "Inverse hyperbolic cosine.")
asin = unary("asin", _float, np.arcsin, te.asin, "Inverse sine, in radians.")
asinh = unary("asinh", _float, np.arcsinh, te.asinh, "Inverse hyperbolic sine.")
atan = unary("atan", _float, np.arctan, te.atan, "Inverse tangent, in radians.")
atanh = unary("atanh", _float, np.arctanh, te.atanh, "Inverse hyperbolic tangent.")
bitwise_not = unary("bitwise_not", _bits, np.invert, lambda x: ~x, "Complement of every bit; logical negation of bool.")
ceil = unary("ceil", _number, np.ceil, _on_floats(te.ceil), "Smallest integer not below x.")
cos = unary("cos", _float, np.cos, te.cos, "Cosine of radians.")
cosh = unary("cosh", _float, np.cosh, te.cosh, "Hyperbolic cosine.")
erf = unary("erf", _float, _erf, te.erf, "Error function.")
exp = unary("exp", _float, np.exp, te.exp, "e to the power x.")
floor = unary("floor", _number, np.floor, _on_floats(te.floor), "Largest integer not above x.")
isfinite = unary("isfinite", _test, np.isfinite, te.isfinite, "Neither infinite nor NaN.")
isinf = unary("isinf", _test, np.isinf, te.isinf, "Infinite, of either sign.")
isnan = unary("isnan", _test, np.isnan, te.isnan, "Not a number.")
log = unary("log", _float, np.log, te.log, "Natural logarithm.")
logical_not = unary("logical_not", _logical, np.logical_not, lambda x: ~x, "Logical negation of bool.")
negative = unary("negative", _number, np.negative, lambda x: -x, "-x.")
round_ = unary("round", _number, np.round, _on_floats(te.nearbyint), "Nearest integer, halves to even.")
rsqrt = unary("rsqrt", _float, lambda x: 1 / np.sqrt(x), lambda x: 1.0 / te.sqrt(x), "1 over the square root.")
sigmoid = unary("sigmoid", _float, _sigmoid, te.sigmoid, "1 / (1 + exp(-x)).")
sign = unary("sign", _number, _sign_ref, _sign, "-1, 0 or 1; NaN stays NaN.")
sin = unary("sin", _float, np.sin, te.sin, "Sine of radians.")
sinh = unary("sinh", _float, np.sinh, te.sinh, "Hyperbolic sine.")
sqrt = unary("sqrt", _float, np.sqrt, te.sqrt, "Square root.")
square = unary("square", _number, np.square, lambda x: x * x, "x * x.")
tan = unary("tan", _float, np.tan, te.tan, "Tangent of radians.")
tanh = unary("tanh", _float, np.tanh, te.tanh, "Hyperbolic tangent.")
trunc = unary("trunc", _number, np.trunc, _on_floats(te.trunc), "Integer part.")


def _clip_type(call: Call) -> TensorType:
    for name in ("min", "max"):
        value = attr(call, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise fail(call, "E214", f"{name} must be a number, got {value!r}")
    return _number(call)


def _clip(call: Call, x: te.Tensor) -> te.Tensor:
    low, high = attr(call, "min"), attr(call, "max")

    def body(v: te.Value) -> te.Value:
        if not v.dtype.is_float:
            least, most = te.unwrap(te.min_value(v.dtype)).value, te.unwrap(te.max_value(v.dtype)).value
            bounds = [max(least, min(most, math.ceil(low) if low > -math.inf else least))]
            bounds.append(max(least, min(most, math.floor(high) if high < math.inf else most)))
        else:
            bounds = [low, high]
        return te.minimum(te.maximum(v, te.const(bounds[0], v.dtype)), te.const(bounds[1], v.dtype))

    return elementwise(call, body, x)


def _clip_ref(x: np.ndarray, min: float, max: float) -> np.ndarray:
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        low = info.min if min <= info.min else math.ceil(min)
        high = info.max if max >= info.max else math.floor(max)
        return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))  # type: ignore[no-any-return]
    return np.minimum(np.maximum(x, x.dtype.type(min)), x.dtype.type(max))  # type: ignore[no-any-return]


clip = row(
    "clip",
    ("x", attribute("min"), attribute("max")),
    _clip_type,
    "x limited to [min, max]; NaN stays NaN.",
    family="unary",
    ref=in_float32(_clip_ref),
    lower=_clip,
)
