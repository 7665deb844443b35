"""Races in the memory of the device during one launch.

Reads are kept aside until something is stored into their allocation, since most allocations are only read; then they are told to
the race memory in their order, before the store. Cells are numbered by pages of memory in the order in
which they are first touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.interpret.threads.shadow import Shadow
from ..memory.device_memory import Allocation

PAGE_SHIFT = 12
MOST_CELLS = 1 << 21
"""Cells that are looked after, 8 MB of words. What lies on further pages is not seen."""
MOST_KEPT = 1 << 22
"""Rows of reads kept aside; further ones are not kept."""


class GlobalRaces:
    """The race memory of one launch; ``granule`` is the size of its cells."""

    def __init__(self, granule: int, warps: bool, atomics: bool, timed: Callable[..., Any]) -> None:
        self.granule, self.warps, self.atomics, self.timed = granule, warps, atomics, timed
        self.cells_per_page = (1 << PAGE_SHIFT) // granule
        self.pages: dict[int, int] = {}
        self.shadow: Shadow | None = None
        self.touched: set[int] = set()
        """Starts of allocations that something was stored into."""
        self.kept: dict[int, list[tuple[Any, Any, np.ndarray, np.ndarray, Any]]] = {}
        self.kept_rows = 0

    def record(self, batch: Any, access: Any, site: int, ix: Any, offset: np.ndarray, writes: bool) -> None:
        """An access at bytes' numbers of the device's memory, inside allocations."""
        memory = batch.memory
        owner = memory.find(memory.base + int(offset.min()))
        last = memory.find(memory.base + int(offset.max()))
        if owner is not last:
            self._by_owner(batch, access, site, ix, offset, writes)
            return
        self._one(batch, access, site, ix, offset, writes, owner)

    def _by_owner(self, batch: Any, access: Any, site: int, ix: Any, offset: np.ndarray, writes: bool) -> None:
        starts = np.array(batch.memory.starts, np.int64)
        owners = np.searchsorted(starts, offset, "right") - 1
        lanes = batch.lanes(ix)
        for owner in np.unique(owners).tolist():
            here = owners == owner
            self._one(batch, access, site, lanes[here], offset[here], writes, batch.memory.live[owner])

    def _one(
        self, batch: Any, access: Any, site: int, ix: Any, offset: np.ndarray, writes: bool, owner: Allocation
    ) -> None:
        cells, codes, now = self.timed(batch, ix, offset // self.granule, access.width // self.granule, site)
        row = (batch, access, cells, codes, now)
        if owner.start not in self.touched:
            if not writes:
                if not owner.constant and self.kept_rows < MOST_KEPT:
                    self.kept.setdefault(owner.start, []).append(row)
                    self.kept_rows += len(cells)
                return
            self.touched.add(owner.start)
            for one in self.kept.pop(owner.start, ()):
                self._report(*one, False)
        self._report(*row, writes)

    def _report(self, batch: Any, access: Any, cells: np.ndarray, codes: np.ndarray, now: Any, writes: bool) -> None:
        pages = cells // self.cells_per_page
        slots = self._slots(pages)
        where = slots * self.cells_per_page + cells % self.cells_per_page
        seen = slots >= 0
        if not seen.all():
            if not seen.any():
                return
            where, codes = where[seen], codes[seen]
            clock, block, warp, grid = now
            block, warp = [base[seen] if np.ndim(base) else base for base in (block, warp)]
            now = (clock, block, warp, grid)
        shadow = self.shadow
        assert shadow is not None
        method = shadow.atomic if access.atomic else shadow.write if writes else shadow.read

        def report(found: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
            known = np.array(list(self.pages), np.int64)
            cell = known[found // self.cells_per_page] * self.cells_per_page + found % self.cells_per_page
            access.race(batch, "global", cell * self.granule, before, after)

        method(where, codes, now, report)

    def _slots(self, pages: np.ndarray) -> np.ndarray:
        """The slot of each page; new ones get the next, -1 where there is no room."""
        unique, back = np.unique(pages, return_inverse=True)
        for page in unique.tolist():
            if len(self.pages) * self.cells_per_page < MOST_CELLS:
                self.pages.setdefault(page, len(self.pages))
        wanted = len(self.pages) * self.cells_per_page
        if self.shadow is None:
            self.shadow = Shadow(max(wanted, 16 * self.cells_per_page), True, self.warps, self.atomics)
        elif len(self.shadow.writer) < wanted:
            self.shadow.grow(2 * wanted)
        slots = np.array([self.pages.get(page, -1) for page in unique.tolist()], np.int64)
        return slots[back]
