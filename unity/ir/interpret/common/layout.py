"""Strides of buffers, and the cell that an offset in elements means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def compact_strides(shape: Sequence[Any], one: Any = 1) -> tuple[Any, ...]:
    """Row-major strides in elements; the last is ``one``."""
    strides = [one] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def cell_at(name: str, rest: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[str, tuple[int, ...] | None]:
    """``A[1, 2]`` and its indices for an offset in elements, where the strides allow it."""
    left, indices = rest, []
    for extent, stride in zip(shape, strides):
        indices.append(min(left // stride, extent - 1) if stride > 0 and extent > 0 else 0)
        left -= indices[-1] * stride
    if left or any([index < 0 for index in indices]):
        return f"{name} at element {rest}", None
    return f"{name}[{', '.join([str(i) for i in indices])}]", tuple(indices)
