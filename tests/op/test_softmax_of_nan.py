"""Softmax and its kin take a maximum that leaves NaN out: rows with NaN and infinities come out as written down, on every level."""

from __future__ import annotations

import numpy as np
import pytest
from levels import Level

import unity
from unity.ffi.machine_code.llvm import assembly
from unity.script import parse
from unity.target.cpu.codegen import build_kernels, compile_options
from unity.transform import DEFAULT_PIPELINE
from unity.transform.tir.pipeline import lower_prim_funcs

FUNCTIONS = {
    "softmax": lambda x, high: np.exp(x - high) / np.exp(x - high).sum(-1, keepdims=True),
    "log_softmax": lambda x, high: x - high - np.log(np.exp(x - high).sum(-1, keepdims=True)),
    "logsumexp": lambda x, high: np.log(np.exp(x - high).sum(-1, keepdims=True)) + high,
}
TEXT = {"softmax": "R.nn.softmax(x, axis={})", "log_softmax": "R.nn.log_softmax(x, axis={})",
        "logsumexp": "R.logsumexp(x, axis={}, keepdims=True)", "max": "R.max(x, axis={}, keepdims=True)"}  # fmt: skip


def module(name: str, shape: tuple[int, int], axis: int) -> unity.IRModule:
    return parse(f"""from unity.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor({shape}, "float32")):
        with R.dataflow():
            y = {TEXT[name].format(axis)}
            R.output(y)
        return y
""")


def rows(length: int) -> np.ndarray:
    """Numbers; NaN and infinities at the first, a middle and the last place, alone and together; nothing but them."""
    found = [np.random.default_rng(length).standard_normal(length).astype("float32") * 5]
    special = [np.nan, -np.nan, np.inf, -np.inf]
    for value in special:
        for place in (0, length // 2, length - 1):
            row = found[0].copy()
            row[place] = value
            found.append(row)
        found.append(np.full(length, value, "float32"))
        for other in special:
            row = np.full(length, -np.inf, "float32")
            row[0], row[-1] = value, other
            found.append(row)
    return np.array(found, "float32")


@pytest.mark.parametrize("axis", (-1, 0))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_of_nan_and_infinities(name: str, axis: int, level: Level) -> None:
    for length in (1, 40, 200):
        x = rows(length)
        with np.errstate(all="ignore"):
            high = x.max(-1, keepdims=True)
            wide = x.astype("float64")
            if name == "logsumexp":
                high = np.where(np.isinf(high), 0, high)
            want = FUNCTIONS[name](wide, high).astype("float32")
        given, want = (x, want) if axis else (x.T.copy(), want.T)
        got = level.run(unity.compile(module(name, given.shape, axis)), given)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def code(name: str, axis: int, level: Level) -> str:
    """Machine code of a function of a level."""
    kernels = lower_prim_funcs(DEFAULT_PIPELINE(module(name, (64, 256), axis)).prim_funcs())
    target = unity.Target(level.target)
    return assembly(build_kernels(kernels, target).ir_text, compile_options(target))


@pytest.mark.parametrize("axis", (-1, 0))
def test_the_maximum_is_one_instruction(axis: int, level: Level) -> None:
    """A plain maximum hands NaN on and asks for it; that of a softmax does not."""
    plain, softmax = [code(name, axis, level) for name in ("max", "softmax")]
    assert "cmpunord" in plain
    assert "cmpunord" not in softmax and "range" not in softmax and "maxps" in softmax
