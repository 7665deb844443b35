"""Reads of vectors whose lanes have a condition in common: where it fails they are zero, and no address outside is asked for, as that
of a page that nobody touched takes an instruction under a mask hundreds of cycles."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernels import Loaded
from levels import Level

from unity.script import parse

LANES = "T.Ramp(T.int64(0), T.int64(1), 16) < T.Broadcast(T.int64(5), 16)"
PREDICATES = {
    "shared": ("T.Broadcast(n < T.int64(4), 16)", 16),
    "shared, and lanes of its own": (f"T.And({LANES}, T.Broadcast(n < T.int64(4), 16))", 5),
    "two that are shared": ("T.And(T.Broadcast(n < T.int64(4), 16), T.Broadcast(n >= T.int64(0), 16))", 16),
}


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("name", PREDICATES)
def test_addresses_stay_inside(name: str, bound: bool) -> None:
    predicate, active = PREDICATES[name]
    program = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int64, B: T.Buffer((16,), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    {f"p = T.bind({predicate})" if bound else ""}
    B[T.Ramp(T.int64(0), T.int64(1), 16)] = A.vload(
        [T.Ramp(n * T.int64(16), T.int64(1), 16)], predicate={"p" if bound else predicate})
""")
    loaded = Loaded({"main": program})
    address, *_ = re.findall(r"masked\.load\S*\(ptr (\S+),", loaded.library.ir_text)
    assert re.search(rf"{re.escape(address)} = select i1 \S+ ptr \S+, ptr \S+\n", loaded.library.ir_text)
    data = np.arange(1, 65, dtype=np.float32)
    for place in (3, 4, 1 << 20):
        out = np.ones(16, np.float32)
        loaded("main", data, place, out)
        expected = np.zeros(16, np.float32)
        if place < 4:
            expected[:active] = data[16 * place :][:active]
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes", [5, 8, 9, 15, 16, 24, 32])
def test_a_part_of_the_lanes_is_known_to_be_left_out(level: Level, lanes: int) -> None:
    """LLVM splits wide vectors, and sees that a part of a mask is false whatever a condition is."""
    for dtype in ("float32", "float64", "int32"):
        for active in (1, lanes // 2 - 1, lanes // 2, lanes - 1):
            index = f"T.Ramp(T.int64(0), T.int64(1), {lanes})"
            mask = f"T.And({index} < T.Broadcast(T.int64({active}), {lanes}), T.Broadcast(n < T.int64(4), {lanes}))"
            program = parse(f"""
@T.prim_func
def main(A: T.Buffer(({lanes},), "{dtype}"), n: T.int64, B: T.Buffer(({lanes},), "{dtype}"), C: T.Buffer(({lanes},), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    B[{index}] = A.vload([{index}], predicate={mask})
    C.vstore([{index}], A[{index}], predicate={mask})
""")
            loaded = Loaded({"main": program})
            level.require()
            data = np.arange(1, lanes + 1, dtype=dtype)
            for n in (3, 4):
                read, written = np.ones(lanes, dtype), np.zeros(lanes, dtype)
                loaded("main", data, n, read, written)
                expected = np.where((np.arange(lanes) < active) & (n < 4), data, 0)
                np.testing.assert_array_equal(read, expected)
                np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("lanes", [2, 5, 8, 16, 32])
@pytest.mark.parametrize("known", [False, True])
def test_an_element_that_all_lanes_read_is_read_once(level: Level, lanes: int, known: bool) -> None:
    """And not at all, wherever it is said to lie, if no lane counts."""
    for dtype in ("float32", "float64", "int32", "int8", "bool"):
        for active in (0, 1, lanes - 1, lanes):
            index = f"T.Ramp(T.int64(0), T.int64(1), {lanes})"
            program = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), n: T.int64, count: T.int64, B: T.Buffer(({lanes},), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    B[{index}] = A.vload(
        [T.Broadcast(n, {lanes})], predicate={index} < T.Broadcast({f"T.int64({active})" if known else "count"}, {lanes}))
""")
            loaded = Loaded({"main": program})
            assert "masked.gather" not in loaded.library.ir_text
            level.require()
            data = np.arange(1, 65).astype(dtype)
            for place in (0, 63, 1 << 40) if active == 0 else (0, 63):
                made = np.ones(lanes, dtype)
                loaded("main", data, place, active, made)
                expected = np.where(np.arange(lanes) < active, data[place % 64], np.zeros((), dtype))
                np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("lanes", [16, 24, 32])
def test_a_part_of_the_lanes_is_known_to_be_read(level: Level, lanes: int) -> None:
    """LLVM splits wide vectors: one part of the mask is true, of the other some lanes. Rows of a panel are read and stored so."""
    for dtype in ("float32", "float64", "int32"):
        for active in (lanes // 2, lanes - 3):
            columns = f"T.Ramp(T.int64(0), T.int64(1), {lanes})"
            program = parse(f"""
@T.prim_func
def main(A: T.Buffer(({9 * active},), "{dtype}"), B: T.Buffer(({9 * lanes},), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i in range(T.int64(9)):
        B[T.Ramp(i * T.int64({lanes}), T.int64(1), {lanes})] = A.vload(
            [T.Ramp(i * T.int64({active}), T.int64(1), {lanes})],
            predicate={columns} < T.Broadcast(T.int64({active}), {lanes}))
""")
            loaded = Loaded({"main": program})
            level.require()
            data, made = np.arange(9 * active, dtype=dtype), np.ones((9, lanes), dtype)
            loaded("main", data, made.reshape(-1))
            np.testing.assert_array_equal(made[:, :active], data.reshape(9, active))
            assert not made[:, active:].any()
