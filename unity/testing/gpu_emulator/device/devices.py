"""One emulated device, and storing through the pointers that the driver's functions are given."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_int, c_void_p
from typing import Any, TypeVar

from ..memory.device_memory import DeviceMemory
from .attributes import Limits, attributes
from .status import INVALID_HANDLE, INVALID_VALUE, Refused

Found = TypeVar("Found")
NEW = itertools.count(0x5EED0000, 16)
"""Handles that were not given yet."""
_LOG, _LOG_BYTES = 5, 6


class Device:
    """One emulated device: its memory, its primary context, and why that was lost."""

    def __init__(self, ordinal: int, limits: Limits, memory: int) -> None:
        self.ordinal, self.limits, self.handle = ordinal, limits, next(NEW)
        self.memory = DeviceMemory(memory)
        self.attributes = attributes(limits, memory)
        self.retained = 0
        self.lost: tuple[int, str] | None = None


def write(out: int | None, kind: Any, value: Any) -> None:
    """Store a value at an address. Raises Refused where there is none."""
    if not out:
        raise Refused(INVALID_VALUE)
    kind.from_address(out).value = value


class Handles(dict[int, Found]):
    """Things of the driver by their handles. Raises Refused for one that stands for nothing."""

    def __missing__(self, handle: int) -> Found:
        raise Refused(INVALID_HANDLE)

    def store(self, out: int, value: Found) -> None:
        """Store a new handle at an address."""
        handle = next(NEW)
        self[handle] = value
        write(out, c_void_p, handle)

    def drop(self, handle: int) -> Found:
        """Take away a handle; the thing that it stood for."""
        found = self[handle]
        del self[handle]
        return found


def write_log(count: int, options: int | None, values: int | None, text: str) -> None:
    """Write a message into the buffer for errors that the options of a load name."""
    if not options or not values:
        return
    given = dict(zip((c_int * count).from_address(options), (c_void_p * count).from_address(values)))
    size = given.get(_LOG_BYTES) or 0
    buffer = given.get(_LOG)
    if buffer and size:
        raw = text.encode()[: size - 1] + b"\0"
        ctypes.memmove(buffer, raw, len(raw))
