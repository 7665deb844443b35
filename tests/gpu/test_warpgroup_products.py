"""Products of warpgroups by default: any layout and size, by bulk copies or copied by threads; what a launch makes of empty tensors
and of graphs; a pass that must not shrink memory by a value that differs between threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from test_tensor_cores import CONVOLUTION, numbers, product, scheduled

import unity
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.transform.default_schedule.gpu import tensor_cores
from unity.transform.infra.backend import GpuMachine, Machine

DEVICE = Machine(gpu=GpuMachine(90, 132, shared_bytes=120 << 10, warpgroups=True))
"""A device whose memory holds the smallest tile of warpgroups alone, 64 x 128."""
CASES = [
    (70, 72, 136, "", "bfloat16", "float32", "n", "bulk copies"),
    (136, 40, 64, "ab", "float16", "float16", "", "bulk copies"),
    (65, 48, 128, "b", "int8", "int32", "n", "bulk copies"),
    (20, 70, 68, "b", "float16", "float16", "n", "S_left has rows of 136 bytes"),
    (76, 68, 72, "a", "float16", "float16", "k", "S_left has rows of 152 bytes"),
    (70, 72, 136, "", "bfloat16", "float32", "nmk", "bulk copies"),
]
"""Sizes, operands that lie across, data types, sizes that are symbols; how operands are copied."""


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of warpgroups alone: for such sizes those of warps would cost less."""
    monkeypatch.setattr(tensor_cores, "CHOICES", ())


def checked(fn: Any, how: str, *arrays: np.ndarray) -> Any:
    """What the thread checker says about a program."""
    func, reason = scheduled(fn, DEVICE)
    assert "64 x 128" in reason and "wgmma" in reason and how in reason, reason
    report = unity.check_gpu(func, *arrays, pipeline=GPU_PIPELINE)
    report.raise_if_failed()
    assert not report.bank_conflicts, str(report)
    return report


@pytest.mark.parametrize("n,m,k,turned,dtype,out,symbols,how", CASES)
def test_any_size_and_layout(n: int, m: int, k: int, turned: str, dtype: str, out: str, symbols: str, how: str) -> None:
    """A batched product with a bias, an activation and a residual."""
    fn = product(*[name if name in symbols else size for name, size in zip("nmk", (n, m, k))], turned, dtype, out)
    a, b, e, r = [numbers(s, t) for s, t in (((2, n, k), dtype), ((2, k, m), dtype), ((m,), out), ((2, n, m), out))]
    c = np.full((2, n, m), 77, r.dtype)
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if side in turned else x for x, side in ((a, "a"), (b, "b"))]
    checked(fn, how, *given, e, r, c)
    wide = a.astype("float32") @ b.astype("float32") + e.astype("float32")
    np.testing.assert_array_equal(c.astype("float32"), np.maximum(wide, 0) + r.astype("float32"))


def test_convolution() -> None:
    """Windows and borders are unfolded by the threads that copy."""
    x, w, y = numbers((1, 4, 5, 16), "float16"), numbers((8, 3, 3, 16), "float16"), np.zeros((1, 4, 5, 8), "float16")
    checked(parse(CONVOLUTION), "S_left is computed while it is copied", x, w, y)
    padded = np.pad(x.astype("float32"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_array_equal(y, np.einsum("nhwcyx,oyxc->nhwo", windows, w.astype("float32")))


MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 72), "float16"), w: R.Tensor((72, 64), "float16"), b: R.Tensor((64,), "float16")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w) + b)
            R.output(y)
        return y
"""


@pytest.mark.gpu
def test_on_the_device() -> None:
    """Any number of rows, none among them, NaN and infinity, launches of a captured graph; nothing is found, nothing conflicts."""
    executable = unity.compile(parse(MODULE), target="cuda -arch=sm_90a -max_shared_memory_per_block=122880")
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
