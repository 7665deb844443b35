"""Elementwise math on Values, one function per intrinsic."""

from __future__ import annotations

from collections.abc import Callable

from .value import Scalar, Value, intrinsic


def _unary_intrinsic(name: str, doc: str) -> Callable[[Scalar], Value]:
    """The function of one operand that calls the intrinsic of its name."""

    def function(x: Scalar) -> Value:
        return intrinsic(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary_intrinsic(name: str, doc: str) -> Callable[[Scalar, Scalar], Value]:
    """The function of two operands that calls the intrinsic of its name."""

    def function(x1: Scalar, x2: Scalar) -> Value:
        return intrinsic(name, x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _unary_intrinsic("abs", "Absolute value.")
acos = _unary_intrinsic("acos", "Inverse cosine.")
acosh = _unary_intrinsic("acosh", "Inverse hyperbolic cosine.")
asin = _unary_intrinsic("asin", "Inverse sine.")
asinh = _unary_intrinsic("asinh", "Inverse hyperbolic sine.")
atan = _unary_intrinsic("atan", "Inverse tangent.")
atanh = _unary_intrinsic("atanh", "Inverse hyperbolic tangent.")
ceil = _unary_intrinsic("ceil", "Smallest integer not below.")
clz = _unary_intrinsic("clz", "Number of zero bits before the first one.")
cos = _unary_intrinsic("cos", "Cosine.")
cosh = _unary_intrinsic("cosh", "Hyperbolic cosine.")
erf = _unary_intrinsic("erf", "Error function.")
exp = _unary_intrinsic("exp", "e to the power x.")
exp2 = _unary_intrinsic("exp2", "2 to the power x.")
exp10 = _unary_intrinsic("exp10", "10 to the power x.")
floor = _unary_intrinsic("floor", "Largest integer not above.")
isfinite = _unary_intrinsic("isfinite", "True if x is neither infinite nor NaN.")
isinf = _unary_intrinsic("isinf", "True if x is infinite.")
isnan = _unary_intrinsic("isnan", "True if x is NaN.")
log = _unary_intrinsic("log", "Natural logarithm.")
log10 = _unary_intrinsic("log10", "Logarithm to base 10.")
log1p = _unary_intrinsic("log1p", "Natural logarithm of 1 + x.")
log2 = _unary_intrinsic("log2", "Logarithm to base 2.")
nearbyint = _unary_intrinsic("nearbyint", "Nearest integer, halves to even.")
popcount = _unary_intrinsic("popcount", "Number of bits that are one.")
round = _unary_intrinsic("round", "Nearest integer, halves to even.")
rsqrt = _unary_intrinsic("rsqrt", "1 over the square root.")
sigmoid = _unary_intrinsic("sigmoid", "1 / (1 + exp(-x)).")
sin = _unary_intrinsic("sin", "Sine.")
sinh = _unary_intrinsic("sinh", "Hyperbolic sine.")
sqrt = _unary_intrinsic("sqrt", "Square root.")
tan = _unary_intrinsic("tan", "Tangent.")
tanh = _unary_intrinsic("tanh", "Hyperbolic tangent.")
trunc = _unary_intrinsic("trunc", "Integer part.")


atan2 = _binary_intrinsic("atan2", "Angle of the point (y, x): x1 over x2.")
copysign = _binary_intrinsic("copysign", "x1 with the sign of x2.")
hypot = _binary_intrinsic("hypot", "Length of the vector (x1, x2).")
ldexp = _binary_intrinsic("ldexp", "x1 times 2 to the power x2.")
nextafter = _binary_intrinsic("nextafter", "The number next to x1 towards x2.")
pow = power = _binary_intrinsic("pow", "x1 to the power x2.")


def fmod(x: Scalar, y: Scalar) -> Value:
    """Remainder of the division towards zero."""
    return intrinsic("fmod", x, y)


__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clz", "copysign", "cos", "cosh", "erf",
    "exp", "exp2", "exp10", "floor", "fmod", "hypot", "isfinite", "isinf", "isnan", "ldexp", "log", "log1p", "log2", "log10",
    "nearbyint", "nextafter", "popcount", "pow", "power", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
]  # fmt: skip
