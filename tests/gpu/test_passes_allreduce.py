"""lower_thread_allreduce: every way to exchange values, against numpy: shuffles, whole warps, one group, trees in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stages import through

import unity
from unity.ir.expr import Call
from unity.ir.module import IRModule
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import PassError
from unity.transform.tir.threads.lower_thread_allreduce import lower_thread_allreduce

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        {symbols}
        X = T.match_buffer(x, ({p}, {q}, {r}), "{dtype}")
        Y = T.match_buffer(y, (2, {p}, {q}, {r}), "{dtype}")
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tz in T.thread_binding({p}, thread="threadIdx.z"):
                for ty in T.thread_binding({q}, thread="threadIdx.y"):
                    for tx in T.thread_binding({r}, thread="threadIdx.x"):
"""
SUM = (
    HEAD
    + """
                        total = T.alloc_buffer((1,), "{dtype}", scope="local")
                        with T.attr(T.comm_reducer(lambda a, b: {join}, [{neutral}]), "reduce_scope", 0):
                            T.tvm_thread_allreduce(T.uint32(1), X[tz, ty, tx], {condition}, total[0], {axes}, dtype="handle")
                        Y[bx, tz, ty, tx] = total[0]
"""
)
BEST = (
    HEAD
    + """
                        most = T.alloc_buffer((1,), "{dtype}", scope="local")
                        place = T.alloc_buffer((1,), "int32", scope="local")
                        with T.attr(
                            T.comm_reducer(
                                lambda a, i, b, j: (T.max(a, b), T.Select(a > b or (a == b and i < j), i, j)),
                                [T.min_value("{dtype}"), T.int32(0x7fffffff)],
                            ), "reduce_scope", 0
                        ):
                            T.tvm_thread_allreduce(T.uint32(2), X[tz, ty, tx], T.Cast("int32", (tz * {q} + ty) * {r} + tx), T.bool(True), most[0], place[0], {axes}, dtype="handle")
                        Y[bx, tz, ty, tx] = T.Cast("{dtype}", place[0])
"""
)
AXES = {"x": 2, "y": 1, "z": 0}


def program(text: str, sizes: tuple[int, int, int], symbolic: bool, **fields: str) -> IRModule:
    fields = {"dtype": "float32", "condition": "T.bool(True)", "join": "a + b", "neutral": "T.float32(0)", **fields}
    given = dict(zip("pqr", "pqr" if symbolic else sizes))
    symbols = "p, q, r = T.int64(), T.int64(), T.int64()" if symbolic else ""
    made: Any = parse(text.format(symbols=symbols, **given, **fields))
    return made


def names(mod: IRModule) -> set[str]:
    return {c.op_name for c in collect(mod, Call)}


CASES = [
    ((1, 1, 32), "x"), ((1, 1, 4), "x"), ((3, 2, 8), "x"), ((2, 4, 8), "yx"), ((1, 1, 1), "x"), ((1, 3, 7), "x"), ((1, 1, 20), "x"),
    ((1, 1, 64), "x"), ((2, 2, 96), "x"), ((2, 16, 8), "yx"), ((1, 1, 100), "x"), ((1, 1, 1024), "x"), ((1, 2, 50), "x"),
    ((1, 5, 4), "y"), ((4, 3, 2), "z"), ((4, 3, 2), "zx"), ((4, 3, 5), "zyx"), ((3, 1, 32), "zx"),
]  # fmt: skip


@pytest.mark.parametrize("sizes,axes", CASES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_sums(sizes: tuple[int, int, int], axes: str, symbolic: bool) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype("float32")
    y = np.zeros((2, *sizes), "float32")
    expected = np.broadcast_to(x.sum(tuple(AXES[a] for a in axes), keepdims=True), y.shape)
    mod = program(SUM, sizes, symbolic, axes=", ".join(f"t{a}" for a in axes))
    lowered = through(mod, [x], y, expected, 1e-4)
    assert "T.tvm_thread_allreduce" not in names(lowered)


@pytest.mark.parametrize("sizes,axes", [((1, 1, 32), "x"), ((1, 2, 64), "x"), ((1, 1, 70), "x"), ((3, 4, 5), "y")])
@pytest.mark.parametrize("symbolic", [False, True])
def test_the_place_of_the_largest(sizes: tuple[int, int, int], axes: str, symbolic: bool) -> None:
    x = np.random.default_rng(0).integers(0, 9, sizes).astype("float32")
    y = np.zeros((2, *sizes), "float32")
    axis = AXES[axes]
    places = np.arange(x.size).reshape(sizes)
    best = np.take_along_axis(places, x.argmax(axis=axis, keepdims=True), axis)
    mod = program(BEST, sizes, symbolic, axes=f"t{axes}")
    through(mod, [x], y, np.broadcast_to(best, y.shape))


@pytest.mark.parametrize("dtype,join,neutral,expected", [
    ("int32", "T.max(a, b)", "T.int32(-2147483648)", lambda v: v.max()), ("float64", "a * b", "T.float64(1)", lambda v: v.prod()),
    ("int64", "T.bitwise_xor(a, b)", "T.int64(0)", lambda v: np.bitwise_xor.reduce(v.ravel())), ("float16", "T.min(a, b)", "T.float16(9)", lambda v: v.min()),
])  # fmt: skip
@pytest.mark.parametrize("sizes", [(1, 1, 32), (1, 1, 64), (1, 1, 40)])
def test_reducers(
    dtype: str, join: str, neutral: str, expected: Callable[[Any], Any], sizes: tuple[int, int, int]
) -> None:
    x = np.random.default_rng(1).integers(1, 3, sizes).astype(dtype)
    y = np.zeros((2, *sizes), dtype)
    mod = program(SUM, sizes, False, axes="tx", dtype=dtype, join=join, neutral=neutral)
    through(mod, [x], y, np.broadcast_to(expected(x), y.shape))


def test_threads_that_give_nothing() -> None:
    x, y = np.ones((1, 1, 40), "float32"), np.zeros((2, 1, 1, 40), "float32")
    through(program(SUM, x.shape, True, axes="tx", condition="tx % 3 == 0"), [x], y, np.full_like(y, 14))


def test_warps_need_no_shared_memory_and_no_barrier() -> None:
    x = np.ones((1, 2, 32), "float32")
    mod = through(
        program(SUM, x.shape, False, axes="tx"), [x], np.zeros((2, 1, 2, 32), "float32"), np.full((2, 1, 2, 32), 32.0)
    )
    assert "shared" not in mod.script() and "T.tvm_storage_sync" not in names(mod)
    whole = program(SUM, (1, 1, 128), False, axes="tx")
    y = np.zeros((2, 1, 1, 128), "float32")
    text = through(whole, [np.ones((1, 1, 128), "float32")], y, np.full_like(y, 128)).script()
    assert text.count("T.tvm_storage_sync") == 1


def test_an_axis_of_blocks_is_refused() -> None:
    with pytest.raises(PassError, match=r"E374.*over bx"):
        lower_thread_allreduce(program(SUM, (1, 1, 32), False, axes="bx"))


def test_a_reduction_into_elements_of_another_type():
    program = parse("""
@T.prim_func
def f(X: T.Buffer((24,), "float32"), Y: T.Buffer((1,), "float16")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(24, thread="threadIdx.x"):
            with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                T.tvm_thread_allreduce(T.uint32(1), X[tx], T.bool(True), Y[0], tx)
""")
    with pytest.raises(unity.UnityError, match="E374"):
        unity.compile(program, target="cuda -arch=sm_80")
