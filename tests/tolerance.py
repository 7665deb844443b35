"""How far a result may lie from the float64 reference, by data type and length of the reductions in it.

One rounding error per operation, growing with the square root of the reduction length (errors partly cancel), with a margin
of 4. float16 and bfloat16 accumulate in float32, so their own rounding counts once at the end.
"""

from __future__ import annotations

import math

import numpy as np

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ACCUMULATE = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}
MARGIN = 4.0


def tolerance(dtype: str, reduction: int = 1) -> tuple[float, float]:
    """(rtol, atol) for results of a dtype after reductions of some length; integers and bool are exact."""
    if dtype not in EPSILON:
        return 0.0, 0.0
    grown = EPSILON[ACCUMULATE[dtype]] * math.sqrt(max(reduction, 1))
    rtol = MARGIN * (EPSILON[dtype] + grown)
    return rtol, rtol * math.sqrt(max(reduction, 1))


def assert_close(actual: np.ndarray, reference: np.ndarray, reduction: int = 1, scale: float = 1.0) -> None:
    """Compare with a reference within the table's tolerance; ``scale`` is the magnitude of the summands."""
    dtype = str(actual.dtype)
    rtol, atol = tolerance(dtype, reduction)
    if rtol == 0.0:
        np.testing.assert_array_equal(actual, reference)
    else:
        np.testing.assert_allclose(
            np.asarray(actual, "float64"),
            np.asarray(reference, "float64"),
            rtol=rtol,
            atol=atol * scale,
            equal_nan=True,
        )
