"""BlockBuilder with tensor expressions, topi and the Python names of graph functions."""

import itertools

import numpy as np
import pytest

import unity
from unity import relax, te, topi
from unity.ir import structural_equal
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import TypeRuleError, VerifyError


def te_matmul(A, B):
    assert A.shape[1] == B.shape[0]
    k = te.reduce_axis((0, A.shape[1]), name="k")
    return te.compute((A.shape[0], B.shape[1]), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")


def te_relu(A):
    return te.compute(A.shape, lambda *i: te.max(A(*i), 0), name="relu")


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def checked(mod, *inputs):
    """Result in the interpreter and compiled, after the verifier and a round trip through script."""
    verify(mod)
    assert structural_equal(parse(mod.script()), mod)
    expected = np.asarray(run(mod, "main", *inputs))
    actual = np.asarray(unity.VirtualMachine(unity.compile(mod))["main"](*inputs))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    return actual


def test_matmul_relu_with_parameters_given_at_the_end():
    A, B = relax.Var("A", (5, 6), "float32"), relax.Var("B", relax.TensorStructInfo((6, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main"):
        with bb.dataflow():
            C = bb.emit_te(te_matmul, A, B)
            D = bb.emit_te(te_relu, C)
            R = bb.emit_output(D)
        bb.emit_func_output(R, params=[A, B])
    mod = bb.get()
    assert set(mod.functions) == {"te_matmul", "te_relu", "main"}
    x, w = data(5, 6), data(6, 4, seed=1)
    np.testing.assert_allclose(checked(mod, x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(1, 3, 4), (5, 1, 2), (0, 3, 3)])
def test_dense_network_with_symbolic_shapes(sizes):
    n, k, m = te.var("n"), te.var("k"), te.var("m")
    x = relax.Var("x", (n, k), "float32")
    w, b = relax.Var("w", (k, m), "float32"), relax.Var("b", (m,), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x, w, b]):
        with bb.dataflow():
            y = bb.emit_te(topi.matmul, x, w)
            z = bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, y, b))
            out = bb.emit_output(z)
        bb.emit_func_output(out)
    mod = bb.get()
    assert str(mod["main"].ret_ty) == 'R.Tensor((n, m), "float32")'
    arrays = [data(sizes[0], sizes[1]), data(sizes[1], sizes[2], seed=1), data(sizes[2], seed=2)]
    expected = np.maximum(arrays[0] @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(checked(mod, *arrays), expected, rtol=1e-5, atol=1e-6)


def test_a_multi_layer_perceptron_from_its_weights():
    sizes = [8, 6, 5, 3]
    weights = [(data(o, i, seed=o), data(o, seed=i)) for i, o in itertools.pairwise(sizes)]
    x = relax.Var("x", (2, 8), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            h = x
            for layer, (w, b) in enumerate(weights):
                h = bb.emit_te(topi.nn.dense, h, relax.const(w), relax.const(b))
                if layer < len(weights) - 1:
                    h = bb.emit_te(topi.nn.relu, h)
            out = bb.emit_output(h)
        bb.emit_func_output(out)
    value = expected = data(2, 8, seed=9)
    for layer, (w, b) in enumerate(weights):
        expected = expected @ w.T + b
        expected = np.maximum(expected, 0) if layer < 2 else expected
    np.testing.assert_allclose(checked(bb.get(), value), expected, rtol=1e-5, atol=1e-5)


def test_equal_programs_are_shared_and_names_are_fresh():
    x = relax.Var("x", (4, 4), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        a = bb.emit_te(te_relu, x)
        b = bb.emit_te(te_relu, a)
        c = bb.emit_te(te_matmul, a, b, primfunc_name_hint="te_relu", primfunc_attrs={"layout": 1})
        bb.emit_func_output(c)
    mod = bb.get()
    assert list(mod.functions) == ["te_relu", "te_relu1", "main"] and mod["te_relu1"].attrs["layout"] == 1
    checked(mod, data(4, 4))


def test_tuples_scalars_shapes_and_several_results():
    n = te.var("n")
    x, flag = relax.Var("x", (n, 3), "float32"), relax.Var("s", unity.ir.prim_type("float32"))

    def split(tensors, shape, scale, factor):
        a, b = tensors
        half = te.compute((shape[0], 3), lambda i, j: a[i, j] * scale + b[i, j] * factor, name="left")
        return half, te.compute((shape[0] * 2,), lambda i: te.Value(n.expr).astype("float32") * 1.0, name="right")

    bb = unity.BlockBuilder()
    with bb.function("main", [x, flag]):
        pair = bb.emit_te(split, (x, x), relax.ShapeExpr((n.expr,)), flag, 2.0)
        left = bb.emit(relax.TupleGetItem(pair, 0))
        right = bb.emit(relax.op.sum(relax.TupleGetItem(pair, 1)))
        bb.emit_func_output(bb.emit(relax.op.add(left, right)))
    value = data(5, 3)
    np.testing.assert_allclose(checked(bb.get(), value, 3.0), value * 5 + 50, rtol=1e-5)


def test_results_that_are_inputs_become_copies():
    x = relax.Var("x", (3,), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(lambda a: a, x))
    np.testing.assert_array_equal(checked(bb.get(), data(3)), data(3))


def test_topi_is_the_operator_table():
    A, B = te.placeholder((2, 3), "float32", "A"), te.placeholder((2, 3), "float32", "B")
    func = te.create_prim_func([A, B, topi.concat((A, topi.multiply(B, 2.0)), axis=1)])
    out = np.zeros((2, 6), "float32")
    run(func, None, data(2, 3), data(2, 3, seed=1), out)
    np.testing.assert_array_equal(out, np.concatenate([data(2, 3), data(2, 3, seed=1) * 2], 1))
    assert topi.nn.softmax(A, axis=1).shape[0] is A.shape[0] and "add" in dir(topi) and "relu" in dir(topi.nn)
    with pytest.raises(AttributeError, match="no_such"):
        topi.nn.no_such(A)
    with pytest.raises(TypeRuleError) as caught:
        topi.add(A, te.placeholder((4, 5), "float32"))
    assert caught.value.code == "E213"


def test_what_is_refused():
    x = relax.Var("x", relax.TensorType(None, "float32", 2))
    bb = unity.BlockBuilder()
    with pytest.raises(TypeRuleError) as caught, bb.function("main", [x]):
        bb.emit_te(te_relu, x)
    assert caught.value.code == "E218" and not bb.get().functions
    with pytest.raises(TypeRuleError) as caught, bb.function("main", [relax.Var("y", (3,))]):
        bb.emit_te(lambda a: 3, relax.Var("y", (3,)))
    assert caught.value.code == "E217"
    with pytest.raises(VerifyError), bb.function("main", [x]):
        bb.emit_func_output(x, [x])
    with pytest.raises(VerifyError), bb.function("main", [x]):
        pass
    with pytest.raises(TypeRuleError):
        relax.Var("x")


def test_lookup_and_state():
    x = relax.Var("x", (3,), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        assert not bb.current_block_is_dataflow()
        with bb.dataflow():
            assert bb.current_block_is_dataflow()
            y = bb.emit(relax.op.exp(x))
            assert bb.lookup_binding(y).op is unity.ir.op("R.exp") and bb.lookup_binding(x) is None
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    ref = bb.get().get_global_var("main")
    bb.update_func(ref, unity.ir.replace(bb.get()["main"], attrs={"global_symbol": "main", "tag": 1}))
    assert bb.finalize()["main"].attrs["tag"] == 1


def test_tuples_numbers_and_arrays_are_values() -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(np.array([1, 2], "float32"))
            both = bb.emit_output((relax.op.add(x, y), [x, 3]))
        bb.emit_func_output((both, x))
    mod = bb.get()
    verify(mod)
    (total, (same, three)), array = unity.VirtualMachine(unity.compile(mod))["main"](np.ones(2, "float32"))
    assert (total.numpy().tolist(), same.numpy().tolist(), three, array.numpy().tolist()) == ([2, 3], [1, 1], 3, [1, 1])
    with pytest.raises(TypeRuleError, match="E210"), bb.function("other", []):
        bb.emit(object())


NAMES = ("relu-1", "a.b", "1x", "if", "None", "a b", "x\n", "", "T", "R", "I", "f<int>", "naïve", "cls", "print", "\0", "x" * 300)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_functions_are_names_in_script(name):
    """A hint becomes a name that reads back; a name that cannot is refused, before a file with it is saved."""
    x = relax.Var("x", (3, 4), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(te_relu, x, primfunc_name_hint=name))
    verify(bb.get())
    assert structural_equal(parse(bb.get().script()), bb.get())
    bb = unity.BlockBuilder()
    with bb.function(name, [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    try:
        verify(bb.get())
    except VerifyError as error:
        assert error.code == "E349"
    else:
        assert structural_equal(parse(bb.get().script()), bb.get())


def test_a_function_in_a_function_leaves_the_outer_one_alone():
    x, y = relax.Var("x", (3,), "float32"), relax.Var("y", (4,), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
        with bb.function("inner", [y]):
            bb.emit_func_output(y)
    verify(bb.get())
    assert bb.get()["main"].params == (x,) and bb.get()["inner"].params == (y,)


def test_a_function_has_one_output():
    x = relax.Var("x", (3,), "float32")
    bb = unity.BlockBuilder()
    with pytest.raises(VerifyError, match="E303"), bb.function("main", [x]):
        bb.emit_func_output(x)
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
