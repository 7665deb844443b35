"""Exact references and error measures for the math library's tests."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np

Extended = np.longdouble


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _erf(x: np.ndarray) -> np.ndarray:
    values = [float(mpmath.erf(mpmath.mpf(float(v)))) for v in x]
    return np.array(values).astype(Extended)


EXTENDED: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    "exp10": lambda x: np.power(Extended(10), x), "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid, "erf": _erf,
}  # fmt: skip
"""numpy functions that are good to 60 bits or so on longdouble arguments: the judge of float32."""

MPMATH: dict[str, Callable[..., mpmath.mpf]] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "exp10": lambda x: mpmath.power(10, x),
    "expm1": mpmath.expm1, "log": mpmath.log, "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": mpmath.log10,
    "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh, "erf": mpmath.erf, "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "pow": mpmath.power, "atan2": mpmath.atan2, "hypot": mpmath.hypot,
}  # fmt: skip
"""The judge of float64."""


def ulp_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance to the exact (longdouble) result in units in its last place.

    Denormal results count in the smallest denormal. NaN against NaN and infinity against infinity are 0; so is infinity
    against a finite result that rounds to it. Anything else that is not finite is an infinite error.
    """
    limits = np.finfo(got.dtype)
    mantissa = limits.nmant
    size = np.abs(exact)
    exponent = np.floor(np.log2(np.clip(size, Extended(limits.smallest_normal), Extended(limits.max))))
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(Extended) - exact) / Extended(2) ** (exponent - mantissa)
    overflow = np.isinf(got) & (size >= Extended(limits.max) * (1 + Extended(2) ** (-mantissa - 2)))
    same = (np.isnan(got) & np.isnan(exact)) | (overflow & (np.signbit(got) == np.signbit(exact)))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def mpmath_ulp_error(got: float, name: str, *arguments: float) -> float:
    """The float64 error of one finite result against 300 bits of mpmath."""
    with mpmath.workprec(1400 if name in ("sin", "cos", "tan") else 300):
        exact = MPMATH[name](*[mpmath.mpf(a) for a in arguments])
        assert isinstance(exact, mpmath.mpf), (name, arguments, exact)
        largest = mpmath.mpf(np.finfo(np.float64).max)
        if abs(exact) >= largest * (1 + mpmath.mpf(2) ** -54):
            return 0.0 if got == (np.inf if exact > 0 else -np.inf) else np.inf
        exponent = -1022 if exact == 0 else max(int(mpmath.floor(mpmath.log(abs(exact), 2))), -1022)
        return float(abs(mpmath.mpf(got) - exact) / mpmath.mpf(2) ** (exponent - 52))
