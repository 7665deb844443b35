"""Sorting and running sums on devices: lines of many runs, equal elements, NaN, both zeros, any axis; what a thread holds is in
registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from test_default_schedules_operators import TARGET, scheduled

import unity
from unity.ir.op import OPS
from unity.target import GPU_PIPELINE
from unity.transform.relax.lowering.legalize_ops import legalize_ops
from unity.transform.relax.pipeline import GRAPH_PIPELINE

pytestmark = pytest.mark.gpu
CASES: list[tuple[str, dict[str, Any], tuple[int, ...], str]] = [
    ("argsort", {"descending": True}, (2, 67), "float32"),
    ("argsort", {"axis": 0}, (131, 1), "int64"),
    ("sort", {}, (1, 33), "uint8"),
    ("topk", {"k": 40, "ret_type": "indices"}, (1, 66), "float16"),
    ("topk", {"k": 20, "axis": 0, "ret_type": "values", "largest": False}, (65, 2), "float32"),
    ("topk", {"k": 2, "ret_type": "values"}, (3, 2), "int32"),
    ("cumsum", {"axis": 1}, (3, 70, 5), "int32"),
    ("cumprod", {"axis": -1, "exclusive": True}, (40, 9), "float32"),
    ("cumsum", {"axis": 2}, (2, 3, 40), "int8"),
    ("cumsum", {"axis": -1, "exclusive": True}, (3, 300), "float64"),
    ("cumsum", {"axis": 0}, (4500,), "int64"),
]


def _given(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values, so that many are equal; floats have NaN and both zeros."""
    rng = np.random.default_rng(0)
    made = rng.integers(0 if dtype == "uint8" else -3, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        made[rng.random(shape) < 0.05] = np.nan
        made[rng.random(shape) < 0.1] = -0.0
    return made


@pytest.mark.parametrize("known", [True, False], ids=["known", "any"])
@pytest.mark.parametrize(("name", "options", "shape", "dtype"), CASES, ids=[f"{c[0]}-{c[3]}-{c[2][0]}" for c in CASES])
def test_lines(name: str, options: dict[str, Any], shape: tuple[int, ...], dtype: str, known: bool) -> None:
    sizes = str(shape) if known else str(tuple([f"n{axis}" for axis in range(len(shape))]))
    text = "".join([f", {key}={value!r}" for key, value in options.items()])
    executable = unity.compile(graph_module(f"R.{name}(a{text})", a=f'{sizes}, "{dtype}"'), target="cuda")
    given = _given(shape, dtype)
    with device_or_emulated(races=True) as gpu:
        found = unity.VirtualMachine(executable, unity.cuda(0))["main"](given).numpy()
        assert gpu is None or all([launch.block[0] > 1 for launch in gpu.launches])
    np.testing.assert_array_equal(found, OPS[f"R.{name}"].ref(given, **options))


def test_more_than_a_line_has() -> None:
    executable = unity.compile(
        graph_module("R.topk(a, k=40, ret_type='values')", a='("n", "m"), "float32"'), target="cuda"
    )
    given = _given((2, 3), "float32")
    with device_or_emulated():
        found = unity.VirtualMachine(executable, unity.cuda(0))["main"](given).numpy()
    np.testing.assert_array_equal(found, np.sort(given)[:, ::-1])


def test_what_merges_leave_out_is_not_read() -> None:
    """Of runs whose first elements are wanted the others are not carried along."""
    with TARGET:
        module = scheduled(GRAPH_PIPELINE(graph_module("R.topk(a, k=5, ret_type='values')", a='(2, 130), "float32"')))
    report = unity.check_gpu(module, _given((2, 130), "float32"), name="main", pipeline=GPU_PIPELINE, traffic=False)
    assert report.ok, str(report)


@pytest.mark.parametrize("kind", ['(4, 300), "float32"', '("n", "m"), "int64"'])
@pytest.mark.parametrize("call", ["R.argsort(a)", "R.topk(a, k=100)", "R.median(a, axis=[1])", "R.cumsum(a, axis=0)"])
def test_threads_hold_numbers(call: str, kind: str) -> None:
    """No thread has an array: what it would read at an index that is not known would lie in slow memory."""
    with TARGET:
        kernels = GPU_PIPELINE(scheduled(legalize_ops(graph_module(call, a=kind))))
    local = re.findall(r"alloc_buffer\((.*), scope=\"local\"\)", kernels.script())
    assert local and {shape.partition(")")[0] for shape in local} == {"(1,"}
