"""Kernels of operators assembled for real: registers suffice, and no thread has an array in slow memory.

Of each operator that is listed the last sample is taken, and the last one of narrow numbers, of which a vector has the most; with
known sizes and with any, for one architecture and the other in turn.
``UNITY_GPU_SWEEP=1`` assembles every sample of every operator."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import unity
from unity.ffi.cuda.image import CudaCode
from unity.ffi.machine_code.objects import split_objects
from unity.script import parse
from unity.support.errors import TypeRuleError
from unity.target.cuda.assemble import assemble, find_assembler

sys.path.append(str(Path(__file__).parent.parent / "op"))
from op_cases import CASES
from test_against_numpy import build

pytestmark = pytest.mark.skipif(
    not find_assembler(), reason="there is no ptxas here: pip install nvidia-cuda-nvcc-cu12"
)
SHOWN = [
    "argsort", "cos", "cumprod", "cumsum", "image.resize2d", "median", "nn.adaptive_max_pool2d",
    "nn.attention", "nn.attention_bias", "nn.avg_pool3d", "nn.softmax", "power", "scatter_nd", "sin",
    "sort", "matmul", "tan", "topk", "tril", "triu",
]  # fmt: skip
"""Operators whose kernels had arrays or too many numbers once, and others with many."""
ARCHS = ("sm_80", "sm_90a")


def _is_narrow(inputs: Any) -> bool:
    return any([getattr(one, "itemsize", 4) < 4 for one in inputs[:1]])


def _samples() -> list[Any]:
    last = {
        (name, is_narrow): n for n, (name, inputs, _) in enumerate(CASES) for is_narrow in (False, _is_narrow(inputs))
    }
    shown = [last[name, is_narrow] for name in SHOWN for is_narrow in (False, True) if (name, is_narrow) in last]
    numbers = range(len(CASES)) if os.environ.get("UNITY_GPU_SWEEP") == "1" else sorted(set(shown))
    return [
        pytest.param(number, symbolic, ARCHS[(place + symbolic) % 2], id=f"{CASES[number][0]}-{number}-{symbolic}")
        for place, number in enumerate(numbers)
        for symbolic in (False, True)
    ]


@pytest.mark.parametrize("number, symbolic, arch", _samples())
def test_registers_suffice(number: int, symbolic: bool, arch: str) -> None:
    name, inputs, attrs = CASES[number]
    try:
        mod = build(name, inputs, attrs, symbolic)[0]
    except TypeRuleError:
        assert symbolic
        pytest.skip("its sizes must be known")
    assert_no_spills(mod, arch)


@pytest.mark.parametrize("call, shape, dtype", [
    ("avg_pool2d(x, pool_size=3, padding=1)", '"n", "c", "h", "w"', "float16"),
    ("max_pool2d(x, pool_size=5, strides=2, padding=1)", '"n", "c", "h", "w"', "float64"),
    ("max_pool2d(x, pool_size=7, padding=1)", "16, 64, 64, 56", "float64"),
    ("avg_pool3d(x, pool_size=2, padding=1)", '"n", "c", "h", "w", "d"', "float16"),
    ("avg_pool3d(x, pool_size=2, dilation=2, padding=1)", '"n", "c", "h", "w", "d"', "float32"),
    ("max_pool3d(x, pool_size=4, padding=1)", '"n", "c", "h", "w", "d"', "float16"),
    ("max_pool3d(x, pool_size=2, padding=1)", "16, 64, 64, 56, 48", "float64"),
])  # fmt: skip
@pytest.mark.parametrize("arch", ARCHS)
def test_windows_stay_in_registers(call: str, shape: str, dtype: str, arch: str) -> None:
    """The assembler has fewer registers to spare than a kernel may have: it keeps to those with which more blocks run at a time."""
    x = f'x: R.Tensor(({shape}), "{dtype}")'
    text = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({x}):\n        return R.nn.{call}\n"
    assert_no_spills(parse(text), arch)


def assert_no_spills(mod: Any, arch: str) -> None:
    """A module's kernels have enough registers, and no array in slow memory."""
    executable = unity.compile(mod, target=f"cuda -arch={arch}")
    parts = split_objects(executable.objects["cuda"]) if "cuda" in executable.objects else []
    for image in [image for part in parts for image in CudaCode.unpack(part).images]:
        for symbol, found in assemble(image.data.decode(), arch).kernels.items():
            assert found.spill_bytes == found.stack_bytes == 0, f"{symbol}: {found}"
