"""Functions that end with a call of themselves run as loops: any number of times, in both modes, without holding memory."""

import resource

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse

COUNT = """
from tvm.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function(private=True)
    def loop(i: R.Tensor((), "int64"), n: R.Tensor((), "int64"), x: R.Tensor((m,), "float32")) -> R.Tuple(
        R.Tensor((), "int64"), R.Tensor((m,), "float32")
    ):
        m = T.int64()
        c: R.Tensor((), "bool") = R.less(i, n)
        if c:
            i2 = R.add(i, R.const(1, "int64"))
            y = R.multiply(R.add(x, R.const(1.0, "float32")), R.const(0.5, "float32"))
            r: R.Tuple(R.Tensor((), "int64"), R.Tensor((m,), "float32")) = M.loop(i2, n, y)
        else:
            r: R.Tuple(R.Tensor((), "int64"), R.Tensor((m,), "float32")) = (i, x)
        return r

    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((m,), "float32")) -> R.Tuple(
        R.Tensor((), "int64"), R.Tensor((m,), "float32")
    ):
        m = T.int64()
        r: R.Tuple(R.Tensor((), "int64"), R.Tensor((m,), "float32")) = M.loop(R.const(0, "int64"), n, x)
        return r
"""

GROW = """
from tvm.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main(k: R.Prim("int64"), x: R.Tensor((n,), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        c: R.Prim("bool") = n < k
        if c:
            y = R.concat((x, x), axis=0)
            r: R.Tensor(ndim=1, dtype="float32") = M.main(k, y)
        else:
            r: R.Tensor(ndim=1, dtype="float32") = x
        return r
"""


@pytest.mark.parametrize("mode", ["native", "bytecode"])
@pytest.mark.parametrize("times", [0, 1, 5000])
def test_any_number_of_times(mode: str, times: int) -> None:
    machine = unity.VirtualMachine(unity.compile(parse(COUNT), exec_mode=mode))
    x = np.arange(5, dtype=np.float32)
    count, values = machine["main"](np.array(times), x)
    expected = x.copy()
    for _ in range(times):
        expected = (expected + np.float32(1)) * np.float32(0.5)
    assert int(count.numpy()) == times
    np.testing.assert_array_equal(values.numpy(), expected)


def test_the_interpreter_agrees() -> None:
    x = np.array([3.0, np.nan, np.inf], np.float32)
    wanted = run(parse(COUNT), "main", np.array(7), x)
    found = unity.VirtualMachine(unity.compile(parse(COUNT)))["main"](np.array(7), x)
    for a, b in zip(wanted, found):
        np.testing.assert_array_equal(getattr(a, "numpy", lambda a=a: a)(), b.numpy())


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_sizes_may_change_from_one_time_to_the_next(mode: str) -> None:
    machine = unity.VirtualMachine(unity.compile(parse(GROW), exec_mode=mode))
    found = machine["main"](40, np.arange(3, dtype=np.float32)).numpy()
    np.testing.assert_array_equal(found, np.tile(np.arange(3, dtype=np.float32), 16))
    assert machine["main"](2, np.ones(3, np.float32)).shape == (3,)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_memory_of_past_iterations_is_given_back(mode: str) -> None:
    machine = unity.VirtualMachine(unity.compile(parse(COUNT), exec_mode=mode))
    x = np.ones(1 << 16, np.float32)
    machine["main"](np.array(3), x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    machine["main"](np.array(1500), x)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    )  # kilobytes; all iterations make 384,000
