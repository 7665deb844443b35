"""Arithmetic of single numbers: the quick cases on Python numbers, whatever is rare by way of ``arrays``.

A value is a Python int (integers), bool, or float that is exactly representable in its type.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.abi import INTEGERS, truncdiv
from ....ffi.dtype import DataType
from ...constant import round_float
from . import arrays
from .arrays import COMPARE

Unary = Callable[[Any], Any]
BinaryFn = Callable[[Any, Any], Any]

_c_float = ctypes.c_float


def number(value: Any, dtype: DataType) -> Any:
    """A numpy scalar of an element type as a Python number."""
    return float(value) if dtype.is_float else bool(value) if dtype.is_bool else int(value)


def python_type(value: Any) -> DataType:
    """The data type of a Python number."""
    return DataType("bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64")


def typed(value: Any, dtype: DataType) -> Any:
    """A constant of an element type."""
    return bool(value) if dtype.is_bool else value


def _lifted(function: arrays.Function, target: DataType, *sources: DataType) -> Callable[..., Any]:
    return lambda *args: number(function(*[arrays.typed(a, s) for a, s in zip(args, sources)]), target)


def _round_float32(value: float) -> float:
    return _c_float(value).value


def _round_bfloat16(value: float) -> float:
    if value == 0.0 or value - value != 0.0:  # zero, infinities, NaN
        return float(value)
    exponent = max(math.frexp(value)[1] - 8, -133)
    result = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    return math.copysign(math.inf, value) if abs(result) > 3.3895313892515355e38 else math.copysign(result, value)


_ROUND: dict[str, Unary] = {
    "float64": float, "float32": _round_float32, "bfloat16": _round_bfloat16, "float16": lambda value: float(np.float16(value)),
}  # fmt: skip


def fits(dtype: DataType) -> Unary:
    """Rounding or wrapping of a raw result to the element type, two's complement."""
    if dtype.is_bool or dtype.code in ("handle", "void"):
        return lambda value: value
    if dtype.is_float:
        name, element = dtype.element.name, dtype.element
        return _ROUND.get(name) or (lambda value: round_float(value, element))
    mask = (1 << dtype.bits) - 1
    if dtype.is_uint:
        return lambda value: value & mask
    half = 1 << (dtype.bits - 1)
    return lambda value: ((value + half) & mask) - half


def _float_div(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _smaller(a: Any, b: Any) -> Any:
    """Minimum; NaN if either is NaN; -0.0 is below 0.0."""
    if a != a:
        return a
    if b != b:
        return b
    if a == b == 0:
        return a if math.copysign(1.0, a) < 0 else b
    return a if a < b else b


def _larger(a: Any, b: Any) -> Any:
    """Maximum; NaN if either is NaN; 0.0 is above -0.0."""
    if a != a:
        return a
    if b != b:
        return b
    if a == b == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return a if a > b else b


def _float_arithmetic(dtype: DataType) -> dict[str, BinaryFn]:
    table: dict[str, BinaryFn] = {
        name: _lifted(function, dtype, dtype, dtype)
        for name in ("truncmod", "floordiv", "floormod")
        if (function := arrays.binary(name, dtype)) is not None
    }
    table.update(min=_smaller, max=_larger)
    if dtype.bits == 64:
        return {
            **table,
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "truncdiv": _float_div,
        }
    fit = fits(dtype)
    return {
        **table, "add": lambda a, b: fit(a + b), "sub": lambda a, b: fit(a - b), "mul": lambda a, b: fit(a * b),
        "truncdiv": lambda a, b: fit(_float_div(a, b)),
    }  # fmt: skip


def _int_arithmetic(dtype: DataType) -> dict[str, BinaryFn]:
    mask = (1 << dtype.bits) - 1
    half = 0 if dtype.is_uint else 1 << (dtype.bits - 1)
    return {
        **INTEGERS, "add": lambda a, b: ((a + b + half) & mask) - half, "sub": lambda a, b: ((a - b + half) & mask) - half,
        "mul": lambda a, b: ((a * b + half) & mask) - half, "floordiv": lambda a, b: ((a // b + half) & mask) - half,
        "truncdiv": lambda a, b: ((truncdiv(a, b) + half) & mask) - half,
    }  # fmt: skip


_TABLES: dict[str, dict[str, BinaryFn]] = {}


def binary(name: str, dtype: DataType) -> BinaryFn | None:
    """The two-operand function of a name on an element type; integers are divided by what is not zero."""
    if name in COMPARE:
        return COMPARE[name]
    element = dtype.element
    table = _TABLES.get(element.name)
    if table is None:
        if dtype.is_bool:
            table = {"min": lambda a, b: a and b, "max": lambda a, b: a or b}
        else:
            table = _float_arithmetic(element) if dtype.is_float else _int_arithmetic(element)
        _TABLES[element.name] = table
    return table.get(name)


def caster(source: DataType, target: DataType) -> Unary:
    """Conversion between element types by the rules of C; from float to integer it saturates, NaN gives 0."""
    source, target = source.element, target.element
    if "handle" in (target.code, source.code):
        return lambda value: value
    if target.is_bool:
        return lambda value: value != 0
    fit = fits(target)
    if source.is_float == target.is_float:
        return fit if source.is_float else lambda value: fit(int(value))
    slow = _lifted(arrays.caster(source, target), target, source)
    if source.is_float:
        low, high = arrays.limits(target)
        return lambda value: int(value) if low < value < high else slow(value)
    if source.is_bool or source.bits <= 32:
        return lambda value: fit(float(value))
    return lambda value: fit(float(value)) if -1 << 53 <= value <= 1 << 53 else slow(value)
