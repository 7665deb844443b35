"""Forms that the passes of models for TVM are full of: earlier names of types, attributes by name, patterns by class, nodes of
tensor programs made by hand, functions captured with options that may be None."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unity.relax.expr import Call, Expr  # a module of TVM whose names are in unity.relax
from unity.tir.op import tvm_thread_invariant

import unity
from unity import relax, te, tir
from unity.ir import GlobalVar, Op, assert_structural_equal
from unity.relax.dpl.pattern import ExternFuncPattern, GlobalVarPattern, TuplePattern, is_op, wildcard
from unity.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from unity.script import relax as R, tir as T
from unity.support.errors import InternalError, VerifyError

N = tir.Var("n", "int64")
X = relax.Var("x", relax.TensorStructInfo((N, 4), "float32"))
W = relax.Var("w", relax.TensorStructInfo((8, 4), "float32"))


def module() -> unity.IRModule:
    bb = relax.BlockBuilder()
    with bb.function("main", [X, W]):
        assert relax.BlockBuilder.current() is bb
        with bb.dataflow():
            scaled = bb.emit_te(
                lambda w: te.compute(w.shape, lambda i, j: w[i, j] * 2.0), W, primfunc_name_hint="decode"
            )
            out = bb.emit_output(relax.op.matmul(X, relax.op.permute_dims(scaled)))
        made = bb.emit_func_output(out)
    assert relax.BlockBuilder.current() is None and made.name_hint == "main"
    assert bb.get()[made].ret_struct_info is made.struct_info.ret
    return bb.finalize()


@mutator
class _Untransposed(PyExprMutator):
    """Products with a transposed decoded weight become a library call: what such passes ask of calls."""

    def visit_call_(self, call: Call) -> Expr:
        call = self.visit_expr_post_order(call)
        if call.op != Op.get("relax.matmul") or call.attrs.out_dtype is not None:
            return call
        weight = self.lookup_binding(call.args[1])
        if not isinstance(weight, Call) or weight.op != Op.get("relax.permute_dims") or weight.attrs.axes is not None:
            return call
        assert weight.args[0].struct_info.ndim == 2 and weight.args[0].struct_info.shape[0] == 8
        decode = self.lookup_binding(weight.args[0])
        if decode.op != Op.get("relax.call_tir") or not decode.args[0].name_hint.startswith("decode"):
            return call
        assert decode.sinfo_args[0].dtype == "float32" and len(decode.args[1]) == 1 and decode.args[1][0] is W
        return relax.call_dps_packed("lib.nt", [call.args[0], weight.args[0]], out_sinfo=call.struct_info)


def test_a_mutator_in_tvms_words() -> None:
    mod = module()
    rewriter = _Untransposed(mod.clone())
    for ref, func in mod.functions_items():
        if isinstance(func, relax.Function):
            rewriter.builder_.update_func(ref, relax.analysis.remove_all_unused(rewriter.visit_expr(func)))
    text = rewriter.builder_.get()["main"].script()
    assert '"lib.nt"' in text and "permute_dims" not in text


def test_attributes_say_which_there_are() -> None:
    with pytest.raises(AttributeError, match="there are axes"):
        _ = relax.op.permute_dims(X).attrs.axis
    assert relax.op.permute_dims(X).attrs == {"axes": None}


def test_patterns_by_class_and_callee() -> None:
    block = module()["main"].body.blocks[0]
    decode, _, product = [b.value for b in block.bindings]
    tensors = is_op("relax.call_tir")(GlobalVarPattern("decode"), TuplePattern([wildcard()]), add_constraint=False)
    assert isinstance(tensors.args[1], TuplePattern) and tensors.match(decode) and not tensors.match(product)
    library = is_op("relax.call_dps_packed")(varg_default_wildcard=True)
    assert not library.match(decode)  # a call of a tensor program is none of a library
    outside = relax.call_dps_packed("f", [X], out_sinfo=X.struct_info)
    assert library.match(outside) and not is_op("relax.call_tir")(varg_default_wildcard=True).match(outside)
    assert is_op("relax.call_dps_packed")(ExternFuncPattern("f"), varg_default_wildcard=True).match(outside)
    assert is_op("relax.matmul")(wildcard(), varg_default_wildcard=True).match(product)  # the first of two
    assert not is_op("relax.matmul")(wildcard()).match(product)


def test_variables_in_a_visitor() -> None:
    @visitor
    class Packed(PyExprVisitor):
        def __init__(self) -> None:
            self.names: list[str] = []

        def visit_call_(self, call: Call) -> None:
            self.names += [a.global_symbol for a in call.args if isinstance(a, relax.ExternFunc)]

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_packed("first", x, sinfo_args=R.Tensor((4,), "float32"))
        return y

    found = Packed()
    found.visit_expr(main)
    assert found.names == ["first"] and main.params[0].vid is main.params[0] and not main.is_pure


@pytest.mark.parametrize("limit", [None, 3])
def test_options_that_may_be_none(limit: int | None) -> None:
    @T.prim_func
    def clipped(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            if limit is None:
                B[i] = A[i]
            else:
                B[i] = T.min(A[i], limit if limit is not None else 0)

    out = unity.tensor(np.zeros(4, "int32"))
    unity.compile(clipped)(unity.tensor(np.arange(2, 6, dtype="int32")), out)
    np.testing.assert_array_equal(out.numpy(), np.minimum(np.arange(2, 6), 9 if limit is None else limit))


def test_programs_made_by_hand() -> None:
    """The block around everything, which programs have in TVM, is left out; a loop takes the kind and the axis as there."""
    a, b = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((8,), "float32", "B")
    i, vi = tir.Var("i", "int64"), tir.Var("vi", "int64")
    axis = tir.IterVar((0, 8), vi, tir.IterVar.DataPar)
    store = tir.BufferStore(b, tir.BufferLoad(a, [vi]) + 1.0, [vi])
    inner = tir.SBlockRealize([i], True, tir.SBlock([axis], [], [], "B", store))
    loop = tir.For(i, 0, 8, tir.ForKind.SERIAL, inner)
    root = tir.SBlockRealize(iter_values=[], predicate=True, block=tir.SBlock([], [], [], "root", loop))
    func = tir.PrimFunc(params=[a, b], body=root, attrs={"global_symbol": "main"})
    assert isinstance(func.body, tir.For) and isinstance(root.block, tir.SBlock)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)

    assert_structural_equal(func, expected)
    tir.analysis.verify_well_formed(func)
    assert isinstance(tvm_thread_invariant(tir.LT(i, 4)), Call)


def test_statements_made_by_hand() -> None:
    """Numbers stand for expressions, lists for tuples."""
    a, c = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((2,), "float32", "C")
    i, v, n = [tir.Var(name, "int64") for name in "ivn"]
    body = tir.SeqStmt([
        tir.AllocBuffer(c), tir.BufferStore(c, 2, [0]), tir.AssertStmt(tir.GT(n, 0), "n is positive"),
        tir.LetStmt(v, n + 1, tir.IfThenElse(tir.LT(v, 4), tir.Evaluate(0), tir.Evaluate(v))),
        tir.For(i, 0, n, tir.ForKind.UNROLLED, tir.AttrStmt(i, "pragma_note", 1, tir.BufferStore(a, c[0] * 3, [i]))),
        tir.BufferStore(a, tir.call_intrin("float32", "tir.exp", a[1]), [7]), tir.While(tir.LT(n, 0), tir.Evaluate(1)),
    ])  # fmt: skip
    func = tir.PrimFunc([a, n], body)
    tir.analysis.verify_well_formed(func)
    assert_structural_equal(unity.script.parse(str(func), check=False), func)
    region = tir.BufferRegion(a, [tir.Range(2, 6)])
    assert (region.region[0].min.value, region.region[0].extent.value) == (2, 4) and isinstance(
        region, tir.BufferRegion
    )
    assert str(tir.Range(n).extent) == "n" and isinstance(body.stmts[0], tir.AllocBuffer)
    assert tir.IterVar(tir.Range(0, 4), "r", tir.IterVar.CommReduce).kind == "R"
    for wrong in (lambda: tir.Evaluate(), lambda: tir.BufferStore(a), lambda: tir.IterVar((0, 4), "r", 9),
                  lambda: tir.BufferStore(a, "x", [0]), lambda: tir.call_intrin("float32", "tir.nope", 1)):  # fmt: skip
        with pytest.raises(unity.UnityError):
            wrong()


def test_sizes_compare_with_numbers() -> None:
    shape = relax.ShapeExpr([10, N])
    assert shape[0] == 10 and shape[0] != 11 and 9 < shape[0] <= 10 and not shape[0] > shape[0]
    assert len({shape[0], tir.IntImm("int64", 10)}) == 2 and shape[1] != 10  # nodes are themselves
    assert [int(d) for d in te.placeholder(relax.ShapeExpr([2, 3])).shape] == [2, 3]


def test_calls_with_types_by_their_earlier_name() -> None:
    result: Any = relax.op.call_builtin_with_ctx("f", [X, [W]], sinfo_args=relax.ObjectStructInfo())
    assert isinstance(result.struct_info, relax.ObjectStructInfo)
    changed = relax.op.call_inplace_packed("g", X, inplace_indices=0, sinfo_args=X.struct_info)
    assert changed.attrs.inplace_indices == (0,)


def test_a_result_is_given_once() -> None:
    bb = relax.BlockBuilder()
    with pytest.raises(VerifyError, match="has its output"), bb.function("main", [X]):
        bb.emit_func_output(X)
        bb.emit_func_output(X)
    with bb.function("helper", [], private=True):
        helper = bb.emit_func_output(relax.const(1, "int64"))
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(relax.Call(helper, [])))
    assert isinstance(helper, GlobalVar) and bb.finalize()["main"].ret_ty.dtype == "int64"


def test_a_view_by_the_builtin_of_tvm() -> None:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        y = R.call_pure_packed("vm.builtin.reshape", x, R.shape([n * 4]), sinfo_args=R.Tensor((n * 4,), "float32"))
        return y

    x = np.arange(8, dtype="float32").reshape(2, 4)
    vm = unity.VirtualMachine(unity.compile(unity.IRModule({"main": main})))
    np.testing.assert_array_equal(vm["main"](unity.tensor(x)).numpy(), x.ravel())


def test_what_a_target_says_of_itself() -> None:
    target = unity.Target("nvidia/geforce-rtx-3090")
    assert target.max_num_threads == 1024 and target.arch == "sm_86" and target.attrs["max_threads_per_block"] == 1024
    with pytest.raises(AttributeError, match="no option 'max_num_threads'"):
        _ = unity.Target("llvm").max_num_threads


def test_names_of_data_types_and_builds() -> None:
    n = T.int64()
    x = relax.Var("x", R.Tensor((n, 4), "float16"))
    assert (
        isinstance(n, tir.Var)
        and n.dtype == "int64"
        and x.dtype == "float16"
        and tir.Var("p", "handle").dtype == "handle"
    )
    assert tir.Var("q", unity.ir.PointerType(unity.ir.PrimType("int8"))).dtype == "handle"
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute(
        (4,), lambda i: te.sum(A[k], axis=k, where=te.floormod(k.var, 2) == 0), attrs={"layout_free_placeholders": [A]}
    )
    func = te.create_prim_func([A, B], index_dtype_override="int64")
    assert func.attrs["layout_free_buffers"] == (0,) and "layout_free" in func.script()
    out = unity.tensor(np.zeros(4, "float32"))
    tir.build(func, target="llvm")(unity.tensor(np.arange(4, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), 2)


def test_reductions_that_begin_where_they_stand() -> None:
    A, start = te.placeholder((3, 5), name="A"), te.placeholder((3,), name="start")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((3,), lambda i: te.comm_reducer(lambda x, y: x + y, lambda t: start[i])(A[i, k], axis=[k]))
    a, s = np.arange(15, dtype="float32").reshape(3, 5), np.array([1, 2, 3], "float32")
    out = np.zeros(3, "float32")
    tir.build(te.create_prim_func([A, start, C]), "llvm")(*[unity.tensor(array) for array in (a, s, out)])
    np.testing.assert_array_equal(out, s + a.sum(1))


def test_variables_are_those_of_the_graph() -> None:
    """Symbols of types are asked for by themselves."""
    call = relax.op.add(X, X)
    found = [relax.analysis.used_vars(call), relax.analysis.all_vars(call), relax.analysis.free_vars(call)]
    assert found == [[X]] * 3 and relax.analysis.free_symbolic_vars(call) == [N]
    assert N not in relax.analysis.bound_vars(module()["main"])


def test_an_error_of_ones_own_check_is_not_to_be_reported() -> None:
    def check(context: Any) -> bool:
        return bool(context.matched_expr.no_such_thing)

    pattern = ("one.product", is_op("relax.matmul")(wildcard(), wildcard()), {}, check)
    with pytest.raises(InternalError, match="no_such_thing") as raised:
        relax.transform.FuseOpsByPattern([pattern])(module())
    assert "report" not in str(raised.value)


def test_fields_of_a_pattern() -> None:
    pattern = relax.dpl.is_tuple([wildcard(), relax.dpl.is_dfv()])
    value = relax.Tuple([X, relax.DataflowVar("y", X.ty)])
    assert pattern[-1].match(relax.TupleGetItem(value, 1)) and pattern[None].match(relax.TupleGetItem(value, 0))
    with pytest.raises(IndexError):
        _ = pattern[2]
