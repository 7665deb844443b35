"""Rounding errors of long sums, against what float64 says: they may not grow with the length of the line."""

import numpy as np
import pytest

import unity
from unity.script import parse

HALF_ULP = 6e-8
"""Relative error of one rounding to float32."""


def _compiled(call: str, dims: str):
    symbols = "".join([f"        {d} = T.int64()\n" for d in dims.split(", ") if d.isalpha()])
    text = f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({dims},), "float32")):
{symbols}        with R.dataflow():
            gv = R.{call}
            R.output(gv)
        return gv
"""
    return unity.VirtualMachine(unity.compile(parse(text)))["main"]


def _uniform(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype="float32")


@pytest.mark.parametrize(("shape", "axis"), [((6, 9000), 1), ((9000, 6), 0), ((50000,), 0)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_running(name: str, shape: tuple[int, ...], axis: int) -> None:
    x = _uniform(shape)
    fn = {"cumsum": np.cumsum, "cumprod": np.cumprod, "logcumsumexp": np.logaddexp.accumulate}[name]
    x = x * np.float32(0.001) + np.float32(0.9995) if name == "cumprod" else x
    exact = fn(x.astype("float64"), axis=axis)
    made = _compiled(f"{name}(x, axis={axis})", ", ".join([str(d) for d in shape]))(x).numpy()
    np.testing.assert_allclose(made, exact, rtol=2 * HALF_ULP, atol=2 * HALF_ULP)
