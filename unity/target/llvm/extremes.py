"""Min and Max of float32 and float64 values: NaN is handed on, -0.0 is below 0.0 (IEEE 754-2019 minimum and maximum).

LLVM's ``llvm.maximum`` takes six instructions of AVX-512 where neither operand is a constant; ``vrangeps`` orders zeros by
itself and leaves NaN to two more. Against 0.0 a comparison and a masked move do. Same results everywhere.
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from .lltypes import float_text, suffix, value_type
from .writer import FunctionWriter

_BOOL = DataType("bool")
_RANGE = {True: 5, False: 4}
"""The immediate of vrangeps for the larger (True) or the smaller, with its own sign."""
_CURRENT_ROUNDING = 4


def float_extreme(w: FunctionWriter, largest: bool, a: str, b: str, dtype: DataType) -> str:
    """The larger (or the smaller) of two operands."""
    ty = value_type(dtype)
    zero = float_text(0.0, dtype)
    if largest and zero in (a, b):
        value = b if a == zero else a
        above = w.emit(f"fcmp ugt {ty} {value}, {zero}")
        return w.emit(f"select {value_type(_BOOL.with_lanes(dtype.lanes))} {above}, {ty} {value}, {ty} {zero}")
    register = 512 // dtype.bits
    has_instruction = {"avx512dq", "avx512vl"} <= w.module.features and dtype.lanes in (
        register,
        register // 2,
        register // 4,
    )
    if has_instruction and not (_is_constant(a) or _is_constant(b)):
        return _by_range(w, largest, a, b, dtype)
    return w.emit(f"call {ty} @llvm.{'maximum' if largest else 'minimum'}.{suffix(dtype)}({ty} {a}, {ty} {b})")


def number_extreme(w: FunctionWriter, largest: bool, cell: str, value: str, dtype: DataType) -> str:
    """The larger (or the smaller) of a number and a value; the number where the value is NaN. One instruction of a processor."""
    ty = value_type(dtype)
    beyond = w.emit(f"fcmp {'ogt' if largest else 'olt'} {ty} {value}, {cell}")
    return w.emit(f"select {value_type(_BOOL.with_lanes(dtype.lanes))} {beyond}, {ty} {value}, {ty} {cell}")


def _is_constant(text: str) -> bool:
    """True for the text of a constant: LLVM then knows whether it is NaN or a zero."""
    return not text.startswith("%")


def _by_range(w: FunctionWriter, largest: bool, a: str, b: str, dtype: DataType) -> str:
    """vrange takes the number where one operand is NaN; the sum of both is NaN there."""
    ty, lanes = value_type(dtype), dtype.lanes
    bits = lanes * dtype.bits
    name = f"@llvm.x86.avx512.mask.range.{'ps' if dtype.bits == 32 else 'pd'}.{bits}"
    mask = f"i{max(8, lanes)}"
    rounding = bits == 512
    w.module.declare(name, f"declare {ty} {name}({ty}, {ty}, i32, {ty}, {mask}{', i32' if rounding else ''})\n")
    tail = f", i32 {_CURRENT_ROUNDING}" if rounding else ""
    ranged = w.emit(f"call {ty} {name}({ty} {a}, {ty} {b}, i32 {_RANGE[largest]}, {ty} poison, {mask} -1{tail})")
    unordered = w.emit(f"fcmp uno {ty} {a}, {b}")
    total = w.emit(f"fadd {ty} {a}, {b}")
    return w.emit(f"select {value_type(_BOOL.with_lanes(lanes))} {unordered}, {ty} {total}, {ty} {ranged}")
