"""Deep trees: raise the recursion limit for the time of one walk.

Python-to-Python recursion needs no C stack, so 100,000 levels are safe as long as the walk recurses through loops and
list comprehensions, never through ``map`` or a generator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 100_000


@contextmanager
def deep_recursion(limit: int = LIMIT) -> Iterator[None]:
    """Raise the recursion limit inside the context and put it back afterwards."""
    before = sys.getrecursionlimit()
    if before >= limit:
        yield
        return
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
