"""Deep trees: raise the recursion limit for the time of one walk.

Python-to-Python recursion needs no C stack, so 100,000 levels are safe as long as the walk recurses through loops and
list comprehensions, never through ``map`` or a generator. The limit is one for all threads of the process: it is raised by
the first walk that begins and put back by the last that ends.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .forking import fork_lock

LIMIT = 100_000

_lock = fork_lock()
_walks: list[int] = []
"""Threads of the running walks, once per walk."""
_before: list[int] = []
"""The limit found by the first of the running walks; empty where none runs."""


def _in_child() -> None:
    """After a fork only the forking thread's walks go on."""
    _walks[:] = [thread for thread in _walks if thread == threading.get_ident()]
    _put_back()


def _put_back() -> None:
    if not _walks and _before:
        sys.setrecursionlimit(_before.pop())


os.register_at_fork(after_in_child=_in_child)


@contextmanager
def deep_recursion(limit: int = LIMIT) -> Iterator[None]:
    """Raise the recursion limit inside the context and put it back afterwards."""
    me = threading.get_ident()
    with _lock:
        found = sys.getrecursionlimit()
        if not _walks:
            _before.append(found)
        _walks.append(me)
        if found < limit:
            sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        with _lock:
            _walks.remove(me)
            _put_back()
