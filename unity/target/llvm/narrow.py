"""Conversions between float32 / float64 and the narrow float types (float16, bfloat16, float8), on their bits.

Rounding is to nearest, ties to even (of powers of two alone: upwards), once; overflow, infinities and NaN follow ml_dtypes.
A type that the processor converts itself (``ModuleWriter.converts``) is converted so, where any NaN may become another: elsewhere
LLVM would call functions that no C library has. Works for any number of lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ffi.dtype import DataType
from ...support.errors import CodegenError
from .lltypes import int_text, value_type
from .writer import FunctionWriter

_F32, _F64, _U32, _U64 = (DataType(n) for n in ("float32", "float64", "uint32", "uint64"))


@dataclass(slots=True, frozen=True)
class Format:
    """A narrow float format: exponent and mantissa bits, bias, and what the top codes mean.

    ``kind``: ``ieee`` (infinities), ``fn`` (no infinities, all ones is NaN), ``fnuz`` (only 0x80 is NaN, no -0), ``scale`` (powers
    of two alone: no sign, no zero, all ones is NaN).
    """

    exponent: int
    mantissa: int
    bias: int
    kind: str = "ieee"


FORMATS: dict[str, Format] = {
    "float16": Format(5, 10, 15),
    "bfloat16": Format(8, 7, 127),
    "float8_e5m2": Format(5, 2, 15),
    "float8_e4m3": Format(4, 3, 7),
    "float8_e3m4": Format(3, 4, 3),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float8_e4m3b11fnuz": Format(4, 3, 11, "fnuz"),
    "float8_e8m0fnu": Format(8, 0, 127, "scale"),
}


def _format(dtype: DataType) -> Format:
    found = FORMATS.get(dtype.element.name)
    if found is None:
        raise CodegenError("E521", f"there is no arithmetic for {dtype.name}")
    return found


class _Bits:
    """Integer instructions on one vector type."""

    def __init__(self, w: FunctionWriter, dtype: DataType) -> None:
        self.w, self.dtype, self.type = w, dtype, value_type(dtype)
        self.mask_type = value_type(DataType("bool").with_lanes(dtype.lanes))

    def const(self, value: int) -> str:
        return int_text(value, self.dtype)

    def op(self, name: str, a: str, b: str | int) -> str:
        right = self.const(b) if isinstance(b, int) else b
        return self.w.emit(f"{name} {self.type} {a}, {right}")

    def compare(self, code: str, a: str, b: str | int) -> str:
        right = self.const(b) if isinstance(b, int) else b
        return self.w.emit(f"icmp {code} {self.type} {a}, {right}")

    def select(self, condition: str, a: str | int, b: str | int) -> str:
        x = self.const(a) if isinstance(a, int) else a
        y = self.const(b) if isinstance(b, int) else b
        return self.w.emit(f"select {self.mask_type} {condition}, {self.type} {x}, {self.type} {y}")


def widen(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """Bits of a narrow value as float32 (exact)."""
    form = _format(dtype)
    source, lanes = value_type(dtype), dtype.lanes
    f32 = value_type(_F32.with_lanes(lanes))
    if dtype.element.name == "float16" and "float16" in w.module.converts:
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        bits = w.emit(f"bitcast {source} {text} to {half}")
        return w.emit(f"fpext {half} {bits} to {f32}")
    u = _Bits(w, _U32.with_lanes(lanes))
    raw = w.emit(f"zext {source} {text} to {u.type}")
    if dtype.element.name == "bfloat16":
        return w.emit(f"bitcast {u.type} {u.op('shl', raw, 16)} to {f32}")
    if form.kind == "scale":
        power = u.select(u.compare("eq", raw, 0), 1 << 22, u.op("shl", raw, 23))  # 2**-127 is a subnormal float32
        return w.emit(f"bitcast {u.type} {u.select(u.compare('eq', raw, 255), 0x7FC00000, power)} to {f32}")
    e, m = form.exponent, form.mantissa
    magnitude = u.op("and", raw, (1 << (e + m)) - 1)
    sign = u.op("shl", u.op("and", raw, 1 << (e + m)), 31 - e - m)
    moved = u.op("shl", magnitude, 23 - m)
    bits = u.op("add", moved, (127 - form.bias) << 23)
    # a narrow subnormal is, one exponent higher, off by that exponent's leading one: no subnormal float32 on the way
    step = (128 - form.bias) << 23
    raised = w.emit(f"bitcast {u.type} {u.op('add', moved, step)} to {f32}")
    leading = w.emit(f"bitcast {u.type} {u.const(step)} to {f32}")
    small = w.emit(f"bitcast {f32} {w.emit(f'fsub {f32} {raised}, {leading}')} to {u.type}")
    bits = u.select(u.compare("ult", magnitude, 1 << m), small, bits)
    if form.kind == "ieee":
        special = u.compare("uge", magnitude, ((1 << e) - 1) << m)
        loud = u.op("or", u.op("and", moved, 0x7FFFFF), 0x7F800000)
        bits = u.select(special, loud, bits)
    elif form.kind == "fn":
        bits = u.select(u.compare("eq", magnitude, (1 << (e + m)) - 1), 0x7FC00000, bits)
    signed = u.op("or", bits, sign)
    if form.kind == "fnuz":
        signed = u.select(u.compare("eq", raw, 1 << (e + m)), 0xFFC00000, signed)
    return w.emit(f"bitcast {u.type} {signed} to {f32}")


def to_odd_float32(w: FunctionWriter, text: str, lanes: int) -> str:
    """float64 to float32 rounded to odd, so that rounding once more to a narrow type rounds correctly."""
    f32, f64 = value_type(_F32.with_lanes(lanes)), value_type(_F64.with_lanes(lanes))
    mask = value_type(DataType("bool").with_lanes(lanes))
    u = _Bits(w, _U32.with_lanes(lanes))
    near = w.emit(f"fptrunc {f64} {text} to {f32}")
    back = w.emit(f"fpext {f32} {near} to {f64}")
    wide = _Bits(w, _U64.with_lanes(lanes))
    exact_bits = wide.op("and", w.emit(f"bitcast {f64} {text} to {wide.type}"), (1 << 63) - 1)
    back_bits = wide.op("and", w.emit(f"bitcast {f64} {back} to {wide.type}"), (1 << 63) - 1)
    bits = w.emit(f"bitcast {f32} {near} to {u.type}")
    above = wide.compare("ugt", back_bits, exact_bits)
    lowered = u.op("sub", bits, w.emit(f"zext {mask} {above} to {u.type}"))
    inexact = w.emit(f"fcmp one {f64} {back}, {text}")
    odd = u.op("or", lowered, w.emit(f"zext {mask} {inexact} to {u.type}"))
    return w.emit(f"bitcast {u.type} {odd} to {f32}")


def narrow(w: FunctionWriter, text: str, dtype: DataType, source: DataType) -> str:
    """float32 or float64 rounded to the bits of a narrow type."""
    form = _format(dtype)
    lanes = dtype.lanes
    if source.bits == 64:
        text = to_odd_float32(w, text, lanes)
    f32 = value_type(_F32.with_lanes(lanes))
    target = value_type(dtype)
    if dtype.element.name in w.module.converts:
        own = {"float16": "half", "bfloat16": "bfloat"}[dtype.element.name]
        own = own if lanes == 1 else f"<{lanes} x {own}>"
        return w.emit(f"bitcast {own} {w.emit(f'fptrunc {f32} {text} to {own}')} to {target}")
    u = _Bits(w, _U32.with_lanes(lanes))
    bits = w.emit(f"bitcast {f32} {text} to {u.type}")
    if form.kind == "scale":  # halves upwards, but for 2**-127: it and what lies below are the least power
        rounded = u.op("add", bits, u.select(u.compare("ult", bits, 0x800000), (1 << 22) - 1, 1 << 22))
        outside = u.compare("uge", u.op("sub", bits, 1), 0x7F7FFFFF)  # zero, negative, infinite, NaN
        return w.emit(f"trunc {u.type} {u.select(outside, 255, u.op('lshr', rounded, 23))} to {target}")
    nan = u.compare("ugt", u.op("and", bits, 0x7FFFFFFF), 0x7F800000)
    if dtype.element.name == "bfloat16":
        odd = u.op("and", u.op("lshr", bits, 16), 1)
        rounded = u.op("lshr", u.op("add", u.op("add", bits, 0x7FFF), odd), 16)
        quiet = u.op("or", u.op("lshr", bits, 16), 0x40)
        return w.emit(f"trunc {u.type} {u.select(nan, quiet, rounded)} to {target}")
    return w.emit(f"trunc {u.type} {_round_small(w, u, bits, nan, form)} to {target}")


def _round_small(w: FunctionWriter, u: _Bits, bits: str, nan: str, form: Format) -> str:
    """float32 bits to the bits of a format with less exponent range."""
    e, m = form.exponent, form.mantissa
    drop = 23 - m
    sign = u.op("shl", u.op("lshr", bits, 31), e + m)
    magnitude = u.op("and", bits, 0x7FFFFFFF)
    # normal result: rebias, then round half to even at the dropped bits (a carry moves into the exponent)
    rebias = (127 - form.bias) << 23
    odd = u.op("and", u.op("lshr", magnitude, drop), 1)
    normal = u.op("lshr", u.op("add", u.op("sub", magnitude, rebias - ((1 << (drop - 1)) - 1)), odd), drop)
    # subnormal result: beside a number whose last bit weighs as the least subnormal, the addition of floats rounds
    f32, weight = value_type(_F32.with_lanes(u.dtype.lanes)), (127 - form.bias + 1 + drop) << 23
    pair = [w.emit(f"bitcast {u.type} {x} to {f32}") for x in (magnitude, u.const(weight))]
    total = w.emit(f"bitcast {f32} {w.emit(f'fadd {f32} {pair[0]}, {pair[1]}')} to {u.type}")
    small = u.op("sub", total, weight)
    result = u.select(u.compare("ult", magnitude, (127 - form.bias + 1) << 23), small, normal)
    if form.kind == "ieee":
        top = ((1 << e) - 1) << m
        result = u.select(u.compare("uge", result, top), top, result)
        result = u.select(nan, top | (1 << (m - 1)), result)
        return u.op("or", result, sign)
    if form.kind == "fn":
        top = (1 << (e + m)) - 1  # NaN; the largest finite value is one below
        result = u.select(u.compare("uge", result, top), top, result)
        return u.op("or", u.select(nan, top, result), sign)
    top = 1 << (e + m)  # fnuz: too large becomes NaN, -0 becomes 0
    over = u.compare("uge", result, top)
    signed = u.select(u.compare("eq", result, 0), 0, u.op("or", result, sign))
    return u.select(nan, top, u.select(over, top, signed))
