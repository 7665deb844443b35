"""Memory of an emulated device: addresses that the host cannot read, and the bytes behind them kept apart.

The addresses are a range reserved without access rights, so that a host that follows one ends as on a real machine. Allocations are
poisoned, lie apart from each other, and are not used again while there is other room, so that accesses outside them and after their
end are seen. ``written`` says of every byte whether anything was stored there.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ..ptx.types import UNSIGNED

ALIGN = 512
POISON = 0xFF
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


@dataclass(slots=True, eq=False)
class Allocation:
    """A range of the device's memory; ``start`` counts from the first byte of the device."""

    start: int
    size: int
    name: str = ""
    constant: bool = False
    full: bool = False
    """Every byte is known to be written."""


def _mapping(size: int, protection: int) -> tuple[mmap.mmap, np.ndarray]:
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, prot=protection)
    return made, np.frombuffer(made, np.uint8)


class DeviceMemory:
    """Allocations of one device of ``size`` bytes."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // ALIGN) * ALIGN
        self._reserved, addresses = _mapping(self.size, 0)
        self.base = addresses.ctypes.data
        """Address of the first byte."""
        self._bytes, self.raw = _mapping(self.size, mmap.PROT_READ | mmap.PROT_WRITE)
        self._flags, self.written = _mapping(self.size, mmap.PROT_READ | mmap.PROT_WRITE)
        self.views = {width: self.raw.view(kind) for width, kind in UNSIGNED.items()}
        self.flags = {width: self.written.view(kind) for width, kind in UNSIGNED.items()}
        self.live: list[Allocation] = []
        """Allocations by their start."""
        self.starts: list[int] = []
        self.constants: list[Allocation] = []
        """Those that kernels may not store into."""
        self.freed: dict[int, Allocation] = {}
        self.used = 0
        self.top = ALIGN

    def allocate(self, size: int, name: str = "") -> Allocation | None:
        """A new allocation, poisoned; None where there is no room."""
        room = -(-size // ALIGN) * ALIGN
        if self.used + room > self.size:
            return None
        start = self._find_hole(room + ALIGN)
        if start is None:
            return None
        made = Allocation(start, size, name)
        self.raw[start : start + size] = POISON
        self.written[start : start + size] = 0
        at = bisect_right(self.starts, start)
        self.starts.insert(at, start)
        self.live.insert(at, made)
        self.used += room
        return made

    def _find_hole(self, room: int) -> int | None:
        """The first byte of a hole: above all that was ever given out, else between live allocations."""
        if self.top + room <= self.size:
            self.top += room
            return self.top - room
        before = ALIGN
        for one in self.live:
            if one.start - before >= room:
                return before
            before = one.start + -(-one.size // ALIGN) * ALIGN + ALIGN
        return before if self.size - before >= room - ALIGN else None

    def free(self, address: int) -> bool:
        """End an allocation; False where none begins at the address."""
        found = self.find(address)
        if found is None or found.start != address - self.base:
            return False
        at = self.live.index(found)
        del self.live[at], self.starts[at]
        self.freed[found.start] = found
        self.used -= -(-found.size // ALIGN) * ALIGN
        return True

    def find(self, address: int) -> Allocation | None:
        """The allocation in which an address lies."""
        offset = address - self.base
        at = bisect_right(self.starts, offset) - 1
        if at < 0:
            return None
        found = self.live[at]
        return found if offset < found.start + max(found.size, 1) else None

    def range(self, address: int, size: int) -> slice | None:
        """The bytes of ``size`` bytes from an address, which must lie in one allocation."""
        found = self.find(address)
        offset = address - self.base
        if found is None or offset + size > found.start + found.size:
            return None
        return slice(offset, offset + size)

    def fill(self, where: slice, values: np.ndarray | int) -> None:
        """Store bytes from the host."""
        self.raw[where] = values
        self.mark(where)

    def mark(self, where: slice) -> None:
        """Bytes are stored now."""
        self.written[where] = 1
        found = self.find(self.base + where.start)
        if found is not None and where.stop - where.start == found.size:
            found.full = True

    def describe(self, address: int, size: int) -> str:
        """The reason why an access of ``size`` bytes at an address is wrong: where it lies beside what there is."""
        offset = address - self.base
        if not 0 <= offset < self.size:
            return "it is not an address of this device" if address else "it is the null address"
        at = bisect_right(self.starts, offset) - 1
        if at >= 0:
            one = self.live[at]
            end = one.start + one.size
            if offset < end:
                return f"it begins {end - offset} bytes before the end of {_name(one)}"
            if offset - end < ALIGN or not self._freed_allocation(offset):
                return f"it begins {offset - end} bytes after the end of {_name(one)}"
        gone = self._freed_allocation(offset)
        if gone is not None:
            return f"it lies in memory of {gone.size} bytes that was freed"
        return "no allocation is near it"

    def _freed_allocation(self, offset: int) -> Allocation | None:
        for one in self.freed.values():
            if one.start <= offset < one.start + one.size:
                return one
        return None

    def drop_if_free(self) -> None:
        """Let the bytes go where nothing is allocated any more; the addresses stay reserved as long as this object lives."""
        if not self.live:
            for one in (self._bytes, self._flags):
                one.madvise(mmap.MADV_DONTNEED)


def _name(one: Allocation) -> str:
    return f"{one.name} ({one.size} bytes)" if one.name else f"an allocation of {one.size} bytes"
