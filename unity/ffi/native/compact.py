"""Copies of arrays between layouts at the speed of memory: native, by all threads of the pool, into huge pages where large.

What the native copy does not know (small arrays, elements that lie together along no axes or short ones, other element sizes)
numpy copies. Not here: the native code (``copy_ir``).
"""

from __future__ import annotations

import ctypes
import math
import mmap
from functools import cache
from typing import Any

import numpy as np

from ..machine_code.engine import Engine
from ..machine_code.layout import immortal
from ..machine_code.llvm import CompileOptions
from .copy_ir import ROWS, SIZES, TURNED, copy_ir, side
from .native_helpers import trim_heap
from .pool import ParallelFor, ensure_pool, num_threads

MIN_NATIVE = 1 << 16
"""Smaller arrays are copied by numpy."""
HUGE_PAGE = 2 << 20
LINE = 64
"""Bytes of a line of the cache."""
TRIM_BYTES = 16 << 20
"""Own pages after which the heap gives back what was freed meanwhile: what was packed, for example."""
RUN = 256
"""Rows in a unit of work."""
Axis = tuple[int, int, int]
"""Extent, stride in the target, stride in the source, in bytes."""


class _Fresh:
    """Bytes of own pages since the heap was trimmed."""

    def __init__(self) -> None:
        self.bytes = 0

    def add(self, size: int) -> None:
        """Count pages, and trim the heap when they are many."""
        self.bytes += size
        if self.bytes >= TRIM_BYTES:
            self.bytes = 0
            trim_heap()


_FRESH = _Fresh()


def compact(array: np.ndarray) -> np.ndarray:
    """The array in row-major order, itself where it is."""
    if array.flags.c_contiguous:
        return array
    made = empty(array.shape, array.dtype)
    copy_into(made, array)
    return made


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array without values in row-major order, from a line of the cache on, so that vectors of panels lie in one line each; a
    large one begins at a huge page, its pages are touched by who fills it."""
    size = math.prod(shape) * dtype.itemsize
    if size < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        memory = np.empty(size + LINE, np.uint8)
        first = -int(memory.__array_interface__["data"][0]) % LINE
        return memory[first : first + size].view(dtype).reshape(shape)
    _FRESH.add(size)
    pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = np.frombuffer(pages, np.uint8)
    first = -int(memory.__array_interface__["data"][0]) % HUGE_PAGE
    pages.madvise(mmap.MADV_HUGEPAGE, first, size // HUGE_PAGE * HUGE_PAGE)  # what is left over would hold a whole page
    return memory[first : first + size].view(dtype).reshape(shape)


def copy_into(made: np.ndarray, array: np.ndarray) -> None:
    """Fill an array with another one of its shape and dtype, which shares no memory with it."""
    plan = _plan(made, array)
    if plan is None:
        if not _by_lines(made, array):
            made[...] = array
        return
    function, words = plan
    address = _functions(array.itemsize)[function]
    runs = math.prod(words[10::3])
    chunk = max(1, runs // (16 * num_threads()))
    context = (ctypes.c_int64 * len(words))(*words)
    ParallelFor(ensure_pool())(address, ctypes.addressof(context), runs, chunk)


def _by_lines(made: np.ndarray, array: np.ndarray) -> bool:
    """Copy by way of an array whose axes but the last are in the order of the source, where they lie together though each is short
    (weights in OIHW for HWIO: first to (I, H, W, O), then lines of O). False where that does not fit."""
    if array.itemsize not in SIZES or array.nbytes < MIN_NATIVE or array.ndim < 3 or made.strides[-1] != array.itemsize:
        return False
    last = array.ndim - 1
    order = [*sorted(range(last), key=lambda k: -abs(array.strides[k])), last]
    if order == list(range(array.ndim)) or array.shape[last] * array.itemsize < LINE or array.dtype != made.dtype:
        return False
    view, between = array.transpose(order), empty(tuple([array.shape[k] for k in order]), array.dtype)
    if _plan(between, view) is None:
        return False
    copy_into(between, view)
    copy_into(made.transpose(order), between)
    return True


def _plan(made: np.ndarray, array: np.ndarray) -> tuple[str, list[int]] | None:
    """The native function and its context; None where numpy copies."""
    size = array.itemsize
    if size not in SIZES or array.dtype.hasobject or array.dtype != made.dtype or array.nbytes < MIN_NATIVE:
        return None
    axes = _collapse_axes(list(zip(array.shape, made.strides, array.strides, strict=True)))
    if len(axes) < 2 or axes[-1][1] != size:
        return None
    *outer, last = axes
    if last[2] == size:
        function, rows = ROWS, outer.pop()
    else:
        near = min(range(len(outer)), key=lambda k: abs(outer[k][2]))
        function, rows = TURNED, outer.pop(near)
        if rows[2] != size or min(rows[0], last[0]) < side(size):
            return None
    outer.append((-(-rows[0] // RUN), RUN * rows[1], RUN * rows[2]))
    runs = outer[-1]
    outer.sort(key=lambda axis: -abs(axis[2]))  # neighbouring units read neighbouring memory
    words = [
        made.ctypes.data,
        array.ctypes.data,
        rows[0],
        last[0],
        rows[1],
        rows[2],
        last[2],
        RUN,
        outer.index(runs),
        len(outer),
    ]
    return function, [*words, *[word for axis in outer for word in axis]]


def _collapse_axes(axes: list[Axis]) -> list[Axis]:
    """The axes without those of one element; neighbours that are one axis in both arrays become one."""
    found: list[Axis] = []
    for extent, target, source in axes:
        if extent == 1:
            continue
        if found and found[-1][1:] == (extent * target, extent * source):
            extent *= found.pop()[0]
        found.append((extent, target, source))
    return found


@cache
def _functions(size: int) -> dict[str, Any]:
    """Addresses of the native copies of elements of a size."""
    engine = Engine().add_ir(copy_ir(size), CompileOptions(pipeline="O2"))
    immortal(engine)
    return {name: engine.address(name) for name in (ROWS, TURNED)}
