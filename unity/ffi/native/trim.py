"""Memory that was freed goes back to the system. Not here: what waits for the next tensor (``native_helpers.release_recycled``).

The C library keeps large freed pieces for itself: its threshold for own mappings grows with what is freed.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def trim_heap() -> bool:
    """Give free pages of the C library's heap back; False where the C library cannot (other than glibc)."""
    trim = _malloc_trim()
    return trim is not None and trim(ctypes.c_size_t(0)) == 1
