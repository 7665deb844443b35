"""Arithmetic of numpy scalars and arrays, element by element: what every type's machine arithmetic gives.

Invariant: operands have the numpy dtype that holds their type; results are rounded or wrapped once. Integers below a byte are
held in one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.tensor import rounded as rounded_array
from ...constant import wrap_int

Value = Any
"""A numpy scalar or an array."""
Function = Callable[..., Value]


def holder(dtype: DataType) -> np.dtype:
    """numpy's dtype for numbers of an element type, in memory and as values."""
    if dtype.is_integral and dtype.bits < 8:
        return np.dtype(np.int8 if dtype.is_int else np.uint8)
    return np.dtype(np.uint64) if dtype.code in ("handle", "void") else dtype.numpy


def typed(value: Any, dtype: DataType) -> Value:
    """A Python number as a numpy scalar of an element type; numpy values stay."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    return np.array(wrap_int(int(value), dtype) if dtype.is_integral else value, holder(dtype))[()]


def rounded(value: Value, dtype: DataType) -> Value:
    """Doubles rounded once to an element type."""
    return rounded_array(np.asarray(value, np.float64), dtype)[()]


def fits(dtype: DataType) -> Function:
    """Rounding of doubles, wrapping of integers to the element type."""
    if dtype.is_float:
        return lambda value: rounded(value, dtype)
    if not dtype.is_integral or dtype.bits >= 8:
        return lambda value: value
    kind, mask, half = holder(dtype), (1 << dtype.bits) - 1, (1 << dtype.bits - 1) if dtype.is_int else 0
    return lambda value: (((np.asarray(value, np.int64) + half) & mask) - half).astype(kind)[()]


def widened(value: Value) -> Value:
    """Numbers as doubles."""
    return np.asarray(value).astype(np.float64)


def _smaller(a: Value, b: Value) -> Value:
    found = np.minimum(a, b)
    zero = (np.asarray(a) == 0) & (np.asarray(b) == 0)
    return np.where(zero, -((-a) + (-b)), found)[()] if zero.any() else found


def _larger(a: Value, b: Value) -> Value:
    found = np.maximum(a, b)
    zero = (np.asarray(a) == 0) & (np.asarray(b) == 0)
    return np.where(zero, a + b, found)[()] if zero.any() else found


FLOAT: dict[str, Function] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "truncdiv": np.divide,
    "min": _smaller, "max": _larger,
}  # fmt: skip
INTEGER: dict[str, Function] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "truncdiv": lambda a, b: (a - np.fmod(a, b)) // b, "truncmod": np.fmod, "floordiv": np.floor_divide, "floormod": np.remainder,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
COMPARE: dict[str, Function] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def _floor_div(a: Value, b: Value) -> Value:
    """``(a - floormod(a, b)) / b`` made whole, as Python and numpy do it: 1.0 // 0.1 is 9. Division by zero as in IEEE."""
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    below = (rest != 0) & ((rest < 0) != (b < 0))
    return np.where(b == 0, np.divide(a, b), np.rint(np.where(below, quotient - 1, quotient)))


def _floor_mod(a: Value, b: Value) -> Value:
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


_IN_DOUBLE: dict[str, Function] = {"truncmod": np.fmod, "floordiv": _floor_div, "floormod": _floor_mod}


def binary(name: str, dtype: DataType) -> Function | None:
    """The two-operand function of a name on an element type; integers are divided by what is not zero."""
    if name in COMPARE:
        return COMPARE[name]
    if dtype.is_bool:
        return {"min": np.logical_and, "max": np.logical_or}.get(name)
    if dtype.is_float:
        function = _IN_DOUBLE.get(name)
        if function is None:
            return FLOAT.get(name)
        return lambda a, b: rounded(function(widened(a), widened(b)), dtype)
    raw = INTEGER.get(name)
    if raw is None or dtype.bits >= 8:
        return raw
    fit, whole = fits(dtype), raw
    return lambda a, b: fit(whole(a, b))


def caster(source: DataType, target: DataType) -> Function:
    """Conversion between element types: C rules, saturating from float to integer, NaN gives 0."""
    source, target = source.element, target.element
    if source is target or "handle" in (target.code, source.code):
        return lambda v: v
    if target.is_bool:
        return lambda v: v != 0
    if target.is_float:
        if source.is_float and source.bits < 64:
            return lambda v: np.asarray(v).astype(np.float32).astype(target.numpy)[()]
        if source.is_integral and source.bits == 64 and target.bits < 64:
            return lambda v: _big_to_float(np.asarray(v), target)
        return lambda v: rounded(widened(v)[()], target)
    if source.is_float:
        return lambda v: _saturated(widened(v), target)
    fit, kind = fits(target), holder(target)
    return lambda v: fit(np.asarray(v).astype(kind)[()])


def _big_to_float(value: np.ndarray, target: DataType) -> Value:
    if target.element.name == "float32":
        return value.astype(np.float32)[()]
    top = np.abs(value.astype(np.float64)) >= 2.0**53
    kind = (
        value.dtype.type
    )  # a double holds bits 63 to 11: the last says that lower ones are lost, and is not rounded itself
    kept = (value & ~kind(4095)) | np.where(value & kind(4095), kind(2048), kind(0))
    whole = np.where(top, kept, value)
    return rounded(whole.astype(np.float64)[()], target)


def limits(dtype: DataType) -> tuple[int, int]:
    """Least and largest number of an integer type."""
    top = 1 << dtype.bits - (1 if dtype.is_int else 0)
    return (-top if dtype.is_int else 0), top - 1


def _saturated(value: np.ndarray, target: DataType) -> Value:
    low, high = limits(target)
    inside = (value > low) & (value < high)
    whole = np.where(inside, value, 0.0).astype(holder(target))
    whole = np.where(value >= high, high, whole)
    return np.where(value <= low, low, whole).astype(holder(target))[()]


def reinterpreted(value: Value, source: DataType, target: DataType) -> np.ndarray:
    """Rows of lanes of another type with the same bits: the first lane in the low ones."""
    rows = np.ascontiguousarray(value, holder(source))
    rows = rows if rows.ndim == 2 else rows.reshape(-1, 1)
    if min(source.bits, target.bits) >= 8 and not target.is_bool:
        return rows.view(holder(target))
    planes = np.unpackbits(rows.view(np.uint8).reshape(*rows.shape, -1), axis=-1, bitorder="little")
    lanes = planes[:, :, : source.bits].reshape(len(rows), -1, target.bits)
    packed = np.packbits(lanes, axis=-1, bitorder="little")
    if target.is_bool:
        return np.asarray(packed[:, :, 0] != 0)
    found: np.ndarray = np.asarray(fits(target.element)(packed.view(holder(target))[:, :, 0]))
    return found


def leading_zeros(value: Value, dtype: DataType) -> Value:
    """Number of zero bits above the highest one of integers of a type."""
    pattern = np.asarray(value).astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)
    found = np.full(pattern.shape, dtype.bits, np.int64)
    for k in range(dtype.bits):
        found = np.where(pattern >> np.uint64(k) & np.uint64(1), dtype.bits - 1 - k, found)
    return found.astype(holder(dtype))[()]


def set_bits(value: Value, dtype: DataType) -> Value:
    """Number of one bits of integers of a type."""
    pattern = np.asarray(value).astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)
    return np.bitwise_count(pattern).astype(holder(dtype))[()]


# ---- mathematical functions on doubles, Python's or numpy's


def _sigmoid(x: Value) -> Value:
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, power) / (1.0 + power)


def elementwise(function: Callable[..., float], inputs: int = 1) -> Function:
    """A function of Python floats for each element; where it has no value, NaN (infinity for infinity)."""

    def apply(*values: float) -> float:
        try:
            return function(*values)
        except (ValueError, OverflowError):
            return math.inf if values == (math.inf,) else math.nan

    made = np.frompyfunc(apply, inputs, 1)
    return lambda *args: np.asarray(made(*args), np.float64)[()]


def fma(x: float, y: float, z: float) -> float:
    """``x * y + z`` rounded once to double (exact rational arithmetic for finite values)."""
    product = x * y
    if product - product != 0.0 or z - z != 0.0:
        return product + z
    a, b = x.as_integer_ratio()
    c, d = y.as_integer_ratio()
    e, f = z.as_integer_ratio()
    top, bottom = a * c * f + e * b * d, b * d * f
    if top == 0:
        return product + z
    try:
        return top / bottom
    except OverflowError:
        return math.copysign(math.inf, top)


UNARY: dict[str, Function] = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil",
        "trunc", "cbrt", "expm1",
    )},
    "exp10": lambda x: np.power(10.0, x), "rsqrt": lambda x: np.divide(1.0, np.sqrt(x)), "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": elementwise(math.erf), "erfc": elementwise(math.erfc), "sigmoid": _sigmoid, "round": np.rint,
    "nearbyint": np.rint, "rint": np.rint, "abs": np.abs, "tgamma": elementwise(math.gamma),
    "lgamma": elementwise(math.lgamma),
}  # fmt: skip
BINARY: dict[str, Function] = {
    "pow": np.float_power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign,
}  # fmt: skip
LIBM: dict[str, Function] = {
    **UNARY, **BINARY, "fmin": np.fmin, "fmax": np.fmax, "fma": elementwise(fma, 3),
    "remainder": elementwise(math.remainder, 2),
}  # fmt: skip
"""C functions by name."""


def libm(name: str) -> Function | None:
    """The C function of a name (a trailing ``f`` names the float32 form), or None."""
    return LIBM.get(name) or (LIBM.get(name[:-1]) if name.endswith("f") else None)
