"""One emulated device, and storing through the pointers that the driver's functions are given."""

from __future__ import annotations

from typing import Any

from .attributes import Limits, attributes
from .memory import DeviceMemory
from .status import INVALID_VALUE, SUCCESS


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
