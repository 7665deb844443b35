"""Comparisons, choices and moves: setp, set, selp, mov, and addresses between spaces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.reading import Get, Reading, Run
from ..ptx.program import Operand, Pair
from ..ptx.types import TYPES, UNSIGNED, Type
from . import floating
from .bits import LOGIC
from .table import compute, instruction

Rows = np.ndarray
S64, PRED = TYPES["s64"], TYPES["pred"]
COMPARE: dict[str, Callable[[Rows, Rows], Rows]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
WORDS = (*COMPARE, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


@instruction("setp", "set")
def _setp(reading: Reading) -> Run:
    """setp.compare{.and, .or, .xor}{.ftz}.type p{|q}, a, b{, c}; q gets the complement. set gives all bits, or 1.0."""
    compare = reading.one(*WORDS)
    joined = reading.one("and", "or", "xor", default="none")
    ftz = reading.flag("ftz")
    sets = reading.opcode == "set"
    result = reading.type() if sets else PRED
    type_ = reading.type()
    run, get = (
        floating.comparison(reading, compare, ftz) if type_.kind == "f" else (COMPARE.get(compare), reading.value)
    )
    if run is None:
        raise reading.refuse()
    other = reading.predicate(3) if joined != "none" else None
    reading.count(3 if other is None else 4)
    a, b = get(1, type_), get(2, type_)
    target = reading.operands[0]
    pairs: list[Operand] = [target.first, target.second] if isinstance(target, Pair) else [target]
    puts = [reading.into(one, result) for one in pairs]
    yes = {"f": np.array([1.0], "f4").view("u4"), "p": None}.get(result.kind, np.full(1, -1, "i8").astype(result.numpy))
    logic = LOGIC.get(joined)
    packed = run is not None and type_.name.endswith("x2")
    if packed:
        return floating.compare_pairs(reading, run, type_, other, logic, pairs)

    def compare_lanes(batch: Batch, ix: Index) -> None:
        found = run(a(batch, ix), b(batch, ix))
        for k, put in enumerate(puts):
            mine = ~found if k else found
            if other is not None and logic is not None:
                mine = logic(mine, other(batch, ix))
            if yes is not None:
                mine = np.where(mine, yes, yes.dtype.type(0))
            put(batch, ix, mine)

    return compare_lanes


def _choose(a: Rows, b: Rows, first: Rows) -> Rows:
    return np.where(first, a, b)


@instruction("selp")
def _selp(reading: Reading) -> Run:
    """selp.type d, a, b, p"""
    type_ = reading.type()
    bits = Type("", "b", type_.bits, UNSIGNED[type_.bytes])
    return compute(reading, _choose, bits, bits, bits, PRED)


@instruction("mov", "cvta", "isspacep")
def _mov(reading: Reading) -> Run:
    """mov of registers, addresses, special registers; between a word and its parts in braces."""
    if reading.opcode == "cvta":
        return _cvta(reading)
    if reading.opcode == "isspacep":
        space = reading.one("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster")
        window = {"shared": 1, "shared::cta": 1, "shared::cluster": 1, "local": 2, "param": 3}.get(space, 0)
        return compute(reading, lambda a: a >> np.int64(60) == window, PRED, S64)
    type_ = reading.type()
    into, parts = reading.items(0), reading.items(1)
    if len(into) > 1:
        return _split(reading, type_, into)
    if len(parts) > 1:
        return _join(reading, type_, parts)
    return compute(reading, _same, type_, type_)


def _same(a: Rows) -> Rows:
    return a


def _split(reading: Reading, type_: Type, into: tuple[Operand, ...]) -> Run:
    part = TYPES[f"b{type_.bits // len(into)}"]
    puts = [reading.into(one, part) for one in into]
    source = reading.value(1, type_)

    def run(batch: Batch, ix: Index) -> None:
        rows = np.ascontiguousarray(source(batch, ix)).view(part.numpy).reshape(-1, len(puts))
        for k, put in enumerate(puts):
            put(batch, ix, rows[:, k].copy())

    return run


def _join(reading: Reading, type_: Type, parts: tuple[Operand, ...]) -> Run:
    part = TYPES[f"b{type_.bits // len(parts)}"]
    gets: list[Get] = [reading.value(one, part) for one in parts]
    put = reading.into(0, type_)

    def run(batch: Batch, ix: Index) -> None:
        rows = np.stack(np.broadcast_arrays(*[get(batch, ix) for get in gets]), axis=1)
        put(batch, ix, rows.view(UNSIGNED[type_.bytes]).ravel())

    return run


def _cvta(reading: Reading) -> Run:
    """cvta{.to}.space: between an address in a space and a generic one, by the space's window."""
    to = reading.flag("to")
    space = reading.one("global", "shared", "local", "const", "param", "shared::cta")
    window = {"shared": 1, "shared::cta": 1, "local": 2, "param": 3}.get(space, 0)
    type_ = reading.type()
    if type_.bits != 64:
        raise reading.refuse("addresses of 32 bits")
    base = np.int64(window << 60)
    mask = np.int64((1 << 60) - 1)
    run = _same if not window else (lambda a: a & mask) if to else (lambda a: a | base)
    return compute(reading, run, S64, S64)
