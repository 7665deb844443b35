"""Transaction barriers (mbarrier): phases that end when all arrivals and all announced bytes have come.

Whoever sees a phase ended comes after all that was done before its end. A thread that would wait sleeps until some phase ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..machine.batch import ASLEEP, READY, Batch, Index
from ..machine.findings import LAUNCH_FAILED, Fault, finding
from ..machine.reading import U32, Get, Reading, each
from ..ptx.program import Memory, Sink
from ..ptx.types import TYPES
from .memory import space_of
from .table import Step, control, guard_of

Rows = np.ndarray
B64, PRED = TYPES["b64"], TYPES["pred"]
WINDOW = np.int64((1 << 60) - 1)


@dataclass(slots=True)
class Barrier:
    """A barrier: the parity of its phase, arrivals and bytes still to come, arrivals of a phase, the clock at the last end."""

    parity: int
    pending: int
    bytes: int
    expected: int
    ended: int = 0


def barrier_keys(batch: Batch, lanes: Rows, address: Rows) -> list[int]:
    """Where the barriers lie in the shared memory of all blocks."""
    inside = np.broadcast_to(address & WINDOW, len(lanes))
    if (inside % 8).any() or (inside < 0).any() or (inside + 8 > batch.shared_limit).any():
        text = "a transaction barrier outside the shared memory of the block"
        raise Fault(LAUNCH_FAILED, finding(batch, "bounds", text, None, batch.thread(int(lanes[0]))))
    found: list[int] = (inside + batch.shared_base[lanes]).tolist()
    return found


def barrier_at(batch: Batch, key: int, reading: Reading) -> Barrier:
    """The barrier at an address. Raises Fault where none was initialised."""
    found: Barrier | None = batch.barriers.get(key)
    if found is None:
        text = "a transaction barrier is used before mbarrier.init"
        raise reading.fault(batch, LAUNCH_FAILED, "uninitialised", text)
    return found


def arrive(batch: Batch, key: int, reading: Reading, arrivals: int, announced: int, received: int) -> int:
    """Arrivals at a barrier, bytes announced and bytes come; the state before."""
    barrier = barrier_at(batch, key, reading)
    before = barrier.parity << 63 | barrier.pending
    barrier.bytes += announced - received
    barrier.pending -= arrivals
    if barrier.pending < 0:
        text = f"more arrivals at a transaction barrier than the {barrier.expected} it was initialised with"
        raise reading.fault(batch, LAUNCH_FAILED, "barrier", text)
    if barrier.pending == 0 and barrier.bytes == 0:
        barrier.parity ^= 1
        barrier.pending = barrier.expected
        batch.clock += 1
        barrier.ended = batch.clock
        batch.state[batch.state == ASLEEP] = READY
    return before


@control("mbarrier")
def _mbarrier(reading: Reading) -> Step:
    """mbarrier.{init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait, try_wait, pending_count}..."""
    what = reading.one(
        "init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"
    )
    expects = what == "expect_tx" or reading.flag("expect_tx")
    parity = reading.flag("parity")
    reading.drop("release", "acquire", "relaxed", "cta", "cluster", "noComplete")
    space_of(reading)
    reading.one("b64")
    if what in ("test_wait", "try_wait"):
        return _wait(reading, parity, what == "try_wait")
    if what == "pending_count":
        put, state = reading.into(0, U32), reading.value(1, B64)
        return _stepped(
            reading, lambda batch, lanes: put(batch, lanes, (state(batch, lanes) & np.uint64(0xFFFFF)).astype("u4"))
        )
    gives = what.startswith("arrive") and len(reading.operands) > 1 and not isinstance(reading.operands[0], Memory)
    offset = 1 if gives else 0
    address = reading.address(offset)
    amount = reading.value(offset + 1, U32) if len(reading.operands) > offset + 1 else None
    put_state = reading.into(0, B64) if gives and not isinstance(reading.operands[0], Sink) else None

    def run(batch: Batch, lanes: Rows) -> None:
        keys = barrier_keys(batch, lanes, address(batch, lanes))
        counts = [1] * len(keys)
        if amount is not None:
            counts = each(amount, batch, lanes).tolist()
        if what == "init":
            for key, count in zip(keys, counts):
                batch.barriers[key] = Barrier(0, count, 0, count)
            return
        if what == "inval":
            for key in keys:
                batch.barriers.pop(key, None)
            return
        states = np.zeros(len(keys), np.uint64)
        for k, (key, count) in enumerate(zip(keys, counts)):
            if what == "complete_tx":
                arrive(batch, key, reading, 0, 0, count)
            elif what == "expect_tx":
                arrive(batch, key, reading, 0, count, 0)
            else:
                if what == "arrive_drop":
                    barrier_at(batch, key, reading).expected -= 1
                states[k] = arrive(batch, key, reading, 1 if expects else count, count if expects else 0, 0)
        if put_state is not None:
            put_state(batch, lanes, states)

    return _stepped(reading, run)


def _stepped(reading: Reading, run: Callable[[Batch, Rows], None]) -> Step:
    """An instruction that never parts lanes, under its guard."""
    let_through = guard_of(reading)

    def step(batch: Batch, ix: Index, pc: int) -> int | None:
        where = let_through(batch, ix)
        if where is not False:
            run(batch, batch.lanes(ix) if isinstance(where, bool) else where)
        return pc + 1

    return step


def _wait(reading: Reading, parity: bool, sleeps: bool) -> Step:
    """A test of a phase, by its parity or the state that an arrival gave: it holds when the phase has ended."""
    put, address = reading.into(0, PRED), reading.address(1)
    which: Get = reading.value(2, U32 if parity else B64)
    let_through = guard_of(reading)

    def step(batch: Batch, ix: Index, pc: int) -> int | None:
        where = let_through(batch, ix)
        if where is False:
            return pc + 1
        lanes = batch.lanes(ix) if isinstance(where, bool) else where
        keys = barrier_keys(batch, lanes, address(batch, lanes))
        given = each(which, batch, lanes)
        asked = (given & np.uint32(1) if parity else given >> np.uint64(63)).tolist()
        barriers = [barrier_at(batch, key, reading) for key in keys]
        ok = np.array([barrier.parity != phase for barrier, phase in zip(barriers, asked)], bool)
        put(batch, lanes, ok)
        ended = np.array([barrier.ended for barrier in barriers], np.int64)
        base = np.broadcast_to(batch.block_base, batch.n).copy()
        base[lanes[ok]] = np.maximum(base[lanes[ok]], ended[ok])
        batch.block_base = base
        if ok.all() or not sleeps:
            return pc + 1
        batch.pc[batch.lanes(ix)] = pc + 1
        batch.state[lanes[~ok]] = ASLEEP
        return None

    return step
