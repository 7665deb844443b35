"""Elementwise math on Values, one function per intrinsic."""

from __future__ import annotations

from .value import Scalar, Value, intrinsic


def abs(x: Scalar) -> Value:
    """Absolute value."""
    return intrinsic("abs", x)


def acos(x: Scalar) -> Value:
    """Inverse cosine."""
    return intrinsic("acos", x)


def acosh(x: Scalar) -> Value:
    """Inverse hyperbolic cosine."""
    return intrinsic("acosh", x)


def asin(x: Scalar) -> Value:
    """Inverse sine."""
    return intrinsic("asin", x)


def asinh(x: Scalar) -> Value:
    """Inverse hyperbolic sine."""
    return intrinsic("asinh", x)


def atan(x: Scalar) -> Value:
    """Inverse tangent."""
    return intrinsic("atan", x)


def atanh(x: Scalar) -> Value:
    """Inverse hyperbolic tangent."""
    return intrinsic("atanh", x)


def ceil(x: Scalar) -> Value:
    """Smallest integer not below."""
    return intrinsic("ceil", x)


def cos(x: Scalar) -> Value:
    """Cosine."""
    return intrinsic("cos", x)


def cosh(x: Scalar) -> Value:
    """Hyperbolic cosine."""
    return intrinsic("cosh", x)


def erf(x: Scalar) -> Value:
    """Error function."""
    return intrinsic("erf", x)


def exp(x: Scalar) -> Value:
    """e to the power x."""
    return intrinsic("exp", x)


def floor(x: Scalar) -> Value:
    """Largest integer not above."""
    return intrinsic("floor", x)


def isfinite(x: Scalar) -> Value:
    """True if x is neither infinite nor NaN."""
    return intrinsic("isfinite", x)


def isinf(x: Scalar) -> Value:
    """True if x is infinite."""
    return intrinsic("isinf", x)


def isnan(x: Scalar) -> Value:
    """True if x is NaN."""
    return intrinsic("isnan", x)


def log(x: Scalar) -> Value:
    """Natural logarithm."""
    return intrinsic("log", x)


def log10(x: Scalar) -> Value:
    """Logarithm to base 10."""
    return intrinsic("log10", x)


def log1p(x: Scalar) -> Value:
    """Natural logarithm of 1 + x."""
    return intrinsic("log1p", x)


def log2(x: Scalar) -> Value:
    """Logarithm to base 2."""
    return intrinsic("log2", x)


def nearbyint(x: Scalar) -> Value:
    """Nearest integer, halves to even."""
    return intrinsic("nearbyint", x)


def round(x: Scalar) -> Value:
    """Nearest integer, halves to even."""
    return intrinsic("round", x)


def rsqrt(x: Scalar) -> Value:
    """1 over the square root."""
    return intrinsic("rsqrt", x)


def sigmoid(x: Scalar) -> Value:
    """1 / (1 + exp(-x))."""
    return intrinsic("sigmoid", x)


def sin(x: Scalar) -> Value:
    """Sine."""
    return intrinsic("sin", x)


def sinh(x: Scalar) -> Value:
    """Hyperbolic sine."""
    return intrinsic("sinh", x)


def sqrt(x: Scalar) -> Value:
    """Square root."""
    return intrinsic("sqrt", x)


def tan(x: Scalar) -> Value:
    """Tangent."""
    return intrinsic("tan", x)


def tanh(x: Scalar) -> Value:
    """Hyperbolic tangent."""
    return intrinsic("tanh", x)


def trunc(x: Scalar) -> Value:
    """Integer part."""
    return intrinsic("trunc", x)


def atan2(x1: Scalar, x2: Scalar) -> Value:
    """Angle of the point (y, x): x1 over x2."""
    return intrinsic("atan2", x1, x2)


def fmod(x: Scalar, y: Scalar) -> Value:
    """Remainder of the division towards zero."""
    return intrinsic("fmod", x, y)


def hypot(x1: Scalar, x2: Scalar) -> Value:
    """Length of the vector (x1, x2)."""
    return intrinsic("hypot", x1, x2)


def pow(x1: Scalar, x2: Scalar) -> Value:
    """x1 to the power x2."""
    return intrinsic("pow", x1, x2)


def power(x1: Scalar, x2: Scalar) -> Value:
    """x1 to the power x2."""
    return intrinsic("pow", x1, x2)
