"""Floating-point arithmetic: one rounding in the direction asked for, denormals flushed where asked for, approximations by doubles.

The approximate instructions (ex2, lg2, rcp, rsqrt, sin, cos, tanh, ...) compute in double precision and round once: nearer to
the exact value than the machine, which is off by an ulp or two. The option ``inexact`` moves those of float32 as far as the PTX
ISA allows, up or down as their bits say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.reading import Get, Reading, Run
from ..machine.rounding import (
    FORMATS,
    canonical,
    flush,
    fused32,
    fused64,
    odd_sum,
    pack,
    parts,
    round_to,
    unpack,
)
from ..ptx.types import TYPES, Type
from .table import compute, instruction

if TYPE_CHECKING:
    from ..ptx.program import Operand

Rows = np.ndarray
PRED = TYPES["pred"]
ROUNDINGS = ("rn", "rz", "rm", "rp")


def is_float(reading: Reading) -> bool:
    """True for an instruction of floats. By its last type."""
    found = [word for word in reading.words if word in TYPES]
    return bool(found) and TYPES[found[-1]].kind == "f"


class Style:
    """Words that all arithmetic shares: rounding, flushing, clamping."""

    def __init__(self, reading: Reading) -> None:
        self.mode = reading.one(*ROUNDINGS, default="rn")
        self.ftz = reading.flag("ftz")
        self.saturate = reading.flag("sat")
        self.relu = reading.flag("relu")

    def finish(self, values: Rows) -> Rows:
        """Doubles clamped as the words say."""
        if self.saturate:
            values = np.where(np.isnan(values), 0.0, np.clip(values, 0.0, 1.0)) + 0.0
        if self.relu:
            values = np.where(values < 0, 0.0, values) + 0.0
        return values

    def settle(self, values: Rows, name: str) -> Rows:
        """Results of f32 or f64 flushed and clamped, with the machine's NaN."""
        if self.ftz and name == "f32":
            values = flush(values)
        if self.saturate:
            rows: np.ndarray = np.where(
                np.isnan(values), values.dtype.type(0), np.clip(values, 0, 1)
            ) + values.dtype.type(0)
            return rows
        if self.relu:
            values = np.where(values < 0, values.dtype.type(0), values)
        return canonical(values, name)


def arithmetic(
    reading: Reading,
    style: Style,
    type_: Type,
    operands: int,
    native: Callable[..., Rows],
    doubles: Callable[..., Rows],
) -> Run:
    """``d = f(a, ...)``: ``native`` in the type itself rounds to nearest, ``doubles`` gives doubles exact or rounded to odd, for
    other roundings and small formats. Doubles in other roundings are refused."""
    reading.count(1 + operands)
    put = reading.into(0, type_)
    gets = [reading.value(k + 1, type_) for k in range(operands)]
    name, _ = parts(type_)
    if type_.name in ("f32", "f64") and style.mode == "rn":
        run = native
    elif type_.name == "f32":
        form = FORMATS["f32"]

        def run(*values: Rows) -> Rows:
            return round_to(doubles(*[v.astype("f8") for v in values]), form, style.mode).astype("f4")
    elif name in ("f16", "bf16", "f32"):

        def small(batch: Batch, ix: Index) -> None:
            rows = [unpack(get(batch, ix), type_) for get in gets]
            if style.ftz and name == "f16":
                rows = [_flush_half(r) for r in rows]
            found = style.finish(doubles(*rows))
            packed = pack(found, type_, style.mode)
            put(batch, ix, packed)

        return small
    else:
        raise reading.refuse()

    def whole(batch: Batch, ix: Index) -> None:
        rows = [get(batch, ix) for get in gets]
        if style.ftz:
            rows = [flush(r) for r in rows]
        put(batch, ix, style.settle(run(*rows), name))

    return whole


def _flush_half(values: Rows) -> Rows:
    return np.where(np.abs(values) < 2.0**-14, np.copysign(0.0, values), values)


def add(reading: Reading) -> Run:
    """add, sub{.rnd}{.ftz}{.sat}.type"""
    style, type_ = Style(reading), reading.type()
    if reading.opcode == "add":
        return arithmetic(reading, style, type_, 2, np.add, odd_sum)
    return arithmetic(reading, style, type_, 2, np.subtract, lambda a, b: odd_sum(a, -b))


def multiply(reading: Reading) -> Run:
    """mul{.rnd}{.ftz}{.sat}.type"""
    style, type_ = Style(reading), reading.type()
    return arithmetic(reading, style, type_, 2, np.multiply, np.multiply)


def fused(reading: Reading) -> Run:
    """fma.rnd{.ftz}{.sat, .relu}.type d, a, b, c"""
    style, type_ = Style(reading), reading.type()
    native = fused64 if type_.name == "f64" else fused32
    return arithmetic(reading, style, type_, 3, native, lambda a, b, c: odd_sum(a * b, c))


instruction("fma")(fused)


def divide(reading: Reading) -> Run:
    """div.{rnd, approx, full}{.ftz}.type; div.approx.f32 gives zero where the divisor is huge, as the machine does."""
    rough = reading.flag("approx", "full")
    style, type_ = Style(reading), reading.type()
    if rough and type_.name != "f32":
        raise reading.refuse()
    return arithmetic(reading, style, type_, 2, np.divide, np.divide)


def unary(reading: Reading) -> Run:
    """abs, neg: the sign bit."""
    ftz = reading.flag("ftz")
    type_ = reading.type()
    bits = {2: "u2", 4: "u4", 8: "u8"}[type_.bytes]
    raw = Type("", "b", type_.bits, np.dtype(bits))
    sign = {"f16": 0x8000, "bf16": 0x8000, "f32": 1 << 31, "f64": 1 << 63, "f16x2": 0x80008000, "bf16x2": 0x80008000}[
        type_.name
    ]
    mask = np.array([sign], bits)
    put, a = reading.into(0, raw), reading.value(1, raw)
    negates = reading.opcode == "neg"

    def run(batch: Batch, ix: Index) -> None:
        found = a(batch, ix)
        if ftz and type_.name == "f32":
            found = flush(found.view("f4")).view("u4")
        put(batch, ix, found ^ mask if negates else found & ~mask)

    return run


def extremum(reading: Reading) -> Run:
    """min, max{.ftz}{.NaN}{.xorsign.abs}.type d, a, b: of a number and none, the number; -0 is less than +0."""
    ftz, nan = reading.flag("ftz"), reading.flag("NaN")
    xorsign, magnitude = reading.flag("xorsign"), reading.flag("abs")
    type_ = reading.type()
    reading.count(3)
    least = reading.opcode == "min"
    choose = np.fmin if least else np.fmax
    put, a, b = reading.into(0, type_), reading.value(1, type_), reading.value(2, type_)

    def chosen(x: Rows, y: Rows) -> Rows:
        sign = np.signbit(x) ^ np.signbit(y)
        if magnitude or xorsign:
            x, y = np.abs(x), np.abs(y)
        found = choose(x, y)
        zeros = (x == 0) & (y == 0)
        if zeros.any():
            negative = np.signbit(x) | np.signbit(y) if least else np.signbit(x) & np.signbit(y)
            found = np.where(zeros, np.where(negative, x.dtype.type(-0.0), x.dtype.type(0.0)), found)
        if nan:
            found = np.where((x != x) | (y != y), x.dtype.type(np.nan), found)
        if xorsign:
            found = np.copysign(found, np.where(sign, x.dtype.type(-1), x.dtype.type(1)))
        rows: np.ndarray = found
        return rows

    def run(batch: Batch, ix: Index) -> None:
        x, y = a(batch, ix), b(batch, ix)
        if type_.name in ("f32", "f64"):
            if ftz:
                x, y = flush(x), flush(y)
            put(batch, ix, canonical(chosen(x, y), type_.name))
            return
        x, y = unpack(x, type_), unpack(y, type_)
        if ftz:
            x, y = _flush_half(x), _flush_half(y)
        put(batch, ix, pack(chosen(x, y), type_))

    return run


@instruction("copysign")
def _copysign(reading: Reading) -> Run:
    """copysign.type d, a, b: b with the sign of a."""
    type_ = reading.type()
    return compute(reading, lambda a, b: np.copysign(b, a), type_, type_, type_)


def _reciprocal_root(x: Rows) -> Rows:
    rows: np.ndarray = 1.0 / np.sqrt(x)
    return rows


APPROXIMATE: dict[str, Callable[[Rows], Rows]] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rsqrt": _reciprocal_root,
    "rcp": lambda x: 1.0 / x, "sqrt": np.sqrt,
}  # fmt: skip


BOUNDS: dict[str, Callable[[Rows], Rows]] = {
    "rcp": lambda y: np.spacing(abs(y).astype("f4")), "ex2": lambda y: 2 * np.spacing(abs(y).astype("f4")),
    "rsqrt": lambda y: 2.0**-22.9 * abs(y), "sqrt": lambda y: 2.0**-23 * abs(y), "tanh": lambda y: 2.0**-11 * abs(y),
    "sin": lambda y: np.full(y.shape, 2.0**-20.5), "cos": lambda y: np.full(y.shape, 2.0**-20.5),
    "lg2": lambda y: 2.0**-22 * np.where(abs(y) < 1, 1.0, abs(y)),
}  # fmt: skip
"""Largest error of an approximate float32 instruction by its exact result."""


def _farthest(opcode: str, exact: Rows) -> Rows:
    """The float32 numbers that are as far from finite results as the bound of an instruction allows, on either side."""
    bits = exact.astype("f4").view(np.uint32)
    sign = np.where((bits * np.uint32(0x9E3779B1)) >> np.uint32(31), 1.0, -1.0)
    room = BOUNDS[opcode](exact).astype("f8")
    moved: Rows = (exact + sign * room).astype("f4")
    moved = np.where(abs(moved - exact) > room, np.nextafter(moved, exact.astype("f4")), moved)
    return np.where(np.isfinite(exact) & (exact != 0) & np.isfinite(moved), moved, exact)


@instruction(*APPROXIMATE)
def _approximate(reading: Reading) -> Run:
    """ex2.approx{.ftz}.type d, a and the like; rcp and sqrt also with a rounding."""
    rough = reading.flag("approx")
    style = Style(reading)
    type_ = reading.type()
    run = APPROXIMATE[reading.opcode]
    if not rough:
        if reading.opcode == "rcp":
            return arithmetic(reading, style, type_, 1, lambda a: (1 / a).astype(a.dtype), run)
        if reading.opcode != "sqrt":
            raise reading.refuse()
        return arithmetic(reading, style, type_, 1, np.sqrt, np.sqrt)
    put, a = reading.into(0, type_), reading.value(1, type_)
    if type_.name == "f64":
        if reading.opcode not in ("rcp", "rsqrt"):
            raise reading.refuse()

        def upper(batch: Batch, ix: Index) -> None:  # only the upper word of the result is given
            found = canonical(run(a(batch, ix)), "f64").view("u8") & np.uint64(0xFFFFFFFF00000000)
            put(batch, ix, found.view("f8"))

        return upper

    def rows(batch: Batch, ix: Index) -> None:
        x = unpack(a(batch, ix), type_)
        if style.ftz and parts(type_)[0] in ("f32", "bf16"):
            x = flush(x)
        exact = run(x)
        if batch.options.inexact and type_.name == "f32":
            exact = _farthest(reading.opcode, exact)
        found = pack(exact, type_)
        if style.ftz and type_.name == "f32":
            found = flush(found)
        put(batch, ix, found)

    return rows


# ---- comparisons


def _no_number(x: Rows, y: Rows) -> Rows:
    rows: np.ndarray = np.isnan(x) | np.isnan(y)
    return rows


FLOAT_COMPARE: dict[str, Callable[[Rows, Rows], Rows]] = {
    "eq": np.equal, "ne": lambda x, y: (x < y) | (x > y), "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "equ": lambda x, y: ~((x < y) | (x > y)), "neu": np.not_equal,
    "ltu": lambda x, y: ~(x >= y), "leu": lambda x, y: ~(x > y), "gtu": lambda x, y: ~(x <= y),
    "geu": lambda x, y: ~(x < y), "num": lambda x, y: ~_no_number(x, y), "nan": _no_number,
}  # fmt: skip


def comparison(reading: Reading, compare: str, ftz: bool) -> tuple[Callable[[Rows, Rows], Rows], Callable[..., Get]]:
    """The comparison of a word, and operands as numbers that numpy compares."""
    if compare not in FLOAT_COMPARE:
        raise reading.refuse()

    def value(index: int, of: Type) -> Get:
        get = reading.value(index, of)
        if of.name in ("f32", "f64"):
            return (lambda batch, ix: flush(get(batch, ix))) if ftz and of.name == "f32" else get
        return lambda batch, ix: unpack(get(batch, ix), of)

    return FLOAT_COMPARE[compare], value


def compare_pairs(
    reading: Reading,
    run: Callable[[Rows, Rows], Rows],
    type_: Type,
    other: Get | None,
    logic: Any,
    pairs: list[Operand],
) -> Run:
    """setp.compare.f16x2 p|q, a, b: p of the lower halves, q of the upper."""
    if reading.opcode != "setp" or len(pairs) != 2:
        raise reading.refuse()
    puts = [reading.into(one, PRED) for one in pairs]
    a, b = reading.value(1, type_), reading.value(2, type_)

    def rows(batch: Batch, ix: Index) -> None:
        found = run(unpack(a(batch, ix), type_), unpack(b(batch, ix), type_))
        for k, put in enumerate(puts):
            mine = found[:, k].copy()
            put(batch, ix, logic(mine, other(batch, ix)) if other is not None else mine)

    return rows
