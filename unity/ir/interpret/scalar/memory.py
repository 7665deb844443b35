"""Memory of the interpreter: strides and cells, byte ranges with a map of what is written, pointers into them, typed views.

Invariant: every access goes through a View, which checks bounds, initialisation and (through its tracker) races.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError


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


POISON = 0xA5
"""Byte pattern of memory nobody has written."""

_serial = itertools.count(1)
_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


class Memory:
    """A range of bytes. ``written`` has one flag per byte, or is None when everything counts as written."""

    __slots__ = ("alive", "keep", "name", "raw", "serial", "shape", "written")

    def __init__(self, raw: np.ndarray, written: bytearray | None, name: str, keep: Any = None) -> None:
        self.raw = raw
        self.written = written
        self.name = name
        self.serial = next(_serial)
        self.alive = True
        self.keep = keep

    @staticmethod
    def fresh(size: int, name: str) -> Memory:
        """New memory, filled with the poison pattern, nothing written."""
        if size >= 1 << 47:  # more than an address space has, and numpy calls that a wrong value
            raise MemoryError
        return Memory(np.full(size, POISON, np.uint8), bytearray(size), name)

    @staticmethod
    def of_array(array: np.ndarray, name: str) -> Memory:
        """The bytes an array spans (any strides), shared."""
        low, high = np.lib.array_utils.byte_bounds(array)
        if array.size == 0:
            raw = np.zeros(0, np.uint8)
        elif array.flags.c_contiguous:
            raw = array.reshape(-1).view(np.uint8)
        else:
            raw = np.frombuffer(memoryview((ctypes.c_uint8 * (high - low)).from_address(low)), np.uint8)
            raw.flags.writeable = array.flags.writeable
        return Memory(raw, None, name, array)

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(self.raw.size)


@dataclass(slots=True, frozen=True)
class Pointer:
    """An address: memory and byte offset."""

    memory: Memory
    offset: int = 0

    def offset_by(self, offset: int) -> Pointer:
        """The address ``offset`` bytes further."""
        return Pointer(self.memory, self.offset + offset)

    def view(self, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...], base: int, name: str) -> View:
        """The buffer at the address."""
        return View(self, dtype, shape, strides, base, name)


_DECODE: dict[str, list[float]] = {}


def _decode_table(dtype: DataType) -> list[float]:
    table = _DECODE.get(dtype.name)
    if table is None:
        bits = np.arange(1 << dtype.bits, dtype=np.uint32).astype(f"u{dtype.bits // 8}")
        table = _DECODE[dtype.name] = bits.view(dtype.numpy).astype(np.float64).tolist()
    return table


class View:
    """A buffer at run time: where it lies, its shape and strides in elements of ``dtype`` (``lanes`` numbers each)."""

    __slots__ = (
        "base",
        "cells",
        "count",
        "dtype",
        "lanes",
        "mask",
        "memory",
        "name",
        "plain",
        "shape",
        "signed",
        "size",
        "start",
        "strides",
        "table",
    )

    def __init__(
        self, pointer: Pointer, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...], base: int, name: str
    ) -> None:
        element = dtype.element
        self.memory, self.start = pointer.memory, pointer.offset
        self.dtype, self.lanes, self.shape, self.name = dtype, dtype.lanes, shape, name
        self.strides = strides or compact_strides(shape)
        self.base = base
        self.size = element.itemsize
        raw = self.memory.raw[self.start :] if self.start >= 0 else self.memory.raw[:0]
        self.count = raw.size // self.size
        cells = raw[: self.count * self.size]
        code = _FORMATS.get(element.name)
        self.table: list[float] | None = None
        self.mask, self.signed = 0, 0
        if code is None and element.is_float:
            self.table = _decode_table(element)
            code = "H" if element.bits == 16 else "B"
        elif code is None:  # integers below a byte: one per byte, in the low bits
            code, self.mask = "B", (1 << element.bits) - 1
            self.signed = 1 << (element.bits - 1) if element.is_int else 0
        self.plain = self.table is None and not self.mask
        whole: Any = memoryview(cells.data if self.count else b"")
        self.cells: Any = whole.cast("B").cast(code)

    @property
    def pointer(self) -> Pointer:
        """The address that strides and offset count from."""
        return Pointer(self.memory, self.start)

    @property
    def first(self) -> Pointer:
        """The address of the first element."""
        return Pointer(self.memory, self.start + self.base * self.size * self.lanes)

    def get(self, offset: int) -> Any:
        """Number at an offset in numbers from the pointer; bounds are checked by the caller."""
        value = self.cells[offset]
        if self.table is not None:
            return self.table[value]
        if self.mask:
            value &= self.mask
            return value - (self.mask + 1) if value & self.signed else value
        return value

    def set(self, offset: int, value: Any) -> None:
        """Store a number; bounds are checked by the caller."""
        if self.table is not None:
            value = int.from_bytes(np.array(value, self.dtype.numpy).tobytes(), "little")
        elif self.mask:
            value &= self.mask
        self.cells[offset] = value

    def byte(self, offset: int) -> int:
        """Byte offset in the memory of a number."""
        return self.start + offset * self.size

    def is_written(self, offset: int) -> bool:
        """True if the number has been stored."""
        written = self.memory.written
        return written is None or bool(written[self.start + offset * self.size])

    def mark_written(self) -> None:
        """Count every element as written."""
        if self.memory.written is not None:
            size = self.size * self.lanes
            count = size * math.prod(self.shape)
            start = self.start + self.base * size
            self.memory.written[start : start + count] = b"\x01" * count

    def array(self) -> np.ndarray:
        """The view as a strided numpy array over the same memory."""
        element = self.dtype.numpy
        shape, strides = self.shape, self.strides
        if self.lanes > 1:
            shape, strides = (*shape, self.lanes), (*[s * self.lanes for s in strides], 1)
        if 0 in shape:
            return np.zeros(shape, element)
        offset = self.base * self.lanes
        last = offset + sum([(n - 1) * s for n, s in zip(shape, strides)])
        if min(offset, last) < 0 or max(offset, last) >= self.count:
            raise InterpreterError("E310", f"buffer {self.name} reaches outside the memory of {self.memory.name}")
        size = (
            element.itemsize
        )  # not by as_strided: numpy knows no type of the name that float8_e5m2 has in its protocol
        return np.ndarray(shape, element, self.memory.raw, self.start + offset * size, [s * size for s in strides])
