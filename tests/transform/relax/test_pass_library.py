"""Passes with options that are no literals, and what functions compute across a change of their parameters."""

import numpy as np
import pytest

import unity
from unity import relax
from unity.ffi.dtype import DataType
from unity.ir import Call, collect
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError, UnityError
from unity.transform import (
    DEFAULT_PIPELINE,
    CheckInstrument,
    PassContext,
    Pipeline,
    bind_params,
    bind_symbolic_vars,
    bundle_model_params,
    combine_parallel_matmul,
    dataflow_use_inplace_calls,
    decompose_ops_for_inference,
    eliminate_common_subexpr,
    fold_batch_norm_to_conv2d,
    fold_constant,
    lift_transform_params,
    update_param_type,
)

LAYERS = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((8, 4), "float32"), b: R.Tensor((8,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            w1 = R.permute_dims(w)
            w2 = R.multiply(w1, R.const(2.0, "float32"))
            y = R.add(R.matmul(x, w2), R.exp(b))
            R.output(y)
        return y
"""


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


X, W, B = data(3, 4), data(8, 4, seed=1), data(8, seed=2)


def both(mod, *args):
    """The result, the same in the interpreter and compiled."""
    verify(mod)
    assert unity.ir.structural_equal(parse(mod.script()), mod)
    expected = run(mod, "main", *args)
    actual = unity.VirtualMachine(unity.compile(mod))["main"](*args)
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-4, atol=1e-5)
    return np.asarray(expected)


def test_lifted_weights_give_the_same():
    mod = parse(LAYERS)
    for shared in (False, True):
        lifted = lift_transform_params.with_options(shared=shared)(mod)
        verify(lifted)
        name = "transform_params" if shared else "main_transform_params"
        weights = run(lifted, name, (W, B))
        assert [c.op.name for c in collect(lifted["main"], Call)] == ["R.matmul", "R.add"]
        np.testing.assert_allclose(both(lifted, X, *weights), both(mod, X, W, B), rtol=1e-5)


def test_a_taken_name_and_other_weights_are_refused():
    mod = parse(LAYERS)
    twice = lift_transform_params.with_options(shared=True)(mod)
    with pytest.raises(PassError) as caught:
        lift_transform_params.with_options(shared=True)(twice.with_functions({"main": mod["main"]}))
    assert caught.value.code == "E558"
    other = parse(LAYERS.replace("(8, 4)", "(6, 4)").replace("(8,)", "(6,)"))["main"]
    with pytest.raises(PassError) as caught:
        lift_transform_params.with_options(shared=True)(
            mod.with_functions({"other": unity.ir.replace(other, attrs={"num_input": 1})})
        )
    assert caught.value.code == "E558"


def test_bundled_weights_give_the_same():
    mod = parse(LAYERS)
    bundled = bundle_model_params.with_options(param_tuple_name="all")(mod)
    assert [p.name for p in bundled["main"].params] == ["x", "all"]
    np.testing.assert_allclose(np.asarray(run(bundled, "main", X, (W, B))), both(mod, X, W, B), rtol=1e-6)


def test_bound_parameters_are_folded_and_shared():
    mod = parse(LAYERS)
    weight = unity.tensor(W)
    bound = bind_params.with_options(params={"w": weight, mod["main"].params[2]: B})(mod)
    assert len(bound["main"].params) == 1 and bound["main"].attrs["num_input"] == 1
    constants = collect(bound["main"], unity.ir.Constant)
    assert any([c.data is weight for c in constants])
    folded = fold_constant(bound)
    assert [c.op.name for c in collect(folded["main"], Call)] == ["R.matmul", "R.add"]
    np.testing.assert_allclose(both(folded, X), both(mod, X, W, B), rtol=1e-5)


def test_binding_a_parameter_binds_its_symbols():
    text = LAYERS.replace("(8, 4)", '("m", 4)').replace("(8,)", '("m",)')
    bound = bind_params.with_options(params={"w": W})(parse(text))
    assert str(bound["main"].params[1].ty) == 'R.Tensor((8,), "float32")'
    assert str(bound["main"].ret_ty) == 'R.Tensor((n, 8), "float32")'
    np.testing.assert_allclose(both(bound, X, B), both(parse(LAYERS), X, W, B), rtol=1e-5)


@pytest.mark.parametrize(
    "params", [{"q": 1.0}, {"w": B}, {"w": W.astype("float64")}], ids=["unknown", "shape", "dtype"]
)
def test_values_that_do_not_fit_are_refused(params):
    with pytest.raises(PassError) as caught:
        bind_params.with_options(params=params)(parse(LAYERS))
    assert caught.value.code == "E557"


def test_bound_symbols_reach_kernels_and_sizes():
    mod = parse(LAYERS)
    n = mod["main"].params[0].ty.shape.values[0]
    for key in ("n", n):
        fixed = bind_symbolic_vars.with_options(symbols={key: 3}, func_name="main")(mod)
        assert str(fixed["main"].ret_ty) == 'R.Tensor((3, 8), "float32")'
        np.testing.assert_allclose(both(fixed, X, W, B), both(mod, X, W, B), rtol=1e-6)
        with pytest.raises(UnityError):
            run(fixed, "main", data(2, 4), W, B)
    lowered = bind_symbolic_vars.with_options(symbols={"n": 3})(Pipeline.parse("legalize_ops")(mod))
    np.testing.assert_allclose(both(lowered, X, W, B), both(mod, X, W, B), rtol=1e-5)
    with pytest.raises(PassError):
        bind_symbolic_vars.with_options(symbols={"n": -1})(mod)


def test_types_of_parameters_by_a_function():
    mod = parse(LAYERS)
    half = update_param_type.with_options(update=lambda p: relax.TensorType(p.ty.shape.values, "float64"))
    text = LAYERS.replace('R.const(2.0, "float32")', "w1")
    changed = half(parse(text))
    assert str(changed["main"].ret_ty) == 'R.Tensor((n, 8), "float64")'
    result = np.asarray(run(changed, "main", *[a.astype("float64") for a in (X, W, B)]))
    assert result.dtype == np.float64
    assert update_param_type(mod) is mod and update_param_type.with_options(update=lambda p: None)(mod) is mod


def test_batch_norm_of_constants_disappears():
    x, w = relax.Var("x", (2, 3, 6, 6)), relax.const(data(4, 3, 3, 3))
    stats = [relax.const(np.abs(data(4, seed=s)) + 0.5) for s in range(4)]
    bias = relax.const(data(4, 1, 1, seed=7))
    bb = unity.BlockBuilder()
    with bb.function("main", [x]), bb.dataflow():
        conv = bb.emit(relax.op.add(relax.op.nn.conv2d(x, w, padding=(1, 1)), bias))
        norm = bb.emit(relax.op.nn.batch_norm(conv, *stats, axis=1, center=False))
        bb.emit_func_output(bb.emit_output(relax.op.nn.relu(relax.TupleGetItem(norm, 0))))
    mod = bb.get()
    text = "fold_batch_norm_to_conv2d,canonicalize,eliminate_common_subexpr,fold_constant,dead_code"
    folded = Pipeline.parse(text)(mod)
    assert [c.op.name for c in collect(folded["main"], Call)] == ["R.nn.conv2d", "R.add", "R.nn.relu"]
    np.testing.assert_allclose(
        both(folded, data(2, 3, 6, 6)), np.asarray(run(mod, "main", data(2, 3, 6, 6))), rtol=1e-3, atol=1e-4
    )
    layers = parse(LAYERS)
    assert fold_batch_norm_to_conv2d(layers) is layers


@pytest.mark.parametrize("dtype,axis", [("float16", 1), ("bfloat16", -1)])
def test_batch_norm_of_narrow_floats_is_a_product_and_a_sum(dtype, axis):
    """Its weights are not rounded: a factor and a bias in float32 are left, no root and no quotient."""
    bb = unity.BlockBuilder()
    x = relax.Var("x", (2, 3, 5, 3), dtype)
    stats = [relax.const(np.abs(data(3, seed=s)).astype(DataType(dtype).numpy)) for s in range(4)]
    with bb.function("main", [x]), bb.dataflow():
        norm = bb.emit(relax.op.nn.batch_norm(x, *stats, axis=axis, epsilon=1e-3))
        bb.emit_func_output(bb.emit_output(relax.TupleGetItem(norm, 0)))
    mod = bb.get()
    text = "fold_batch_norm_to_conv2d,canonicalize,eliminate_common_subexpr,fold_constant,dead_code"
    folded = Pipeline.parse(text)(mod)
    assert [c.op.name for c in collect(folded["main"], Call)] == ["R.astype", "R.multiply", "R.add", "R.astype"]
    value = data(2, 3, 5, 3).astype(DataType(dtype).numpy)
    got, wanted = [np.asarray(one).astype("float32") for one in (both(folded, value), run(mod, "main", value))]
    np.testing.assert_allclose(got, wanted, rtol={"float16": 2e-3, "bfloat16": 1e-2}[dtype], atol=1e-6)


def test_custom_rules_and_chosen_names_of_decompositions():
    text = '@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((4,), "float32")):\n        return R.nn.silu(x)\n'
    mod = parse(text)
    rule = ("R.nn.silu", lambda call: relax.op.multiply(call.args[0], relax.op.sigmoid(call.args[0])))
    made = decompose_ops_for_inference.with_options(custom=(rule,))(mod)
    assert [c.op.name for c in collect(made["main"], Call)] == ["R.sigmoid", "R.multiply"]
    assert decompose_ops_for_inference.with_options(custom=(rule,), names=("R.nn.dropout",))(mod) is mod


def test_values_written_later_are_not_shared():
    text = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = R.exp(x)
        c = R.call_inplace(twice, (a,), R.Tensor((4,), "float32"), inplace_indices=[0])
        return R.add(b, c)

    @T.prim_func(private=True)
    def twice(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] * T.float32(2)
"""
    mod = parse(text)
    assert eliminate_common_subexpr(mod) is mod
    x = data(4)
    np.testing.assert_allclose(both(mod, x), np.exp(x) * 3, rtol=1e-5)


def test_joined_products_of_constants_are_one_product():
    x = relax.Var("x", (3, 4), "float32")
    bb = unity.BlockBuilder()
    with bb.function("main", [x]), bb.dataflow():
        parts = [bb.emit(relax.op.matmul(x, relax.const(data(4, n, seed=n)))) for n in (2, 5, 3)]
        bb.emit_func_output(bb.emit_output(relax.op.concat((parts[2], parts[0], parts[1]), axis=1)))
    mod = bb.get()
    joined = fold_constant(combine_parallel_matmul(mod))
    assert [c.op.name for c in collect(joined["main"], Call)] == ["R.matmul", "R.split", "R.concat"]
    np.testing.assert_allclose(both(joined, X), both(mod, X), rtol=1e-5)
    assert combine_parallel_matmul.with_options(min_size=4)(mod) is mod


def test_the_default_pipeline_folds_and_shares():
    names = [step.name for step in DEFAULT_PIPELINE]
    assert names.index("fold_batch_norm_to_conv2d") < names.index("fold_constant") < names.index("legalize_ops")
    assert names.index("eliminate_common_subexpr") < names.index("fold_constant")


@pytest.mark.parametrize("fused", [True, False])
def test_inplace_calls_compile_and_save_memory(fused):
    text = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a, axis=1)
            c = R.multiply(b, x)
            d = R.matmul(c, w)
            e = R.exp(d)
            f = R.add(e, c)
            R.output(f)
        return f
"""
    mod = parse(text)
    if fused:
        pipeline = DEFAULT_PIPELINE.insert_after("fuse_tir", dataflow_use_inplace_calls)
    else:
        pipeline = DEFAULT_PIPELINE.without("fuse_ops", "fuse_tir").insert_after(
            "legalize_ops", dataflow_use_inplace_calls
        )
    checker = CheckInstrument(inputs=2)
    with PassContext(checker):
        after = pipeline(mod)
    assert all([r.verdict == "agrees" for r in checker.records if r.function == "main"]), checker.records
    if not fused:
        count = [str(m).count("alloc_storage") for m in (after, DEFAULT_PIPELINE.without("fuse_ops", "fuse_tir")(mod))]
        assert count[0] <= count[1] and "_inplace" in str(after)
    x, w = data(5, 8), data(8, 8, seed=1)
    actual = np.asarray(unity.VirtualMachine(unity.compile(mod, pipeline=pipeline))["main"](x, w))
    np.testing.assert_allclose(actual, np.asarray(run(mod, "main", x, w)), rtol=1e-4, atol=1e-5)


def test_memory_that_is_needed_is_not_overwritten():
    text = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.negative(x)
            b = R.exp(a)
            c = R.exp(b)
            t = (c, a)
            d = R.negative(c)
            e = R.negative(x)
            R.output(d, t, e)
        return (d, t, e)
"""
    mod = Pipeline.parse("legalize_ops")(parse(text))
    made = dataflow_use_inplace_calls(mod)
    calls = [c for c in collect(made["main"], Call) if c.op.name == "R.call_inplace"]
    assert [c.args[1].fields[0].name for c in calls] == ["b"]
    x = data(4)
    for a, b in zip(run(mod, "main", x)[:1], run(made, "main", x)[:1]):
        np.testing.assert_array_equal(a, b)
