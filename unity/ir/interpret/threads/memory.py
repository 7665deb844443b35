"""Memory of a running kernel: bytes in one copy per owner (grid, block, warp or thread), flags of what is written, views.

Invariant: every access goes through ``Storage.load`` and ``Storage.store``, which see that it is aligned, inside and written,
and tell the shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....ffi.dtype import DataType
from ..common.arrays import Value
from ..scalar.memory import POISON, Memory, compact_strides
from .findings import Site
from .lanes import SITE_BITS, WHOLE_WARP, Batch, Mask
from .shadow import WARP_SHIFT, Shadow

ALIGN = 128
RANKS = {"shared": "block", "shared.dyn": "block", "warp": "warp", "local": "thread", "global": "grid"}


def rank_of(scope: str) -> str | None:
    """The owner of a copy of memory in a scope; fragments of matrix units belong to a warp."""
    if scope.startswith("wmma."):
        return "warp"
    return RANKS.get(scope)


class Storage:
    """Bytes: ``copies`` pieces of ``size`` bytes (``limit`` of them usable); ``owner`` is the copy each lane sees.

    ``granule`` is the size of a cell, the unit of flags and of race detection. ``collective`` memory is touched by whole warps.
    """

    def __init__(
        self, raw: np.ndarray, size: int, limit: int, owner: Value, granule: int, name: str, scope: str
    ) -> None:
        self.raw, self.size, self.limit, self.owner = raw, size, limit, owner
        self.granule, self.name, self.scope = granule, name, scope
        self.written: np.ndarray | None = None
        self.shadow: Shadow | None = None
        self.collective = scope.startswith("wmma.")
        self.fragment: tuple[int, int, int] | None = None
        self.origin: Memory | None = None
        self.stored: np.ndarray | None = None
        """The thread that has stored each cell since a fence, where instructions read it that run beside the threads."""
        self._typed: dict[np.dtype, np.ndarray] = {}

    @staticmethod
    def fresh(limit: int, owner: Value, copies: int, granule: int, name: str, scope: str) -> Storage:
        """New memory in which nothing is written."""
        size = max(-(-limit // ALIGN) * ALIGN, ALIGN)
        made = Storage(np.full(size * copies, POISON, np.uint8), size, limit, owner, granule, name, scope)
        made.written = np.zeros(size * copies // granule, np.bool_)
        return made

    @staticmethod
    def of_memory(memory: Memory, granule: int) -> Storage:
        """Global memory: the bytes of the code around the kernel, one copy for all."""
        size = memory.size
        made = Storage(memory.raw, size, size, np.int64(0), granule, memory.name, "global")
        if memory.written is not None:
            flags = np.frombuffer(memory.written, np.uint8) != 0
            padded = np.zeros(-(-size // granule) * granule, np.bool_)
            padded[:size] = flags
            made.written = np.asarray(np.all(padded.reshape(-1, granule), axis=1))
            made.origin = memory
        return made

    def track(self, warps: bool, atomics: bool) -> None:
        """Begin to look for races between all threads of the grid."""
        if self.shadow is None:
            self.shadow = Shadow(-(-self.limit // self.granule), True, warps, atomics)

    def write_back(self) -> None:
        """Tell the code around the kernel what was written."""
        if self.origin is not None and self.written is not None and self.origin.written is not None:
            flags = np.repeat(self.written, self.granule)[: self.limit]
            self.origin.written[:] = flags.astype(np.uint8).tobytes()

    def forget(self, mask: Mask) -> None:
        """A new lifetime of the memory for the owners of some lanes: nothing counts as written."""
        if self.written is None:
            return
        if mask.all or np.ndim(self.owner) == 0:
            self.written[:] = False
        else:
            self.written.reshape(-1, self.size // self.granule)[self.owner[mask.index]] = False

    def flat(self, dtype: DataType, name: str) -> Array:
        """The whole memory as a buffer of one axis."""
        return array(self, np.int64(0), dtype, (np.int64(self.limit // dtype.itemsize),), (), np.int64(0), name)

    def typed(self, dtype: DataType) -> np.ndarray:
        """All bytes as numbers of an element type."""
        kind = np.dtype(np.uint8) if dtype.is_bool else dtype.numpy
        found = self._typed.get(kind)
        if found is None:
            usable = self.raw.size // kind.itemsize * kind.itemsize
            found = self._typed[kind] = self.raw[:usable].view(kind)
        return found

    def element_indices(self, address: Value, item: int, lanes: np.ndarray | None) -> np.ndarray:
        """Numbers of elements of ``item`` bytes at byte addresses of the lanes (all when None)."""
        owner = self.owner if lanes is None or np.ndim(self.owner) == 0 else self.owner[lanes]
        if np.ndim(address) == 2 and np.ndim(owner) == 1:
            owner = owner[:, None]
        found: np.ndarray = owner * (self.size // item) + address // item
        return found

    def cells(self, elements: np.ndarray, item: int) -> np.ndarray:
        """Cells of elements: one row more per cell of an element where it has several."""
        if item == self.granule:
            return elements
        per = item // self.granule
        if per == 0:
            found: np.ndarray = elements * item // self.granule
            return found
        return elements[..., None] * per + np.arange(per)


@dataclass(slots=True)
class Address:
    """A pointer in every lane: a memory and a byte offset in the lane's copy."""

    storage: Storage
    offset: Value

    def offset_by(self, offset: Value) -> Address:
        """The address ``offset`` bytes further."""
        return Address(self.storage, self.offset + np.int64(0) + offset)

    def view(
        self, dtype: DataType, shape: tuple[Value, ...], strides: tuple[Value, ...], base: Value, name: str
    ) -> Array:
        """The buffer at the address."""
        return array(self.storage, self.offset, dtype, shape, strides, base + np.int64(0), name)


@dataclass(slots=True)
class Array:
    """A buffer in a running kernel. ``start`` is in bytes; ``strides`` and ``base`` in elements of ``dtype``."""

    storage: Storage
    start: Value
    dtype: DataType
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    base: Value
    name: str
    inside: bool
    """The whole buffer is known to lie inside its memory, at an aligned address."""

    @property
    def pointer(self) -> Address:
        """The address that strides and offset count from."""
        return Address(self.storage, self.start)


def array(
    storage: Storage,
    start: Value,
    dtype: DataType,
    shape: tuple[Value, ...],
    strides: tuple[Value, ...],
    base: Value,
    name: str,
) -> Array:
    """A buffer over a memory; empty strides mean compact row-major."""
    strides = strides or compact_strides(shape, np.int64(1))
    inside = False
    if all([np.ndim(v) == 0 for v in (start, base, *shape, *strides)]):
        item = dtype.itemsize
        reach = [(n - 1) * s for n, s in zip(shape, strides)]
        low = start + (base + sum([min(r, 0) for r in reach])) * item
        high = start + (base + sum([max(r, 0) for r in reach]) + 1) * item
        inside = low >= 0 and (high <= storage.limit or 0 in shape) and start % dtype.element.itemsize == 0
    return Array(storage, start, dtype, shape, strides, base, name, bool(inside))


class Accesses:
    """Loads and stores of the running batch. ``uninitialised(site, storage, bytes, lanes, written)`` and ``race(storage, cells,
    before, now)`` are told what is wrong."""

    def __init__(self, batch: Batch, uninitialised: Callable[..., None], race: Callable[..., None]) -> None:
        self.batch, self.uninitialised, self.race = batch, uninitialised, race

    def load(self, storage: Storage, address: Value, active: np.ndarray, dtype: DataType, site: Site) -> np.ndarray:
        """Numbers at byte addresses (rows or rows x columns) of the lanes ``active`` numbers; flat arrays of their rows."""
        item = dtype.itemsize
        elements = storage.element_indices(address, item, active)
        values: np.ndarray = storage.typed(dtype)[elements]
        if dtype.is_bool:
            values = np.asarray(values != 0)
        if storage.written is None and storage.shadow is None:
            return values
        cells = storage.cells(elements, item)
        if storage.written is not None:
            written = storage.written[cells]
            if not written.all():
                self.uninitialised(site, storage, elements * item, active, written)
        self.record(storage, cells, active, site, False)
        return values

    def store(
        self,
        storage: Storage,
        address: Value,
        active: np.ndarray,
        values: Value,
        dtype: DataType,
        site: Site,
        defined: bool,
    ) -> None:
        """Store numbers at byte addresses of the lanes ``active`` numbers; undefined ones make the cells unwritten."""
        item = dtype.itemsize
        elements = storage.element_indices(address, item, active)
        storage.typed(dtype)[elements] = values
        if storage.written is None and storage.shadow is None:
            return
        cells = storage.cells(elements, item)
        if storage.stored is not None:
            owners = self.batch.number[active]
            storage.stored[cells] = owners.reshape(-1, *[1] * (cells.ndim - 1)) if cells.ndim > 1 else owners
        if storage.written is not None:
            storage.written[cells] = defined
        self.record(storage, cells, active, site, True)

    def record(self, storage: Storage, cells: np.ndarray, active: np.ndarray, site: Site, writes: bool) -> None:
        """Tell the shadow of accesses to cells: the first axis belongs to the lanes."""
        shadow = storage.shadow
        if shadow is None:
            return
        batch = self.batch
        codes = batch.code[active]
        if site.collective:
            codes = codes >> WARP_SHIFT << WARP_SHIFT | WHOLE_WARP << SITE_BITS
        codes = codes + site.number
        block = batch.block_base if np.ndim(batch.block_base) == 0 else batch.block_base[active]
        warp = batch.warp_base if np.ndim(batch.warp_base) == 0 else batch.warp_base[active]
        if cells.size != codes.size:
            width = cells.size // max(codes.size, 1)
            codes = np.repeat(codes, width)
            block = block if np.ndim(block) == 0 else np.repeat(block, width)
            warp = warp if np.ndim(warp) == 0 else np.repeat(warp, width)
        method = shadow.atomic if site.atomic else shadow.write if writes else shadow.read
        now = (batch.clock, block, warp, batch.grid_base)
        method(cells.ravel(), codes, now, lambda c, before, after: self.race(storage, c, before, after))
