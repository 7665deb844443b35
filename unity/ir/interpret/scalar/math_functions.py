"""Floating-point functions on Python floats, evaluated in double precision and rounded by the caller."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _numpy(name: str) -> Callable[[float], float]:
    function = getattr(np, name)
    return lambda x: float(function(x))


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    power = math.exp(x) if x == x else x
    return power / (1.0 + power)


def _exp10(x: float) -> float:
    return float(np.power(10.0, x))


def _rsqrt(x: float) -> float:
    return float(np.divide(1.0, np.sqrt(x)))


UNARY: dict[str, Callable[[float], float]] = {
    "exp": _numpy("exp"), "exp2": _numpy("exp2"), "exp10": _exp10, "log": _numpy("log"), "log2": _numpy("log2"),
    "log10": _numpy("log10"), "log1p": _numpy("log1p"), "sqrt": _numpy("sqrt"), "rsqrt": _rsqrt, "sin": _numpy("sin"),
    "cos": _numpy("cos"), "tan": _numpy("tan"), "asin": _numpy("arcsin"), "acos": _numpy("arccos"), "atan": _numpy("arctan"),
    "sinh": _numpy("sinh"), "cosh": _numpy("cosh"), "tanh": _numpy("tanh"), "asinh": _numpy("arcsinh"),
    "acosh": _numpy("arccosh"), "atanh": _numpy("arctanh"), "erf": math.erf, "sigmoid": _sigmoid, "floor": _numpy("floor"),
    "ceil": _numpy("ceil"), "trunc": _numpy("trunc"), "round": _numpy("rint"), "nearbyint": _numpy("rint"),
    "fabs": _numpy("abs"), "abs": _numpy("abs"),
}  # fmt: skip


def _binary(name: str) -> Callable[[float, float], float]:
    function = getattr(np, name)
    return lambda x, y: float(function(np.float64(x), np.float64(y)))


BINARY: dict[str, Callable[[float, float], float]] = {
    "pow": _binary("power"), "atan2": _binary("arctan2"), "fmod": _binary("fmod"), "hypot": _binary("hypot"),
    "copysign": math.copysign,
}  # fmt: skip


def fma(x: float, y: float, z: float) -> float:
    """``x * y + z`` rounded once to double (exact rational arithmetic for finite values)."""
    product = x * y
    if product - product != 0.0 or z - z != 0.0:
        return product + z
    a, b = x.as_integer_ratio()
    c, d = y.as_integer_ratio()
    e, f = z.as_integer_ratio()
    top, bottom = a * c * f + e * b * d, b * d * f
    if top == 0:
        return product + z
    try:
        return top / bottom
    except OverflowError:
        return math.copysign(math.inf, top)


LIBM: dict[str, Callable[..., Any]] = {
    **UNARY, **BINARY, "fma": fma, "cbrt": _numpy("cbrt"), "expm1": _numpy("expm1"), "fmin": lambda x, y: float(np.fmin(x, y)),
    "fmax": lambda x, y: float(np.fmax(x, y)), "tgamma": math.gamma, "lgamma": math.lgamma, "erfc": math.erfc,
    "rint": _numpy("rint"), "remainder": lambda x, y: math.remainder(x, y),
}  # fmt: skip
"""C functions by name; a trailing ``f`` names the float32 form."""


def libm(name: str) -> Callable[..., Any] | None:
    """The C function of a name, or None."""
    found = LIBM.get(name)
    if found is None and name.endswith("f"):
        found = LIBM.get(name[:-1])
    return found
