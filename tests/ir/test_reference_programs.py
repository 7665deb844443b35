"""The reference interpreter on tensor programs: statements, memory, blocks, and the promises it checks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from samples import I64, buffer, i64, load, loop, matmul, matmul_module, nest, point, prim_func

from unity.ffi.tensor import Tensor
from unity.ir import (
    Add,
    AllocBuffer,
    AllocConst,
    AssertStmt,
    Bind,
    Block,
    BlockRealize,
    Break,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Continue,
    DeclBuffer,
    Evaluate,
    GlobalVar,
    IfThenElse,
    IRModule,
    IterVar,
    Let,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    Range,
    Return,
    Shuffle,
    StringImm,
    Var,
    While,
    op,
    prim_type,
    seq,
)  # fmt: skip
from unity.ir.build import (
    add,
    broadcast,
    call_extern,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    if_then_else,
    intrinsic,
    logical_and,
    lt,
    mul,
    ramp,
    select,
    sub,
)  # fmt: skip
from unity.ir.interpret import run
from unity.ir.walk import fresh_copy
from unity.support.errors import InterpreterError


def fails(code: str, fn: PrimFunc | IRModule, *args: object, name: str | None = None) -> InterpreterError:
    with pytest.raises(InterpreterError) as caught:
        run(fn, name, *args)
    assert caught.value.code == code, str(caught.value)
    return caught.value


def test_matmul_with_symbolic_rows():
    rng = np.random.default_rng(0)
    for rows in (1, 5):
        a, b = rng.random((rows, 16), "float32"), rng.random((16, 8), "float32")
        np.testing.assert_allclose(run(matmul_module(), "main", a, b), a @ b, rtol=1e-5)


def test_wrong_arguments():
    a, b = np.zeros((5, 16), "float32"), np.zeros((16, 8), "float32")
    fails("E316", matmul_module(), a, b[:, :4].copy(), name="main")
    fails("E316", matmul_module(), a, b.astype("float64"), name="main")
    fails("E316", matmul_module(), a, name="main")
    fails("E316", matmul(), a, b, np.zeros((4, 8), "float32"))
    fails("E316", matmul(), a, np.zeros((8, 16), "float32").T, np.zeros((5, 8), "float32"))


def test_index_out_of_bounds_names_the_place():
    a, b = buffer("A", (8,)), buffer("B", (8,))
    i = loop("i", 8)
    fn = prim_func(nest([i], BufferStore(b, load(a, add(i[0], i64(1))), (i[0],))), a, b)
    error = fails("E310", fn, np.zeros(8, "float32"), np.zeros(8, "float32"))
    assert "A[8]" in error.message


def test_uninitialised_read():
    a, t = buffer("A", (4,)), buffer("T", (4,))
    i, j = loop("i", 3), loop("j", 4)
    fn = prim_func(
        seq(
            AllocBuffer(t),
            nest([i], BufferStore(t, const(1.0, "float32"), (i[0],))),
            nest([j], BufferStore(a, load(t, j[0]), (j[0],))),
        ),
        a,
    )
    assert "T" in fails("E311", fn, np.zeros(4, "float32")).message


def test_output_left_unwritten_by_call_dps():
    mod = matmul_module()
    fn = mod["matmul"]
    empty = PrimFunc(fn.params, fn.buffer_map, seq(), fn.ret_ty, fn.attrs)
    broken = mod.with_functions({"matmul": empty})
    fails("E311", broken, np.zeros((2, 16), "float32"), np.zeros((16, 8), "float32"), name="main")


def test_race_is_found_and_serial_is_not():
    a, s = buffer("A", (8,)), buffer("S", (1,))
    data, out = np.arange(8, dtype="float32"), np.zeros(1, "float32")

    def total(kind: str) -> PrimFunc:
        i = loop("i", 8, kind)
        return prim_func(nest([i], BufferStore(s, add(load(s, i64(0)), load(a, i[0])), (i64(0),))), a, s)

    error = fails("E312", total("parallel"), data, out)
    assert "S[0]" in error.message and "i=0" in error.message and "i=1" in error.message
    out[:] = 0
    run(total("serial"), None, data, out)
    assert out[0] == 28


def test_parallel_without_conflict_runs_and_atomic_add_is_allowed():
    a, b = np.random.rand(3, 16).astype("float32"), np.random.rand(16, 8).astype("float32")
    out = np.empty((3, 8), "float32")
    run(matmul("parallel"), None, a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    s = buffer("S", (1,), "int32")
    i = loop("i", 8, "parallel")
    add_one = Evaluate(
        intrinsic("atomic_add", intrinsic("address_of", load(s, i64(0))), const(2, "int32"), dtype="int32")
    )
    count = np.zeros(1, "int32")
    run(prim_func(nest([i], add_one), s), None, count)
    assert count[0] == 16


def test_memory_of_one_iteration_is_private():
    a, t = buffer("A", (8,)), buffer("T", (1,))
    i = loop("i", 8, "parallel")
    body = seq(
        AllocBuffer(t), BufferStore(t, const(3.0, "float32"), (i64(0),)), BufferStore(a, load(t, i64(0)), (i[0],))
    )
    out = np.zeros(8, "float32")
    run(prim_func(nest([i], body), a), None, out)
    assert out.tolist() == [3.0] * 8


def test_declared_regions_are_enforced():
    a, b = buffer("A", (8,)), buffer("B", (8,))
    i, vi = loop("i", 7), Var("vi", I64)

    def program(offset: int) -> PrimFunc:
        block = Block(
            (IterVar(vi, Range(i64(0), i64(7)), "S"),), (BufferRegion(a, point(vi)),), (BufferRegion(b, point(vi)),),
            (), (), {}, "copy", BufferStore(b, load(a, add(vi, i64(offset))), (vi,)),
        )  # fmt: skip
        return prim_func(nest([i], BlockRealize((i[0],), const(True), block)), a, b)

    data, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(program(0), None, data, out)
    assert out[:7].tolist() == data[:7].tolist()
    assert "copy" in fails("E315", program(1), data, out).message


def test_block_predicate_and_iterator_domain():
    a = buffer("A", (10,), "int32")
    i, vi = loop("i", 12), Var("vi", I64)

    def program(predicate: bool) -> PrimFunc:
        block = Block((IterVar(vi, Range(i64(0), i64(10)), "S"),), None, None, (), (), {}, "b",
                      BufferStore(a, const(1, "int32"), (vi,)))  # fmt: skip
        return prim_func(nest([i], BlockRealize((i[0],), lt(i[0], i64(10)) if predicate else const(True), block)), a)

    out = np.zeros(10, "int32")
    run(program(True), None, out)
    assert out.sum() == 10
    fails("E315", program(False), out)


def test_lazy_forms_do_not_touch_the_other_side():
    a, b = buffer("A", (4,)), buffer("B", (6,))
    i = loop("i", 6)
    inside = lt(i[0], i64(4))
    lazy = if_then_else(inside, load(a, i[0]), const(-1.0, "float32"))
    out = np.zeros(6, "float32")
    run(prim_func(nest([i], BufferStore(b, lazy, (i[0],))), a, b), None, np.arange(4, dtype="float32"), out)
    assert out.tolist() == [0, 1, 2, 3, -1, -1]
    eager = select(inside, load(a, i[0]), const(-1.0, "float32"))
    fails("E310", prim_func(nest([i], BufferStore(b, eager, (i[0],))), a, b), np.arange(4, dtype="float32"), out)
    c = buffer("C", (6,), "bool")
    guarded = logical_and(inside, ge(load(a, i[0]), const(2.0, "float32")))
    flags = np.zeros(6, "bool")
    run(prim_func(nest([i], BufferStore(c, guarded, (i[0],))), a, c), None, np.arange(4, dtype="float32"), flags)
    assert flags.tolist() == [False, False, True, True, False, False]


def test_while_break_continue_return():
    a = buffer("A", (10,), "int32")
    i = loop("i", 10)
    body = seq(
        IfThenElse(eq(floormod(i[0], i64(2)), i64(0)), Continue()), IfThenElse(ge(i[0], i64(7)), Break()),
        BufferStore(a, const(1, "int32"), (i[0],)),
    )  # fmt: skip
    out = np.zeros(10, "int32")
    run(prim_func(nest([i], body), a), None, out)
    assert out.tolist() == [0, 1, 0, 1, 0, 1, 0, 0, 0, 0]
    n = buffer("N", (1,), "int32")
    cell = load(n, i64(0))
    collatz = While(lt(cell, const(100, "int32")), BufferStore(n, mul(cell, const(2, "int32")), (i64(0),)))
    fn = prim_func(seq(collatz, Return(load(n, i64(0)))), n)
    assert run(fn, None, np.array([3], "int32")) == 192
    endless = prim_func(While(const(True), seq()), n)
    with pytest.raises(InterpreterError) as error:
        run(endless, None, np.array([3], "int32"), max_steps=1000)
    assert error.value.code == "E320"


def test_let_bind_and_assert():
    a = buffer("A", (4,), "int64")
    i, x, y = loop("i", 4), Var("x", I64), Var("y", I64)
    body = seq(Bind(x, mul(i[0], i64(3))), BufferStore(a, Let(y, add(x, i64(1)), mul(y, y)), (i[0],)))
    out = np.zeros(4, "int64")
    run(prim_func(nest([i], body), a), None, out)
    assert out.tolist() == [(3 * k + 1) ** 2 for k in range(4)]
    assert (
        "too small"
        in fails("E314", prim_func(AssertStmt(lt(i64(4), i64(3)), "too small", "ValueError"), a), out).message
    )


def test_vectors_ramps_and_shuffles():
    a, b = buffer("A", (16,)), buffer("B", (16,))
    i = loop("i", 4)
    lanes = ramp(mul(i[0], i64(4)), i64(1), 4)
    value = BufferLoad(a, (lanes,), prim_type("float32x4"))
    doubled = mul(value, broadcast(const(2.0, "float32"), 4))
    out, data = np.zeros(16, "float32"), np.arange(16, dtype="float32")
    run(prim_func(nest([i], BufferStore(b, doubled, (lanes,))), a, b), None, data, out)
    assert out.tolist() == (data * 2).tolist()
    reverse = Shuffle((value,), tuple([const(k, "int32") for k in (3, 2, 1, 0)]), prim_type("float32x4"))
    run(prim_func(nest([i], BufferStore(b, reverse, (lanes,))), a, b), None, data, out)
    assert out.tolist() == data.reshape(4, 4)[:, ::-1].reshape(-1).tolist()


def test_predicated_lanes_stay_away_from_memory():
    a, b = buffer("A", (6,)), buffer("B", (6,))
    i = loop("i", 2)
    lanes = ramp(mul(i[0], i64(4)), i64(1), 4)
    mask = intrinsic("get_active_lane_mask", mul(i[0], i64(4)), i64(6), dtype="boolx4")
    value = BufferLoad(a, (lanes,), prim_type("float32x4"), mask)
    out, data = np.zeros(6, "float32"), np.arange(6, dtype="float32")
    run(prim_func(nest([i], BufferStore(b, value, (lanes,), mask)), a, b), None, data, out)
    assert out.tolist() == data.tolist()


def test_views_share_memory():
    a = buffer("A", (4, 4), "int32")
    flat = Buffer(a.data, a.dtype, (i64(16),), (), None, "flat")
    column = Buffer(a.data, a.dtype, (i64(4),), (i64(4),), i64(1), "column")
    i, j = loop("i", 16), loop("j", 4)
    body = seq(
        DeclBuffer(flat), DeclBuffer(column), nest([i], BufferStore(flat, const(7, "int32"), (i[0],))),
        nest([j], BufferStore(column, const(9, "int32"), (j[0],))),
    )  # fmt: skip
    out = np.zeros((4, 4), "int32")
    run(prim_func(body, a), None, out)
    expected = np.full((4, 4), 7)
    expected[:, 1] = 9
    np.testing.assert_array_equal(out, expected)


def test_match_buffer_gives_a_strided_view():
    a = buffer("A", (8, 8), "int32")
    i, j = loop("i", 2), loop("j", 2)
    stride, offset = Var("s", I64), Var("o", I64)
    tile = Buffer(
        Var("tile", PointerType(prim_type("int32"))), a.dtype, (i64(4), i64(4)), (stride, i64(1)), offset, "tile"
    )
    vi, vj = Var("vi", I64), Var("vj", I64)
    p, q = loop("p", 4), loop("q", 4)
    fill = nest([p, q], BufferStore(tile, const(1, "int32"), (p[0], q[0])))
    region = BufferRegion(a, (Range(mul(vi, i64(4)), i64(4)), Range(mul(vj, i64(4)), i64(4))))
    two = Range(i64(0), i64(2))
    block = Block((IterVar(vi, two, "S"), IterVar(vj, two, "S")), (), (region,), (), (MatchBufferRegion(tile, region),), {}, "fill",
                  IfThenElse(eq(vi, vj), fill))  # fmt: skip
    out = np.zeros((8, 8), "int32")
    run(prim_func(nest([i, j], BlockRealize((i[0], j[0]), const(True), block)), a), None, out)
    np.testing.assert_array_equal(out, np.kron(np.eye(2, dtype="int32"), np.ones((4, 4), "int32")))


def test_constants_calls_and_extern():
    a, c = buffer("A", (4,)), buffer("C", (4,))
    i = loop("i", 4)
    data = Tensor(np.array([1, 2, 3, 4], "float32"))
    helper_a = buffer("X", (4,))
    k = loop("k", 4)
    helper = prim_func(
        nest([k], BufferStore(helper_a, add(load(helper_a, k[0]), const(1.0, "float32")), (k[0],))), helper_a
    )
    call = Evaluate(Call(op("T.address_of"), (load(a, i64(0)),), {}, (), prim_type("handle")))
    body = seq(
        AllocConst(c, data), nest([i], BufferStore(a, call_extern("float32", "sqrtf", load(c, i[0])), (i[0],))),
        Evaluate(Call(GlobalVar("helper"), (call.value,), {}, (), prim_type("void"))),
    )  # fmt: skip
    out = np.zeros(4, "float32")
    run(IRModule({"f": prim_func(body, a), "helper": helper}, {}, {}), "f", out)
    np.testing.assert_array_equal(out, np.sqrt(np.arange(1, 5, dtype="float32")) + 1)
    unknown = prim_func(Evaluate(call_extern("int32", "no_such_function_anywhere", i64(1))), a)
    fails("E318", unknown, out)
    assert StringImm("x").value == "x"


def test_sub_byte_and_small_floats():
    a, b = buffer("A", (8,), "float16"), buffer("B", (8,), "bfloat16")
    i = loop("i", 8)
    from_half = prim_func(
        nest([i], BufferStore(b, intrinsic("reinterpret", load(a, i[0]), dtype="bfloat16"), (i[0],))), a, b
    )

    data, out = np.random.rand(8).astype("float16"), np.zeros(8, ml_dtypes.bfloat16)
    run(from_half, None, data, out)
    np.testing.assert_array_equal(out.view("uint16"), data.view("uint16"))


def test_strided_arguments_follow_declared_strides():
    stride = Var("s", I64)
    a = Buffer(
        Var("A", PointerType(prim_type("float32"))),
        prim_type("float32").dtype,
        (i64(4), i64(3)),
        (stride, i64(1)),
        None,
        "A",
    )
    i, j = loop("i", 4), loop("j", 3)
    fn = prim_func(nest([i, j], BufferStore(a, const(1.0, "float32"), (i[0], j[0]))), a)
    whole = np.zeros((4, 5), "float32")
    run(fn, None, whole[:, 1:4])
    assert whole.sum() == 12 and (whole[:, 1:4] == 1).all()


def test_deep_expression_and_deep_nest():
    a = buffer("A", (1,), "int64")
    value = i64(0)
    for _ in range(5000):
        value = Add(value, i64(1), prim_type("int64"))
    out = np.zeros(1, "int64")
    run(prim_func(BufferStore(a, value, (i64(0),)), a), None, out)
    assert out[0] == 5000


def test_a_fresh_copy_runs_the_same():
    a, b = np.random.rand(3, 16).astype("float32"), np.random.rand(16, 8).astype("float32")
    first, second = np.empty((3, 8), "float32"), np.empty((3, 8), "float32")
    fn = matmul()
    run(fn, None, a, b, first)
    run(fresh_copy(fn), None, a, b, second)
    np.testing.assert_array_equal(first, second)
    assert floordiv(i64(7), i64(2)).value == 3 and sub(i64(7), i64(2)).value == 5


def test_a_program_that_ends_without_its_value():
    x = Var("x", I64)
    fn = PrimFunc((x,), {}, IfThenElse(gt(x, i64(0)), Return(x)), I64, {})
    assert run(fn, None, 2) == 2
    with pytest.raises(InterpreterError) as caught:
        run(fn, None, 0)
    assert caught.value.code == "E323"
