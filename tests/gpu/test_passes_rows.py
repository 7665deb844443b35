"""Rows of any length through the lowering: elementwise programs, sums and softmax whose reductions are bound to threads."""

from __future__ import annotations

import numpy as np
import pytest
from stages import through
from test_passes_emulated import on_device

from unity.script import parse

SUM = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for bx in T.thread_binding((n + {rows} - 1) // {rows}, thread="blockIdx.x"):
            for ty in T.thread_binding({rows}, thread="threadIdx.y"):
                for tx in T.thread_binding({lanes}, thread="threadIdx.x"):
                    for k in range((m + {lanes} - 1) // {lanes}):
                        with T.block("B"):
                            vi = T.axis.spatial(n, bx * {rows} + ty)
                            vk = T.axis.reduce(m, k * {lanes} + tx)
                            T.where(bx * {rows} + ty < n and k * {lanes} + tx < m)
                            with T.init():
                                B[vi] = T.float32(1)
                            B[vi] = B[vi] + A[vi, vk]
"""
SOFTMAX = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            M = T.alloc_buffer((1,), "float32", scope="shared")
            S = T.alloc_buffer((1,), "float32", scope="shared")
            for tx in T.thread_binding({threads}, thread="threadIdx.x"):
                for k in range((m + {threads} - 1) // {threads}):
                    with T.block("M"):
                        vk = T.axis.reduce(m, k * {threads} + tx)
                        T.where(k * {threads} + tx < m)
                        with T.init():
                            M[0] = T.min_value("float32")
                        M[0] = T.max(M[0], A[bx, vk])
            for tx in T.thread_binding({threads}, thread="threadIdx.x"):
                for k in range((m + {threads} - 1) // {threads}):
                    with T.block("S"):
                        vk = T.axis.reduce(m, k * {threads} + tx)
                        T.where(k * {threads} + tx < m)
                        with T.init():
                            S[0] = T.float32(0)
                        S[0] = S[0] + T.exp(A[bx, vk] - M[0])
            for tx in T.thread_binding({threads}, thread="threadIdx.x"):
                for k in range((m + {threads} - 1) // {threads}):
                    with T.block("Y"):
                        vk = T.axis.spatial(m, k * {threads} + tx)
                        T.where(k * {threads} + tx < m)
                        Y[bx, vk] = T.exp(A[bx, vk] - M[0]) / S[0]
"""


@pytest.mark.parametrize("n,m", [(1, 1), (3, 31), (5, 100)])
@pytest.mark.parametrize("lanes,rows", [(32, 1), (8, 4), (48, 1)])
def test_sums_of_symbolic_rows(n: int, m: int, lanes: int, rows: int) -> None:
    a = np.random.default_rng(0).standard_normal((n, m)).astype("float32")
    through(parse(SUM.format(lanes=lanes, rows=rows)), [a], np.zeros(n, "float32"), a.sum(1) + 1, 1e-4)


@pytest.mark.parametrize("threads", [32, 40, 128])
def test_softmax_of_symbolic_rows(threads: int) -> None:
    a = np.random.default_rng(0).standard_normal((3, 70)).astype("float32")
    e = np.exp(a - a.max(1, keepdims=True))
    mod = parse(SOFTMAX.format(threads=threads))
    through(mod, [a], np.zeros_like(a), e / e.sum(1, keepdims=True), 1e-5)
    on_device(mod, [a], e / e.sum(1, keepdims=True), 1e-5)
