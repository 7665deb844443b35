"""Convolutions of images with few channels, as convolutions of the lines under their kernel, on a device with products of warpgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from test_convolution_products import numpy_convolution, only
from test_tensor_cores import numbers

import unity
from unity import relax
from unity.ir import Call, collect
from unity.transform.default_schedule.gpu.products.tile_costs import Choice
from unity.transform.relax.layout.image_lines import image_lines

TARGET = "cuda -arch=sm_90a"


def stem(n: Any, high: int, wide: int, weight: np.ndarray, layout: str, **attributes: Any) -> Any:
    """A module of one convolution with a constant weight, channels last in its result."""
    channels = weight.shape[2]
    shape = (n, channels, high, wide) if layout == "NCHW" else (n, high, wide, channels)
    builder = unity.BlockBuilder()
    x = relax.Var("x", shape, weight.dtype.name)
    with builder.function("main", [x]), builder.dataflow():
        layouts = {"data_layout": layout, "kernel_layout": "HWIO", "out_layout": "NHWC"}
        y = builder.emit(relax.op.nn.conv2d(x, relax.const(weight), **layouts, **attributes))
        builder.emit_func_output(builder.emit_output(y))
    return builder.get()


@pytest.mark.gpu
@pytest.mark.parametrize("layout,symbolic,window,channels,attributes", [
    ("NCHW", False, 7, 3, {"padding": 3, "strides": 2}),
    ("NHWC", True, 7, 3, {"padding": [1, 2, 3, 4], "strides": [2, 3]}),
    ("NCHW", True, 5, 5, {}),
])  # fmt: skip
def test_lines_on_the_device(
    monkeypatch: pytest.MonkeyPatch, layout: str, symbolic: bool, window: int, channels: int, attributes: dict[str, Any]
) -> None:  # fmt: skip
    """Borders, steps, any number of images; NaN and infinity reach the results whose window they are in."""
    only(monkeypatch, Choice(64, 64, 1, 1, is_grouped=True))
    weight = numbers((window, window, channels, 16), "float16")
    size = unity.tir.Var("n", "int64") if symbolic else 2
    executable = unity.compile(stem(size, 9, 10, weight, layout, **attributes), target=TARGET)
    x = numbers((2, 9, 10, channels), "float16")
    x[0, 4, 5, 1], x[1, 8, 9, 0] = np.nan, np.inf
    shown = ", ".join([f"{name}={value}" for name, value in attributes.items()])
    with np.errstate(invalid="ignore"):
        wanted = numpy_convolution(x, weight, shown).astype("float16")
    given = x if layout == "NHWC" else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    with device_or_emulated("sm_90a") as gpu:
        got = unity.VirtualMachine(executable, unity.cuda(0))["main"](given).numpy()
        np.testing.assert_array_equal(got, wanted)
        assert gpu is None or len(gpu.launches) == 2


@pytest.mark.parametrize("dtype,channels,filters,attributes,target,lines", [
    ("float16", 3, 64, {"padding": 3, "strides": 2}, TARGET, True),
    ("float16", 3, 64, {"padding": 3, "strides": 2}, "cuda -arch=sm_80", False),
    ("float16", 3, 64, {"padding": 3, "strides": 2}, "llvm -mcpu=x86-64-v3", False),
    ("float32", 3, 64, {"padding": 3, "strides": 2}, TARGET, False),
    ("float16", 16, 64, {"padding": 3, "strides": 2}, TARGET, False),
    ("float16", 3, 64, {"dilation": 2}, TARGET, False),
    ("float16", 3, 64, {"strides": 9}, TARGET, False),
])  # fmt: skip
def test_which_convolutions(
    dtype: str, channels: int, filters: int, attributes: dict[str, Any], target: str, lines: bool
) -> None:
    """Narrow floats of few channels, for devices that gain by it."""
    module = stem(1, 32, 32, numbers((7, 7, channels, filters), dtype), "NCHW", **attributes)
    with unity.Target(target):
        made = image_lines(module)
    called = [call.op.name for call in collect(made["main"], Call)]
    assert called == (["R.call_dps", "R.nn.conv2d"] if lines else ["R.nn.conv2d"])
    assert lines or made is module or made.script() == module.script()
