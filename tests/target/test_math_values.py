"""Special values, exact functions, lane counts and independence of libm of the CPU math library."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from math_kernel import SCALES, MathKernel, kernel_text, math_kernel

from unity.ffi.machine_code.elf import read_object
from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
from unity.support.errors import CodegenError
from unity.target.llvm.math.library import FLOAT_KINDS, MATH_FUNCTIONS, ULP, is_math_function, math_function, ulp_table

FLOATS = ("float32", "float64")

UNARY: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp10": lambda x: np.power(10.0, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": lambda x: np.where(np.abs(x) > 6, np.sign(x), x * 1.1283791670955126),
}  # fmt: skip
BINARY: dict[str, Callable[..., np.ndarray]] = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
EXACT: dict[str, Callable[..., np.ndarray]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "nearbyint": np.round, "fabs": np.abs,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "fmod": np.fmod, "copysign": np.copysign, "nextafter": np.nextafter,
}  # fmt: skip


def special(dtype: str) -> np.ndarray:
    """Zeros, denormals, limits, infinities, NaN and round numbers, with both signs."""
    info = np.finfo(dtype)
    positive = [
        0.0, float(info.smallest_subnormal), float(info.smallest_subnormal) * 5, float(info.smallest_normal),
        float(info.smallest_normal) / 4, 1e-20, 1e-9, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 8.0, 100.0, 1e4, 2.0**22 + 0.5,
        2.0**23 + 1, 1e10, 1e30, float(info.max) / 2, float(info.max), np.inf, np.nan,
    ]  # fmt: skip
    values = np.array(positive).astype(dtype)
    return np.concatenate([values, -values])


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values."""
    values = special(dtype)
    x, y = np.meshgrid(values, values)
    return x.ravel().copy(), y.ravel().copy()


def assert_close(got: np.ndarray, want: np.ndarray, *arguments: np.ndarray) -> None:
    """Equal NaN, infinities, zero signs; finite results within a few units (or the smallest denormals)."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= np.abs(want) * (8 * float(info.eps)) + 2 * float(info.smallest_subnormal)
    good = (np.isnan(got) & np.isnan(want)) | (got == want) | near
    good &= ~((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)))
    good &= np.isnan(want) | (np.isinf(got) == np.isinf(want))
    for i in np.flatnonzero(~good)[:5]:
        print([a[i] for a in arguments], "got", got[i], "want", want[i])
    assert good.all()


def assert_identical(got: np.ndarray, want: np.ndarray, *arguments: np.ndarray) -> None:
    """Equal values, equal signs, NaN where NaN."""
    nan = np.isnan(got) & np.isnan(want)
    good = nan | ((got == want) & (np.signbit(got) == np.signbit(want)) if got.dtype.kind == "f" else got == want)
    for i in np.flatnonzero(~good)[:5]:
        print([a[i] for a in arguments], "got", got[i], "want", want[i])
    assert good.all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: str) -> None:
    x = special(dtype)
    if name == "erf":
        x = x[(np.abs(x) < 1e-8) | (np.abs(x) > 6) | np.isnan(x)]
    got = math_kernel(name, dtype, 16)(x)
    with np.errstate(all="ignore"):
        want = UNARY[name](x.astype(np.longdouble)).astype(dtype)
    assert_close(got, want, x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_no_argument_takes_far_longer_than_others(name: str, dtype: str) -> None:
    """Masks give exp(-inf), angles grow: neither underflow nor exact reduction of each lane may make the usual program slow."""
    kernel, out = math_kernel(name, dtype, 16), np.empty(4096, dtype)

    def seconds(value: float) -> float:
        x, times = np.full(4096, value, dtype), []
        for _ in range(9):
            start = time.perf_counter()
            kernel.call(out.ctypes.data, x.size, x.ctypes.data)
            times.append(time.perf_counter() - start)
        return min(times)

    values = (1.0, -1.0, 0.0, 30.0, 200.0, -200.0, 1e6, 1e10, -1e30, np.inf, -np.inf)
    times = {value: seconds(value) for value in values}
    if name in ("sin", "cos", "tan"):
        times = {value: t for value, t in times.items() if abs(value) < 1e12}  # the exact reduction
    assert max(times.values()) < 3 * times[1.0] + 1e-6, times


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(name: str, dtype: str) -> None:
    x, y = pairs(dtype)
    got = math_kernel(name, dtype, 8)(x, y)
    with np.errstate(all="ignore"):
        want = BINARY[name](x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
    assert_close(got, want, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    bits = np.dtype(dtype).itemsize * 8
    random = rng.integers(0, 2**bits - 1, (2, 4000), dtype=np.uint64).astype(f"uint{bits}").view(dtype)
    near = (rng.normal(size=(2, 4000)) * 100).astype(dtype)
    x, y = (np.concatenate(parts) for parts in zip(pairs(dtype), random, near))
    arguments = (x, y) if MATH_FUNCTIONS[name].arguments == 2 else (x,)
    with np.errstate(all="ignore"):
        want = EXACT[name](*arguments)
    assert_identical(math_kernel(name, dtype, 16)(*arguments), want, *arguments)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp(dtype: str) -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([np.repeat(special(dtype), 60), rng.normal(size=3000).astype(dtype)])
    n = rng.integers(-2300, 2300, x.size).astype(np.int32)
    n[::3] = rng.integers(-160, 160, n[::3].size)
    n[::50], n[1::50] = 2**31 - 1, -(2**31)
    with np.errstate(all="ignore"):
        want = np.ldexp(x, n)
    assert_identical(math_kernel("ldexp", dtype, 8)(x, n), want, x, n)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype: str) -> None:
    eps = np.finfo(dtype).eps
    x = np.full(16, 1 + eps, dtype)
    got = math_kernel("fma", dtype, 16)(x, x, np.full(16, -(1 + 2 * eps), dtype))
    assert (got == eps * eps).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_bit_counts(dtype: str) -> None:
    bits = np.dtype(dtype).itemsize * 8
    patterns = np.random.default_rng(7).integers(0, 2**63, 200, dtype=np.uint64) >> np.arange(200, dtype=np.uint64) % 64
    x = np.concatenate([np.array([0, 1, 2**64 - 1], np.uint64), patterns]).astype(f"uint{bits}")
    digits = [f"{int(v):0{bits}b}" for v in x]
    popcount, clz = (math_kernel(name, dtype, 16)(x.view(dtype)) for name in ("popcount", "clz"))
    assert popcount.tolist() == [d.count("1") for d in digits]
    assert clz.tolist() == [bits - len(d.lstrip("0")) for d in digits]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [n for n, row in MATH_FUNCTIONS.items() if not row.integer and not row.extra_integer])
def test_the_lane_count_does_not_change_the_result(name: str, dtype: str) -> None:
    """Also: the rare path of one lane leaves the other lanes alone."""
    rng = np.random.default_rng(8)
    x = np.concatenate([special(dtype), (rng.normal(size=50) * 5).astype(dtype)])
    arguments = [rng.permutation(x) for _ in range(MATH_FUNCTIONS[name].arguments)]
    scalar = math_kernel(name, dtype, 1)(*arguments)
    for lanes in (3, 4, 16):
        other = math_kernel(name, dtype, lanes)(*arguments)
        assert_identical(other, scalar, *arguments)


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_nothing_calls_libm(name: str, cpu: str) -> None:
    options = CompileOptions(cpu=cpu, features="+fma" if cpu else "")
    for dtype, lanes in (("int32", 8),) if MATH_FUNCTIONS[name].integer else (("float32", 16), ("float64", 1)):
        text = kernel_text(name, dtype, lanes, scales=SCALES and not cpu)
        undefined = read_object(compile_ir(text, options)).undefined
        assert not [symbol for symbol in undefined if symbol != "_GLOBAL_OFFSET_TABLE_"]


def test_names_and_closure() -> None:
    symbol, texts = math_function("sin", "float32", 16)
    assert symbol == "unity.sin.v16f32"
    assert f"define internal <16 x float> @{symbol}(<16 x float> %x0) alwaysinline" in texts[symbol]
    assert "unity.reduce_half_pi" in texts
    assert math_function("exp", "float64", 1)[0] == "unity.exp.f64"
    assert is_math_function("clz", "uint8") and not is_math_function("clz", "float32")


@pytest.mark.parametrize(
    ("name", "dtype", "lanes"), [("exp", "float16", 8), ("expo", "float32", 8), ("exp", "float32", 0)]
)
def test_unknown_function(name: str, dtype: str, lanes: int) -> None:
    with pytest.raises(CodegenError) as caught:
        math_function(name, dtype, lanes)
    assert caught.value.code == "E570"


def test_every_float_function_has_a_bound_and_a_test() -> None:
    assert set(ULP) == set(UNARY) | set(BINARY) | set(EXACT) | {"ldexp", "fma"}
    assert set(FLOAT_KINDS) == set(FLOATS)


def test_the_documented_bounds_are_the_tested_ones() -> None:
    page = Path(__file__).parents[2] / "docs" / "math.md"
    assert ulp_table() in page.read_text()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("exp", "exp2", "exp10"))
def test_powers_of_two_by_instruction_give_the_same_bits(name: str, dtype: str) -> None:
    if not SCALES:
        pytest.skip("this processor multiplies by powers of two in two steps")
    limits = np.linspace(-160, 140, 6001) if dtype == "float32" else np.linspace(-1100, 1030, 6001)
    x = np.concatenate([limits.astype(dtype), special(dtype)])
    wide = [MathKernel(name, dtype, lanes, scales)(x) for lanes in (1, 3, 16, 40) for scales in (True, False)]
    assert (
        np.isinf(wide[0]).any() and (wide[0] == 0).any() and (np.abs(wide[0]) < np.finfo(dtype).smallest_normal).any()
    )
    for other in wide[1:]:
        np.testing.assert_array_equal(other, wide[0])


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "fmod"])
def test_what_is_rare_stands_in_a_module_once(name: str) -> None:
    symbol, texts = math_function(name, "float32", 16)
    calls = [line for line in texts[symbol].splitlines() if "call" in line and "@unity." in line]
    assert len(calls) == 1
    assert "noinline nounwind {" in texts[calls[0].partition("@")[2].partition("(")[0]]
