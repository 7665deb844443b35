"""The checksum of large memory notices damage anywhere, and is the same on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from unity.ffi.native.checksum import PIECE, checksum
from unity.ffi.native.pool import num_threads, set_num_threads

SIZES = (0, 1, 255, 256, 257, PIECE, PIECE + 300, 3 * PIECE + 5)


def memory(size: int) -> bytearray:
    return bytearray(np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8))


@pytest.mark.parametrize("size", SIZES)
def test_threads_do_not_matter_and_content_does(size):
    data, before = memory(size), num_threads()
    try:
        set_num_threads(1)
        one = checksum(data)
        set_num_threads(2)
        assert checksum(data) == one == checksum(memoryview(bytes(data)))
    finally:
        set_num_threads(before)
    assert len({checksum(bytes(n)) for n in SIZES}) == len(SIZES)  # zeros of other lengths


@pytest.mark.parametrize("size", [s for s in SIZES if s])
def test_every_kind_of_damage_is_noticed(size):
    data = memory(size)
    right = checksum(data)
    rng = np.random.default_rng(0)
    for place in [0, size - 1, *rng.integers(0, size, 12).tolist()]:
        data[place] ^= 1 << int(rng.integers(0, 8))
        assert checksum(data) != right
        data[place] ^= data[place] ^ memory(size)[place]
        assert checksum(data) == right
    if size > 1024:
        moved = data[256:512] + data[:256] + data[512:]
        assert checksum(moved) != right  # rows exchanged
        assert checksum(data[:512] + bytes(256) + data[768:]) != right  # a hole
