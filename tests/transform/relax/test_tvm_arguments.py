"""Passes under TVM's names with TVM's arguments: each does what TVM's documentation says, and the program means the same."""

import numpy as np
import pytest

import unity
from unity import relax, topi
from unity.ir import Call, collect
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax import transform
from unity.relax.dpl import is_op, wildcard
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import PassContext, register_codegen

RNG = np.random.default_rng(0)
CONVOLUTIONS = parse("""
@I.ir_module
class Convolutions:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), v: R.Tensor((4, 2, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.relu(R.nn.conv2d(x, w, padding=(1, 1)))
            b = R.nn.relu(R.nn.conv2d(a, v, groups=2))
            t = (a, b)
            c = R.exp(t[1])
            d = R.exp(t[1])
            y = R.add(c, d)
            R.output(y)
        return y

    @R.function(private=True)
    def spare(x: R.Tensor((2,), "float32")):
        a = R.nn.dropout(x, rate=0.5)
        y = a[0]
        return y
""")
IMAGES = [RNG.standard_normal(s, dtype=np.float32) for s in ((1, 3, 8, 8), (4, 3, 3, 3), (4, 2, 3, 3))]
PRODUCTS = parse("""
@I.ir_module
class Products:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            y = R.subtract(p, R.nn.relu(q))
            R.output(y)
        return y
""")
MATRICES = [RNG.standard_normal(s, dtype=np.float32) for s in ((3, 4), (4, 4), (4, 4))]


def same(step, mod=CONVOLUTIONS, args=IMAGES, tolerance=1e-4):
    """The module after the pass: valid, printable, and equal in meaning, interpreted and compiled."""
    made = step(mod)
    verify(made)
    assert unity.ir.structural_equal(parse(made.script()), made)
    wanted = np.asarray(run(mod, "main", *args))
    for found in (run(made, "main", *args), unity.VirtualMachine(unity.compile(made))["main"](*args)):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    return made


def ops(mod):
    return [c.op.name for c in collect(mod["main"], Call) if isinstance(c.op, unity.ir.Op)]


def test_legalize_takes_functions_of_a_builder() -> None:
    seen = []

    def relu(bb, call):
        seen.append(call)
        return bb.call_te(topi.maximum, bb.emit(relax.op.multiply(call.args[0], relax.const(1.0))), relax.const(0.0))

    made = same(transform.LegalizeOps({"relax.nn.relu": relu}, ["relax.exp"]))
    assert len(seen) == 2 and "maximum" in made.prim_funcs() and "relu" not in made.prim_funcs()
    assert ops(made).count("R.exp") == 2 and set(ops(made)) == {"R.exp", "R.call_dps"}
    with pytest.warns(UserWarning, match=r"no lowering of R\.print"):
        text = '@R.function(pure=False)\ndef main(x: R.Tensor((2,), "float32")):\n    R.print(x, format="{}")\n    return x\n'
        transform.LegalizeOps(enable_warning=True)(unity.IRModule.from_expr(parse(text)))


def test_layouts_by_name() -> None:
    desired = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
    for step in (transform.ConvertLayout(desired), transform.ConvertLayout({}, lambda call: desired)):
        made = same(step)
        calls = [c for c in collect(made["main"], Call) if c.op is unity.ir.op("R.nn.conv2d")]
        assert [(c.attrs["data_layout"], c.attrs["kernel_layout"]) for c in calls] == [("NHWC", "OHWI")] * 2
        assert ops(made).count("R.permute_dims") == 5  # the data, both weights, both values of the tuple
    only = same(transform.ConvertLayout({}, lambda call: desired if call.attrs["groups"] == 1 else {}))
    assert [c.attrs["data_layout"] for c in collect(only["main"], Call) if c.op is unity.ir.op("R.nn.conv2d")] == [
        "NHWC",
        "NCHW",
    ]
    assert transform.ConvertLayout({"relax.nn.conv1d": ["NWC", "OWI"]})(CONVOLUTIONS) is CONVOLUTIONS
    with pytest.raises(PassError, match="NCHW4c"):
        transform.ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]})(CONVOLUTIONS)


def test_entry_functions() -> None:
    assert "spare" not in same(transform.DeadCodeElimination())
    assert "spare" in same(transform.DeadCodeElimination(["spare"]))
    with pytest.raises(PassError, match="no function 'mian'"):
        transform.DeadCodeElimination(["mian"])(CONVOLUTIONS)
    calls = same(transform.EliminateCommonSubexpr(call_only=True))
    assert len(collect(calls["main"], relax.TupleGetItem)) == 2 and ops(calls).count("R.exp") == 2
    assert ops(same(transform.EliminateCommonSubexpr())).count("R.exp") == 1
    assert transform.DecomposeOpsForInference("main")(CONVOLUTIONS) is CONVOLUTIONS
    assert "dropout" not in transform.DecomposeOpsForInference("spare")(CONVOLUTIONS).script()
    with pytest.raises(PassError, match="no function 'other'"):
        transform.DecomposeOpsForTraining("other")(CONVOLUTIONS)


def test_levels_of_fusion() -> None:
    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(CONVOLUTIONS))
    assert transform.FuseOps(fuse_opt_level=0)(mod) is mod
    with PassContext(opt_level=0):
        assert transform.FuseOps()(mod) is mod
        assert transform.FuseOps(fuse_opt_level=2)(mod) is not mod
    assert any(f.attrs.get("Primitive") for f in same(transform.FuseOps(), mod).graph_functions().values())


def test_mixed_precision_by_its_results_and_inputs() -> None:
    wide = same(transform.ToMixedPrecision(), PRODUCTS, MATRICES, 1e-2)
    low = same(transform.ToMixedPrecision(out_dtype="float16"), PRODUCTS, MATRICES, 1e-2)
    kinds = [
        [c.ty.dtype.name for c in collect(m["main"], Call) if c.op is unity.ir.op("R.matmul")] for m in (wide, low)
    ]
    assert kinds == [["float32"] * 2, ["float16"] * 2]
    made = transform.ToMixedPrecision(fp16_input_names=["a", "b"])(PRODUCTS)
    verify(made)
    assert [p.ty.dtype.name for p in made["main"].params] == ["float32", "float16", "float16"]
    halves = [m.astype("float16") for m in MATRICES[1:]]
    wanted = np.asarray(run(PRODUCTS, "main", *MATRICES))
    for found in (
        run(made, "main", MATRICES[0], *halves),
        unity.VirtualMachine(unity.compile(made))["main"](MATRICES[0], *halves),
    ):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-2, atol=2e-2)
    clean = transform.DeadCodeElimination()(made)
    assert [c.args[0].name for c in collect(clean["main"], Call) if c.op is unity.ir.op("R.astype")] == ["x"]


def test_parallel_products_are_asked_for() -> None:
    asked = []

    def check(left, rights, biases, values):
        asked.append((left.name, [r.name for r in rights], biases, sorted(v.name for v in values)))
        return len(asked) > 1

    step = transform.CombineParallelMatmul(check)
    assert step(PRODUCTS) is PRODUCTS
    assert ops(same(step, PRODUCTS, MATRICES)).count("R.matmul") == 1
    assert asked[0] == ("x", ["a", "b"], [], ["lv", "p", "q", "y"])


def test_attributes_of_matches() -> None:
    root = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = transform.FusionPattern(
        "lib.conv_relu", is_op("relax.nn.relu")(root), {"root": root}, lambda ctx: ctx.annotated_expr["root"].attrs["groups"] == 2,
        lambda parts: {"groups": str(parts["root"].attrs["groups"])},
    )  # fmt: skip
    for given in (pattern, ("lib.conv_relu", pattern.pattern, {"root": root}, pattern.check, pattern.attrs_getter)):
        made = same(transform.FuseOpsByPattern([given]))
        (found,) = [f for f in made.graph_functions().values() if f.attrs.get("Composite")]
        assert found.attrs["groups"] == "2"


def test_codegen_keeps_what_entries_need() -> None:
    register_codegen("test_arguments", lambda functions, options: {})
    pattern = ("test_arguments.exp", is_op("relax.exp")(wildcard()))
    mod = transform.FuseOpsByPattern([pattern], annotate_codegen=True)(CONVOLUTIONS)
    assert "spare" in transform.RunCodegen()(mod)
    assert "spare" not in same(transform.RunCodegen(entry_functions=["main"]), mod)


def test_a_whole_pipeline_of_tvm_runs() -> None:
    @relax.register_pipeline("test_arguments")
    def made(fold: bool):
        steps = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), *[transform.FoldConstant()] * fold, transform.FuseOps(),
                 transform.FuseTIR(), transform.RewriteDataflowReshape(), transform.ToNonDataflow(), transform.RemovePurityChecking(),
                 transform.CallTIRRewrite(), transform.StaticPlanBlockMemory(), transform.LowerAllocTensor(),
                 transform.KillAfterLastUse(), transform.LowerRuntimeBuiltin(), transform.VMBuiltinLower(),
                 transform.VMShapeLower(emit_err_ctx=False), transform.AttachGlobalSymbol()]  # fmt: skip
        return unity.transform.Pipeline(steps)

    lowered = relax.get_pipeline("test_arguments", fold=True)(PRODUCTS)
    assert "R.builtin.alloc_tensor" not in lowered.script() and "R.memory.alloc_storage" in lowered.script()
    found = unity.VirtualMachine(unity.compile(PRODUCTS, pipeline=relax.get_pipeline("test_arguments", fold=False)))[
        "main"
    ](*MATRICES)
    np.testing.assert_allclose(np.asarray(found), np.asarray(run(PRODUCTS, "main", *MATRICES)), rtol=1e-4, atol=1e-5)
    assert relax.get_default_pipeline() is unity.transform.DEFAULT_PIPELINE
    with pytest.raises(PassError, match="test_arguments"):
        relax.get_pipeline("none")
    with pytest.raises(AttributeError, match="did you mean LegalizeOps"):
        _ = transform.LegaliseOps
