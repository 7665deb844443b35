"""Lanes: the threads of several blocks side by side in numpy arrays, masks of them, and how far each has synchronised.

A lane is one (virtual thread, block, thread): ``lane = (vthread * blocks + block) * padded + thread``, where a block's threads
are padded to whole warps with lanes that never run. Invariant: a value is a numpy scalar (all lanes agree) or has ``size``
rows; vectors have a second axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..common.arrays import Value

WARP = 32
MAX_THREADS = 1024
SITE_BITS = 20
WARP_BITS = 6
"""A warp has 32 lanes and, as number 32, the warp as a whole (matrix units)."""
THREAD_BITS = 5 + WARP_BITS
WHOLE_WARP = 32
AXES = ("x", "y", "z")


class ThreadId(NamedTuple):
    """A thread by its block's and its own coordinates."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


@dataclass(slots=True, frozen=True)
class Geometry:
    """Extents of a launch: blocks, threads of a block, virtual threads by key (tag, nesting number)."""

    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    virtual: tuple[tuple[tuple[str, int], int], ...] = ()

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return self.blocks[0] * self.blocks[1] * self.blocks[2]

    @property
    def thread_count(self) -> int:
        """Number of threads of a block."""
        return self.threads[0] * self.threads[1] * self.threads[2]

    @property
    def padded(self) -> int:
        """Lanes of a block: whole warps."""
        return -(-self.thread_count // WARP) * WARP

    @property
    def virtual_count(self) -> int:
        """Number of virtual threads of a thread."""
        return math.prod([extent for _, extent in self.virtual])

    def thread_id(self, number: int) -> ThreadId:
        """Coordinates of a thread number ``block << THREAD_BITS | warp << WARP_BITS | lane``."""
        warp = number >> WARP_BITS & (MAX_THREADS // WARP - 1)
        thread = warp * WARP + number % WARP
        return ThreadId(_coordinates(number >> THREAD_BITS, self.blocks), _coordinates(thread, self.threads))


def _coordinates(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    return (number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1]))


class Mask:
    """A set of lanes, and the environment of what they run: the value of each variable, in all lanes."""

    __slots__ = ("_index", "all", "count", "env", "lanes")

    def __init__(self, lanes: np.ndarray, env: dict[Any, Any] | None = None) -> None:
        self.lanes = lanes
        self.env = env if env is not None else {}
        self.count = int(np.count_nonzero(lanes))
        self.all = self.count == lanes.size
        self._index: np.ndarray | None = None

    def __getitem__(self, key: Any) -> Any:
        return self.env[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.env[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a variable or buffer, if it has one."""
        return self.env.get(key, default)

    @property
    def index(self) -> np.ndarray:
        """Numbers of the lanes in the set."""
        if self._index is None:
            self._index = np.flatnonzero(self.lanes)
        return self._index

    def where(self, condition: Value) -> Mask:
        """The lanes of the set for which a condition holds; the same object when it holds for all."""
        if np.ndim(condition) == 0:
            return self if condition else Mask(np.zeros_like(self.lanes), self.env)
        made = Mask(self.lanes & condition, self.env)
        return self if made.count == self.count else made

    def split(self, condition: Value) -> tuple[Mask | None, Mask | None]:
        """The lanes for which a condition holds and the others, None for no lanes."""
        first = self.where(condition)
        if first is self:
            return self, None
        return (first, Mask(self.lanes & ~first.lanes, self.env)) if first.count else (None, self)

    def union(self, other: Mask) -> Mask:
        """The lanes of either set."""
        return self if other is self else Mask(self.lanes | other.lanes, self.env)

    def picked(self, value: Value) -> Value:
        """The rows of the set's lanes; scalars stay."""
        return value if self.all or np.ndim(value) == 0 else value[self.index]


class Batch:
    """The lanes that run together: blocks ``first`` to ``first + blocks`` of a launch."""

    def __init__(self, geometry: Geometry, first: int, blocks: int, clock: int = 1) -> None:
        self.geometry, self.first, self.blocks = geometry, first, blocks
        padded = geometry.padded
        self.plane = blocks * padded
        """Lanes of one virtual thread."""
        self.virtual = [extent for _, extent in geometry.virtual]
        self.size = self.plane * geometry.virtual_count
        lane = np.arange(self.size, dtype=np.int64)
        self.within = lane % self.plane
        """Number of the lane's thread in the batch."""
        self.thread = lane % padded
        self.block = self.within // padded + first
        self.number = self.block << THREAD_BITS | self.thread // WARP << WARP_BITS | self.thread % WARP
        self.code = self.number << SITE_BITS
        exists = self.thread < geometry.thread_count
        self.alive = exists.copy()
        """Lanes that have not returned."""
        self.start = Mask(exists & (lane < self.plane))
        self.clock = clock
        """Rises at every barrier; accesses are stamped with it."""
        self.block_base: Value = np.int64(clock)
        """The clock at the last barrier of the lane's block: what is older is ordered before the lane."""
        self.warp_base: Value = np.int64(0)
        self.grid_base: Value = np.int64(0)
        """The clock at the last barrier of the whole grid."""

    def coordinate(self, tag: str, key: tuple[str, int]) -> Value:
        """Value of a thread axis in every lane."""
        kind, _, axis = tag.partition(".")
        if kind not in ("blockIdx", "threadIdx"):
            return self.virtual_index(key)
        extents = self.geometry.blocks if kind == "blockIdx" else self.geometry.threads
        number = self.block if kind == "blockIdx" else self.thread
        index = AXES.index(axis)
        return number // math.prod(extents[:index]) % extents[index]

    def virtual_index(self, key: tuple[str, int]) -> Value:
        """Index of the lane along a virtual thread axis."""
        axis = [k for k, _ in self.geometry.virtual].index(key)
        rest = np.arange(self.size, dtype=np.int64) // self.plane
        for extent in reversed(self.virtual[axis + 1 :]):
            rest = rest // extent
        return rest % self.virtual[axis]

    def broadcast(self, rows: np.ndarray, key: tuple[str, int]) -> np.ndarray:
        """Rows of the lanes with index 0 along a virtual axis, repeated for all its indices."""
        axis = [k for k, _ in self.geometry.virtual].index(key)
        shaped = rows.reshape(*self.virtual, self.plane, *rows.shape[1:])
        first = np.take(shaped, [0], axis=axis)
        return np.broadcast_to(first, shaped.shape).reshape(rows.shape).copy()

    def owners(self, scope_rank: str, open_virtual: tuple[tuple[str, int], ...]) -> tuple[Value, int]:
        """The copy of a memory that each lane sees, and the number of copies; ranks "block", "warp", "thread"."""
        if scope_rank == "block":
            return self.within // self.geometry.padded, self.blocks
        if scope_rank == "warp":
            return self.within // WARP, self.plane // WARP
        owner, count = self.within, self.plane
        for key, extent in self.geometry.virtual:
            if key in open_virtual:
                owner = owner + count * self.virtual_index(key)
                count *= extent
        return owner, count

    def barrier(self, mask: Mask) -> np.ndarray:
        """Synchronise the blocks that reach a barrier. Gives the numbers of lanes that do not come (first virtual plane)."""
        padded = self.geometry.padded
        shaped: np.ndarray = np.any(mask.lanes.reshape(-1, self.blocks, padded), axis=0)
        alive: np.ndarray = np.any(self.alive.reshape(-1, self.blocks, padded), axis=0)
        come: np.ndarray = np.any(shaped, axis=1)
        missing = np.flatnonzero((alive & ~shaped & come[:, None]).ravel())
        self.clock += 1
        if come.all():
            self.block_base = np.int64(self.clock)
        else:
            reached = np.tile(np.repeat(come, padded), self.size // self.plane)
            self.block_base = np.where(reached, self.clock, self.block_base)
        return missing

    def grid_barrier(self) -> None:
        """Synchronise all blocks (they all run together where a program has such a barrier)."""
        self.grid_base = np.int64(self.clock)

    def warp_barrier(self, mask: Mask) -> np.ndarray:
        """Synchronise the warps that reach a warp barrier. Gives the numbers of lanes that do not come."""
        rows, alive = mask.lanes.reshape(-1, WARP), self.alive.reshape(-1, WARP)
        come: np.ndarray = np.any(rows, axis=1)
        # virtual threads that are not open do not run: a lane is missing only where another lane of its plane came
        missing = np.flatnonzero((alive & ~rows & come[:, None]).ravel())
        self.clock += 1
        self.warp_base = np.where(np.repeat(come, WARP), self.clock, self.warp_base)
        return missing
