"""Matrix products as schedules of the plain three-loop program, float32 and bfloat16 (``vdpbf16ps`` by tensorize): the steps
apply to sizes that no tile divides, every step is proved, and the machine code agrees with numpy."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import unity
from unity.ffi.targets.target import runnable_processor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.scheduled.by_hand import bfloat16, float32

rng = np.random.default_rng(0)


@pytest.mark.parametrize(("m", "n", "k"), [(12, 128, 16), (7, 64, 8), (13, 192, 40)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_products(kind: str, m: int, n: int, k: int) -> None:
    if kind == "bfloat16" and "avx512bf16" not in runnable_processor().features:
        pytest.skip("this processor has no avx512bf16")
    sch = (float32 if kind == "float32" else bfloat16)(m, n, k)
    assert {i.grade for i in sch.trace.insts if i.row.kind == "step"} == {"proved"}
    dtype = np.float32 if kind == "float32" else ml_dtypes.bfloat16
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    out = np.zeros((m, n), dtype)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b, out)
    wanted = a.astype("float32") @ b.astype("float32")
    tolerance = 1e-4 if kind == "float32" else 2e-2
    np.testing.assert_allclose(out.astype("float32"), wanted, rtol=tolerance, atol=tolerance)
