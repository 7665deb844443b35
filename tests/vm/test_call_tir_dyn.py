"""``R.vm.call_tir_dyn``: tensors and sizes of a tensor program given by hand, outputs among them."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.structural import structural_equal
from unity.script import parse
from unity.support.errors import UnityError

TEXT = """
from tvm.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def scaled(a: T.handle, b: T.handle, rows: T.int64, factor: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                B[v] = T.if_then_else(v < rows, A[v] * T.cast(factor, "float32"), T.float32(0))

    @R.function(pure=False)
    def main(x: R.Tensor((n,), "float32"), s: R.Shape(["k", "f"])) -> R.Tensor((n,), "float32"):
        n = T.int64()
        k = T.int64()
        f = T.int64()
        y: R.Tensor((n,), "float32") = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
        _ = R.vm.call_tir_dyn(M.scaled, {args})
        return y
"""
FORMS = [
    "(x, y, R.shape([k, f]))",
    "(x, y, s)",
    "(x, y, R.shape([k]), f)",
    "(x, y, k, f)",
    "(x, y, k + 0, R.shape([f]))",
]


@pytest.mark.parametrize("args", FORMS)
@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_sizes_are_unpacked(args: str, mode: str) -> None:
    mod = parse(TEXT.format(args=args))
    assert structural_equal(parse(mod.script()), mod)
    machine = unity.VirtualMachine(unity.compile(mod), exec_mode=mode)
    for length, rows, factor in ((6, 4, 3), (1, 0, -2), (0, 5, 1)):
        x = np.arange(1, length + 1, dtype=np.float32)
        wanted = np.where(np.arange(length) < rows, x * factor, 0)
        np.testing.assert_array_equal(machine["main"](x, (rows, factor)).numpy(), wanted)
        np.testing.assert_array_equal(np.asarray(run(mod, "main", x, (rows, factor))), wanted)


@pytest.mark.parametrize("args", ["x", "(x, y, R.shape([k]))", "(x, (y, y), s)", "(x, y, s, s)"])
def test_wrong_arguments_are_errors(args: str) -> None:
    with pytest.raises(UnityError):
        unity.compile(parse(TEXT.format(args=args)))
