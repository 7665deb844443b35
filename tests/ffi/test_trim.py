"""Freed memory goes back to the system."""

import ctypes
import sys

import pytest

from unity.ffi.native.native_helpers import trim_heap


def resident() -> float:
    """Megabytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc only")
def test_pages_between_live_blocks_go_back():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    size = 64 << 10  # below the threshold of mappings of their own
    blocks = [library.malloc(size) for _ in range(1024)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:  # the last one holds the end of the heap
        library.free(block)
    before = resident()
    assert trim_heap()
    assert before - resident() > 40
    library.free(blocks[-1])
