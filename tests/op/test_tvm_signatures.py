"""Arguments that a call leaves out, gives by place or by name mean what they mean in TVM."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from unity.ir import first_difference
from unity.ir.op import OPS, REQUIRED
from unity.script import parse, script

SIGNAL, IMAGE, VOLUME = (
    'R.Tensor((1, 2, 7), "float32")',
    'R.Tensor((1, 2, 7, 6), "float32")',
    'R.Tensor((1, 2, 4, 4, 4), "float32")',
)
ROWS = 'R.Tensor((2, 4), "float32")'
POOL = "pool_size=3, padding=1"

SAME = [
    (SIGNAL, f"R.nn.avg_pool1d(x, {POOL})", f"R.nn.avg_pool1d(x, {POOL}, count_include_pad=True)"),
    (IMAGE, f"R.nn.avg_pool2d(x, {POOL})", f"R.nn.avg_pool2d(x, {POOL}, count_include_pad=False)"),
    (VOLUME, f"R.nn.avg_pool3d(x, {POOL})", f"R.nn.avg_pool3d(x, {POOL}, count_include_pad=True)"),
    (IMAGE, "R.image.grid_sample(x, x)", 'R.image.grid_sample(x, x, "bilinear", "NCHW", "zeros", align_corners=False)'),
    (ROWS, 'R.nn.rms_norm(x, R.ones((4,), "float32"))', 'R.nn.rms_norm(x, R.ones((4,), "float32"), axes=[-1])'),
    (
        IMAGE,
        'R.nn.instance_norm(x, R.ones((2,), "float32"), R.zeros((2,), "float32"), 1, [2, 3])',
        'R.nn.instance_norm(x, R.ones((2,), "float32"), R.zeros((2,), "float32"), axes=[2, 3], channel_axis=1)',
    ),
    (ROWS, "R.sort(x=x, axis=0)", "R.sort(x, 0)"),
    (ROWS, "R.tensor_to_shape(expr=R.shape_to_tensor(expr=R.shape_of(expr=x)))", "R.tensor_to_shape(R.shape_to_tensor(R.shape_of(x)))"),
    (ROWS, "R.add(R.size(expr=x), R.size(expr=x))", "R.add(R.size(x), R.size(x))"),
    (ROWS, "R.memory.ensure_zero_offset(data=x)", "R.memory.ensure_zero_offset(x)"),
]  # fmt: skip


def main(ty: str, value: str) -> Any:
    return parse(f"@R.function\ndef main(x: {ty}):\n    return {value}\n")


@pytest.mark.parametrize(("ty", "written", "meant"), SAME)
def test_calls_mean_what_they_mean_in_tvm(ty: str, written: str, meant: str) -> None:
    assert first_difference(main(ty, written), main(ty, meant)) is None


def test_what_tvm_takes_otherwise_is_written_for_it() -> None:
    """``R.nn.batch_norm`` takes the statistics of the batch in TVM unless it says."""
    of_channels = ", ".join(['R.ones((2,), "float32")'] * 4)
    func = main(IMAGE, f"R.nn.batch_norm(x, {of_channels})")
    assert "training" not in script(func) and "axis=1, training=False)" in script(func, "tvm")


DIFFERENT = {
    "R.nn.batch_norm": {"training"}, "R.arange": {"step"}, "R.image.resize2d": {"cubic_exclude"},
    "R.image.resize3d": {"cubic_exclude", "rounding_method"}, "R.builtin.alloc_tensor": {"storage_scope"},
}  # fmt: skip
"""Defaults that are written in another way, or are others and written out for TVM."""


def _plain(value: Any) -> Any:
    """A default without the ways to write one number for all axes."""
    return value[0] if isinstance(value, (tuple, list)) and len(set(value)) == 1 else value


def test_defaults_are_those_of_tvm() -> None:
    names = pytest.importorskip("tvm.script").relax
    compared = 0
    for name, info in OPS.items():
        theirs: Any = names
        for part in name.split(".")[1:]:
            theirs = getattr(theirs, part, None)
        if not callable(theirs):
            continue
        for key, parameter in inspect.signature(theirs).parameters.items():
            ours = next((p for p in info.params if p.name == key and p.kind == "attr"), None)
            if ours is None or REQUIRED in (ours.default,) or parameter.default is inspect.Parameter.empty:
                continue
            if key not in DIFFERENT.get(name, ()):
                assert _plain(parameter.default) == _plain(ours.default), f"{name}: {key}"
                compared += 1
    assert compared > 100
