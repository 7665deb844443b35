"""Programs with every kind of lowered construct as machine code, on the device of this machine or the emulated one: the
numbers, and nothing found wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import test_passes_allreduce as allreduce
import test_passes_products as products
import test_passes_shared as shared
from device_choice import device_or_emulated

import unity
from unity.script import parse, tir as T

pytestmark = pytest.mark.gpu


def on_device(mod: Any, inputs: Sequence[np.ndarray], expected: np.ndarray, tolerance: float = 0) -> None:
    with device_or_emulated(races=True):
        device = unity.cuda(0)
        machine = unity.VirtualMachine(unity.compile(mod, target="cuda"), device)
        given = [unity.tensor(array, device=device) for array in (*inputs, np.zeros_like(expected))]
        machine["main"](*given)
        np.testing.assert_allclose(given[-1].numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("choice", [
    {}, {"virtual": 2, "stages": 2, "vector": 2}, {"stages": 4, "beside": True, "scope": "shared.dyn", "vector": 4},
])  # fmt: skip
def test_scheduled_products(choice: dict[str, Any]) -> None:
    a, b, _, expected = products.arrays(16, 16, 32)
    on_device(products.scheduled(products.product(16, 16, 32), **choice), [a, b], expected)


@pytest.mark.parametrize("stages,beside,n,m,k", [(1, False, 17, 5, 33), (3, True, 9, 20, 30), (4, True, 3, 3, 3)])
def test_products_of_symbolic_sizes(stages: int, beside: bool, n: int, m: int, k: int) -> None:
    a, b, _, expected = products.arrays(n, m, k)
    given = products.notes(stages, beside, True)
    on_device(products.guarded(8, 8, 8, 32, "float32", "shared.dyn", given), [a, b], expected)


def test_places_of_shared_memory() -> None:
    x = np.random.default_rng(1).integers(-9, 9, 100).astype("float32")
    expected = np.repeat(shared.padded(x)[:, ::-2], 2, axis=1)[:, ::-1].ravel()[:100]
    on_device(parse(shared.THREE), [x], np.ascontiguousarray(expected))


@pytest.mark.parametrize("sizes,axes,symbolic", [
    ((1, 1, 32), "x", False), ((2, 2, 96), "x", False), ((1, 1, 100), "x", True), ((4, 3, 2), "zx", False), ((1, 5, 4), "y", True),
])  # fmt: skip
def test_reductions_across_threads(sizes: tuple[int, int, int], axes: str, symbolic: bool) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype("float32")
    total = x.sum(tuple(allreduce.AXES[a] for a in axes), keepdims=True)
    mod = allreduce.program(allreduce.SUM, sizes, symbolic, axes=", ".join(f"t{a}" for a in axes))
    on_device(mod, [x], np.ascontiguousarray(np.broadcast_to(total, (2, *sizes))), 1e-5)


def test_the_place_of_the_largest() -> None:
    x = np.random.default_rng(0).integers(0, 9, (1, 2, 64)).astype("float32")
    places = np.arange(x.size).reshape(x.shape)
    best = np.take_along_axis(places, x.argmax(axis=2, keepdims=True), 2).astype("float32")
    mod = allreduce.program(allreduce.BEST, (1, 2, 64), False, axes="tx")
    on_device(mod, [x], np.ascontiguousarray(np.broadcast_to(best, (2, *x.shape))))


@T.prim_func
def SHARES(a: T.handle, b: T.handle):  # type: ignore[no-untyped-def]
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m, 8), "float32")
    total = T.alloc_buffer((n,), "float32")
    for i, j in T.grid(n, m):
        with T.block("total"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + A[vi, vj]
    for i, j, k in T.grid(n, m, 8):
        with T.block("shares"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj] / total[vi]


def test_a_sum_computed_again_at_every_element() -> None:
    """The sum of a row moves to a loop over rows and columns: it uses a part of that loop alone, whose length is not known."""
    sch = unity.Schedule(unity.IRModule({"main": SHARES.with_attr("global_symbol", "main")}))
    i, j, k = sch.get_loops("shares")
    blocks = sch.fuse(i, j)
    sch.bind(blocks, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    sch.set_scope("total", 0, "shared")
    sch.compute_at("total", blocks)
    outer, lanes = sch.split(sch.get_loops("total")[-1], [None, 8])
    sch.reorder(lanes, outer)
    sch.bind(lanes, "threadIdx.x")
    x = np.random.default_rng(0).uniform(1, 2, (3, 21)).astype("float32")
    on_device(sch.mod, [x], np.repeat((x / x.sum(1, keepdims=True))[..., None], 8, axis=2), 1e-5)
