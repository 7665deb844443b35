"""Python's cycle collector out of the way while many objects are made that all stay.

Reading a long text makes hundreds of thousands of objects, and the collector walks all of them again and again (a third of the
time at 10,000 lines). Invariant: the collector is running again after the last user has left, if it was running before the first.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .forking import fork_lock

_LOCK = fork_lock()
_USERS: list[int] = []
"""Threads of the users, once per use."""
_STATE = {"running": False}


def _in_child() -> None:
    """After a fork only the forking thread's uses go on."""
    others = len(_USERS)
    _USERS[:] = [thread for thread in _USERS if thread == threading.get_ident()]
    if others and not _USERS and _STATE["running"]:
        gc.enable()


os.register_at_fork(after_in_child=_in_child)


@contextmanager
def no_collection() -> Iterator[None]:
    """No cycle collection inside; may be nested and used by several threads."""
    me = threading.get_ident()
    with _LOCK:
        if not _USERS:
            _STATE["running"] = gc.isenabled()
            gc.disable()
        _USERS.append(me)
    try:
        yield
    finally:
        with _LOCK:
            _USERS.remove(me)
            if not _USERS and _STATE["running"]:
                gc.enable()
