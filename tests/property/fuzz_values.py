"""Arrays full of corner cases, and small helpers of the program fuzzers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unity.ffi.dtype import DataType
from unity.ir import build as b
from unity.ir.types import Expr

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NARROW = ("float16", "bfloat16")
WIDE = ("float32", "float64")
DTYPES = ("bool", *INTEGERS, *NARROW, *WIDE)
MATH = ("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "exp2", "log1p", "rsqrt", "atan")
SIZES = (0, 1, 5, 19)
"""Values of the symbol in the argument sets."""


def i64(value: int) -> Expr:
    return b.const(value, "int64")


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Values with the corner cases among them."""
    kind = DataType(dtype).numpy
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if DataType(dtype).is_float:
        found = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape) * 3)
        corners = np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5, -0.5, 1e30, 255.5, -129.0, 2.0**31, -(2.0**63)]
        )
        with np.errstate(all="ignore"):
            return np.where(rng.random(shape) < 0.25, rng.choice(corners, shape), found).astype(kind)
    info = np.iinfo(kind)
    wide = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    small = rng.integers(0, 9, shape).astype(kind)
    corners = rng.choice(np.array([info.min, info.max, 0, 1], kind), shape)
    pick = rng.random(shape)
    return np.where(pick < 0.4, small, np.where(pick < 0.7, corners, wide)).astype(kind)
