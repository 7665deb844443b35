"""Running sums a vector at a time: every length around the vectors, no element at all, NaN and infinities, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import LOOPS

import unity
from unity.ir.scalar import Shuffle
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.tir.pipeline import lower_prim_funcs

SUM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "{dtype}")):
        y = R.cumsum(x, axis=1, exclusive={exclusive})
        return y
"""


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_of_lines(dtype: str, exclusive: bool) -> None:
    compiled = unity.VirtualMachine(unity.compile(parse(SUM.format(dtype=dtype, exclusive=exclusive))))
    rng = np.random.default_rng(0)
    for rows, length in [(0, 5), (1, 0), (5, 1), (3, 2), *[(5, n) for n in (8, 9, 10, 16, 17, 18, 31, 33, 65)]]:
        x = rng.integers(-999, 999, (rows, length)).astype(dtype)
        if dtype == "float32" and x.size > 30:
            x[0, 3], x[0, 7], x[1, 2], x[2, 1] = np.inf, -np.inf, np.nan, -0.0
        with np.errstate(invalid="ignore"):
            wanted = np.cumsum(x, axis=1, dtype=dtype)
        if exclusive:
            wanted = np.concatenate([np.zeros((rows, min(1, length)), dtype), wanted[:, :-1]], axis=1)
        np.testing.assert_array_equal(compiled["main"](x).numpy(), wanted)


def test_what_could_overflow_goes_in_order() -> None:
    """Sums of float64 stay as they are; those of float32, carried in float64, are shifted."""
    for dtype, shifted in (("float64", False), ("float32", True)):
        programs = unity.transform.legalize_ops(parse(SUM.format(dtype=dtype, exclusive=False))).prim_funcs()
        with unity.Target("llvm -mcpu=x86-64-v3"):
            lowered = lower_prim_funcs(programs, LOOPS)
        assert any([collect(fn.body, Shuffle) for fn in lowered.values()]) == shifted
