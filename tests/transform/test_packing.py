"""Packed weights: every element where ``indices`` says, zeros behind the last column, no copy of the whole beside the result."""

import itertools
import tracemalloc

import numpy as np
import pytest

from unity.transform.default_schedule.packing import Packing


def reference(layout, array):
    """The packed array, element by element."""
    packed = np.zeros(layout.shape(array.shape), array.dtype)
    for place in np.ndindex(array.shape):
        column = place[layout.columns]
        inner = [place[k] for k in layout.inner]
        last = ()
        if layout.group > 1:
            last = (inner[-1] % layout.group,)
            inner[-1] //= layout.group
        outer = [place[k] for k in layout.outer]
        packed[(*outer, column // layout.block, *inner, column % layout.block, *last)] = array[place]
    return packed


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 4), (9, 130), (70, 66)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", [4, 16])
def test_matrices(shape, transposed, block):
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    array = array.T if transposed else array
    for columns in (0, 1):
        for group in (1, 2):
            if array.shape[1 - columns] % group == 0:
                layout = Packing((), columns, (1 - columns,), block, group)
                packed = layout.pack(array)
                assert packed.flags.c_contiguous
                np.testing.assert_array_equal(packed, reference(layout, array))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(4))))
def test_more_axes(axes):
    array = np.arange(2 * 5 * 3 * 6, dtype="float64").reshape(2, 5, 3, 6)
    layout = Packing(axes[:1], axes[1], axes[2:], 4)
    np.testing.assert_array_equal(layout.pack(array), reference(layout, array))


def test_padding_does_not_copy_twice():
    array = np.ones((64 * 256 + 1, 64), "float32")
    layout = Packing((), 0, (1,), 64)
    tracemalloc.start()
    try:
        packed = layout.pack(array)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * packed.nbytes
