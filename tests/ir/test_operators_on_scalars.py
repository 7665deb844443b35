"""Python's operators on scalar expressions, for shapes written in Python."""

import numpy as np
import pytest

import unity
from unity import relax, te, tir
from unity.arith.evaluate import evaluate
from unity.ir.build import ceildiv, const


def test_arithmetic_makes_expressions() -> None:
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    made = [n + 1, 2 * n, n - m, 7 - n, n // 2, n % m, 9 // n, 9 % n, -n]
    assert [str(e) for e in made] == ["n + 1", "2 * n", "n - m", "7 - n", "n // 2", "n % m", "9 // n", "9 % n", "0 - n"]
    assert all(e.ty.dtype.name == "int64" for e in made)
    assert str(const(3, "int64") * const(4, "int64")) == "T.int64(12)" and (n == n) is True and len({n, m}) == 2


def test_elements_of_buffers() -> None:
    n, A, z = tir.Var("n", "int64"), tir.decl_buffer((4, 5), "float32", "A"), tir.decl_buffer((), "int8", "z")
    assert [str(e) for e in (A[n, 2] * 2, A[n + 1, n], z[()])] == ["A[n, 2] * T.float32(2)", "A[n + 1, n]", "z[()]"]
    for wrong in (
        lambda: A[0],
        lambda: A[0, "x"],
        lambda: A[0, 1.5],
        lambda: A[0, 0:2],
        lambda: list(A),
        lambda: 3 in A,
    ):
        with pytest.raises(TypeError):
            wrong()
    P = te.placeholder((2,), name="P")
    Q = te.extern((1,), [P], lambda ins, outs: tir.BufferStore(outs[0], ins[0][0] + ins[0][1], [0]))
    result = np.zeros(1, "float32")
    unity.compile(te.create_prim_func([P, Q]))(np.array([3, 4], "float32"), result)
    assert result[0] == 7


def test_shapes_are_written_with_them() -> None:
    n = tir.Var("n", "int64")
    bb = relax.BlockBuilder()
    x, y = relax.Var("x", relax.TensorType((n, 4))), relax.Var("y", relax.TensorType((n * 2 + 1, 4)))
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(relax.op.concat((x, y), axis=0)))
    mod = bb.get()
    assert '"n + (n * 2 + 1)"' in mod.script() or '"n * 3 + 1"' in mod.script()
    vm = unity.VirtualMachine(unity.compile(mod))
    assert vm["main"](np.ones((2, 4), "float32"), np.ones((5, 4), "float32")).shape == (7, 4)
    with pytest.raises(unity.UnityError, match=r"expected \(n \* 2\) \+ 1 = 5"):
        vm["main"](np.ones((2, 4), "float32"), np.ones((6, 4), "float32"))


def test_texts_and_scalars_beside_tensors_have_no_operators() -> None:
    x = relax.Var("x", relax.TensorType((4,)))
    for wrong in (
        lambda: tir.Var("n") + x,
        lambda: x - tir.Var("n"),
        lambda: x + "1",
        lambda: tir.Var("n") + "1",
        lambda: [1] - tir.Var("n"),
    ):
        with pytest.raises(TypeError, match="E217"):
            wrong()
    k, n = te.var("k", "int64"), tir.Var("n", "int64")
    value = k * n + (n + k)
    assert isinstance(value, te.Value) and str(value.expr) == "k * n + (n + k)"


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_division_rounding_up(dtype: str) -> None:
    """Constants fold without leaving the type; other values give the quotient; by one nothing is left."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for a in (low, low + 1, 0, 1, 7, 8, high - 1, high):
        for b in (1, 2, 7, high):
            assert ceildiv(const(a, dtype), const(b, dtype)) == -(-a // b)
    n = tir.Var("n", dtype)
    assert ceildiv(n, 1) is n and str(ceildiv(n, 4).b) == str(const(4, dtype))
    for value in range(9):
        assert evaluate(ceildiv(n, 4), {n: value}) == -(-value // 4) == evaluate(ceildiv(value, n + 1), {n: 3})
