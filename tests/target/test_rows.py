"""Vector reads along a few rows: what they read, and that nothing is gathered where the distances of the lanes are known."""

from __future__ import annotations

import ml_dtypes  # noqa: F401 - numpy's bfloat16
import numpy as np
import pytest
from kernels import Loaded

from unity.ir.interpret import run
from unity.script import parse

SOURCE = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer(({size},), "{dtype}"), n: T.int64, B: T.Buffer(({lanes},), "{dtype}")):
        T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
        B[T.Ramp(T.int64(0), T.int64(1), {lanes})] = A[{index}]
"""
RAMP = "T.Ramp(T.int64({0}), T.int64(1), {1})"


def spread(number: int | str, lanes: int) -> str:
    return f"T.Broadcast(T.int64({number}), {lanes})" if isinstance(number, int) else f"T.Broadcast({number}, {lanes})"


def in_turn(rows: int, step: int | str, lanes: int, first: int = 0) -> str:
    """Index of lanes that take ``rows`` rows in turn, ``step`` apart."""
    lane = RAMP.format(first, lanes)
    return f"{lane} % {spread(rows, lanes)} * {spread(step, lanes)} + {lane} // {spread(rows, lanes)} + {spread('n', lanes)}"


CASES = {
    "two rows": (in_turn(2, 40, 16), 16, 0),
    "two rows, their distance an argument": (in_turn(2, "n", 16), 16, 0),
    "three rows": (in_turn(3, 32, 24), 24, 0),
    "four rows from the middle": (in_turn(4, 32, 32, 8), 32, 0),
    "five rows": (in_turn(5, 16, 40), 40, 1),
    "backwards": ("T.Ramp(n * 2 + 40, T.int64(-1), 16)", 16, 0),
    "each cell twice": (RAMP.format(4, 16) + " // " + spread(2, 16), 16, 0),
    "round": (f"{RAMP.format(3, 16)} % {spread(16, 16)} + {spread('n', 16)}", 16, 0),
    "from a product": (
        f"T.Ramp(n * 4, T.int64(1), 16) // {spread(4, 16)} + T.Ramp(n * 4, T.int64(1), 16) % {spread(4, 16)} * {spread('n', 16)}",
        16,
        0,
    ),
    "an unknown remainder": (f"T.Ramp(n, T.int64(1), 16) % {spread(16, 16)}", 16, 1),
    "a difference": (f"{spread('n', 8)} - {RAMP.format(0, 8)} + {spread(20, 8)}", 8, 0),
    "rows that are too short": (in_turn(2, 40, 4), 4, 1),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_lanes_of_rows(name: str, dtype: str) -> None:
    index, lanes, gathers = CASES[name]
    mod = parse(SOURCE.format(size=256, lanes=lanes, index=index, dtype=dtype))
    loaded = Loaded({"main": mod["main"]})
    assert ("masked.gather" in loaded.library.ir_text) == bool(gathers)
    array = (np.arange(256) % 120).astype(np.dtype(dtype))
    wanted, found = np.zeros(lanes, array.dtype), np.zeros(lanes, array.dtype)
    run(mod, "main", array, 16, wanted)
    loaded("main", array, 16, found)
    assert wanted.astype("float32").any()
    np.testing.assert_array_equal(wanted.astype("float32"), found.astype("float32"))


TOGETHER = f"({RAMP.format(3, 16)} % {spread(9, 16)} < {spread(7, 16)} and {RAMP.format(0, 16)} < {spread(13, 16)})"
PLACE = f"{RAMP.format(3, 16)} // {spread(9, 16)} * {spread(7, 16)} + {RAMP.format(3, 16)} % {spread(9, 16)} + {spread('n', 16)}"
MASKED = {
    "lines without what is between them": (PLACE, TOGETHER, 0),
    "all lanes": (PLACE, f"{RAMP.format(0, 16)} < {spread(16, 16)}", 1),
    "an unknown condition": (PLACE, f"{RAMP.format(0, 16)} < {spread('n', 16)}", 1),
    "with a hole": (PLACE, f"{RAMP.format(1, 16)} % {spread(4, 16)} < {spread(2, 16)}", 1),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", MASKED)
def test_lanes_that_count_along_a_row(name: str, dtype: str) -> None:
    """Read and stored: nothing is gathered or scattered where they lie one after the other, and nothing else is written."""
    place, counts, scattered = MASKED[name]
    mod = parse(f"""
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((64,), "{dtype}"), n: T.int64, B: T.Buffer((64,), "{dtype}")):
        T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
        B.vstore([{place}], A.vload([{place}], predicate={counts}), predicate={counts})
""")
    loaded = Loaded({"main": mod["main"]})
    assert (
        ("masked.gather" in loaded.library.ir_text) == ("masked.scatter" in loaded.library.ir_text) == bool(scattered)
    )
    array = np.arange(1, 65).astype(np.dtype(dtype))
    wanted, found = np.zeros(64, array.dtype), np.zeros(64, array.dtype)
    run(mod, "main", array, 12, wanted)
    loaded("main", array, 12, found)
    assert wanted.astype("float32").any()
    np.testing.assert_array_equal(wanted.astype("float32"), found.astype("float32"))
