"""inject_virtual_thread: threads that run several virtual threads, before as lanes beside each other, after as loops in each thread."""

from __future__ import annotations

import numpy as np
import pytest
from stages import through

import unity
from unity.script import parse
from unity.support.errors import PassError
from unity.transform.tir.threads.inject_virtual_thread import inject_virtual_thread
from unity.transform.tir.threads.unify_thread_binding import unify_thread_binding

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((128,), "float32"), Y: T.Buffer((128,), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for vx in T.thread_binding({low}, {low} + 2, thread="vthread.x"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
"""
AT = "bx * 64 + (vx - {low}) * 32 + tx"
LOCAL = (
    HEAD
    + """
                    own = T.alloc_buffer((2,), "float32", scope="local")
                    own[0] = X[{at}]
                    own[1] = T.float32(0)
                    twice: T.float32 = own[0] * T.float32(2)
                    where: T.int64 = {at}
                    for k in range(3):
                        own[1] = own[1] + own[0] * T.Cast("float32", k + vx - {low})
                    if tx < 16:
                        own[1] = own[1] + twice
                    if vx == {low}:
                        for k in range(vx - {low} + 1):
                            own[1] = own[1] + T.float32(1)
                    Y[where] = own[1]
"""
)
SHARED = (
    HEAD
    + """
                    S = T.alloc_buffer((64,), "float32", scope="shared")
                    own = T.alloc_buffer((1,), "float32", scope="local")
                    S[(vx - {low}) * 32 + tx] = X[{at}]
                    T.tvm_storage_sync("shared")
                    own[0] = S[63 - ((vx - {low}) * 32 + tx)]
                    Y[{at}] = own[0]
"""
)


def program(text: str, low: int) -> unity.IRModule:
    made = parse(text.replace("{at}", AT).replace("{low}", str(low)))
    assert isinstance(made, unity.IRModule)
    return made


@pytest.mark.parametrize("low", [0, 3])
def test_memory_and_values_of_virtual_threads(low: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 128).astype("float32")
    v, t = np.arange(128) // 32 % 2, np.arange(128) % 32
    expected = x * (3 + 3 * v) + np.where(t < 16, 2 * x, 0) + np.where(v == 0, 1, 0)
    mod = through(program(LOCAL, low), [x], np.zeros_like(x), expected)
    assert "virtual_thread" not in mod.script() and "vthread" not in mod.script()


def test_virtual_threads_share_the_memory_of_the_block() -> None:
    x = np.random.default_rng(0).integers(-9, 9, 128).astype("float32")
    mod = through(program(SHARED, 0), [x], np.zeros_like(x), x.reshape(2, 64)[:, ::-1].ravel())
    assert mod.script().count("T.tvm_storage_sync") == 1


def test_a_product_with_virtual_threads() -> None:
    sch = unity.Schedule(
        parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((32, 24), "float32"), B: T.Buffer((24, 32), "float32"), C: T.Buffer((32, 32), "float32")):
        for i, j, k in T.grid(32, 32, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    )
    block = sch.get_block("C", func_name="main")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, vy, i1, i2 = sch.split(i, [None, 2, 4, 2])
    j0, vx, j1, j2 = sch.split(j, [None, 2, 4, 2])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, vy, vx, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(local, j1)
    axes = ("blockIdx.y", "blockIdx.x", "vthread.y", "vthread.x", "threadIdx.y", "threadIdx.x")
    for loop, axis in zip((i0, j0, vy, vx, i1, j1), axes):
        sch.bind(loop, axis)
    for index in (0, 1):
        shared = sch.cache_read(block, index, "shared")
        sch.compute_at(shared, k0)
        _, ty, tx = sch.split(sch.fuse(*sch.get_loops(shared)[-2:]), [None, 4, 4])
        sch.bind(ty, "threadIdx.y")
        sch.bind(tx, "threadIdx.x")
    sch.decompose_reduction(block, k0)
    a, b = np.random.default_rng(0).standard_normal((2, 32, 24)).astype("float32")
    through(sch.mod, [a, b.reshape(24, 32)], np.zeros((32, 32), "float32"), a @ b.reshape(24, 32), 1e-4)


def test_a_barrier_that_not_all_virtual_threads_reach() -> None:
    text = SHARED.replace(
        '                    T.tvm_storage_sync("shared")',
        '                    if vx == 0:\n                        T.tvm_storage_sync("shared")',
    )
    with pytest.raises(PassError, match=r"E371.*virtual threads"):
        inject_virtual_thread(unify_thread_binding(program(text, 0)))


def test_fragments_have_no_versions() -> None:
    text = SHARED.replace(
        "own[0] = S", 'T.evaluate(T.call_extern("int32", "f", own.data, vx))\n                    own[0] = S'
    )
    with pytest.raises(PassError, match=r"E376.*own"):
        inject_virtual_thread(unify_thread_binding(program(text, 0)))
