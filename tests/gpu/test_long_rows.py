"""Rows of a length that is not known, or too long for registers: one kernel that reads 16 bytes at once, right at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module

import unity

pytestmark = pytest.mark.gpu


def normal(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


CASES: dict[str, tuple[str, int, Any]] = {
    "softmax": ("R.nn.softmax(x)", 4, lambda x, w: softmax(x)),
    "layer_norm": ("R.nn.layer_norm(x, w, w, axes=[-1])", 6, lambda x, w: normal(x) * w + w),
    "rms_norm": (
        "R.nn.rms_norm(x, w, axes=[-1])",
        4,
        lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
    ),
    "sum": ("R.sum(R.multiply(x, w), axis=[-1])", 3, lambda x, w: (x * w).sum(-1)),
    "add": ("R.nn.relu(R.add(x, w))", 3, lambda x, w: np.maximum(x + w, 0)),
}
"""Graph expression, rows read and written for one of x, the meaning. The sum is a product with one column: its tile has more rows
than there are."""


def program(what: str, dtype: str, shape: tuple[Any, ...] = ("n", "m")) -> unity.IRModule:
    return graph_module(CASES[what][0], x=f'{shape!r}, "{dtype}"', w=f'{shape[-1:]!r}, "{dtype}"')


def compared(executable: Any, what: str, x: np.ndarray, w: np.ndarray) -> Any:
    """The launches and traffic of a call, None on a device; its result is the expected one."""
    with device_or_emulated(launched=x.size > 0) as gpu, np.errstate(all="ignore"):
        y = unity.VirtualMachine(executable, unity.cuda(0))["main"](x, w).numpy()
        wanted = CASES[what][2](x.astype("float64"), w.astype("float64"))
        tolerance = {"float16": 4e-3, "float32": 2e-5}[x.dtype.name]
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance * max(1, x.shape[1]) ** 0.5)
        return None if gpu is None else (gpu.launches, [site for site in gpu.traffic if site.scope == "global"])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("what", CASES)
def test_rows_of_any_length(what: str, dtype: str) -> None:
    executable = unity.compile(program(what, dtype), target="cuda")
    rng, item = np.random.default_rng(0), np.dtype(dtype).itemsize
    for rows, length in [(4, 2048), (3, 2056), (5, 99), (2, 8), (1, 1), (2, 3), (3, 0), (0, 16)]:
        if length == 0 and what != "add" and what != "sum":
            continue  # a mean of nothing
        x, w = rng.standard_normal((rows, length)).astype(dtype), rng.standard_normal(length).astype(dtype)
        seen = compared(executable, what, x, w)
        if seen is None:
            continue
        launches, sites = seen
        assert len(launches) <= 1, "one kernel"
        assert length % 8 or all([site.transactions == site.ideal for site in sites]) or length == 2056
        if length == 2048:
            vectors = rows * length * item // 512  # requests of warps that take 16 bytes for each thread
            assert sum([site.requests for site in sites]) <= CASES[what][1] * vectors + rows


@pytest.mark.parametrize("what", ["softmax", "sum"])
def test_special_numbers_in_rows_of_any_length(what: str) -> None:
    executable = unity.compile(program(what, "float32"), target="cuda")
    for length in (64, 67):
        x = np.random.default_rng(0).standard_normal((5, length)).astype("float32")
        x[0, 3], x[1, -1], x[2, 5], x[3] = np.nan, np.inf, -np.inf, -np.inf
        compared(executable, what, x, np.ones(length, "float32"))


@pytest.mark.parametrize(("shape", "threads"), [((8, 65536), 1024), ((120, 20000), 256)])
def test_known_long_rows(shape: tuple[int, int], threads: int) -> None:
    """Rows that no registers hold are one kernel as well."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape).astype("float32"), rng.standard_normal(shape[1]).astype("float32")
    seen = compared(unity.compile(program("softmax", "float32", shape), target="cuda"), "softmax", x, w)
    if seen is None:
        return
    launches, sites = seen
    assert [launch.block for launch in launches] == [(threads, 1, 1)]
    assert all([site.transactions == site.ideal for site in sites])
    assert sum([site.requests for site in sites]) == 4 * shape[0] * -(-shape[1] // 128), (
        "three passes read it, one writes"
    )
