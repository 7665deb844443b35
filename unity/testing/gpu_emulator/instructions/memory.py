"""Loads and stores, of one value or a vector, in every space; atomic updates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.access import Access, Apply
from ..machine.batch import Batch, Index
from ..machine.reading import Put, Reading, Run, each
from ..machine.rounding import flush, odd_sum, pack, unpack
from ..machine.undefined import Undefined
from ..ptx.program import Sink
from ..ptx.types import UNSIGNED, Type
from .bits import LOGIC
from .table import instruction

Rows = np.ndarray
SCOPES = ("cta", "cluster", "gpu", "sys")
HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::evict_normal", "L2::evict_first", "L2::evict_last",
    "L2::cache_hint",
)  # fmt: skip
"""Words about caches, which change no value."""


def space_of(reading: Reading) -> str:
    """The space that the words name; what is in constant memory lies in the device's."""
    for word in ("global", "shared", "local", "const", "param"):
        for suffix in ("", "::cta", "::cluster", "::entry", "::func"):
            if reading.flag(word + suffix):
                return "global" if word == "const" else word
    return "generic"


def _strong(reading: Reading) -> bool:
    """True for an access that others may make at the same time. Such ones do not race."""
    strong = reading.flag("volatile", "relaxed", "acquire", "release", "mmio")
    reading.drop("weak", *SCOPES, *HINTS)
    return strong


@instruction("ld")
def _ld(reading: Reading) -> Run:
    """ld{.weak, .relaxed, ...}{.space}{.nc}{.hints}{.vector}.type d, [a]"""
    strong = _strong(reading)
    reading.flag("nc")
    space = space_of(reading)
    count = int(reading.one("v2", "v4", "v8", default="v1")[1:])
    type_ = reading.type()
    into = reading.items(0)
    if len(into) != count:
        raise reading.refuse()
    puts: list[Put | None] = [None if isinstance(one, Sink) else reading.into(one, type_) for one in into]
    space, address = _param_space(reading, 1, space), reading.address(1)
    per = min(count, 16 // type_.bytes)
    access, pc = Access(reading, space, "load", per * type_.bytes, strong), reading.pc
    if count == 1:
        (first,) = puts

        def run(batch: Batch, ix: Index) -> None:
            ix = batch.everyone if ix is None else ix
            found = access.load(batch, ix, address(batch, ix))
            if first is not None:
                first(batch, ix, found)
            if batch.fresh:
                _undefined(batch, pc)

        return run
    parts = [access.of(access.results[at : at + per]) if per < count else access for at in range(0, count, per)]

    def vector(batch: Batch, ix: Index) -> None:
        ix = batch.everyone if ix is None else ix
        start = address(batch, ix)
        for number, part in enumerate(parts):
            found = part.load(batch, ix, start + 16 * number if number else start)
            rows = found.view(UNSIGNED[type_.bytes]).reshape(-1, per)
            for k, put in enumerate(puts[number * per : (number + 1) * per]):
                if put is not None:
                    put(batch, ix, rows[:, k].copy())
        if batch.fresh:
            _undefined(batch, pc)

    return vector


def _undefined(batch: Batch, pc: int) -> None:
    """End a load that has noted undefined values."""
    batch.fresh = False
    raise Undefined(pc)


def _param_space(reading: Reading, index: int, space: str) -> str:
    """Parameters of a kernel are memory of their own; those of functions and calls lie in local memory."""
    known = reading.constant_address(index)
    if space != "param":
        return space if known is None or space != "generic" else known[0]
    if known is not None:
        return known[0]
    return "param" if reading.linked.function.entry else "local"


@instruction("st")
def _st(reading: Reading) -> Run:
    """st{...}{.space}{.vector}.type [a], b"""
    strong = _strong(reading)
    reading.flag("async")
    space = space_of(reading)
    count = int(reading.one("v2", "v4", "v8", default="v1")[1:])
    type_ = reading.type()
    bits = Type("", "b", type_.bits, UNSIGNED[type_.bytes])
    gets = [reading.value(one, bits) for one in reading.items(1)]
    if len(gets) != count:
        raise reading.refuse()
    space, width = _param_space(reading, 0, space), type_.bytes * count
    address = reading.address(0)
    access = Access(reading, space, "store", min(width, 16), strong)
    if count == 1:
        (get,) = gets

        def run(batch: Batch, ix: Index) -> None:
            ix = batch.everyone if ix is None else ix
            access.store(batch, ix, address(batch, ix), get(batch, ix))

        return run
    per = min(count, 16 // type_.bytes)
    kind = UNSIGNED[min(width, 16)]

    def vector(batch: Batch, ix: Index) -> None:
        ix = batch.everyone if ix is None else ix
        start = address(batch, ix)
        for part in range(0, count, per):
            rows = np.stack(np.broadcast_arrays(*[one(batch, ix) for one in gets[part : part + per]]), axis=1)
            part_address = start + part * type_.bytes if part else start
            access.store(batch, ix, part_address, rows.view(kind).ravel())

    return vector


# ---- atomic updates

Join = Callable[[Rows, Rows], Rows]


def _increase(old: Rows, top: Rows) -> Rows:
    return np.where(old >= top, 0, old + 1).astype(old.dtype)


def _decrease(old: Rows, top: Rows) -> Rows:
    return np.where((old == 0) | (old > top), top, old - 1).astype(old.dtype)


UFUNCS: dict[str, np.ufunc] = {**LOGIC, "add": np.add, "min": np.minimum, "max": np.maximum}
JOINS: dict[str, Join] = {**UFUNCS, "inc": _increase, "dec": _decrease, "exch": lambda old, new: new}


def _packed_update(operation: str, type_: Type) -> Join:
    """Updates of formats that numpy lacks, or lacks in pairs."""

    def join(old: Rows, new: Rows) -> Rows:
        a, b = unpack(old, type_), unpack(new, type_)
        found = odd_sum(a, b) if operation == "add" else np.fmin(a, b) if operation == "min" else np.fmax(a, b)
        return pack(found, type_)

    return join


@instruction("atom", "red")
def _atom(reading: Reading) -> Run:
    """atom{.sem}{.scope}{.space}.operation.type d, [a], b{, c}; red gives nothing back. Lanes take turns in their order."""
    reading.drop("relaxed", "acquire", "release", "acq_rel", "noftz", *SCOPES, *HINTS)
    space = space_of(reading)
    operation = reading.one(*JOINS, "cas")
    count = int(reading.one("v2", "v4", "v8", default="v1")[1:])
    type_ = reading.type()
    gives = reading.opcode == "atom"
    first = 1 if gives else 0
    address = reading.address(first)
    access = Access(reading, space, f"atomic {operation}", type_.bytes, atomic=True)
    values = [reading.value(one, type_) for one in reading.items(first + 1)]
    puts = [reading.into(one, type_) for one in reading.items(0)] if gives else []
    kept = gives and not all([isinstance(one, Sink) for one in reading.items(0)])
    swap = reading.value(first + 2, type_) if operation == "cas" else None
    if len(values) != count:
        raise reading.refuse()
    plain = type_.name in ("f32", "f64", "f16") or type_.kind != "f"
    join = JOINS.get(operation) if plain else _packed_update(operation, type_)
    if operation == "add" and type_.name == "f32" and space != "shared":
        join = _flushed_sum  # the machine's float sums in global memory flush denormal numbers

    def run(batch: Batch, ix: Index) -> None:
        ix = batch.everyone if ix is None else ix
        lanes = batch.lanes(ix)
        start = each(address, batch, lanes)
        for k, value in enumerate(values):
            new = np.ascontiguousarray(each(value, batch, lanes))
            other = each(swap, batch, lanes) if swap is not None else None
            apply = _apply(operation, join, new, other, kept, type_)
            found = access.update(batch, ix, start + k * type_.bytes if k else start, type_.numpy, apply)
            if kept:
                assert found is not None
                puts[k](batch, ix, found)

    return run


def _flushed_sum(old: Rows, new: Rows) -> Rows:
    return flush(flush(old) + flush(new))


def _apply(operation: str, join: Join | None, new: Rows, other: Rows | None, kept: bool, type_: Type) -> Apply:
    """The update of cells, each by its lane's value in the order of the lanes."""

    def apply(memory: Rows, at: Rows) -> Rows | None:
        if not kept and operation in UFUNCS and type_.kind != "f":
            UFUNCS[operation].at(memory, at, new)
            return None
        order = np.argsort(at, kind="stable")
        ordered = at[order]
        fresh = np.ones(len(at), bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(fresh)
        rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.append(starts, len(at))))
        old = np.empty(len(at), memory.dtype)
        for number in range(int(rank.max()) + 1):
            lanes = order[rank == number] if number else order[starts]
            cells = at[lanes]
            before = memory[cells]
            old[lanes] = before
            if other is not None:
                memory[cells] = np.where(_same(before, new[lanes]), other[lanes], before)
            else:
                assert join is not None
                memory[cells] = join(before, new[lanes])
        return old

    return apply


def _same(a: Rows, b: Rows) -> Rows:
    rows: np.ndarray = a == b
    return rows
