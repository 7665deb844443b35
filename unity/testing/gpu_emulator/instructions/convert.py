"""cvt: between every two types, with each rounding, clamping and packing that PTX has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.reading import Reading, Run
from ..machine.rounding import (
    TO_INTEGER,
    canonical,
    encode,
    flush,
    pack,
    parts,
    to_odd,
    two_sum,
    unpack,
)
from ..ptx.types import TYPES, Type
from .table import instruction

Rows = np.ndarray
F32 = TYPES["f32"]


@instruction("cvt")
def _cvt(reading: Reading) -> Run:
    """cvt{.rounding}{.ftz}{.sat}{.relu}{.satfinite}.to.from d, a{, b}"""
    mode = reading.one("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", default="none")
    ftz, saturate = reading.flag("ftz"), reading.flag("sat")
    relu, finite = reading.flag("relu"), reading.flag("satfinite")
    to, source = reading.type(), reading.type()
    if len(reading.operands) == 3:
        return _two_into_one(reading, to, source, mode, relu, finite)
    reading.count(2)
    put, get = reading.into(0, to), reading.value(1, source)
    if source.kind == "f" and to.kind == "f":
        run = _float_to_float(reading, to, source, mode, ftz, saturate, relu, finite)
    elif source.kind == "f":
        run = _float_to_integer(to, source, mode, ftz)
    elif to.kind == "f":
        run = _integer_to_float(reading, to, source, mode, saturate)
    else:
        run = _integer_to_integer(to, saturate)
    return lambda batch, ix: put(batch, ix, run(get(batch, ix)))


def _two_into_one(reading: Reading, to: Type, source: Type, mode: str, relu: bool, finite: bool) -> Run:
    """The first operand goes to the upper half."""
    if source.name != "f32" or not to.name.endswith("x2"):
        raise reading.refuse()
    put, a, b = reading.into(0, to), reading.value(1, F32), reading.value(2, F32)

    def run(batch: Batch, ix: Index) -> None:
        upper, lower = np.broadcast_arrays(a(batch, ix), b(batch, ix))
        values = np.stack([lower, upper], axis=1).astype("f8")
        put(batch, ix, pack(_relu(values) if relu else values, to, mode, finite))

    return run


def _relu(values: Rows) -> Rows:
    return np.where(values < 0, 0.0, values) + 0.0


def _float_to_float(
    reading: Reading, to: Type, source: Type, mode: str, ftz: bool, saturate: bool, relu: bool, finite: bool
) -> Callable[[Rows], Rows]:
    integral = mode in ("rni", "rzi", "rmi", "rpi")
    name, count = parts(to)
    if count != parts(source)[1]:
        raise reading.refuse()
    rounding = "rn" if integral or mode == "none" else mode

    def run(values: Rows) -> Rows:
        if ftz and source.name == "f32":
            values = flush(values)
        if to.name == "f64" and source.name == "f32" and not integral and not saturate:
            return canonical(values.astype("f8"), "f64")
        rows = unpack(values, source) if source.name != "f64" else values
        if integral:
            rows = TO_INTEGER[mode](rows)
        if saturate:
            rows = np.where(np.isnan(rows), 0.0, np.clip(rows, 0.0, 1.0)) + 0.0
        if relu:
            rows = _relu(rows)
        found = pack(rows, to, rounding, finite)
        return flush(found) if ftz and name == "f32" else found

    return run


def _float_to_integer(to: Type, source: Type, mode: str, ftz: bool) -> Callable[[Rows], Rows]:
    """Clamped to the range; no number is zero, or the upper bit where 64 bits are concerned."""
    rounding = TO_INTEGER.get(mode, np.trunc)
    least, most = int(np.iinfo(to.numpy).min), int(np.iinfo(to.numpy).max)
    odd = (
        np.array([1 << to.bits - 1], f"u{to.bytes}").view(to.numpy)
        if 64 in (to.bits, source.bits)
        else np.zeros(1, to.numpy)
    )

    def run(values: Rows) -> Rows:
        if ftz and source.name == "f32":
            values = flush(values)
        rows = rounding(unpack(values, source) if source.name != "f64" else values)
        above, below = rows >= float(most) if to.bits == 64 else rows > most, rows <= float(least)
        inside = np.where(above | below | np.isnan(rows), 0.0, rows).astype(to.numpy)
        found = np.where(above, to.numpy.type(most), np.where(below, to.numpy.type(least), inside))
        return np.where(np.isnan(rows), odd, found)

    return run


def _integer_to_float(reading: Reading, to: Type, source: Type, mode: str, saturate: bool) -> Callable[[Rows], Rows]:
    name, count = parts(to)
    if count != 1 or (name == "f64" and mode not in ("rn", "none")):
        raise reading.refuse()

    def run(values: Rows) -> Rows:
        if name in ("f32", "f64") and mode in ("rn", "none") and not saturate:
            return values.astype(to.numpy)
        if source.bits == 64:
            upper, lower = (
                (values >> values.dtype.type(32)).astype("f8") * 2.0**32,
                (values & values.dtype.type(0xFFFFFFFF)),
            )
            total, error = two_sum(upper, lower.astype("f8"))
            rows = to_odd(total, error)
        else:
            rows = values.astype("f8")
        if saturate:
            rows = np.clip(rows, 0.0, 1.0)
        return encode(rows, name, "rn" if mode == "none" else mode)

    return run


def _integer_to_integer(to: Type, saturate: bool) -> Callable[[Rows], Rows]:
    least, most = int(np.iinfo(to.numpy).min), int(np.iinfo(to.numpy).max)

    def run(values: Rows) -> Rows:
        if saturate:
            given = np.iinfo(values.dtype)
            values = np.clip(values, max(least, int(given.min)), min(most, int(given.max)))
        return values.astype(to.numpy)

    return run
