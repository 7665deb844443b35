"""Assertions about tensors come behind what has no effect, and before what has one."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.expr import Call
from unity.script import parse
from unity.testing import emulated_gpu
from unity.transform import assert_last

TEXT = """
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32")):
    a = R.min(x)
    c = R.greater(a, R.const(0, "float32"))
    R.assert_op(c, format="x must be positive")
    y = R.exp(x)
    z = R.add(y, y)
    return z
"""


def order(fn: unity.ir.Function) -> list[str]:
    return [b.value.op_name for block in fn.body.blocks for b in block.bindings if isinstance(b.value, Call)]


def test_behind_what_has_no_effect() -> None:
    fn = parse(TEXT)
    moved = assert_last.on(fn)
    assert order(moved) == ["R.min", "R.greater", "R.exp", "R.add", "R.assert_op"]
    assert assert_last.on(moved) is moved


def test_before_effects() -> None:
    fn = parse(TEXT.replace("    z =", '    R.call_packed("tests.seen", y)\n    z ='))
    assert assert_last.on(fn) is fn
    later = parse(TEXT.replace("    R.assert_op", '    R.call_packed("tests.seen", x)\n    R.assert_op'))
    assert order(assert_last.on(later))[-3:] == ["R.exp", "R.add", "R.assert_op"]


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_a_device_is_not_waited_for_meanwhile(mode: str) -> None:
    with emulated_gpu(races=False, traffic=False) as gpu:
        machine = unity.VirtualMachine(unity.compile(parse(TEXT), target="cuda"), unity.cuda(0), exec_mode=mode)
        x = np.arange(1, 5, dtype="float32")
        np.testing.assert_allclose(machine["main"](x).numpy(), 2 * np.exp(x), rtol=1e-6)
        before = len(gpu.launches)
        with pytest.raises(unity.UnityError, match="x must be positive") as failed:
            machine["main"](-x)
        assert failed.value.code == "E635"
        assert len(gpu.launches) == 2 * before, "all kernels were launched"
