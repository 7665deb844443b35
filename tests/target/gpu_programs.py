"""Kernels in script for the tests of the thread-level checker."""

from __future__ import annotations

from typing import Any

import numpy as np

from unity.script import parse

MATMUL = """
@T.prim_func
def mm(a: T.handle, b: T.handle, c: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, k), "float32")
    B = T.match_buffer(b, (k, m), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for by in T.thread_binding((n + 15) // 16, thread="blockIdx.y"):
        for bx in T.thread_binding((m + 15) // 16, thread="blockIdx.x"):
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    AS = T.alloc_buffer((16, 17), "float32", scope="shared")
                    BS = T.alloc_buffer((16, 16), "float32", scope="shared")
                    acc = T.alloc_buffer((1,), "float32", scope="local")
                    acc[0] = T.float32(0)
                    for ko in range((k + 15) // 16):
                        T.tvm_storage_sync("shared")  # before the tiles are overwritten
                        AS[ty, tx] = T.if_then_else(by * 16 + ty < n and ko * 16 + tx < k, A[by * 16 + ty, ko * 16 + tx], T.float32(0))
                        BS[ty, tx] = T.if_then_else(ko * 16 + ty < k and bx * 16 + tx < m, B[ko * 16 + ty, bx * 16 + tx], T.float32(0))
                        T.tvm_storage_sync("shared")  # before the tiles are read
                        for ki in range(16):
                            acc[0] = acc[0] + AS[ty, ki] * BS[ki, tx]
                    if by * 16 + ty < n and bx * 16 + tx < m:
                        C[by * 16 + ty, bx * 16 + tx] = acc[0]
"""

WMMA = """
@T.prim_func
def wmma(A: T.Buffer((32, 48), "float16"), B: T.Buffer((48, 32), "float16"), C: T.Buffer((32, 32), "float32")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                AS = T.alloc_buffer((16, 16), "float16", scope="shared")
                BS = T.alloc_buffer((16, 16), "float16", scope="shared")
                fa = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
                fb = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_b")
                fc = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
                T.tvm_fill_fragment(fc.data, 16, 16, 16, 0, T.float32(0))
                for ko in range(3):
                    T.tvm_storage_sync("shared")
                    for q in range(8):
                        AS[(q * 32 + tx) // 16, (q * 32 + tx) % 16] = A[by * 16 + (q * 32 + tx) // 16, ko * 16 + (q * 32 + tx) % 16]
                        BS[(q * 32 + tx) // 16, (q * 32 + tx) % 16] = B[ko * 16 + (q * 32 + tx) // 16, bx * 16 + (q * 32 + tx) % 16]
                    T.tvm_storage_sync("shared")
                    T.tvm_load_matrix_sync(fa.data, 16, 16, 16, 0, AS.access_ptr("r"), 16, "row_major")
                    T.tvm_load_matrix_sync(fb.data, 16, 16, 16, 0, BS.access_ptr("r"), 16, "row_major")
                    T.tvm_mma_sync(fc.data, 0, fa.data, 0, fb.data, 0, fc.data, 0)
                T.tvm_store_matrix_sync(fc.data, 16, 16, 16, 0, T.address_of(C[by * 16, bx * 16]), 32, "row_major")
"""

WARP_SUM = """
@T.prim_func
def warp_sum(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n, 32), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            part = T.alloc_buffer((1,), "float32", scope="local")
            part[0] = X[bx, tx]
            for s in range(5):
                part[0] = part[0] + T.tvm_warp_shuffle_down(T.uint32(0xffffffff), part[0], T.shift_right(16, T.Cast("int32", s)), 32, 32)
            if tx == 0:
                Y[bx] = part[0]
"""


def changed(text: str, old: str, new: str) -> Any:
    """A program with one piece of its text replaced everywhere."""
    assert old in text, old
    return parse(text.replace(old, new))


def operands(n: int, m: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and an output for a product."""
    rng = np.random.default_rng(n * 7 + m * 3 + k)
    a, b = rng.standard_normal((n, k)).astype("float32"), rng.standard_normal((k, m)).astype("float32")
    return a, b, np.full((n, m), np.nan, "float32")
