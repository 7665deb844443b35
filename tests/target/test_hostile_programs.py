"""Programs that are wrong, huge or strange: an error with a code, a failure status, or a defined result; never a crash."""

from __future__ import annotations

import time

import numpy as np
import pytest
from kernels import KernelError, Loaded, buffer, i64, load, loop, prim_func, run, store, var

from unity.ffi.dtype import DataType
from unity.ffi.tensor import Tensor
from unity.ir import build as b
from unity.ir.buffer import Buffer
from unity.ir.expr import Call, FloatImm, GlobalVar, IntImm, StringImm, op
from unity.ir.interpret import run as interpret
from unity.ir.intrinsic import INTRINSICS
from unity.ir.scalar import GT, Add, Broadcast, BufferLoad, Cast, Max, Ramp
from unity.ir.stmt import AllocBuffer, AllocConst, BufferStore, DeclBuffer, Evaluate, For, Return, Stmt, seq
from unity.ir.types import Expr, prim_type
from unity.support.errors import InterpreterError, UnityError

I32, I64, F32 = prim_type("int32"), prim_type("int64"), prim_type("float32")


def fails(code: str, body: Stmt, *buffers: Buffer) -> None:
    """Building a function with this body is an error with a code."""
    with pytest.raises(UnityError) as caught:
        Loaded({"main": prim_func(buffers, body)})
    assert caught.value.code == code, str(caught.value)


def lanes_type(dtype: str, lanes: int) -> object:
    return prim_type(DataType(dtype).with_lanes(lanes))


@pytest.mark.parametrize("lanes", (3, 7, 64, 1000))
@pytest.mark.parametrize("dtype", ("bool", "int8", "float16", "float32", "int64"))
def test_vectors_of_any_length(lanes: int, dtype: str) -> None:
    a, c = buffer("A", (lanes,), dtype), buffer("C", (lanes,), dtype)
    place = Ramp(i64(0), i64(1), lanes, lanes_type("int64", lanes))  # type: ignore[arg-type]
    value = BufferLoad(a, (place,), lanes_type(dtype, lanes))  # type: ignore[arg-type]
    x = (np.arange(lanes) % 2).astype(DataType(dtype).numpy)
    y = np.zeros_like(x)
    run(prim_func([a, c], BufferStore(c, Max(value, value, value.ty), (place,))), x, y)
    np.testing.assert_array_equal(x, y)


def test_vectors_beyond_the_limit() -> None:
    a = buffer("A", (65536,), "bool")
    ty = lanes_type("bool", 65536)
    place = Ramp(i64(0), i64(1), 65536, lanes_type("int64", 65536))  # type: ignore[arg-type]
    fails("E521", BufferStore(a, Broadcast(b.const(True), 65536, ty), (place,)), a)  # type: ignore[arg-type]


@pytest.mark.parametrize("lanes", (2, 3, 7))
@pytest.mark.parametrize("dtype", ("bool", "int8", "float32", "int64"))
def test_buffers_of_vectors_are_compact(lanes: int, dtype: str) -> None:
    """LLVM's vectors of three floats take 16 bytes, ours 12."""
    kind = f"{dtype}x{lanes}"
    out = buffer("Out", (8 * lanes,), dtype)
    view = Buffer(out.data, DataType(kind), (i64(8),), name="view")
    source = buffer("In", (8 * lanes,), dtype)
    source_view = Buffer(source.data, DataType(kind), (i64(8),), name="source_view")
    m = var("m")
    local, i = buffer("local", (8,), kind), var("i")
    body = seq(
        DeclBuffer(view), DeclBuffer(source_view), AllocBuffer(local), loop(i, 8, store(local, load(source_view, i), i)),
        loop(m, 8, store(view, load(local, b.sub(i64(7), m)), m)),
    )  # fmt: skip
    x = (np.arange(8 * lanes) % 5).astype(DataType(dtype).numpy)
    y = np.zeros_like(x)
    run(prim_func([source, out], body), x, y)
    np.testing.assert_array_equal(y, x.reshape(8, lanes)[::-1].reshape(-1))


def test_constants_of_the_wrong_type() -> None:
    f, i = buffer("F", (4,)), buffer("I", (4,), "int32")
    fails("E529", store(f, IntImm(3, F32), 0), f)
    fails("E529", store(i, FloatImm(3.0, I32), 0), i)
    fails("E529", store(f, Add(b.const(1, "int32"), b.const(1, "int32"), F32), 0), f)
    v = buffer("V", (4,), "void")
    fails("E521", store(v, load(v, 1), 0), v)


def test_a_float_constant_out_of_range_is_infinite() -> None:
    a = buffer("A", (1,))
    x = np.zeros(1, "float32")
    run(prim_func([a], store(a, FloatImm(1e300, F32), 0)), x)
    assert x[0] == np.inf


@pytest.mark.parametrize("name", [n for n in INTRINSICS if n != "T.tvm_tuple"])
def test_intrinsics_with_wrong_arguments(name: str) -> None:
    """Whatever stands in the arguments, the error is about the program, not about the compiler."""
    a = buffer("A", (4,))
    one, half, null = b.const(1, "int32"), b.const(0.5, "float32"), b.const(0, "handle")
    for args in ((), (one,) * 2, (half,) * 3, (StringImm("x"),) * 2, (null,) * 5):
        for ty in ("float32", "void", "int32x4"):
            try:
                Loaded({"main": prim_func([a], Evaluate(Call(op(name), args, {}, (), prim_type(ty))))})
            except UnityError as error:
                assert not error.code.startswith("E9"), str(error)


def test_calls_with_wrong_results_and_arguments() -> None:
    a = buffer("A", (4,), "int64")
    g = prim_func([], Return(b.const(3.0, "float32")), F32)
    with pytest.raises(UnityError, match="E523"):
        Loaded({"main": prim_func([a], store(a, Call(GlobalVar("g"), (), {}, (), I64), 0)), "g": g})
    for name in ("printf", "snprintf"):
        fails("E526", Evaluate(Call(op("T.call_extern"), (StringImm(name),), {}, (), I32)))


def test_a_null_pointer_is_a_failure() -> None:
    p, a = var("p", "handle"), buffer("A", (4,))
    x = Buffer(p, DataType("float32"), (i64(4),), name="X")
    with pytest.raises(KernelError, match="null pointer"):
        run(prim_func([a, p], seq(DeclBuffer(x), store(a, load(x, 0), 0))), np.zeros(4, "float32"), 0)


def test_a_function_that_forgets_its_result() -> None:
    with pytest.raises(KernelError, match="without returning"):
        run(prim_func([], Evaluate(i64(0)), I64))
    with pytest.raises(UnityError, match="E528"):
        Loaded({"main": prim_func([], Return(Broadcast(i64(1), 4, prim_type("int64x4"))), prim_type("int64x4"))})


def test_constants_cannot_be_written_and_have_their_shape() -> None:
    t, a = buffer("t", (4,), "int32"), buffer("A", (4,), "int32")
    data = Tensor(np.arange(4, dtype="int32"))
    body = seq(AllocConst(t, data), store(t, load(a, 0), 0))
    fails("E524", body, a)
    with pytest.raises(InterpreterError, match="E319"):
        interpret(prim_func([a], body), None, np.zeros(4, "int32"))
    u = buffer("u", (400,), "int32")
    fails("E523", seq(AllocConst(u, data), store(a, load(u, 9), 0)), a)


def test_sizes_whose_product_wraps() -> None:
    t, a = buffer("t", (1 << 33, 1 << 33)), buffer("A", (4,))
    fails("E525", seq(AllocBuffer(t), store(t, b.const(1.0, "float32"), 0, 5), store(a, load(t, 0, 5), 0)), a)


@pytest.mark.parametrize("kind", ("serial", "parallel", "vectorized", "unrolled"))
def test_steps_of_loops_over_narrow_types(kind: str) -> None:
    a = buffer("A", (256,), "int32")
    for dtype, extent, step in (
        ("int8", 127, 2),
        ("int8", 100, 127),
        ("uint8", 255, 2),
        ("uint8", 0, 3),
        ("int64", 20, 7),
    ):
        i, e, s = var("i", dtype), var("e", dtype), var("s", dtype)
        body = store(a, b.const(1, "int32"), Cast(i, I64))
        fixed = For(i, b.const(0, dtype), b.const(extent, dtype), kind, body, step=b.const(step, dtype))
        symbolic = For(i, b.const(0, dtype), e, kind, body, step=s)
        expected = np.zeros(256, "int32")
        expected[0:extent:step] = 1
        for func, more in ((prim_func([a], fixed), ()), (prim_func([a, e, s], symbolic), (extent, step))):
            x = np.zeros(256, "int32")
            run(func, x, *more)
            np.testing.assert_array_equal(x, expected, err_msg=f"{kind} {dtype} {extent} {step}")


def test_large_programs_compile_in_time() -> None:
    """Sums of many terms, deep choices, loops that would unroll to millions of statements: no step is quadratic."""
    a = buffer("A", (16,), "int32")
    total: Expr = load(a, 0)
    choice: Expr = load(a, 0)
    for k in range(4000):
        total = Add(total, load(a, k % 16), I32)
    for k in range(1000):
        cond = GT(load(a, k % 16), b.const(k, "int32"), prim_type("bool"))
        choice = Call(op("T.if_then_else"), (cond, choice, load(a, 1)), {}, (), I32)
    i, j, k2, n = var("i"), var("j"), var("k"), var("n")
    unrolled: Stmt = store(a, b.const(1, "int32"), 0)
    for v in (var("i"), var("j"), var("k")):
        unrolled = loop(v, 512, unrolled, "unrolled")
    wide, m = buffer("W", (64,), "int32"), var("m")
    lanes: Expr = load(wide, m)
    for k in range(40):
        cond = GT(load(wide, m), b.const(k, "int32"), prim_type("bool"))
        lanes = Call(op("T.if_then_else"), (cond, lanes, load(wide, m)), {}, (), I32)
    functions = {
        "sum": prim_func([a], store(a, total, 0)), "choice": prim_func([a], store(a, choice, 0)), "loops": prim_func([a], unrolled),
        "lanes": prim_func([wide], loop(m, 64, store(wide, lanes, m), "vectorized")),
    }  # fmt: skip
    start = time.process_time()  # other programs on the machine do not count
    Loaded(functions)
    assert time.process_time() - start < 30


def test_a_loop_that_cannot_be_unrolled_makes_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM prints a warning where it cannot do what metadata orders."""
    n, i = var("n"), var("i")
    a = buffer("A", (n,), "int32")
    x = np.zeros(5, "int32")
    run(prim_func([a], loop(i, n, store(a, b.const(1, "int32"), i), "unrolled")), x)
    assert x.sum() == 5
    assert "not unrolled" not in capfd.readouterr().err
