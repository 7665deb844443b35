"""Bulk copies of pixels under the window of a convolution (im2col): places of the window, borders, steps, dilation, the last image."""

from __future__ import annotations

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.ir import PrimFunc
from unity.script import parse

CASES = [
    (2, 5, 7, 16, 1, 3, 1, 1, 1),
    (2, 5, 7, 64, 2, 3, 1, 1, 1),
    (1, 6, 9, 40, 2, 3, 2, 1, 2),
    (3, 1, 1, 8, 1, 3, 1, 1, 1),
]
"""Images, rows, columns, channels; step, window and dilation, zeros before and behind."""
PLACES = 16


def copied(n: int, h: int, w: int, c: int, step: int, window: int, apart: int, before: int, behind: int) -> PrimFunc:
    """Blocks copy 16 places of the window by 64 channels, for each pixel of the window."""
    rows, columns = [(size + before + behind - apart * (window - 1) - 1) // step + 1 for size in (h, w)]
    last = [(count - 1) * step - before - (size - 1) for count, size in ((rows, h), (columns, w))]
    blocks = -(-n * rows * columns // PLACES)
    return parse(f"""
@T.prim_func
def main(X: T.Buffer(({n}, {h}, {w}, {c}), "float16"), Y: T.Buffer(({blocks}, {window**2}, {PLACES}, 64), "float16")):
    for b in T.thread_binding({blocks}, "blockIdx.x"):
        for q in T.thread_binding({window**2}, "blockIdx.y"):
            for tx in T.thread_binding(64, "threadIdx.x"):
                S = T.alloc_buffer(({PLACES}, 64), "float16", scope="shared.dyn", align=1024)
                T.create_barriers(1)
                if tx == 0:
                    T.ptx_init_barrier_thread_count(0, 1)
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx_arrive_barrier_expect_tx(0, {PLACES * 128})
                    T.ptx_cp_async_bulk_tensor_im2col(
                        "float16", S.data, 0, X.data, 0, 0, {PLACES}, 64, {n}, {h}, {w}, {c}, b * {PLACES} // {rows * columns},
                        b * {PLACES} // {columns} % {rows} * {step} - {before}, b * {PLACES} % {columns} * {step} - {before}, 0,
                        {-before}, {-before}, {last[0]}, {last[1]}, {step}, {step}, q // {window} * {apart}, q % {window} * {apart})
                T.ptx_wait_barrier(0, 0)
                for r in range({PLACES}):
                    Y[b, q, r, tx] = S[r, tx]
""")


@pytest.mark.gpu
@pytest.mark.parametrize("n,h,w,c,step,window,apart,before,behind", CASES)
def test_places_of_a_window(
    n: int, h: int, w: int, c: int, step: int, window: int, apart: int, before: int, behind: int
) -> None:
    """The thread checker and the device copy what numpy's windows hold, zeros behind the last image and the last channel."""
    func = copied(n, h, w, c, step, window, apart, before, behind)
    x = np.random.default_rng(0).standard_normal((n, h, w, c)).astype("float16")
    padded = np.pad(x, ((0, 0), (before, behind), (before, behind), (0, 64 - c)))
    reach = apart * (window - 1) + 1
    seen = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), (1, 2))
    seen = seen[:, ::step, ::step, :, ::apart, ::apart].transpose(4, 5, 0, 1, 2, 3).reshape(window**2, -1, 64)
    blocks = -(-seen.shape[1] // PLACES)
    filled = np.pad(seen, ((0, 0), (0, blocks * PLACES - seen.shape[1]), (0, 0)))
    wanted = np.ascontiguousarray(filled.reshape(window**2, blocks, PLACES, 64).swapaxes(0, 1))
    y = np.full_like(wanted, 7)
    unity.check_gpu(func, x, y).raise_if_failed()
    np.testing.assert_array_equal(y, wanted)
    executable = unity.compile(func, target="cuda -arch=sm_90")
    with device_or_emulated("sm_90") as gpu:
        y = unity.tensor(np.full_like(wanted, 7), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
        np.testing.assert_array_equal(y.numpy(), wanted)
        assert gpu is None or not gpu.findings


def test_wrong_windows_are_refused() -> None:
    """Corners, steps and boxes that no tensor map has, and numbers that are missing."""
    func = copied(*CASES[0])
    text = func.script()
    for good, bad, said in (
        ("16, 64, 2, 5", "1025, 64, 2, 5", "a box of"),
        ("-1, -1, -1, -1, 1, 1", "-129, -1, -1, -1, 1, 1", "corners"),
        ("-1, -1, -1, -1, 1, 1", "-1, -1, -1, -1, 9, 1", "steps of"),
        ("2, 5, 7, 16,", "2, 5, 7, 12,", "rows of the tensor of 24 bytes"),
        ("16, 64, 2, 5, 7, 16,", "16, 64, 2, 5, 7,", "a size and a corner"),
    ):
        assert good in text
        with pytest.raises(unity.UnityError, match=said):
            unity.compile(parse(text.replace(good, bad)), target="cuda -arch=sm_90")
