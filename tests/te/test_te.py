import inspect
import pkgutil

import numpy as np
import pytest

import unity
from unity import te
from unity.ir import structural_equal
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import TypeRuleError


def call(func, *arrays):
    verify(func)
    run(func, None, *arrays)


def test_matmul_is_the_expected_program():
    n = te.var("n")
    A = te.placeholder((n, 8), "float32", "A")
    B = te.placeholder((8, 4), "float32", "B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((n, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    func = te.create_prim_func([A, B, C], name="main")
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (8, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i, j, k in T.grid(n, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    assert structural_equal(func, parse(text))
    x, y, z = np.ones((3, 8), "float32"), np.ones((8, 4), "float32"), np.zeros((3, 4), "float32")
    call(func, x, y, z)
    np.testing.assert_array_equal(z, x @ y)


def test_intermediates_are_allocated_inside_and_shared():
    A = te.placeholder((5,), "float32", "A")
    B = te.compute((5,), lambda i: A[i] * 2.0, "B")
    C = te.compute((5,), lambda i: te.exp(B[i]) + B[i], "C")
    func = te.create_prim_func([A, C])
    x, out = np.linspace(-1, 1, 5, dtype="float32"), np.zeros(5, "float32")
    call(func, x, out)
    np.testing.assert_allclose(out, np.exp(2 * x) + 2 * x, rtol=1e-6)
    again = te.create_prim_func([A, C])
    assert structural_equal(func, again) and func.params[0] is not again.params[0]


def test_tuple_reduction():
    A = te.placeholder((3, 6), "float32", "A")
    k = te.reduce_axis((0, 6), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    index, value = te.compute((3,), lambda i: argmax((k.astype("int32"), A[i, k]), axis=k), "m")
    func = te.create_prim_func([A, index, value])
    x = np.random.default_rng(0).random((3, 6)).astype("float32")
    i, v = np.zeros(3, "int32"), np.zeros(3, "float32")
    call(func, x, i, v)
    np.testing.assert_array_equal(i, x.argmax(1))
    np.testing.assert_array_equal(v, x.max(1))


def test_conditional_reduction_and_scalar_parameter():
    n = te.var("n")
    A = te.placeholder((8,), "int32", "A")
    k = te.reduce_axis((0, 8), "k")
    S = te.compute((), lambda: te.sum(A[k], axis=k, where=k < n), "S")
    func = te.create_prim_func([A, S, n])
    x, out = np.arange(8, dtype="int32"), np.zeros((), "int32")
    call(func, x, out, 5)
    assert out == 10


def test_a_condition_that_holds_nowhere_gives_the_neutral_element():
    n = te.var("n")
    A = te.placeholder((3, n), "int32", "A")
    k = te.reduce_axis((0, n), "k")
    made = [te.compute((3,), lambda i: f(A[i, k], axis=k, where=A[i, k] > 2), "S") for f in (te.sum, te.prod, te.max)]
    func = te.create_prim_func([A, *made])
    x = np.array([[5, 3], [1, 2], [0, 4]], "int32")
    expected = [[8, 0, 4], [15, 1, 4], [5, -(2**31), 4]]
    compiled = unity.VirtualMachine(unity.compile(func))[next(iter(unity.IRModule.from_expr(func)))]
    for machine in (lambda *arrays: call(func, *arrays), compiled):
        out = [np.full(3, 7, "int32") for _ in made]
        machine(x, *out)
        np.testing.assert_array_equal(out, expected)
        machine(np.zeros((3, 0), "int32"), *out)
        np.testing.assert_array_equal(out, [[0] * 3, [1] * 3, [-(2**31)] * 3])


def test_mistakes_are_named():
    A = te.placeholder((4, 4), "float32", "A")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(TypeRuleError, match="E217"):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1.0)
    with pytest.raises(TypeRuleError, match="2 axes"):
        A[0, 0, 0]
    with pytest.raises(TypeRuleError, match="a TensorSlice"):
        te.compute((4,), lambda i: A[i])
    with pytest.raises(TypeRuleError, match="truth value"):
        bool(A[0, 0] > 1.0)
    with pytest.raises(TypeRuleError, match="not among the arguments"):
        te.create_prim_func([te.compute((4, 4), lambda i, j: A[i, j])])
    with pytest.raises(TypeRuleError, match="E202"):
        te.compute((4,), lambda i: i / 2)


def test_indices_one_after_another():
    A = te.placeholder((4, 6, 2), name="A")
    one, other = [te.compute((6,), f, "C") for f in (lambda j: A[2][j][1], lambda j: A[2, j][1])]
    same = te.compute((6,), lambda j: A[2, j, 1], "C", tag="injective", attrs={"k": 1})
    assert str(one.op.bodies[0]) == str(other.op.bodies[0]) == str(same.op.bodies[0])
    assert (same.op.tag, same.op.attrs) == ("injective", {"k": 1})
    with pytest.raises(TypeRuleError, match="A has 3 axes, indexed with 2"):
        te.compute((4, 6), lambda i, j: A[i][j] + 1.0)


@pytest.mark.parametrize(
    "written",
    [
        lambda a, k: te.compute(None, lambda i: a[i, k]),
        lambda a, k: te.compute(2.5, lambda i: a[i, k]),
        lambda a, k: te.placeholder(None),
        lambda a, k: te.reduce_axis(4),
        lambda a, k: te.reduce_axis((0, 4, 1)),
        lambda a, k: te.reduce_axis((0, None)),
        lambda a, k: te.sum(a[0, k], axis=1),
        lambda a, k: te.sum(a[0, k], axis="k"),
        lambda a, k: te.prod(a[0, k], axis=[k, 1]),
        lambda a, k: te.max(a[0, k], axis=[]),
    ],
)
def test_what_is_no_shape_or_axis_is_refused(written):
    with pytest.raises(TypeRuleError):
        written(te.placeholder((4, 4)), te.reduce_axis((0, 4), "k"))


@pytest.mark.parametrize("module", ["te", "topi", "relax", "relax.analysis", "relax.transform", "tir", "transform"])
def test_functions_made_by_functions_have_their_own_names(module):
    """Errors call them so."""
    module = pkgutil.resolve_name(f"unity.{module}")
    names = [name for name in dir(module) if name[0] != "_"]
    functions = [f for name in names if inspect.isfunction(f := getattr(module, name))]
    called = {f.__qualname__.rpartition("<locals>.")[2].replace(".__init__", "") for f in functions}
    assert called and called & {"function", "found", "call", "made", "create", "<lambda>"} == set()
    assert [name for name in called if "." in name] == []


def test_operators_have_names():
    assert te.Value.__add__.__qualname__ == "Value.__add__" and te.Tensor.__radd__.__qualname__ == "Tensor.__radd__"
