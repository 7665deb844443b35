"""Products and convolutions on tensor cores: sizes that fill no tile, any layout of the operands, what follows fused, symbols away
from any size that was seen; and the traffic of whole tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from stages import lowered

import unity
from unity.ffi.dtype import DataType
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.target.cuda.machine import machine_of
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.gpu.products import tile_costs
from unity.transform.default_schedule.gpu.products.tile_costs import Choice
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.infra.backend import GpuMachine, Machine

PRODUCT = """
@T.prim_func
def main(a: T.handle, b: T.handle, e: T.handle, r: T.handle, c: T.handle):
    T.func_attr({{"tir.noalias": True}})
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (2, {left}), "{dtype}"); B = T.match_buffer(b, (2, {right}), "{dtype}")
    E = T.match_buffer(e, ({m},), "{out}"); R = T.match_buffer(r, (2, {n}, {m}), "{out}")
    C = T.match_buffer(c, (2, {n}, {m}), "{out}")
    S = T.alloc_buffer((2, {n}, {m}), "{wide}")
    for h, i, j, q in T.grid(2, {n}, {m}, {k}):
        with T.block("S"):
            vh, vi, vj, vq = T.axis.remap("SSSR", [h, i, j, q])
            with T.init():
                S[vh, vi, vj] = T.{wide}(0)
            S[vh, vi, vj] = S[vh, vi, vj] + T.Cast("{wide}", A[vh, {at_left}]) * T.Cast("{wide}", B[vh, {at_right}])
    for h, i, j in T.grid(2, {n}, {m}):
        with T.block("C"):
            vh, vi, vj = T.axis.remap("SSS", [h, i, j])
            C[vh, vi, vj] = T.max(T.Cast("{out}", S[vh, vi, vj]) + E[vj], T.{out}(0)) + R[vh, vi, vj]
"""


def product(n: Any, m: Any, k: Any, turned: str, dtype: str, out: str) -> Any:
    """A batched product with a bias, an activation and a residual; ``turned`` has "a" and "b" for operands that lie across."""
    wide = "int32" if dtype == "int8" else "float32"
    left, at_left = (f"{k}, {n}", "vq, vi") if "a" in turned else (f"{n}, {k}", "vi, vq")
    right, at_right = (f"{m}, {k}", "vj, vq") if "b" in turned else (f"{k}, {m}", "vq, vj")
    fields = {"n": n, "m": m, "k": k, "left": left, "right": right, "at_left": at_left, "at_right": at_right}
    return parse(PRODUCT.format(**fields, dtype=dtype, wide=wide, out=out))


def scheduled(fn: Any, machine: Machine | None = None) -> tuple[Any, str]:
    found = schedule_function("main", fn, set(), machine or Machine(), GPU_RULES)
    assert found is not None
    return found.func, found.reason


def only(monkeypatch: pytest.MonkeyPatch, choice: Choice) -> None:
    """One tile of warpgroups alone: for the sizes of tests others would take less time."""
    monkeypatch.setattr(tile_costs, "CHOICES", ())
    monkeypatch.setattr(tile_costs, "GROUP_CHOICES", (choice,))


def reported(func: Any, *arrays: np.ndarray) -> Any:
    """What the thread checker says about a scheduled program, in which nothing is wrong."""
    report = unity.check_gpu(func, *arrays, pipeline=GPU_PIPELINE)
    report.raise_if_failed()
    return report


def checked(fn: Any, *arrays: np.ndarray) -> Any:
    """What the thread checker says about a program on a device whose memory holds tiles of 64 x 64."""
    func, reason = scheduled(fn, Machine(gpu=GpuMachine(processors=1, shared_bytes=40 << 10, tf32=True)))
    assert "on tensor cores" in reason
    report = reported(func, *arrays)
    assert report.launches == 1
    return report


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small whole numbers: their products and sums are exact."""
    seed = sum(shape)
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(DataType(dtype).numpy)


CASES = [
    (17, 66, 34, "", "float16", "float16", ""), (20, 24, 72, "b", "bfloat16", "float32", "n"), (65, 9, 24, "a", "float16", "float32", "nmk"),
    (18, 40, 40, "b", "float32", "float32", ""), (18, 40, 96, "b", "int8", "int32", ""), (16, 17, 32, "a", "int8", "int32", "nm"),
    (18, 24, 40, "", "bfloat16", "float16", "nmk"), (16, 24, 40, "ab", "float16", "float32", "nmk"), (9, 40, 48, "b", "int8", "int32", "nmk"),
]  # fmt: skip
"""Sizes, operands that lie across, data types, sizes that are symbols."""


def run(n: int, m: int, k: int, turned: str, dtype: str, out: str, symbols: str) -> Any:
    """A product that is right, and the report about it."""
    fn = product(*[name if name in symbols else size for name, size in zip("nmk", (n, m, k))], turned, dtype, out)
    return compared(partial(checked, fn), n, m, k, turned, dtype, out)


def compared(check: Callable[..., Any], n: int, m: int, k: int, turned: str, dtype: str, out: str) -> Any:
    """What ``check`` gives, which runs a product on arrays: it must compute the right numbers."""
    a, b, e, r = [numbers(s, t) for s, t in (((2, n, k), dtype), ((2, k, m), dtype), ((m,), out), ((2, n, m), out))]
    c = np.full((2, n, m), 77, r.dtype)
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if side in turned else x for x, side in ((a, "a"), (b, "b"))]
    report = check(*given, e, r, c)
    wide = a.astype("float32") @ b.astype("float32") + e.astype("float32")
    np.testing.assert_array_equal(c.astype("float32"), np.maximum(wide, 0) + r.astype("float32"))
    return report


@pytest.mark.parametrize("n,m,k,turned,dtype,out,symbols", CASES)
def test_any_size_and_layout(n: int, m: int, k: int, turned: str, dtype: str, out: str, symbols: str) -> None:
    run(n, m, k, turned, dtype, out, symbols)


def test_every_stage_prints() -> None:
    func, _ = scheduled(product(64, 64, 256, "", "float16", "float16"), Machine(gpu=GpuMachine(processors=1)))
    assert "software_pipeline_stage" in func.script()
    assert "T.ptx_mma" in lowered(unity.IRModule({"main": func}, {}, {})).script()


@pytest.mark.parametrize("symbols", ["", "nmk"])
@pytest.mark.parametrize("turned", ["", "ab"])
def test_traffic(turned: str, symbols: str) -> None:
    """Whole tiles are copied by lines, and nothing meets in a bank, whether sizes are known or not."""
    report = run(64, 64, 128, turned, "float16", "float16", symbols)
    assert not report.bank_conflicts and not report.uncoalesced, str(report)


CONVOLUTION = """
@T.prim_func
def main(X: T.Buffer((1, 4, 5, 16), "float16"), W: T.Buffer((8, 3, 3, 16), "float16"), Y: T.Buffer((1, 4, 5, 8), "float16")):
    T.func_attr({"tir.noalias": True})
    P = T.alloc_buffer((1, 6, 7, 16), "float16")
    S = T.alloc_buffer((1, 4, 5, 8), "float32")
    for n, h, w, c in T.grid(1, 6, 7, 16):
        with T.block("P"):
            vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
            P[vn, vh, vw, vc] = T.if_then_else(vh >= 1 and vh < 5 and vw >= 1 and vw < 6, X[vn, vh - 1, vw - 1, vc], T.float16(0))
    for n, h, w, o, c, y, x in T.grid(1, 4, 5, 8, 16, 3, 3):
        with T.block("S"):
            vn, vh, vw, vo, vc, vy, vx = T.axis.remap("SSSSRRR", [n, h, w, o, c, y, x])
            with T.init():
                S[vn, vh, vw, vo] = T.float32(0)
            S[vn, vh, vw, vo] = S[vn, vh, vw, vo] + T.Cast("float32", P[vn, vh + vy, vw + vx, vc]) * T.Cast("float32", W[vo, vy, vx, vc])
    for n, h, w, o in T.grid(1, 4, 5, 8):
        with T.block("Y"):
            vn, vh, vw, vo = T.axis.remap("SSSS", [n, h, w, o])
            Y[vn, vh, vw, vo] = T.Cast("float16", S[vn, vh, vw, vo])
"""


def test_convolution() -> None:
    """The border of the image is no kernel of its own; channels are copied 16 bytes at once beside the threads."""
    x, w, y = numbers((1, 4, 5, 16), "float16"), numbers((8, 3, 3, 16), "float16"), np.zeros((1, 4, 5, 8), "float16")
    checked(parse(CONVOLUTION), x, w, y)
    padded = np.pad(x.astype("float32"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_array_equal(y, np.einsum("nhwcyx,oyxc->nhwo", windows, w.astype("float32")))
    func, _ = scheduled(parse(CONVOLUTION))
    copies = [
        line
        for line in GPU_PIPELINE(unity.IRModule({"main": func}, {}, {})).script().splitlines()
        if "ptx_cp_async" in line
    ]
    assert copies and all([", 16, " in line for line in copies])


def test_tiles_by_sizes_and_devices() -> None:
    """Many rows take the largest tile that a block's memory holds, few rows small ones; devices without the instructions none."""
    large = product("n", 4096, 4096, "", "float16", "float16")
    machines = {
        "128 x 256": GpuMachine(80, 108, shared_bytes=163 << 10),
        "128 x 128": GpuMachine(86, 82, shared_bytes=66 << 10),
    }
    for tile, gpu in machines.items():
        assert tile in scheduled(large, Machine(gpu=gpu))[1]
    hopper = Machine(gpu=GpuMachine(90, 132, shared_bytes=227 << 10, warpgroups=True))
    assert "128 x 256 by 64 in 4 stages, one after another in 132 blocks (wgmma, bulk" in scheduled(large, hopper)[1]
    whole, odd = scheduled(product("n", 4096, "k", "b", "float16", "float16"), hopper)[1].split("; else: up to 1 rows")
    assert "where k is a multiple of 8" in whole and "(wgmma, bulk copies)" in whole and "wgmma" not in odd, whole
    few = scheduled(product(16, 4096, 4096, "b", "float16", "float16"), hopper)[1]
    assert "16 x 64 by 64 in 12 stages, operands swapped (wgmma, bulk copies)" in few, few
    assert "192 x 1" in scheduled(product(4096, 2304, 768, "b", "float16", "float16"), hopper)[1]
    assert "pieces" in scheduled(product(64, 768, 3072, "b", "float16", "float16"), hopper)[1]
    assert "by 32 (m16n8k16)" in scheduled(product(4096, 4096, 32, "", "float16", "float16"), hopper)[1]
    assert "16 x 64" in scheduled(product(32, 512, 512, "", "float16", "float16"))[1]
    assert "tensor" not in scheduled(large, Machine(gpu=GpuMachine(75, 40)))[1]
    plain = product(64, 64, 64, "", "float32", "float32")
    assert "tensor" not in scheduled(plain, machine_of(unity.Target("cuda")))[1]
    assert "m16n8k8" in scheduled(plain, machine_of(unity.Target("cuda -tf32")))[1]
