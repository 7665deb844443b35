"""Operators whose result size depends on the data, compiled: builtins of the VM against numpy."""

import numpy as np
import pytest

from unity.ffi.tensor import Tensor
from unity.ir.interpret import run
from unity.op import OPERATORS
from unity.script import parse
from unity.support.errors import UnityError
from unity.vm.build import build
from unity.vm.builtins.dynamic import nonzero
from unity.vm.virtual_machine import VirtualMachine

X = np.array([[3, 0, 1], [0, 0, 3]], "float32")


def module(call, types='x: R.Tensor(("n", 3), "float32")'):
    return parse(
        f"@I.ir_module\nclass M:\n    @R.function\n    def main({types}):\n        y = {call}\n        return y\n"
    )


def both(call, *inputs, **types):
    mod = module(call, **types)
    machine, meaning = VirtualMachine(build(mod))["main"](*inputs), run(mod, "main", *inputs)
    several = isinstance(machine, (tuple, list))
    pairs = list(zip(machine, meaning, strict=True)) if several else [(machine, meaning)]
    for m, r in pairs:
        np.testing.assert_array_equal(m.numpy(), r.numpy() if hasattr(r, "numpy") else r)
    return [m.numpy() for m, _ in pairs]


def test_nonzero():
    (made,) = both("R.nonzero(x)", X)
    np.testing.assert_array_equal(made, [[0, 0, 1], [0, 2, 2]])
    assert both("R.nonzero(x)", np.zeros((2, 3), "float32"))[0].shape == (2, 0)
    for shape in ((), (0, 3), (5,), (2, 3, 4), (3, 0, 2), (2, 1, 2, 3)):
        given = np.resize(np.array([0.0, np.nan, -0.0, 2.0, 1.0], "float32"), shape)
        wanted = np.stack(np.nonzero(np.atleast_1d(given)))[: given.ndim]
        np.testing.assert_array_equal(nonzero(Tensor(given)).numpy(), wanted)


def test_unique():
    np.testing.assert_array_equal(both("R.unique(x)", X)[0], [0, 1, 3])
    values, index, inverse, counts = both("R.unique(x, return_index=True, return_inverse=True, return_counts=True)", X)
    np.testing.assert_array_equal(values[inverse], X.reshape(-1))
    np.testing.assert_array_equal(X.reshape(-1)[index], values)
    np.testing.assert_array_equal(counts, [3, 1, 2])
    np.testing.assert_array_equal(both("R.unique(x, axis=1)", X)[0], np.unique(X, axis=1))


def test_dynamic_strided_slice():
    types = 'x: R.Tensor(("n", 3), "float32"), b: R.Tensor((2,), "int64"), e: R.Tensor((2,), "int64"), s: R.Tensor((2,), "int64")'
    bounds = [np.array(v, "int64") for v in ([0, -1], [9, -9], [1, -1])]
    (made,) = both("R.dynamic_strided_slice(x, b, e, s)", X, *bounds, types=types)
    np.testing.assert_array_equal(made, X[0:9, ::-1])
    bounds[2][1] = 0
    with pytest.raises(UnityError):
        VirtualMachine(build(module("R.dynamic_strided_slice(x, b, e, s)", types)))["main"](X, *bounds)


def test_result_goes_on_after_a_match_cast():
    mod = parse(
        "@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((2, 3), 'float32')):\n        k = T.int64()\n"
        "        y = R.nonzero(x)\n        z = R.match_cast(y, R.Tensor((2, k), 'int64'))\n        return R.sum(z, axis=[1])\n"
    )
    np.testing.assert_array_equal(VirtualMachine(build(mod))["main"](X).numpy(), [1, 4])


assert OPERATORS
