"""Scheduled products through the whole lowering: tiles in shared memory, pipelines, virtual threads, vectors, sizes of any kind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from stages import copied, through

import unity
from unity.ir.expr import Call
from unity.ir.walk import collect
from unity.script import parse
from unity.target import GPU_PIPELINE, check_gpu

PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({n}, {k}), "{dtype}"), B: T.Buffer(({k}, {m}), "{dtype}"), C: T.Buffer(({n}, {m}), "float32")):
        for i, j, k in T.grid({n}, {m}, {k}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
"""
GUARDED = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k), "{dtype}")
        B = T.match_buffer(b, (k, m), "{dtype}")
        C = T.match_buffer(c, (n, m), "float32")
        by = T.env_thread("blockIdx.y")
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread(by, (n + {rows} - 1) // {rows}), T.launch_thread(bx, (m + {columns} - 1) // {columns}):
            with T.launch_thread(tx, {threads}):
                SA = T.alloc_buffer(({rows}, {depth}), "{dtype}", scope="{scope}")
                SB = T.alloc_buffer(({depth}, {columns}), "{dtype}", scope="{scope}")
                acc = T.alloc_buffer(({each},), "float32", scope="local")
                for e in range({each}):
                    acc[e] = T.float32(0)
                for ko in T.serial((k + {depth} - 1) // {depth}, annotations={notes}):
                    for s in range(({rows} * {depth} + {threads} - 1) // {threads}):
                        if s * {threads} + tx < {rows} * {depth}:
                            SA[(s * {threads} + tx) // {depth}, (s * {threads} + tx) % {depth}] = T.if_then_else(
                                by * {rows} + (s * {threads} + tx) // {depth} < n and ko * {depth} + (s * {threads} + tx) % {depth} < k,
                                A[by * {rows} + (s * {threads} + tx) // {depth}, ko * {depth} + (s * {threads} + tx) % {depth}], T.{dtype}(0))
                    for s in range(({columns} * {depth} + {threads} - 1) // {threads}):
                        if s * {threads} + tx < {columns} * {depth}:
                            SB[(s * {threads} + tx) // {columns}, (s * {threads} + tx) % {columns}] = T.if_then_else(
                                ko * {depth} + (s * {threads} + tx) // {columns} < k and bx * {columns} + (s * {threads} + tx) % {columns} < m,
                                B[ko * {depth} + (s * {threads} + tx) // {columns}, bx * {columns} + (s * {threads} + tx) % {columns}], T.{dtype}(0))
                    for ki, e in T.grid({depth}, {each}):
                        if e * {threads} + tx < {rows} * {columns}:
                            acc[e] = acc[e] + T.Cast("float32", SA[(e * {threads} + tx) // {columns}, ki]) * T.Cast("float32", SB[ki, (e * {threads} + tx) % {columns}])
                for e in range({each}):
                    if e * {threads} + tx < {rows} * {columns} and by * {rows} + (e * {threads} + tx) // {columns} < n and bx * {columns} + (e * {threads} + tx) % {columns} < m:
                        C[by * {rows} + (e * {threads} + tx) // {columns}, bx * {columns} + (e * {threads} + tx) % {columns}] = acc[e]
"""


def product(n: int, m: int, k: int, dtype: str = "float32") -> Any:
    return parse(PRODUCT.format(n=n, m=m, k=k, dtype=dtype))


def notes(stages: int, beside: bool, first: bool) -> dict[str, list[int]]:
    if stages == 1:
        return {}
    order = [0, 1, 2] if first else [1, 2, 0]
    made = {"software_pipeline_stage": [0, 0, stages - 1], "software_pipeline_order": order}
    return {**made, "software_pipeline_async_stages": [0]} if beside else made


def guarded(
    rows: int, columns: int, depth: int, threads: int, dtype: str, scope: str, given: dict[str, list[int]]
) -> Any:
    """A product of any sizes by tiles of any size."""
    each = -(-rows * columns // threads)
    fields = {"rows": rows, "columns": columns, "depth": depth, "threads": threads, "each": each}
    return parse(GUARDED.format(**fields, dtype=dtype, scope=scope, notes=given))


def scheduled(mod: Any, *, threads: int = 4, inner: int = 2, virtual: int = 1, depth: int = 8, vector: int = 1,
              scope: str = "shared", stages: int = 1, beside: bool = False, first: bool = True) -> unity.IRModule:  # fmt: skip
    sch = unity.Schedule(mod)
    block = sch.get_block("C", func_name="main")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, vy, i1, i2 = sch.split(i, [None, virtual, threads, inner])
    j0, vx, j1, j2 = sch.split(j, [None, virtual, threads, inner])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, vy, vx, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(local, j1)
    axes = ("blockIdx.y", "blockIdx.x", "vthread.y", "vthread.x", "threadIdx.y", "threadIdx.x")
    for loop, axis in zip((i0, j0, vy, vx, i1, j1), axes):
        if virtual > 1 or not axis.startswith("vthread"):
            sch.bind(loop, axis)
    for index in (0, 1):
        shared = sch.cache_read(block, index, scope)
        sch.compute_at(shared, k0)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        parts = sch.split(fused, [None, threads, threads, vector])
        sch.bind(parts[1], "threadIdx.y")
        sch.bind(parts[2], "threadIdx.x")
        if vector > 1:
            sch.vectorize(parts[3])
    sch.decompose_reduction(block, k0)
    for key, value in notes(stages, beside, first).items():
        sch.annotate(k0, key, value)
    return sch.mod


def arrays(n: int, m: int, k: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n * 100 + m * 10 + k)
    a, b = [rng.integers(-4, 5, shape).astype(dtype) for shape in ((n, k), (k, m))]
    return a, b, np.full((n, m), np.nan, "float32"), a.astype("float32") @ b.astype("float32")


@pytest.mark.parametrize("choice", [
    {}, {"virtual": 2}, {"stages": 2}, {"stages": 3, "beside": True}, {"stages": 4, "beside": True, "scope": "shared.dyn", "vector": 4},
    {"stages": 2, "first": False, "virtual": 2, "vector": 2}, {"scope": "shared.dyn", "vector": 2},
])  # fmt: skip
def test_every_stage_of_a_tiled_product(choice: dict[str, Any]) -> None:
    a, b, c, expected = arrays(16, 16, 32)
    mod = scheduled(product(16, 16, 32), **choice)
    lowered = through(mod, [a, b], c, expected)
    names = {call.op_name for call in collect(lowered, Call)}
    assert ("T.ptx_cp_async" in names) is bool(choice.get("beside"))


def check(mod: Any, n: int, m: int, k: int, dtype: str) -> None:
    a, b, c, expected = arrays(n, m, k, dtype)
    lowered = copied(GPU_PIPELINE(mod))
    report = check_gpu(lowered, a, b, c, name="main", traffic=False)
    assert report.ok, f"{mod.script()}\n{lowered.script()}\n{report}"
    np.testing.assert_array_equal(c, expected, err_msg=lowered.script())


@pytest.mark.parametrize("stages,beside", [(1, False), (3, True)])
def test_every_stage_of_symbolic_sizes(stages: int, beside: bool) -> None:
    a, b, c, expected = arrays(17, 5, 33)
    through(guarded(8, 8, 8, 32, "float32", "shared", notes(stages, beside, True)), [a, b], c, expected)


@pytest.mark.parametrize("seed", range(7))
def test_random_tiles_of_symbolic_sizes(seed: int) -> None:
    rng = random.Random(seed)
    n, m, k = [rng.randint(1, 40) for _ in range(3)]
    rows, columns, depth, threads = (
        rng.randint(1, 16),
        rng.randint(1, 16),
        rng.randint(1, 12),
        rng.choice([1, 7, 32, 50, 64]),
    )
    dtype, scope = rng.choice(["float32", "float16", "int8"]), rng.choice(["shared", "shared.dyn"])
    given = notes(rng.choice([1, 2, 3, 4]), rng.random() < 0.5, rng.random() < 0.5)
    check(guarded(rows, columns, depth, threads, dtype, scope, given), n, m, k, dtype)


@pytest.mark.parametrize("seed", range(7))
def test_random_tiles_of_schedules(seed: int) -> None:
    rng = random.Random(seed)
    dtype = rng.choice(["float32", "float16", "int8"])
    threads, inner, virtual, depth = (
        rng.choice([2, 4, 8]),
        rng.choice([1, 2]),
        rng.choice([1, 1, 2]),
        rng.choice([4, 8, 16]),
    )
    tile = threads * inner * virtual
    n, m, k = tile * rng.randint(1, 3), tile * rng.randint(1, 2), depth * rng.randint(1, 4)
    vector = rng.choice([v for v in (1, 2, 4) if tile * depth % (threads * threads * v) == 0] or [1])
    choice: dict[str, Any] = {
        "threads": threads, "inner": inner, "virtual": virtual, "depth": depth, "vector": vector,
        "scope": rng.choice(["shared", "shared.dyn"]), "stages": rng.choice([1, 2, 3, 4]), "beside": rng.random() < 0.5,
        "first": rng.random() < 0.5,
    }  # fmt: skip
    check(scheduled(product(n, m, k, dtype), **choice), n, m, k, dtype)
