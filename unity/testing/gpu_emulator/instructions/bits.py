"""Logic, shifts and fields of bits. Amounts beyond the width are clamped, or taken by their low bits, as each instruction says."""

from __future__ import annotations

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.reading import U32, Reading, Run
from ..ptx.program import Number
from ..ptx.types import UNSIGNED
from .table import compute, instruction

Rows = np.ndarray
LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction(*LOGIC)
def _logic(reading: Reading) -> Run:
    type_ = reading.type()
    return compute(reading, LOGIC[reading.opcode], type_, type_, type_)


@instruction("not")
def _not(reading: Reading) -> Run:
    type_ = reading.type()
    return compute(reading, np.invert, type_, type_)


@instruction("shl", "shr")
def _shift(reading: Reading) -> Run:
    """Amounts beyond the width count as the width: zeros, or signs."""
    type_ = reading.type()
    kind, bits = type_.numpy, type_.bits
    most = np.uint32(bits - 1)
    left, signed = reading.opcode == "shl", type_.kind == "s"
    put, a = reading.into(0, type_), reading.value(1, type_)
    amount = reading.value(2, U32)
    if isinstance(reading.operands[2], Number):
        steps = min(reading.integer(2) & 0xFFFFFFFF, bits)
        if steps >= bits and not (signed and not left):
            return lambda batch, ix: put(batch, ix, np.zeros(1, kind))
        fixed = np.array([min(steps, bits - 1)], kind)
        if left:
            return lambda batch, ix: put(batch, ix, a(batch, ix) << fixed)
        return lambda batch, ix: put(batch, ix, a(batch, ix) >> fixed)

    def run(batch: Batch, ix: Index) -> None:
        x, n = a(batch, ix), amount(batch, ix)
        within = np.minimum(n, most).astype(kind)
        found = x << within if left else x >> within
        if left or not signed:
            found = np.where(n > most, np.zeros(1, kind), found)
        put(batch, ix, found)

    return run


@instruction("shf")
def _funnel(reading: Reading) -> Run:
    """shf.{l, r}.{clamp, wrap}.b32 d, a, b, c: a window on the 64 bits of b (upper) and a."""
    way, mode = reading.one("l", "r"), reading.one("clamp", "wrap")
    type_ = reading.type()
    half = np.uint64(32)

    def run(a: Rows, b: Rows, c: Rows) -> Rows:
        n = (np.minimum(c, 32) if mode == "clamp" else c & np.uint32(31)).astype("u8")
        both = b.astype("u8") << half | a
        if way == "r":
            rows: np.ndarray = (both >> n).astype("u4")
            return rows
        return np.where(n == half, a, (both << n >> half).astype("u4"))

    return compute(reading, run, type_, type_, type_, U32)


def leading_zeros(a: Rows) -> Rows:
    """Zero bits above the highest one."""
    bits = a.dtype.itemsize * 8
    x = a.view(UNSIGNED[a.dtype.itemsize]).copy()
    found = np.zeros(x.shape, np.uint32)
    empty = x == 0
    step = bits // 2
    while step:
        low = x < (x.dtype.type(1) << x.dtype.type(bits - step))
        found += np.where(low, step, 0).astype(np.uint32)
        x = np.where(low, x << x.dtype.type(step), x)
        step //= 2
    return np.where(empty, np.uint32(bits), found)


@instruction("popc", "clz")
def _count(reading: Reading) -> Run:
    type_ = reading.type()
    if reading.opcode == "clz":
        return compute(reading, leading_zeros, U32, type_)
    return compute(reading, lambda a: np.bitwise_count(a).astype(np.uint32), U32, type_)


@instruction("brev")
def _brev(reading: Reading) -> Run:
    type_ = reading.type()

    def run(a: Rows) -> Rows:
        rows = np.ascontiguousarray(a).view("u1").reshape(-1, type_.bytes)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, ::-1]
        return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view(type_.numpy).ravel()

    return compute(reading, run, type_, type_)


@instruction("bfe")
def _bfe(reading: Reading) -> Run:
    """bfe.type d, a, position, length: bits beyond the top are the sign."""
    type_ = reading.type()
    bits = type_.bits
    one = UNSIGNED[type_.bytes].type(1)
    unsigned = UNSIGNED[type_.bytes]

    def run(a: Rows, b: Rows, c: Rows) -> Rows:
        position, length = b & np.uint32(255), c & np.uint32(255)
        x = a.view(unsigned)
        down = np.where(position < bits, x >> np.minimum(position, bits - 1).astype(unsigned), unsigned.type(0))
        whole = length >= bits
        mask = np.where(whole, ~unsigned.type(0), (one << np.minimum(length, bits - 1).astype(unsigned)) - one)
        found = down & mask
        if type_.kind == "s":
            top = np.minimum(position.astype("i8") + length.astype("i8") - 1, bits - 1)
            sign = (x >> np.maximum(top, 0).astype(unsigned)) & one
            kept = np.clip(bits - position.astype("i8"), 0, bits)
            reach = np.minimum(length.astype("i8"), kept)
            low = np.where(
                reach >= bits, ~unsigned.type(0), (one << np.minimum(reach, bits - 1).astype(unsigned)) - one
            )
            found = np.where((sign == one) & (length > 0), (found & low) | ~low, found & low)
        rows: np.ndarray = np.where(length == 0, unsigned.type(0), found).view(type_.numpy)
        return rows

    return compute(reading, run, type_, type_, U32, U32)


@instruction("bfi")
def _bfi(reading: Reading) -> Run:
    """bfi.type d, a, b, position, length: the low bits of a inside b."""
    type_ = reading.type()
    bits, kind = type_.bits, type_.numpy
    one = kind.type(1)

    def run(a: Rows, b: Rows, c: Rows, d: Rows) -> Rows:
        position, length = c & np.uint32(255), d & np.uint32(255)
        mask = np.where(length >= bits, ~kind.type(0), (one << np.minimum(length, bits - 1).astype(kind)) - one)
        at = np.minimum(position, bits - 1).astype(kind)
        mask = np.where(position < bits, mask << at, kind.type(0))
        rows: np.ndarray = (b & ~mask) | (np.where(position < bits, a << at, kind.type(0)) & mask)
        return rows

    return compute(reading, run, type_, type_, type_, U32, U32)


@instruction("prmt")
def _prmt(reading: Reading) -> Run:
    """prmt.b32 d, a, b, c: each byte one of the eight of b and a, or the sign of one."""
    type_ = reading.type()

    def run(a: Rows, b: Rows, c: Rows) -> Rows:
        a, b, c = np.broadcast_arrays(a, b, c)
        pool = np.stack([a, b], axis=1).view("u1").reshape(-1, 8)
        choice = (c[:, None] >> np.arange(0, 16, 4, dtype="u4")) & np.uint32(15)
        byte = np.take_along_axis(pool, (choice & 7).astype("i8"), axis=1)
        return np.where(choice & 8, (byte.view("i1") >> 7).view("u1"), byte).view("u4").ravel()

    return compute(reading, run, type_, type_, type_, U32)


@instruction("lop3")
def _lop3(reading: Reading) -> Run:
    """lop3.b32 d, a, b, c, table: any logic of three words."""
    if reading.flag("or", "and"):
        raise reading.refuse("a predicate of the result")
    type_ = reading.type()
    table = reading.integer(4)
    put = reading.into(0, type_)
    gets = [reading.value(k, type_) for k in (1, 2, 3)]

    def run(batch: Batch, ix: Index) -> None:
        a, b, c = [get(batch, ix) for get in gets]
        found = np.zeros(1, np.uint32)
        for k in range(8):
            if table >> k & 1:
                found = found | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
        put(batch, ix, found)

    return run
