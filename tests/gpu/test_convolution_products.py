"""Convolutions of images whose channels come last, as products of warpgroups: by bulk copies under the window, whatever its steps,
dilation and borders; what bulk copies do not take is copied by threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module
from test_tensor_cores import numbers, only, reported, scheduled

import unity
from unity.ir.node import replace as with_fields
from unity.ir.stmt import Block
from unity.ir.walk import rewrite
from unity.transform.default_schedule.common.choices import SCHEDULE
from unity.transform.default_schedule.gpu.products import tile_costs
from unity.transform.default_schedule.gpu.products.tile_costs import Choice
from unity.transform.infra.backend import GpuMachine, Machine
from unity.transform.relax.pipeline import GRAPH_PIPELINE

DEVICE = Machine(gpu=GpuMachine(90, 132, shared_bytes=227 << 10, warpgroups=True))
BULK, CHANNELS = "bulk copies", "channels"
CASES = [
    (2, 5, 7, 64, 72, 3, "padding=1", BULK),
    (2, 5, 7, 64, 40, 3, "padding=1, strides=2", BULK),
    (1, 9, 6, 40, 64, 3, "padding=[2, 1, 0, 3], dilation=2", BULK),
    (3, 1, 1, 32, 48, 3, "padding=1", BULK),
    ("n", 5, 7, 72, 64, 3, "padding=1", BULK),
    (2, 5, 7, 72, 136, 1, "", BULK),
    (2, 6, 7, 64, 64, 1, "strides=2", BULK),
    (1, 12, 11, 32, 24, 5, "strides=[3, 2]", BULK),
    ("n", "h", "w", 64, 16, 3, "padding=1", BULK),
    (1, 19, 12, 64, 16, 3, "padding=1, strides=9", "is computed while"),
    (1, 6, 5, 12, 16, 3, "padding=1", "has 12 channels"),
    (1, 6, 5, 16, 24, 3, "padding=1", "has 16 neighbours for 64 steps"),
    (1, 6, 5, 24, 16, 3, "padding=1", BULK),
    (1, 6, 5, 64, 32, 3, "padding=1, groups=2", "another order"),
]
"""Images, rows, columns, channels, filters, window; attributes; how operands are copied."""


@pytest.fixture(autouse=True)
def _groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tile of warpgroups alone: for such sizes others would take less time."""
    only(monkeypatch, Choice(64, 128, 1, 2, is_grouped=True))


def convolution(n: Any, h: Any, w: Any, c: int, filters: int, window: int, attributes: str, dtype: str) -> Any:
    """A module with a bias, a residual and an activation behind the convolution."""
    sizes = ", ".join([f'"{size}"' if isinstance(size, str) else str(size) for size in (n, h, w)])
    groups = 2 if "groups=2" in attributes else 1
    rest = f", {attributes}" if attributes else ""
    return graph_module(
        f'R.nn.relu(R.add(R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"{rest}), b))',
        x=f'({sizes}, {c}), "{dtype}"',
        w=f'({window}, {window}, {c // groups}, {filters}), "{dtype}"',
        b=f'({filters},), "{dtype}"',
    )


def numpy_convolution(x: np.ndarray, w: np.ndarray, attributes: str) -> np.ndarray:
    """What it computes, in float32."""
    given = eval(f"dict({attributes})")
    pads, steps = given.get("padding", 0), given.get("strides", 1)
    top, left, bottom, right = [pads] * 4 if isinstance(pads, int) else pads
    down, over = [steps] * 2 if isinstance(steps, int) else steps
    apart, groups = given.get("dilation", 1), given.get("groups", 1)
    padded = np.pad(x.astype("float32"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    reach = apart * (w.shape[0] - 1) + 1
    seen = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), (1, 2))
    seen = seen[:, ::down, ::over, :, ::apart, ::apart]
    parts = zip(np.split(seen, groups, 3), np.split(w.astype("float32"), groups, 3))
    return np.concatenate([np.einsum("nhwcyx,yxco->nhwo", part, own) for part, own in parts], 3)


@pytest.mark.parametrize("n,h,w,c,filters,window,attributes,how", CASES)
def test_any_window(n: Any, h: Any, w: Any, c: int, filters: int, window: int, attributes: str, how: str) -> None:
    """Small and odd images, steps, dilation, borders that differ, any number of images, groups."""
    compared(n, h, w, c, filters, window, attributes, how)


def compared(
    n: Any, h: Any, w: Any, c: int, filters: int, window: int, attributes: str, how: str, device: Machine = DEVICE
) -> None:
    module = GRAPH_PIPELINE(convolution(n, h, w, c, filters, window, attributes, "float16"))
    (func,) = list(module.prim_funcs().values())
    made, reason = scheduled(func, device)
    assert "wgmma" in reason and how in reason, reason
    sizes = [{"n": 2, "h": 4, "w": 5}.get(size, size) for size in (n, h, w)]
    groups = 2 if "groups=2" in attributes else 1
    x, f, b = [numbers(shape, "float16") for shape in ((*sizes, c), (window, window, c // groups, filters), (filters,))]
    wanted = np.maximum(numpy_convolution(x, f, attributes).astype("float16") + b, 0)
    y = np.full(wanted.shape, 77, "float16")
    report = reported(made, x, f, b, y)
    assert not report.bank_conflicts, str(report)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("choice,tile", [
    (Choice(128, 64, 2, 1, is_grouped=True), "128 x 64"),
    (Choice(192, 128, 3, 1, is_grouped=True), "192 x 128"),
    (Choice(64, 32, 1, 1, is_grouped=True, swapped=True), "32 x 64"),
    (Choice(256, 64, 4, 1, is_grouped=True), "256 x 64"),
    (Choice(64, 64, 1, 1, is_grouped=True), "one after another in 2 blocks"),
    (Choice(128, 64, 2, 1, is_grouped=True), "of 3 pieces"),
])  # fmt: skip
def test_tiles(monkeypatch: pytest.MonkeyPatch, choice: Choice, tile: str) -> None:
    """Images are rows or columns of a tile; pieces of the sum have whole windows or parts of one."""
    only(monkeypatch, choice)
    if "pieces" in tile:
        monkeypatch.setattr(tile_costs, "REDUCE", -1e9)
        monkeypatch.setattr(tile_costs, "PIECES", (1, 3))
    device = Machine(gpu=replace(DEVICE.gpu, processors=2)) if "after" in tile else DEVICE
    compared(1 if "pieces" in tile else 5, 6, 5, 128, 40, 3, "padding=1", tile, device)


def test_images_may_be_copied_by_threads() -> None:
    """A decision of the schedule."""
    module = GRAPH_PIPELINE(convolution(2, 6, 5, 64, 40, 3, "padding=1", "float16"))
    (func,) = list(module.prim_funcs().values())
    decided = {Block: lambda block: with_fields(block, annotations={SCHEDULE: {"im2col": 0}})}
    assert "copied by threads: conv2d_left is an image" in scheduled(rewrite(func, decided), DEVICE)[1]


@pytest.mark.gpu
@pytest.mark.parametrize("window,attributes", [(1, ""), (3, "padding=1, strides=2")])
def test_on_the_device(window: int, attributes: str) -> None:
    """Any number of images, NaN and infinity in a corner of one; nothing is found."""
    module = convolution("n", 5, 7, 64, 72, window, attributes, "bfloat16")
    executable = unity.compile(module, target="cuda -arch=sm_90a -max_shared_memory_per_block=122880")
    f, b = numbers((window, window, 64, 72), "bfloat16"), numbers((72,), "bfloat16")
    with device_or_emulated("sm_90a") as gpu:
        machine = unity.VirtualMachine(executable, unity.cuda(0))
        for n in (0, 3):
            x = numbers((n, 5, 7, 64), "bfloat16")
            if n:
                x[1, 0, 0, 3], x[n - 1, 4, 6, 5] = np.nan, np.inf
            with np.errstate(invalid="ignore"):
                wanted = np.maximum(numpy_convolution(x, f, attributes).astype(x.dtype) + b, 0)
            np.testing.assert_array_equal(machine["main"](x, f, b).numpy().astype("float32"), wanted.astype("float32"))
        assert gpu is None or all([launch.block[1] in (8, 12) for launch in gpu.launches])
