"""A GPU schedule tested without a GPU: cooperative fetching into shared memory, as the courses write it, through the checker."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target import GPU_PIPELINE

PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((96, 64), "float32"), B: T.Buffer((64, 80), "float32"), C: T.Buffer((96, 80), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(96, 80, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def scheduled(threads: int, inner: int, depth: int) -> unity.IRModule:
    sch = unity.Schedule(parse(PRODUCT))
    block = sch.get_block("C", func_name="main")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, threads, inner])
    j0, j1, j2 = sch.split(j, [None, threads, inner])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(local, j1)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x")):
        sch.bind(loop, axis)
    for index in (0, 1):
        shared = sch.cache_read(block, index, "shared")
        sch.compute_at(shared, k0)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, ty, tx = sch.split(fused, [None, threads, threads])
        sch.bind(ty, "threadIdx.y")
        sch.bind(tx, "threadIdx.x")
    sch.decompose_reduction(block, k0)
    return sch.mod


@pytest.mark.parametrize("threads,inner,depth", [(8, 2, 8), (4, 4, 16)])
def test_cooperative_fetching(threads: int, inner: int, depth: int) -> None:
    mod = scheduled(threads, inner, depth)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((96, 64)).astype("float32"), rng.standard_normal((64, 80)).astype("float32")
    c = np.zeros((96, 80), "float32")
    report = unity.check_gpu(mod, a, b, c, pipeline=GPU_PIPELINE)
    assert report.ok, str(report)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    bare = unity.check_gpu(mod, a, b, c)
    assert {f.code for f in bare.findings} == {"E360"}, "the barriers come from the pipeline"
