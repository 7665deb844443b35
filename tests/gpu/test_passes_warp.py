"""lower_warp_memory: registers of lanes, shuffles for what other lanes have, operands of matrix instructions."""

from __future__ import annotations

import numpy as np
import pytest
from stages import through
from test_passes_emulated import on_device

from unity.script import parse
from unity.support.errors import PassError
from unity.target import GPU_PIPELINE

TURNED = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((64, 4), "float32"), Y: T.Buffer((64, 4), "float32")):
        for tx in T.thread_binding({threads}, thread="threadIdx.x"):
            for ty in T.thread_binding(64 // {threads}, thread="threadIdx.y"):
                W = T.alloc_buffer((2, 32, 2), "float32", scope="warp")
                for g, r in T.grid(2, 2):
                    W[g, {lane}, r] = X[ty * {threads} + tx, g * 2 + r]
                for g, r in T.grid(2, 2):
                    Y[ty * {threads} + tx, g * 2 + r] = W[1 - g, 31 - {lane}, r] + W[g, {lane}, 1 - r]
"""
PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 16), "float16"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            SA = T.alloc_buffer((16, 16), "float16", scope="shared")
            SB = T.alloc_buffer((16, 16), "float16", scope="shared")
            WA = T.alloc_buffer((32, 8), "float16", scope="warp")
            WB = T.alloc_buffer((32, 8), "float16", scope="warp")
            WC = T.alloc_buffer((32, 8), "float32", scope="warp")
            for s in range(8):
                SA[s * 2 + tx // 16, tx % 16] = A[s * 2 + tx // 16, tx % 16]
                SB[s * 2 + tx // 16, tx % 16] = B[s * 2 + tx // 16, tx % 16]
            for r in range(8):
                WC[tx, r] = T.float32(0)
            T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", WA.data, tx * 8, SA.data, tx % 16 * 16 + tx // 16 * 8)
            T.ptx_ldmatrix("float16", T.bool(True), 4, ".b16", WB.data, tx * 8, SB.data, tx % 16 * 16 + tx // 16 * 8)
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", WA.data, tx * 8, WB.data, tx * 8, WC.data, tx * 8, T.bool(False))
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", WA.data, tx * 8, WB.data, tx * 8 + 4, WC.data, tx * 8 + 4, T.bool(False))
            for r in range(8):
                C[r % 4 // 2 * 8 + tx // 4, r // 4 * 8 + tx % 4 * 2 + r % 2] = WC[tx, r]
"""

FRAGMENTS = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((32, 16), "float16"), B: T.Buffer((16, 16), "float16"), C: T.Buffer((32, 16), "float32")):
        fa = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
        fb = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_b")
        fc = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                T.tvm_fill_fragment(fc.data, 16, 16, 16, 0, T.float32(0))
                T.tvm_load_matrix_sync(fa.data, 16, 16, 16, 0, T.address_of(A[bx * 16, 0]), 16, "row_major")
                T.tvm_load_matrix_sync(fb.data, 16, 16, 16, 0, T.address_of(B[0, 0]), 16, "row_major")
                T.tvm_mma_sync(fc.data, 0, fa.data, 0, fb.data, 0, fc.data, 0)
                T.tvm_store_matrix_sync(fc.data, 16, 16, 16, 0, T.address_of(C[bx * 16, 0]), 16, "row_major")
"""


@pytest.mark.parametrize("threads,lane", [(32, "tx"), (64, "(tx % 32)")])
def test_lanes_read_what_others_have(threads: int, lane: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (64, 4)).astype("float32")
    parts = x.reshape(2, 32, 2, 2)
    expected = (parts[:, ::-1, ::-1] + parts[..., ::-1]).reshape(64, 4)
    mod = parse(TURNED.format(threads=threads, lane=lane))
    lowered = through(mod, [x], np.zeros_like(x), expected)
    assert 'scope="warp"' not in lowered.script() and "T.tvm_warp_shuffle" in lowered.script()
    on_device(mod, [x], expected)


def test_operands_of_matrix_instructions() -> None:
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 16, 16)).astype("float16")
    expected = (a @ b).astype("float32")
    lowered = through(parse(PRODUCT), [a, b], np.zeros_like(expected), expected)
    assert 'scope="warp"' not in lowered.script() and "T.tvm_warp_shuffle" not in lowered.script()
    on_device(parse(PRODUCT), [a, b], expected)


@pytest.mark.parametrize(
    "old,new",
    [("W[g, {lane}, r]", "W[g, 31 - {lane}, r]"), ("W[g, {lane}, r]", "W[g, {lane}, X[0, 0] > T.float32(0)]")],
)
def test_lanes_write_their_own(old: str, new: str) -> None:
    text = TURNED.replace(old + " = X", new.replace("X[0, 0] > T.float32(0)", 'T.Cast("int64", X[0, 0]) * tx') + " = X")
    with pytest.raises(PassError, match="E377"):
        GPU_PIPELINE(parse(text.format(threads=32, lane="tx")))


def test_fragments_allocated_around_the_kernel() -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.integers(-4, 5, shape).astype("float16") for shape in ((32, 16), (16, 16))]
    expected = (a @ b).astype("float32")
    through(parse(FRAGMENTS), [a, b], np.zeros_like(expected), expected)
    on_device(parse(FRAGMENTS), [a, b], expected)
