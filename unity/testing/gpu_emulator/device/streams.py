"""Streams and events of emulated devices: work is done when it is asked for, or with ``late`` when somebody waits for it.

Late work is the hardest for a program: what it did not wait for has not happened, what it overwrites was still to be read. Streams
wait for each other by events alone, as streams that were made with CU_STREAM_NON_BLOCKING do.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .contexts import Contexts
from .devices import Device, Handles, write
from .status import INVALID_HANDLE, NOT_READY, Refused


class _Queue(deque[Callable[[], None]]):
    """Work of a stream that nobody has waited for yet."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device, self.busy = device, False

    def step(self) -> None:
        """Do the next piece of work, unless the context is lost."""
        work = self.popleft()
        self.busy = True
        try:
            if self.device.lost is None:
                work()
        finally:
            self.busy = False

    def finish(self) -> None:
        """Do all of it."""
        while self:
            self.step()


class _Mark:
    """A place in the work of a stream, and when it was passed."""

    def __init__(self, queue: _Queue) -> None:
        self.queue, self.passed = queue, -1.0

    def wait(self) -> None:
        """Do all work before it."""
        while self.passed < 0 and self.queue:
            self.queue.step()


@dataclass(slots=True)
class _Event:
    """An event: its flags, and the place where it was last recorded."""

    flags: int
    mark: _Mark | None = None


class Streams:
    """The driver's functions for streams and events."""

    def __init__(self, contexts: Contexts, late: bool) -> None:
        self._contexts, self.late = contexts, late
        self._streams = Handles[Device]()
        self._queues: dict[tuple[Device, int], _Queue] = {}
        self._events = Handles[_Event]()

    def use(self, stream: int | None, device: Device | None = None) -> None:
        """Raises Refused for what is not a stream, or one of another device than ``device``: 0, 1 and 2 are the default ones."""
        if stream is not None and stream > 2 and self._streams[stream] is not (device or self._streams[stream]):
            raise Refused(INVALID_HANDLE)

    def _queue(self, stream: int | None) -> _Queue:
        number = stream if stream is not None and stream > 2 else 0
        device = self._streams[number] if number else self._contexts.current_device()
        return self._queues.setdefault((device, number), _Queue(device))

    def give(self, stream: int | None, work: Callable[[], None]) -> None:
        """Work for a stream; a node of a graph does its own at once."""
        if self.late and not (queue := self._queue(stream)).busy:
            queue.append(work)
        else:
            work()

    def finish(self, *devices: Device) -> None:
        """Do all work of devices; of all, if none is named."""
        for queue in [q for (device, _), q in self._queues.items() if device in devices or not devices]:
            queue.finish()

    def cuStreamCreate(self, out: int, flags: int) -> None:
        self._streams.store(out, self._contexts.current_device())

    def cuStreamGetCtx(self, stream: int, out: int) -> None:
        write(out, ctypes.c_void_p, self._streams[stream].handle)

    def cuStreamDestroy_v2(self, stream: int) -> None:
        self._queue(stream).finish()
        self._queues.pop((self._streams.drop(stream), stream), None)

    def cuStreamSynchronize(self, stream: int | None) -> None:
        queue = self._queue(stream)
        queue.finish()
        self._told(queue.device)

    cuStreamQuery = cuStreamSynchronize

    def _told(self, device: Device) -> None:
        """Raises Refused where the work that was waited for has lost the context."""
        if device.lost is not None:
            raise Refused(device.lost[0])

    def cuCtxSynchronize(self) -> None:
        device = self._contexts.current_device()
        self.finish(device)
        self._told(device)

    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        self.use(stream)
        mark = self._events[event].mark
        if mark is not None and mark.passed < 0:
            self.give(stream, mark.wait)

    def cuEventCreate(self, out: int, flags: int) -> None:
        self._events.store(out, _Event(flags))

    def cuEventRecord(self, event: int, stream: int | None) -> None:
        self.use(stream)
        mark = self._events[event].mark = _Mark(self._queue(stream))

        def passed() -> None:
            mark.passed = time.perf_counter()

        self.give(stream, passed)

    def cuEventSynchronize(self, event: int) -> None:
        mark = self._events[event].mark
        if mark is not None:
            mark.wait()
            self._told(mark.queue.device)

    cuEventQuery = cuEventSynchronize

    def cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        times: list[float] = []
        for event in (self._events[start], self._events[end]):
            if event.mark is None or event.flags & 2:
                raise Refused(INVALID_HANDLE)
            if event.mark.passed < 0:
                raise Refused(NOT_READY)
            times.append(event.mark.passed)
        write(out, ctypes.c_float, 1e3 * (times[1] - times[0]))

    cuEventElapsedTime_v2 = cuEventElapsedTime

    def cuEventDestroy_v2(self, event: int) -> None:
        self._events.drop(event)
