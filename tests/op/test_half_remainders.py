"""Remainders of 16-bit floats, compiled: computed in float64, rounded in two steps."""

import numpy as np
import pytest

import unity
from unity.script import parse

TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((64,), "float16"), y: R.Tensor((64,), "float16")):
        a = R.{name}(x, y)
        return a
"""


@pytest.mark.parametrize(("name", "reference"), [("mod", np.fmod), ("floor_mod", np.mod)])
def test_float16(name, reference):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, 64)) * [[100], [3]]).astype("float16")
    x[0], y[1] = np.inf, 0
    main = unity.VirtualMachine(unity.compile(parse(TEXT.format(name=name))))["main"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(main(x, y).numpy(), reference(x, y))
