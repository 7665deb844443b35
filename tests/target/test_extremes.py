"""Min and Max of floats in vectors of every kind: NaN from either side is handed on, -0.0 is below 0.0."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import run as run_compiled

from unity.script import parse

VALUES = (0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-40, -1e-40, 3.0, 2.0, -2.0, -3.0, 1e38, -1e38)


def expected(a: np.ndarray, b: np.ndarray, largest: bool) -> np.ndarray:
    """The reference: comparisons, with the zeros told apart by their signs."""
    zeros = (a == 0) & (b == 0)
    signs = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
    number = np.where(
        zeros, np.where(signs, a.dtype.type(-0.0), a.dtype.type(0.0)), (np.fmax if largest else np.fmin)(a, b)
    )
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), number).astype(a.dtype)


def check(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("name", ("max", "min"))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("lanes", (1, 2, 4, 8, 16, 32))
def test_two_vectors(name: str, dtype: str, lanes: int) -> None:
    text = f"""from unity.script import tir as T
@T.prim_func
def main(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((256,), "{dtype}"), C: T.Buffer((256,), "{dtype}")):
    for i in range({256 // lanes}):
        for j in T.vectorized({lanes}):
            C[i * {lanes} + j] = T.{name}(A[i * {lanes} + j], B[i * {lanes} + j])
"""
    a, b = [part.ravel().copy() for part in np.meshgrid(np.array(VALUES, dtype), np.array(VALUES, dtype))]
    c = np.zeros(256, dtype)
    run_compiled(parse(text), a, b, c)
    check(c, expected(a, b, name == "max"))


@pytest.mark.parametrize("name", ("max", "min"))
@pytest.mark.parametrize("constant", (0.0, -0.0, 6.0))
def test_against_a_constant(name: str, constant: float) -> None:
    text = f"""from unity.script import tir as T
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    for i in range(16):
        C[i] = T.{name}(A[i], T.float32({constant}))
    for j in T.vectorized(16):
        D[j] = T.{name}(T.float32({constant}), A[j])
"""
    a, c, d = np.array(VALUES, "float32"), np.zeros(16, "float32"), np.zeros(16, "float32")
    run_compiled(parse(text), a, c, d)
    for got in (c, d):
        check(got, expected(a, np.full(16, constant, "float32"), name == "max"))
