"""Exchange between the lanes of a warp: shuffles, votes, matches, reductions, elections."""

from __future__ import annotations

import numpy as np

from ....ir.interpret.threads.lanes import WARP
from ....support.source import Span
from ..machine.batch import Batch, Index
from ..machine.findings import finding
from ..machine.reading import U32, Get, Reading, Run
from ..ptx.program import Pair
from ..ptx.types import TYPES
from .flow import warp_operation
from .memory import UFUNCS
from .table import Step, control, instruction

Rows = np.ndarray
B32, B64, PRED = TYPES["b32"], TYPES["b64"], TYPES["pred"]
BIT = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def ballot(mask: Rows) -> Rows:
    """The bits of each warp's lanes, one word per warp."""
    found: Rows = (mask.reshape(-1, WARP) * BIT).sum(axis=1).astype(np.uint32)
    return found


def _broadcast(words: Rows, batch: Batch, ix: Index) -> Rows:
    """One word per warp, for the lanes of an index."""
    return np.repeat(words, WARP)[batch.lanes(ix)] if ix is not None else np.repeat(words, WARP)


def _members(batch: Batch, ix: Index, mask: Get) -> Rows:
    """The living lanes that the masks of an operation name, as rows of warps."""
    named = np.zeros(batch.n, np.uint32)
    lanes = batch.lanes(ix)
    named[lanes] = mask(batch, lanes)
    words = np.bitwise_or.reduce(named.reshape(-1, WARP), axis=1)
    found: Rows = (words[:, None] & BIT.astype(np.uint32)) != 0
    rows: np.ndarray = found & batch.mask(ix).reshape(-1, WARP)
    return rows


@control("shfl")
def _shfl(reading: Reading) -> Step:
    """shfl.sync.{up, down, bfly, idx}.b32 d{|p}, a, b, c, mask"""
    reading.one("sync")
    kind = reading.one("up", "down", "bfly", "idx")
    type_ = reading.type()
    target = reading.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put, inside = reading.into(first, type_), reading.into(second, PRED) if second is not None else None
    a, b, c = reading.value(1, type_), reading.value(2, U32), reading.value(3, U32)
    span = reading.instruction.span

    def run(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        lane = lanes % WARP
        n, k = b(batch, lanes).astype("i8") & 31, c(batch, lanes).astype("i8")
        segment, clamp = k >> 8 & 31, k & 31
        low = lane & segment
        top = low | (clamp & ~segment)
        if kind == "up":
            source = lane - n
            ok = source >= top
        elif kind == "down":
            source = lane + n
            ok = source <= top
        elif kind == "bfly":
            source = lane ^ n
            ok = source <= top
        else:
            source = low | (n & ~segment)
            ok = source <= top
        source_lane = lanes - lane + np.where(ok, source, lane)
        values = a(batch, None)
        is_active = batch.mask(ix)[source_lane]
        if not is_active.all():
            row = int((~is_active).argmax())
            _missing(batch, span, int(lanes[row]), int(source_lane[row]), int((~is_active).sum()))
        put(batch, ix, values if len(values) == 1 else values[source_lane])
        if inside is not None:
            inside(batch, ix, np.broadcast_to(ok, len(lanes)))

    def settled(batch: Batch, ix: Index) -> None:
        run(batch, batch.everyone if ix is None else ix)

    return warp_operation(reading, settled, reading.value(4, U32))


def _missing(batch: Batch, span: Span | None, lane: int, other: int, count: int) -> None:
    key = ("collective", span)
    if batch.launch.log.known(key, count):
        return
    one = batch.thread(lane)
    exists = other % batch.padded < batch.geometry.thread_count
    who = f"{batch.thread(other)}, which does not take part" if exists else "a lane that the block does not have"
    text = f"{one} asks for the value of {who}"
    batch.launch.log.add(key, finding(batch, "collective", text, span, one), count)


@control("vote")
def _vote(reading: Reading) -> Step:
    """vote.sync.{all, any, uni}.pred d, p, mask; vote.sync.ballot.b32"""
    reading.one("sync")
    kind = reading.one("all", "any", "uni", "ballot")
    type_ = reading.type()
    put, p, mask = reading.into(0, type_), reading.predicate(1), reading.value(2, U32)

    def run(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        votes = np.zeros(batch.n, bool)
        votes[lanes] = p(batch, lanes)
        rows = votes.reshape(-1, WARP)
        members = _members(batch, ix, mask)
        if kind == "ballot":
            found = ballot(rows & members)
        elif kind == "any":
            found = (rows & members).any(axis=1)
        else:
            found = (rows | ~members).all(axis=1)
            if kind == "uni":
                found |= ~(rows & members).any(axis=1)
        put(batch, ix, _broadcast(found, batch, ix))

    return warp_operation(reading, run, mask)


@instruction("activemask")
def _activemask(reading: Reading) -> Run:
    put = reading.into(0, reading.type())
    return lambda batch, ix: put(batch, ix, _broadcast(ballot(batch.mask(ix)), batch, ix))


@control("match")
def _match(reading: Reading) -> Step:
    """match.any.sync.type d, a, mask; match.all.sync.type d{|p}, a, mask"""
    reading.one("sync")
    kind = reading.one("any", "all")
    type_ = reading.type()
    target = reading.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put, agreed = reading.into(first, B32), reading.into(second, PRED) if second is not None else None
    a, mask = reading.value(1, type_), reading.value(2, U32)

    def run(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        values = np.zeros(batch.n, type_.numpy)
        values[lanes] = a(batch, lanes)
        rows, members = values.reshape(-1, WARP), _members(batch, ix, mask)
        same = (rows[:, :, None] == rows[:, None, :]) & members[:, None, :]
        if kind == "any":
            found = (same * BIT).sum(axis=2).astype(np.uint32).ravel()
            put(batch, ix, found if ix is None else found[ix])
            return
        leader = members.argmax(axis=1)
        all_same = (same[np.arange(len(rows)), leader] == members).all(axis=1)
        put(batch, ix, _broadcast(np.where(all_same, ballot(members), np.uint32(0)).astype(np.uint32), batch, ix))
        if agreed is not None:
            agreed(batch, ix, _broadcast(all_same, batch, ix))

    return warp_operation(reading, run, mask)


@control("redux")
def _redux(reading: Reading) -> Step:
    """redux.sync.{add, min, max, and, or, xor}.type d, a, mask"""
    reading.one("sync")
    operation = reading.one(*UFUNCS)
    if any([word in ("abs", "NaN") for word in reading.words]):
        raise reading.refuse()
    type_ = reading.type()
    if type_.kind == "f":
        raise reading.refuse()
    limits = np.iinfo(type_.numpy)
    neutral = {"min": limits.max, "max": limits.min, "and": -1 if type_.kind == "s" else limits.max}.get(operation, 0)
    put, a, mask = reading.into(0, type_), reading.value(1, type_), reading.value(2, U32)

    def run(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        values = np.full(batch.n, neutral, type_.numpy)
        values[lanes] = a(batch, lanes)
        rows = np.where(_members(batch, ix, mask), values.reshape(-1, WARP), type_.numpy.type(neutral))
        put(batch, ix, _broadcast(UFUNCS[operation].reduce(rows, axis=1).astype(type_.numpy), batch, ix))

    return warp_operation(reading, run, mask)


@control("elect")
def _elect(reading: Reading) -> Step:
    """elect.sync d|p, mask: the lowest lane that takes part."""
    reading.one("sync")
    target = reading.operands[0]
    if not isinstance(target, Pair):
        raise reading.refuse()
    put, chosen, mask = reading.into(target.first, B32), reading.into(target.second, PRED), reading.value(1, U32)

    def run(batch: Batch, ix: Index) -> None:
        leader = _members(batch, ix, mask).argmax(axis=1).astype(np.uint32)
        words = _broadcast(leader, batch, ix)
        put(batch, ix, words)
        lanes = batch.lane if ix is None else ix
        chosen(batch, ix, lanes % WARP == words)

    return warp_operation(reading, run, mask)
