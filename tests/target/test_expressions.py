"""Every operator on every data type, scalar and vectorized, against numpy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernels import KernelError, Loaded, buffer, load, loop, prim_func, run, store, var

from unity.ffi.dtype import DataType
from unity.ir import build as b
from unity.ir.buffer import Buffer
from unity.ir.expr import Call, op
from unity.ir.function import PrimFunc
from unity.ir.interpret.common.intrinsics import fixed_point_multiply
from unity.ir.scalar import Cast, Select
from unity.ir.types import Expr, prim_type

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
COUNT = 37


def values(dtype: str, seed: int) -> np.ndarray:
    """Numbers with the corner cases in front."""
    kind = DataType(dtype).numpy
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, COUNT).astype(bool)
    if DataType(dtype).is_float:
        found = (rng.standard_normal(COUNT) * 20).astype(kind)
        corners = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0]
        found[: len(corners)] = np.roll(np.array(corners), seed).astype(kind)
        return found
    info = np.iinfo(kind)
    found = rng.integers(info.min, info.max, COUNT, dtype=kind, endpoint=True)
    small = rng.integers(0, 9, COUNT).astype(kind)
    found[::3] = small[::3]
    found[:6] = np.roll(np.array([info.min, info.max, 0, 1, 2, info.max], dtype=kind), seed)
    return found


def elementwise(make: Callable[..., Expr], inputs: list[str], output: str, kind: str = "serial") -> PrimFunc:
    """``C[i] = make(A[i], B[i], ...)``."""
    i = var("i")
    buffers: list[Buffer] = [buffer(f"A{n}", (COUNT,), d) for n, d in enumerate(inputs)]
    result = buffer("C", (COUNT,), output)
    body = store(result, make(*[load(x, i) for x in buffers]), i)
    return prim_func([*buffers, result], loop(i, COUNT, body, kind))


def check(make: Callable[..., Expr], arrays: list[np.ndarray], expected: np.ndarray, tolerance: float = 0.0) -> None:
    """Both loop kinds give the expected array (exactly, or within a relative tolerance)."""
    names = [str(a.dtype) for a in arrays]
    output = str(expected.dtype)
    loaded = Loaded({kind: elementwise(make, names, output, kind) for kind in ("serial", "vectorized")})
    for kind in ("serial", "vectorized"):
        result = np.zeros(COUNT, expected.dtype)
        loaded(kind, *[a.copy() for a in arrays], result)
        if tolerance == 0.0 and result.dtype.kind in "iub":
            np.testing.assert_array_equal(result, expected, err_msg=kind)
        else:
            wide, want = result.astype(np.float64), expected.astype(np.float64)
            np.testing.assert_allclose(wide, want, rtol=tolerance, atol=0, err_msg=kind)


def tolerance(dtype: str) -> float:
    return {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 0.0)


ARITHMETIC: dict[str, tuple[Callable[..., Expr], Callable[..., Any]]] = {
    "add": (b.add, np.add), "sub": (b.sub, np.subtract), "mul": (b.mul, np.multiply),
    "min": (b.minimum, np.minimum), "max": (b.maximum, np.maximum),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_arithmetic(dtype: str) -> None:
    x, y = values(dtype, 1), values(dtype, 3)
    for ours, theirs in ARITHMETIC.values():
        with np.errstate(all="ignore"):
            check(ours, [x, y], theirs(x, y).astype(x.dtype), tolerance(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division(dtype: str) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    y[y == 0] = 3
    with np.errstate(all="ignore"):
        check(b.floordiv, [x, y], np.floor_divide(x, y))
        check(b.floormod, [x, y], np.mod(x, y))
        check(b.truncmod, [x, y], np.fmod(x, y))
        wrapped = [
            int(p) // int(q) if (p < 0) == (q < 0) or p == 0 else -(abs(int(p)) // abs(int(q))) for p, q in zip(x, y)
        ]
        check(b.truncdiv, [x, y], np.array([b.wrap_int(v, DataType(dtype)) for v in wrapped], dtype=x.dtype))


@pytest.mark.parametrize("dtype", ("int8", "int32", "int64", "uint16"))
@pytest.mark.parametrize("divisor", (1, 2, 7, 64, -1, -3))
def test_division_by_a_constant(dtype: str, divisor: int) -> None:
    if divisor < 0 and dtype.startswith("u"):
        return
    x = values(dtype, 1)
    kind = DataType(dtype)
    quotient = np.array([b.wrap_int(int(v) // divisor, kind) for v in x], dtype=x.dtype)
    remainder = np.array([int(v) % divisor for v in x], dtype=x.dtype)
    check(lambda p: b.floordiv(p, b.const(divisor, dtype)), [x], quotient)
    check(lambda p: b.floormod(p, b.const(divisor, dtype)), [x], remainder)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_float_division(dtype: str) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    with np.errstate(all="ignore"):
        check(b.div, [x, y], x / y)
        finite = [np.nan_to_num(v, nan=3.0, posinf=5.0, neginf=-7.0) for v in (x, y)]
        finite[1][finite[1] == 0] = 2.5
        check(b.floormod, finite, np.mod(*finite))
        check(b.truncmod, finite, np.fmod(*finite))
        check(b.floordiv, finite, np.floor_divide(*finite))


def test_division_by_zero_is_an_error() -> None:
    for kind in ("serial", "vectorized"):
        for make in (b.floordiv, b.floormod, b.truncdiv, b.truncmod):
            func = elementwise(make, ["int32", "int32"], "int32", kind)
            x = np.arange(COUNT, dtype="int32")
            with pytest.raises(KernelError, match="division by zero"):
                run(func, x, x.copy(), np.zeros_like(x))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + ("bool",))
def test_comparisons(dtype: str) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    y[::2] = x[::2]
    for ours, theirs in (
        (b.eq, operator.eq), (b.ne, operator.ne), (b.lt, operator.lt), (b.le, operator.le), (b.gt, operator.gt),
        (b.ge, operator.ge),
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            expected = theirs(x, y)
        check(ours, [x, y], expected)


def test_logic() -> None:
    x, y = values("bool", 1), values("bool", 2)
    check(b.logical_and, [x, y], x & y)
    check(b.logical_or, [x, y], x | y)
    check(b.logical_not, [x], ~x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    bits = DataType(dtype).bits
    shifts = (np.arange(COUNT) % (bits + 3)).astype(x.dtype)
    check(lambda p, q: b.intrinsic("bitwise_and", p, q), [x, y], x & y)
    check(lambda p, q: b.intrinsic("bitwise_or", p, q), [x, y], x | y)
    check(lambda p, q: b.intrinsic("bitwise_xor", p, q), [x, y], x ^ y)
    check(lambda p: b.intrinsic("bitwise_not", p), [x], ~x)
    kind = DataType(dtype)
    left = np.array([b.wrap_int(int(v) << int(s), kind) for v, s in zip(x, shifts)], dtype=x.dtype)
    right = np.array([int(v) >> int(s) for v, s in zip(x, shifts)], dtype=x.dtype)
    check(lambda p, q: b.intrinsic("shift_left", p, q), [x, shifts], left)
    check(lambda p, q: b.intrinsic("shift_right", p, q), [x, shifts], right)
    ones = np.array([bin(int(v) & ((1 << bits) - 1)).count("1") for v in x], dtype=x.dtype)
    check(lambda p: b.intrinsic("popcount", p), [x], ones)
    zeros = np.array([bits - (int(v) & ((1 << bits) - 1)).bit_length() for v in x], dtype=x.dtype)
    check(lambda p: b.intrinsic("clz", p), [x], zeros)


def test_negative_shift_is_out_of_range() -> None:
    x = np.full(COUNT, -8, "int32")
    shift = np.full(COUNT, -1, "int32")
    check(lambda p, q: b.intrinsic("shift_left", p, q), [x, shift], np.zeros(COUNT, "int32"))
    check(lambda p, q: b.intrinsic("shift_right", p, q), [x, shift], np.full(COUNT, -1, "int32"))


@pytest.mark.parametrize("source", INTEGERS + FLOATS + ("bool",))
def test_casts(source: str) -> None:
    x = values(source, 1)
    for target in INTEGERS + FLOATS + ("bool",):
        if target == source:
            continue
        kind = DataType(target).numpy
        with np.errstate(all="ignore"):
            if DataType(source).is_float and DataType(target).is_integral:
                info = np.iinfo(kind)
                wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
                exact = [min(max(int(v), info.min), info.max) for v in wide]
                expected = np.array(exact, dtype=kind)
            elif target == "bool":
                expected = x != 0
            else:
                expected = x.astype(kind)
        ty = prim_type(target)

        def make(p: Expr, ty: Any = ty) -> Expr:
            lanes = b.dtype_of(p).lanes
            return Cast(p, prim_type(ty.dtype.with_lanes(lanes)))

        check(make, [x], expected)


FP8 = [n for n in dir(ml_dtypes) if n.startswith("float8") and n not in ("float8_e8m0fnu",)]


@pytest.mark.parametrize("name", [*FP8, "bfloat16", "float16"])
def test_narrow_floats_exactly(name: str) -> None:
    """Every code of an 8-bit type widens as ml_dtypes says; rounding agrees on random and halfway values."""
    kind = DataType(name).numpy
    count = 1 << DataType(name).bits
    codes = np.arange(count).astype(f"uint{DataType(name).bits}").view(kind)
    i = var("i")
    a, c = buffer("A", (count,), name), buffer("C", (count,), "float32")
    widen = prim_func([a, c], loop(i, count, store(c, Cast(load(a, i), prim_type("float32")), i)))
    wide = np.zeros(count, "float32")
    run(widen, codes, wide)
    np.testing.assert_array_equal(wide, codes.astype("float32"))
    finite = np.sort(wide[np.isfinite(wide)].astype(np.float64))
    with np.errstate(all="ignore"):
        halves = (finite[:-1] + finite[1:]) / 2
        near = np.concatenate([np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf)])
    rng = np.random.default_rng(0)
    extra = rng.standard_normal(5000) * np.exp(rng.standard_normal(5000) * 12)
    samples = np.concatenate([finite, halves, extra, [np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 5e-46]])
    for source, inputs in (("float32", samples.astype("float32")), ("float64", np.concatenate([samples, near]))):
        size = len(inputs)
        a, c = buffer("A", (size,), source), buffer("C", (size,), name)
        round_ = prim_func([a, c], loop(i, size, store(c, Cast(load(a, i), prim_type(name)), i)))
        result = np.zeros(size, kind)
        run(round_, inputs, result)
        with np.errstate(all="ignore"):
            expected = inputs.astype(kind)
        if source == "float64":  # ml_dtypes may round twice: of two candidates take the one nearest, ties to its own
            expected = nearest(inputs, expected, result)
        np.testing.assert_array_equal(result.astype("float32"), expected.astype("float32"))


def nearest(inputs: np.ndarray, theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Where the two differ, the one strictly closer to the input."""
    a, c = theirs.astype(np.float64), ours.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.where(np.abs(c - inputs) < np.abs(a - inputs), ours, theirs)


MATH = {
    "exp": np.exp, "log": lambda x: np.log(np.abs(x)), "sqrt": lambda x: np.sqrt(np.abs(x)), "sin": np.sin, "tanh": np.tanh,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", list(MATH))
def test_math(name: str, dtype: str) -> None:
    x = values(dtype, 1)

    def make(p: Expr) -> Expr:
        return b.intrinsic(name, b.intrinsic("abs", p) if name in ("log", "sqrt") else p)

    with np.errstate(all="ignore"):
        expected = MATH[name](x.astype(np.float64)).astype(x.dtype)
    check(make, [x], expected, {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 5e-7, "float64": 1e-14}[dtype])


def test_more_math() -> None:
    x, y = values("float32", 1), values("float32", 2)
    with np.errstate(all="ignore"):
        check(lambda p, q: b.intrinsic("copysign", p, q), [x, y], np.copysign(x, y))
        check(lambda p, q: b.intrinsic("nextafter", p, q), [x, y], np.nextafter(x, y))
        check(lambda p, q: b.intrinsic("atan2", p, q), [x, y], np.arctan2(x, y), 1e-6)
        check(lambda p, q: b.intrinsic("hypot", p, q), [x, y], np.hypot(x, y), 1e-6)
        shift = (np.arange(COUNT) % 9 - 4).astype("int32")
        check(lambda p, q: b.intrinsic("ldexp", p, q), [x, shift], np.ldexp(x, shift))
    for dtype in FLOATS:
        v = values(dtype, 1)
        wide = v.astype("float64")
        check(lambda p: b.intrinsic("isnan", p), [v], np.isnan(wide))
        check(lambda p: b.intrinsic("isinf", p), [v], np.isinf(wide))
        check(lambda p: b.intrinsic("isfinite", p), [v], np.isfinite(wide))
    whole = values("int32", 1)
    check(lambda p: b.intrinsic("abs", p), [whole], np.abs(whole))
    check(lambda p: b.intrinsic("isnan", p), [whole], np.zeros(COUNT, bool))


@pytest.mark.parametrize("dtype", ("int8", "float16", "float32", "uint64", "bool"))
def test_choices(dtype: str) -> None:
    c, x, y = values("bool", 1), values(dtype, 2), values(dtype, 3)
    expected = np.where(c, x, y)
    check(lambda p, q, r: Select(p, q, r, q.ty), [c, x, y], expected)  # type: ignore[arg-type]
    check(lambda p, q, r: Call(op("T.if_then_else"), (p, q, r), {}, (), q.ty), [c, x, y], expected)


def test_reinterpret() -> None:
    x = values("float32", 1)
    check(
        lambda p: b.intrinsic("reinterpret", p, dtype=DataType("uint32").with_lanes(b.dtype_of(p).lanes)),
        [x],
        x.view("uint32"),
    )
    h = values("bfloat16", 1)
    check(
        lambda p: b.intrinsic("reinterpret", p, dtype=DataType("int16").with_lanes(b.dtype_of(p).lanes)),
        [h],
        h.view("int16"),
    )


def test_fixed_point_products() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-(2**31), 2**31, COUNT).astype("int32") for _ in range(2))
    s = rng.integers(-8, 1, COUNT).astype("int32")
    wrap = DataType("int32")
    exact = [b.wrap_int(fixed_point_multiply(int(p), int(q), 31, int(r)), wrap) for p, q, r in zip(x, y, s)]

    def make(p: Expr, q: Expr, r: Expr) -> Expr:
        return b.intrinsic("q_multiply_shift", p, q, b.const(31, b.dtype_of(p)), r)

    check(make, [x, y, s], np.array(exact, dtype="int32"))
    left, right = np.maximum(s, 0), np.maximum(-s, 0)

    def per_axis(p: Expr, q: Expr, up: Expr, down: Expr) -> Expr:
        kind = b.dtype_of(p)
        return b.intrinsic(
            "q_multiply_shift_per_axis", p, q, up, down, b.const(31, kind), b.const(1, kind), b.const(1, kind)
        )

    check(per_axis, [x, y, left, right], np.array(exact, dtype="int32"))
