"""Floating-point values rounded once, to any format and in any direction, from numbers held as doubles.

Sums are rounded to odd first: a double that is inexact is made odd, from which rounding again to a format of at most 51 bits
gives what one rounding of the exact number gives. Source: Boldo, Melquiond, "Emulation of FMA and correctly rounded sums: proved
algorithms using rounding to odd" (2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np

from ..ptx.types import Type

Rows = np.ndarray


@dataclass(slots=True, frozen=True)
class Format:
    """A binary format: bits of precision, the least exponent of a normal number, the greatest number."""

    precision: int
    lowest: int
    highest: float
    infinite: bool = True


FORMATS = {
    "f16": Format(11, -14, 65504.0), "bf16": Format(8, -126, float.fromhex("0x1.fep127")),
    "f32": Format(24, -126, float.fromhex("0x1.fffffep127")), "tf32": Format(11, -126, float.fromhex("0x1.ffcp127")),
    "e4m3": Format(4, -6, 448.0, False), "e5m2": Format(3, -14, 57344.0),
}  # fmt: skip
NANS = {
    "f16": np.array([0x7FFF], "u2"), "bf16": np.array([0x7FFF], "u2"), "f32": np.array([0x7FFFFFFF], "u4"),
    "f64": np.array([0x7FF8000000000000], "u8"), "tf32": np.array([0x7FFFFFFF], "u4"), "e4m3": np.array([0x7F], "u1"),
    "e5m2": np.array([0x7F], "u1"),
}  # fmt: skip
"""The number that stands for any result that is none."""
SMALL = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}


def _away(values: Rows) -> Rows:
    whole = np.copysign(np.trunc(values), values)
    rows: np.ndarray = np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)
    return rows


TO_INTEGER: dict[str, Callable[[Rows], Rows]] = {
    "rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": _away,
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip


def round_to(values: Rows, form: Format, mode: str) -> Rows:
    """Doubles that are numbers of a format."""
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent - form.precision, form.lowest - form.precision + 1)
    found: Rows = np.ldexp(TO_INTEGER[mode](np.ldexp(values, -unit)), unit)
    over = np.abs(found) > form.highest
    if over.any():
        kept = mode == "rz"
        up = np.isinf(values) | (
            found > 0 if mode == "rp" else found < 0 if mode == "rm" else np.full(found.shape, not kept)
        )
        found = np.where(over, np.copysign(np.where(up, np.inf, form.highest), found), found)
    return found


def encode(values: Rows, name: str, mode: str = "rn", finite: bool = False) -> Rows:
    """Doubles, exact or rounded to odd, as numbers of a format, in the numpy type that holds its bits or values."""
    if name == "f64":
        return _canonical(values, NANS["f64"].view("f8"))
    form = FORMATS[name]
    found = round_to(values, form, mode)
    if finite or not form.infinite:
        found = np.where(np.isnan(found), found, np.clip(found, -form.highest, form.highest))
    if name in SMALL:
        bits = found.astype("f4").astype(SMALL[name]).view("u1")
    elif name == "bf16":
        bits = (found.astype("f4").view("u4") >> np.uint32(16)).astype("u2")
    elif name == "f16":
        bits = found.astype("f2").view("u2")
    else:
        bits = found.astype("f4").view("u4")
    bits = np.where(np.isnan(values), NANS[name], bits)
    return bits.view("f2") if name == "f16" else bits.view("f4") if name in ("f32", "tf32") else bits


def decode(bits: Rows, name: str) -> Rows:
    """Numbers of a format as doubles."""
    if name == "bf16":
        return (bits.astype("u4") << np.uint32(16)).view("f4").astype("f8")
    if name in SMALL:
        rows: np.ndarray = bits.view(SMALL[name]).astype("f8")
        return rows
    if name == "tf32":
        return (bits.view("u4") & np.uint32(0xFFFFE000)).view("f4").astype("f8")
    return bits.astype("f8")


def parts(type_: Type) -> tuple[str, int]:
    """The format of a type and how many numbers of it one value packs."""
    if type_.name.endswith("x2"):
        return type_.name[:-2], 2
    return type_.name, 1


def unpack(values: Rows, type_: Type) -> Rows:
    """Values as doubles; rows of two for packed types."""
    name, count = parts(type_)
    if count == 1:
        return decode(values, name)
    kind = {"f16": "f2", "bf16": "u2", "e4m3": "u1", "e5m2": "u1", "f32": "f4"}[name]
    return decode(np.ascontiguousarray(values).view(kind).reshape(-1, 2), name)


def pack(values: Rows, type_: Type, mode: str = "rn", finite: bool = False) -> Rows:
    """Doubles as values of a type."""
    name, count = parts(type_)
    found = encode(values, name, mode, finite)
    return found if count == 1 else np.ascontiguousarray(found).view(type_.numpy).ravel()


def _canonical(values: Rows, nan: Rows) -> Rows:
    bad = values != values
    return np.where(bad, nan, values) if bad.any() else values


def canonical(values: Rows, name: str) -> Rows:
    """Values of f32 or f64 with the one NaN that the machine gives."""
    return _canonical(values, NANS[name].view(values.dtype))


TINY = {"f4": np.float32(2.0**-126), "f2": np.float16(2.0**-14), "f8": 2.0**-126}


def flush(values: Rows) -> Rows:
    """Denormal numbers of single precision (doubles that stand for them too) are zeros of their sign."""
    small = np.abs(values) < TINY[values.dtype.str[1:]]
    return np.where(small, np.copysign(values.dtype.type(0), values), values) if small.any() else values


# ---- exact sums and products


def to_odd(total: Rows, error: Rows) -> Rows:
    """The double ``total``, which is an exact number less ``error``, rounded to odd."""
    even = (total.view("i8") & 1) == 0
    fix = (error != 0) & even & np.isfinite(total)
    if not fix.any():
        return total
    return np.where(fix, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def two_sum(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """A sum and its error, exactly (Knuth)."""
    total = a + b
    other = total - a
    error = (a - (total - other)) + (b - other)
    return total, np.where(np.isfinite(error), error, 0.0)


def odd_sum(a: Rows, b: Rows) -> Rows:
    """a + b, rounded to odd."""
    return to_odd(*two_sum(a, b))


_LOW29, _HALF29 = np.int64((1 << 29) - 1), np.int64(1 << 28)


def fused32(a: Rows, b: Rows, c: Rows) -> Rows:
    """a * b + c of floats, rounded once to nearest: the product is exact, the sum doubtful only half way between floats."""
    product = a.astype("f8") * b.astype("f8")
    addend = c.astype("f8")
    total = product + addend
    doubtful = (total.view("i8") & _LOW29) == _HALF29
    doubtful |= np.abs(total) < 2.0**-126
    if doubtful.any():
        total = to_odd(*two_sum(product, addend))
    rows: np.ndarray = total.astype("f4")
    return rows


_SPLIT = 134217729.0


def two_product(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """A product and its error, exactly where neither is extreme (Veltkamp, Dekker)."""
    product = a * b
    x, y = a * _SPLIT, b * _SPLIT
    ah, bh = x - (x - a), y - (y - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def fused64(a: Rows, b: Rows, c: Rows) -> Rows:
    """a * b + c of doubles, rounded once to nearest."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    top, under = two_sum(high, middle)
    found = top + odd_sum(rest, under)
    exponents = [np.frexp(v)[1] for v in (a, b, c)]
    usual = (np.abs(high) > 2.0**-900) & (np.abs(high) < 2.0**900)
    usual &= (np.abs(exponents[0]) < 500) & (np.abs(exponents[1]) < 500) & (np.abs(c) < 2.0**900)
    usual &= (np.abs(c) > 2.0**-900) | (c == 0)
    special = ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c) | (a == 0) | (b == 0)
    found = np.where(special, a * b + c, found)
    odd = np.flatnonzero(~usual & ~special)
    for k in odd.tolist():
        found[k] = _nearest(Fraction(float(a[k])) * Fraction(float(b[k])) + Fraction(float(c[k])))
    rows: np.ndarray = found
    return rows


def _nearest(value: Fraction) -> float:
    """A rational number rounded to a double."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
