"""Scalar semantics of the reference interpreter against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from samples import buffer, i64, load, loop, nest, prim_func

from unity.ir import (
    Add,
    BufferStore,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    prim_type,
)  # fmt: skip
from unity.ir.build import intrinsic
from unity.ir.interpret import run
from unity.support.errors import InterpreterError

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMPY = {"bfloat16": ml_dtypes.bfloat16}


def values(dtype: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    if dtype in FLOATS:
        data = np.concatenate([rng.normal(size=count - 6) * 100, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7]])
        return data.astype(NUMPY.get(dtype, dtype))
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    if actual.dtype.kind not in "iub":
        actual, expected = actual.astype("float64"), expected.astype("float64")
    np.testing.assert_array_equal(actual, expected)


def apply(make, a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    out = np.empty_like(a)
    x, y, z = [buffer(name, (a.size,), dtype) for name in "ABC"]
    i = loop("i", a.size)
    run(
        prim_func(nest([i], BufferStore(z, make(load(x, i[0]), load(y, i[0]), prim_type(dtype)), (i[0],))), x, y, z),
        None,
        a,
        b,
        out,
    )
    return out


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize(("node", "function"), [(Add, np.add), (Sub, np.subtract), (Mul, np.multiply)])
def test_arithmetic_rounds_and_wraps(node, function, dtype):
    a, b = values(dtype, 64), values(dtype, 64)[::-1].copy()
    with np.errstate(all="ignore"):
        same(apply(node, a, b, dtype), function(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_division_of_floats(dtype):
    a, b = values(dtype, 64), values(dtype, 64)[::-1].copy()
    with np.errstate(all="ignore"):
        same(apply(Div, a, b, dtype), np.divide(a, b))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division(dtype):
    a, b = values(dtype, 64), values(dtype, 64)[::-1].copy()
    b[b == 0] = 3
    with np.errstate(all="ignore"):
        same(apply(FloorDiv, a, b, dtype), np.floor_divide(a, b))
        same(apply(FloorMod, a, b, dtype), np.mod(a, b))
    wide = [int(x) for x in a], [int(x) for x in b]
    quotient = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(*wide)]
    rest = [x - y * q for x, y, q in zip(*wide, quotient)]
    for node, expected in ((Div, quotient), (Mod, rest)):
        wrapped = np.array([x & (2**64 - 1) for x in expected], "uint64").astype(f"u{a.itemsize}").view(a.dtype)
        same(apply(node, a, b, dtype), wrapped)


@pytest.mark.parametrize("dtype", FLOATS)
def test_min_and_max_keep_nan(dtype):
    a, b = values(dtype, 64), values(dtype, 64)[::-1].copy()
    with np.errstate(all="ignore"):
        same(apply(Min, a, b, dtype), np.minimum(a, b))
        same(apply(Max, a, b, dtype), np.maximum(a, b))


@pytest.mark.parametrize("source", INTS + FLOATS)
@pytest.mark.parametrize("target", INTS + FLOATS + ("bool",))
def test_casts(source, target):
    a = values(source, 40)
    if source in FLOATS and target not in FLOATS:
        a = a[np.isfinite(a)]
        if target != "bool":
            info = np.iinfo(target)
            a = a[(a.astype("float64") >= max(info.min, -100)) & (a.astype("float64") <= min(info.max, 100))]
    out = np.empty(a.size, NUMPY.get(target, target))
    x, y = buffer("A", (a.size,), source), buffer("B", (a.size,), target)
    i = loop("i", a.size)
    run(prim_func(nest([i], BufferStore(y, Cast(load(x, i[0]), prim_type(target)), (i[0],))), x, y), None, a, out)
    with np.errstate(all="ignore"):
        same(out, a.astype(out.dtype))


def test_int64_to_float32_rounds_once():
    a = np.array([(1 << 60) + (1 << 36) + 1, -((1 << 60) + (1 << 36) + 1)], "int64")
    out = np.empty(2, "float32")
    x, y = buffer("A", (2,), "int64"), buffer("B", (2,))
    i = loop("i", 2)
    run(prim_func(nest([i], BufferStore(y, Cast(load(x, i[0]), prim_type("float32")), (i[0],))), x, y), None, a, out)
    above = float(np.nextafter(np.float32(2.0**60), np.float32(np.inf)))
    assert out.tolist() == [above, -above]


@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh), ("floor", np.floor), ("nearbyint", np.rint),
     ("sin", np.sin), ("trunc", np.trunc), ("atan", np.arctan), ("log1p", np.log1p), ("abs", np.abs)],
)  # fmt: skip
def test_unary_math_is_correctly_rounded(name, function):
    a = values("float32", 64)
    out = np.empty_like(a)
    x, y = buffer("A", (64,)), buffer("B", (64,))
    i = loop("i", 64)
    run(prim_func(nest([i], BufferStore(y, intrinsic(name, load(x, i[0])), (i[0],))), x, y), None, a, out)
    with np.errstate(all="ignore"):
        same(out, function(a.astype("float64")).astype("float32"))


@pytest.mark.parametrize("dtype", INTS)
def test_bit_operations(dtype):
    a = values(dtype, 32)
    shift = (np.arange(32) % np.iinfo(dtype).bits).astype(dtype)
    pairs = {
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
        "shift_left": np.left_shift, "shift_right": np.right_shift,
    }  # fmt: skip
    for name, function in pairs.items():
        result = apply(lambda p, q, ty, name=name: intrinsic(name, p, q), a, shift, dtype)
        same(result, function(a, shift))


def test_integer_division_by_zero_is_reported():
    with pytest.raises(InterpreterError) as error:
        apply(FloorDiv, np.array([1], "int32"), np.array([0], "int32"), "int32")
    assert error.value.code == "E313"


def test_popcount_and_clz():
    a = np.array([0, 1, -1, 12345], "int32")
    out = np.empty_like(a)
    x, y = buffer("A", (4,), "int32"), buffer("B", (4,), "int32")
    for name, expected in (("popcount", [0, 1, 32, 6]), ("clz", [32, 31, 0, 18])):
        i = loop("i", 4)
        run(prim_func(nest([i], BufferStore(y, intrinsic(name, load(x, i[0])), (i[0],))), x, y), None, a, out)
        assert out.tolist() == expected


def test_reinterpret_round_trip():
    a = values("float32", 16)
    out = np.empty(16, "uint32")
    x, y = buffer("A", (16,)), buffer("B", (16,), "uint32")
    i = loop("i", 16)
    value = intrinsic("reinterpret", load(x, i[0]), dtype="uint32")
    run(prim_func(nest([i], BufferStore(y, value, (i[0],))), x, y), None, a, out)
    same(out, a.view("uint32"))
    assert i64(1).ty is prim_type("int64")
