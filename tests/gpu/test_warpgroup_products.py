"""Products of warpgroups by default: any layout and size, by bulk copies or copied by threads; what a launch makes of empty tensors
and of graphs; a pass that must not shrink memory by a value that differs between threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from test_tensor_cores import CONVOLUTION, compared, numbers, only, product, reported, scheduled

import unity
from unity.ir.node import replace
from unity.ir.stmt import Block
from unity.ir.walk import rewrite
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.transform.default_schedule.gpu.products.tile_costs import Choice
from unity.transform.infra.backend import GpuMachine, Machine

DEVICE = Machine(gpu=GpuMachine(90, 4, shared_bytes=227 << 10, warpgroups=True))
CASES = [
    (70, 72, 136, "", "bfloat16", "float32", "n", "bulk copies"),
    (136, 40, 64, "ab", "float16", "float16", "", "bulk copies"),
    (65, 48, 128, "b", "int8", "int32", "n", "bulk copies"),
    (20, 70, 68, "b", "float16", "float16", "n", "S_left has rows of 136 bytes"),
    (76, 68, 72, "a", "float16", "float16", "k", "S_left has rows of 152 bytes"),
    (70, 72, 136, "", "bfloat16", "float32", "nmk", "bulk copies"),
]
"""Sizes, operands that lie across, data types, sizes that are symbols; how operands are copied."""


TILES = [
    (Choice(192, 128, 3, 1, is_grouped=True), "192 x 128", 200, 136, 136, "b", "float16", {}),
    (Choice(64, 32, 1, 1, is_grouped=True), "64 x 32", 70, 40, 136, "b", "int8", {}),
    (Choice(128, 96, 2, 1, is_grouped=True), "128 x 96", 130, 100, 328, "b", "float16", {"pieces": 3}),
    (Choice(64, 16, 1, 1, is_grouped=True, swapped=True), "16 x 64", 20, 72, 136, "", "bfloat16", {}),
    (Choice(64, 32, 1, 1, is_grouped=True, swapped=True), "32 x 64", 20, 66, 256, "b", "int8", {"pieces": 2}),
    (Choice(64, 64, 1, 1, is_grouped=True, swapped=True), "64 x 64", 72, 40, 264, "ab", "float16", {"pieces": 2}),
    (Choice(128, 64, 2, 1, is_grouped=True, swapped=True), "64 x 128", 40, 132, 72, "b", "float16", {}),
    (Choice(64, 32, 1, 1, is_grouped=True), "64 x 32", 130, 72, 136, "b", "float16", {"in_turn": 1, "stages": 2}),
    (Choice(64, 32, 1, 1, is_grouped=True, swapped=True), "32 x 64", 40, 130, 264, "b", "float16", {"in_turn": 1, "pieces": 2}),
]  # fmt: skip
"""Tiles: three warpgroups, one, pieces of a sum, exchanged operands, several tiles of a block."""


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tile of warpgroups alone: for such sizes others would take less time."""
    only(monkeypatch, Choice(64, 128, 1, 2, is_grouped=True))


def checked(fn: Any, tile: str, how: list[str], *arrays: np.ndarray) -> Any:
    """What the thread checker says about a program."""
    func, reason = scheduled(fn, DEVICE)
    assert tile in reason and "wgmma" in reason and all([one in reason for one in how]), reason
    report = reported(func, *arrays)
    assert not report.bank_conflicts, str(report)
    return report


@pytest.mark.parametrize("choice,tile,n,m,k,turned,dtype,decided", TILES)
def test_tiles(
    monkeypatch: pytest.MonkeyPatch, choice: Choice, tile: str, n: int, m: int, k: int, turned: str, dtype: str,
    decided: dict[str, int],
) -> None:  # fmt: skip
    """Every kind of tile, over ends in all directions."""
    only(monkeypatch, choice)
    out = "int32" if dtype == "int8" else dtype
    fn = product(n, m, k, turned, dtype, out)
    fn = rewrite(fn, {Block: lambda block: replace(block, annotations={"schedule": decided})})
    kinds = {
        "pieces": "of {} pieces",
        "in_turn": "one after another",
        "stages": "in {} stages",
    }
    how = [kinds[name].format(number) for name, number in decided.items()]
    compared(partial(checked, fn, tile, how), n, m, k, turned, dtype, out)


@pytest.mark.parametrize("choice,tile,_n,_m,_k,turned,dtype,decided", TILES)
def test_traffic_of_whole_tiles(
    monkeypatch: pytest.MonkeyPatch, choice: Choice, tile: str, _n: int, _m: int, _k: int, turned: str, dtype: str,
    decided: dict[str, int],
) -> None:  # fmt: skip
    """Where nothing hangs over all is read and written in runs; where lines are odd, the ends of runs alone are more."""
    only(monkeypatch, choice)
    out = "int32" if dtype == "int8" else dtype
    n, m = (choice.columns, choice.rows) if choice.swapped else (choice.rows, choice.columns)
    k = 128 * decided.get("pieces", 1)
    for odd in (0, 1) if choice.swapped and turned == "b" else (0,):
        fn = product(n, m - odd, k, turned, dtype, out)
        fn = rewrite(fn, {Block: lambda block: replace(block, annotations={"schedule": decided})})
        report = compared(partial(checked, fn, tile, []), n, m - odd, k, turned, dtype, out)
        stores = [site for site in report.uncoalesced if site.kind == "store"] if odd else report.uncoalesced
        assert not [site for site in stores if not odd or site.transactions > 1.5 * site.ideal], str(report)


@pytest.mark.parametrize("n,m,k,turned,dtype,out,symbols,how", CASES)
def test_any_size_and_layout(n: int, m: int, k: int, turned: str, dtype: str, out: str, symbols: str, how: str) -> None:
    """A batched product with a bias, an activation and a residual."""
    fn = product(*[name if name in symbols else size for name, size in zip("nmk", (n, m, k))], turned, dtype, out)
    compared(partial(checked, fn, "64 x 128", [how]), n, m, k, turned, dtype, out)


def test_convolution() -> None:
    """Windows and borders are unfolded by the threads that copy."""
    x, w, y = numbers((1, 4, 5, 16), "float16"), numbers((8, 3, 3, 16), "float16"), np.zeros((1, 4, 5, 8), "float16")
    checked(parse(CONVOLUTION), "64 x 128", ["S_left has 16 neighbours for 64 steps of a stage"], x, w, y)
    padded = np.pad(x.astype("float32"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_array_equal(y, np.einsum("nhwcyx,oyxc->nhwo", windows, w.astype("float32")))


@pytest.mark.gpu
def test_on_the_device() -> None:
    """Any number of rows, none among them, NaN and infinity, launches of a captured graph; nothing is found, nothing conflicts."""
    module = graph_module(
        "R.nn.relu(R.add(R.matmul(x, w), b))", x='("n", 72), "float16"', w='(72, 64), "float16"', b='(64,), "float16"'
    )
    executable = unity.compile(module, target="cuda -arch=sm_90a")
    w, b = numbers((72, 64), "float16"), numbers((64,), "float16")
    with device_or_emulated("sm_90a") as gpu:
        machine = unity.VirtualMachine(executable, unity.cuda(0), cuda_graph=True)
        for n in (0, 70, 70, 70):
            x = numbers((n, 72), "float16")
            if n:
                x[2, 3], x[n - 1, 5] = np.nan, np.inf
            got = machine["main"](x, w, b).numpy()
            with np.errstate(invalid="ignore"):
                wanted = np.maximum(x.astype("float32") @ w.astype("float32") + b.astype("float32"), 0)
            np.testing.assert_array_equal(got, wanted.astype("float16"))
        if gpu is None:
            return
        assert all([launch.block == (32, 12, 1) for launch in gpu.launches])
        sites = [site for launch in gpu.launches for site in launch.traffic if site.scope == "shared"]
        assert sites and all([site.transactions <= site.ideal for site in sites])


def test_values_that_differ_between_threads_are_no_corner() -> None:
    """Shared memory indexed by a bound value that differs between warps keeps its rows."""
    func = parse("""
@T.prim_func
def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, "threadIdx.x"):
        S = T.alloc_buffer((2, 32), "float32", scope="shared")
        warp: T.int32 = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx // 32, 0, 32, 32)
        S[warp, tx % 32] = X[tx]
        T.tvm_storage_sync("shared")
        Y[tx] = S[warp, 31 - tx % 32]
""")
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    unity.check_gpu(func, x, y, pipeline=GPU_PIPELINE).raise_if_failed()
    np.testing.assert_array_equal(y, x.reshape(2, 32)[:, ::-1].ravel())
