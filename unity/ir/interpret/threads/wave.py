"""State of a running kernel that closures share: values by variable, the batch of lanes, memory, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ....support.errors import InterpreterError, Note
from ....support.source import Span
from ..common.arrays import Value
from ..scalar.machine import Machine
from ..scalar.memory import cell_at
from .findings import Finding, Log, Site
from .lanes import SITE_BITS, WARP, WHOLE_WARP, Batch, Mask, ThreadId
from .memory import Accesses, Array, Storage
from .traffic import count_global, count_shared

T = TypeVar("T")


class Wave:
    """One batch after the other of one kernel. ``array`` is the buffer being accessed, for messages."""

    def __init__(self, log: Log, machine: Machine) -> None:
        self.log, self.machine = log, machine
        self.env: dict[Any, Any] = {}
        self.array: Array | None = None
        self.tags: dict[Any, str] = {}
        """Tag of each thread variable."""
        self.together: dict[Site, list[tuple[Storage, Value, Mask, int]]] | None = None
        """Accesses of the running vectorized loop, counted as one when it ends."""
        self.proxied: list[Storage] = []
        """Shared memory that instructions read beside the threads."""
        self.batch: Batch
        self.accesses: Accesses

    def start(self, batch: Batch, env: dict[Any, Any]) -> None:
        """Begin a batch."""
        self.batch, self.env, batch.start.env = batch, env, env
        self.accesses = Accesses(batch, self.uninitialised, self.race)

    def record(self, kind: type[T], *args: Any) -> T:
        """The batch's object of a kind, made of ``args`` at its first use."""
        found = self.env.get(kind)
        if found is None:
            found = self.env[kind] = kind(*args)
        assert isinstance(found, kind)
        return found

    def rows(self, value: Value, dtype: type = np.int64) -> np.ndarray:
        """A value as an array of a number in every lane."""
        return np.broadcast_to(np.asarray(value, dtype), self.batch.size)

    # ---- traffic

    def count(self, site: Site, storage: Storage, address: Value, mask: Mask, width: int) -> None:
        """Count the traffic of an access of ``width`` bytes per lane."""
        scope = storage.scope
        if not self.log.traffic or (scope != "global" and not scope.startswith("shared")):
            return
        if self.together is not None:
            self.together.setdefault(site, []).append((storage, address, mask, width))
            return
        rows = self.rows(address).reshape(-1, WARP)
        counter = count_global if scope == "global" else count_shared
        counter(site, rows, mask.lanes.reshape(-1, WARP), width)

    def count_together(self) -> None:
        """Count what a vectorized loop gathered: neighbouring elements are one wide access."""
        gathered, self.together = self.together or {}, None
        for site, parts in gathered.items():
            storage, first, mask, width = parts[0]
            wide = all([
                np.array_equal(part.lanes, mask.lanes) and np.array_equal(address, first + k * width)
                for k, (_, address, part, _) in enumerate(parts)
            ])  # fmt: skip
            if wide:
                self.count(site, storage, first, mask, width * len(parts))
                continue
            for _, address, part, _ in parts:
                self.count(site, storage, address, part, width)

    # ---- findings

    def thread(self, lane: int) -> ThreadId:
        """The thread of a lane."""
        return self.batch.geometry.thread_id(int(self.batch.number[lane]))

    def cell(self, offset: int, lane: int) -> tuple[str, tuple[int, ...] | None]:
        """Name and indices of the element of the accessed buffer at a byte offset in its memory."""
        array = self.array
        assert array is not None
        pick = [int(v[lane] if np.ndim(v) else v) for v in (array.start, array.base, *array.shape, *array.strides)]
        start, base, rest = pick[0], pick[1], pick[2:]
        shape, strides = rest[: len(array.shape)], rest[len(array.shape) :]
        return cell_at(array.name, (offset - start) // array.dtype.itemsize - base, shape, strides)

    def out_of_bounds(self, site: Site, array: Array, point: list[Value], lanes: np.ndarray, column: int = 0) -> None:
        """An index outside the shape in some lanes."""
        if self.log.known(("bounds", site.number), lanes.size):
            return
        lane = int(lanes[0])

        def at(value: Value) -> int:
            if np.ndim(value) == 2:
                value = value[lane if len(value) > 1 else 0, column]
            return int(value[lane] if np.ndim(value) else value)

        indices = tuple([at(v) for v in point])
        shape = tuple([at(v) for v in array.shape])
        who = self.thread(lane)
        shown = ", ".join([str(i) for i in indices])
        self.log.add(("bounds", site.number), Finding(
            "E363", "bounds", f"{site.kind} of {array.name}[{shown}] outside its shape {shape} by {who}", site.span,
            buffer=array.name, cell=indices, threads=(who,),
        ), lanes.size)  # fmt: skip

    def outside_memory(self, site: Site, array: Array, lanes: np.ndarray) -> None:
        """An address outside the memory of a buffer in some lanes."""
        self._wrong_address(
            "E363", "bounds", site, array, lanes, f"of {array.name} reaches outside the memory of {array.storage.name}"
        )

    def misaligned(self, site: Site, array: Array, lanes: np.ndarray, width: int) -> None:
        """An address that is not a multiple of the access in some lanes."""
        text = f"of {width} bytes of {array.name} at an address that is not a multiple of {width},"
        self._wrong_address("E366", "alignment", site, array, lanes, text)

    def _wrong_address(self, code: str, kind: str, site: Site, array: Array, lanes: np.ndarray, text: str) -> None:
        if not self.log.known((kind, site.number), lanes.size):
            who = self.thread(int(lanes[0]))
            found = Finding(code, kind, f"{site.kind} {text} by {who}", site.span, buffer=array.name, threads=(who,))
            self.log.add((kind, site.number), found, lanes.size)

    def uninitialised(
        self, site: Site, storage: Storage, offsets: np.ndarray, lanes: np.ndarray, written: np.ndarray
    ) -> None:
        """Reads of cells nobody has written."""
        flags = written.reshape(offsets.size, -1).all(axis=1)
        wrong = np.flatnonzero(~flags)
        if self.log.known(("uninitialised", site.number), wrong.size):
            return
        per_lane = max(1, offsets.size // max(lanes.size, 1))
        lane = int(lanes[wrong[0] // per_lane])
        offset = int(offsets.ravel()[wrong[0]])
        name, indices = self.cell(offset % storage.size if np.ndim(storage.owner) else offset, lane)
        who = self.thread(lane)
        self.log.add(("uninitialised", site.number), Finding(
            "E364", "uninitialised", f"{name} ({storage.scope}) is read by {who} before anything was written there", site.span,
            buffer=site.buffer, cell=indices, threads=(who,),
        ), wrong.size)  # fmt: skip

    def race(self, storage: Storage, cells: np.ndarray, before: np.ndarray, now: np.ndarray) -> None:
        """Accesses that race with earlier ones."""
        low = (1 << SITE_BITS) - 1
        pairs = (before & low) << SITE_BITS | (now & low)
        for pair in np.unique(pairs).tolist():
            chosen = np.flatnonzero(pairs == pair)
            first, second = self.log.sites[pair >> SITE_BITS], self.log.sites[pair & low]
            if self.log.known(("race", pair), chosen.size):
                continue
            at = int(chosen[0])
            geometry = self.batch.geometry
            one, two = [geometry.thread_id(int(codes[at]) >> SITE_BITS) for codes in (before, now)]
            offset = int(cells[at]) * storage.granule
            number = int(now[at]) >> SITE_BITS
            lane = int(np.flatnonzero(self.batch.number == (number & ~WHOLE_WARP if second.collective else number))[0])
            name, indices = self.cell(offset % storage.size if np.ndim(storage.owner) else offset, lane)
            shared = storage.scope != "global"
            help = (
                'put T.tvm_storage_sync("shared") between the two accesses' if shared and first is not second else None
            )
            text = f"race on {name} in {storage.scope} memory: {one} ({first.kind}) and {two} ({second.kind}), no barrier between"
            self.log.add(("race", pair), Finding(
                "E360" if shared else "E361", "race", text, second.span,
                [Note(f"the other access, the {first.kind} of {first.buffer}", first.span)], help, second.buffer, indices,
                (one, two),
            ), chosen.size)  # fmt: skip

    def divergent(self, missing: np.ndarray, mask: Mask, what: str, span: Span | None) -> None:
        """A barrier that some threads of a block (or warp) do not reach."""
        if self.log.known(("barrier", span, what), missing.size):
            return
        batch = self.batch
        absent = int(missing[0])
        same = (batch.block == batch.block[absent]) & mask.lanes
        if what == "warp":
            same &= (batch.within // WARP) == (batch.within[absent] // WARP)
        present = int(np.flatnonzero(same)[0])
        one, two = self.thread(present), self.thread(absent)
        self.log.add(("barrier", span, what), Finding(
            "E362", "barrier", f"divergent barrier: {one} waits, {two} does not come to it", span,
            help="move the barrier out of the condition, or make the condition the same for all threads of the block",
            threads=(one, two),
        ), missing.size)  # fmt: skip

    def collective(self, what: str, lane: int, other: int | None, span: Span | None, count: int) -> None:
        """An operation of a whole warp that some of its lanes do not take part in."""
        key = ("collective", span, what)
        if self.log.known(key, count):
            return
        one = self.thread(lane)
        two = self.thread(other) if other is not None else None
        who = f", {two} does not take part" if two is not None else ", some lane of its warp does not take part"
        self.log.add(key, Finding(
            "E365", "collective", f"{what} by {one}{who}", span,
            help="let all lanes of the warp reach it", threads=(one, two) if two is not None else (one,),
        ), count)  # fmt: skip

    def refuse(
        self, wrong: np.ndarray, lanes: np.ndarray, code: str, span: Span | None, text: Callable[[int], str]
    ) -> None:
        """Raise an InterpreterError where something is wrong (lanes first), with ``text`` of the first place and its thread."""
        if wrong.any():
            at = int(wrong.reshape(len(wrong), -1).any(axis=1).argmax())
            raise self.failure(code, text(at), span, int(lanes[at]))

    def failure(self, code: str, message: str, span: Span | None, lane: int) -> InterpreterError:
        """An error that ends the run, naming the thread."""
        return InterpreterError(code, f"{message} in {self.thread(lane)}", span)
