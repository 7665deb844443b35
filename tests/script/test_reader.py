"""What script means: the same program in three eras, scalars and cells, blocks, symbols, purity, macros, names from outside."""

from __future__ import annotations

import numpy as np
import pytest
from main_job import CANONICAL, YEAR_2021, YEAR_2026

import unity
from unity.ffi.tensor import Tensor
from unity.ir import (
    AllocBuffer,
    AttrStmt,
    Bind,
    BlockRealize,
    BufferStore,
    Call,
    Cast,
    Constant,
    ExternFunc,
    FloorDiv,
    For,
    Function,
    GlobalVar,
    IfThenElse,
    IntImm,
    IRModule,
    PrimFunc,
    Ramp,
    TensorType,
    first_difference,
    prim_type,
)  # fmt: skip
from unity.script import parse, script
from unity.support.errors import ScriptError


def test_three_eras_are_one_program() -> None:
    now = parse(CANONICAL)
    assert isinstance(now, IRModule)
    header = "from tvm.script import ir as I, relax as R, tir as T\n"
    for text in (YEAR_2021, header + YEAR_2021, YEAR_2026, YEAR_2026.replace("out_ty=", "out_sinfo=")):
        assert first_difference(now, parse(text)) is None
    assert not now["main"].pure
    assert isinstance(now["main"].ret_ty, TensorType)
    assert now["main"].ret_ty.ndim == 1


def prim(body: str, params: str = 'A: T.Buffer((16,), "float32"), n: T.int64') -> PrimFunc:
    lines = "".join(["    " + line + "\n" for line in body.split("\n")])
    fn = parse(f"@T.prim_func\ndef f({params}):\n{lines}")
    assert isinstance(fn, PrimFunc)
    return fn


def statements(fn: PrimFunc) -> list[object]:
    return list(getattr(fn.body, "stmts", (fn.body,)))


def test_a_name_assigned_once_is_immutable() -> None:
    bind, store = statements(prim("x = A[0] * T.float32(2)\nA[1] = x"))
    assert type(bind) is Bind and type(store) is BufferStore
    assert store.value is bind.var


def test_a_name_assigned_again_is_a_cell() -> None:
    alloc, first, loop, last = statements(prim("x = A[0]\nfor i in range(4):\n    x = x + A[i]\nA[1] = x"))
    assert type(alloc) is AllocBuffer and alloc.buffer.shape == () and alloc.buffer.scope == "local"
    assert type(first) is BufferStore and first.buffer is alloc.buffer
    assert type(loop) is For and type(loop.body) is BufferStore and loop.body.buffer is alloc.buffer
    assert type(last) is BufferStore and last.value.buffer is alloc.buffer  # type: ignore[attr-defined]


def test_names_of_sibling_blocks_do_not_meet() -> None:
    one, two = statements(
        prim("for i in range(4):\n    x = A[i]\n    A[i] = x\nfor i in range(4):\n    x = A[i]\n    A[i] = x")
    )
    assert type(one.body.stmts[0]) is Bind and type(two.body.stmts[0]) is Bind  # type: ignore[attr-defined]


def test_declared_without_value_is_a_cell() -> None:
    alloc, _ = statements(prim("x: T.int32\nx = 3"))
    assert type(alloc) is AllocBuffer and alloc.buffer.dtype.name == "int32"


def test_integers_of_indices_are_int64_and_values_int32() -> None:
    fn = prim("for i in range(16):\n    A[i] = T.float32(0)\nT.evaluate(3)")
    loop, last = statements(fn)
    assert loop.extent.ty is prim_type("int64")  # type: ignore[attr-defined]
    assert last.value.ty is prim_type("int32")  # type: ignore[attr-defined]
    assert fn.params[0].ty is prim_type("handle")
    assert fn.buffer_map[fn.params[0]].shape[0].ty is prim_type("int64")


def test_infix_folds_and_node_names_do_not() -> None:
    fn = prim("T.evaluate(T.int32(7) // 2)\nT.evaluate(T.FloorDiv(T.int32(7), 2))")
    folded, raw = [stmt.value for stmt in statements(fn)]  # type: ignore[attr-defined]
    assert type(folded) is IntImm and folded.value == 3
    assert type(raw) is FloorDiv


def test_operator_levels_are_pythons() -> None:
    text = "-n ** 2 + 3 * (n - 1) // 2 % 5 << 1 & 7 ^ 3 | 1"
    fn = prim(f"T.evaluate({text})", "n: T.int64")
    back = prim("T.evaluate(((((((-(n ** 2)) + (((3 * (n - 1)) // 2) % 5)) << 1) & 7) ^ 3) | 1))", "n: T.int64")
    assert first_difference(fn, back) is None
    fn = prim("T.evaluate(not n == 1 and n < 2 or 0 <= n < 3)", "n: T.int64")
    back = prim("T.evaluate((((not (n == 1)) and (n < 2)) or ((0 <= n) and (n < 3))))", "n: T.int64")
    assert first_difference(fn, back) is None


def test_blocks() -> None:
    fn = prim(
        "for i in range(4):\n"
        '    with T.block("b"):\n'
        "        vi = T.axis.spatial(16, i * 4)\n"
        "        T.where(i < 3)\n"
        "        T.reads()\n"
        "        T.writes(A[vi:vi + 4])\n"
        '        T.block_attr({"k": [1, 2]})\n'
        '        C = T.alloc_buffer((4,), "float32")\n'
        "        with T.init():\n"
        "            A[vi] = T.float32(0)\n"
        "        A[vi] = C[0]"
    )
    realize = fn.body.body  # type: ignore[attr-defined]
    assert type(realize) is BlockRealize
    block = realize.block
    assert block.reads == () and block.writes is not None
    assert block.writes[0].region[0].extent.value == 4  # type: ignore[attr-defined]
    assert block.annotations == {"k": (1, 2)}
    assert [c.name for c in block.alloc_buffers] == ["C"]
    assert block.init is not None and type(block.body) is BufferStore
    plain = prim('with T.block("b"):\n    A[0] = T.float32(0)').body.block  # type: ignore[attr-defined]
    assert plain.reads is None and plain.writes is None


def test_allocation_outside_a_block_is_a_statement() -> None:
    alloc = statements(prim('C = T.alloc_buffer((4,), "float32")\nC[0] = A[0]'))[0]
    assert type(alloc) is AllocBuffer


def test_allocation_in_the_block_of_2026_is_a_statement() -> None:
    late = prim('with T.sblock("b"):\n    C = T.alloc_buffer((4,), "float32")\n    C[0] = A[0]').body.block  # type: ignore[attr-defined]
    assert late.alloc_buffers == () and type(late.body.stmts[0]) is AllocBuffer
    own = prim('with T.sblock("b"):\n    C = T.sblock_alloc_buffer((4,), "float32")\n    C[0] = A[0]').body.block  # type: ignore[attr-defined]
    assert [c.name for c in own.alloc_buffers] == ["C"]


def test_the_tvm_dialect_reads_back() -> None:
    now = parse(CANONICAL)
    assert first_difference(now, parse(script(now, "tvm"))) is None


def test_flat_attributes_cover_the_rest() -> None:
    fn = prim('A[0] = T.float32(1)\nT.attr(0, "pragma_x", 1)\nA[1] = T.float32(2)\nA[2] = T.float32(3)')
    first, attr = statements(fn)
    assert type(first) is BufferStore
    assert type(attr) is AttrStmt and len(attr.body.stmts) == 2  # type: ignore[attr-defined]


def test_slices_are_vectors() -> None:
    fn = prim("A[0:8:2] = A[8:12]")
    store = fn.body
    assert type(store) is BufferStore and type(store.indices[0]) is Ramp
    assert store.indices[0].lanes == 4 and store.value.ty is prim_type("float32x4")


def test_known_conditions_choose_while_reading() -> None:
    assert type(prim("if len(A.shape) == 1:\n    A[0] = T.float32(1)\nelse:\n    A[5, 5] = 3").body) is BufferStore
    assert type(prim("if T.bool(True):\n    A[0] = T.float32(1)").body) is IfThenElse


def test_stores_cast() -> None:
    store = prim("A[0] = n").body
    assert type(store) is BufferStore and type(store.value) is Cast


def test_macros_are_hygienic() -> None:
    text = (
        "@T.macro\ndef add_one(X, i):\n    t = X[i] + T.float32(1)\n    X[i] = t\n"
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    t = A[0]\n    add_one(A, 1)\n    A[2] = t\n'
    )
    first, second, _, last = statements(parse(text))  # type: ignore[arg-type]
    assert type(first) is Bind and type(second) is Bind
    assert last.value is first.var  # type: ignore[attr-defined]
    with pytest.raises(ScriptError, match="unknown name 'A'"):
        parse(
            "@T.macro\ndef m(i):\n    A[i] = T.float32(0)\n"
            + '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    m(0)\n'
        )


# ------------------------------------------------------------------------------------------------------- graph functions


def graph(body: str, params: str = 'x: R.Tensor(("n", 4), "float32")', decorator: str = "@R.function") -> Function:
    lines = "".join(["    " + line + "\n" for line in body.split("\n")])
    fn = parse(f"{decorator}\ndef f({params}):\n{lines}")
    assert isinstance(fn, Function)
    return fn


def bindings(fn: Function) -> list[object]:
    return [binding for block in fn.body.blocks for binding in block.bindings]  # type: ignore[attr-defined]


def test_nested_calls_are_bound_one_by_one() -> None:
    fn = graph("return R.add(R.multiply(x, x), R.exp(x))")
    assert [b.value.op.name for b in bindings(fn)] == ["R.multiply", "R.exp", "R.add"]  # type: ignore[attr-defined]
    assert fn.pure


def test_symbols_of_a_signature_are_one_variable() -> None:
    fn = graph('n = T.int64()\ny: R.Tensor((n, 4), "float32") = R.add(x, x)\nreturn y')
    symbol = fn.params[0].ty.shape.values[0]  # type: ignore[union-attr]
    assert bindings(fn)[0].var.ty.shape.values[0] is symbol  # type: ignore[attr-defined]
    unquoted = graph("return x", 'x: R.Tensor((n, m * 2), "float32"), y: R.Tensor((m,), "float32")')
    dims = unquoted.params[0].ty.shape.values  # type: ignore[union-attr]
    assert dims[1].a is unquoted.params[1].ty.shape.values[0]  # type: ignore[union-attr]
    typed = parse('@R.function\ndef f[n: T.int64](x: R.Tensor((n,), "float32")):\n    return x\n')
    assert typed.params[0].ty.shape.values[0].name == "n"  # type: ignore[union-attr]


def test_purity_is_inferred_and_checked() -> None:
    assert graph("y = R.add(x, x)\nreturn y").pure
    assert not graph('R.call_packed("f", x)\nreturn x').pure
    assert not graph("return x", decorator="@R.function(pure=False)").pure
    with pytest.raises(ScriptError, match="E119"):
        graph('R.call_packed("f", x)\nreturn x', decorator="@R.function(pure=True)")


def test_functions_see_each_other_in_any_order() -> None:
    mod = parse(
        "@I.ir_module\nclass M:\n"
        '    @R.function\n    def main(x: R.Tensor((4,), "float32")):\n        y = helper(x)\n        return M.other(y)\n'
        '    @R.function\n    def helper(x: R.Tensor(("n",), "float32")):\n        return R.exp(x)\n'
        '    @R.function(private=True)\n    def other(x: R.Tensor(("n",), "float32")):\n        return R.add(x, x)\n'
    )
    assert isinstance(mod, IRModule)
    assert list(mod.functions) == ["main", "helper", "other"]
    ret = mod["main"].ret_ty
    assert isinstance(ret, TensorType) and ret.shape is not None and ret.shape.values[0].value == 4  # type: ignore[attr-defined]
    assert "global_symbol" not in mod["other"].attrs
    assert type(bindings(mod["main"])[0].value.op) is GlobalVar  # type: ignore[attr-defined]


def test_recursion_needs_a_result_type() -> None:
    text = (
        '@I.ir_module\nclass M:\n    @R.function\n    def f(c: R.Tensor((), "bool"), x: R.Object){}:\n'
        "        if c:\n            y = M.f(c, x)\n        else:\n            y = x\n        return y\n"
    )
    assert isinstance(parse(text.format(" -> R.Object")), IRModule)
    with pytest.raises(ScriptError, match="E114"):
        parse(text.format(""))


def test_symbols_of_the_body_do_not_leave_it() -> None:
    fn = graph('n = T.int64()\ny = R.match_cast(x, R.Tensor((n,), "float32"))\nreturn y', "x: R.Object")
    assert isinstance(fn.ret_ty, TensorType) and fn.ret_ty.shape is None and fn.ret_ty.ndim == 1
    with pytest.raises(ScriptError, match="bound by no parameter"):
        parse('@R.function\ndef f(x: R.Tensor((4,), "float32")) -> R.Tensor(("k",), "float32"):\n    return x\n')


def test_old_call_spellings() -> None:
    now = graph('return R.call_dps("env.linear", (x, x), R.Tensor((1, 128), "float32"))')
    for line in (
        'R.call_dps((1, 128), "env.linear", [x, x])',
        'R.call_tir("env.linear", (x, x), (1, 128), dtype="float32")',
        'R.call_dps_packed("env.linear", (x, x), out_sinfo=R.Tensor((1, 128), "float32"))',
        'R.call_tir(R.ExternFunc("env.linear"), (x, x), out_ty=R.Tensor[(1, 128), "f32"])',
    ):
        assert first_difference(now, graph(f"return {line}")) is None, line


def test_unqualified_names_of_2022() -> None:
    fn = graph("return x", 'x: Tensor((1, 784), "float32")')
    assert first_difference(fn, graph("return x", 'x: R.Tensor((1, 784), "float32")')) is None


def test_annotated_annotations() -> None:
    fn = parse('@T.prim_func\ndef f(A: Annotated[Any, T.Buffer((4,), "float32")]):\n    A[0] = T.float32(0)\n')
    plain = parse('@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[0] = T.float32(0)\n')
    assert first_difference(fn, plain) is None
    quoted = parse("@T.prim_func\ndef f(A: 'T.Buffer((4,), \"float32\")'):\n    A[0] = T.float32(0)\n")
    assert first_difference(quoted, plain) is None


# -------------------------------------------------------------------------------------------------- names from outside


def test_scope_lends_values() -> None:
    data = np.arange(4, dtype="float32")
    text = "@R.function\ndef f(x: R.Tensor((N,), DT)):\n    y = R.add(x, W)\n    return R.add(y, V)\n"
    scope = {"N": 4, "DT": "float32", "W": data, "V": Tensor(data)}
    fn = parse(text, scope=scope)
    assert isinstance(fn, Function)
    first = bindings(fn)[0].value  # type: ignore[attr-defined]
    assert type(first) is Call and type(first.args[1]) is Constant
    assert np.shares_memory(first.args[1].data.numpy(), data)
    prim_text = (
        '@T.prim_func\ndef f(A: T.Buffer((N * 2,), "float32")):\n    for i in range(N):\n        A[i] = T.float32(F)\n'
    )
    assert (
        first_difference(
            parse(prim_text, scope={"N": np.int64(8), "F": 2.5}),
            parse(
                '@T.prim_func\ndef f(A: T.Buffer((16,), "float32")):\n    for i in range(8):\n        A[i] = T.float32(2.5)\n'
            ),
        )
        is None
    )


def test_scope_lends_functions() -> None:
    add = prim(
        "for i in range(4):\n    B[i] = A[i] + T.float32(1)",
        'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")',
    )
    text = (
        '@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((4,), "float32")):\n'
        '        y = R.call_dps(add, (x,), R.Tensor((4,), "float32"))\n'
        '        return R.call_dps(add, (y,), R.Tensor((4,), "float32"))\n'
    )
    mod = parse(text, scope={"add": add})
    assert isinstance(mod, IRModule) and set(mod.functions) == {"f", "main"} and mod["f"] is add


def test_scope_lends_registered_functions() -> None:
    def double(t: object) -> object:
        return t

    unity.register_func("tests.script.double", double, override=True)
    fn = parse("@R.function\ndef f(x: R.Object):\n    return R.call_packed(g, x)\n", scope={"g": double})
    call = bindings(fn)[0].value  # type: ignore[arg-type,attr-defined]
    assert type(call.args[0]) is ExternFunc and call.args[0].name == "tests.script.double"


def test_scope_lends_modules_and_graph_functions() -> None:
    lib = parse(CANONICAL)
    twice = parse('@R.function\ndef twice(x: R.Tensor(("n",), "float32")):\n    return R.add(x, x)\n')
    text = (
        "@I.ir_module\nclass M:\n    @R.function\n"
        '    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 2), "float32")):\n'
        '        y = R.call_dps(Lib.tir_mm, (x, w), R.Tensor((4, 2), "float32"))\n        return twice(R.flatten(y))\n'
    )
    mod = parse(text, scope={"Lib": lib, "twice": twice})
    assert isinstance(mod, IRModule) and list(mod.functions) == ["tir_mm", "twice", "main"]
    assert mod["main"].ret_ty.shape.values[0].value == 8


def test_scope_lends_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(2, 3)
    fn = parse('@R.function\ndef f(x: R.Tensor((2, 3), "float32")):\n    return R.add(x, W)\n', scope={"W": weight})
    constant = bindings(fn)[0].value.args[1]  # type: ignore[arg-type,attr-defined]
    weight[0, 0] = 7
    assert constant.data.numpy()[0, 0] == 7
