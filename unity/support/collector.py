"""Python's cycle collector out of the way while many objects are made that all stay.

Reading a long text makes hundreds of thousands of objects, and the collector walks all of them again and again (a third of the
time at 10,000 lines). Invariant: the collector is running again after the last user has left, if it was running before the first.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_STATE = {"users": 0, "running": False}


@contextmanager
def no_collection() -> Iterator[None]:
    """No cycle collection inside; may be nested and used by several threads."""
    with _LOCK:
        if _STATE["users"] == 0:
            _STATE["running"] = gc.isenabled()
            gc.disable()
        _STATE["users"] += 1
    try:
        yield
    finally:
        with _LOCK:
            _STATE["users"] -= 1
            if _STATE["users"] == 0 and _STATE["running"]:
                gc.enable()
