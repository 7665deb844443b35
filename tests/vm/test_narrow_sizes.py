"""Sizes that a kernel holds in fewer bits than the graph: right or refused, never cut off."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run as interpret
from unity.script import parse
from unity.support.errors import UnityError

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
VALUES = (0, 1, 127, 128, 255, 256, 32767, 32768, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1)

SCALAR = """
@I.ir_module
class M:
    @T.prim_func
    def k(B: T.Buffer((1,), "int64"), n: T.{dtype}):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = T.Cast("int64", n)

    @R.function
    def main(s: R.Shape(["n"])) -> R.Tensor((1,), "int64"):
        n = T.int64()
        with R.dataflow():
            y = R.call_tir(M.k, (), out_sinfo=R.Tensor((1,), "int64"), tir_vars=R.shape([n]))
            R.output(y)
        return y
"""

EXTENT = """
@T.prim_func
def k(a: T.handle, B: T.Buffer((1,), "int64")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int8")
    for i in range(1):
        with T.sblock("b"):
            v = T.axis.spatial(1, i)
            B[v] = T.Cast("int64", n)
"""


@pytest.mark.parametrize("exec_mode", ["native", "bytecode"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_size_for_a_narrow_scalar(dtype, exec_mode):
    mod = parse(SCALAR.format(dtype=dtype))
    vm = unity.VirtualMachine(unity.build(mod, exec_mode=exec_mode))
    for value in VALUES:
        if value <= np.iinfo(dtype).max:
            assert vm["main"]((value,)).numpy() == value == interpret(mod, "main", (value,))
            continue
        for run, code in ((vm["main"], "E613"), (lambda size: interpret(mod, "main", size), "E316")):
            with pytest.raises(UnityError, match=f"{value} does not fit into {dtype}") as caught:
                run((value,))
            assert caught.value.code == code


@pytest.mark.parametrize("extent", [5, 2**31 - 1, 2**31 + 3])
def test_an_extent_of_more_than_its_symbol_holds(extent):
    """The memory is never touched, so none is taken."""
    memory, result = np.zeros(extent, np.int8), np.zeros(1, np.int64)
    func = parse(EXTENT)
    for run, code in ((unity.build(func)["k"], "E614"), (lambda *args: interpret(func, None, *args), "E316")):
        if extent < 2**31:
            run(memory, result)
            assert result == extent
            continue
        with pytest.raises(UnityError, match="does not fit into int32") as caught:
            run(memory, result)
        assert caught.value.code == code
