"""Loops, conditions, memory, checks, calls: compiled and compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import KernelError, Loaded, block, buffer, i64, load, loop, prim_func, run, store, var

from unity.ffi.dtype import DataType
from unity.ffi.registry import register_func
from unity.ffi.tensor import Tensor
from unity.ir import build as b
from unity.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from unity.ir.expr import Call, GlobalVar, StringImm, Var, op
from unity.ir.scalar import Broadcast, BufferLoad, IterVar, Let, Ramp, Shuffle
from unity.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Return,
    While,
    seq,
)  # fmt: skip
from unity.ir.types import Expr, prim_type
from unity.support.errors import CodegenError
from unity.transform.default_schedule.nests.pipeline import CPU_NESTS
from unity.transform.infra.passes import Pipeline
from unity.transform.tir.pipeline import CPU_PIPELINE

F32 = prim_type("float32")
SIZES = (0, 1, 5, 33)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_symbolic_loop(size: int, kind: str) -> None:
    n, i, j = var("n"), var("i"), var("j")
    a, c = buffer("A", (n, 3)), buffer("C", (n, 3))
    body = loop(i, n, loop(j, 3, store(c, b.add(load(a, i, j), b.cast(b.mul(i, j), "float32")), i, j)), kind)
    x = np.random.default_rng(0).standard_normal((size, 3)).astype("float32")
    out = np.zeros_like(x)
    run(prim_func([a, c], body), x, out)
    np.testing.assert_array_equal(out, x + np.arange(size)[:, None].astype("float32") * np.arange(3, dtype="float32"))


@pytest.mark.parametrize("lanes", (1, 3, 16, 64, 65, 200))
def test_vectorized_lengths(lanes: int) -> None:
    i = var("i")
    a, c = buffer("A", (lanes,)), buffer("C", (lanes,))
    body = loop(i, lanes, store(c, b.intrinsic("exp", load(a, i)), i), "vectorized")
    x = np.linspace(-3, 3, lanes).astype("float32")
    out = np.zeros_like(x)
    run(prim_func([a, c], body), x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)


def test_vectorized_with_a_guard_never_touches_beyond() -> None:
    """Lanes beyond the end neither read nor write: the neighbours keep their values."""
    n, i, v = var("n"), var("i"), var("v")
    a, c = buffer("A", (n,)), buffer("C", (n,))
    index = b.add(b.mul(i, 16), v)
    guarded = IfThenElse(b.lt(index, n), store(c, b.mul(load(a, index), b.const(2.0, "float32")), index))
    body = loop(i, b.floordiv(b.add(n, 15), 16), loop(v, 16, guarded, "vectorized"))
    func = prim_func([a, c], body)
    loaded = Loaded({"main": func})
    for size in (0, 1, 15, 16, 37):
        memory = np.full(size + 40, 7.0, "float32")
        x = np.random.default_rng(1).standard_normal(size).astype("float32")
        out = memory[:size]
        loaded("main", x, out)
        np.testing.assert_array_equal(memory[:size], x * 2)
        assert (memory[size:] == 7.0).all()
    assert "masked.store" in loaded.library.ir_text


def test_vectorized_branches_and_gathers() -> None:
    i = var("i")
    a, idx, c = buffer("A", (32,)), buffer("I", (32,), "int32"), buffer("C", (32,))
    condition = b.gt(load(a, i), b.const(0.0, "float32"))
    picked = load(a, b.cast(load(idx, i), "int64"))
    body = IfThenElse(condition, store(c, picked, i), store(c, b.negate(load(a, i)), i))
    x = np.random.default_rng(2).standard_normal(32).astype("float32")
    order = np.random.default_rng(3).permutation(32).astype("int32")
    order[x <= 0] = 10**6  # only read where the condition holds
    out = np.zeros(32, "float32")
    run(prim_func([a, idx, c], loop(i, 32, body, "vectorized")), x, order, out)
    np.testing.assert_array_equal(out, np.where(x > 0, x[np.minimum(order, 31)], -x))


def test_vectorized_reduction_runs_lane_by_lane() -> None:
    i = var("i")
    a, c = buffer("A", (20,)), buffer("C", (1,))
    body = loop(i, 20, store(c, b.add(load(c, 0), load(a, i)), 0), "vectorized")
    x, out = np.arange(20, dtype="float32"), np.zeros(1, "float32")
    run(prim_func([a, c], body), x, out)
    assert out[0] == x.sum()


def test_unrolled_and_nested_kinds() -> None:
    i, j = var("i"), var("j", "int32")
    c = buffer("C", (4, 3), "int32")
    body = loop(
        i, 4, loop(j, 3, BufferStore(c, b.add(b.mul(b.cast(i, "int32"), 10), j), (i, j)), "unrolled"), "unrolled"
    )
    out = np.zeros((4, 3), "int32")
    run(prim_func([c], body), out)
    np.testing.assert_array_equal(out, np.arange(4)[:, None] * 10 + np.arange(3))


def test_loop_bounds_and_steps() -> None:
    i, s = var("i"), var("s")
    c = buffer("C", (20,), "int64")
    fixed = For(i, i64(3), i64(10), "serial", store(c, i, i), step=i64(4))
    out = np.zeros(20, "int64")
    run(prim_func([c], fixed), out)
    assert out.nonzero()[0].tolist() == [3, 7, 11]
    stepped = prim_func([c, s], For(i, i64(1), i64(19), "serial", store(c, i, i), step=s))
    out[:] = 0
    run(stepped, out, 5)
    assert out.nonzero()[0].tolist() == [1, 6, 11, 16]
    with pytest.raises(KernelError, match="step"):
        run(stepped, out, 0)


def test_negative_extent_runs_nothing() -> None:
    n, i = var("n"), var("i")
    c = buffer("C", (4,), "int64")
    out = np.zeros(4, "int64")
    run(prim_func([n, c], loop(i, n, store(c, i64(1), i))), -5, out)
    assert not out.any()


def test_while_break_continue() -> None:
    i = var("i")
    a, c, k = buffer("A", (50,), "int32"), buffer("C", (3,), "int32"), buffer("K", (1,), "int32")
    count = store(k, b.add(load(k, 0), b.const(1, "int32")), 0)
    collatz = While(
        b.ne(load(c, 0), 1),
        seq(
            store(c, b.add(load(c, 1), b.const(1, "int32")), 1),
            IfThenElse(
                b.eq(b.floormod(load(c, 0), 2), 0),
                store(c, b.floordiv(load(c, 0), 2), 0),
                store(c, b.add(b.mul(load(c, 0), 3), 1), 0),
            ),
        ),
    )
    scan = loop(i, 50, seq(
        IfThenElse(b.eq(load(a, i), 0), Continue()),
        IfThenElse(b.lt(load(a, i), 0), Break()),
        store(c, b.add(load(c, 2), load(a, i)), 2),
    ))  # fmt: skip
    func = prim_func([a, c, k], seq(collatz, scan, count))
    x = np.arange(50, dtype="int32") % 7
    x[30] = -1
    out, done = np.array([27, 0, 0], "int32"), np.zeros(1, "int32")
    run(func, x, out, done)
    assert out.tolist() == [1, 111, int(x[:30].sum())] and done[0] == 1


def test_break_in_a_loop_of_one_iteration() -> None:
    i = var("i")
    c = buffer("C", (1,), "int32")
    out = np.zeros(1, "int32")
    run(prim_func([c], loop(i, 1, seq(Break(), store(c, b.const(5, "int32"), 0)))), out)
    assert out[0] == 0


def test_return_value_frees_and_stops() -> None:
    n, i, j = var("n"), var("i"), var("j")
    a = buffer("A", (n,))
    t = buffer("T", (b.mul(n, 1000),))
    body = seq(
        AllocBuffer(t),
        loop(j, n, store(t, load(a, j), j)),
        loop(i, n, IfThenElse(b.gt(load(t, i), b.const(2.0, "float32")), Return(b.cast(i, "int32")))),
        Return(b.const(-1, "int32")),
    )
    func = prim_func([a], body, prim_type("int32"))
    loaded = Loaded({"main": func})
    x = np.array([1, 2, 3, 4], "float32")
    assert loaded("main", x) == 2 and loaded("main", x[:2].copy()) == -1 and loaded("main", x[:0].copy()) == -1
    assert loaded.library.ir_text.count("@free(ptr %") == 3  # two returns, and the end that none reaches


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "bfloat16"])
def test_local_buffers(dtype: str) -> None:
    i, j, n = var("i"), var("j"), var("n")
    a, c = buffer("A", (n, 4), dtype), buffer("C", (n, 4), dtype)
    small, large = buffer("S", (4,), dtype), buffer("L", (n, 4), dtype)
    body = seq(
        AllocBuffer(large),
        loop(i, n, seq(
            AllocBuffer(small),
            loop(j, 4, store(small, load(a, i, b.sub(3, j)), j)),
            loop(j, 4, store(large, load(small, j), i, j)),
        ), "parallel"),
        loop(i, n, loop(j, 4, store(c, load(large, i, j), i, j))),
    )  # fmt: skip
    x = (np.random.default_rng(0).standard_normal((70, 4)) * 3).astype(DataType(dtype).numpy)
    out = np.zeros_like(x)
    run(prim_func([a, c], body), x, out)
    np.testing.assert_array_equal(out, x[:, ::-1])


def test_impossible_sizes() -> None:
    n = var("n")
    c, t = buffer("C", (1,)), buffer("T", (n, 1 << 40))
    body = seq(AllocBuffer(t), store(t, b.const(1.0, "float32"), 0, 0), store(c, load(t, 0, 0), 0))
    for bad in (-1, 1 << 30, 1 << 62):
        with pytest.raises(KernelError, match=r"size|memory"):
            run(prim_func([c, n], body), np.zeros(1, "float32"), bad)
    huge = buffer("H", (1 << 62,))
    with pytest.raises(CodegenError, match="E525"):
        run(prim_func([c], seq(AllocBuffer(huge), store(c, load(huge, 0), 0))), np.zeros(1, "float32"))


def test_constant_data() -> None:
    i = var("i")
    for dtype in ("float32", "int8", "bool", "bfloat16"):
        data = (np.arange(6) % 3).astype(DataType(dtype).numpy)
        k, c = buffer("K", (2, 3), dtype), buffer("C", (6,), dtype)
        body = seq(
            AllocConst(k, Tensor(data.reshape(2, 3))),
            loop(i, 6, store(c, load(k, b.floordiv(i, 3), b.floormod(i, 3)), i)),
        )
        out = np.zeros(6, DataType(dtype).numpy)
        run(prim_func([c], body), out)
        np.testing.assert_array_equal(out, data)


def test_strided_parameters_and_views() -> None:
    n, s, i, j = var("n"), var("s"), var("i"), var("j")
    a = buffer("A", (n, 4), strides=(s, i64(1)))
    c = buffer("C", (n, 2))
    view = Buffer(a.data, a.dtype, (n, i64(2)), (s, i64(2)), i64(1), "V")
    body = seq(DeclBuffer(view), loop(i, n, loop(j, 2, store(c, load(view, i, j), i, j))))
    x = np.arange(60, dtype="float32").reshape(6, 10)[:, :4]
    out = np.zeros((6, 2), "float32")
    run(prim_func([a, c], body), x, out)
    np.testing.assert_array_equal(out, x[:, 1::2])


def test_assertion_message() -> None:
    n = var("n")
    c = buffer("C", (1,))
    body = seq(AssertStmt(b.gt(n, 3), "n must exceed 3", "ValueError"), store(c, b.const(1.0, "float32"), 0))
    out = np.zeros(1, "float32")
    run(prim_func([c, n], body), out, 4)
    assert out[0] == 1.0
    with pytest.raises(KernelError, match="ValueError: n must exceed 3"):
        run(prim_func([c, n], body), out, 3)


def test_failure_inside_a_parallel_loop_reaches_the_caller() -> None:
    n, i = var("n"), var("i")
    c = buffer("C", (n,), "int64")
    body = loop(i, n, seq(AssertStmt(b.ne(i, 77), "not 77"), store(c, i, i)), "parallel")
    run(prim_func([c], body), np.zeros(50, "int64"))
    with pytest.raises(KernelError, match="not 77"):
        run(prim_func([c], body), np.zeros(100, "int64"))


def test_vectors_written_out() -> None:
    a, c = buffer("A", (32,)), buffer("C", (32,))
    base = i64(0)
    index = Ramp(base, i64(1), 8, prim_type("int64x8"))
    wide = BufferLoad(a, (index,), prim_type("float32x8"))
    reverse = BufferLoad(a, (Ramp(i64(15), i64(-1), 8, prim_type("int64x8")),), prim_type("float32x8"))
    mask = b.lt(b.ramp(b.const(0, "int32"), 1, 8), b.broadcast(b.const(5, "int32"), 8))
    shuffled = Shuffle(
        (wide, reverse), tuple([b.const(i, "int32") for i in (0, 8, 1, 9, 2, 10, 3, 15)]), prim_type("float32x8")
    )
    body = seq(
        BufferStore(c, b.add(wide, reverse), (index,)),
        BufferStore(
            c,
            Broadcast(b.const(3.0, "float32"), 8, prim_type("float32x8")),
            (Ramp(i64(8), i64(1), 8, prim_type("int64x8")),),
            mask,
        ),
        BufferStore(c, shuffled, (Ramp(i64(16), i64(2), 8, prim_type("int64x8")),)),
    )
    x = np.arange(32, dtype="float32")
    out = np.zeros(32, "float32")
    run(prim_func([a, c], body), x, out)
    expected = np.zeros(32, "float32")
    expected[:8] = x[:8] + x[15:7:-1]
    expected[8:13] = 3.0
    expected[16:32:2] = np.concatenate([x[:8], x[15:7:-1]])[[0, 8, 1, 9, 2, 10, 3, 15]]
    np.testing.assert_array_equal(out, expected)


def test_let_bind_and_unsafe_select() -> None:
    n, i, t, u = var("n"), var("i"), var("t", "float32"), var("u", "float32")
    a, c = buffer("A", (n,)), buffer("C", (n,))
    left = b.select(b.gt(i, 0), load(a, b.sub(i, 1)), b.const(0.0, "float32"))
    body = loop(i, n, seq(Bind(u, left), store(c, Let(t, b.add(u, load(a, i)), b.mul(t, t)), i)))
    x = np.arange(1, 9, dtype="float32")
    out = np.zeros(8, "float32")
    run(prim_func([a, c], body), x, out)
    before = np.concatenate([[0], x[:-1]]).astype("float32")
    np.testing.assert_array_equal(out, (before + x) ** 2)


def test_lazy_logic() -> None:
    """The right side of `and` is not evaluated where the left fails: it would divide by zero."""
    i = var("i")
    a, c = buffer("A", (9,), "int32"), buffer("C", (9,), "bool")
    safe = b.logical_and(b.ne(load(a, i), 0), b.gt(b.floordiv(10, load(a, i)), 2))
    unsafe = b.logical_or(b.eq(load(a, i), 0), b.gt(b.floordiv(10, load(a, i)), 2))
    x = np.arange(-4, 5, dtype="int32")
    with np.errstate(all="ignore"):
        big = np.floor_divide(10, np.where(x == 0, 1, x)) > 2
    for kind in ("serial", "vectorized"):
        out = np.zeros(9, bool)
        run(prim_func([a, c], loop(i, 9, store(c, safe, i), kind)), x, out)
        np.testing.assert_array_equal(out, (x != 0) & big)
        run(prim_func([a, c], loop(i, 9, store(c, unsafe, i), kind)), x, out)
        np.testing.assert_array_equal(out, (x == 0) | big)


def reduction(n: object, m: object, init: bool = True) -> object:
    i, j = var("i"), var("j")
    a, c = buffer("A", (n, m)), buffer("C", (n,))
    return prim_func([a, c], block(
        [(i, n, "S"), (j, m, "R")],
        lambda vi, vj: store(c, b.add(load(c, vi), load(a, vi, vj)), vi),
        (lambda vi, vj: store(c, b.const(0.0, "float32"), vi)) if init else None,
    ))  # fmt: skip


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 33), (17, 64), (3, 0)])
def test_row_sums(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    out = np.full(shape[0], 9.0, "float32")
    run(reduction(var("n"), var("m")), x, out)
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-5, atol=1e-5)


def matmul(n: object, k: object, m: object, transposed: bool = False) -> object:
    i, j, p = var("i"), var("j"), var("p")
    x, w, y = buffer("X", (n, k)), buffer("W", (m, k) if transposed else (k, m)), buffer("Y", (n, m))
    return prim_func([x, w, y], block(
        [(i, n, "S"), (j, m, "S"), (p, k, "R")],
        lambda vi, vj, vp: store(
            y, b.add(load(y, vi, vj), b.mul(load(x, vi, vp), load(w, vj, vp) if transposed else load(w, vp, vj))), vi, vj
        ),
        lambda vi, vj, vp: store(y, b.const(0.0, "float32"), vi, vj), "mm",
    ))  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(0, 3, 4), (1, 1, 1), (5, 7, 9), (33, 0, 17), (20, 17, 24)])
def test_matmul(sizes: tuple[int, int, int], transposed: bool) -> None:
    n, k, m = sizes
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, k)).astype("float32")
    w = rng.standard_normal((m, k) if transposed else (k, m)).astype("float32")
    for func in (matmul(var("n"), var("k"), var("m"), transposed), matmul(n, k, m, transposed)):
        y = np.full((n, m), 5.0, "float32")
        run(func, x, w, y)
        np.testing.assert_allclose(y, x @ (w.T if transposed else w), rtol=1e-4, atol=1e-5)


def test_block_details() -> None:
    """Predicates, allocations and matched sub-regions of blocks."""
    i, j = var("i"), var("j")
    vi, vj = var("vi"), var("vj")
    a, c, t = buffer("A", (10, 8)), buffer("C", (10, 8)), buffer("T", (10, 8))
    s0, s1, off = var("s0"), var("s1"), var("off")
    view = Buffer(Var("V", a.data.ty), a.dtype, (i64(1), i64(4)), (s0, s1), off, "V")
    match = MatchBufferRegion(view, BufferRegion(a, (Range(vi, i64(1)), Range(b.mul(vj, 4), i64(4)))))
    k = var("k")
    copy = Block(
        (IterVar(vi, Range(i64(0), i64(10)), "S"), IterVar(vj, Range(i64(0), i64(2)), "S")), None, None, (), (match,), {}, "copy",
        loop(k, 4, store(t, b.mul(load(view, 0, k), b.const(2.0, "float32")), vi, b.add(b.mul(vj, 4), k))),
    )  # fmt: skip
    first = loop(i, 12, loop(j, 2, BlockRealize((i, j), b.lt(i, 10), copy)))
    p, q = var("p"), var("q")
    second = block([(p, 10, "S"), (q, 8, "S")], lambda vp, vq: store(c, load(t, vp, vq), vp, vq), name="out")
    root = Block((), None, None, (t,), (), {}, "root", seq(first, second))
    x = np.random.default_rng(0).standard_normal((10, 8)).astype("float32")
    out = np.zeros_like(x)
    run(prim_func([a, c], BlockRealize((), b.const(True), root)), x, out)
    np.testing.assert_array_equal(out, x * 2)


def test_calls_between_functions() -> None:
    n, i = var("n"), var("i")
    a, c = buffer("A", (n,)), buffer("C", (n,))
    double = prim_func([a, c], loop(i, n, store(c, b.mul(load(a, i), b.const(2.0, "float32")), i)))
    m, x, t, y = var("m"), buffer("X", (n,)), buffer("T", (n,)), buffer("Y", (n,))
    k = var("k", "int32")
    square = prim_func([k], Return(b.mul(k, k)), prim_type("int32"))
    void = prim_type("void")
    j = var("j")
    call = Call(GlobalVar("square"), (b.const(7, "int32"),), {}, (), prim_type("int32"))
    main = prim_func([x, y], seq(
        AllocBuffer(t),
        Evaluate(Call(GlobalVar("double"), (x.data, t.data), {}, (), void)),
        Evaluate(Call(GlobalVar("double"), (t.data, y.data), {}, (), void)),
        loop(j, n, store(y, b.add(load(y, j), b.cast(call, "float32")), j)),
    ))  # fmt: skip
    v = np.arange(5, dtype="float32")
    out = np.zeros(5, "float32")
    Loaded({"main": main, "double": double, "square": square})("main", v, out)
    np.testing.assert_array_equal(out, v * 4 + 49)


@pytest.mark.parametrize("lanes", (65, 100, 128, 193))
def test_wide_vectors_of_math(lanes: int) -> None:
    a, c = buffer("A", (lanes,)), buffer("C", (lanes,))
    index = b.ramp(i64(0), i64(1), lanes)
    wide = BufferLoad(a, (index,), prim_type(f"float32x{lanes}"))
    x, out = np.linspace(-4, 4, lanes).astype("float32"), np.zeros(lanes, "float32")
    run(prim_func([a, c], BufferStore(c, b.intrinsic("exp", wide), (index,))), x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)


def test_huge_vectors_are_refused() -> None:
    a = buffer("A", (4096,))
    index = b.ramp(i64(0), i64(1), 4096)
    with pytest.raises(CodegenError, match="E521"):
        run(
            prim_func([a], BufferStore(a, b.broadcast(b.const(1.0, "float32"), 4096), (index,))),
            np.zeros(4096, "float32"),
        )


def test_recursion_is_refused() -> None:
    void = prim_type("void")
    one = prim_func([], Evaluate(Call(GlobalVar("two"), (), {}, (), void)))
    two = prim_func([], Evaluate(Call(op("T.call_extern"), (StringImm("one"),), {}, (), void)))
    with pytest.raises(CodegenError, match="cycle: one, two"):
        Loaded({"one": one, "two": two})


def call(kind: str, dtype: str, name: str, *args: Expr) -> Call:
    """``T.<kind>(name, ...)`` with a result type."""
    return Call(op(f"T.{kind}"), (StringImm(name), *args), {}, (), prim_type(dtype))


def test_foreign_calls() -> None:
    c = buffer("C", (4,), "float64")
    length = Call(op("T.call_extern"), (StringImm("strlen"), StringImm("hello")), {}, (), prim_type("int64"))
    body = seq(
        store(c, b.call_extern("float64", "cos", b.const(1.0, "float64"), pure=True), 0),
        store(c, b.cast(length, "float64"), 1),
        store(c, call("call_llvm_pure_intrin", "float64", "llvm.sqrt", b.const(9.0, "float64")), 2),
        store(c, call("call_llvm_pure_intrin", "float64", "llvm.fma", b.const(1, "uint32"), *[b.const(2.0, "float64")] * 3), 3),
    )  # fmt: skip
    out = np.zeros(4)
    run(prim_func([c], body), out)
    np.testing.assert_allclose(out, [np.cos(1.0), 5, 3, 6])


@pytest.mark.parametrize(
    ("intrinsic", "name"),
    [("call_extern", "no_such_function_here"), ("call_extern", "bad name\n"), ("call_llvm_intrin", "llvm.no.such"),
     ("call_llvm_intrin", "llvm.nvvm.barrier0"), ("call_llvm_intrin", "llvm.sadd.sat")],
)  # fmt: skip
def test_unknown_symbols_are_errors(intrinsic: str, name: str) -> None:
    call = Call(op(f"T.{intrinsic}"), (StringImm(name), b.const(1.0, "float32")), {}, (), prim_type("float32"))
    with pytest.raises(CodegenError, match="E527"):
        run(prim_func([], Evaluate(call)))


def test_printf(capfd: pytest.CaptureFixture[str]) -> None:
    text = StringImm("n=%d x=%.1f\n")
    say = call("call_extern", "int32", "printf", text, b.const(3, "int8"), b.const(2.5, "float32"))
    flush = call("call_extern", "int32", "fflush", b.const(0, "handle"))
    run(prim_func([], seq(Evaluate(say), Evaluate(flush))))
    assert capfd.readouterr().out == "n=3 x=2.5\n"


def test_registered_functions() -> None:
    seen: list[object] = []

    def scale(tensor: Tensor, factor: float, count: int, flag: bool, text: str) -> int:
        seen.append((tensor.shape, factor, count, flag, text))
        np.asarray(tensor)[...] *= factor
        return 41

    def fail(value: int) -> None:
        raise ValueError(f"no {value}")

    register_func("test.scale", scale, override=True)
    register_func("test.fail", fail, override=True)
    n = var("n")
    c, k = buffer("C", (n, 2)), buffer("K", (1,), "int64")
    call = Call(op("T.call_packed"), (
        StringImm("test.scale"), c.data, b.const(1.5, "float32"), b.const(-3, "int16"), b.const(True), StringImm("hi"),
    ), {}, (), prim_type("int32"))  # fmt: skip
    out, result = np.ones((3, 2), "float32"), np.zeros(1, "int64")
    loaded = Loaded({"main": prim_func([c, k], store(k, b.cast(b.add(call, 1), "int64"), 0))})
    loaded("main", out, result)
    assert seen == [((3, 2), 1.5, -3, True, "hi")] and result[0] == 42 and (out == 1.5).all()
    assert loaded.library.signatures["main"].packed_calls == ("test.scale",)
    failing = Call(op("T.call_packed"), (StringImm("test.fail"), b.const(7, "int64")), {}, (), prim_type("int32"))
    with pytest.raises(ValueError, match="no 7"):
        run(prim_func([], Evaluate(failing)))


def test_pointers_and_atomics() -> None:
    i = var("i")
    a, c = buffer("A", (100,), "int32"), buffer("C", (1,), "int32")
    place = Call(op("T.address_of"), (load(c, 0),), {}, (), prim_type("handle"))
    add = Call(op("T.atomic_add"), (place, load(a, i)), {}, (), prim_type("int32"))
    func = prim_func([a, c], loop(i, 100, Evaluate(add), "parallel"))
    x, out = np.arange(100, dtype="int32"), np.zeros(1, "int32")
    loaded = Loaded({"main": func})
    loaded("main", x, out)
    assert out[0] == x.sum()
    assert (
        loaded.library.signatures["main"].params[1].written and not loaded.library.signatures["main"].params[0].written
    )


def test_scalar_parameters_of_every_type() -> None:
    for dtype, value in (("bool", 1), ("int8", -5), ("uint16", 65000), ("int64", -(2**40)), ("uint64", 2**63), ("float32", 1.5),
                         ("float64", -2.25)):  # fmt: skip
        p, c = var("p", dtype), buffer("C", (1,), dtype)
        out = np.zeros(1, DataType(dtype).numpy)
        run(prim_func([p, c], store(c, p, 0)), value, out)
        assert out[0] == value
        assert run(prim_func([p], Return(p), prim_type(dtype)), value) == value


def test_shape_given_by_a_scalar_parameter() -> None:
    n, i = var("n", "int32"), var("i")
    c = buffer("C", (b.add(b.cast(n, "int64"), 1),))
    func = prim_func([n, c], loop(i, b.add(b.cast(n, "int64"), 1), store(c, b.const(1.0, "float32"), i)))
    out = np.zeros(5, "float32")
    loaded = Loaded({"main": func})
    loaded("main", 4, out)
    assert out.all() and loaded.library.signatures["main"].params[1].shape == (("add", ("sym", 0), 1),)  # type: ignore[union-attr]


def test_type_errors_are_found() -> None:
    c = buffer("C", (4,), "float32")
    for bad in (
        store(c, b.const(1, "int32"), 0),
        BufferStore(c, b.const(1.0, "float32"), (i64(0), i64(0))),
        store(c, load(buffer("U", (4,)), 0), 0),
        store(c, b.cast(var("u"), "float32"), 0),
        Break(),
    ):
        with pytest.raises(CodegenError, match=r"E52[034]"):
            run(prim_func([c], bad), np.zeros(4, "float32"))


def test_deep_programs() -> None:
    a, c = buffer("A", (1,), "int64"), buffer("C", (1,), "int64")
    value = load(a, 0)
    total: object = value
    for _ in range(3000):
        total = b.add(total, value)  # type: ignore[arg-type]
    body: object = store(c, total, 0)  # type: ignore[arg-type]
    for _ in range(300):
        body = IfThenElse(b.gt(load(a, 0), 0), body)  # type: ignore[arg-type]
    out = np.zeros(1, "int64")
    run(prim_func([a, c], body), np.array([2]), out)  # type: ignore[arg-type]
    assert out[0] == 6002


def test_pipeline_prints_and_parses() -> None:
    for pipeline in (CPU_NESTS, CPU_PIPELINE):
        assert Pipeline.parse(str(pipeline)) == pipeline


def intrinsic(name: str, dtype: str, *args: Expr) -> Call:
    """``T.<name>(...)`` with a result type."""
    return Call(op(f"T.{name}"), args, {}, (), prim_type(dtype))


def test_memory_intrinsics() -> None:
    a, c = buffer("A", (16,)), buffer("C", (4,))
    kind = intrinsic("type_annotation", "float32")
    pointer = intrinsic("tvm_access_ptr", "handle", kind, a.data, i64(3), i64(4), b.const(1, "int32"))
    moved = intrinsic("ptr_byte_offset", "handle", pointer, i64(8))
    view = Buffer(Var("P", prim_type("handle")), a.dtype, (i64(4),), name="P")
    body = seq(
        Evaluate(intrinsic("prefetch", "void", load(a, 2))),
        Evaluate(intrinsic("assume", "bool", b.const(True))),
        Bind(view.data, moved),
        DeclBuffer(view),
        store(c, load(view, 0), 0),
        store(c, b.cast(intrinsic("isnullptr", "bool", moved), "float32"), 1),
        store(c, b.cast(intrinsic("isnullptr", "bool", b.const(0, "handle")), "float32"), 2),
        store(c, b.mul(intrinsic("undef", "float32"), b.const(0.0, "float32")), 3),
    )
    out = np.ones(4, "float32")
    run(prim_func([a, c], body), np.arange(16, dtype="float32"), out)
    assert out.tolist() == [5, 0, 1, 0]


def test_vector_intrinsics() -> None:
    a, c, d = buffer("A", (8,)), buffer("C", (8,)), buffer("D", (4,), "int32")
    index = b.ramp(i64(0), i64(1), 8)
    wide = BufferLoad(a, (index,), prim_type("float32x8"))
    low, high = intrinsic("vectorlow", "float32x4", wide), intrinsic("vectorhigh", "float32x4", wide)
    bytes_a = b.ramp(b.const(-2, "int8"), b.const(3, "int8"), 4)
    bytes_b = b.broadcast(b.const(100, "int8"), 4)
    mask = intrinsic("get_active_lane_mask", "boolx4", i64(5), i64(7))
    body = seq(
        BufferStore(c, intrinsic("vectorcombine", "float32x8", high, low), (index,)),
        store(d, intrinsic("dp4a", "int32", bytes_a, bytes_b, b.const(7, "int32")), 0),
        BufferStore(d, b.broadcast(b.const(1, "int32"), 4), (b.ramp(i64(0), i64(1), 4),), b.logical_not(mask)),
        store(d, intrinsic("dp4a", "int32", bytes_a, bytes_b, b.const(7, "int32")), 0),
    )
    x, out, whole = np.arange(8, dtype="float32"), np.zeros(8, "float32"), np.zeros(4, "int32")
    run(prim_func([a, c, d], body), x, out, whole)
    assert out.tolist() == [4, 5, 6, 7, 0, 1, 2, 3] and whole.tolist() == [1007, 0, 1, 1]
