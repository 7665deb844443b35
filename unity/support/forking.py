"""Locks and ``fork``: a child process must find every lock of the package free and what it guards whole.

Invariant: while a process forks, the forking thread holds all locks made here, so no other thread is in the middle of what one of
them guards; nor is one in the middle of importing a module of the package, which the child could neither use nor import. Locks that
are taken inside another are made before it (the newest is asked for first).
"""

from __future__ import annotations

import _imp
import os
import sys
import threading
import time
from typing import Any, Protocol

PATIENCE = 60.0
"""Seconds after which a process forks although another thread still imports."""
_PACKAGES = frozenset(["unity", "numpy", "lark", "llvmlite", "ml_dtypes", "torch"])
"""Packages whose imports a fork waits for: those that this one imports late. Their imports end."""
_LOCKS: list[Lock] = []
_held: list[Lock] = []


class Lock(Protocol):
    """The methods of a lock that ``lock_over_fork`` needs."""

    def acquire(self) -> object:
        """Wait for it and take it."""

    def release(self) -> object:
        """Give it back."""


def lock_over_fork(lock: Lock) -> None:
    """Take a lock before each fork and give it back afterwards, in the parent and in the child."""
    _LOCKS.append(lock)


def _others_import() -> bool:
    """True while another thread is inside the import of a module that the child may need."""
    modules: dict[str, Any] = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    locks = [find() for name, find in list(modules.items()) if str(name).partition(".")[0] in _PACKAGES]
    return any([getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in locks])


def _before() -> None:
    """Take every lock, and that of imports, at a moment when nobody imports. Whoever does may need one of the locks for it."""
    end = time.monotonic() + PATIENCE
    while True:
        _held[:] = _LOCKS
        for lock in reversed(_held):
            lock.acquire()
        _imp.acquire_lock()
        if not _others_import() or time.monotonic() > end:
            return
        _after()
        time.sleep(0.001)


def _after() -> None:
    _imp.release_lock()
    for lock in _held:
        lock.release()


def guard_forks() -> None:
    """From now on forks wait for locks and imports; what the package does first when it is imported."""
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)


def fork_lock() -> threading.RLock:
    """A new reentrant lock that is held while the process forks."""
    lock = threading.RLock()
    lock_over_fork(lock)
    return lock
