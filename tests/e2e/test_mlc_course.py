# ruff: noqa: UP037, RUF059 - written as in the course
"""Schedules of the MLC course, written as its readers write them, in the spellings of that time; judged by numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from accelerator import accelerated

import unity
from unity import meta_schedule as ms, relax
from unity.script import ir_module, relax as R, tir as T
from unity.target import GPU_PIPELINE

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from device_choice import device_or_emulated

rng = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def call(mod: unity.IRModule, name: str, *inputs: np.ndarray, out: np.ndarray) -> np.ndarray:
    rt_lib = unity.build(mod, target="llvm")
    unity.VirtualMachine(rt_lib)[name](*inputs, out)
    return out


# ---- tensor programs


@ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer[(128, 128), "float32"], B: T.Buffer[(128, 128), "float32"], C: T.Buffer[(128, 128), "float32"]
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def transform(mod: unity.IRModule, jfactor: int) -> unity.IRModule:
    sch = unity.Schedule(mod)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, jfactor])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    sch.decompose_reduction(block_Y, k)
    return sch.mod


@pytest.mark.parametrize("jfactor", [4, 8, 48])
def test_mm_relu(jfactor: int) -> None:
    a, b = random(128, 128), random(128, 128)
    c = call(transform(MyModule, jfactor), "mm_relu", a, b, out=np.empty((128, 128), "float32"))
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_time_evaluator_and_get_sblock() -> None:
    sch = unity.Schedule(MyModule)
    sch.work_on("mm_relu")
    i, j, k = sch.get_loops(sch.get_sblock("Y"))
    sch.parallel(i)
    vm = unity.VirtualMachine(unity.build(sch.mod, target="llvm"))
    a, b, c = random(128, 128), random(128, 128), unity.tensor(np.empty((128, 128), "float32"))
    timer = vm.time_evaluator("mm_relu", number=2)
    assert timer(unity.tensor(a), unity.tensor(b), c).mean > 0
    np.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


N, CI, H, W, CO, K = 1, 1, 8, 8, 2, 3
OUT_H, OUT_W = H - K + 1, W - K + 1


@ir_module
class MyConv:
    @T.prim_func
    def conv(
        data: T.Buffer[(N, CI, H, W), "int64"],
        weight: T.Buffer[(CO, CI, K, K), "int64"],
        result: T.Buffer[(N, CO, OUT_H, OUT_W), "int64"],
    ):
        T.func_attr({"global_symbol": "conv", "tir.noalias": True})
        for b, co, i, j, ci, di, dj in T.grid(N, CO, OUT_H, OUT_W, CI, K, K):
            with T.block("C"):
                vb, vco, vi, vj, vci, vdi, vdj = T.axis.remap("SSSSRRR", [b, co, i, j, ci, di, dj])
                with T.init():
                    result[vb, vco, vi, vj] = T.int64(0)
                result[vb, vco, vi, vj] += data[vb, vci, vi + vdi, vj + vdj] * weight[vco, vci, vdi, vdj]


def windows(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution of a picture, by numpy."""
    size = weight.shape[-1]
    views = np.lib.stride_tricks.sliding_window_view(data, (size, size), axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", views, weight)


def test_conv2d() -> None:
    sch = unity.Schedule(MyConv)
    block = sch.get_block("C", func_name="conv")
    b, co, i, j, ci, di, dj = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 3])
    sch.reorder(b, co, i, j0, ci, di, dj, j1)
    init = sch.decompose_reduction(block, ci)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.unroll(dj)
    sch.parallel(sch.fuse(b, co))
    data, weight = np.arange(N * CI * H * W).reshape(N, CI, H, W), np.arange(CO * CI * K * K).reshape(CO, CI, K, K)
    result = call(sch.mod, "conv", data, weight, out=np.empty((N, CO, OUT_H, OUT_W), "int64"))
    np.testing.assert_array_equal(result, windows(data, weight))


@ir_module
class MyBmmRelu:
    @T.prim_func
    def bmm_relu(
        A: T.Buffer[(4, 64, 64), "float32"], B: T.Buffer[(4, 64, 64), "float32"], C: T.Buffer[(4, 64, 64), "float32"]
    ):
        T.func_attr({"global_symbol": "bmm_relu", "tir.noalias": True})
        Y = T.alloc_buffer([4, 64, 64], dtype="float32")
        for n, i, j, k in T.grid(4, 64, 64, 64):
            with T.block("Y"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    Y[vn, vi, vj] = T.float32(0)
                Y[vn, vi, vj] = Y[vn, vi, vj] + A[vn, vi, vk] * B[vn, vk, vj]
        for n, i, j in T.grid(4, 64, 64):
            with T.block("C"):
                vn, vi, vj = T.axis.remap("SSS", [n, i, j])
                C[vn, vi, vj] = T.max(Y[vn, vi, vj], T.float32(0))


def test_batched_product_of_the_exercise() -> None:
    sch = unity.Schedule(MyBmmRelu)
    Y = sch.get_block("Y", func_name="bmm_relu")
    C = sch.get_block("C", func_name="bmm_relu")
    b, i, j, k = sch.get_loops(Y)
    sch.parallel(b)
    j0, j1 = sch.split(j, factors=[None, 8])
    k0, k1 = sch.split(k, factors=[None, 4])
    sch.reorder(b, i, j0, k0, k1, j1)
    sch.reverse_compute_at(C, j0)
    sch.vectorize(sch.get_loops(C)[-1])
    Y_init = sch.decompose_reduction(Y, k0)
    sch.vectorize(sch.get_loops(Y_init)[-1])
    sch.unroll(k1)
    assert sch.mod.script().count("T.vectorized(8)") == 2 and "T.parallel(4)" in sch.mod.script()
    a, b_np = random(4, 64, 64), random(4, 64, 64)
    c = call(sch.mod, "bmm_relu", a, b_np, out=np.empty((4, 64, 64), "float32"))
    np.testing.assert_allclose(c, np.maximum(a @ b_np, 0), rtol=1e-4, atol=1e-4)


# ---- automatic search


@ir_module
class MyModuleMM:
    @T.prim_func
    def main(A: T.Buffer[(64, 64), "float32"], B: T.Buffer[(64, 64), "float32"], C: T.Buffer[(64, 64), "float32"]):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(64, 64, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def stochastic_schedule_mm(sch: unity.Schedule) -> unity.Schedule:
    block_C = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_C)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_C, k)
    return sch


def test_stochastic_schedule_replays() -> None:
    a, b = random(64, 64), random(64, 64)
    for seed in range(3):
        sch = stochastic_schedule_mm(unity.Schedule(MyModuleMM, seed=seed))
        c = call(sch.mod, "main", a, b, out=np.empty((64, 64), "float32"))
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
        again = unity.Schedule(MyModuleMM)
        sch.trace.apply_to_schedule(again)
        assert again.mod.script() == sch.mod.script()


# ---- GPUs, on the thread-level checker and on a device


def call_on_gpu(sch: unity.Schedule, *inputs: np.ndarray, out: np.ndarray) -> np.ndarray:
    """As the chapter builds, runs and times a program; nothing may be found wrong in the machine code."""
    rt_mod = unity.build(sch.mod, target="cuda")
    with device_or_emulated(races=True):
        dev = unity.cuda(0)
        given = [unity.nd.array(array, dev) for array in (*inputs, out)]
        rt_mod["main"](*given)
        assert rt_mod.time_evaluator("main", dev, number=1)(*given).mean > 0
        return given[-1].numpy()


@ir_module
class MyModuleVecAdd:
    @T.prim_func
    def main(A: T.Buffer[(1024,), "float32"], B: T.Buffer[(1024,), "float32"], C: T.Buffer[(1024,), "float32"]) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in T.grid(1024):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = A[vi] + B[vi]


@pytest.mark.gpu
def test_elementwise_on_a_gpu() -> None:
    sch = unity.tir.Schedule(MyModuleVecAdd)
    block_C = sch.get_block("C")
    (i,) = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, 128])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    a, b = random(1024), random(1024)
    np.testing.assert_array_equal(call_on_gpu(sch, a, b, out=np.zeros_like(a)), a + b)


@ir_module
class MyModuleWindowSum:
    @T.prim_func
    def main(A: T.Buffer[(1027,), "float32"], B: T.Buffer[(1024,), "float32"]) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in T.grid(1024):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] + A[vi + 1] + A[vi + 2]


@pytest.mark.gpu
def test_window_sum_shares_its_border() -> None:
    """Neighbouring blocks of threads fetch two cells both; each has its own shared memory."""
    sch = unity.Schedule(MyModuleWindowSum)
    nthread = 128
    block_C = sch.get_block("C")
    (i,) = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, nthread])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    A_shared = sch.cache_read(block_C, read_buffer_index=0, storage_scope="shared")
    sch.compute_at(A_shared, i1)
    ax = sch.get_loops(A_shared)[-1]
    ax0, ax1 = sch.split(ax, [None, nthread])
    sch.bind(ax1, "threadIdx.x")
    assert "T.where(ax0_0 * 128 + ax0_1 < 130)" in sch.mod.script()
    a, b = random(1027), np.zeros(1024, "float32")
    unity.check_gpu(sch.mod, a, b, pipeline=GPU_PIPELINE).raise_if_failed()
    expected = a[:1024] + a[1:1025] + a[2:1026]
    np.testing.assert_allclose(b, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(call_on_gpu(sch, a, out=np.zeros_like(b)), expected, rtol=1e-5, atol=1e-6)


def test_a_border_in_global_memory_is_refused() -> None:
    """The same cache in memory that all blocks share is written by two of them."""
    sch = unity.Schedule(MyModuleWindowSum)
    block_C = sch.get_block("C")
    i0, i1 = sch.split(sch.get_loops(block_C)[0], [None, 128])
    cached = sch.cache_read(block_C, 0, "global")
    sch.compute_at(cached, i0)
    before = sch.mod.script()
    with pytest.raises(unity.UnityError, match="E413"):
        sch.bind(i0, "blockIdx.x")
    assert sch.mod.script() == before


def blocking(
    sch: unity.Schedule, tile_local_y: int, tile_local_x: int, tile_block_y: int, tile_block_x: int, tile_k: int
) -> unity.Schedule:
    block_C = sch.get_block("C")
    C_local = sch.cache_write(block_C, 0, "local")
    i, j, k = sch.get_loops(block=block_C)
    i0, i1, i2 = sch.split(loop=i, factors=[None, tile_block_y, tile_local_y])
    j0, j1, j2 = sch.split(loop=j, factors=[None, tile_block_x, tile_local_x])
    k0, k1 = sch.split(loop=k, factors=[None, tile_k])
    sch.unroll(k1)
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(C_local, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    sch.decompose_reduction(block_C, k0)
    return sch


def cache_read_and_coop_fetch(
    sch: unity.Schedule, block: object, nthread: int, read_idx: int, read_loc: object
) -> None:
    read_cache = sch.cache_read(block=block, read_buffer_index=read_idx, storage_scope="shared")
    sch.compute_at(block=read_cache, loop=read_loc)
    inner0, inner1 = sch.get_loops(block=read_cache)[-2:]
    inner = sch.fuse(inner0, inner1)
    _, tx, vec = sch.split(loop=inner, factors=[None, nthread, 4])
    sch.vectorize(vec)
    sch.bind(tx, "threadIdx.x")


def blocking_with_shared(
    sch: unity.Schedule, tile_local_y: int, tile_local_x: int, tile_block_y: int, tile_block_x: int, tile_k: int
) -> unity.Schedule:
    block_C = sch.get_block("C")
    C_local = sch.cache_write(block_C, 0, "local")
    i, j, k = sch.get_loops(block=block_C)
    i0, i1, i2 = sch.split(loop=i, factors=[None, tile_block_y, tile_local_y])
    j0, j1, j2 = sch.split(loop=j, factors=[None, tile_block_x, tile_local_x])
    k0, k1 = sch.split(loop=k, factors=[None, tile_k])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(C_local, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    tx = sch.fuse(i1, j1)
    sch.bind(tx, "threadIdx.x")
    nthread = tile_block_y * tile_block_x
    cache_read_and_coop_fetch(sch, block_C, nthread, 0, k0)
    cache_read_and_coop_fetch(sch, block_C, nthread, 1, k0)
    sch.decompose_reduction(block_C, k0)
    return sch


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", [blocking, blocking_with_shared], ids=lambda f: f.__name__)
def test_blocking_on_a_gpu(schedule: Callable[..., unity.Schedule]) -> None:
    sch = schedule(unity.Schedule(MyModuleMM), 4, 4, 8, 8, 16)
    a, b, c = random(64, 64), random(64, 64), np.zeros((64, 64), "float32")
    report = unity.check_gpu(sch.mod, a, b, c, pipeline=GPU_PIPELINE).raise_if_failed()
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert report.barriers == (8 if schedule is blocking_with_shared else 0)
    np.testing.assert_allclose(call_on_gpu(sch, a, b, out=np.zeros_like(c)), a @ b, rtol=1e-4, atol=1e-4)


# ---- an accelerator with 16x16 matrix units


@ir_module
class MatmulModule:
    @T.prim_func
    def main(A: T.Buffer[(64, 64), "float32"], B: T.Buffer[(64, 64), "float32"], C: T.Buffer[(64, 64), "float32"]):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(64, 64, 64):
            with T.block("matmul"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vj, vk]


def test_accelerator() -> None:
    a, b = random(64, 64), random(64, 64)
    c = call(accelerated(unity.Schedule(MatmulModule), "matmul"), "main", a, b, out=np.empty((64, 64), "float32"))
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)


@ir_module
class MatmulBlockModule:
    @T.prim_func
    def main(A: T.Buffer[(64, 64), "float32"], B: T.Buffer[(64, 64), "float32"], C: T.Buffer[(64, 64), "float32"]):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i0, j0, k0 in T.grid(4, 4, 4):
            with T.block("tmm-16x16"):
                vi0, vj0, vk0 = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    for i1, j1 in T.grid(16, 16):
                        with T.block("tmm_init"):
                            vi1, vj1 = T.axis.remap("SS", [i1, j1])
                            C[vi0 * 16 + vi1, vj0 * 16 + vj1] = T.float32(0)
                for i1, j1, k1 in T.grid(16, 16, 16):
                    with T.block("tmm"):
                        vi1, vj1, vk1 = T.axis.remap("SSR", [i1, j1, k1])
                        C[vi0 * 16 + vi1, vj0 * 16 + vj1] += (
                            A[vi0 * 16 + vi1, vk0 * 16 + vk1] * B[vj0 * 16 + vj1, vk0 * 16 + vk1]
                        )


def test_block_over_a_tile() -> None:
    sch = unity.Schedule(MatmulBlockModule)
    block_mm = sch.get_block("tmm-16x16")
    i, j, k = sch.get_loops(block_mm)
    i0, i1 = sch.split(i, [None, 2])
    sch.reorder(i0, j, i1, k)
    a, b = random(64, 64), random(64, 64)
    c = call(sch.mod, "main", a, b, out=np.empty((64, 64), "float32"))
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)


# ---- automatic program optimization


@pytest.mark.parametrize("space", [None, stochastic_schedule_mm], ids=["by default", "stochastic schedule"])
def test_automatic_program_optimization(space: Callable[..., unity.Schedule] | None, tmp_path: Path) -> None:
    given = {} if space is None else {"space": ms.space_generator.ScheduleFn(space)}
    database = ms.tune_tir(
        mod=MyModuleMM,
        target="llvm --num-cores=1",
        max_trials_global=4,
        num_trials_per_iter=64,
        **given,
        work_dir=tmp_path / "tune_tmp",
        task_name="main",
    )
    sch = ms.tir_integration.compile_tir(database, MyModuleMM, "llvm --num-cores=1")
    sch.trace.show()
    a, b = random(64, 64), random(64, 64)
    np.testing.assert_allclose(call(sch.mod, "main", a, b, out=np.empty_like(a)), a @ b, rtol=1e-3, atol=1e-3)
    a_nd, b_nd, c_nd = [unity.nd.array(array) for array in (a, b, np.empty_like(a))]
    lib = unity.build(sch.mod, target="llvm")
    f_timer_after = lib.time_evaluator("main", unity.cpu())
    assert f_timer_after(a_nd, b_nd, c_nd).mean > 0


@ir_module
class MyModuleMixture:
    @T.prim_func
    def linear0(
        X: T.Buffer((1, 784), "float32"),
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir(linear0, (x, w0, b0), R.Tensor((1, 128), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 10), dtype="float32"))
            R.output(out)
        return out


@pytest.fixture
def kernels_of_the_mixture() -> Iterator[None]:
    """The registered functions that MyModuleMixture calls."""
    unity.register_func("env.relu", lambda x, out: out.copyfrom(np.maximum(x.numpy(), 0)), override=True)
    unity.register_func(
        "env.linear", lambda x, w, b, out: out.copyfrom(x.numpy() @ w.numpy().T + b.numpy()), override=True
    )
    yield
    for name in ("env.relu", "env.linear"):
        unity.ffi.remove_global_func(name)


@pytest.mark.usefixtures("kernels_of_the_mixture")
def test_tuned_functions_go_into_the_model(tmp_path: Path) -> None:
    """The end of the chapter: a function of a module is replaced in place."""
    x = random(1, 784)
    params = {"w0": random(128, 784), "b0": random(128), "w1": random(10, 128), "b1": random(10)}
    nd_params = {k: unity.nd.array(v) for k, v in params.items()}
    mod_linear = unity.IRModule.from_expr(MyModuleMixture["linear0"].with_attr("global_symbol", "main"))
    database = ms.tune_tir(
        mod=mod_linear, target="llvm --num-cores=1", max_trials_global=3, num_trials_per_iter=64, work_dir=tmp_path,
        task_name="main",
    )  # fmt: skip
    sch = ms.tir_integration.compile_tir(database, mod_linear, "llvm --num-cores=1")
    MyModuleWithParams2 = relax.transform.BindParams("main", nd_params)(MyModuleMixture)
    new_func = sch.mod["main"].with_attr("global_symbol", "linear0")
    gv = MyModuleWithParams2.get_global_var("linear0")
    MyModuleWithParams2.update_func(gv, new_func)
    ex = relax.build(MyModuleWithParams2, target="llvm")
    vm = relax.VirtualMachine(ex, unity.cpu())
    nd_res = vm["main"](unity.nd.array(x))
    hidden = np.maximum(x @ params["w0"].T + params["b0"], 0)
    np.testing.assert_allclose(nd_res.numpy(), hidden @ params["w1"].T + params["b1"], rtol=1e-3, atol=1e-3)
