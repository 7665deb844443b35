"""How exact erfc and erfinv of float32 are: within 3 units in the last place of what torch computes in float64."""

import numpy as np
import pytest
import torch

import unity
from unity.script import parse

RNG = np.random.default_rng(0)
TINY = 2.0 ** -RNG.uniform(0, 126, 20_000)
SAMPLES = {
    "erfc": np.concatenate([RNG.uniform(-12, 12, 100_000), RNG.uniform(-1, 1, 50_000), TINY]),
    "erfinv": np.concatenate([RNG.uniform(-1, 1, 100_000), 1 - TINY, -TINY]),
}
EDGES = np.array([0, -0.0, 1, -1, 1.5, -2, np.nan, np.inf, -np.inf, 1e-40, 10.06, 27], "float32")


@pytest.mark.parametrize("name", ["erfc", "erfinv"])
def test_float32(name: str) -> None:
    text = f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((n,), "float32")):
        n = T.int64()
        with R.dataflow():
            gv = R.{name}(x)
            R.output(gv)
        return gv
"""
    x = np.concatenate([SAMPLES[name].astype("float32"), EDGES])
    exact = getattr(torch, name)(torch.from_numpy(x).double()).numpy()
    got = unity.VirtualMachine(unity.compile(parse(text)))["main"](x).numpy()
    plain = np.isfinite(exact)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got[~plain], exact[~plain].astype("float32"))
        unit = np.spacing(np.maximum(np.abs(exact[plain]).astype("float32"), np.finfo("float32").tiny)).astype(
            "float64"
        )
    assert (np.abs(got[plain] - exact[plain]) / unit).max() <= 3
    np.testing.assert_array_equal(np.signbit(got[plain]), np.signbit(exact[plain]))
