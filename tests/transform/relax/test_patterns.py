"""The pattern language: matching, constraints between matches, rewriting, grouping by pattern, code generators."""

import numpy as np
import pytest

import unity
from unity import relax
from unity.ffi.registry import get_global_func
from unity.ir import Call, Function, collect
from unity.ir.build import const
from unity.ir.interpret import run
from unity.ir.relation import tensor_type
from unity.ir.verifier.verifier import verify
from unity.op import OPERATORS
from unity.script import parse
from unity.support.errors import PassError
from unity.transform.dpl import (
    PatternContext,
    is_call_dps,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from unity.transform.infra.passes import Pipeline
from unity.transform.relax.fusion.fuse_ops_by_pattern import (
    fuse_ops_by_pattern,
    get_pattern,
    get_patterns_with_prefix,
    register_patterns,
)
from unity.transform.relax.fusion.merge_composite_functions import merge_composite_functions
from unity.transform.relax.fusion.run_codegen import CODEGENS, register_codegen, run_codegen
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

PARAMS = 'x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")'


def graph(*lines, params=PARAMS, result="gv"):
    body = "\n".join(f"            {line}" for line in lines)
    return parse(
        f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        with R.dataflow():\n{body}\n"
        f"            R.output({result})\n        return {result}\n"
    )


def values(mod):
    return {b.var: b.value for b in mod["main"].body.blocks[0].bindings}


def named(mod):
    return {v.name: v for v in values(mod)}


def ops(mod, name="main"):
    return [c.op.name for c in collect(mod[name], Call)]


def data(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


X, W, B = data((4, 4), (4, 4), (4,))


def assert_same(before, after, *args):
    verify(after)
    np.testing.assert_allclose(run(after, "main", *args), run(before, "main", *args), rtol=1e-5, atol=1e-6)


LAYER = graph("y = R.matmul(x, w)", "z = R.add(y, b)", "gv = R.nn.relu(z)")


def test_calls_are_matched_through_variables():
    bindings, names = values(LAYER), named(LAYER)
    x, w = wildcard(), wildcard()
    mm = is_op("R.matmul")(x, w)
    whole = is_op("relax.nn.relu")(is_op("relax.add")(mm, wildcard()))
    found = whole.extract_matched_expr(names["gv"], bindings)
    assert found is not None
    assert found[mm] is bindings[names["y"]] and found[x].name == "x" and found[w].name == "w"
    assert whole.extract_matched_expr(names["z"], bindings) is None
    assert not whole.match(bindings[names["gv"]])  # without bindings a variable is a leaf
    assert make_fused_bias_activation_pattern("R.matmul", True, "R.nn.relu").match(names["gv"], bindings)
    assert not make_fused_bias_activation_pattern("R.matmul", False, "R.nn.relu").match(names["gv"], bindings)


def test_one_pattern_stands_for_one_expression():
    mod = graph("y = R.add(x, x)", "gv = R.add(y, w)")
    bindings, names = values(mod), named(mod)
    p = wildcard()
    twice = is_op("R.add")(p, p)
    assert twice.match(names["y"], bindings) and not twice.match(names["gv"], bindings)
    assert is_op("R.add")(p, p.dup()).match(names["gv"], bindings)


def test_alternatives_undo_what_they_recorded():
    bindings, names = values(LAYER), named(LAYER)
    p = wildcard()
    first = is_op("R.add")(is_op("R.matmul")(wildcard(), p), p)
    assert (first | is_op("R.add")(p, wildcard())).match(names["z"], bindings)


@pytest.mark.parametrize(("attrs", "matches"), [
    ({"padding": [1, 0, 1, 0]}, True), ({"padding": (1, 0)}, True), ({"padding": [1, 1, 1, 1]}, False), ({"padding": []}, False),
    ({"strides": [2, 2]}, True), ({"strides": 2}, True), ({"strides": [2, 1]}, False), ({"dilation": [1, 1], "groups": 1}, True),
])  # fmt: skip
def test_numbers_stand_for_lists_in_attributes(attrs, matches):
    x, w = [relax.Var(name, relax.TensorType((1, 3, 8, 8))) for name in "xw"]
    call = relax.op.nn.conv2d(x, w, strides=2, padding=(1, 0))
    assert is_op("relax.nn.conv2d")(wildcard(), wildcard()).has_attr(attrs).match(call) is matches


@pytest.mark.parametrize(("make", "matches"), [
    (lambda: wildcard().has_dtype("float32"), True),
    (lambda: wildcard().has_dtype("float16"), False),
    (lambda: wildcard().has_shape((4, 4)), True),
    (lambda: wildcard().has_shape((4, 5)), False),
    (lambda: wildcard().has_shape((4,)), False),
    (lambda: is_op("R.matmul")(wildcard(), wildcard()), False),
    (lambda: ~is_op("R.matmul")(wildcard(), wildcard()), True),
    (lambda: is_op("R.sum")(wildcard()) & wildcard().has_dtype("float32"), True),
    (lambda: is_op("R.sum")(wildcard()).has_attr({"axis": [1], "keepdims": True}), True),
    (lambda: is_op("R.sum")(wildcard()).has_attr({"axis": [0]}), False),
    (lambda: is_op("R.sum")(wildcard()).has_attr({"size": 1}), False),
    (lambda: is_op("R.sum")(varg_default_wildcard=True), True),
    (lambda: is_op("R.sum")(), False),
    (lambda: is_op("R.sum")(is_var("x")), True),
    (lambda: is_op("R.sum")(is_dfv()), False),
    (lambda: is_op("R.sum")(is_const()), False),
    (lambda: wildcard().has_ty(tensor_type((const(4, "int64"), const(4, "int64")), "float32")), True),
])  # fmt: skip
def test_kinds_of_patterns(make, matches):
    mod = graph("y = R.sum(x, axis=[1], keepdims=True)", "gv = R.multiply(y, w)")
    bindings, names = values(mod), named(mod)
    pattern = make()
    about = "gv" if "Shape" in type(pattern).__name__ or "Type" in type(pattern).__name__ else "y"
    about = "gv" if type(pattern).__name__ == "NotPattern" else about
    assert pattern.match(names[about], bindings) is matches


def test_tuples_constants_and_shapes():
    mod = graph(
        "t = (x, w)", "u = t[1]", 'y = R.add(u, R.const(1.0, "float32"))', "z = R.reshape(y, R.shape([16]))",
        "s = R.split(z, 2)", "gv = s[0]",
    )  # fmt: skip
    bindings, names = values(mod), named(mod)
    assert is_tuple([wildcard(), is_var("w")]).match(names["t"], bindings)
    assert not is_tuple([is_var("w"), is_var("x")]).match(names["t"], bindings)
    assert is_tuple([is_var("w"), is_var("x")], unordered=True).match(names["t"], bindings)
    assert is_op("R.add")(is_tuple_get_item(wildcard(), 1), is_const()).match(names["y"], bindings)
    assert not is_tuple_get_item(wildcard(), 1).match(names["gv"], bindings)
    assert is_op("R.reshape")(wildcard(), is_shape([16])).match(names["z"], bindings)
    assert not is_op("R.reshape")(wildcard(), is_shape([4, 4])).match(names["z"], bindings)
    a = wildcard()
    assert is_op("R.add")(a, wildcard()).match(names["y"], bindings)


def test_calls_of_kernels():
    mod = graph(
        'y = R.call_dps("lib.f", (x, w), R.Tensor((4, 4), "float32"))',
        'gv = R.call_pure_packed("lib.g", y, ty_args=R.Object)',
    )
    names, bindings = named(mod), values(mod)
    assert is_call_dps("lib.f").match(names["y"], bindings) and not is_call_dps("lib.h").match(names["y"], bindings)
    assert is_call_dps("lib.f", [is_var("x"), wildcard()]).match(names["y"], bindings)
    assert not is_call_dps("lib.f", [wildcard()]).match(names["y"], bindings)
    assert not is_call_packed("lib.g").match(names["gv"], bindings)
    lowered = Pipeline.parse("legalize_ops")(LAYER)
    names, bindings = named(lowered), values(lowered)
    assert is_call_tir("matmul").match(names["y"], bindings)
    assert is_call_tir("relu", [is_call_tir("add", [is_call_tir("matmul"), is_var("b")])]).match(names["gv"], bindings)


def test_rewrite_call():
    mod = graph("y = R.add(x, x)", "z = R.add(y, w)", "gv = R.nn.relu(z)")
    p = wildcard()

    def square(value, found):
        return OPERATORS["R.multiply"](OPERATORS["R.negative"](found[p]), OPERATORS["R.negative"](found[p]))

    made = mod.with_functions({"main": rewrite_call(is_op("R.add")(p, p), square, mod["main"])})
    verify(made)
    assert ops(made) == ["R.negative", "R.negative", "R.multiply", "R.add", "R.nn.relu"]
    other = graph("y = R.multiply(x, w)", "gv = R.nn.relu(y)")
    assert rewrite_call(is_op("R.add")(p, p), square, other["main"]) is other["main"]


def test_rewrite_call_across_bindings_drops_what_lost_its_use():
    x, w, b = wildcard(), wildcard(), wildcard()
    pattern = is_op("R.nn.relu")(is_op("R.add")(is_op("R.matmul")(x, w), b))

    def again(value, found):
        return OPERATORS["R.nn.relu"](OPERATORS["R.add"](found[b], OPERATORS["R.matmul"](found[x], found[w])))

    made = LAYER.with_functions({"main": rewrite_call(pattern, again, LAYER["main"])})
    assert ops(made) == ["R.matmul", "R.add", "R.nn.relu"]
    assert_same(LAYER, made, X, W, B)


QKV = 'x: R.Tensor((4, 4), "float32"), q: R.Tensor((4, 4), "float32"), k: R.Tensor((4, 4), "float32")'


def test_rewrite_bindings_joins_products():
    mod = graph("a = R.matmul(x, q)", "s = R.nn.relu(a)", "c = R.matmul(x, k)", "gv = R.add(s, c)", params=QKV)
    with PatternContext() as ctx:
        inp, left, right = wildcard(), wildcard(), wildcard()
        first, second = is_op("R.matmul")(inp, left), is_op("R.matmul")(inp, right)

    def join(found, bindings):
        weights = [bindings[found[p]].args[1] for p in (first, second)]
        whole = OPERATORS["R.matmul"](bindings[found[first]].args[0], OPERATORS["R.concat"](tuple(weights), axis=1))
        parts = OPERATORS["R.split"](whole, 2, axis=1)
        return {found[first]: unity.ir.TupleGetItem(parts, 0), found[second]: unity.ir.TupleGetItem(parts, 1)}

    made = mod.with_functions({"main": rewrite_bindings(ctx, join, mod["main"])})
    assert ops(made) == ["R.concat", "R.matmul", "R.split", "R.nn.relu", "R.add"]
    assert_same(mod, made, *data((4, 4), (4, 4), (4, 4)))


def test_constraints_between_matches():
    mod = graph("a = R.exp(x)", "s = R.nn.relu(a)", "c = R.nn.relu(s)", "gv = R.add(s, c)")
    block = mod["main"].body.blocks[0]
    with PatternContext() as used:
        first, second = is_op("R.nn.relu")(wildcard()), is_op("R.nn.relu")(wildcard())
        first ^ second
    found = used.match_dfb(block)
    assert found is not None and (found[first].name, found[second].name) == ("s", "c")
    with PatternContext() as only:
        is_op("R.nn.relu")(wildcard()) >> is_op("R.nn.relu")(wildcard())
    assert only.match_dfb(block) is None
    with PatternContext() as chain:
        last = is_op("R.exp")(wildcard()) >> is_op("R.nn.relu")(wildcard()) ^ is_op("R.add")(wildcard(), wildcard())
    assert len(last.patterns) == 3 and chain.match_dfb(block) is not None
    with PatternContext() as fork:
        source = is_op("R.nn.relu")(wildcard())
        source.fork_to(is_op("R.nn.relu")(wildcard()), is_op("R.add")(wildcard(), wildcard()))
    assert fork.match_dfb(block)[source].name == "s"
    with PatternContext() as position:
        is_op("R.exp")(wildcard()).used_by(is_op("R.add")(wildcard(), wildcard()), 1)
    assert position.match_dfb(block) is None
    with pytest.raises(PassError) as caught:
        wildcard() >> wildcard()
    assert caught.value.code == "E553"


def test_a_rewriter_that_never_ends_is_stopped():
    with PatternContext() as ctx:
        p = is_op("R.exp")(wildcard())
        p ^ is_op("R.add")(wildcard(), wildcard())
    mod = graph("y = R.exp(x)", "gv = R.add(y, w)")
    again = lambda found, bindings: {found[p]: OPERATORS["R.exp"](bindings[found[p]].args[0])}  # noqa: E731
    with pytest.raises(PassError) as caught:
        rewrite_bindings(ctx, again, mod["main"])
    assert caught.value.code == "E554"


MM_RELU = ("toy.mm_relu", is_op("R.nn.relu")(is_op("R.matmul")(wildcard(), wildcard())))
ADD = ("toy.add", is_op("R.add")(wildcard(), wildcard()))
MM = ("toy.mm", is_op("R.matmul")(wildcard(), wildcard()))


def by_pattern(mod, *patterns, **options):
    made = fuse_ops_by_pattern.with_options(patterns=patterns, **options)(mod)
    verify(made)
    return made


def composites(mod):
    return [f.attrs["Composite"] for f in mod.graph_functions().values() if "Composite" in f.attrs]


def test_grouping_by_pattern():
    mod = graph("y = R.matmul(x, w)", "z = R.nn.relu(y)", "u = R.matmul(z, w)", "v = R.nn.relu(u)", "gv = R.add(v, b)")
    made = by_pattern(mod, MM_RELU)
    assert composites(made) == ["toy.mm_relu"]  # both groups are equal and share one function
    assert ops(made) == ["fused_toy_mm_relu", "fused_toy_mm_relu", "R.add"]
    assert_same(mod, made, X, W, B)
    np.testing.assert_allclose(
        unity.VirtualMachine(unity.compile(made))["main"](X, W, B).numpy(), run(mod, "main", X, W, B), rtol=1e-5
    )


def test_precedence_and_checks():
    mod = graph("y = R.matmul(x, w)", "gv = R.nn.relu(y)")
    assert composites(by_pattern(mod, MM_RELU, MM)) == ["toy.mm_relu"]
    assert composites(by_pattern(mod, MM, MM_RELU)) == ["toy.mm"]
    seen = []
    refuse = (*MM_RELU, {"whole": MM_RELU[1]}, lambda ctx: seen.append(ctx) or False)
    assert by_pattern(mod, refuse) is mod
    assert seen[0].matched_expr is seen[0].annotated_expr["whole"] and len(seen[0].matched_bindings) == 2


def test_an_inner_value_used_outside_becomes_a_result():
    mod = graph("y = R.matmul(x, w)", "z = R.nn.relu(y)", "u = R.exp(y)", "gv = R.add(z, u)")
    made = by_pattern(mod, MM_RELU)
    assert composites(made) == ["toy.mm_relu"]
    assert_same(mod, made, X, W, B)


def test_a_match_that_would_need_itself_is_refused():
    pattern = ("toy.both", is_op("R.add")(wildcard(), is_op("R.exp")(wildcard())))
    mod = graph("y = R.exp(x)", "z = R.sort(y)", "gv = R.add(z, y)")
    assert by_pattern(mod, pattern) is mod


def test_constants_stay_inside_or_become_arguments():
    mod = graph('gv = R.add(x, R.const([1.0, 2.0, 3.0, 4.0], "float32"))')
    inside, outside = by_pattern(mod, ADD), by_pattern(mod, ADD, bind_constants=False)
    assert [len(m["fused_toy_add"].params) for m in (inside, outside)] == [1, 2]
    for made in (inside, outside):
        assert_same(mod, made, X, W, B)


def test_registered_patterns():
    register_patterns([("testlib.b", ADD[1]), ("testlib.c", MM[1])])
    register_patterns([("testlib.a", ADD[1])])
    assert [p.name for p in get_patterns_with_prefix("testlib.")] == ["testlib.a", "testlib.b", "testlib.c"]
    assert get_pattern("testlib.c").pattern is MM[1]
    with pytest.raises(PassError) as caught:
        get_pattern("testlib.none")
    assert caught.value.code == "E553"


def test_neighbours_of_one_library_merge():
    mod = graph("y = R.matmul(x, w)", "z = R.add(y, b)", "gv = R.exp(z)")
    made = merge_composite_functions(by_pattern(mod, MM, ADD))
    verify(made)
    marked = [f for f in made.graph_functions().values() if "Codegen" in f.attrs]
    assert [f.attrs["Codegen"] for f in marked] == ["toy"]
    assert len([f for f in collect(marked[0].body, Function) if "Composite" in f.attrs]) == 2
    assert_same(mod, made, X, W, B)


def test_what_lies_between_parts_them():
    mod = graph("y = R.matmul(x, w)", "u = R.exp(y)", "gv = R.add(y, u)")
    made = merge_composite_functions(by_pattern(mod, MM, ADD))
    verify(made)
    assert len([f for f in made.graph_functions().values() if "Codegen" in f.attrs]) == 2
    assert_same(mod, made, X, W, B)


@pytest.fixture
def toy():
    calls = []

    @register_codegen("toy")
    def codegen(functions, options):
        calls.append((list(functions), dict(options)))

        def kernel(a, b, c, out):
            out.numpy()[...] = np.matmul(a.numpy(), b.numpy()) + c.numpy()

        return dict.fromkeys(functions, kernel)

    yield calls
    del CODEGENS["toy"]


def test_a_code_generator_supplies_kernels(toy):
    mod = graph("y = R.matmul(x, w)", "z = R.add(y, b)", "gv = R.exp(z)")
    marked = merge_composite_functions(by_pattern(mod, MM, ADD))
    made = run_codegen.with_options(target_options={"toy": {"level": 3}})(marked)
    verify(made)
    assert toy == [(["fused_toy"], {"level": 3})] and get_global_func("fused_toy") is not None
    assert_same(mod, made, X, W, B)
    np.testing.assert_allclose(
        unity.VirtualMachine(unity.compile(made))["main"](X, W, B).numpy(), run(mod, "main", X, W, B), rtol=1e-5
    )


def test_a_code_generator_may_return_programs_or_nothing():
    mod = graph("y = R.add(x, w)", "gv = R.exp(y)")
    marked = by_pattern(mod, ADD, annotate_codegen=True)
    assert [f.attrs["Codegen"] for f in marked.graph_functions().values() if "Codegen" in f.attrs] == ["toy"]
    program = Pipeline.parse("legalize_ops")(mod)["add"]
    try:
        register_codegen("toy", lambda functions, options: dict.fromkeys(functions, program))
        assert_same(mod, run_codegen(marked), X, W, B)
        register_codegen("toy", lambda functions, options: {})
        left = run_codegen(marked)
        assert_same(mod, left, X, W, B)
        np.testing.assert_allclose(
            unity.VirtualMachine(unity.compile(left))["main"](X, W, B).numpy(), np.exp(X + W), rtol=1e-5
        )
        register_codegen("toy", lambda functions, options: dict.fromkeys(functions, 3))
        with pytest.raises(PassError) as caught:
            run_codegen(marked)
        assert caught.value.code == "E553"
    finally:
        del CODEGENS["toy"]
    with pytest.raises(PassError) as caught:
        run_codegen(marked)
    assert caught.value.code == "E553" and "register_codegen" in str(caught.value)


def test_the_default_pipeline_names_its_passes():
    assert {"annotate_tir_op_pattern", "fuse_ops", "fuse_tir"} <= {step.name for step in DEFAULT_PIPELINE}


def test_wrong_names_and_results_of_rewriters_are_refused():
    mod = parse('@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    y = R.exp(x)\n    return y\n')
    fn = mod if isinstance(mod, Function) else mod["main"]
    for wrong in (lambda: is_op("R.exq"), lambda: is_op("relax.exq")):
        with pytest.raises(PassError, match="did you mean") as caught:
            wrong()
        assert caught.value.code == "E553"
    for made in (None, 3, "R.exp"):
        with pytest.raises(PassError, match="not an expression") as caught:
            rewrite_call(is_op("R.exp")(wildcard()), lambda value, found, made=made: made, fn)
        assert caught.value.code == "E553"
