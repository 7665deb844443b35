"""Elementwise math on Values, one function per intrinsic."""

from __future__ import annotations

from collections.abc import Callable

from .value import Scalar, Value, intrinsic


def _of_one(name: str, doc: str) -> Callable[[Scalar], Value]:
    """The function of one operand that calls the intrinsic of its name."""

    def function(x: Scalar) -> Value:
        return intrinsic(name, x)

    function.__name__, function.__doc__ = name, doc
    return function


abs = _of_one("abs", "Absolute value.")
acos = _of_one("acos", "Inverse cosine.")
acosh = _of_one("acosh", "Inverse hyperbolic cosine.")
asin = _of_one("asin", "Inverse sine.")
asinh = _of_one("asinh", "Inverse hyperbolic sine.")
atan = _of_one("atan", "Inverse tangent.")
atanh = _of_one("atanh", "Inverse hyperbolic tangent.")
ceil = _of_one("ceil", "Smallest integer not below.")
clz = _of_one("clz", "Number of zero bits before the first one.")
cos = _of_one("cos", "Cosine.")
cosh = _of_one("cosh", "Hyperbolic cosine.")
erf = _of_one("erf", "Error function.")
exp = _of_one("exp", "e to the power x.")
exp2 = _of_one("exp2", "2 to the power x.")
exp10 = _of_one("exp10", "10 to the power x.")
floor = _of_one("floor", "Largest integer not above.")
isfinite = _of_one("isfinite", "True if x is neither infinite nor NaN.")
isinf = _of_one("isinf", "True if x is infinite.")
isnan = _of_one("isnan", "True if x is NaN.")
log = _of_one("log", "Natural logarithm.")
log10 = _of_one("log10", "Logarithm to base 10.")
log1p = _of_one("log1p", "Natural logarithm of 1 + x.")
log2 = _of_one("log2", "Logarithm to base 2.")
nearbyint = _of_one("nearbyint", "Nearest integer, halves to even.")
popcount = _of_one("popcount", "Number of bits that are one.")
round = _of_one("round", "Nearest integer, halves to even.")
rsqrt = _of_one("rsqrt", "1 over the square root.")
sigmoid = _of_one("sigmoid", "1 / (1 + exp(-x)).")
sin = _of_one("sin", "Sine.")
sinh = _of_one("sinh", "Hyperbolic sine.")
sqrt = _of_one("sqrt", "Square root.")
tan = _of_one("tan", "Tangent.")
tanh = _of_one("tanh", "Hyperbolic tangent.")
trunc = _of_one("trunc", "Integer part.")


def atan2(x1: Scalar, x2: Scalar) -> Value:
    """Angle of the point (y, x): x1 over x2."""
    return intrinsic("atan2", x1, x2)


def copysign(x1: Scalar, x2: Scalar) -> Value:
    """x1 with the sign of x2."""
    return intrinsic("copysign", x1, x2)


def ldexp(x1: Scalar, x2: Scalar) -> Value:
    """x1 times 2 to the power x2."""
    return intrinsic("ldexp", x1, x2)


def nextafter(x1: Scalar, x2: Scalar) -> Value:
    """The number next to x1 towards x2."""
    return intrinsic("nextafter", x1, x2)


def fmod(x: Scalar, y: Scalar) -> Value:
    """Remainder of the division towards zero."""
    return intrinsic("fmod", x, y)


def hypot(x1: Scalar, x2: Scalar) -> Value:
    """Length of the vector (x1, x2)."""
    return intrinsic("hypot", x1, x2)


def pow(x1: Scalar, x2: Scalar) -> Value:
    """x1 to the power x2."""
    return intrinsic("pow", x1, x2)


power = pow
