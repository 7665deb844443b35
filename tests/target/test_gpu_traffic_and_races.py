"""Traffic counts and race detection of the thread-level checker against plain definitions, on random accesses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unity.ir.interpret.threads.findings import Site
from unity.ir.interpret.threads.lanes import Batch, Geometry, Mask
from unity.ir.interpret.threads.memory import Accesses, Storage
from unity.ir.interpret.threads.shadow import Shadow
from unity.ir.interpret.threads.traffic import count_global, count_shared
from unity.script import parse
from unity.target.gpu_check import check_gpu

# ---- traffic


def bank_passes(addresses: list[int], width: int) -> int:
    """Passes over the banks for the active lanes' addresses in order of the lanes (None is inactive)."""
    words = max(1, -(-width // 4))
    total = 0
    part = max(1, 32 // words)
    for start in range(0, 32, part):
        banks: dict[int, set[int]] = {}
        for address in addresses[start : start + part]:
            if address >= 0:
                for word in range(address // 4, address // 4 + words):
                    banks.setdefault(word % 32, set()).add(word)
        total += max([len(w) for w in banks.values()], default=0)
    return total


def segments(addresses: list[int], width: int) -> int:
    return len({byte // 32 for a in addresses if a >= 0 for byte in (a, a + width - 1)})


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_counts_of_random_accesses(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [rng.integers(0, 64, (70, 32)), np.arange(32) * rng.integers(0, 40, (70, 1)), rng.integers(0, 3, (70, 32))]
    for units in kinds:
        address = units * width
        active = rng.random((70, 32)) < rng.choice([0.0, 0.3, 1.0], (70, 1), p=[0.1, 0.3, 0.6])
        masked = np.where(active, address, -1).tolist()
        shared, memory = Site(0, "S", "load", "shared", None), Site(1, "A", "load", "global", None)
        count_shared(shared, address, active, width)
        count_global(memory, address, active, width)
        busy = int(active.any(axis=1).sum())
        assert shared.requests == memory.requests == busy
        assert shared.transactions == sum([bank_passes(row, width) for row in masked])
        assert memory.transactions == sum([segments(row, width) for row in masked])
        assert shared.worst == max([bank_passes(row, width) for row in masked])
        assert busy <= memory.ideal <= memory.transactions and busy <= shared.ideal <= shared.transactions


LANE = np.arange(32)
RUNS = [
    (LANE * 4 + 4, 5, 5), (124 - LANE * 4, 4, 4), (LANE * 8, 8, 4), (LANE * 128 + 4, 32, 5), (LANE // 10 * 512 + LANE % 10 * 4, 7, 7),
    (LANE // 10 * 512 + LANE % 10 * 4 + 28, 11, 11), (LANE // 4 * 512 + LANE % 4 * 4, 8, 4), (LANE * 0 + 60, 1, 1),
    (np.where(LANE % 3, LANE * 4, -1), 4, 4), (LANE % 8 * 4 + LANE // 8 * 8, 2, 2),
]  # fmt: skip
"""Addresses of words, absent ones below zero; segments that they touch, and those that they need."""


@pytest.mark.parametrize("address, touched, needed", RUNS)
def test_runs_of_neighbours_may_begin_anywhere(address: np.ndarray, touched: int, needed: int) -> None:
    site = Site(0, "A", "load", "global", None)
    count_global(site, address[None], address[None] >= 0, 4)
    assert (site.transactions, site.ideal) == (touched, needed)


@pytest.mark.parametrize(
    "index,worst", [("tx", 1), ("tx * 2", 2), ("tx * 32", 32), ("tx * 33", 1), ("0", 1), ("tx // 4", 1), ("31 - tx", 1)]
)
def test_bank_conflicts_of_strides(index: str, worst: int) -> None:
    text = f"""
@T.prim_func
def f(Y: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S = T.alloc_buffer((1100,), "float32", scope="shared")
        for k in range(35):
            if k * 32 + tx < 1100:
                S[k * 32 + tx] = T.float32(1)
        T.tvm_storage_sync("shared")
        Y[tx] = S[{index}]
"""
    report = check_gpu(parse(text), np.zeros(32, "float32"))
    load = next(s for s in report.sites if s.buffer == "S" and s.kind == "load")
    assert report.ok and load.worst == worst and (load in report.bank_conflicts) == (worst > 1)


@pytest.mark.parametrize("body,transactions", [
    ("Y[tx] = X[tx]", 4), ("Y[tx] = X[tx + 1]", 5), ("Y[tx] = X[tx * 2]", 8), ("Y[tx] = X[tx * 32]", 32), ("Y[tx] = X[5]", 1),
    ("for v in T.vectorized(4):\n            Y[tx * 4 + v] = X[tx * 4 + v]", 16),
    ("Y[T.Ramp(tx * 4, 1, 4)] = X[T.Ramp(tx * 4, 1, 4)]", 16), ("for v in range(4):\n            Y[tx * 4 + v] = X[tx * 4 + v]", 64),
])  # fmt: skip
def test_transactions_of_global_memory(body: str, transactions: int) -> None:
    text = f"""
@T.prim_func
def f(X: T.Buffer((1024,), "float32"), Y: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        {body}
"""
    report = check_gpu(parse(text), np.zeros(1024, "float32"), np.zeros(128, "float32"))
    load = next(s for s in report.sites if s.buffer == "X")
    assert report.ok and load.transactions == transactions, str(report)


# ---- races


class Oracle:
    """All accesses ever made, compared pair by pair: same cell, other thread, a write, no barrier between."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.past: list[tuple[int, int, bool, bool, int]] = []
        self.block_epoch: dict[int, int] = {}
        self.warp_epoch: dict[tuple[int, int], int] = {}
        self.now = 0
        self.racing: set[int] = set()

    def place(self, lane: int) -> tuple[int, int, int]:
        return int(self.batch.block[lane]), int(self.batch.thread[lane]) // 32, int(self.batch.thread[lane])

    def access(self, cells: np.ndarray, lanes: np.ndarray, writes: bool, atomic: bool) -> None:
        fresh = [(int(c), int(lane), writes, atomic, self.now) for c, lane in zip(cells, lanes)]
        for one, other in itertools.chain(itertools.product(self.past, fresh), itertools.combinations(fresh, 2)):
            if one[0] == other[0] and (one[2] or other[2]) and not (one[3] and other[3]) and self.unordered(one, other):
                self.racing.add(one[0])
        self.past += fresh

    def unordered(self, one: tuple[int, int, bool, bool, int], other: tuple[int, int, bool, bool, int]) -> bool:
        (b1, w1, t1), (b2, w2, t2) = self.place(one[1]), self.place(other[1])
        if (b1, t1) == (b2, t2):
            return False
        if b1 != b2 or one[4] >= self.now:
            return True
        ordered = self.block_epoch.get(b1, -1) > one[4] or (w1 == w2 and self.warp_epoch.get((b1, w1), -1) > one[4])
        return not ordered


@pytest.mark.parametrize("seed", range(60))
def test_races_of_random_accesses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    across, warps = bool(seed % 2), bool(seed // 2 % 2)
    batch = Batch(Geometry((2, 1, 1), (64, 1, 1)), 0, 2)
    oracle = Oracle(batch)
    cells = 6 if across else 12
    storage = Storage(np.zeros(cells * 4, np.uint8), cells * 4, cells * 4, np.int64(0), 4, "M", "global")
    storage.shadow = Shadow(cells, across, warps, True)
    sites = [Site(k, "M", kind, "global", None, k == 2) for k, kind in enumerate(("load", "store", "atomic"))]
    found: set[int] = set()
    accesses = Accesses(batch, lambda *_: None, lambda _, c, before, now: found.update(c.tolist()))
    for _ in range(int(rng.integers(2, 24))):
        choice = rng.random()
        oracle.now += 1
        if choice < 0.25:
            chosen = batch.block == rng.integers(0, 2) if rng.random() < 0.5 else np.ones(batch.size, np.bool_)
            batch.barrier(Mask(chosen))
            oracle.block_epoch |= dict.fromkeys(set(batch.block[chosen].tolist()), oracle.now)
        elif choice < 0.4 and warps:
            warp = int(rng.integers(0, 4))
            chosen = np.arange(batch.size) // 32 == warp
            batch.warp_barrier(Mask(chosen))
            oracle.warp_epoch[(warp // 2, warp % 2)] = oracle.now
        else:
            lanes = np.sort(rng.choice(batch.size, int(rng.integers(1, 4)), replace=False))
            where = rng.integers(0, 6, lanes.size) + (0 if across else batch.block[lanes] * 6)
            site = sites[int(rng.choice(3, p=[0.5, 0.35, 0.15]))]
            accesses.record(storage, where, lanes, site, site.kind != "load")
            oracle.access(where, lanes, site.kind != "load", site.atomic)
    assert found == oracle.racing
