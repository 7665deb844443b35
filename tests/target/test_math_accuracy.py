"""The math library's error bounds (`ULP`), over dense samples: float32 against longdouble, float64 against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from math_kernel import math_kernel
from math_reference import EXTENDED, MPMATH, mpmath_ulp_error, ulp_errors

from unity.target.llvm.math.library import MATH_FUNCTIONS, ULP

DOMAINS = {
    "log": (0, np.inf), "log2": (0, np.inf), "log10": (0, np.inf), "log1p": (-1, np.inf), "sqrt": (0, np.inf),
    "rsqrt": (0, np.inf), "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, np.inf), "atanh": (-1, 1),
}  # fmt: skip


def samples(dtype: str, count: int, seed: int) -> np.ndarray:
    """Random bit patterns, and numbers dense around 0, around 1 and in the ranges where the functions vary."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(dtype).itemsize * 8
    patterns = rng.integers(0, 2**bits - 1, count, dtype=np.uint64).astype(f"uint{bits}").view(dtype)
    spread = [
        rng.normal(size=count) * 3,
        rng.normal(size=count) * 40,
        rng.uniform(-1.1, 1.1, count),
        rng.uniform(-800, 800, count),
        1 + rng.normal(size=count) * 1e-3,
        rng.normal(size=count) * 1e-4,
        np.exp(rng.uniform(-10, 20, count)),
    ]
    return rng.permutation(np.concatenate([patterns, *[part.astype(dtype) for part in spread]]))


def hard_angles(dtype: str) -> np.ndarray:
    """Floats next to multiples of pi/2, where the reduced argument is tiny."""
    limits = [2.0**k for k in range(0, 100 if dtype == "float32" else 1000, 3)]
    with mpmath.workprec(1400):
        multiples = [mpmath.pi / 2 * (int(k) + odd) for k in limits for odd in (0, 1)]
        return np.array([float(m) for m in multiples]).astype(dtype)


@pytest.mark.parametrize("name", list(EXTENDED))
def test_float32(name: str) -> None:
    row = MATH_FUNCTIONS[name]
    count = 1500 if name == "erf" else 25_000
    arguments = [samples("float32", count, seed) for seed in range(row.arguments)]
    if name in ("sin", "cos", "tan"):
        arguments = [np.concatenate([arguments[0], hard_angles("float32")])]
    got = math_kernel(name, "float32")(*arguments)
    with np.errstate(all="ignore"):
        exact = EXTENDED[name](*[a.astype(np.longdouble) for a in arguments]).astype(np.longdouble)
    errors = ulp_errors(got, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP[name]["float32"], (errors[worst], [a[worst] for a in arguments], got[worst])


@pytest.mark.parametrize("name", list(MPMATH))
def test_float64(name: str) -> None:
    row = MATH_FUNCTIONS[name]
    count = 40 if name in ("sin", "cos", "tan", "erf") else 100
    arguments = [samples("float64", count, 10 + seed) for seed in range(row.arguments)]
    if name in ("sin", "cos", "tan"):
        arguments = [np.concatenate([arguments[0], hard_angles("float64")])]
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    valid = np.all([np.isfinite(a) & (a > low) & (a < high) for a in arguments], axis=0)
    if name == "pow":
        with np.errstate(all="ignore"):
            small = np.abs(arguments[1] * np.log2(np.abs(arguments[0]))) < 2000
        arguments[0] = np.abs(arguments[0])
        valid &= (arguments[0] > 0) & small
    if name in ("exp", "exp2", "exp10", "expm1", "sinh", "cosh", "sigmoid"):
        valid &= np.abs(arguments[0]) < 2000
    arguments = [a[valid] for a in arguments]
    assert arguments[0].size > 100
    got = math_kernel(name, "float64", 8)(*arguments)
    errors = [mpmath_ulp_error(float(g), name, *[float(a) for a in row_]) for g, *row_ in zip(got, *arguments)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP[name]["float64"], (errors[worst], [a[worst] for a in arguments], got[worst])


def test_every_inexact_function_is_judged() -> None:
    inexact = {name for name, bounds in ULP.items() if bounds["float32"] > 0.5}
    assert inexact <= set(EXTENDED) and inexact <= set(MPMATH)
