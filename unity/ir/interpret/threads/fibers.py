"""Parts of a kernel that run beside each other: lanes that parted at a condition and wait for one another at barriers.

Each part has a Python thread of its own, but one runs at a time: who waits for something hands over to one that can go on. Copies
that run beside the threads come when nobody can: as late as they may. A failure goes from a part to the one that began it, and so
to the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
Holds = Callable[[], bool]


class _Fiber:
    """A part that waits: the condition under which it goes on, and how it is woken or begun."""

    __slots__ = ("begin", "ready", "thread", "woken")

    def __init__(self, holds: Holds, thread: threading.Thread, begin: bool = False) -> None:
        self.ready, self.thread, self.begin = holds, thread, begin
        self.woken = threading.Event()

    def resume(self) -> None:
        if self.begin:
            self.thread.start()
        else:
            self.woken.set()


class Fibers:
    """The parts of one batch. ``late``: what comes when no part can go on."""

    def __init__(self) -> None:
        self.late: list[Callable[[], None]] = []
        self._waiting: list[_Fiber] = []
        self._failure: BaseException | None = None

    def wait(self, holds: Holds, stuck: Callable[[], Exception]) -> None:
        """Let others run until a condition holds. Raises ``stuck()`` where it never will."""
        while not holds():
            other = self._next()
            if other is not None:
                self._switch(other, _Fiber(holds, threading.current_thread()))
            elif self.late:
                while self.late:
                    self.late.pop(0)()
            else:
                raise stuck()

    def run_both(self, first: Callable[[], T], second: Callable[[], T], stuck: Callable[[], Exception]) -> tuple[T, T]:
        """Run two parts; what both give."""
        done: list[T] = []
        parent = threading.current_thread()

        def run() -> None:
            try:
                done.append(second())
            except BaseException as error:
                self._failure = self._failure or error
            self._ended(parent)

        child = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
        self._waiting.append(_Fiber(lambda: True, child, begin=True))
        try:
            one = first()
            self.wait(lambda: bool(done), stuck)
        except BaseException as error:
            self._failure = self._failure or error
            self._stop(child)
            raise
        return one, done[0]

    def _next(self) -> _Fiber | None:
        """A waiting part that can go on."""
        for index, fiber in enumerate(self._waiting):
            if fiber.ready():
                return self._waiting.pop(index)
        return None

    def _switch(self, other: _Fiber, own: _Fiber) -> None:
        self._waiting.append(own)
        other.resume()
        own.woken.wait()
        if self._failure is not None:
            raise self._failure

    def _ended(self, parent: threading.Thread) -> None:
        """A part has ended: another goes on. After a failure it is the one that began it, unless that is stopping its parts."""
        if self._failure is None:
            fiber = self._next()  # the parent at last, whose condition holds now if it waits for the end
            if fiber is None and self.late:
                while self.late:
                    self.late.pop(0)()
                fiber = self._next()
            if fiber is not None:
                fiber.resume()
                return
        for index, fiber in enumerate(self._waiting):
            if fiber.thread is parent:
                self._waiting.pop(index).resume()
                return

    def _stop(self, thread: threading.Thread) -> None:
        """End a part after a failure."""
        for index, fiber in enumerate(self._waiting):
            if fiber.thread is thread:
                self._waiting.pop(index)
                if not fiber.begin:
                    fiber.resume()
                    thread.join()
                return
