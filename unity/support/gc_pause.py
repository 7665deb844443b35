"""Python's cycle collector out of the way while many objects are made that all stay.

Reading a long text makes hundreds of thousands of objects, and the collector walks all of them again and again (a third of the
time at 10,000 lines); a build beside a large program (torch and its models) pays for a walk over that program's objects.
Invariant: the collector is as it was before the first user came, once the last has left.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .forking import fork_lock

_LOCK = fork_lock()
_NEVER = 1 << 30


class _Change:
    """A change of the collector while it has users: ``begin`` makes it and gives what ``end`` needs to undo it."""

    def __init__(self, begin: Callable[[], Any], end: Callable[[Any], None]) -> None:
        self.begin, self.end = begin, end
        self.users: list[int] = []
        """Threads of the users, once per use."""
        self.before: Any = None
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        """After a fork only the forking thread's uses go on."""
        others = len(self.users)
        self.users[:] = [thread for thread in self.users if thread == threading.get_ident()]
        if others and not self.users:
            self.end(self.before)

    @contextmanager
    def use(self) -> Iterator[None]:
        """The change lasts at least as long as this; may be nested and used by several threads."""
        me = threading.get_ident()
        with _LOCK:
            if not self.users:
                self.before = self.begin()
            self.users.append(me)
        try:
            yield
        finally:
            with _LOCK:
                self.users.remove(me)
                if not self.users:
                    self.end(self.before)


def _stop() -> bool:
    running = gc.isenabled()
    gc.disable()
    return running


def _start(running: bool) -> None:
    if running:
        gc.enable()


def _young_only() -> tuple[int, int, int]:
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], _NEVER)
    return before


_NONE = _Change(_stop, _start)
_YOUNG = _Change(_young_only, lambda before: gc.set_threshold(*before))


def no_collection() -> AbstractContextManager[None]:
    """No cycle collection inside; may be nested and used by several threads."""
    return _NONE.use()


def young_collection() -> AbstractContextManager[None]:
    """Inside, cycles are looked for among young objects alone; may be nested and used by several threads."""
    return _YOUNG.use()
