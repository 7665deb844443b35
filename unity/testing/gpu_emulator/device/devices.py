"""One emulated device, and storing through the pointers that the driver's functions are given."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p
from typing import Any

from ..memory.device_memory import DeviceMemory
from .attributes import Limits, attributes
from .status import INVALID_VALUE, SUCCESS

_LOG, _LOG_BYTES = 5, 6


class Device:
    """One emulated device: its memory, its primary context, and why that was lost."""

    def __init__(self, ordinal: int, limits: Limits, memory: int, handle: int) -> None:
        self.ordinal, self.limits, self.handle = ordinal, limits, handle
        self.memory = DeviceMemory(memory)
        self.attributes = attributes(limits, memory)
        self.retained = 0
        self.lost: tuple[int, str] | None = None


def write(place: int | None, kind: Any, value: Any) -> int:
    """Store a value at an address; the status."""
    if not place:
        return INVALID_VALUE
    kind.from_address(place).value = value
    return SUCCESS


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
