"""The thread-level checker: correct kernels agree with numpy and give no finding, each seeded bug gives its own."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from gpu_programs import MATMUL, WARP_SUM, WMMA, changed, operands

from unity.script import parse
from unity.support.errors import InterpreterError
from unity.target.gpu_check import GpuReport, check_gpu

LOAD_SYNC = '                        T.tvm_storage_sync("shared")  # before the tiles are read\n'
STORE_SYNC = '                        T.tvm_storage_sync("shared")  # before the tiles are overwritten\n'


def checked(func: Any, *args: Any) -> GpuReport:
    report = check_gpu(func, *args)
    assert report.ok, str(report)
    return report


def codes(report: GpuReport) -> list[str]:
    return [f.code for f in report.findings]


@pytest.mark.parametrize("n,m,k", [(32, 48, 64), (17, 5, 33), (1, 1, 1), (16, 16, 0), (0, 4, 4)])
def test_tiled_matrix_product(n: int, m: int, k: int) -> None:
    a, b, c = operands(n, m, k)
    report = checked(parse(MATMUL), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert report.launches == 1 and str(report).startswith("mm: no fault found")


def test_blocks_in_several_batches_agree() -> None:
    a, b, c = operands(40, 40, 20)
    assert check_gpu(parse(MATMUL), a, b, c, max_lanes=300).ok
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_speed_of_a_16x16x64_tiled_product() -> None:
    text = (
        MATMUL.replace("range(16)", "range(64)")
        .replace("(16, 17)", "(16, 65)")
        .replace('(16, 16), "float32"', '(64, 16), "float32"')
    )
    text = text.replace("ko * 16", "ko * 64").replace("(k + 15) // 16", "(k + 63) // 64")
    first, second = [line for line in text.splitlines() if "if_then_else" in line]

    def four(line: str) -> str:
        inner = line.strip().replace("tx]", "tx + q * 16]", 1).replace("ko * 64 + tx", "ko * 64 + tx + q * 16")
        return inner.replace("BS[ty, tx + q * 16]", "BS[ty + q * 16, tx]").replace(
            "ko * 64 + ty", "ko * 64 + ty + q * 16"
        )

    indent = " " * 24
    text = text.replace(
        first, f"{indent}for q in range(4):\n{indent}    {four(first)}\n{indent}    {four(second)}"
    ).replace(second + "\n", "")
    a, b, c = operands(128, 128, 128)
    start = time.process_time()
    checked(parse(text), a, b, c)
    assert time.process_time() - start < 10
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


# ---- seeded bugs


def test_missing_barrier_before_the_reads() -> None:
    report = check_gpu(changed(MATMUL, LOAD_SYNC, ""), *operands(32, 32, 32))
    races = report.races
    assert races and all([f.code == "E360" for f in races])
    race = races[0]
    assert race.buffer == "AS" and len(race.threads) == 2 and race.threads[0] != race.threads[1]
    assert race.line is not None and race.cell is not None and len(race.cell) == 2 and race.notes[0].span is not None


def test_missing_barrier_before_the_next_tile() -> None:
    report = check_gpu(changed(MATMUL, STORE_SYNC, ""), *operands(32, 32, 64))
    assert codes(report) == ["E360", "E360"]
    assert {f.buffer for f in report.races} == {"AS", "BS"}
    one_tile = check_gpu(changed(MATMUL, STORE_SYNC, ""), *operands(32, 32, 16))
    assert one_tile.ok, "with a single tile nothing is overwritten"


def test_divergent_barrier() -> None:
    bad = changed(MATMUL, LOAD_SYNC, LOAD_SYNC.replace("T.tvm", "if tx < 7:\n" + " " * 28 + "T.tvm"))
    report = check_gpu(bad, *operands(16, 16, 16))
    assert codes(report) == ["E362"]
    waits, absent = report.divergent_barriers[0].threads
    assert waits.thread == (0, 0, 0) and absent.thread == (7, 0, 0)


def test_barrier_in_a_loop_of_different_length() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        for i in range(T.if_then_else(tx < 32, 2, 3)):
            T.tvm_storage_sync("shared")
            X[tx] = T.float32(i)
"""
    report = check_gpu(parse(text), np.zeros(64, "float32"))
    assert codes(report) == ["E362"] and report.findings[0].threads[0].thread == (32, 0, 0)


def test_off_by_one() -> None:
    report = check_gpu(changed(MATMUL, "BS[ki, tx]", "BS[ki + 1, tx]"), *operands(16, 16, 16))
    assert codes(report) == ["E363"]
    assert report.out_of_bounds[0].cell == (16, 0) and report.out_of_bounds[0].count == 256
    report = check_gpu(changed(MATMUL, "by * 16 + ty < n and ko", "by * 16 + ty <= n and ko"), *operands(17, 16, 16))
    assert codes(report) == ["E363"] and report.findings[0].cell == (17, 0)


def test_uninitialised_shared_memory() -> None:
    lines = [line for line in MATMUL.splitlines() if "BS[ty, tx] =" not in line]
    report = check_gpu(parse("\n".join(lines)), *operands(16, 16, 16))
    assert codes(report) == ["E364"] and report.uninitialised[0].buffer == "BS"


def test_uninitialised_accumulator_of_each_thread() -> None:
    report = check_gpu(
        changed(MATMUL, "acc[0] = T.float32(0)", "if tx != 3: acc[0] = T.float32(0)"), *operands(16, 16, 16)
    )
    assert codes(report) == ["E364"] and report.findings[0].threads[0].thread == (3, 0, 0)


def test_race_on_global_memory() -> None:
    report = check_gpu(changed(MATMUL, "C[by * 16 + ty, bx", "C[by * 16, bx"), *operands(16, 16, 16))
    assert codes(report) == ["E361"] and report.races[0].buffer == "C"
    across = check_gpu(changed(MATMUL, "C[by * 16 + ty, bx", "C[ty, bx"), *operands(32, 16, 16))
    assert codes(across) == ["E361"]
    assert across.races[0].threads[0].block != across.races[0].threads[1].block


def test_blocks_are_not_ordered_by_barriers_even_in_another_batch() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((4,), "int32"), Y: T.Buffer((4,), "int32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if tx == 0:
                X[bx] = T.Cast("int32", bx)
            T.tvm_storage_sync("shared")
            if tx == 0:
                Y[bx] = X[(bx + 1) % 4]
"""
    for lanes in (1 << 16, 32):
        report = check_gpu(parse(text), np.zeros(4, "int32"), np.zeros(4, "int32"), max_lanes=lanes)
        assert "E361" in codes(report), lanes
    grid = text.replace('T.tvm_storage_sync("shared")', 'T.tvm_storage_sync("global")')
    y = np.zeros(4, "int32")
    checked(parse(grid), np.zeros(4, "int32"), y)
    np.testing.assert_array_equal(y, [1, 2, 3, 0])


def test_warp_barrier_orders_a_warp_but_not_the_block() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((64,), "int32", scope="shared")
        S[tx] = X[tx]
        T.tvm_storage_sync("warp")
        Y[tx] = S[T.bitwise_xor(tx, 1)]
"""
    x, y = np.arange(64, dtype="int32"), np.zeros(64, "int32")
    checked(parse(text), x, y)
    np.testing.assert_array_equal(y, x ^ 1)
    report = check_gpu(changed(text, "tx, 1)", "tx, 32)"), x, y)
    assert codes(report) == ["E360"]
    none = check_gpu(changed(text, '        T.tvm_storage_sync("warp")\n', ""), x, y)
    assert codes(none) == ["E360"]


def test_write_after_reads_of_two_warps_is_seen_with_warp_barriers() -> None:
    text = """
@T.prim_func
def f(Y: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        S = T.alloc_buffer((1,), "int32", scope="shared")
        if tx == 0:
            S[0] = 5
        T.tvm_storage_sync("shared")
        Y[tx] = S[0]
        T.tvm_storage_sync("warp")
        if tx == 40:
            S[0] = 6
"""
    report = check_gpu(parse(text), np.zeros(64, "int32"))
    assert codes(report) == ["E360"]
    assert report.races[0].threads[0].thread[0] < 32 and report.races[0].threads[1].thread[0] == 40


# ---- warps


def test_reduction_by_shuffles() -> None:
    x = np.random.default_rng(1).integers(-50, 50, (9, 32)).astype("float32")
    y = np.zeros(9, "float32")
    checked(parse(WARP_SUM), x, y)
    np.testing.assert_array_equal(y, x.sum(axis=1))


def test_shuffle_with_missing_lanes() -> None:
    lines = WARP_SUM.replace("            for s", "            if tx < 20:\n              for s").replace(
        "                part[0] = part[0] + T", "                    part[0] = part[0] + T"
    )
    report = check_gpu(parse(lines), np.ones((2, 32), "float32"), np.zeros(2, "float32"))
    assert codes(report) == ["E365"] and len(report.findings[0].threads) == 2


@pytest.mark.parametrize("kind,expected", [
    ("", lambda x: x.reshape(4, 8)[:, [3]].repeat(8, 1).ravel()), ("_xor", lambda x: x[np.arange(32) ^ 3]),
    ("_up", lambda x: np.concatenate([np.r_[p[:3], p[:-3]] for p in x.reshape(4, 8)])),
    ("_down", lambda x: np.concatenate([np.r_[p[3:], p[-3:]] for p in x.reshape(4, 8)])),
])  # fmt: skip
def test_shuffles_in_groups_of_eight(kind: str, expected: Any) -> None:
    text = f"""
@T.prim_func
def f(X: T.Buffer((32,), "int32"), Y: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        Y[tx] = T.tvm_warp_shuffle{kind}(T.tvm_warp_activemask(), X[tx], 3, 8, 32)
"""
    x, y = np.arange(100, 132, dtype="int32"), np.zeros(32, "int32")
    checked(parse(text), x, y)
    np.testing.assert_array_equal(y, expected(x))


def test_wmma() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((32, 48)).astype("float16"), rng.standard_normal((48, 32)).astype("float16")
    c = np.zeros((32, 32), "float32")
    checked(parse(WMMA), a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=1e-5, atol=1e-5)


def test_wmma_faults() -> None:
    arrays = [np.ones((32, 48), "float16"), np.ones((48, 32), "float16"), np.zeros((32, 32), "float32")]
    sync = '                    T.tvm_storage_sync("shared")\n                    T.tvm_load'
    assert "E360" in codes(check_gpu(changed(WMMA, sync, "                    T.tvm_load"), *arrays))
    fill = "                T.tvm_fill_fragment(fc.data, 16, 16, 16, 0, T.float32(0))\n"
    assert "E364" in codes(check_gpu(changed(WMMA, fill, ""), *arrays))
    half = fill.replace("T.tvm", "if tx < 16:\n" + " " * 20 + "T.tvm")
    assert "E365" in codes(check_gpu(changed(WMMA, fill, half), *arrays))
    assert codes(check_gpu(changed(WMMA, "C[by * 16, bx * 16]", "C[by * 16 + 1, bx * 16]"), *arrays))[0] in (
        "E363",
        "E361",
    )
    with pytest.raises(InterpreterError, match="E372"):
        check_gpu(changed(WMMA, "fa.data, 0, fb.data", "fb.data, 0, fa.data"), *arrays)


def test_allreduce() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((6, 24), "float32"), Y: T.Buffer((6,), "float32")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for ty in T.thread_binding(2, thread="threadIdx.y"):
            for tx in T.thread_binding(24, thread="threadIdx.x"):
                total = T.alloc_buffer((1,), "float32", scope="local")
                with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                    T.tvm_thread_allreduce(T.uint32(1), X[bx * 2 + ty, tx], T.bool(True), total[0], tx)
                if tx == 5:
                    Y[bx * 2 + ty] = total[0]
"""
    x = np.random.default_rng(3).integers(-9, 9, (6, 24)).astype("float32")
    y = np.zeros(6, "float32")
    checked(parse(text), x, y)
    np.testing.assert_array_equal(y, x.sum(axis=1))


# ---- control flow, virtual threads, atomics, several kernels


def test_loops_that_threads_leave_at_different_times() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((40,), "int32"), Y: T.Buffer((40,), "int32")):
    for tx in T.thread_binding(40, thread="threadIdx.x"):
        n = T.alloc_buffer((1,), "int32", scope="local")
        steps = T.alloc_buffer((1,), "int32", scope="local")
        n[0] = X[tx]
        steps[0] = 0
        while n[0] != 1:
            if n[0] < 0:
                break
            steps[0] = steps[0] + 1
            n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, n[0] * 3 + 1)
        for i in range(10):
            if i % 2 == tx % 2:
                continue
            if i > 6:
                break
            steps[0] = steps[0] + 100
        if tx == 7:
            T.evaluate(T.thread_return())
        Y[tx] = steps[0]
"""

    def expected(tx: int, n: int) -> int:
        steps = 0
        while n != 1 and n >= 0:
            steps, n = steps + 1, (n // 2 if n % 2 == 0 else n * 3 + 1)
        return -1 if tx == 7 else steps + 100 * len([i for i in range(7) if i % 2 != tx % 2])

    x, y = np.arange(-2, 38, dtype="int32"), np.full(40, -1, "int32")
    x[2] = 1
    checked(parse(text), x, y)
    np.testing.assert_array_equal(y, [expected(t, int(v)) for t, v in enumerate(x)])


def test_returned_threads_are_not_awaited() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        if tx >= 40:
            T.evaluate(T.thread_return())
        T.tvm_storage_sync("shared")
        X[tx] = 1
"""
    x = np.zeros(64, "int32")
    checked(parse(text), x)
    assert x.sum() == 40


def test_virtual_threads_share_the_shared_memory_and_own_their_registers() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((128,), "int32"), Y: T.Buffer((128,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            S = T.alloc_buffer((64,), "int32", scope="shared")
            outer = T.alloc_buffer((4,), "int32", scope="local")
            count = T.alloc_buffer((1,), "int32", scope="local")
            count[0] = 0
            count[0] = count[0] + 1
            for vx in T.thread_binding(4, thread="vthread.x"):
                own = T.alloc_buffer((1,), "int32", scope="local")
                own[0] = X[bx * 64 + vx * 16 + tx]
                S[vx * 16 + tx] = own[0] + count[0]
                outer[vx] = own[0]
                T.tvm_storage_sync("shared")
                Y[bx * 64 + vx * 16 + tx] = S[63 - vx * 16 - tx] + outer[3 - vx] * 1000
"""
    x, y = np.arange(128, dtype="int32"), np.zeros(128, "int32")
    checked(parse(text), x, y)
    local = x.reshape(2, 4, 16)
    expected = local.reshape(2, 64)[:, ::-1].reshape(2, 4, 16) + 1 + local[:, ::-1] * 1000
    np.testing.assert_array_equal(y, expected.ravel())


def test_atomics() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((96,), "int32"), H: T.Buffer((4,), "int32")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.atomic_add(T.address_of(H[X[bx * 32 + tx]]), 1, dtype="int32"))
"""
    x, h = np.random.default_rng(4).integers(0, 4, 96).astype("int32"), np.zeros(4, "int32")
    checked(parse(text), x, h)
    np.testing.assert_array_equal(h, np.bincount(x, minlength=4))
    plain = changed(
        text,
        'T.evaluate(T.atomic_add(T.address_of(H[X[bx * 32 + tx]]), 1, dtype="int32"))',
        "H[X[bx * 32 + tx]] = H[X[bx * 32 + tx]] + 1",
    )
    assert "E361" in codes(check_gpu(plain, x, h))


def test_two_kernels_and_a_graph_function() -> None:
    text = """
@I.ir_module
class M:
    @T.prim_func
    def twice(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
        W = T.alloc_buffer((64,), "float32")
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                W[bx * 32 + tx] = X[bx * 32 + tx] * T.float32(2)
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            Y[tx] = W[63 - tx]

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        with R.dataflow():
            y = R.call_dps(twice, (x,), R.Tensor((64,), "float32"))
            z = R.add(y, x)
            R.output(z)
        return z
"""
    x = np.arange(64, dtype="float32")
    report = checked(parse(text), x)
    np.testing.assert_array_equal(report.value, 2 * x[::-1] + x)
    assert report.launches == 2


def test_blocks_with_reductions_and_views() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8, 16, 4), "float32"), Y: T.Buffer((8, 16), "float32")):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(4):
                with T.block("sum"):
                    T.where(tx < 16)
                    i, j = T.axis.remap("SS", [bx, tx])
                    r = T.axis.reduce(4, k)
                    V = T.match_buffer(A[i, 0:16, 0:4], (16, 4), offset_factor=1)
                    with T.init():
                        Y[i, j] = T.float32(0)
                    Y[i, j] = Y[i, j] + V[j, r]
"""
    a, y = np.random.default_rng(5).integers(0, 9, (8, 16, 4)).astype("float32"), np.zeros((8, 16), "float32")
    checked(parse(text), a, y)
    np.testing.assert_array_equal(y, a.sum(axis=2))


def test_loops_of_different_lengths_that_leave_the_range_of_their_type_are_errors() -> None:
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, "threadIdx.x"):
        for i in range(T.cast(tx + 124, "int8"), T.cast(tx + 124, "int8") + T.cast(tx + 1, "int8")):
            A[tx] = 1
"""
    )
    with pytest.raises(InterpreterError, match=r"E324.*leaves the range"):
        check_gpu(func, np.zeros(4, "int32"))
