"""Race detection: for every cell who wrote it last and who read it since, with the clock of each access.

Two accesses of one cell by different threads race when at least one writes, not both are atomic, and no barrier orders them:
threads of different blocks are never ordered, threads of a block by the block's barrier, threads of a warp by a warp barrier
too. Two readers per rank (thread, warp, block) suffice to see every race of a later write. Source: the epoch scheme of
FastTrack (Flanagan, Freund, 2009), with barriers as the only synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .lanes import SITE_BITS, THREAD_BITS, WARP_BITS, Value

WARP_SHIFT = SITE_BITS + WARP_BITS
BLOCK_SHIFT = SITE_BITS + THREAD_BITS
NOBODY = np.int64(-1)

Now = tuple[int, Value, Value, Value]
"""The clock, and its values at the last barriers of the accessing lanes' block, warp and grid."""
Report = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""Called with cells, earlier codes and present codes of racing accesses."""


class Readers:
    """Two readers of each cell that differ in ``code >> shift``, valid from ``since`` on."""

    __slots__ = ("first", "second", "shift", "since")

    def __init__(self, cells: int, shift: int) -> None:
        self.shift = shift
        self.first = np.full(cells, NOBODY)
        self.second = np.full(cells, NOBODY)
        self.since = np.zeros(cells, np.int64)

    def note(self, cells: np.ndarray, codes: np.ndarray, clock: int, base: Value) -> None:
        """Remember readers; ``base`` is the clock before which entries are ordered."""
        dead = (self.since[cells] < base) | (self.first[cells] < 0)
        if dead.any():
            old = cells[dead]
            self.first[old] = codes[dead]
            self.second[old] = NOBODY
            self.since[old] = clock
        other = (self.first[cells] >> self.shift) != (codes >> self.shift)
        if other.any():
            self.second[cells[other]] = codes[other]


class Shadow:
    """State of the cells of one memory. ``atomic[site]`` says which access sites are atomic."""

    def __init__(self, cells: int, across_blocks: bool, warps: bool, atomic: np.ndarray) -> None:
        self.across_blocks, self.warps, self.atomic = across_blocks, warps, atomic
        self.writer = np.full(cells, NOBODY)
        self.written_at = np.zeros(cells, np.int64)
        self.readers = Readers(cells, SITE_BITS)
        self.warp_readers = Readers(cells, WARP_SHIFT) if warps else None
        self.block_readers = Readers(cells, BLOCK_SHIFT) if across_blocks else None

    def read(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Note reads and report races with earlier writes."""
        clock, block_base, warp_base, grid_base = now
        self._against_writer(cells, codes, now, report)
        inner = np.maximum(block_base, warp_base) if self.warps else block_base
        self.readers.note(cells, codes, clock, inner)
        if self.warp_readers is not None:
            self.warp_readers.note(cells, codes, clock, block_base)
        if self.block_readers is not None:
            self.block_readers.note(cells, codes, clock, grid_base)

    def write(self, cells: np.ndarray, codes: np.ndarray, now: Now, report: Report) -> None:
        """Note writes and report races with earlier accesses and with each other."""
        clock, block_base, warp_base, grid_base = now
        self._against_writer(cells, codes, now, report)
        inner = np.maximum(block_base, warp_base) if self.warps else block_base
        self._against_readers(self.readers, WARP_SHIFT if self.warps else BLOCK_SHIFT, cells, codes, inner, report)
        if self.warp_readers is not None:
            self._against_readers(self.warp_readers, BLOCK_SHIFT, cells, codes, block_base, report)
        if self.block_readers is not None:
            self._against_readers(self.block_readers, 63, cells, codes, grid_base, report)
        self.writer[cells] = codes
        self.written_at[cells] = clock
        kept = self.writer[cells]
        twice = (kept >> SITE_BITS) != (codes >> SITE_BITS)
        if twice.any():
            self._report(cells, kept, codes, twice, report)

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
        self._report(cells, before, codes, racing & open_, report)

    def _against_readers(
        self, readers: Readers, within: int, cells: np.ndarray, codes: np.ndarray, base: Value, report: Report
    ) -> None:
        """Report readers that differ at the rank of ``readers`` and are alike at the rank ``within``."""
        alive = readers.since[cells] >= base
        for slot in (readers.first, readers.second):
            before = slot[cells]
            racing = alive & (before >= 0) & ((before >> readers.shift) != (codes >> readers.shift))
            racing &= (before >> within) == (codes >> within)
            if racing.any():
                self._report(cells, before, codes, racing, report)

    def _report(
        self, cells: np.ndarray, before: np.ndarray, codes: np.ndarray, racing: np.ndarray, report: Report
    ) -> None:
        cells, before, codes = cells[racing], before[racing], codes[racing]
        sites = (1 << SITE_BITS) - 1
        plain = ~(self.atomic[before & sites] & self.atomic[codes & sites])
        if plain.any():
            report(cells[plain], before[plain], codes[plain])
