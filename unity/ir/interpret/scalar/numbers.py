"""Arithmetic of every element type on Python numbers: rounding, wrapping, casts, two-operand tables.

A value is a Python int (integers), bool, or float that is exactly representable in its type. Vectors are not known here.
Invariant: each function gives what the type's machine arithmetic gives, operation by operation (no wider intermediates).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ...constant import round_float

Number = Any
Unary = Callable[[Any], Any]
BinaryFn = Callable[[Any, Any], Any]

_c_float = ctypes.c_float


class DivisionByZero(Exception):
    """Integer division by zero, before it is known where."""


class BadShift(Exception):
    """Shift by a negative amount or by the width or more."""


def round_float32(value: float) -> float:
    """Nearest float32."""
    return _c_float(value).value


def _narrow(precision: int, least: int, largest: float) -> Unary:
    """Rounding to ``precision`` significant bits, exponent of the last place at least ``least``."""

    def rounder(value: float) -> float:
        if value == 0.0 or value - value != 0.0:  # zero, infinities, NaN
            return value
        place = max(math.frexp(value)[1] - precision, least)
        result = math.ldexp(round(math.ldexp(value, -place)), place)
        if abs(result) > largest:
            result = math.inf
        return math.copysign(result, value)

    return rounder


round_float16 = _narrow(11, -24, 65504.0)
round_bfloat16 = _narrow(8, -133, 3.3895313892515355e38)


def rounder(dtype: DataType) -> Unary:
    """Rounding of a float to the element type of ``dtype``."""
    name = dtype.element.name
    if name == "float32":
        return round_float32
    if name == "float64":
        return float
    if name == "float16":
        return round_float16
    if name == "bfloat16":
        return round_bfloat16
    element = dtype.element
    return lambda value: round_float(value, element)


def wrapper(dtype: DataType) -> Unary:
    """Reduction of an integer to the range of the element type, two's complement."""
    mask = (1 << dtype.bits) - 1
    if dtype.is_uint:
        return lambda value: value & mask
    half = 1 << (dtype.bits - 1)
    return lambda value: ((value + half) & mask) - half


def fits(dtype: DataType) -> Unary:
    """Rounding or wrapping of a raw result to the element type."""
    if dtype.is_bool or dtype.code in ("handle", "void"):
        return lambda value: value
    return rounder(dtype) if dtype.is_float else wrapper(dtype)


def float_div(a: float, b: float) -> float:
    """IEEE division."""
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def float_mod(a: float, b: float) -> float:
    """IEEE remainder with the sign of ``a``."""
    if b == 0.0 or a - a != 0.0 or b != b:
        return math.nan
    return math.fmod(a, b)


def _float_floor_div(a: float, b: float) -> float:
    """``(a - floormod(a, b)) / b`` made whole, as Python and numpy do it: 1.0 // 0.1 is 9. Division by zero as in IEEE."""
    if b == 0.0:
        return float_div(a, b)
    rest = float_mod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (rest < 0) != (b < 0):
        quotient -= 1.0
    return float(np.rint(quotient))


def _float_floor_mod(a: float, b: float) -> float:
    rest = float_mod(a, b)
    return rest + b if rest != 0.0 and (rest < 0) != (b < 0) else rest


def trunc_div(a: int, b: int) -> int:
    """Quotient rounded towards zero."""
    if b == 0:
        raise DivisionByZero
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def trunc_mod(a: int, b: int) -> int:
    """Remainder with the sign of ``a``."""
    return a - b * trunc_div(a, b)


def floor_div(a: int, b: int) -> int:
    """Quotient rounded down."""
    if b == 0:
        raise DivisionByZero
    return a // b


def floor_mod(a: int, b: int) -> int:
    """Remainder with the sign of ``b``."""
    if b == 0:
        raise DivisionByZero
    return a % b


def smaller(a: Number, b: Number) -> Number:
    """Minimum; NaN if either is NaN; -0.0 is below 0.0."""
    if a != a:
        return a
    if b != b:
        return b
    if a == b == 0:
        return a if math.copysign(1.0, a) < 0 else b
    return a if a < b else b


def larger(a: Number, b: Number) -> Number:
    """Maximum; NaN if either is NaN; 0.0 is above -0.0."""
    if a != a:
        return a
    if b != b:
        return b
    if a == b == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return a if a > b else b


def float_arithmetic(dtype: DataType) -> dict[str, BinaryFn]:
    """The two-operand functions of a floating-point element type by class name."""
    if dtype.element.name == "float64":
        return {
            "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": float_div,
            "Mod": float_mod, "FloorDiv": _float_floor_div, "FloorMod": _float_floor_mod, "Min": smaller, "Max": larger,
        }  # fmt: skip
    fit = rounder(dtype)
    return {
        "Add": lambda a, b: fit(a + b), "Sub": lambda a, b: fit(a - b), "Mul": lambda a, b: fit(a * b),
        "Div": lambda a, b: fit(float_div(a, b)), "Mod": lambda a, b: fit(float_mod(a, b)),
        "FloorDiv": lambda a, b: fit(_float_floor_div(a, b)), "FloorMod": lambda a, b: fit(_float_floor_mod(a, b)),
        "Min": smaller, "Max": larger,
    }  # fmt: skip


def int_arithmetic(dtype: DataType) -> dict[str, BinaryFn]:
    """The two-operand functions of an integer element type by class name."""
    mask = (1 << dtype.bits) - 1
    half = 0 if dtype.is_uint else 1 << (dtype.bits - 1)
    return {
        "Add": lambda a, b: ((a + b + half) & mask) - half, "Sub": lambda a, b: ((a - b + half) & mask) - half,
        "Mul": lambda a, b: ((a * b + half) & mask) - half, "Div": lambda a, b: ((trunc_div(a, b) + half) & mask) - half,
        "Mod": trunc_mod, "FloorDiv": lambda a, b: ((floor_div(a, b) + half) & mask) - half, "FloorMod": floor_mod,
        "Min": min, "Max": max,
    }  # fmt: skip


COMPARE: dict[str, BinaryFn] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip

_TABLES: dict[str, dict[str, BinaryFn]] = {}


def arithmetic(dtype: DataType) -> dict[str, BinaryFn]:
    """The two-operand functions of an element type by class name."""
    name = dtype.element.name
    table = _TABLES.get(name)
    if table is None:
        if dtype.is_float:
            table = float_arithmetic(dtype)
        elif dtype.is_bool:
            table = {"Min": lambda a, b: a and b, "Max": lambda a, b: a or b}
        else:
            table = int_arithmetic(dtype)
        _TABLES[name] = table
    return table


def int_to_float(dtype: DataType) -> Unary:
    """Conversion of any integer, rounded once."""
    if dtype.element.name == "float64":
        return float
    fit = rounder(dtype)

    def convert(value: int) -> float:
        length = value.bit_length()
        if length > 53:  # keep a sticky bit so that the rounding to double does not round first
            shift = length - 53
            magnitude = abs(value)
            kept = (magnitude >> shift) | (1 if magnitude & ((1 << shift) - 1) else 0)
            return fit(math.copysign(math.ldexp(kept, shift), value))  # type: ignore[no-any-return]
        return fit(float(value))  # type: ignore[no-any-return]

    return convert


def float_to_int(dtype: DataType) -> Unary:
    """Truncation; values out of range saturate and NaN gives 0 (the language leaves them open, the interpreter chooses)."""
    low = 0 if dtype.is_uint else -(1 << (dtype.bits - 1))
    high = (1 << (dtype.bits - (0 if dtype.is_uint else 1))) - 1

    def convert(value: float) -> int:
        if value != value:
            return 0
        if value >= high:
            return high
        return low if value <= low else int(value)

    return convert


def caster(source: DataType, target: DataType) -> Unary:
    """Conversion between element types by the rules of C."""
    if target.code == "handle" or source.code == "handle":
        return lambda value: value
    if target.is_bool:
        return lambda value: value != 0
    if target.is_float:
        return rounder(target) if source.is_float else int_to_float(target)
    if source.is_float:
        return float_to_int(target)
    fit = wrapper(target)
    return lambda value: fit(int(value))


def bits_of(value: Number, dtype: DataType) -> int:
    """The bit pattern of a value as an unsigned integer."""
    if dtype.is_float:
        return int.from_bytes(np.array(value, dtype.numpy).tobytes(), "little")
    return int(value) & ((1 << dtype.bits) - 1)


def from_bits(bits: int, dtype: DataType) -> Number:
    """The value of a bit pattern."""
    bits &= (1 << dtype.bits) - 1
    if dtype.is_float:
        return float(np.frombuffer(bits.to_bytes(dtype.itemsize // dtype.lanes, "little"), dtype.numpy)[0])
    return bool(bits) if dtype.is_bool else wrapper(dtype)(bits)
