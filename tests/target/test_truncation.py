"""Floats to integers: truncated, saturated, NaN gives 0; loops and vectors of every kind."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.script import parse

WHOLE = [2.0**n for n in (7, 8, 15, 16, 31, 32, 53, 63, 64)]
VALUES = [
    *[v for w in WHOLE for s in (1, -1) for v in (s * w, s * (w - 1), s * (w + 1), s * w * (1 - 2**-20), s * w * (1 + 2**-20))],
    0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1e-40, 127.9, -128.9, 255.5, 1e30, -1e30, np.inf, -np.inf, np.nan, -np.nan,
]  # fmt: skip
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def truncated(value: float, target: str) -> int:
    """The reference, in integers of Python."""
    info = np.iinfo(target)
    if np.isnan(value):
        return 0
    return info.max if value == np.inf else info.min if value == -np.inf else min(max(int(value), info.min), info.max)


def program(source: str, target: str, size: int, lanes: int) -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer(({size},), "{source}"), B: T.Buffer(({size},), "{target}")):
    for i in range({size // lanes}):
        for j in T.vectorized({lanes}):
            B[i * {lanes} + j] = T.Cast("{target}", A[i * {lanes} + j])
"""


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_truncation(source: str, target: str, lanes: int) -> None:
    with np.errstate(all="ignore"):
        x = np.resize(np.array(VALUES).astype(source), 128)
    out = np.zeros(128, target)
    unity.compile(parse(program(source, target, 128, lanes)))["main"](x, out)
    np.testing.assert_array_equal(out, np.array([truncated(float(v), target) for v in x], target))
