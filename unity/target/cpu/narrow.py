"""Conversions between float32 / float64 and the narrow float types (float16, bfloat16, float8), on their bits.

Rounding is to nearest, ties to even, once; overflow, infinities and NaN follow ml_dtypes. float16 uses the processor's
conversion where it has one. Works for any number of lanes.
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

    ``kind``: ``ieee`` (infinities), ``fn`` (no infinities, all ones is NaN), ``fnuz`` (only 0x80 is NaN, no -0).
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
}


def _format(dtype: DataType) -> Format:
    found = FORMATS.get(dtype.element.name)
    if found is None:
        raise CodegenError("E521", f"the processor target has no arithmetic for {dtype.name}")
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
    if dtype.element.name == "float16":
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        bits = w.emit(f"bitcast {source} {text} to {half}")
        return w.emit(f"fpext {half} {bits} to {f32}")
    u = _Bits(w, _U32.with_lanes(lanes))
    raw = w.emit(f"zext {source} {text} to {u.type}")
    if dtype.element.name == "bfloat16":
        return w.emit(f"bitcast {u.type} {u.op('shl', raw, 16)} to {f32}")
    e, m = form.exponent, form.mantissa
    magnitude = u.op("and", raw, (1 << (e + m)) - 1)
    sign = u.op("shl", u.op("and", raw, 1 << (e + m)), 31 - e - m)
    # as an integer times 2^-126 the magnitude becomes an exact float32; scaling by a power of two is exact too
    moved = u.op("shl", magnitude, 23 - m)
    as_float = w.emit(f"bitcast {u.type} {moved} to {f32}")
    shift = 127 - form.bias
    scale = u.const((127 + shift) << 23)
    scale_float = w.emit(f"bitcast {u.type} {scale} to {f32}")
    # with few exponent bits a narrow subnormal is a float32 subnormal here, so scaling must see it: integers avoid
    # flush-to-zero modes only if the product is computed with denormals on, which is how the code always runs
    scaled = w.emit(f"fmul {f32} {as_float}, {scale_float}")
    bits = w.emit(f"bitcast {f32} {scaled} to {u.type}")
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
    if dtype.element.name == "float16":
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        return w.emit(f"bitcast {half} {w.emit(f'fptrunc {f32} {text} to {half}')} to {target}")
    u = _Bits(w, _U32.with_lanes(lanes))
    bits = w.emit(f"bitcast {f32} {text} to {u.type}")
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
    # subnormal result: shift the significand right by the missing exponent, rounding half to even
    exponent = u.op("lshr", magnitude, 23)
    significand = u.op("or", u.op("and", magnitude, 0x7FFFFF), 0x800000)
    missing = u.op("sub", u.const(127 - form.bias + 1 + drop), exponent)
    shift = u.select(u.compare("ugt", missing, 31), 31, missing)
    kept = u.op("lshr", significand, shift)
    lost = u.op("sub", significand, u.op("shl", kept, shift))
    half = u.op("shl", u.const(1), u.op("sub", shift, 1))
    more = u.compare("ugt", lost, half)
    tie = u.compare("eq", lost, half)
    up = u.select(more, 1, u.select(tie, u.op("and", kept, 1), 0))
    small = u.op("add", kept, up)
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
