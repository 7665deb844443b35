"""Unary elementwise operators: one tensor in, the same shape out.

float16 and bfloat16 are computed in float32 and rounded once. Meaning of NaN, infinities and integers is numpy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL
from ...ir.build import max_value, min_value, number
from ...ir.expr import Call
from ...ir.types import Expr, TensorType
from ..common.gradients import mask_grad, unary_grad, zero_grad
from ..common.lowering import SMALL_FLOATS, elementwise, let_value
from ..common.table import Operator, R, attribute, row
from ..common.type_rules import attr, fail, float_tensor, tensor_arg, with_dtype


def in_float32(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The numpy function with narrow floats computed in float32 and rounded once, without warnings."""

    def wrapped(x: Any, *rest: Any, **attrs: Any) -> np.ndarray:
        values = [np.asarray(v) for v in (x, *rest)]
        small = next((v.dtype for v in values if str(v.dtype) in SMALL_FLOATS), None)
        with np.errstate(all="ignore"):
            if small is None:
                return np.asarray(fn(*values, **attrs))
            result = np.asarray(
                fn(*[v.astype(np.float32) if str(v.dtype) in SMALL_FLOATS else v for v in values], **attrs)
            )
            return result.astype(small) if result.dtype == np.float32 else result

    return wrapped


def number_type(call: Call) -> TensorType:
    """Type rule of operators on numbers: of any tensor but bool."""
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_bool:
        raise fail(call, "E211", "expected a tensor of numbers, got bool", 'cast first: R.astype(x, "int32")', 0)
    return ty


def _bits(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_float:
        raise fail(call, "E211", f"expected an integer or bool tensor, got {ty.dtype.name}", arg=0)
    return ty


def _logical(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and not ty.dtype.is_bool:
        raise fail(call, "E211", f"expected a bool tensor, got {ty.dtype.name}", 'cast first: R.astype(x, "bool")', 0)
    return ty


def _test(call: Call) -> TensorType:
    return with_dtype(float_tensor(call, 0), BOOL)


def unary(
    name: str,
    rule: Callable[[Call], TensorType],
    ref: Callable[..., Any],
    fn: Callable[[te.Value], Any],
    doc: str,
    **fields: Any,
) -> Operator:
    """Register a unary elementwise operator ``R.<name>``; narrow floats are computed in float32 and rounded once.

    ``rule``: type rule. ``ref``: numpy meaning. ``fn``: meaning for one element. ``doc``: one sentence. ``fields``: further fields
    of ``OpInfo``.
    """
    return row(
        name,
        ("x",),
        rule,
        doc,
        family="unary",
        ref=in_float32(ref),
        lower=lambda call, x: elementwise(call, fn, x),
        pointwise=True,
        **fields,
    )


def _on_floats(fn: Callable[[te.Value], te.Value]) -> Callable[[te.Value], te.Value]:
    """For operators that leave integers as they are."""
    return lambda x: fn(x) if x.dtype.is_float else x


def _abs(x: te.Value) -> te.Value:
    return x if x.dtype.is_uint or x.dtype.is_bool else te.abs(x)


def _sign(x: te.Value) -> te.Value:
    zero = te.const(0, x.dtype)
    if x.dtype.is_uint:
        return te.select(x > 0, 1, zero)
    side = te.select(x > 0, 1, te.select(x < 0, -1, zero))
    return te.select(te.isnan(x), x, side) if x.dtype.is_float else side


def _sign_ref(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sign(x))


_vector_erf = np.vectorize(math.erf, otypes=[np.float64])


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(_vector_erf(x) if x.size else x).astype(x.dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _unary(name: str, *args: Any, **fields: Any) -> Operator:
    """A unary operator that torch calls by the same name."""
    return unary(name, *args, torch=(name,), **fields)


def _sigmoid_backward(g: Expr, x: Expr) -> Expr:
    s = R.sigmoid(x)
    return g * (s * (1.0 - s))


_EXPM1_TINY = {"float16": 2.0**-12, "bfloat16": 2.0**-9, "float32": 2.0**-25, "float64": 2.0**-54}


def _expm1(x: te.Value) -> te.Value:
    """tanh(x / 2) (exp(x) + 1) near 0, where exp(x) - 1 loses its digits; x itself where the rest is below its last digit."""
    tiny = te.const(_EXPM1_TINY[x.dtype.name], x.dtype)

    def body(grown: te.Value) -> te.Value:
        near = te.tanh(x * 0.5) * (grown + 1.0)
        near = te.select(te.abs(x) < tiny, x, near)
        return te.select(te.abs(x) < 1.0, near, grown - 1.0)

    return let_value(te.exp(x), body)


# fmt: off
abs_ = _unary("abs", number_type, np.abs, _abs, "Returns the absolute value of each element.",
             grad=unary_grad(lambda g, x: g * R.sign(x)), mixed_precision="follow")
acos = _unary("acos", float_tensor, np.arccos, te.acos, "Returns the inverse cosine in radians, from 0 to pi; NaN outside [-1, 1].",
             grad=unary_grad(lambda g, x: -(g * R.rsqrt(1.0 - R.square(x)))), domain=(-1, 1))
acosh = _unary("acosh", float_tensor, np.arccosh, te.acosh, "Returns the inverse hyperbolic cosine; NaN below 1.",
              grad=unary_grad(lambda g, x: g * R.rsqrt(R.square(x) - 1.0)), domain=(1, 3))
asin = _unary("asin", float_tensor, np.arcsin, te.asin,
             "Returns the inverse sine in radians, from -pi/2 to pi/2; NaN outside [-1, 1].",
             grad=unary_grad(lambda g, x: g * R.rsqrt(1.0 - R.square(x))), domain=(-1, 1))
asinh = _unary("asinh", float_tensor, np.arcsinh, te.asinh, "Returns the inverse hyperbolic sine.",
              grad=unary_grad(lambda g, x: g * R.rsqrt(1.0 + R.square(x))))
atan = _unary("atan", float_tensor, np.arctan, te.atan, "Returns the inverse tangent in radians, from -pi/2 to pi/2.",
             grad=unary_grad(lambda g, x: g / (1.0 + R.square(x))))
atanh = _unary("atanh", float_tensor, np.arctanh, te.atanh, "Returns the inverse hyperbolic tangent; NaN outside [-1, 1].",
              grad=unary_grad(lambda g, x: g / (1.0 - R.square(x))), domain=(-0.9, 0.9))
bitwise_not = _unary("bitwise_not", _bits, np.invert, lambda x: ~x, "Inverts every bit of an integer; negates bool.")
ceil = _unary("ceil", number_type, np.ceil, _on_floats(te.ceil), "Rounds up to the nearest integer.", grad=zero_grad)
cos = _unary("cos", float_tensor, np.cos, te.cos, "Returns the cosine of x in radians.",
            grad=unary_grad(lambda g, x: -(g * R.sin(x))))
cosh = _unary("cosh", float_tensor, np.cosh, te.cosh, "Returns the hyperbolic cosine.", grad=unary_grad(lambda g, x: g * R.sinh(x)))
erf = _unary("erf", float_tensor, _erf, te.erf, "Returns the error function.",
            grad=unary_grad(lambda g, x: g * (2 / math.sqrt(math.pi)) * R.exp(-R.square(x))))
exp = _unary("exp", float_tensor, np.exp, te.exp, "Returns e to the power x.", grad=unary_grad(lambda g, x: g * R.exp(x)))
floor = _unary("floor", number_type, np.floor, _on_floats(te.floor), "Rounds down to the nearest integer.", grad=zero_grad)
isfinite = _unary("isfinite", _test, np.isfinite, te.isfinite, "Tests whether each element is finite.",
                  torch_operands="float")
isinf = _unary("isinf", _test, np.isinf, te.isinf, "Tests whether each element is infinite.",
               torch_operands="float")
isnan = _unary("isnan", _test, np.isnan, te.isnan, "Tests whether each element is NaN.", torch_operands="float")
log = _unary("log", float_tensor, np.log, te.log, "Returns the natural logarithm; -infinity at 0, NaN below.",
             grad=unary_grad(lambda g, x: g / x), domain=(0.1, 3))
logical_not = _unary("logical_not", _logical, np.logical_not, lambda x: ~x, "Negates bool.")
negative = unary("negative", number_type, np.negative, lambda x: -x, "Returns -x.", grad=unary_grad(lambda g, x: -g),
                 mixed_precision="follow", torch=("neg", "_neg_view"))
round_ = unary("round", number_type, np.round, _on_floats(te.nearbyint),
               "Rounds to the nearest integer, halves to the even one.", grad=zero_grad)
rsqrt = _unary("rsqrt", float_tensor, lambda x: 1 / np.sqrt(x), lambda x: 1.0 / te.sqrt(x),
               "Returns 1 / sqrt(x); infinity at 0, NaN below.", grad=unary_grad(lambda g, x: g * -0.5 * (R.rsqrt(x) / x)),
               domain=(0.1, 3))
sigmoid = _unary("sigmoid", float_tensor, _sigmoid, te.sigmoid, "Returns 1 / (1 + exp(-x)).", grad=unary_grad(_sigmoid_backward))
sign = unary("sign", number_type, _sign_ref, _sign, "Returns -1, 0 or 1, the sign of x; NaN stays NaN.", grad=zero_grad)
sin = _unary("sin", float_tensor, np.sin, te.sin, "Returns the sine of x in radians.", grad=unary_grad(lambda g, x: g * R.cos(x)))
sinh = _unary("sinh", float_tensor, np.sinh, te.sinh, "Returns the hyperbolic sine.", grad=unary_grad(lambda g, x: g * R.cosh(x)))
sqrt = _unary("sqrt", float_tensor, np.sqrt, te.sqrt, "Returns the square root; NaN below 0.",
              grad=unary_grad(lambda g, x: g * 0.5 / R.sqrt(x)), domain=(0, 3))
square = unary("square", number_type, np.square, lambda x: x * x, "Returns x * x.", grad=unary_grad(lambda g, x: g * (x * 2.0)))
tan = _unary("tan", float_tensor, np.tan, te.tan, "Returns the tangent of x in radians.",
            grad=unary_grad(lambda g, x: g / R.square(R.cos(x))))
tanh = _unary("tanh", float_tensor, np.tanh, te.tanh, "Returns the hyperbolic tangent.",
              grad=unary_grad(lambda g, x: g * (1.0 - R.square(R.tanh(x)))))
trunc = _unary("trunc", number_type, np.trunc, _on_floats(te.trunc), "Rounds towards 0.", grad=zero_grad)
log1p = unary("log1p", float_tensor, np.log1p, te.log1p,
              "Returns log(1 + x) without loss of digits near 0; -infinity at -1, NaN below.",
              grad=unary_grad(lambda g, x: g / (x + 1.0)), domain=(-0.9, 3), torch=("log1p", "special_log1p"))
expm1 = unary("expm1", float_tensor, np.expm1, _expm1, "Returns exp(x) - 1 without loss of digits near 0.",
              grad=unary_grad(lambda g, x: g * R.exp(x)), torch=("expm1", "special_expm1"))
log2 = unary("log2", float_tensor, np.log2, te.log2, "Returns the logarithm to base 2; -infinity at 0, NaN below.",
             grad=unary_grad(lambda g, x: g / (x * math.log(2))), domain=(0.1, 3), torch=("log2",))
log10 = unary("log10", float_tensor, np.log10, te.log10, "Returns the logarithm to base 10; -infinity at 0, NaN below.",
              grad=unary_grad(lambda g, x: g / (x * math.log(10))), domain=(0.1, 3), torch=("log10",))
exp2 = unary("exp2", float_tensor, np.exp2, lambda x: te.intrinsic("exp2", x), "Returns 2 to the power x.",
             grad=unary_grad(lambda g, x: g * (R.exp2(x) * math.log(2))), torch=("exp2", "special_exp2"))
# fmt: on


def _clip_type(call: Call) -> TensorType:
    ty = number_type(call)
    for name in ("min", "max"):
        value = attr(call, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise fail(call, "E214", f"{name} must be a number, got {value!r}")
        if value != value and ty.dtype is not None and not ty.dtype.is_float:
            raise fail(call, "E214", f"{name} must be a number that can be compared, got {value!r}")
    return ty


def _clip(call: Call, x: te.Tensor) -> te.Tensor:
    low, high = attr(call, "min"), attr(call, "max")

    def body(v: te.Value) -> te.Value:
        if not v.dtype.is_float:
            least, most = number(min_value(v.dtype)), number(max_value(v.dtype))
            bounds = [math.ceil(max(least, min(most, low))), math.floor(max(least, min(most, high)))]
        else:
            bounds = [low, high]
        return te.minimum(te.maximum(v, te.const(bounds[0], v.dtype)), te.const(bounds[1], v.dtype))

    return elementwise(call, body, x)


def _clip_ref(x: np.ndarray, min: float, max: float) -> np.ndarray:
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        low = info.min if min <= info.min else math.ceil(min)
        high = info.max if max >= info.max else math.floor(max)
        return np.asarray(np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high)))
    return np.asarray(np.minimum(np.maximum(x, x.dtype.type(min)), x.dtype.type(max)))


def _clip_grad(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    return [mask_grad(g, R.logical_and(R.greater_equal(x, attr(call, "min")), R.less_equal(x, attr(call, "max"))))]


clip = row(
    "clip",
    ("x", attribute("min", doc="lower bound"), attribute("max", doc="upper bound")),
    _clip_type,
    "Limits x to [min, max]; NaN stays NaN.",
    family="unary",
    ref=in_float32(_clip_ref),
    lower=_clip,
    grad=_clip_grad,
    pointwise=True,
    mixed_precision="follow",
    samples="f32[9], min=-1.0, max=0.5; i32[9], min=-2.5, max=3",
)
