"""Asynchronous copies: cp.async and its groups. Until a thread waits for a copy, its destination counts as undefined."""

from __future__ import annotations

import numpy as np

from ..machine.access import Access
from ..machine.batch import Batch, Index
from ..machine.reading import U32, Reading, Run
from ..ptx.program import Register
from ..ptx.types import UNSIGNED
from .bulk import bulk_copy
from .memory import space_of
from .table import instruction
from .transactions import arrive, barrier_at, barrier_keys

Rows = np.ndarray


class Copy:
    """A copy under way: what arrives where, by lane; ``group`` numbers the lane's groups."""

    def __init__(self, access: Access, lanes: Rows, group: Rows, address: Rows, bits: Rows) -> None:
        self.access, self.lanes, self.group, self.address, self.bits = access, lanes, group, address, bits

    def arrive(self, batch: Batch, done: Rows) -> bool:
        """Store the data of some lanes; True while others are under way."""
        if done.any():
            lanes = self.lanes[done]
            offset = self.access.shared_offsets(batch, lanes, self.address[done])
            at = offset >> self.access.shift
            width = self.access.width
            batch.shared_views[width][at] = self.bits[done]
            batch.shared_flags[width][at] = np.full(width, 1, "u1").view(UNSIGNED[width])[0]
            if batch.options.races and batch.watched:
                self.access.race_shared(batch, lanes, offset, True)
            left = ~done
            self.lanes, self.group, self.address = self.lanes[left], self.group[left], self.address[left]
            self.bits = self.bits[left]
        return len(self.lanes) > 0


@instruction("cp")
def _cp(reading: Reading) -> Run:
    """cp.async.{ca, cg}.shared.global{.hints} [d], [s], bytes{, source bytes}; cp.async.commit_group, wait_group, wait_all"""
    reading.one("async")
    if reading.flag("bulk"):
        return bulk_copy(reading)
    if reading.flag("commit_group"):
        return _commit
    if reading.flag("wait_all"):
        return lambda batch, ix: finish(batch, ix, -1)
    if reading.flag("wait_group"):
        left = reading.integer(0)
        return lambda batch, ix: finish(batch, ix, left)
    if reading.flag("mbarrier"):
        return _arrive_on_barrier(reading)
    return _copy(reading)


def _commit(batch: Batch, ix: Index) -> None:
    batch.committed[batch.lanes(ix)] += 1


def finish(batch: Batch, ix: Index, left: int) -> None:
    """Let the copies of lanes arrive but for their last ``left`` groups; -1 for all, committed or not."""
    if not batch.copies:
        return
    waiting = batch.mask(ix)
    kept = []
    for copy in batch.copies:
        done = waiting[copy.lanes]
        if left >= 0:
            done = done & (copy.group < batch.committed[copy.lanes] - left)
        if copy.arrive(batch, done):
            kept.append(copy)
    batch.copies = kept


def _arrive_on_barrier(reading: Reading) -> Run:
    """cp.async.mbarrier.arrive{.noinc}.b64 [barrier]: an arrival when the copies of the thread have come, which is now."""
    reading.one("arrive")
    counted = reading.flag("noinc")
    space_of(reading)
    reading.one("b64")
    address = reading.address(0)

    def run(batch: Batch, ix: Index) -> None:
        finish(batch, ix, -1)
        lanes = batch.lanes(ix)
        for key in barrier_keys(batch, lanes, address(batch, lanes)):
            if not counted:
                barrier_at(batch, key, reading).pending += 1
            arrive(batch, key, reading, 1, 0, 0)

    return run


def _copy(reading: Reading) -> Run:
    reading.one("ca", "cg")
    for word in ("shared", "shared::cta", "global"):
        reading.flag(word)
    reading.drop("L2::64B", "L2::128B", "L2::256B")
    hinted = reading.flag("L2::cache_hint")
    width = reading.integer(2)
    if width not in (4, 8, 16):
        raise reading.refuse()
    operands = reading.operands[3 : len(reading.operands) - (1 if hinted else 0)]
    predicated = bool(operands) and isinstance(operands[0], Register) and operands[0].type.kind == "p"
    ignore = reading.predicate(operands[0]) if predicated else None
    size = reading.value(operands[0], U32) if operands and not predicated else None
    target, source = reading.address(0), reading.address(1)
    into, origin = Access(reading, "shared", "asynchronous store", width), Access(reading, "global", "load", width)

    def run(batch: Batch, ix: Index) -> None:
        ix = batch.everyone if ix is None else ix
        lanes = batch.lanes(ix)
        to = np.ascontiguousarray(np.broadcast_to(target(batch, ix), len(lanes)))
        start = np.broadcast_to(source(batch, ix), len(lanes))
        given = np.full(len(lanes), width)
        if size is not None:
            given = np.broadcast_to(size(batch, ix), len(lanes)).astype("i8")
        if ignore is not None:
            given = np.where(ignore(batch, ix), 0, width)
        bits = np.zeros(len(lanes), UNSIGNED[width])
        reading_ = np.flatnonzero(given > 0)
        if len(reading_):  # what is beyond the source's bytes is zero
            bits[reading_] = origin.load(batch, lanes[reading_], start[reading_])
            raw = bits.view("u1").reshape(-1, width)
            raw[np.arange(width) >= given[:, None]] = 0
        offset = into.shared_offsets(batch, ix, to)
        batch.shared_flags[width][offset >> into.shift] = 0
        into.record_shared(batch, ix, to, offset, True)
        batch.copies.append(Copy(into, lanes, batch.committed[lanes], to, bits))

    return run
