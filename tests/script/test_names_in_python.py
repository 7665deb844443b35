"""Names of script in Python: ``R.Tensor(...)`` makes types, ``R.const`` values, operators calls; functions are built with them."""

import numpy as np
import pytest

import unity
from unity import ir, relax, tir
from unity.script import ir as I, relax as R, s_tir as Ts, tir as T
from unity.support.errors import ScriptError

N = tir.Var("n", "int64")
M = T.Var("m", "int32")
DTYPE = "float32"


def test_types() -> None:
    assert str(R.Tensor((N, 4), "float32")) == 'R.Tensor((n, 4), "float32")'
    assert str(R.Tensor("int8", ndim=2)) == str(R.Tensor(ndim=2, dtype="int8")) == 'R.Tensor(dtype="int8", ndim=2)'
    assert str(R.Shape([2, N])) == "R.Shape([2, n])" and str(R.Prim("int64")) == 'R.Prim("int64")'
    assert str(R.Tuple(R.Tensor((2,)), R.Object())) == "R.Tuple(R.Tensor((2,)), R.Object)"
    assert isinstance(R.Callable([R.Tensor((2,), "float32")], R.Object()), ir.FuncType)
    assert R.Tensor(("n", 4), "float32") is R.Tensor  # symbols as texts: an annotation of script, where nothing happens


def test_types_of_python_stand_in_script() -> None:
    Row = R.Tensor((4,), DTYPE)

    @R.function
    def f(x: Row) -> Row:
        return R.add(x, x)

    assert str(f.params[0].ty) == 'R.Tensor((4,), "float32")'


def test_values_and_operators() -> None:
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    assert ir.structural_equal(R.const(1.5, "float32"), relax.const(1.5, "float32"))
    assert (
        str(R.shape([2, N])) == str(relax.ShapeExpr([2, N])) and R.prim_value(3).value == 3 and R.str("a").value == "a"
    )
    assert R.nn.softmax(x, axis=1).op is ir.op("R.nn.softmax") and R.concat([x, x], axis=0).op is ir.op("R.concat")
    assert R.call_tir(relax.GlobalVar("f"), (x,), R.Tensor((2, 3), "float32")).op is ir.op("R.call_dps")
    for wrong in (lambda: R.nn.softmax(1.0), lambda: R.zeros((2, 3), "float32"), lambda: T.exp(1.0)):
        with pytest.raises(ScriptError, match="E123"):
            wrong()


@Ts.function
def rows(A: T.Tensor((T.max(M, 1), M), "float32")):
    A[0, M - 1] = 1.0


def test_symbols_and_scalars() -> None:
    assert (M.name, M.ty.dtype.name, T.dynamic("k").ty.dtype.name) == ("m", "int32", "int64")
    assert I.dynamic("m") is not I.dynamic("m") and unity.script.s_tir is Ts
    assert (
        str(T.ceildiv(M, 2)) == "(m + 1) // 2" and str(T.Select(tir.GT(M, 3), M, 3)) == "T.Select(m > 3, m, T.int32(3))"
    )
    assert "A = T.match_buffer(A_handle, (T.max(m, 1), m)" in str(rows)
    for wrong in (lambda: I.dynamic(), lambda: I.dynamic(3), lambda: T.dynamic("n", dtype="int3"), lambda: T.dynamic()):
        with pytest.raises(unity.UnityError):
            wrong()


def test_operators_of_python() -> None:
    x, y = [relax.Var(name, R.Tensor((2, 3), "float32")) for name in "xy"]
    pair = relax.Tuple([x, y])
    made = [x + y, x - 1, 2.0 * x, x / y, x // y, x % y, x**2, -x, x.astype("float16"), pair[1], pair[-2]]
    assert [str(m) for m in made] == [
        "R.add(x, y)", 'R.subtract(x, R.const(1.0, "float32"))', 'R.multiply(R.const(2.0, "float32"), x)', "R.divide(x, y)",
        "R.floor_divide(x, y)", "R.mod(x, y)", 'R.power(x, R.const(2.0, "float32"))', "R.negative(x)",
        'R.astype(x, dtype="float16")', "y", "x",
    ]  # fmt: skip
    first, second = pair
    assert first is x and second is y
    shape = relax.ShapeExpr([N, 4])
    assert [shape[0], len(shape), int(shape[1]), bool(relax.ShapeExpr([]))] == [N, 2, 4, True]
    for wrong in (lambda: x[0], lambda: pair[2], lambda: x + "a", lambda: N + x):
        with pytest.raises((TypeError, IndexError)):
            wrong()
    assert (
        str(N.astype("float32")) == 'T.Cast("float32", n)'
        and N.name_hint == "n"
        and relax.GlobalVar("f").name_hint == "f"
    )


def test_branches_are_put_in_order() -> None:
    c, x = relax.Var("c", R.Tensor((), "bool")), relax.Var("x", R.Tensor((2,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [c, x]):
        sums, products = relax.SeqExpr([], x + x * 3.0), relax.SeqExpr([], relax.op.multiply(x, x))
        bb.emit_func_output(bb.emit(relax.If(c, sums, products)))
    vm = relax.VirtualMachine(relax.build(bb.get(), "llvm"), unity.cpu())
    three = np.full(2, 3, "float32")
    assert vm["main"](np.array(True), three).numpy()[0] == 12 and vm["main"](np.array(False), three).numpy()[0] == 9


@I.ir_module
class Halves:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


def test_builds_take_arguments_of_tvm() -> None:
    x, w = np.ones((4, 4), "float32"), np.full((4, 4), 0.5, "float32")
    wanted = np.full((4, 4), 2.0, "float32")
    for options in (
        {"params": {"w": w}},
        {"params": {"w": unity.nd.array(w)}, "relax_pipeline": "zero", "tir_pipeline": "default"},
        {"params": {"w": w}, "relax_pipeline": relax.get_pipeline("default"), "exec_mode": "compiled"},
    ):
        vm = relax.VirtualMachine(relax.build(Halves, "llvm", **options), unity.cpu())
        np.testing.assert_array_equal(vm["main"](x).numpy(), wanted)
    with pytest.raises(unity.UnityError, match="no pipeline 'nope'"):
        relax.build(Halves, relax_pipeline="nope")


def test_modules_by_reference() -> None:
    ref = Halves.get_global_var("main")
    mod = unity.IRModule({ref: Halves["main"]}).with_attr("k", 1)
    assert list(mod.functions) == ["main"] and mod.get_attr("k") == 1 and mod.without_attr("k").get_attr("k") is None
    assert [(gv.name_hint, f) for gv, f in mod.functions_items()] == [("main", Halves["main"])]
    assert "main" not in mod.with_functions({ref: None}) and ref.same_as(ref)
    assert relax.analysis.all_global_vars(Halves["main"]) == [] and not relax.analysis.contains_impure_call(
        Halves["main"]
    )
    block = Halves["main"].body.blocks[0]
    assert [v.name for v in relax.analysis.udchain(block)] == ["x", "w", "y"]


def test_targets() -> None:
    target = unity.target.Target("llvm -num-cores=2")
    assert target.kind == "llvm" and target.kind.name == "llvm" and target.attrs == {"num-cores": 2}


def test_passes_of_tensor_programs_by_their_names() -> None:
    mod = relax.transform.LegalizeOps()(Halves)
    for name in dir(tir.transform):
        if name[0].isupper():
            assert getattr(tir.transform, name)().name in unity.transform.PASSES, name
    assert tir.transform.Simplify()(mod) and tir.analysis.verify_well_formed(mod)
    with pytest.raises(AttributeError, match="did you mean UnrollLoop"):
        _ = tir.transform.UnrollLoops
