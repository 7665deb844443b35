"""Mathematics of float32 on devices, which divides by approximate reciprocals: within the bounds of `docs/math.md`, whatever the
device's approximations are within their own, and short."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from device_choice import device_or_emulated
from disassembly import find_disassembler

import unity
from unity.ffi.cuda.image import CudaCode
from unity.ffi.machine_code.objects import split_objects
from unity.ir import PrimFunc
from unity.script import parse
from unity.target.cuda.assemble import assemble, find_assembler
from unity.target.llvm.math.library import ULP
from unity.testing import emulated_gpu

COUNT = 1 << 15
PROGRAM = """
@T.prim_func
def main(X: T.Buffer(({count},), "float32"), Y: T.Buffer(({count},), "float32")):
    for b in T.thread_binding({count} // 256, "blockIdx.x"):
        for t in T.thread_binding(256, "threadIdx.x"):
            Y[b * 256 + t] = {value}
"""
X = "X[b * 256 + t]"
EXACT = {
    "tanh": np.tanh, "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-abs(x))), "rsqrt": lambda x: 1 / np.sqrt(x),
    "sinh": np.sinh, "cosh": np.cosh, "tan": np.tan, "log1p": np.log1p, "atan": np.arctan, "asinh": np.arcsinh,
    "atanh": np.arctanh, "asin": np.arcsin, "acos": np.arccos, "acosh": np.arccosh,
}  # fmt: skip
MOST = {"tanh": 45, "sigmoid": 32, "rsqrt": 14}
"""Instructions beside those of a copy."""


def program(value: str) -> PrimFunc:
    made = parse(PROGRAM.format(count=COUNT, value=value))
    assert isinstance(made, PrimFunc)
    return made


def samples(name: str) -> np.ndarray:
    """Random bit patterns, numbers where the functions vary, and special ones."""
    rng = np.random.default_rng(len(name))
    special = np.float32(
        [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 3e38, -3e38, 2.0**126, 2.0**127, 2.0**-126]
    )
    part = COUNT // 4
    x = np.concatenate([
        rng.integers(0, 1 << 32, part, dtype=np.uint64).astype(np.uint32).view(np.float32),
        (rng.standard_normal(part) * 3).astype(np.float32),
        rng.uniform(-1, 1, part).astype(np.float32),
        np.exp(rng.uniform(-12, 12, part)).astype(np.float32),
    ])  # fmt: skip
    x[: len(special)] = special
    return x


@pytest.mark.gpu
@pytest.mark.parametrize("inexact", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_within_the_bounds(name: str, inexact: bool) -> None:
    x, y = samples(name), np.zeros(COUNT, np.float32)
    executable = unity.compile(program(f"T.{name}({X})"), target="cuda")
    with device_or_emulated(races=False, traffic=False, inexact=inexact):
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
    with np.errstate(all="ignore"):
        exact = np.asarray(EXACT[name](x.astype(np.longdouble)), np.longdouble)
        nearest = exact.astype(np.float32)
        spacing = np.maximum(np.spacing(abs(nearest)), np.float32(1e-45)).astype(np.longdouble)
        errors = np.where(
            np.isfinite(nearest), abs(y - exact) / spacing, np.where(np.isnan(nearest), ~np.isnan(y), y != nearest)
        )
    worst = int(np.nanargmax(np.where(np.isnan(errors), np.inf, errors)))
    assert errors[worst] <= ULP[name]["float32"], (errors[worst], x[worst], y[worst], exact[worst])
    assert (np.signbit(y) == np.signbit(nearest))[np.isfinite(nearest)].all(), "the sign of zero"


def test_inexact_instructions_are_off_by_their_bounds() -> None:
    """Otherwise the test above would show nothing."""
    x, y = samples("rsqrt"), np.zeros(COUNT, np.float32)
    executable = unity.compile(program(f"T.rsqrt({X})"), target="cuda -fast-math")
    with emulated_gpu(races=False, traffic=False, inexact=True):
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
    with np.errstate(all="ignore"):
        off = y * np.sqrt(x.astype(np.float64)) - 1
    off = off[np.isfinite(off)]
    assert np.median(abs(off)) > 2.0**-23.6 and abs(off).max() < 2.0**-22.89 and off.min() < 0 < off.max()


@pytest.mark.skipif(not (find_assembler() and find_disassembler()), reason="there is no ptxas or nvdisasm here")
@pytest.mark.parametrize("name", MOST)
def test_code_is_short(name: str, tmp_path: Path) -> None:
    def instructions(value: str) -> int:
        (part,) = split_objects(unity.compile(program(value), target="cuda -arch=sm_80").objects["cuda"])
        (image,) = CudaCode.unpack(part).images
        path = tmp_path / "kernel.cubin"
        path.write_bytes(assemble(image.data.decode(), "sm_80").cubin)
        text = subprocess.run([find_disassembler(), "-c", str(path)], capture_output=True, text=True, check=True).stdout
        names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", text)
        assert "CALL" not in names
        return len([one for one in names if one != "NOP"])

    assert instructions(f"T.{name}({X})") - instructions(X) <= MOST[name]
