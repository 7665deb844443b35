"""The lanes of several blocks that run together: registers, memory of blocks and threads, who runs, who waits, and what happened.

A lane is a thread; a block's threads are padded to whole warps with lanes that never run. Registers are arrays of one row, where
all lanes agree, or of a row per lane, and are never changed in place. ``everyone`` is None while all lanes live: an index None then
means every lane, and arithmetic may as well compute in lanes that have gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....ir.interpret.threads.findings import Log
from ....ir.interpret.threads.lanes import SITE_BITS, THREAD_BITS, WARP, WARP_BITS, Geometry, ThreadId
from ....ir.interpret.threads.shadow import Shadow
from ..memory.device_memory import POISON, DeviceMemory
from ..ptx.types import UNSIGNED
from .link import Program, align

Index = np.ndarray | None
"""Numbers of the lanes that run an instruction; None for all."""
READY, AT_BARRIER, AT_WARP, ASLEEP = 0, 1, 2, 3
SHARED_ALIGN = 1024
MAX_LANES = 16384


@dataclass(slots=True, eq=False)
class Options:
    """Options of a launch: its checks and limits. ``steps`` bounds the instructions of one batch of blocks; with ``inexact``,
    approximate instructions give results as far from the exact ones as their bounds allow."""

    seed: int | None = None
    steps: int = 4_000_000
    races: bool = True
    traffic: bool = True
    inexact: bool = False


@dataclass(slots=True, eq=False)
class Launch:
    """One launch of a kernel: its geometry, arguments, device and findings."""

    program: Program
    geometry: Geometry
    arguments: np.ndarray
    dynamic: int
    memory: DeviceMemory
    log: Log
    options: Options
    arch: int = 80
    state: dict[str, Any] = field(default_factory=dict)
    """Kept over the batches: the race memory of global memory."""
    clock: int = 1
    instructions: int = 0
    stream: int = 0

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name


def _row(value: int) -> np.ndarray:
    return np.array([value], np.uint32)


class Batch:
    """Blocks ``first`` to ``first + blocks`` of a launch."""

    def __init__(self, launch: Launch, first: int, blocks: int) -> None:
        program, geometry = launch.program, launch.geometry
        self.launch, self.program, self.geometry = launch, program, geometry
        self.memory, self.options, self.sites = launch.memory, launch.options, launch.log.sites
        self.first, self.blocks, self.padded = first, blocks, geometry.padded
        self.n = blocks * self.padded
        self.lane = np.arange(self.n)
        thread, block = self.lane % self.padded, self.lane // self.padded + first
        self.number = block << THREAD_BITS | thread // WARP << WARP_BITS | thread % WARP
        self.code = self.number << SITE_BITS
        self.alive = thread < geometry.thread_count
        self.everyone: Index = None if self.alive.all() else np.flatnonzero(self.alive)
        self.left = False
        """Threads have ended while others went on, maybe."""
        self.pc = np.full(self.n, program.entry)
        self.state = np.zeros(self.n, np.int8)
        self.waits_at = np.zeros(self.n, np.int64)
        """The number of the barrier at which a lane waits."""
        self.wanted = np.zeros(self.n, np.int64)
        """The threads that a barrier was told to expect, 0 for those of the block."""
        self.arrived: dict[int, np.ndarray] = {}
        """Threads of each block that arrived at a barrier without waiting."""
        self.vote = np.zeros(self.n, bool)
        self.returns: dict[str, np.ndarray] = {}
        poison = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}
        self.r: list[np.ndarray] = [
            np.full(1, POISON, "u1").repeat(bits // 8).view(poison[bits]) if bits else np.zeros(1, bool)
            for bits in program.register_bits
        ]
        self.undefined: dict[int, tuple[np.ndarray, Any]] = {}
        """Lanes whose registers hold undefined values, and who tells of them (``machine.undefined``)."""
        self.fresh = False
        """The running load has noted some."""
        self.carry = np.zeros(1, np.uint64)
        self._shared(launch)
        self.frame = align(program.frame_bytes, 16)
        self.local: np.ndarray | None = None
        self.special = self._specials(thread, block, launch)
        self.clock = launch.clock
        self.block_base: np.ndarray | np.int64 = np.int64(self.clock)
        self.warp_base: np.ndarray | np.int64 = np.int64(0)
        self.steps = 0
        self.copies: list[Any] = []
        """Asynchronous copies under way (``instructions.asynchronous``)."""
        self.committed: np.ndarray = np.zeros(self.n, np.int64)
        self.barriers: dict[int, Any] = {}
        """Transaction barriers by their address in ``shared``."""
        self.engine: list[Any] = []
        """Bulk copies under way."""
        self.groups: np.ndarray | None = None
        """The turn of each lane's warp, where warps do not run in step."""

    def _shared(self, launch: Launch) -> None:
        self.shared_limit = launch.program.shared_bytes + launch.dynamic
        self.stride = align(max(self.shared_limit, 1), SHARED_ALIGN)
        raw = np.full(self.blocks * self.stride, POISON, np.uint8)
        flags = np.zeros(self.blocks * self.stride, np.uint8)
        self.shared = raw
        self.shared_views = {width: raw.view(kind) for width, kind in UNSIGNED.items()}
        self.shared_flags = {width: flags.view(kind) for width, kind in UNSIGNED.items()}
        self.shared_written = flags
        self.shared_base = self.lane // self.padded * self.stride
        self.shared_shadow: Shadow | None = None
        self.watched = True
        """Races in shared memory are looked for: in the first and the last blocks of a launch, since all run one program."""

    def open_local(self) -> np.ndarray:
        """The memory of the threads, made when it is first used."""
        if self.local is None:
            self.local = np.full(self.n * self.frame, POISON, np.uint8)
            self.local_views = {width: self.local.view(kind) for width, kind in UNSIGNED.items()}
            flags = np.zeros(self.n * self.frame, np.uint8)
            self.local_written = flags
            self.local_flags = {width: flags.view(kind) for width, kind in UNSIGNED.items()}
        return self.local

    def _specials(self, thread: np.ndarray, block: np.ndarray, launch: Launch) -> dict[str, np.ndarray]:
        """Special registers, one row where all lanes agree."""
        found: dict[str, np.ndarray] = {}
        for name, numbers, extents in (("tid", thread, self.geometry.threads), ("ctaid", block, self.geometry.blocks)):
            step = 1
            for axis, extent in zip("xyz", extents):
                values = (numbers // step % extent).astype(np.uint32)
                found[f"%{name}.{axis}"] = values if extent > 1 else _row(0)
                found[f"%n{name}.{axis}"] = _row(extent)
                step *= extent
        laneid = thread % WARP
        found["%laneid"] = laneid.astype(np.uint32)
        found["%warpid"] = (thread // WARP).astype(np.uint32)
        found["%nwarpid"] = _row(self.padded // WARP)
        found["%smid"], found["%nsmid"], found["%gridid"] = _row(0), _row(1), _row(0)
        one = np.uint64(1)
        bit = one << laneid.astype(np.uint64)
        for name, mask in {
            "eq": bit, "lt": bit - one, "le": (bit << one) - one, "gt": ~((bit << one) - one), "ge": ~(bit - one),
        }.items():  # fmt: skip
            found[f"%lanemask_{name}"] = mask.astype(np.uint32)
        found["%dynamic_smem_size"] = _row(launch.dynamic)
        found["%total_smem_size"] = _row(self.shared_limit)
        found["%WARP_SZ"] = found["WARP_SZ"] = _row(WARP)
        return found

    # ---- who is where

    def lanes(self, ix: Index) -> np.ndarray:
        """Numbers of the lanes of an index."""
        if ix is not None:
            return ix
        return self.lane if self.everyone is None else self.everyone

    def mask(self, ix: Index) -> np.ndarray:
        """The lanes of an index as a mask."""
        if ix is None:
            return self.alive
        made = np.zeros(self.n, bool)
        made[ix] = True
        return made

    def full_row(self, ix: Index, values: np.ndarray) -> np.ndarray:
        """Values of some lanes as a row of all lanes."""
        if len(values) == self.n and ix is None:
            return values
        made = np.zeros(self.n, values.dtype)
        made[self.lanes(ix)] = values
        return made

    def narrowed(self, lanes: np.ndarray) -> Index:
        """The index of some lanes: None where they are all that live."""
        everyone = self.n if self.everyone is None else len(self.everyone)
        return None if len(lanes) == everyone else lanes

    def thread(self, lane: int) -> ThreadId:
        """The coordinates of a lane."""
        return self.geometry.thread_id(int(self.number[lane]))

    def leave(self, lanes: np.ndarray) -> None:
        """The threads of some lanes end."""
        self.alive[lanes] = False
        self.left = True
        self.everyone = np.flatnonzero(self.alive)

    # ---- order

    def ordered(self, lanes: Index, warps: bool = False) -> None:
        """Some lanes have met at a barrier of their block (or warp): what they did before is ordered before what comes."""
        self.clock += 1
        if warps:
            base = np.broadcast_to(self.warp_base, self.n).copy()
            base[self.lanes(lanes)] = self.clock
            self.warp_base = base
        elif lanes is None:
            self.block_base = np.int64(self.clock)
        else:
            base = np.broadcast_to(self.block_base, self.n).copy()
            base[lanes] = self.clock
            self.block_base = base
