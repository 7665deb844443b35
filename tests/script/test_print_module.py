"""Printing of modules and functions built by hand: canonical forms, names, underlines, constants, dialects."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout

import numpy as np
import pytest
from main_job import PRINTED

from unity.ffi.dtype import DataType
from unity.ffi.tensor import Tensor
from unity.ir import (
    OBJECT,
    VOID_TYPE,
    BindingBlock,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Constant,
    DataflowBlock,
    Evaluate,
    Expr,
    ExternFunc,
    For,
    Function,
    GlobalVar,
    If,
    IntImm,
    IRModule,
    IterVar,
    PointerType,
    PrimFunc,
    Range,
    SeqExpr,
    ShapeExpr,
    TensorType,
    Tuple,
    Var,
    VarBinding,
    build as b,
    op,
    prim_type,
    seq,
)  # fmt: skip
from unity.script.printer.show import script
from unity.script.reader.module import parse
from unity.support.errors import InternalError, OptionError

I64, F32, HANDLE = prim_type("int64"), prim_type("float32"), prim_type("handle")
TRUE = IntImm(1, prim_type("bool"))


def sym(name: str) -> Var:
    return Var(name, I64)


def buffer(name: str, *shape: Expr) -> Buffer:
    return Buffer(Var(name, PointerType(F32)), DataType("float32"), shape, name=name)


def tensor(*shape: Expr) -> TensorType:
    return TensorType(ShapeExpr(shape), DataType("float32"), len(shape))


def load(source: Buffer, *indices: Expr) -> BufferLoad:
    return BufferLoad(source, indices, F32)


def grid(variables: list[Var], extents: list[Expr], body: object) -> For:
    for var, extent in zip(reversed(variables), reversed(extents)):
        body = For(var, IntImm(0, I64), extent, "serial", body)  # type: ignore[arg-type]
    assert isinstance(body, For)
    return body


def matmul() -> tuple[PrimFunc, Block]:
    n, k, m = sym("n"), sym("k"), sym("m")
    x, w, y = buffer("X", n, k), buffer("W", k, m), buffer("Y", n, m)
    params = tuple(Var(name, HANDLE) for name in "xwy")
    loops = [sym(name) for name in "ijp"]
    vi, vj, vp = axes = [sym(name) for name in ("vi", "vj", "vp")]
    zero = IntImm(0, I64)
    iters = tuple(IterVar(v, Range(zero, e), kind) for v, e, kind in zip(axes, (n, m, k), "SSR"))
    update = b.add(load(y, vi, vj), b.mul(load(x, vi, vp), load(w, vp, vj)))
    block = Block(
        iters, None, None, (), (), {}, "mm", BufferStore(y, update, (vi, vj)), BufferStore(y, b.const(0.0), (vi, vj))
    )
    body = grid(loops, [n, m, k], BlockRealize(tuple(loops), TRUE, block))
    return PrimFunc(params, dict(zip(params, (x, w, y))), body, VOID_TYPE, {"global_symbol": "tir_mm"}), block


def main_job() -> IRModule:
    n, k, m = sym("n"), sym("k"), sym("m")
    x, w = Var("x", tensor(n, k)), Var("w", tensor(k, m))
    flat = tensor(b.mul(n, m))
    lv0, lv1, gv0 = Var("lv0", tensor(n, m), dataflow=True), Var("lv1", flat, dataflow=True), Var("gv0", flat)
    out = tensor(n, m)
    dps = Call(op("R.call_dps"), (GlobalVar("tir_mm"), Tuple((x, w))), {}, (out,), out)
    flow = DataflowBlock((
        VarBinding(lv0, dps),
        VarBinding(lv1, Call(op("R.flatten"), (lv0,), {}, (), flat)),
        VarBinding(gv0, Call(op("R.exp"), (lv1,), {}, (), flat)),
    ))  # fmt: skip
    packed = Call(op("R.call_packed"), (ExternFunc("custom_inplace_update"), gv0), {}, (), OBJECT)
    tail = BindingBlock((VarBinding(Var("_", OBJECT), packed),))
    main = Function((x, w), SeqExpr((flow, tail), gv0), flat, False, {"global_symbol": "main"})
    return IRModule({"tir_mm": matmul()[0], "main": main}, {}, {}, "MyIRModule")


def test_main_job_text() -> None:
    mod = main_job()
    assert mod.script() + "\n" == PRINTED
    assert str(mod) == repr(mod) == mod.script()
    ast.parse(PRINTED)


def test_tvm_dialect_text() -> None:
    text = main_job().script(dialect="tvm")
    ast.parse(text)
    for part in (
        "R.call_tir(cls.tir_mm, (x, w), out_ty=R.Tensor((n, m)", "cls = MyIRModule", "with T.sblock(", "s_tir=True",
        "_ = R.call_packed(",
    ):  # fmt: skip
        assert part in text
    assert "T.block(" not in text and "call_dps" not in text
    with pytest.raises(OptionError, match="E003"):
        main_job().script(dialect="klingon")


def test_underline_marks_a_block_inside_a_module() -> None:
    fn, block = matmul()
    mod = IRModule({"tir_mm": fn}, {}, {})
    text = script(mod, underline=block, note="not perfect", context=1)
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if "^" in line)
    assert lines[at].split("^")[0] == lines[at - 1][: len(lines[at - 1]) - len(lines[at - 1].lstrip())]
    assert lines[at - 1].strip() == 'with T.block("mm"):' and lines[at].strip() == "^" * 19 + " not perfect"
    assert len(lines) == 6  # dots, one line before, the line, carets, one after, dots


def test_underline_marks_an_expression_exactly() -> None:
    fn, block = matmul()
    store = block.body
    assert isinstance(store, BufferStore)
    product = store.value.b  # type: ignore[attr-defined]
    lines = script(fn, underline=product).split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("^"))
    start = lines[at].index("^")
    assert lines[at - 1][start:] == "X[vi, vp] * W[vp, vj]" and lines[at].count("^") == len("X[vi, vp] * W[vp, vj]")


def test_underline_marks_a_binding() -> None:
    mod = main_job()
    flow = mod["main"].body.blocks[0].bindings[1]
    lines = script(mod, underline=flow.value).split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("^"))
    assert lines[at - 1].strip().startswith("lv1") and "R.flatten" in lines[at - 1]


def test_names_are_unique_and_never_captured() -> None:
    ty = tensor(IntImm(4, I64))
    params = tuple(Var(name, ty) for name in ("x", "x", "main", "lambda", "T", "a b", "helper"))
    fn = Function(params, SeqExpr((), Tuple(params)), OBJECT, True, {"global_symbol": "main"})
    mod = IRModule({"main": fn, "helper": fn}, {}, {})
    tree = ast.parse(mod.script())
    function = tree.body[0].body[0]  # type: ignore[attr-defined]
    names = [a.arg for a in function.args.args]
    assert len(set(names)) == len(names) and not set(names) & {"main", "helper", "T", "lambda"}
    returned = function.body[-1].value
    assert [e.id for e in returned.elts] == names


def test_a_nameless_binding_that_is_used_gets_a_name() -> None:
    hidden = Var("_", OBJECT)
    call = Call(op("R.call_packed"), (ExternFunc("f"),), {}, (), OBJECT)
    body = SeqExpr((BindingBlock((VarBinding(hidden, call),)),), hidden)
    text = script(Function((), body, OBJECT, False, {"global_symbol": "main"}))
    assert '    v = R.call_packed("f")\n    return v' in text


def test_if_ends_both_branches_with_the_name() -> None:
    ty = tensor(IntImm(2, I64))
    c, x = Var("c", TensorType(ShapeExpr(()), DataType("bool"), 0)), Var("x", ty)

    def branch(name: str) -> SeqExpr:
        first, last = Var("t", ty), Var("y", ty)
        calls = [Call(op(name), (v, v), {}, (), ty) for v in (x, first)]
        return SeqExpr((BindingBlock((VarBinding(first, calls[0]), VarBinding(last, calls[1]))),), last)

    y = Var("y", ty)
    body = SeqExpr((BindingBlock((VarBinding(y, If(c, branch("R.add"), SeqExpr((), x), ty)),)),), y)
    text = script(Function((c, x), body, ty, True, {"global_symbol": "f"}))
    ast.parse(text)
    assert "    if c:\n        t: " in text
    assert '        y: R.Tensor((2,), "float32") = R.add(t, t)\n    else:\n        y = x\n    return y' in text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.float32(1.5), 'R.const(1.5, "float32")'),
        (np.array([[1, 2], [3, 4]], "int32"), 'R.const([[1, 2], [3, 4]], "int32")'),
        (np.array(True), 'R.const(True, "bool")'),
        (np.array([np.inf, -np.inf, -0.0, 2], "float32"), 'R.const(["inf", "-inf", -0.0, 2.0], "float32")'),
        (np.zeros((0, 3), "float32"), 'R.const_bytes("", (0, 3), "float32")'),
    ],
)
def test_constants(array: np.ndarray, expected: str) -> None:
    data = Tensor(np.asarray(array))
    assert script(Constant(data, tensor())) == expected


def test_a_strange_nan_is_kept_as_bytes() -> None:
    array = np.array([0x7FC00001], "uint32").view("float32")
    assert script(Constant(Tensor(array), tensor())).startswith('R.const_bytes("AQDAfw==", (1,)')


def test_show_and_html() -> None:
    mod = main_job()
    out = io.StringIO()
    with redirect_stdout(out):
        mod.show()
    assert out.getvalue() == PRINTED  # no terminal: no colours
    out = io.StringIO()
    with redirect_stdout(out):
        mod.show(color=True)
    assert "\x1b[" in out.getvalue()
    assert "T.match_buffer" in mod._repr_html_()


def test_loose_nodes_print() -> None:
    fn, block = matmul()
    assert repr(buffer("A", IntImm(4, I64))) == 'A: T.Buffer((4,), "float32")'
    assert repr(block).startswith('with T.block("mm"):\n    vi = T.axis.spatial(n)')
    assert repr(Range(IntImm(2, I64), IntImm(3, I64))) == "T.Range(2, 5)"
    assert repr(fn.body).startswith("for i, j, p in T.grid(n, m, k):")
    assert repr(seq()) == "pass"
    assert repr(tensor(sym("n"), IntImm(4, I64))) == 'R.Tensor((n, 4), "float32")'
    assert repr(Evaluate(b.const(0))) == "T.evaluate(0)"


def test_a_value_without_spelling_is_an_error_but_never_in_repr() -> None:
    mod = IRModule({}, {"odd": object()}, {})
    assert "<object>" in repr(mod)
    with pytest.raises(InternalError, match="E902"):
        mod.script()


def test_functions_print_themselves(capsys) -> None:
    mod = parse('@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    return R.exp(x)\n')
    assert mod.script() == script(mod) and "def f(" in mod.script()
    mod.show()
    assert "def f(" in capsys.readouterr().out
    assert "<" in mod._repr_html_()
