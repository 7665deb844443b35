"""Copies between layouts: native and numpy's agree for every order of axes, element size and odd extent, on one thread and two."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz import TIMES
from hypothesis import given, settings, strategies as st

from unity.ffi.native import compact
from unity.ffi.native.pool import num_threads, set_num_threads


@pytest.fixture(autouse=True)
def _native_however_small(monkeypatch):
    monkeypatch.setattr(compact, "MIN_NATIVE", 1)


@pytest.fixture
def two_threads():
    before = num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


@given(st.data())
@settings(max_examples=80 * TIMES, deadline=None)
def test_copies_agree_with_numpy(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 16, 17, 33, 70]), min_size=1, max_size=4)))
    if np.prod(shape, dtype=int) > 200_000:
        shape = shape[:2]
    dtype = data.draw(st.sampled_from(["int8", "float16", "float32", "int64", "complex128", "bool"]))
    steps = tuple([slice(None, None, data.draw(st.sampled_from([1, 1, -1, 2]))) for _ in shape])
    whole = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    array = whole.transpose(data.draw(st.permutations(range(len(shape)))))[steps]
    room = data.draw(st.sampled_from([0, 1]))
    target = np.full([extent + room for extent in array.shape], 7).astype(dtype)
    compact.copy_into(target[tuple([slice(0, n) for n in array.shape])], array)
    expected = np.full([extent + room for extent in array.shape], 7).astype(dtype)
    expected[tuple([slice(0, n) for n in array.shape])] = array
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    ("view", "native"),
    [
        (lambda a: a.reshape(700, 10, 48).transpose(1, 0, 2), True),  # blocks of columns of a matrix
        (lambda a: a.T, True),
        (lambda a: a.T.reshape(480, 7, 100).transpose(1, 0, 2), True),
        (lambda a: a[::-1].T, True),
        (lambda a: a[:696].reshape(-1, 40, 3, 3).transpose(2, 3, 1, 0), True),  # weights in OIHW for HWIO
        (lambda a: a[:640].reshape(10, 64, 160, 3).transpose(0, 3, 2, 1), True),  # and for panels of 64 columns
        (lambda a: a[:, ::2].T, False),  # nothing lies behind its neighbour
        (lambda a: np.broadcast_to(a[:1], (4, 480)), True),
    ],
)
def test_large_weights_are_copied_natively_by_all_threads(two_threads, monkeypatch, view, native):
    regions, parallel_for = [], compact.ParallelFor
    monkeypatch.setattr(compact, "ParallelFor", lambda pool: regions.append(pool) or parallel_for(pool))
    array = view(np.random.default_rng(1).standard_normal((700, 480)).astype("float32"))
    target = np.empty(array.shape, array.dtype)
    compact.copy_into(target, array)
    assert bool(regions) is native
    np.testing.assert_array_equal(target, array)


def test_compact_arrays_are_not_copied():
    array = np.ones((30, 40), "float32")
    assert compact.compact(array) is array
    turned = compact.compact(np.arange(1200.0).reshape(30, 40).T)
    assert turned.flags.c_contiguous and turned[3, 4] == 163


def test_large_memory_begins_at_a_huge_page_and_goes_with_its_array():
    made = compact.empty((3, 512, 1024), np.dtype("float32"))
    assert made.shape == (3, 512, 1024) and made.flags.c_contiguous and made.flags.writeable
    assert made.ctypes.data % compact.HUGE_PAGE == 0
    made[...] = 1
    assert made.sum() == made.size
    assert compact.empty((3,), np.dtype("int64")).nbytes == 24


@pytest.mark.parametrize("shape", [(), (3, 5), (331, 80)])
def test_new_arrays_begin_at_a_line_of_the_cache(shape):
    made = [compact.empty(shape, np.dtype("float32")) for _ in range(4)]
    assert all([one.ctypes.data % 64 == 0 and one.shape == shape and one.flags.c_contiguous for one in made])
