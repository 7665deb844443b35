"""Race detection: for every cell who wrote it last and who read it since, with the clock of each access.

Two accesses of one cell by different threads race when at least one writes, not both are atomic, and no barrier orders them:
threads of different blocks are never ordered, threads of a block by the block's barrier, threads of a warp by a warp barrier
too. The last plain writer and, of readers and of atomic updates, two per rank (thread, warp, block) suffice to see for each cell
whether there is a race. Source: the epoch scheme of
FastTrack (Flanagan, Freund, 2009), with barriers as the only synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..common.arrays import Value
from .lanes import SITE_BITS, THREAD_BITS, WARP_BITS

WARP_SHIFT = SITE_BITS + WARP_BITS
BLOCK_SHIFT = SITE_BITS + THREAD_BITS
EVERYWHERE = 63
NOBODY = np.int64(-1)

Now = tuple[int, Value, Value, Value]
"""The clock, and its values at the last barriers of the accessing lanes' block, warp and grid."""
Report = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""Called with cells, earlier codes and present codes of racing accesses."""


def grown(rows: np.ndarray, count: int, fill: np.int64) -> np.ndarray:
    """Rows with more behind them."""
    return np.concatenate([rows, np.full(count - len(rows), fill)])


class Pair:
    """Two accesses of each cell whose threads differ in ``code >> shift``, valid from ``since`` on."""

    __slots__ = ("first", "second", "shift", "since")

    def __init__(self, cells: int, shift: int) -> None:
        self.shift = shift
        self.first = np.full(cells, NOBODY)
        self.second = np.full(cells, NOBODY)
        self.since = np.zeros(cells, np.int64)

    def grow(self, cells: int) -> None:
        """Make room for more cells."""
        self.first, self.second = grown(self.first, cells, NOBODY), grown(self.second, cells, NOBODY)
        self.since = grown(self.since, cells, np.int64(0))

    def record(self, cells: np.ndarray, codes: np.ndarray, clock: int, base: Value) -> None:
        """Remember accesses; ``base`` is the clock before which entries are ordered."""
        dead = (self.since[cells] < base) | (self.first[cells] < 0)
        if dead.any():
            old = cells[dead]
            self.first[old] = codes[dead]
            self.second[old] = NOBODY
            self.since[old] = clock
        other = (self.first[cells] >> self.shift) != (codes >> self.shift)
        if other.any():
            self.second[cells[other]] = codes[other]


class Accessors:
    """Accesses of each cell since the last barriers: enough of them, by rank, to see a clash with any other thread.

    Two threads of a block, and where asked for two warps of a block and two blocks.
    """

    def __init__(self, cells: int, across_blocks: bool, warps: bool) -> None:
        self.ranks = [(Pair(cells, SITE_BITS), WARP_SHIFT if warps else BLOCK_SHIFT)]
        """Pairs with the rank within which they count: threads of a warp, warps of a block, blocks."""
        self.warps, self.across_blocks = warps, across_blocks
        if warps:
            self.ranks.append((Pair(cells, WARP_SHIFT), BLOCK_SHIFT))
        if across_blocks:
            self.ranks.append((Pair(cells, BLOCK_SHIFT), EVERYWHERE))

    def grow(self, cells: int) -> None:
        """Make room for more cells."""
        for pair, _ in self.ranks:
            pair.grow(cells)

    def forget(self, cells: np.ndarray) -> None:
        """Forget the accesses of cells: newer ones by the same threads are to be noted."""
        for pair, _ in self.ranks:
            pair.first[cells] = NOBODY

    def _bases(self, now: Now) -> list[Value]:
        _, block, warp, grid = now
        bases = [np.maximum(block, warp), block] if self.warps else [block]
        return [*bases, grid] if self.across_blocks else bases

    def record(self, cells: np.ndarray, codes: np.ndarray, now: Now) -> None:
        """Remember accesses."""
        for (pair, _), base in zip(self.ranks, self._bases(now)):
            pair.record(cells, codes, now[0], base)

    def clash(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Report remembered accesses by other threads that no barrier orders before these."""
        for (pair, within), base in zip(self.ranks, self._bases(now)):
            alive = pair.since[cells] >= base
            for slot in (pair.first, pair.second):
                before = slot[cells]
                racing = alive & (before >= 0) & ((before >> pair.shift) != (codes >> pair.shift))
                racing &= (before >> within) == (codes >> within)
                if racing.any():
                    report(cells[racing], before[racing], codes[racing])


class Shadow:
    """State of the cells of one memory; ``atomics`` says that there are atomic accesses."""

    def __init__(self, cells: int, across_blocks: bool, warps: bool, atomics: bool) -> None:
        self.across_blocks, self.warps = across_blocks, warps
        self.writer = np.full(cells, NOBODY)
        self.written_at = np.zeros(cells, np.int64)
        self.readers = Accessors(cells, across_blocks, warps)
        self.atomics = Accessors(cells, across_blocks, warps) if atomics else None

    def grow(self, cells: int) -> None:
        """Make room for more cells."""
        self.writer, self.written_at = grown(self.writer, cells, NOBODY), grown(self.written_at, cells, np.int64(0))
        self.readers.grow(cells)
        if self.atomics is not None:
            self.atomics.grow(cells)

    def read(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Record reads and report races with earlier writes."""
        self._against_writer(cells, codes, now, report)
        if self.atomics is not None:
            self.atomics.clash(cells, codes, now, report)
        self.readers.record(cells, codes, now)

    def atomic(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Record atomic updates and report races with earlier plain accesses."""
        assert self.atomics is not None
        self._against_writer(cells, codes, now, report)
        self.readers.clash(cells, codes, now, report)
        self.atomics.record(cells, codes, now)

    def write(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Record writes and report races with earlier accesses and with each other."""
        self._against_writer(cells, codes, now, report)
        self.readers.clash(cells, codes, now, report)
        if self.atomics is not None:
            self.atomics.clash(cells, codes, now, report)
        self.writer[cells] = codes
        self.written_at[cells] = now[0]
        kept = self.writer[cells]
        twice = (kept >> SITE_BITS) != (codes >> SITE_BITS)
        if twice.any():
            report(cells[twice], kept[twice], codes[twice])

    def _against_writer(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        _, block_base, warp_base, grid_base = now
        before = self.writer[cells]
        racing = (before >= 0) & ((before >> SITE_BITS) != (codes >> SITE_BITS))
        if not racing.any():
            return
        at = self.written_at[cells]
        open_ = at >= block_base
        if self.warps:
            open_ &= (at >= warp_base) | ((before >> WARP_SHIFT) != (codes >> WARP_SHIFT))
        if self.across_blocks:
            open_ |= (at >= grid_base) & ((before >> BLOCK_SHIFT) != (codes >> BLOCK_SHIFT))
        racing &= open_
        if racing.any():
            report(cells[racing], before[racing], codes[racing])
