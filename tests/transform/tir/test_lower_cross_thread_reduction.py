"""lower_cross_thread_reduction: threads that share a reduction, against numpy, without a race; nests that stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.transform.schedule import Schedule
from unity.transform.tir.threads.lower_cross_thread_reduction import lower_cross_thread_reduction

SOURCE = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((3, {n}), "{dtype}"), B: T.Buffer((3,), "{dtype}")):
        for i, k in T.grid(3, {n}):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = {init}
                B[vi] = {step}
"""
SUM, BEST = "B[vi] + A[vi, vk]", "T.max(A[vi, vk], B[vi])"


def program(n: int, init: str = "T.float32(0)", step: str = SUM, dtype: str = "float32") -> Any:
    return parse(SOURCE.format(n=n, init=init, step=step, dtype=dtype))


def plain(sch: Schedule) -> None:
    i, k = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, 32])[1], "threadIdx.x")


def threads_outside(sch: Schedule) -> None:
    i, k = sch.get_loops("B")
    outer, inner = sch.split(k, [None, 16])
    sch.reorder(i, inner, outer)
    sch.bind(inner, "threadIdx.x")


def two_axes(sch: Schedule) -> None:
    i, k = sch.get_loops("B")
    _, y, x = sch.split(k, [None, 4, 8])
    sch.bind(i, "blockIdx.x")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")


def rows_of_threads(sch: Schedule) -> None:
    i, k = sch.get_loops("B")
    sch.bind(i, "threadIdx.y")
    sch.bind(sch.split(k, [None, 8])[1], "threadIdx.x")


@pytest.mark.parametrize("schedule", [plain, threads_outside, two_axes, rows_of_threads])
@pytest.mark.parametrize("n", [1, 37, 64])
def test_sums(schedule: Callable[[Schedule], None], n: int) -> None:
    sch = Schedule(program(n))
    schedule(sch)
    a, b = np.random.default_rng(n).random((3, n), dtype=np.float32), np.full(3, np.nan, np.float32)
    unity.check_gpu(sch.mod, a, b, pipeline=GPU_PIPELINE).raise_if_failed()
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


@pytest.mark.parametrize(
    ("init", "step", "dtype", "expected"),
    [
        ("T.float32(5)", SUM, "float32", lambda a: a.sum(1) + 5),
        ("T.float32(0.25)", BEST, "float32", lambda a: np.maximum(a.max(1), 0.25)),
        ("2", "B[vi] * (A[vi, vk] + 1)", "int32", lambda a: 2 * (a + 1).prod(1)),
        ("T.int32(100)", "T.min(B[vi], A[vi, vk])", "int32", lambda a: np.minimum(a.min(1), 100)),
    ],
)
def test_reducers_and_initial_values(init: str, step: str, dtype: str, expected: Callable[[Any], Any]) -> None:
    sch = Schedule(program(20, init, step, dtype))
    plain(sch)
    a = np.random.default_rng(0).integers(0, 2, (3, 20)).astype(dtype)
    b = np.zeros(3, dtype)
    unity.check_gpu(sch.mod, a, b, pipeline=GPU_PIPELINE).raise_if_failed()
    np.testing.assert_allclose(b, expected(a))


@pytest.mark.parametrize(
    "schedule",
    [
        lambda s: s.bind(s.get_loops("B")[0], "threadIdx.x"),
        lambda s: s.decompose_reduction("B", s.get_loops("B")[1]),
        lambda s: (s.split(s.get_loops("B")[0], [3, 1], preserve_unit_iters=True), s.parallel(s.get_loops("B")[0])),
    ],
)
def test_other_nests_stay(schedule: Callable[[Schedule], Any]) -> None:
    sch = Schedule(program(16))
    schedule(sch)
    assert lower_cross_thread_reduction(sch.mod) is sch.mod


def test_softmax_of_rows() -> None:
    """Both reductions of a row in shared memory, the quotients by the same threads."""
    mod = parse("""
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((4, 40), "float32"), Y: T.Buffer((4, 40), "float32")):
        M = T.alloc_buffer((4,), "float32")
        S = T.alloc_buffer((4,), "float32")
        for i, k in T.grid(4, 40):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.float32(-1000)
                M[vi] = T.max(M[vi], A[vi, vk])
        for i, k in T.grid(4, 40):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
        for i, j in T.grid(4, 40):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.exp(A[vi, vj] - M[vi]) / S[vi]
""")
    sch = Schedule(mod)
    i, j = sch.get_loops("Y")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(j, [None, 16])[1], "threadIdx.x")
    for name in ("S", "M"):
        sch.set_scope(name, 0, "shared")
        sch.compute_at(name, i, preserve_unit_loops=True)
        sch.bind(sch.split(sch.get_loops(name)[-1], [None, 16])[1], "threadIdx.x")
    a, y = np.random.default_rng(0).random((4, 40), dtype=np.float32), np.zeros((4, 40), np.float32)
    unity.check_gpu(sch.mod, a, y, pipeline=GPU_PIPELINE).raise_if_failed()
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
