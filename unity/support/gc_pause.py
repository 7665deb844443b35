"""Python's cycle collector kept away from old objects while many are made that all stay.

Reading a long text makes hundreds of thousands of objects, and the collector walks all of them again and again (a third of the
time at 10,000 lines); a build beside a large program (torch and its models) pays for a walk over that program's objects. Walks
over young objects alone cost nothing that can be measured.
Invariant: the collector is as it was before the first user came, once the last has left.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .forking import fork_lock

_LOCK = fork_lock()
_NEVER = 1 << 30
_OLD = 1 if sys.version_info >= (3, 14) else 2
"""The place of the threshold by which old objects are walked; since 3.14 a part of them with the young ones."""
_USERS: list[int] = []
"""Threads of the users, once per use."""
_BEFORE: list[int] = []
"""The thresholds before the first user came."""


@contextmanager
def young_collection() -> Iterator[None]:
    """Inside, cycles are looked for among young objects alone; may be nested and used by several threads."""
    me = threading.get_ident()
    with _LOCK:
        if not _USERS:
            _BEFORE[:] = gc.get_threshold()
            gc.set_threshold(*_BEFORE[:_OLD], *[_NEVER] * (3 - _OLD))
        _USERS.append(me)
    try:
        yield
    finally:
        with _LOCK:
            _USERS.remove(me)
            if not _USERS:
                gc.set_threshold(*_BEFORE)


def _in_child() -> None:
    """After a fork only the forking thread's uses go on."""
    others = len(_USERS)
    _USERS[:] = [thread for thread in _USERS if thread == threading.get_ident()]
    if others and not _USERS:
        gc.set_threshold(*_BEFORE)


os.register_at_fork(after_in_child=_in_child)
