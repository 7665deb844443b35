"""The bytecode and its interpreter against numpy."""

import numpy as np
import pytest

import unity
from tests.vm.doubles import *  # noqa: F403
from unity.support.errors import VMError
from unity.vm.machine import VirtualMachine

MODES = ["bytecode"]


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def machine(functions, mode):
    return VirtualMachine(executable(functions), exec_mode=mode)


@pytest.mark.parametrize("n,m", [(3, 5), (1, 1), (0, 2), (2, 0), (17, 33)])
def test_symbolic_shapes(mode, n, m):
    vm = machine({"main": two_layers()}, mode)
    x, w, b = f32(n, 4), f32(4, m), f32(m)
    y, r = vm["main"](x, w, b)
    assert isinstance(y, unity.Tensor) and y.shape == (n, m)
    np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(r.numpy(), np.maximum(b + b, 0))


def test_text_is_stable(mode):
    text = executable({"main": two_layers()}).as_text()
    assert text == executable({"main": two_layers()}).as_text()
    assert 'function main(%0 x: R.Tensor((n, 4), "float32")' in text
    assert "kernel matmul(%0, %1, %3, #0, 4, #1)" in text
    assert "slots #0 n, #1 m" in text
