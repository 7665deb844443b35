"""The model of tiles: what it chooses where that is known to matter."""

from __future__ import annotations

import pytest

from unity.transform.default_schedule.common.tile_shape import tile_shape


@pytest.mark.parametrize("columns", [768, 1024, 2304, 3072, 50257])
def test_a_single_row_is_cut_into_tiles_that_two_threads_share_evenly(columns):
    rows, vectors = tile_shape(1, columns, 16, 32)
    tiles = -(-columns // (16 * vectors))
    assert rows == 1
    assert tiles >= 12 or tiles % 2 == 0
    assert vectors >= 8  # so many multiply-adds are under way at once


def test_a_single_short_row():
    assert tile_shape(1, 16, 16, 32) == (1, 1)
    assert tile_shape(1, 64, 16, 32) == (1, 4)


@pytest.mark.parametrize("rows, columns", [(64, 512), (128, 3072), (1000, 1000)])
def test_many_rows_fill_the_registers(rows, columns):
    height, vectors = tile_shape(rows, columns, 16, 32)
    assert 20 <= height * vectors <= 26


def test_five_vectors_that_are_all_columns_are_one_tile() -> None:
    """Columns of a little more than four vectors fill tiles of five, not of three and two; where there are more, of up to four."""
    assert tile_shape(197, 65, 16, 31)[1] == tile_shape(33, 80, 16, 31)[1] == 5
    assert tile_shape(197, 96, 16, 31)[1] <= 4
