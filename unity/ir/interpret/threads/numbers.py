"""Arithmetic of whole batches: numpy functions that give, lane by lane, what the scalar interpreter gives.

Invariant: operands have numpy's dtype of their type; results are rounded or wrapped once, as in ``ir/interpret/scalar/numbers.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from .lanes import Value

Function = Callable[..., Value]


def typed(value: Any, dtype: DataType) -> Value:
    """A Python number as a numpy scalar of an element type."""
    if dtype.is_integral:
        mask = (1 << dtype.bits) - 1
        value = int(value) & mask
        if dtype.is_int and value >> (dtype.bits - 1):
            value -= 1 << dtype.bits
    return np.array(value, dtype.numpy)[()]


def rounded(value: Value, dtype: DataType) -> Value:
    """Doubles rounded once to an element type."""
    if dtype.element.name == "float64":
        return value
    kind = dtype.numpy
    if dtype.bits == 32 or kind == np.float16:
        return np.asarray(value, np.float64).astype(kind)[()]
    return _to_odd(np.asarray(value, np.float64)).astype(kind)[()]  # these convert through float32


def _to_odd(value: np.ndarray) -> np.ndarray:
    """float32 next to a double with the last bit set where it is inexact, so that a second rounding is harmless."""
    near = value.astype(np.float32)
    wrong = np.isfinite(near) & (near.astype(np.float64) != value)
    if not wrong.any():
        return near
    away = np.abs(near.astype(np.float64)) > np.abs(value)
    cut = np.where(wrong & away, np.nextafter(near, np.float32(0)), near)
    bits = np.atleast_1d(cut).view(np.uint32) | np.atleast_1d(wrong).astype(np.uint32)
    return bits.view(np.float32).reshape(near.shape)


def _through_double(function: Function, dtype: DataType) -> Function:
    return lambda *args: rounded(function(*[np.asarray(a).astype(np.float64) for a in args]), dtype)


def _smaller(a: Value, b: Value) -> Value:
    found = np.minimum(a, b)
    zero = (np.asarray(a) == 0) & (np.asarray(b) == 0)
    return np.where(zero, -((-a) + (-b)), found)[()] if zero.any() else found


def _larger(a: Value, b: Value) -> Value:
    found = np.maximum(a, b)
    zero = (np.asarray(a) == 0) & (np.asarray(b) == 0)
    return np.where(zero, a + b, found)[()] if zero.any() else found


def _checked(function: Function) -> Function:
    def divide(a: Value, b: Value) -> Value:
        zero = np.asarray(b) == 0
        if zero.any():
            return function(a, np.where(zero, np.ones_like(b), b)[()])
        return function(a, b)

    return divide


def _trunc_div(a: Value, b: Value) -> Value:
    rest = np.fmod(a, b)
    return (a - rest) // b


FLOAT: dict[str, Function] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": lambda a, b: np.divide(a, b),
    "Min": _smaller, "Max": _larger,
}  # fmt: skip
INTEGER: dict[str, Function] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": _checked(_trunc_div),
    "Mod": _checked(np.fmod), "FloorDiv": _checked(np.floor_divide), "FloorMod": _checked(np.remainder),
    "Min": np.minimum, "Max": np.maximum,
}  # fmt: skip
COMPARE: dict[str, Function] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def _floor_div(a: Value, b: Value) -> Value:
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    below = (rest != 0) & ((rest < 0) != (b < 0))
    return np.where(b == 0, np.divide(a, b), np.rint(np.where(below, quotient - 1, quotient)))


def _floor_mod(a: Value, b: Value) -> Value:
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def binary(name: str, dtype: DataType) -> Function | None:
    """The two-operand function of a class name on an element type."""
    if name in COMPARE:
        return COMPARE[name]
    if dtype.is_bool:
        return {"Min": np.logical_and, "Max": np.logical_or}.get(name)
    if not dtype.is_float:
        return INTEGER.get(name)
    if name in ("Mod", "FloorDiv", "FloorMod"):
        table: dict[str, Function] = {"Mod": np.fmod, "FloorDiv": _floor_div, "FloorMod": _floor_mod}
        return _through_double(table[name], dtype)
    return FLOAT.get(name)


def caster(source: DataType, target: DataType) -> Function:
    """Conversion between element types: C rules, saturating from float to integer, NaN gives 0."""
    source, target = source.element, target.element
    if source is target or target.code == "handle":
        return lambda v: v
    if target.is_bool:
        return lambda v: v != 0
    if target.is_float:
        if source.is_float and source.bits < 64:
            return lambda v: np.asarray(v).astype(np.float32).astype(target.numpy)[()]
        if source.is_integral and source.bits == 64 and target.bits < 64:
            return lambda v: _big_to_float(np.asarray(v), target)
        return lambda v: rounded(np.asarray(v).astype(np.float64)[()], target)
    if source.is_float:
        return lambda v: _saturated(np.asarray(v).astype(np.float64), target)
    return lambda v: np.asarray(v).astype(target.numpy)[()]


def _big_to_float(value: np.ndarray, target: DataType) -> Value:
    if target.element.name == "float32":
        return value.astype(np.float32)[()]
    top = np.abs(value.astype(np.float64)) >= 2.0**53
    whole = np.where(top, (value & ~value.dtype.type(4095)) | ((value & 4095) != 0), value)  # sticky bit
    return rounded(whole.astype(np.float64)[()], target)


def _saturated(value: np.ndarray, target: DataType) -> Value:
    info = np.iinfo(target.numpy)
    low, high = float(info.min), float(info.max)
    inside = (value > low) & (value < high)
    whole = np.where(inside, value, 0.0).astype(target.numpy)
    whole = np.where(value >= high, info.max, whole)
    whole = np.where(value <= low, info.min, whole)
    return np.where(np.isnan(value), 0, whole).astype(target.numpy)[()]


def bits(value: Value, dtype: DataType) -> Value:
    """Bit patterns as unsigned integers of the same width."""
    array = np.ascontiguousarray(value)
    return array.view(f"u{array.itemsize}").reshape(np.shape(value))[()]


def from_bits(pattern: Value, dtype: DataType) -> Value:
    """Values of an element type of bit patterns of its width."""
    array = np.ascontiguousarray(pattern, dtype=f"u{dtype.element.itemsize}")
    if dtype.is_bool:
        return (array != 0).reshape(np.shape(pattern))[()]
    return array.view(dtype.numpy).reshape(np.shape(pattern))[()]


# ---- mathematical functions on doubles


def _sigmoid(x: Value) -> Value:
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + power), power / (1.0 + power))


def _elementwise(function: Callable[..., float], inputs: int = 1) -> Function:
    made = np.frompyfunc(function, inputs, 1)
    return lambda *args: np.asarray(made(*args), np.float64)


def _safe_gamma(function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan if x != math.inf else math.inf

    return apply


UNARY: dict[str, Function] = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil",
        "trunc", "cbrt", "expm1",
    )},
    "exp10": lambda x: np.power(10.0, x), "rsqrt": lambda x: 1.0 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _elementwise(math.erf),
    "erfc": _elementwise(math.erfc), "sigmoid": _sigmoid, "round": np.rint, "nearbyint": np.rint, "rint": np.rint,
    "fabs": np.abs, "abs": np.abs, "tgamma": _elementwise(_safe_gamma(math.gamma)),
    "lgamma": _elementwise(_safe_gamma(math.lgamma)),
}  # fmt: skip
BINARY: dict[str, Function] = {
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "fmin": np.fmin,
    "fmax": np.fmax,
}  # fmt: skip


def libm(name: str) -> Function | None:
    """The C function of a name (a trailing ``f`` names the float32 form), or None."""
    for candidate in (name, name[:-1] if name.endswith("f") else name):
        found = UNARY.get(candidate) or BINARY.get(candidate)
        if found is not None:
            return found
    return None
