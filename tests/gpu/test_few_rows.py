"""Products of few rows or columns: memory is read in vectors, whatever the sizes and the layout, sums join across lanes and warps,
what follows is fused, and the launch chooses among versions for numbers of rows that are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from test_tensor_cores import numbers, product, scheduled

import unity
from unity.ffi.dtype import DataType
from unity.ir.node import replace
from unity.ir.stmt import Block
from unity.ir.walk import rewrite
from unity.target import GPU_PIPELINE
from unity.target.cuda.machine import machine_of
from unity.transform.default_schedule.common.choices import SCHEDULE

TARGET = "cuda -arch=sm_80"


def graph(x: Any, w: Any, turned: bool, dtype: str, extra: str = "") -> Any:
    """A product of tensors of given shapes; ``turned``: the right one is permuted. ``extra``: with a bias and an activation."""
    wide = 'out_dtype="int32"' if dtype == "int8" else 'out_dtype="void"'
    axes = [*range(len(w) - 2), len(w) - 1, len(w) - 2]
    expr = f"R.matmul(x, {f'R.permute_dims(w, axes={axes})' if turned else 'w'}, {wide})"
    out = "int32" if dtype == "int8" else dtype
    if extra:
        expr = f"R.nn.relu(R.add({expr}, b))"
    params = {name: f'{tuple(shape)!r}, "{dtype}"' for name, shape in (("x", x), ("w", w))}
    if extra:
        params["b"] = f'({w[-2] if turned else w[-1]!r},), "{out}"'
    return graph_module(expr, **params)


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers so small that every sum of the tests is exact in any type."""
    rng = np.random.default_rng(sum(shape))
    whole = rng.integers(-1, 2, shape) * (rng.integers(0, 4 if dtype == "bfloat16" else 2, shape) == 1)
    made: np.ndarray = whole.astype(DataType(dtype).numpy)
    return made


def computed(mod: Any, *arrays: np.ndarray) -> np.ndarray:
    with device_or_emulated():
        machine = unity.VirtualMachine(unity.compile(mod, target=TARGET), unity.cuda(0))
        made: np.ndarray = machine["main"](*arrays).numpy()
        return made


SIZES = [(1, 64, 256), (1, 67, 301), (2, 72, 300), (3, 33, 272), (8, 130, 64), (5, 40, 1032), (13, 67, 296)]
TYPES = ["float16", "bfloat16", "float32", "int8", "float64"]


@pytest.mark.parametrize(
    "rows,columns,steps,turned,dtype",
    [(*size, (i + j) % 2 == 1, dtype) for i, size in enumerate(SIZES) for j, dtype in enumerate(TYPES)]
    + [(13, 67, 296, True, "float32")],
)  # every size with every type, each of both in either layout
def test_sizes(rows: int, columns: int, steps: int, turned: bool, dtype: str) -> None:
    x, w, b = values((rows, steps), dtype), values((steps, columns), dtype), values((columns,), dtype)
    b = b.astype("int32") if dtype == "int8" else b
    given = np.ascontiguousarray(w.T) if turned else w
    found = computed(graph(x.shape, given.shape, turned, dtype, "bias"), x, given, b)
    expected = np.maximum(x.astype("float64") @ w.astype("float64") + b.astype("float64"), 0)
    np.testing.assert_array_equal(found.astype("float64"), expected)


FEW_COLUMNS = [
    (1, "float16"), (2, "float16"), (8, "float16"), (16, "float16"), (7, "bfloat16"), (3, "float32"), (4, "float32"), (12, "int8"),
    (6, "float64"),
]  # fmt: skip


@pytest.mark.parametrize("left_turned", [True, False])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("columns,dtype", FEW_COLUMNS)
def test_few_columns(columns: int, dtype: str, turned: bool, left_turned: bool) -> None:
    """Where columns are few, rows are what blocks share; of either operand, either axis is contiguous."""
    x, w = values((72, 97), dtype), values((97, columns), dtype)
    given = [np.ascontiguousarray(a.T) if t else a for a, t in ((x, left_turned), (w, turned))]
    left, right = [f"R.permute_dims({n})" if t else n for n, t in (("x", left_turned), ("w", turned))]
    wide = ', out_dtype="int32"' if dtype == "int8" else ""
    types = {name: f'{a.shape!r}, "{dtype}"' for name, a in zip("xw", given)}
    found = computed(graph_module(f"R.matmul({left}, {right}{wide})", **types), *given)
    np.testing.assert_array_equal(found.astype("float64"), x.astype("float64") @ w.astype("float64"))


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("rows", [1, 4])
def test_batches(rows: int, turned: bool) -> None:
    """Scores and values of an attention with few rows: heads are a batch."""
    x, w = values((2, 3, rows, 64), "float16"), values((2, 3, 64, 40), "float16")
    given = np.ascontiguousarray(w.swapaxes(-1, -2)) if turned else w
    found = computed(graph(x.shape, given.shape, turned, "float16"), x, given)
    np.testing.assert_array_equal(found.astype("float64"), x.astype("float64") @ w.astype("float64"))


@pytest.mark.parametrize("turned,dtype", [(False, "float16"), (True, "float16"), (True, "float32")])
def test_any_number_of_rows(turned: bool, dtype: str) -> None:
    """One program for none, one, few and many rows, and sums over any number of steps."""
    w, b = values((88, 40), dtype), values((40,), dtype)
    given = np.ascontiguousarray(w.T) if turned else w
    mod = graph(("n", "k"), (40, "k") if turned else ("k", 40), turned, dtype, "bias")
    with device_or_emulated():
        machine = unity.VirtualMachine(unity.compile(mod, target=TARGET), unity.cuda(0))
        for rows, steps in ((0, 88), (1, 88), (1, 81), (2, 88), (8, 35), (9, 88), (1, 0), (3, 0)):
            x, part = values((rows, steps), dtype), np.ascontiguousarray(given[:, :steps] if turned else given[:steps])
            expected = np.maximum(x.astype("float64") @ w[:steps].astype("float64") + b.astype("float64"), 0)
            found = machine["main"](x, part, b).numpy()
            np.testing.assert_array_equal(found.astype("float64"), expected, err_msg=f"{rows} rows, {steps} steps")


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
def test_numbers_that_are_none_stay_where_they_are(rows: int, turned: bool) -> None:
    """What hangs over is read again at the end and must not count: infinities and NaN reach the cells whose they are."""
    x, w = values((rows, 300), "float16"), values((300, 67), "float16")
    x[0, 299], w[299, 5], w[0, 66] = np.inf, 1, np.nan
    with np.errstate(invalid="ignore"):
        expected = x.astype("float64") @ w.astype("float64")
    given = np.ascontiguousarray(w.T) if turned else w
    found = computed(graph(x.shape, given.shape, turned, "float16"), x, given)
    np.testing.assert_array_equal(found.astype("float64"), expected)
    assert np.isnan(found[:, 66]).all() and np.isposinf(found[0, 5])


BY_STEPS = [
    {"columns": 1, "step_warps": 1, "ahead": 1}, {"columns": 8, "column_warps": 4, "step_warps": 2}, {"columns": 2, "step_warps": 16, "ahead": 8},
]  # fmt: skip
BY_COLUMNS = [
    {"column_lanes": 1, "ahead": 2}, {"column_lanes": 32, "step_warps": 1}, {"width": 2, "step_warps": 16, "ahead": 16},
]  # fmt: skip


@pytest.mark.parametrize("matrices", [0, 1])
@pytest.mark.parametrize("turned,choice", [*[("b", c) for c in BY_STEPS], *[("", c) for c in BY_COLUMNS]])
def test_any_choice_is_right(turned: str, choice: dict[str, int], matrices: int) -> None:
    """A search may divide the product otherwise: with a bias, an activation and a residual, in a batch."""
    fn = product(3, 72, 328, turned, "float16", "float32")
    fn = rewrite(fn, {Block: lambda block: replace(block, annotations={SCHEDULE: {**choice, "matrices": matrices}})})
    a, b, e, r = [
        numbers(s, t)
        for s, t in (((2, 3, 328), "float16"), ((2, 328, 72), "float16"), ((72,), "float32"), ((2, 3, 72), "float32"))
    ]
    c = np.full((2, 3, 72), 77, "float32")
    func, reason = scheduled(fn, machine_of(unity.Target(TARGET)))
    assert reason.startswith("S by 3 rows")
    report = unity.check_gpu(
        func, a, np.ascontiguousarray(b.swapaxes(1, 2)) if turned else b, e, r, c, pipeline=GPU_PIPELINE
    )
    report.raise_if_failed()
    expected = np.maximum(a.astype("float32") @ b.astype("float32") + e, 0) + r
    np.testing.assert_array_equal(c, expected)
    assert report.launches == 1


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("turned", [True, False])
def test_traffic(turned: bool, rows: int) -> None:
    """Weights are read once, in vectors of 16 bytes (of 4 by columns, where there are few)."""
    x, w = values((rows, 1024), "float16"), values((512, 1024) if turned else (1024, 512), "float16")
    with device_or_emulated() as gpu:
        executable = unity.compile(graph(x.shape, w.shape, turned, "float16"), target=TARGET)
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, w)
        if gpu is not None:
            (launch,) = gpu.launches
            loads = [site for site in launch.traffic if (site.kind, site.scope) == ("load", "global")]
            each = 32 * (4 if rows > 1 and not turned else 16)
            beside = sum([site.requests for site in loads]) * each - w.nbytes
            assert 0 < beside <= 2 * w.nbytes


def test_what_it_leaves_to_others() -> None:
    machine = machine_of(unity.Target(TARGET))
    for rows, columns, steps in ((17, 64, 64), (4, 16, 64), (4, 64, 16)):
        _, reason = scheduled(product(rows, columns, steps, "", "float16", "float16"), machine)
        assert " along its steps" not in reason


@pytest.mark.parametrize(
    "arch,dtype,few", [("sm_80", "float16", True), ("sm_90a", "float16", False), ("sm_80", "float32", False)]
)
def test_sixteen_rows(arch: str, dtype: str, few: bool) -> None:
    """More than eight rows are for an instruction of a warp, where there are no tiles of warpgroups."""
    _, reason = scheduled(product(16, 64, 64, "", dtype, "float32"), machine_of(unity.Target(f"cuda -arch={arch}")))
    assert (" along its steps" in reason) == few


BY_MEASUREMENT = [
    ("b", 1, 4096, 14336, "4 columns of 8 warps, 8 along"), ("b", 1, 4096, 1024, "2 columns of 8 warps, 8 along"),
    ("b", 4, 4096, 4096, "4 columns of 8 warps, 8 along"), ("b", 8, 4096, 32000, "8 columns of 8 warps, 8 along"),
    ("b", 8, 4096, 1024, "8 columns of 16 warps, 16 along"),
    ("", 1, 4096, 1024, "16 columns of 32 warps, 32 along"), ("", 1, 14336, 4096, "64 columns of 32 warps, 32 along"),
    ("", 1, 4096, 14336, "64 columns of 16 warps, 16 along"), ("", 1, 4096, 32000, "64 columns of 8 warps, 8 along"),
    ("", 8, 4096, 4096, "32 columns of 32 warps, 32 along"),
]  # fmt: skip


@pytest.mark.parametrize("turned,rows,steps,columns,said", BY_MEASUREMENT)
def test_division_is_the_one_that_was_fastest(turned: str, rows: int, steps: int, columns: int, said: str) -> None:
    """On an H100, within four hundredths: weights of float16 by steps and columns (here in two halves)."""
    machine = machine_of(unity.Target("cuda -arch=sm_90a"))
    _, reason = scheduled(product(rows, columns // 2, steps, turned, "float16", "float32"), machine)
    assert reason.startswith(f"S by {rows} rows, {said} its steps"), reason
