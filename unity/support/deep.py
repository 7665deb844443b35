"""Deep trees: raise the recursion limit for the time of one walk.

Python-to-Python recursion needs no C stack, so 100,000 levels are safe as long as the walk recurses through loops and
list comprehensions, never through ``map`` or a generator. The limit is one for all threads of the process: it is raised by
the first walk that begins and put back by the last that ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 100_000

_lock = threading.Lock()
_walks: list[int] = []
"""The limit found by the first of the running walks, once per running walk."""


@contextmanager
def deep_recursion(limit: int = LIMIT) -> Iterator[None]:
    """Raise the recursion limit inside the context and put it back afterwards."""
    with _lock:
        found = sys.getrecursionlimit()
        _walks.append(_walks[0] if _walks else found)
        if found < limit:
            sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        with _lock:
            before = _walks.pop()
            if not _walks:
                sys.setrecursionlimit(before)
