"""Approximate mathematics of kernels, asked for by a target: the instructions, their errors, and exact code without."""

from __future__ import annotations

import re

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import device_function

import unity
from unity.script import parse
from unity.target.cuda.codegen import ptx_of, write_programs
from unity.target.cuda.fast_math import APPROXIMATE

REFERENCE = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "exp10": lambda x: 10.0**x}
FAST = "cuda -arch=sm_75 -fast-math"
TOLERANCES = {"tanh": (2.0**-11 + 2.0**-23, 0), "log": (1e-6, 3e-7), "log2": (1e-6, 3e-7), "log10": (1e-6, 3e-7)}
"""Relative and absolute: the bounds of the PTX ISA, and roundings beside them."""


def ptx(line: str, target: str) -> str:
    written = write_programs({"kernel": device_function(line, X="float32", Y="float32")}, unity.Target(target))
    return ptx_of(written.device, written.arch)


def test_only_where_it_is_asked_for() -> None:
    lines = "\n".join(
        [f"Y[{32 * k} + tx] = T.{name}(X[tx])" for k, name in enumerate(APPROXIMATE)] + ["Y[tx + 999] = X[tx] / Y[tx]"]
    )
    found = ptx(lines, FAST)
    for instruction in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "sqrt", "rcp"):
        assert f"{instruction}.approx" in found
    assert "div.full.f32" in found and "div.rn" not in found and "sqrt.rn" not in found
    for exact in (ptx(lines, "cuda -arch=sm_75 -fast-math=0"), ptx(lines, "cuda -arch=sm_75")):
        assert set(re.findall(r"\w+\.approx", exact)) == {
            "rcp.approx",
            "rsqrt.approx",
        }  # from which Newton's steps begin
        assert ".full" not in exact and "div.rn" in exact and "sqrt.rn" in exact


@pytest.mark.gpu
@pytest.mark.parametrize("inexact", [False, True])
def test_errors_and_special_values(inexact: bool) -> None:
    """Of float32, of lanes of a vector, of float16; float64 stays exact."""
    x = np.concatenate([np.float32([np.inf, np.nan, 0, 80]), np.linspace(0.01, 3, 60, dtype="float32")])
    parts = [
        f"        for i in T.vectorized(2):\n            Y[{k}, tx * 2 + i] = T.{name}(X[tx * 2 + i])"
        for k, name in enumerate(APPROXIMATE)
    ]
    text = f"""
@T.prim_func
def main(X: T.Buffer((64,), "float32"), Y: T.Buffer(({len(APPROXIMATE)}, 64), "float32"), H: T.Buffer((64,), "float16"), D: T.Buffer((64,), "float64")):
    for tx in T.thread_binding(32, "threadIdx.x"):
{chr(10).join(parts)}
        H[tx] = T.tanh(T.Cast("float16", X[tx])) / T.float16(3)
        D[tx] = T.exp(T.Cast("float64", X[tx + 4])) / T.float64(3)
"""
    executable = unity.compile(parse(text), target=FAST)
    with device_or_emulated("sm_75", inexact=inexact):
        y, h, d = [unity.tensor(np.zeros(shape, kind), device=unity.cuda(0)) for shape, kind in
                   (((len(APPROXIMATE), 64), "float32"), (64, "float16"), (64, "float64"))]  # fmt: skip
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y, h, d)
        found, half, double = y.numpy(), h.numpy(), d.numpy()
    wide = x.astype("float64")
    with np.errstate(all="ignore"):
        for row, name in zip(found, APPROXIMATE):
            wanted = REFERENCE.get(name, getattr(np, name, None))(wide)
            relative, absolute = TOLERANCES.get(name, (2e-5, 0))
            if name in ("sin", "cos"):  # of a number beyond pi the error grows with it
                relative, absolute = 0, 2.0**-20.5 + 2.0**-24
                np.testing.assert_allclose(row[3], wanted[3], rtol=0, atol=80 * absolute, err_msg=name)
                row, wanted = np.delete(row, 3), np.delete(wanted, 3)
            np.testing.assert_allclose(row, wanted.astype("float32"), relative, absolute, err_msg=name)
        np.testing.assert_allclose(half[:32], np.tanh(wide[:32]) / 3, rtol=2e-3)
    np.testing.assert_allclose(double[:32], np.exp(wide[4:36]) / 3, rtol=3e-16)


@pytest.mark.parametrize("text", ["cuda -fast-math=2", "cuda -fast-math=maybe"])
def test_a_flag_is_a_flag(text: str) -> None:
    with pytest.raises(unity.UnityError, match=r"E531.*fast-math is a flag"):
        unity.Target(text)
    assert unity.Target({"kind": "cuda", "fast-math": True}) == unity.Target("cuda -fast-math")
    assert unity.Target(str(unity.Target("cuda -fast-math"))) == unity.Target("cuda -fast-math")
