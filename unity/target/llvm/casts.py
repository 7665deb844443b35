"""Conversions between data types, and values to and from their form in memory.

float to integer truncates and saturates (NaN gives 0): LLVM's plain instruction would be undefined out of range.
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Var
from ...ir.scalar import Cast
from ...support.errors import CodegenError
from ...support.source import Span
from .lltypes import float_text, int_text, memory_type, value_type
from .narrow import narrow, widen
from .writer import EXPRESSIONS, FunctionWriter

_F32 = DataType("float32")


def _rounded_to_odd(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A 64-bit integer as one that float64 holds exactly: beyond 2**53 lost bits set the last one kept, so that a later
    rounding to fewer bits sees on which side of a half the number lies."""
    ty, mask = value_type(dtype), value_type(DataType("bool").with_lanes(dtype.lanes))
    kept, carry = 1 << 53, 1 << 11
    lost = w.emit(f"and {ty} {text}, {int_text(carry - 1, dtype)}")
    odd = w.emit(f"or {ty} {w.emit(f'xor {ty} {text}, {lost}')}, {int_text(carry, dtype)}")
    inexact = w.emit(f"icmp ne {ty} {lost}, {int_text(0, dtype)}")
    if dtype.is_int:
        moved = w.emit(f"add {ty} {text}, {int_text(kept, dtype)}")
        large = w.emit(f"icmp ugt {ty} {moved}, {int_text(2 * kept, dtype)}")
    else:
        large = w.emit(f"icmp ugt {ty} {text}, {int_text(kept, dtype)}")
    return w.emit(f"select {mask} {w.emit(f'and {mask} {inexact}, {large}')}, {ty} {odd}, {ty} {text}")


def _truncated(w: FunctionWriter, text: str, source: DataType, target: DataType) -> str:
    """Floats truncated to integers and saturated, by comparisons: on x86 LLVM takes vectors of its saturating conversion apart lane
    by lane, those that it made of a loop as well. Integers of less than 32 bits by way of those, held to their range as floats."""
    from_type, to_type = value_type(source), value_type(target)
    mask = value_type(DataType("bool").with_lanes(source.lanes))
    bits = target.bits - target.is_int
    least, beyond = -float(1 << bits) if target.is_int else 0.0, float(1 << bits)
    if target.bits < 32:
        for code, limit in (("olt", least), ("ogt", beyond - 1)):
            outside, edge = (
                w.emit(f"fcmp {code} {from_type} {text}, {float_text(limit, source)}"),
                float_text(limit, source),
            )
            text = w.emit(f"select {mask} {outside}, {from_type} {edge}, {from_type} {text}")
        number = w.emit(f"fcmp ord {from_type} {text}, {text}")
        safe = w.emit(f"select {mask} {number}, {from_type} {text}, {from_type} {float_text(0.0, source)}")
        wide = value_type(DataType("int32").with_lanes(source.lanes))
        return w.emit(f"trunc {wide} {w.emit(f'fptosi {from_type} {safe} to {wide}')} to {to_type}")
    low = w.emit(f"fcmp oge {from_type} {text}, {float_text(least, source)}")
    high = w.emit(f"fcmp oge {from_type} {text}, {float_text(beyond, source)}")
    below = w.emit(f"fcmp olt {from_type} {text}, {float_text(beyond, source)}")
    inside = w.emit(f"and {mask} {low}, {below}")
    safe = w.emit(f"select {mask} {inside}, {from_type} {text}, {from_type} {float_text(0.0, source)}")
    made = w.emit(f"{'fptosi' if target.is_int else 'fptoui'} {from_type} {safe} to {to_type}")
    if target.is_int:
        small = w.emit(f"fcmp olt {from_type} {text}, {float_text(least, source)}")
        made = w.emit(f"select {mask} {small}, {to_type} {int_text(-(1 << bits), target)}, {to_type} {made}")
    return w.emit(f"select {mask} {high}, {to_type} {int_text((1 << bits) - 1, target)}, {to_type} {made}")


def convert(w: FunctionWriter, text: str, source: DataType, target: DataType, span: Span | None = None) -> str:
    """A value of one type as another. Raises CodegenError E522 where no conversion exists."""
    if source is target:
        return text
    if source.lanes != target.lanes:
        raise CodegenError("E522", f"cannot convert {source.name} to {target.name}: different lanes", span)
    if source.is_narrow:
        middle = _F32.with_lanes(source.lanes)
        return convert(w, widen(w, text, source), middle, target, span)
    if target.is_narrow:
        if not source.is_float:  # integers of up to 53 bits are exact in float64, so only one rounding follows
            middle = DataType("float64").with_lanes(source.lanes)
            if source.is_integral and source.bits == 64:
                text = _rounded_to_odd(w, text, source)
            return narrow(w, convert(w, text, source, middle, span), target, middle)
        return narrow(w, text, target, source)
    from_type, to_type = value_type(source, span), value_type(target, span)
    if source.code == "handle" or target.code == "handle":
        if source.is_integral and source.lanes == 1:
            return w.emit(f"inttoptr {from_type} {text} to ptr")
        if target.is_integral and target.bits == 64 and source.lanes == 1:
            return w.emit(f"ptrtoint ptr {text} to {to_type}")
        raise CodegenError("E522", f"cannot convert {source.name} to {target.name}", span)
    if target.is_bool:
        if source.is_float:
            return w.emit(f"fcmp une {from_type} {text}, {float_text(0.0, source)}")
        return w.emit(f"icmp ne {from_type} {text}, {int_text(0, source)}")
    if source.is_float and target.is_float:
        return w.emit(f"{'fpext' if target.bits > source.bits else 'fptrunc'} {from_type} {text} to {to_type}")
    if source.is_float:
        return _truncated(w, text, source, target)
    unsigned = source.is_uint or source.is_bool
    if target.is_float:
        return w.emit(f"{'uitofp' if unsigned else 'sitofp'} {from_type} {text} to {to_type}")
    if source.is_bool or target.bits > source.bits:
        return w.emit(f"{'zext' if unsigned else 'sext'} {from_type} {text} to {to_type}")
    return w.emit(f"trunc {from_type} {text} to {to_type}") if target.bits < source.bits else text


def to_memory(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A register value as it stands in memory (bool becomes a byte)."""
    if not dtype.is_bool:
        return text
    return w.emit(f"zext {value_type(dtype)} {text} to {memory_type(dtype)}")


def from_memory(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A value read from memory as a register value."""
    if not dtype.is_bool:
        return text
    zero = "0" if dtype.lanes == 1 else "zeroinitializer"
    return w.emit(f"icmp ne {memory_type(dtype)} {text}, {zero}")


def _cast(w: FunctionWriter, expr: Cast) -> str:
    return convert(w, w.value(expr.value), dtype_of(expr.value), expr.ty.dtype, expr.span)


def scalar_parameter(w: FunctionWriter, param: Var, operand: str) -> str:
    """The text of a scalar parameter; the variable has its value. Raises CodegenError E521 for a vector."""
    dtype = dtype_of(param)
    if dtype.lanes != 1:
        raise CodegenError("E521", f"parameter {param.name} is a vector ({dtype.name})", param.span)
    w.env[param] = from_memory(w, operand, dtype)
    return f"{memory_type(dtype)} {operand}"


EXPRESSIONS[Cast] = _cast
