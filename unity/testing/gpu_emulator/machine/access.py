"""Accesses of memory by the lanes: each is checked against its allocation, noted for races and for undefined reads, and counted.

Every function here takes lanes that live (``ix`` None: all) and addresses as int64 rows, one where all lanes agree, and moves bits.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np

from ....ir.interpret.threads.findings import Finding
from ....ir.interpret.threads.lanes import SITE_BITS, WARP, WHOLE_WARP
from ....ir.interpret.threads.shadow import WARP_SHIFT, Shadow
from ....ir.interpret.threads.traffic import count_global, count_shared
from ....support.errors import Note
from ..ptx.program import Instruction
from ..ptx.types import UNSIGNED
from .batch import Batch, Index
from .findings import ILLEGAL_ADDRESS, MISALIGNED, Fault, finding
from .global_races import GlobalRaces
from .link import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from .reading import Reading
from .undefined import mark_undefined, slot_of

WRITTEN = {width: np.full(width, 1, np.uint8).view(kind)[0] for width, kind in UNSIGNED.items()}
"""Flags of so many bytes that are all written."""
WINDOW_SHIFT = np.int64(60)
WINDOW_MASK = np.int64((1 << 60) - 1)
SPACES = {0: "global", SHARED_WINDOW >> 60: "shared", LOCAL_WINDOW >> 60: "local", PARAM_WINDOW >> 60: "param"}
Apply = Callable[[np.ndarray, np.ndarray], np.ndarray | None]
"""Given the array of a memory and indices in it, one per lane: changes it, and gives what was there."""


class Access:
    """One access in the program: ``width`` bytes per lane in a space ("generic": each lane's address says which)."""

    def __init__(
        self, reading: Reading, space: str, kind: str, width: int, atomic: bool = False, collective: bool = False
    ):
        if space not in ("global", "shared", "local", "param", "generic"):
            raise reading.refuse(f"memory of {space}")
        self.space, self.kind, self.width, self.atomic = space, kind, width, atomic
        self.instruction = reading.instruction
        self.shift = np.int64(width.bit_length() - 1)
        self.low = np.int64(width - 1)
        self.reach = 1 if atomic and width == 2 else width
        """Bytes that must lie in an allocation, whose last two bytes a device has: there is no atomic update of one byte."""
        spaces = ("global", "shared") if space == "generic" else (space,)
        program, instruction = reading.program, reading.instruction
        loads = reading.opcode == "ld"
        self.results = tuple([slot_of(reading, one) for one in reading.items(0)]) if loads else ()
        """Registers that a load fills, None for a value that nobody wants: undefined values are told of where they are used."""
        self.sites = {one: program.site(kind, one, instruction, width, atomic, collective) for one in spaces}

    def of(self, results: tuple[int | None, ...]) -> Access:
        """The same access where it fills some of the registers."""
        made = copy(self)
        made.results = results
        return made

    # ---- plain accesses

    def load(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        """Bits at the addresses."""
        if self.space == "global":
            return self._load_global(batch, ix, address)
        if self.space == "shared":
            return self._load_shared(batch, ix, address)
        if self.space == "local":
            return self._load_local(batch, ix, address)
        if self.space == "param":
            return self._load_param(batch, ix, address)
        return self._by_window(batch, ix, address, None)

    def store(self, batch: Batch, ix: Index, address: np.ndarray, bits: np.ndarray) -> None:
        """Store bits at the addresses."""
        if self.space == "global":
            self._store_global(batch, ix, address, bits)
        elif self.space == "shared":
            self._store_shared(batch, ix, address, bits)
        elif self.space == "local":
            self._store_local(batch, ix, address, bits)
        elif self.space == "param":
            raise self._fault(batch, "store into the parameters of a kernel", 0)
        else:
            self._by_window(batch, ix, address, bits)

    def _by_window(self, batch: Batch, ix: Index, address: np.ndarray, bits: np.ndarray | None) -> np.ndarray:
        """An access through generic addresses: lanes by the window that their addresses lie in."""
        windows = address >> WINDOW_SHIFT
        present = np.unique(windows)
        found = np.zeros(0)
        lanes = batch.lanes(ix)
        for window in present.tolist():
            space = SPACES.get(window, "global")
            part = copy(self)
            part.space = space
            inside = address & WINDOW_MASK if space != "global" else address
            if len(present) == 1:
                if bits is not None:
                    part.store(batch, ix, inside, bits)
                    return bits
                return part.load(batch, ix, inside)
            here = windows == window
            if bits is not None:
                part.store(batch, lanes[here], inside[here], bits if len(bits) == 1 else bits[here])
                continue
            got = part.load(batch, lanes[here], inside[here])
            found = np.zeros(len(lanes), got.dtype) if not len(found) else found
            found[here] = got
        return found

    # ---- global memory

    def offsets(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        """Bytes' numbers in the device's memory, all inside allocations."""
        memory = batch.memory
        offset = address - np.int64(memory.base)
        if np.bitwise_or.reduce(offset) & self.low:
            self.misaligned(batch, ix, address)
        low, high = int(offset.min()), int(offset.max())
        found = memory.find(memory.base + low)
        if found is None or high + self.reach > found.start + found.size:
            self._each_inside(batch, ix, address, offset)
        return offset

    def _each_inside(self, batch: Batch, ix: Index, address: np.ndarray, offset: np.ndarray) -> None:
        memory = batch.memory
        starts = np.array([one.start for one in memory.live], np.int64)
        ends = np.array([one.start + one.size for one in memory.live], np.int64)
        if not len(starts):
            self.outside(batch, ix, address, 0)
        at = np.searchsorted(starts, offset, "right") - 1
        wrong = (at < 0) | (offset + self.reach > ends[at])
        if wrong.any():
            self.outside(batch, ix, address, int(wrong.argmax()))

    def outside(self, batch: Batch, ix: Index, address: np.ndarray, row: int) -> None:
        """End the launch: the address of a row lies in no allocation."""
        one = int(address[row])
        why = batch.memory.describe(one, self.width)
        text = f"{self.kind} of {self.width} bytes at {one & (1 << 64) - 1:#x}, outside the device's memory: {why}"
        raise self._fault(batch, text, self._lane(batch, ix, row, address))

    def misaligned(self, batch: Batch, ix: Index, address: np.ndarray) -> None:
        """End the launch: an address is not a multiple of the width."""
        row = int(((address & self.low) != 0).argmax())
        text = f"{self.kind} of {self.width} bytes at {int(address[row]) & (1 << 64) - 1:#x}, not a multiple of {self.width}"
        raise Fault(MISALIGNED, self._finding(batch, "alignment", text, self._lane(batch, ix, row, address)))

    def within(self, batch: Batch, ix: Index, address: np.ndarray, limit: int, of: str) -> None:
        """End the launch where an address is not a multiple of the width, or lies beyond so many bytes ``of`` something."""
        if np.bitwise_or.reduce(address) & self.low:
            self.misaligned(batch, ix, address)
        if address.min() < 0 or address.max() + self.reach > limit:
            row = int(((address < 0) | (address + self.reach > limit)).argmax())
            text = f"{self.kind} of {self.width} bytes at byte {int(address[row])} of {of}, which has {limit}"
            raise self._fault(batch, text, self._lane(batch, ix, row, address))

    def _fault(self, batch: Batch, text: str, lane: int) -> Fault:
        """The end of a launch by an address that nothing lies at."""
        return Fault(ILLEGAL_ADDRESS, self._finding(batch, "bounds", text, lane))

    def _load_global(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        memory = batch.memory
        offset = self.offsets(batch, ix, address)
        element = offset >> self.shift
        found = memory.views[self.width][element]
        self._defined_global(batch, ix, offset, element)
        self.record_global(batch, ix, offset, False)
        rows: np.ndarray = found
        return rows

    def _defined_global(self, batch: Batch, ix: Index, offset: np.ndarray, element: np.ndarray) -> None:
        memory = batch.memory
        first = memory.find(memory.base + int(offset[0]))
        if first is not None and first.full and first.start <= offset.min() and offset.max() < first.start + first.size:
            return
        flags = memory.flags[self.width][element]
        if (flags != WRITTEN[self.width]).any():
            self._undefined(batch, ix, flags, offset, "global")

    def _store_global(self, batch: Batch, ix: Index, address: np.ndarray, bits: np.ndarray) -> None:
        memory = batch.memory
        offset = self.offsets(batch, ix, address)
        element = offset >> self.shift
        if memory.constants:
            self._not_constant(batch, ix, address)
        memory.views[self.width][element] = bits if len(element) > 1 or len(bits) == 1 else bits[-1:]
        memory.flags[self.width][element] = WRITTEN[self.width]
        self.record_global(batch, ix, offset, True)

    def _not_constant(self, batch: Batch, ix: Index, address: np.ndarray) -> None:
        for one in batch.memory.constants:
            inside = (address >= batch.memory.base + one.start) & (address < batch.memory.base + one.start + one.size)
            if inside.any():
                row = int(inside.argmax())
                text = f"{self.kind} into the constant {one.name}"
                raise self._fault(batch, text, self._lane(batch, ix, row, address))

    def record_global(self, batch: Batch, ix: Index, offset: np.ndarray, writes: bool) -> None:
        """Count an access, and tell the race memory."""
        site = self.sites["global"]
        if batch.options.traffic:
            rows = self._rows(batch, ix, offset)
            count_global(batch.sites[site], rows, batch.mask(ix).reshape(-1, WARP), self.width)
        if batch.options.races:
            races: GlobalRaces = batch.launch.state["races"]
            races.record(batch, self, site, ix, offset, writes)

    # ---- memory of a block

    def shared_offsets(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        """Bytes' numbers in the shared memory of all blocks."""
        self.within(batch, ix, address, batch.shared_limit, "the shared memory of a block")
        base = batch.shared_base if ix is None else batch.shared_base[ix]
        found: np.ndarray = address + base
        return found

    def _load_shared(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        offset = self.shared_offsets(batch, ix, address)
        at = offset >> self.shift
        found = batch.shared_views[self.width][at]
        flags = batch.shared_flags[self.width][at]
        if (flags != WRITTEN[self.width]).any():
            self._undefined(batch, ix, flags, offset % batch.stride, "shared")
        self.record_shared(batch, ix, address, offset, False)
        rows: np.ndarray = found
        return rows

    def _store_shared(self, batch: Batch, ix: Index, address: np.ndarray, bits: np.ndarray) -> None:
        offset = self.shared_offsets(batch, ix, address)
        at = offset >> self.shift
        batch.shared_views[self.width][at] = bits
        batch.shared_flags[self.width][at] = WRITTEN[self.width]
        self.record_shared(batch, ix, address, offset, True)

    def record_shared(self, batch: Batch, ix: Index, address: np.ndarray, offset: np.ndarray, writes: bool) -> None:
        """Count an access, and tell the race memory."""
        site = self.sites["shared"]
        if batch.options.traffic:
            rows = self._rows(batch, ix, address)
            count_shared(batch.sites[site], rows, batch.mask(ix).reshape(-1, WARP), self.width)
        if batch.options.races and batch.watched:
            self.race_shared(batch, ix, offset, writes)

    def race_shared(self, batch: Batch, ix: Index, offset: np.ndarray, writes: bool) -> None:
        """Tell the race memory of an access of shared memory."""
        granule = batch.launch.state["granules"]["shared"]
        shadow = batch.shared_shadow
        if shadow is None:
            cells = len(batch.shared) // granule
            shadow = batch.shared_shadow = Shadow(cells, False, batch.program.warp_barriers, batch.program.atomics)
        site = self.sites["shared"]
        cells_, codes, now = timed(batch, ix, offset // granule, self.width // granule, site)
        method = shadow.atomic if self.atomic else shadow.write if writes else shadow.read
        method(
            cells_,
            codes,
            now,
            lambda c, before, after: self.race(batch, "shared", c * granule % batch.stride, before, after),
        )

    # ---- memory of a thread, parameters

    def _local(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        batch.open_local()
        self.within(batch, ix, address, batch.frame, "the local memory of a thread")
        found: np.ndarray = (batch.lanes(ix) * batch.frame + address) >> self.shift
        return found

    def _load_local(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        at = self._local(batch, ix, address)
        flags = batch.local_flags[self.width][at]
        if (flags != WRITTEN[self.width]).any():
            self._undefined(batch, ix, flags, np.broadcast_to(address, len(at)), "local")
        found: np.ndarray = batch.local_views[self.width][at]
        return found

    def _store_local(self, batch: Batch, ix: Index, address: np.ndarray, bits: np.ndarray) -> None:
        at = self._local(batch, ix, address)
        batch.local_views[self.width][at] = bits
        batch.local_flags[self.width][at] = WRITTEN[self.width]

    def _load_param(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        self.within(batch, ix, address, batch.program.param_bytes, "the kernel's parameters")
        found: np.ndarray = batch.launch.arguments.view(UNSIGNED[self.width])[address >> self.shift]
        return found

    # ---- atomic updates

    def update(self, batch: Batch, ix: Index, address: np.ndarray, kind: np.dtype, apply: Apply) -> np.ndarray | None:
        """Let ``apply`` change memory seen as numbers of a kind."""
        lanes = batch.lanes(ix)
        address = np.broadcast_to(address, len(lanes))
        space = self.space
        if space == "generic":
            windows = np.unique(address >> WINDOW_SHIFT)
            if len(windows) != 1 or SPACES.get(int(windows[0])) not in ("global", "shared"):
                text = f"{self.kind} through addresses of several kinds of memory, or of local memory"
                raise self._fault(batch, text, int(lanes[0]))
            space = SPACES[int(windows[0])]
            address = address & WINDOW_MASK if space == "shared" else address
        if space == "shared":
            offset = self.shared_offsets(batch, ix, address)
            self.record_shared(batch, ix, address, offset, True)
            raw, flags, of = batch.shared, batch.shared_flags, address
        else:
            offset = of = self.offsets(batch, ix, address)
            if batch.memory.constants:
                self._not_constant(batch, ix, address)
            self.record_global(batch, ix, offset, True)
            raw, flags = batch.memory.raw, batch.memory.flags
        at = offset >> self.shift
        written = flags[self.width][at]
        if (written == WRITTEN[self.width]).all():
            return apply(raw.view(kind), at)
        bits = raw.view(UNSIGNED[self.width])
        before = bits[at]
        found = apply(raw.view(kind), at)
        if self.kind == "atomic cas":  # what it leaves alone does not concern it
            kept = (before ^ bits[at]).view(np.uint8) == 0
            written = (written.view(np.uint8) | kept).view(written.dtype)
        if (written != WRITTEN[self.width]).any():
            self._undefined(batch, ix, written, of, space)
        return found

    # ---- messages

    def _rows(self, batch: Batch, ix: Index, address: np.ndarray) -> np.ndarray:
        if len(address) == 1:
            return np.broadcast_to(address, batch.n).reshape(-1, WARP)
        return batch.full_row(ix, address).reshape(-1, WARP)

    def _lane(self, batch: Batch, ix: Index, row: int, address: np.ndarray) -> int:
        lanes = batch.lanes(ix)
        return int(lanes[row if len(address) == len(lanes) else 0])

    def _finding(self, batch: Batch, kind: str, text: str, lane: int) -> Finding:
        who = batch.thread(lane)
        return finding(batch, kind, f"{text}, by {who}", self.instruction.span, who)

    def _undefined(self, batch: Batch, ix: Index, flags: np.ndarray, offset: np.ndarray, space: str) -> None:
        """``flags``: for each lane, which of the bytes that it reads were written."""
        key = ("uninitialised", self.instruction)
        bad = flags != WRITTEN[self.width]
        if batch.launch.log.known(key, int(bad.sum())):
            return
        row = int(bad.argmax())
        where = self._describe(batch, space, int(offset[row if len(offset) > 1 else 0]))
        text = f"{self.kind} of {self.width} bytes of {where} before anything was stored there"
        if not self.results:
            found = self._finding(batch, "uninitialised", text, self._lane(batch, ix, row, bad))
            batch.launch.log.add(key, found, int(bad.sum()))
            return

        def tell(user: Instruction, users: np.ndarray) -> None:
            if not batch.launch.log.known(key, len(users)):
                found = self._finding(batch, "uninitialised", text, int(users[0]))
                found.notes.append(Note("the value is used here", user.span))
                batch.launch.log.add(key, found, len(users))

        lanes = batch.lanes(ix)
        lanes = lanes[bad] if len(bad) == len(lanes) else lanes
        missing = flags[bad].view(np.uint8).reshape(len(flags[bad]), len(self.results), -1) == 0
        for number, slot in enumerate(self.results):
            parts = np.packbits(missing[:, number], axis=1, bitorder="little")[:, 0]
            if slot is not None and parts.any():  # LLVM widens vectors over what nobody uses
                mark_undefined(batch, slot, lanes, tell, parts)
                batch.fresh = True

    def _describe(self, batch: Batch, space: str, offset: int) -> str:
        if space == "global":
            found = batch.memory.find(batch.memory.base + offset)
            name = f"{found.name or 'an allocation'} ({found.size} bytes)" if found else "memory"
            return f"{name} at byte {offset - found.start if found else offset}"
        if space == "shared":
            for start, variable in reversed(batch.program.variables):
                if start <= offset < start + variable.size:
                    return f"{variable.name} in shared memory at byte {offset - start}"
        return f"{space} memory at byte {offset}"

    def race(self, batch: Batch, space: str, offsets: np.ndarray, before: np.ndarray, now: np.ndarray) -> None:
        """Record accesses that race with earlier ones, one finding for each pair of instructions."""
        low = (1 << SITE_BITS) - 1
        log, geometry = batch.launch.log, batch.geometry
        pairs = (before & low) << SITE_BITS | (now & low)
        for pair in np.unique(pairs).tolist():
            chosen = np.flatnonzero(pairs == pair)
            if log.known(("race", pair), chosen.size):
                continue
            at = int(chosen[0])
            first, second = log.sites[pair >> SITE_BITS], log.sites[pair & low]
            one, two = [geometry.thread_id(int(codes[at]) >> SITE_BITS) for codes in (before, now)]
            where = self._describe(batch, space, int(offsets[at]))
            text = f"{batch.launch.name}: race on {where}: {one} ({first.kind}) and {two} ({second.kind}), no barrier between"
            log.add(("race", pair), Finding(
                "E360" if space == "shared" else "E361", "race", text, second.span,
                [Note(f"the other access, a {first.kind}", first.span)], buffer=second.buffer, threads=(one, two),
            ), chosen.size)  # fmt: skip


def timed(
    batch: Batch, ix: Index, cells: np.ndarray, per: int, site: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, np.ndarray | np.int64, np.ndarray | np.int64, np.int64]]:
    """Cells, codes of the accesses, and the present time, as the race memory wants them; ``per`` cells for each lane."""
    lanes = batch.lanes(ix)
    codes = (batch.code if ix is None and batch.everyone is None else batch.code[lanes]) + site
    if batch.sites[site].collective:
        codes = codes >> WARP_SHIFT << WARP_SHIFT | WHOLE_WARP << SITE_BITS | site
    block = batch.block_base[lanes] if isinstance(batch.block_base, np.ndarray) else batch.block_base
    warp = batch.warp_base[lanes] if isinstance(batch.warp_base, np.ndarray) else batch.warp_base
    if len(cells) != len(codes):
        cells = np.broadcast_to(cells, len(codes))
    if per > 1:
        cells = (cells[:, None] + np.arange(per)).ravel()
        codes = np.repeat(codes, per)
        block = block if np.ndim(block) == 0 else np.repeat(block, per)
        warp = warp if np.ndim(warp) == 0 else np.repeat(warp, per)
    return cells, codes, (batch.clock, block, warp, np.int64(0))
