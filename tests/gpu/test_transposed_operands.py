"""Products of permuted operands: one kernel reads them as they lie, on tensor cores in either layout; what is not read across is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from test_tensor_cores import numbers

import unity
from unity.target.cuda.machine import machine_of
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.gpu.products import tile_costs
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.relax.pipeline import GRAPH_PIPELINE

pytestmark = pytest.mark.gpu
HEADS = ((2, 19, 3, 16), [0, 2, 1, 3]), ((2, 21, 3, 16), [0, 2, 3, 1])
"""Queries and keys, heads behind positions, as attention by single operators multiplies them."""
CASES = [
    (((19, 24), [0, 1]), ((20, 24), [1, 0]), "float16", "float16", ["tensor cores"]),
    (((24, 19), [1, 0]), ((20, 24), [1, 0]), "bfloat16", "float32", ["tensor cores"]),
    (*HEADS, "float16", "float32", ["tensor cores"]),
    (((19, 32), [0, 1]), ((20, 32), [1, 0]), "int8", "int32", ["tensor cores"]),
    (((32, 19), [1, 0]), ((20, 32), [1, 0]), "int8", "int32", ["transposed", "tensor cores"]),
    (*HEADS, "float32", "float32", ["tiles"]),
    (
        ((1, 40), [0, 1]),
        ((20, 40), [1, 0]),
        "float16",
        "float16",
        ["in rows, 1 of 8 threads"],
    ),  # steps are neighbours in memory
    (((19, 16), [0, 1]), ((16, 3, 21), [1, 0, 2]), "float16", "float16", ["tensor cores"]),
]
"""Operands and how they are permuted, data types, and what says how each kernel was made."""
WARPGROUPS = "cuda -arch=sm_90a"


def kernels(mod: Any, target: unity.Target) -> list[str]:
    """How the tensor programs of a module are scheduled."""
    with target:
        lowered = GRAPH_PIPELINE(mod)
    machine = machine_of(target)
    found = [schedule_function(n, fn, set(), machine, GPU_RULES) for n, fn in lowered.prim_funcs().items()]
    return [made.reason for made in found if made is not None]


def check(x: Any, w: Any, dtype: str, out: str, how: list[str], target: str = "cuda", rows: Any = None) -> None:
    """A product of permuted operands has such kernels, and is right; ``rows``: a symbol for the first axis of the left one."""
    shape = x[0] if rows is None else (rows, *x[0][1:])
    left, right = f"R.permute_dims(x, axes={x[1]})", f"R.permute_dims(w, axes={w[1]})"
    expression = f'R.matmul({left}, {right}, out_dtype="{out}")'
    mod = graph_module(expression, x=f'{shape}, "{dtype}"', w=f'{w[0]}, "{dtype}"')
    reasons = kernels(mod, unity.Target(target))
    assert len(reasons) == len(how) and all([a in b for a, b in zip(how, reasons)]), reasons
    executable = unity.compile(mod, target=target)
    a, b = numbers(x[0], dtype), numbers(w[0], dtype)
    with device_or_emulated("sm_90a" if "90a" in target else "sm_80", traffic=False) as gpu:
        got = unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b).numpy()
        assert gpu is None or len(gpu.launches) == len(how)
    wide = a.astype("float32").transpose(x[1]) @ b.astype("float32").transpose(w[1])
    np.testing.assert_array_equal(got, wide.astype(got.dtype))


@pytest.mark.parametrize("x,w,dtype,out,how", CASES)
def test_operands_are_read_as_they_lie(x: Any, w: Any, dtype: str, out: str, how: list[str]) -> None:
    check(x, w, dtype, out, how)


def test_any_number_of_rows() -> None:
    check(((19, 24), [0, 1]), ((20, 24), [1, 0]), "float16", "float16", ["tensor cores"], rows="n")


@pytest.mark.parametrize(
    "x,w",
    [
        (((1, 70, 2, 64), HEADS[0][1]), ((1, 72, 2, 64), HEADS[1][1])),
        (((72, 24), [1, 0]), ((40, 72), [1, 0])),
        (((3, 25, 72), [1, 0, 2]), ((40, 72), [1, 0])),  # rows of the result are written in another order
    ],
)
def test_products_of_warpgroups(x: Any, w: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulk copies take boxes of the operands as they lie."""
    monkeypatch.setattr(tile_costs, "CHOICES", ())
    check(x, w, "float16", "float32", ["wgmma, bulk copies"], WARPGROUPS)
