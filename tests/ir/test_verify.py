"""The verifier: valid programs pass, each rule is broken once and found under its code."""

from __future__ import annotations

from typing import Any

import pytest
from samples import I64, buffer, i64, load, loop, matmul, matmul_module, nest, point, prim_func

from unity.ir import (
    Add,
    AllocBuffer,
    And,
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    DataflowBlock,
    Evaluate,
    For,
    Function,
    GlobalVar,
    IfThenElse,
    IRModule,
    IterVar,
    PrimFunc,
    Range,
    Return,
    SeqExpr,
    SeqStmt,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
    op,
    prim_type,
    replace,
    seq,
)  # fmt: skip
from unity.ir.build import const
from unity.ir.expr import BindingBlock
from unity.ir.relation import tensor_type
from unity.ir.verifier.verifier import is_well_formed, verify, violations
from unity.script import parse
from unity.support.errors import VerifyError

F32 = prim_type("float32")


def codes(program: Any, level: int = 1) -> set[str]:
    return {error.code for error in violations(program, level)}


def test_valid_programs_pass_at_every_level():
    for program in (matmul(), matmul("parallel"), matmul(declared=False), matmul_module()):
        for level in (0, 1, 2):
            verify(program, level)
    assert is_well_formed(matmul_module(), 2)


def test_all_violations_are_collected_with_their_path():
    a = buffer("A", (4,))
    i = loop("i", 4)
    body = nest([i], seq(BufferStore(a, i64(1), (i[0],)), BufferStore(a, load(a, i[0], i[0]), (i[0],)), Break()))
    broken = prim_func(replace(body, kind="parallel"), a)
    with pytest.raises(VerifyError) as caught:
        verify(IRModule({"broken": broken}, {}, {}))
    found = caught.value.errors
    assert [e.code for e in found] == ["E341", "E342", "E345"]
    assert "in broken.i" in str(found[0]) and "3 errors" in str(caught.value)


def store(value: Any, dtype: str = "float32") -> PrimFunc:
    a = buffer("A", (4,), dtype)
    return prim_func(BufferStore(a, value, (i64(0),)), a)


A = buffer("A", (4,))
V, W = Var("v", I64), Var("w", I64)
ONE = const(1.0, "float32")
BAD_PRIM = {
    "dataflow variable": ("E334", lambda: prim_func(Bind(replace(V, dataflow=True), i64(1)), A)),
    "mixed operands": ("E341", lambda: store(Add(ONE, const(1.0, "float64"), F32))),
    "wrong result type": ("E341", lambda: store(Add(ONE, ONE, prim_type("float64")))),
    "bool operands of and": ("E341", lambda: store(And(const(1), const(1), prim_type("bool")), "bool")),
    "stored type": ("E341", lambda: store(const(1, "int32"))),
    "undefined variable": ("E340", lambda: store(Add(V, V, I64), "int64")),
    "undeclared buffer": ("E340", lambda: store(load(buffer("X", (4,)), i64(0)))),
    "float index": ("E342", lambda: prim_func(BufferStore(A, BufferLoad(A, (ONE,), F32), (i64(0),)), A)),
    "unknown intrinsic": ("E347", lambda: store(Call(op("T.no_such"), (), {}, (), F32))),
    "arity": ("E347", lambda: store(Call(op("T.exp"), (), {}, (), F32))),
    "graph operator": ("E347", lambda: store(Call(op("R.add"), (ONE, ONE), {}, (), F32))),
    "loop kind": ("E343", lambda: prim_func(For(V, i64(0), i64(4), "sideways", SeqStmt(())), A)),
    "thread missing": ("E343", lambda: prim_func(For(V, i64(0), i64(4), "thread_binding", SeqStmt(())), A)),
    "loop bounds": ("E341", lambda: prim_func(For(V, i64(0), const(4, "int32"), "serial", SeqStmt(())), A)),
    "bound twice": ("E333", lambda: prim_func(seq(Bind(V, i64(1)), Bind(V, i64(2))), A)),
    "scope of a branch": ("E340", lambda: prim_func(
        seq(IfThenElse(const(True), Bind(V, i64(1))), Bind(W, V)), A)),
    "condition": ("E341", lambda: prim_func(IfThenElse(const(1), SeqStmt(())), A)),
    "break outside": ("E345", lambda: prim_func(Break(), A)),
    "return value": ("E341", lambda: replace(prim_func(Return(i64(1)), A), ret_ty=prim_type("int32"))),
    "block outside": ("E344", lambda: prim_func(Block((), None, None, (), (), {}, "b", SeqStmt(())), A)),
    "block values": ("E344", lambda: prim_func(
        BlockRealize((), const(True),
                     Block((IterVar(V, Range(i64(0), i64(4)), "S"),), None, None, (), (), {}, "b", SeqStmt(()))), A)),
    "iterator kind": ("E344", lambda: prim_func(
        BlockRealize((i64(0),), const(True),
                     Block((IterVar(V, Range(i64(0), i64(4)), "Q"),), None, None, (), (), {}, "b", SeqStmt(()))), A)),
    "region rank": ("E342", lambda: prim_func(
        BlockRealize((), const(True), Block((), (BufferRegion(A, ()),), (), (), (), {}, "b", SeqStmt(()))), A)),
    "call of nothing": ("E337", lambda: IRModule(
        {"f": prim_func(Evaluate(Call(GlobalVar("g"), (), {}, (), prim_type("void"))), A)}, {}, {})),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PRIM)
def test_broken_tensor_programs(name):
    code, make = BAD_PRIM[name]
    assert codes(make()) == {code}, [str(e) for e in violations(make())]


def graph(
    *bindings: VarBinding, result: Any, params: tuple[Var, ...] = (), dataflow: bool = False, pure: bool = True
) -> Function:
    block = (DataflowBlock if dataflow else BindingBlock)(tuple(bindings))
    body = SeqExpr((block,), result)
    return Function(params, body, result.ty, pure, {"global_symbol": "main"})


def exp(x: Any, ty: Any = None) -> Call:
    return Call(op("R.exp"), (x,), {}, (), ty or x.ty)


T4, T5 = tensor_type((i64(4),), "float32"), tensor_type((i64(5),), "float32")
X = Var("x", T4)
Y, Z, D = Var("y", T4), Var("z", T4), Var("d", T4, dataflow=True)
N = Var("n", I64)
PRINT = Call(op("R.print"), (X,), {"format": ""}, (), Tuple(()).ty)
U = Var("u", Tuple(()).ty)

BAD_GRAPH = {
    "nested call": ("E331", lambda: graph(VarBinding(Y, exp(exp(X))), result=Y, params=(X,))),
    "no sequence": ("E331", lambda: Function((X,), X, T4, True, {})),
    "undefined": ("E332", lambda: graph(VarBinding(Y, exp(Z)), result=Y, params=(X,))),
    "before": ("E332", lambda: graph(VarBinding(Y, exp(Z)), VarBinding(Z, exp(X)), result=Y, params=(X,))),
    "bound twice": ("E333", lambda: graph(VarBinding(Y, exp(X)), VarBinding(Y, exp(X)), result=Y, params=(X,))),
    "parameter bound again": ("E333", lambda: graph(VarBinding(X, exp(X)), result=X, params=(X,))),
    "dataflow leaves": ("E334", lambda: graph(VarBinding(D, exp(X)), result=D, params=(X,), dataflow=True)),
    "dataflow outside": ("E334", lambda: graph(VarBinding(D, exp(X)), result=X, params=(X,))),
    "type disagrees": ("E335", lambda: graph(VarBinding(Var("y", T5), exp(X)), result=X, params=(X,))),
    "call type": ("E335", lambda: graph(VarBinding(Var("y", T5), exp(X, T5)), result=X, params=(X,))),
    "effect in dataflow": ("E336", lambda: graph(VarBinding(U, PRINT), result=X, params=(X,), dataflow=True, pure=False)),
    "effect in pure": ("E336", lambda: graph(VarBinding(U, PRINT), result=X, params=(X,))),
    "unknown operator": ("E203", lambda: graph(VarBinding(Y, Call(op("R.no_such"), (X,), {}, (), T4)), result=Y, params=(X,))),
    "symbol": ("E338", lambda: graph(VarBinding(Var("s", ShapeExpr((N,)).ty), ShapeExpr((N,))), result=X, params=(X,))),
    "unknown function": ("E337", lambda: IRModule({"main": graph(
        VarBinding(Y, Call(op("R.call_dps"), (GlobalVar("nothing"), Tuple((X,))), {}, (T4,), T4)), result=Y,
        params=(X,))}, {}, {})),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_GRAPH)
def test_broken_graph_functions(name):
    code, make = BAD_GRAPH[name]
    found = codes(make())
    if name == "unknown operator":  # it counts as impure as well
        found.discard("E336")
    assert code in found and len(found - {"E338"} if name != "symbol" else found) == 1, [
        str(e) for e in violations(make())
    ]


def test_call_dps_must_fit_the_buffers():
    mod = matmul_module()
    main = mod["main"]
    binding = main.body.blocks[0].bindings[0]
    for changed in (
        replace(binding.value, args=(binding.value.args[0], Tuple((main.params[1], main.params[0])))),
        replace(binding.value, args=(binding.value.args[0], Tuple((main.params[0],)))),
    ):
        body = SeqExpr((DataflowBlock((VarBinding(binding.var, changed),)),), main.body.body)
        assert codes(mod.with_functions({"main": replace(main, body=body)})) == {"E346"}


def test_level_zero_names_the_field():
    a = buffer("A", (4,))
    broken = prim_func(For(V, i64(0), 4, "serial", SeqStmt(())), a)  # type: ignore[arg-type]
    (error,) = violations(broken, 0)
    assert error.code == "E330" and "extent" in error.message and "int" in error.message
    as_list = Tuple([X])  # type: ignore[arg-type]
    assert codes(Function((X,), as_list, T4, True, {}), 0) == {"E330"}
    unranked = Var("x", replace(T4, ndim=-1))
    assert codes(Function((unranked,), unranked, T4, True, {}), 0) == {"E330"}


@pytest.mark.parametrize(
    ("body", "races"),
    [
        ("for k in range(4): A[k] = A[i]", True),
        ("x: T.int64 = i\n        A[x] = 1.0", False),
        ("x: T.int64 = n + 1\n        A[x] = 1.0", True),
        ("for k in range(n): A[k] = 1.0", False),  # perhaps nothing is stored
        ("for k in range(i, i + 1): A[k] = 1.0", False),
        ("A[A[0].astype('int64')] = 1.0", False),
        ("if i > 2: A[0] = 1.0", False),
        ("B = T.alloc_buffer((1,), 'float32', scope='local')\n        B[0] = A[i]", False),
    ],
)
def test_stores_that_all_iterations_of_a_parallel_loop_make(body, races):
    text = f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), n: T.int64):
    for i in T.parallel(8):
        {body}
"""
    assert codes(parse(text), 2) == ({"E351"} if races else set())


def test_level_two_finds_small_regions_and_sure_races():
    a, b = buffer("A", (8,)), buffer("B", (8,))
    i, vi = loop("i", 7), Var("vi", I64)
    block = Block(
        (IterVar(vi, Range(i64(0), i64(7)), "S"),), (BufferRegion(a, point(vi)),), (BufferRegion(b, point(vi)),), (), (), {},
        "copy", BufferStore(b, load(a, Add(vi, i64(1), I64)), (vi,)),
    )  # fmt: skip
    assert codes(prim_func(nest([i], BlockRealize((i[0],), const(True), block)), a, b), 2) <= {"E350"}
    j = loop("j", 8, "parallel")
    race = prim_func(nest([j], BufferStore(b, load(a, j[0]), (i64(0),))), a, b)
    assert codes(race, 1) == set()
    assert codes(race, 2) == {"E351"}
    t = buffer("T", (1,))
    k = loop("k", 8, "parallel")
    private = seq(AllocBuffer(t), BufferStore(t, load(a, k[0]), (i64(0),)))
    assert codes(prim_func(nest([k], private), a, b), 2) == set()
