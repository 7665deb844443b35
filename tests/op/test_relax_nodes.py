"""Nodes and calls made in Python by TVM's names, from lists and numbers."""

import numpy as np
import pytest

import unity
from unity import ir, relax, te, topi
from unity.ir import rewrite
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse

n = te.var("n", "int64")
TY = relax.TensorStructInfo((n, 4), "float32")
INPLACE = """
@T.prim_func(private=True)
def inplace(p: T.handle):
    m = T.int64()
    A = T.match_buffer(p, (m, 4), "float32")
    for i, j in T.grid(m, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_names_stand_for_classes() -> None:
    x = relax.Var("x", TY)
    call = relax.Call(ir.Op.get("relax.add"), [x, x])
    made = [
        x,
        call,
        relax.Tuple([x, x]),
        relax.TupleGetItem(relax.Tuple([x]), 0),
        relax.ShapeExpr([n, 4]),
        relax.const(1.0),
    ]
    names = ["Var", "Call", "Tuple", "TupleGetItem", "ShapeExpr", "Constant"]
    for value, name in zip(made, names):
        assert isinstance(value, getattr(relax, name)) and type(value) is getattr(ir, name)
        assert [k for k in names if isinstance(value, getattr(relax, k))] == [name]
    inner = relax.DataflowVar("d", TY)
    assert isinstance(inner, relax.Var) and not isinstance(x, relax.DataflowVar)
    assert relax.Var == ir.Var != relax.DataflowVar != relax.Var
    assert isinstance(x.ty, relax.TensorStructInfo) and not isinstance(x.ty, relax.ShapeType)
    func = relax.Function([x], call)
    swapped = rewrite(func, {relax.Call: lambda c: relax.Call(ir.op("R.multiply"), c.args)})  # as a key of rules
    assert "R.multiply" in swapped.script() and "R.add" not in swapped.script()
    match call:
        case relax.Call():
            pass
        case _:
            raise AssertionError


def test_a_function_made_of_nodes_runs() -> None:
    x, c = relax.Var("x", TY), relax.Var("c", relax.TensorType((), "bool"))
    y, z = relax.DataflowVar("y", TY), relax.Var("z", TY)
    block = relax.DataflowBlock([relax.VarBinding(y, relax.op.exp(x)), relax.VarBinding(z, relax.op.add(y, y))])
    chosen = relax.Var("chosen", TY)
    last = relax.BindingBlock([relax.VarBinding(chosen, relax.If(c, relax.op.negative(relax.op.exp(z)), z))])
    func = relax.Function([x, c], relax.SeqExpr([block, last], chosen), attrs={"global_symbol": "main"})
    assert func.pure and unity.ir.structural_equal(func.ret_ty, relax.TensorType((n, 4)))
    mod = unity.IRModule.from_expr(func)
    verify(mod)
    vm = unity.VirtualMachine(unity.compile(mod))
    data = np.ones((2, 4), "float32")
    for flag, wanted in ((True, -np.exp(2 * np.exp(data))), (False, 2 * np.exp(data))):
        np.testing.assert_allclose(np.asarray(vm["main"](data, np.array(flag))), wanted, rtol=1e-5)


def test_calls_of_programs() -> None:
    program = te.create_prim_func(
        [a := te.placeholder((n, 4), "float32", "a"), te.compute((n, 4), lambda i, j: a[i, j] * 2)]
    )
    bb = relax.BlockBuilder()
    x = relax.Var("x", TY)
    double = bb.add_func(program, "double")
    inplace = bb.add_func(parse(INPLACE), "inplace")
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(relax.call_tir(double, [x], TY))
            b = bb.emit(relax.op.call_tir(double, relax.Tuple([a]), out_sinfo=TY))
            c = bb.emit(relax.op.call_tir_inplace(inplace, (bb.emit(relax.op.exp(b)),), 0, TY))
            d = bb.emit(relax.op.call_dps_packed("tests.relax_nodes.add", [c, x], TY))
            out = bb.emit_output(relax.op.call_pure_packed("tests.relax_nodes.negate", d, sinfo_args=[TY]))
        bb.emit_func_output(out)
    mod = bb.get()
    verify(mod)

    @unity.register_func("tests.relax_nodes.add", override=True)
    def add(p, q, r) -> None:
        np.add(np.asarray(p), np.asarray(q), out=np.asarray(r))

    unity.register_func("tests.relax_nodes.negate", lambda p: unity.tensor(-np.asarray(p)), override=True)
    data = np.full((3, 4), 0.25, "float32")
    found = unity.VirtualMachine(unity.compile(mod))["main"](data)
    np.testing.assert_allclose(np.asarray(found), -(2 * np.exp(4 * data) + data), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(run(mod, "main", data)), np.asarray(found), rtol=1e-5)


def test_mistakes_are_named() -> None:
    x = relax.Var("x", TY)
    for wrong, match in (
        (lambda: relax.Tuple(x), "argument fields is a Var, expected Sequence"),
        (lambda: relax.TupleGetItem(relax.Tuple([x]), 1), "no field 1"),
        (lambda: relax.Var(x), "argument name is a Var, expected str"),
        (lambda: relax.Call(ir.op("R.add"), [x, relax.Var("y", relax.TensorType((n, 3)))]), "R.add"),
        (lambda: relax.call_tir(relax.GlobalVar("f"), [x]), "needs the type of its result"),
        (lambda: relax.call_tir(relax.GlobalVar("f"), [x], (4, 4)), "needs the type of its result"),
    ):
        with pytest.raises(unity.UnityError, match=match):
            wrong()
    with pytest.raises(AttributeError, match=r"did you mean R\.matmul"):
        _ = relax.op.matmull
    with pytest.raises(TypeError, match="a tuple has fields"):
        _ = x[0]
    assert topi.add is not relax.op.add
