"""unify_thread_binding and split_host_device: one launch at the top of each kernel, kernels as functions that the program calls."""

from __future__ import annotations

import numpy as np
import pytest
from stages import copied, through

from unity.ir.analysis.threads import is_device_function
from unity.ir.module import IRModule
from unity.ir.structural import assert_structural_equal
from unity.script import parse
from unity.support.errors import PassError
from unity.target import GPU_PIPELINE, check_gpu
from unity.transform.tir.threads.split_host_device import split_host_device
from unity.transform.tir.threads.unify_thread_binding import unify_thread_binding

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
"""
ELEMENTWISE = (
    HEAD
    + """
        for i in T.thread_binding((n + 63) // 64, thread="blockIdx.x"):
            for j in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("Y"):
                    v = T.axis.spatial(n, i * 64 + j)
                    T.where(i * 64 + j < n)
                    Y[v] = X[v] * T.float32(2)
"""
)
TWO_KERNELS = (
    HEAD
    + """
        Z = T.alloc_buffer((n,), "float32")
        for i in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                if i * 32 + j < n:
                    Z[i * 32 + j] = X[i * 32 + j] * T.float32(2)
        for r in range(3):
            for i in T.thread_binding((n + 7) // 8, thread="blockIdx.x"):
                for j in T.thread_binding(8, thread="threadIdx.x"):
                    if i * 8 + j < n:
                        Z[i * 8 + j] = Z[i * 8 + j] + T.Cast("float32", r)
        for i in T.thread_binding(n, thread="blockIdx.x"):
            Y[i] = Z[i]
"""
)
SEPARATE = (
    HEAD
    + """
        S = T.alloc_buffer((32,), "float32", scope="shared")
        for i in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
            m: T.int64 = T.min(n, T.int64(32))
            for j in T.thread_binding(32, thread="threadIdx.x"):
                S[j] = T.if_then_else(i * 32 + j < n, X[i * 32 + j], T.float32(0))
            for k in T.thread_binding(1, 33, thread="threadIdx.x"):
                if i * 32 + k - 1 < n:
                    Y[i * 32 + k - 1] = S[k - 1] * T.float32(2)
        for i in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                S[j] = T.if_then_else(i * 32 + j < n, Y[i * 32 + j], T.float32(0))
                if i * 32 + j < n:
                    Y[i * 32 + j] = S[j]
"""
)
LAUNCHED = (
    HEAD
    + """
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(bx, (n + 31) // 32):
            S = T.alloc_buffer((33,), "float32", scope="shared")
            with T.launch_thread(tx, 32):
                S[tx] = T.if_then_else(bx * 32 + tx < n, X[bx * 32 + tx], T.float32(0))
            with T.launch_thread(tx, 32):
                if bx * 32 + tx < n:
                    Y[bx * 32 + tx] = S[tx] * T.float32(2)
"""
)


@pytest.mark.parametrize("n", [1, 64, 100])
@pytest.mark.parametrize("text,kernels", [(ELEMENTWISE, 1), (SEPARATE, 2), (LAUNCHED, 1)])
def test_every_stage_runs(text: str, kernels: int, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype("float32")
    mod = through(parse(text), [x], np.zeros_like(x), 2 * x)
    names = [name for name, func in mod.functions.items() if is_device_function(func)]
    assert names == ["main_kernel", "main_kernel_1"][:kernels]


def test_kernels_in_loops_share_global_memory() -> None:
    x, y = np.arange(50, dtype="float32"), np.zeros(50, "float32")
    mod = through(parse(TWO_KERNELS), [x], y, 2 * x + 3)
    assert list(mod.functions) == ["main", "main_kernel", "main_kernel_1", "main_kernel_2"]
    assert [p.name for p in mod.prim_funcs()["main_kernel_1"].params] == ["Z", "n", "r"]
    assert check_gpu(mod, x, y).launches == 5, "the last kernel is launched once, the one in the loop three times"


def test_a_kernel_is_a_function_of_pointers_and_symbols() -> None:
    mod = GPU_PIPELINE(parse(ELEMENTWISE))
    wanted = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        T.evaluate(main_kernel(X.data, Y.data, n))

    @T.prim_func(private=True)
    def main_kernel(X: T.handle("float32"), Y: T.handle("float32"), n: T.int64):
        T.func_attr({"calling_conv": 2, "tir.is_global_func": True})
        with T.launch_thread("blockIdx.x", (n + 63) // 64) as bx:
            with T.launch_thread("threadIdx.x", T.int64(64)) as tx:
                X_1 = T.decl_buffer((n,), "float32", data=X)
                Y_1 = T.decl_buffer((n,), "float32", data=Y)
                if bx * 64 + tx < n:
                    Y_1[bx * 64 + tx] = X_1[bx * 64 + tx] * T.float32(2)
""")
    assert_structural_equal(mod, wanted)
    assert unify_thread_binding(mod) is mod and split_host_device(mod) is mod


def test_extents_that_differ_are_refused() -> None:
    text = SEPARATE.replace("T.thread_binding(1, 33,", "T.thread_binding(1, 17,")
    with pytest.raises(
        PassError, match=r"E373.*threadIdx.x has the extent T.int64\(16\) here and T.int64\(32\) elsewhere"
    ):
        unify_thread_binding(parse(text))


def test_extents_that_a_kernel_computes() -> None:
    text = SEPARATE.replace("for j in T.thread_binding(32,", "for j in T.thread_binding(m,", 1).replace(
        "(1, 33,", "(1, m + 1,"
    )
    unified = unify_thread_binding(parse(text))
    assert 'T.launch_thread("threadIdx.x", T.min(n, 32))' in unified.script()
    with pytest.raises(PassError, match=r"E373.*depends on what the kernel computes"):
        unify_thread_binding(parse(text.replace("T.min(n, T.int64(32))", "T.min(i, T.int64(32))")))


def test_pointers_and_attributes_go_with_the_kernel() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((4, 8), "float32", strides=(16, 1)), Y: T.Buffer((32,), "float32"), k: T.int32):
        T.func_attr({"tir.noalias": True, "target": T.target("cuda")})
        for j in T.thread_binding(32, thread="threadIdx.x"):
            Y[j] = X[j // 8, j % 8] + T.Cast("float32", k)
"""
    mod = copied(GPU_PIPELINE(parse(text)))
    assert isinstance(mod, IRModule)
    kernel = mod.prim_funcs()["main_kernel"]
    assert kernel.attrs["tir.noalias"] and kernel.attrs["target"] is not None
    x, y = np.arange(64, dtype="float32").reshape(4, 16)[:, :8], np.zeros(32, "float32")
    assert check_gpu(mod, x, y, 3).ok
    np.testing.assert_array_equal(y, x.ravel() + 3)


def test_races_in_global_memory_are_seen_behind_pointers() -> None:
    mod = GPU_PIPELINE(parse(ELEMENTWISE.replace("Y[v]", "Y[v // 2]")))
    assert {f.code for f in check_gpu(mod, np.ones(8, "float32"), np.zeros(8, "float32")).findings} == {"E361"}
