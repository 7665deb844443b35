"""Memory for machine code: written once, then code, constants and variables each with the rights they need.

Invariant: no page is writable and executable at any time; memory goes back to the system with the last reference to its
``CodeMemory``, but not while the interpreter ends, when code may still be called.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from functools import cache
from typing import Any

import numpy as np

from ...support.errors import FFIError

PAGE = mmap.PAGESIZE
READ, WRITE, EXECUTE = 1, 2, 4
"""Rights, as of ``mprotect``."""


@cache
def _system() -> Any:
    """The C library, with the types of what is called."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = pointer
    library.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    library.mprotect.argtypes = [pointer, size, number]
    library.munmap.argtypes = [pointer, size]
    return library


class CodeMemory:
    """Fresh memory, all zeros, which can be written to; ``size`` is rounded up to whole pages."""

    def __init__(self, size: int) -> None:
        self.size = -(-max(size, 1) // PAGE) * PAGE
        made = _system().mmap(None, self.size, READ | WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if made in (None, ctypes.c_void_p(-1).value):
            raise _failed(f"{self.size} bytes for machine code")
        self.address: int = made
        weakref.finalize(self, _system().munmap, made, self.size).atexit = False

    def write(self, data: np.ndarray) -> None:
        """Copy bytes to its beginning."""
        assert data.nbytes <= self.size and data.flags.c_contiguous
        ctypes.memmove(self.address, data.ctypes.data, data.nbytes)

    def protect(self, begin: int, end: int, rights: int) -> None:
        """Change the rights of whole pages. Raises FFIError E709 where the system refuses."""
        assert begin % PAGE == 0 and rights & (WRITE | EXECUTE) != WRITE | EXECUTE
        if end > begin and _system().mprotect(self.address + begin, end - begin, rights):
            raise _failed("these rights for machine code")


def _failed(what: str) -> FFIError:
    return FFIError(
        "E709",
        f"the system does not give {what}: {os.strerror(ctypes.get_errno())}",
        help="machine code needs memory that may be executed: see the limits and the security policy of this system",
    )
