"""Integer arithmetic. numpy's integers wrap as the machine's do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.reading import U32, Reading, Run
from ..ptx.types import SIGNED, TYPES, UNSIGNED, Type
from . import floating
from .table import compute, instruction

Rows = np.ndarray
S64, S32, PRED = TYPES["s64"], TYPES["s32"], TYPES["pred"]


def wide(type_: Type) -> np.dtype:
    """The type of twice the bits."""
    return (SIGNED if type_.kind == "s" else UNSIGNED)[2 * type_.bytes]


def limits(kind: np.dtype) -> tuple[int, int]:
    """Least and greatest number of an integer type."""
    info = np.iinfo(kind)
    return int(info.min), int(info.max)


def halves(run: Callable[..., Rows], kind: str) -> Callable[..., Rows]:
    """An operation on pairs of 16 bits, each on its own."""

    def both(*values: Rows) -> Rows:
        parts = [np.ascontiguousarray(v).view(kind).reshape(-1, 2) for v in values]
        return np.ascontiguousarray(run(*parts)).view("u4").ravel()

    return both


def high_product(a: Rows, b: Rows) -> Rows:
    """The upper 64 bits of products of 64 bits."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    x, y = a.view("u8"), b.view("u8")
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    found = x1 * y1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        found = found - np.where(a < 0, y, 0).astype("u8") - np.where(b < 0, x, 0).astype("u8")
    rows: np.ndarray = found.view(a.dtype)
    return rows


def _high(type_: Type) -> Callable[[Rows, Rows], Rows]:
    if type_.bits == 64:
        return high_product
    double, shift = wide(type_), wide(type_).type(type_.bits)
    return lambda a, b: (a.astype(double) * b.astype(double) >> shift).astype(type_.numpy)


def _saturated(run: np.ufunc) -> Callable[[Rows, Rows], Rows]:
    least, most = limits(np.dtype("i4"))
    return lambda a, b: np.clip(run(a.astype("i8"), b.astype("i8")), least, most).astype("i4")


@instruction("add", "sub")
def _add(reading: Reading) -> Run:
    """add{.sat, .cc}.type d, a, b"""
    if floating.is_float(reading):
        return floating.add(reading)
    with_carry = reading.flag("cc")
    saturated = reading.flag("sat")
    type_ = reading.type()
    run = np.add if reading.opcode == "add" else np.subtract
    if with_carry:
        return _carry(reading, type_, keep=True, bring=False)
    if type_.name.endswith("x2"):
        return compute(reading, halves(run, "u2"), type_, type_, type_)
    if saturated:
        return compute(reading, _saturated(run), type_, type_, type_)
    return compute(reading, run, type_, type_, type_)


@instruction("addc", "subc")
def _addc(reading: Reading) -> Run:
    """addc{.cc}.type d, a, b: with the carry of the instruction before."""
    keep = reading.flag("cc")
    return _carry(reading, reading.type(), keep, bring=True)


def _carry(reading: Reading, type_: Type, keep: bool, bring: bool) -> Run:
    bits = UNSIGNED[type_.bytes]
    unsigned = Type(f"u{type_.bits}", "u", type_.bits, bits)
    put, a, b = reading.into(0, unsigned), reading.value(1, unsigned), reading.value(2, unsigned)
    less = reading.opcode.startswith("sub")

    def run(batch: Batch, ix: Index) -> None:
        x, y = a(batch, ix), b(batch, ix)
        carry = batch.carry if ix is None or len(batch.carry) == 1 else batch.carry[ix]
        more = carry.astype(bits) if bring else np.zeros(1, bits)
        if less:
            found = x - y - more
            out = (x < y) | ((x == y) & (more != 0))
        else:
            found = x + y + more
            out = (found < x) | ((found == x) & (more != 0) & (y != 0))
        put(batch, ix, found)
        if keep:
            whole = np.broadcast_to(batch.carry, batch.n).copy()
            whole[batch.lanes(ix)] = out if ix is not None or len(out) == 1 else out[batch.lanes(ix)]
            batch.carry = whole

    return run


@instruction("mul")
def _mul(reading: Reading) -> Run:
    """mul.{lo, hi, wide}.type d, a, b"""
    if floating.is_float(reading):
        return floating.multiply(reading)
    mode = reading.one("lo", "hi", "wide")
    type_ = reading.type()
    if mode == "wide":
        double = wide(type_)
        result = Type("", type_.kind, 2 * type_.bits, double)
        return compute(reading, lambda a, b: a.astype(double) * b.astype(double), result, type_, type_)
    return compute(reading, np.multiply if mode == "lo" else _high(type_), type_, type_, type_)


@instruction("mad")
def _mad(reading: Reading) -> Run:
    """mad.{lo, hi, wide}{.cc, .sat}.type d, a, b, c; mad.rn of floats is fma."""
    if floating.is_float(reading):
        return floating.fused(reading)
    mode = reading.one("lo", "hi", "wide")
    saturated = reading.flag("sat")
    type_ = reading.type()
    if mode == "wide":
        double = wide(type_)
        result = Type("", type_.kind, 2 * type_.bits, double)
        return compute(reading, lambda a, b, c: a.astype(double) * b.astype(double) + c, result, type_, type_, result)
    if mode == "lo":
        return compute(reading, lambda a, b, c: a * b + c, type_, type_, type_, type_)
    high = _high(type_)
    if saturated:
        total = _saturated(np.add)
        return compute(reading, lambda a, b, c: total(high(a, b), c), type_, type_, type_, type_)
    return compute(reading, lambda a, b, c: high(a, b) + c, type_, type_, type_, type_)


@instruction("mul24")
def _mul24(reading: Reading) -> Run:
    mode = reading.one("lo", "hi")
    type_ = reading.type()
    shift = np.array([8], type_.numpy)

    def product(a: Rows, b: Rows) -> Rows:
        x, y = (a << shift >> shift).astype("i8"), (b << shift >> shift).astype("i8")
        rows: np.ndarray = (x * y if mode == "lo" else x * y >> np.int64(16)).astype(type_.numpy)
        return rows

    return compute(reading, product, type_, type_, type_)


@instruction("div", "rem")
def _div(reading: Reading) -> Run:
    """Rounds towards zero. By zero: all bits of a quotient, the dividend as remainder (as the machine gives)."""
    if floating.is_float(reading):
        return floating.divide(reading)
    type_ = reading.type()
    divides = reading.opcode == "div"

    def run(a: Rows, b: Rows) -> Rows:
        zero = b == 0
        divisor = np.where(zero, np.array(1, type_.numpy), b)
        rest = np.fmod(a, divisor)
        if not divides:
            return np.where(zero, a, rest)
        found = np.floor_divide(a - rest, divisor)
        return np.where(zero, np.array([-1]).astype(type_.numpy), found)

    return compute(reading, run, type_, type_, type_)


@instruction("abs", "neg")
def _unary(reading: Reading) -> Run:
    if floating.is_float(reading):
        return floating.unary(reading)
    type_ = reading.type()
    return compute(reading, np.absolute if reading.opcode == "abs" else np.negative, type_, type_)


@instruction("min", "max")
def _minmax(reading: Reading) -> Run:
    """min{.relu}.type d, a, b"""
    if floating.is_float(reading):
        return floating.extremum(reading)
    relu = reading.flag("relu")
    type_ = reading.type()
    run: Callable[..., Rows] = np.minimum if reading.opcode == "min" else np.maximum
    zero = np.zeros(1, "i2" if type_.name.endswith("x2") else type_.numpy)
    chosen = run
    if relu:
        run = lambda a, b: np.maximum(chosen(a, b), zero)  # noqa: E731
    if type_.name.endswith("x2"):
        run = halves(run, "i2" if type_.kind == "s" else "u2")
    return compute(reading, run, type_, type_, type_)


@instruction("sad")
def _sad(reading: Reading) -> Run:
    """c + |a - b|"""
    type_ = reading.type()
    return compute(reading, lambda a, b, c: c + np.where(a < b, b - a, a - b), type_, type_, type_, type_)


@instruction("dp4a")
def _dot(reading: Reading) -> Run:
    """Products of the bytes of a with those of b, added to c."""
    types = reading.type(), reading.type()
    result = S32 if "s" in [type_.kind for type_ in types] else U32

    def run(a: Rows, b: Rows, c: Rows) -> Rows:
        x, y = [
            np.ascontiguousarray(v).view("i1" if type_.kind == "s" else "u1").reshape(len(v), 4).astype("i8")
            for v, type_ in zip(np.broadcast_arrays(a, b), types)
        ]
        rows: np.ndarray = ((x * y).sum(axis=1) + c.astype("i8")).astype(result.numpy)
        return rows

    return compute(reading, run, result, U32, U32, result)
