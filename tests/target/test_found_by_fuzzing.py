"""Small programs that once came out wrong, compiled and interpreted: both give the expected result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import run as run_compiled

from unity.ffi.dtype import DataType
from unity.ir.function import PrimFunc
from unity.ir.interpret import run as run_interpreted
from unity.ir.module import IRModule
from unity.script import parse

HEADER = "from unity.script import tir as T\n\n@T.prim_func\n"


def read(text: str) -> PrimFunc:
    found = parse(HEADER + text)
    return found["main"] if isinstance(found, IRModule) else found  # type: ignore[no-any-return]


def both(text: str, *arguments: Any) -> None:
    """The last argument is the expected content of the one before it."""
    func, expected = read(text), arguments[-1]
    for run in (lambda *a: run_compiled(func, *a), lambda *a: run_interpreted(func, None, *a)):
        given = [a.copy() for a in arguments[:-1]]
        run(*given)
        np.testing.assert_array_equal(given[-1], expected)
        if expected.dtype.kind == "f":
            known = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(given[-1])[known], np.signbit(expected)[known])


def test_a_condition_is_evaluated_before_the_stores_under_it() -> None:
    text = """def main(A: T.Buffer((6,), "int32")):
    for i in T.vectorized(6):
        if A[i] > 0:
            A[i] = -1
            A[i] = A[i] - 1
        else:
            A[i] = 5
"""
    both(text, np.array([1, -1, 3, 0, 2, -7], "int32"), np.array([-2, 5, -2, 5, -2, 5], "int32"))


def test_a_nested_condition_reads_memory_only_where_the_outer_one_holds() -> None:
    text = """def main(n: T.int32, A: T.Buffer((4,), "int32"), C: T.Buffer((16,), "int32")):
    for i in T.vectorized(16):
        if i < 4:
            if A[i] > 1:
                C[A[i]] = i
"""
    func = read(text)
    a = np.array([0, 9, 1, 15], "int32")
    for run in (lambda *x: run_compiled(func, *x), lambda *x: run_interpreted(func, None, *x)):
        c = np.zeros(16, "int32")
        run(0, a, c)
        assert c[9] == 1 and c[15] == 3 and c.sum() == 4


def test_leaving_an_inner_loop_of_a_vectorized_one() -> None:
    text = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        for k in range(10):
            if k == A[i]:
                break
            C[i] = C[i] + 1
"""
    a = np.array([0, 3, 20, 1, 9, 10, 2, 5], "int32")
    both(text, a, np.zeros(8, "int32"), np.minimum(a, 10).astype("int32"))


def test_continue_in_a_vectorized_loop_of_one_iteration() -> None:
    text = """def main(A: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
    for i in T.vectorized(1):
        if A[i] > 0:
            continue
        C[i] = 7
"""
    both(text, np.array([1], "int32"), np.zeros(1, "int32"), np.zeros(1, "int32"))
    both(text, np.array([0], "int32"), np.zeros(1, "int32"), np.array([7], "int32"))


def test_memory_of_each_iteration_of_a_vectorized_loop() -> None:
    text = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        tmp = T.alloc_buffer((2,), "int32")
        tmp[0] = A[i]
        tmp[1] = tmp[0] * 2
        C[i] = tmp[0] + tmp[1]
"""
    a = np.arange(8, dtype="int32")
    both(text, a, np.zeros(8, "int32"), 3 * a)


def test_a_scalar_let_around_a_vector() -> None:
    text = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        v: T.int32 = T.Let(T.int32(3), where={x: A[i]})
        C[i] = v + A[i]
"""
    a = np.arange(8, dtype="int32")
    both(text, a, np.zeros(8, "int32"), a + 3)


def test_a_shuffle_under_a_mask_reads_all_its_lanes() -> None:
    text = """def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    C[T.Ramp(0, 1, 4)] = T.if_then_else(
        A[T.Ramp(0, 1, 4)] > T.Broadcast(1, 4), T.Shuffle([A[T.Ramp(0, 1, 4)]], [3, 2, 1, 0]), T.Broadcast(9, 4)
    )
"""
    both(text, np.array([0, 1, 2, 3], "int32"), np.zeros(4, "int32"), np.array([9, 9, 1, 0], "int32"))


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_float_floor_division(dtype: str) -> None:
    x = np.array([1.0, -1.0, 1.0, -1.5, 5.0, -5.0, 0.0, np.inf, 7.5, -7.5, np.nan, -0.5], dtype)
    y = np.array([0.1, 0.1, 0.0, 0.0, np.inf, np.inf, 0.0, 2.0, -2.0, 2.0, 1.0, -0.0], dtype)
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y)
    text = f"""def main(A: T.Buffer((12,), "{dtype}"), B: T.Buffer((12,), "{dtype}"), C: T.Buffer((12,), "{dtype}")):
    for i in range(12):
        C[i] = A[i] // B[i]
"""
    both(text, x, y, np.zeros(12, dtype), expected)


def test_minimum_of_zeros_and_rounding_of_halves() -> None:
    x = np.array([0.0, -0.0, 0.5, 1.5, -0.5, 2.5, -2.5], "float32")
    y = np.array([-0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0], "float32")
    text = """def main(A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    for i in range(7):
        C[i] = T.round(T.min(A[i], B[i]))
"""
    both(text, x, y, np.zeros(7, "float32"), np.array([-0.0, -0.0, 0.0, 2.0, -0.0, 2.0, -2.0], "float32"))
    both(text.replace("T.min", "T.max"), x, y, np.ones(7, "float32"), np.array([0.0, 0.0, 9, 9, 9, 9, 9], "float32"))


def test_halves_of_short_vectors() -> None:
    text = """def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    C[0] = T.vectorlow(A[T.Ramp(0, 1, 2)], dtype="int32")
    C[1] = T.vectorhigh(A[T.Ramp(0, 1, 2)], dtype="int32")
    C[T.Ramp(2, 1, 2)] = T.vectorcombine(A[3], A[2], dtype="int32x2")
"""
    both(text, np.array([5, 6, 7, 8], "int32"), np.zeros(4, "int32"), np.array([5, 6, 8, 7], "int32"))


@pytest.mark.parametrize("dtype", ("int64", "uint64"))
@pytest.mark.parametrize("target", ("bfloat16", "float16", "float8_e5m2"))
def test_large_integers_round_once(dtype: str, target: str) -> None:
    """Just above the half between two bfloat16 values, where float64 would already have rounded to the half."""
    half = 2**62 + 2**54
    values = [half + 1, half, half - 1, 2**62 + 3 * 2**54 - 1, 2**60 + 2**52 + 1, 2**53 + 1, 5, 2047, 2049]
    x = np.array([*values, *[-v if dtype == "int64" else v for v in values]], dtype)
    text = f"""def main(A: T.Buffer((18,), "{dtype}"), C: T.Buffer((18,), "{target}")):
    for i in {{loop}}(18):
        C[i] = T.Cast("{target}", A[i])
"""
    expected = np.zeros(18, DataType(target).numpy)
    run_interpreted(read(text.format(loop="range")), None, x, expected)
    for loop in ("range", "T.vectorized"):
        given = np.zeros_like(expected)
        run_compiled(read(text.format(loop=loop)), x, given)
        np.testing.assert_array_equal(given.astype("float32"), expected.astype("float32"))
    if target == "bfloat16":
        assert float(expected[0]) == 2.0**62 + 2.0**55 and float(expected[1]) == 2.0**62
