"""Locks and ``fork``: a child process must find every lock of the package free and what it guards whole.

Invariant: while a process forks, the forking thread holds all locks made here, so no other thread is in the middle of what one of
them guards. Locks that are taken inside another are made before it (the system asks for the newest first).
"""

from __future__ import annotations

import os
import threading
from typing import Protocol


class Lock(Protocol):
    """The methods of a lock that ``lock_over_fork`` needs."""

    def acquire(self) -> object:
        """Wait for it and take it."""

    def release(self) -> object:
        """Give it back."""


def lock_over_fork(lock: Lock) -> None:
    """Take a lock before each fork and give it back afterwards, in the parent and in the child."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def fork_lock() -> threading.RLock:
    """A new reentrant lock that is held while the process forks."""
    lock = threading.RLock()
    lock_over_fork(lock)
    return lock
