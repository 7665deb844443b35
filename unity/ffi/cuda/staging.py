"""Small copies from the host to a device, which the host does not wait for: through memory that the driver reads by itself.

An array is copied into a place of pinned memory, from which the device fetches it in order with a stream; the array may change
then. A place is used again when what was fetched last from it has arrived. Not here: arrays larger than a place, and copies while a
graph is captured, which would fetch the place at every launch of the graph (`memory.py`).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from ...support.forking import fork_lock

if TYPE_CHECKING:
    from .context import Context

PLACE_BYTES = 256 << 10
"""Most bytes of a copy."""
PLACES = 8


class Staging:
    """Places in pinned memory of one context, used in turns."""

    def __init__(self, context: Context) -> None:
        self.context, self.driver = context, context.driver
        self.lock = fork_lock()
        self.address = 0
        self.events: list[int] = []
        """For each place the event after its last copy."""
        self.turn = 0

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy up to ``PLACE_BYTES`` to the device; the context is current in the thread. The source may change after the call."""
        driver = self.driver
        with self.lock:
            if not self.events:
                self.address = self.address or driver.get("cuMemHostAlloc", PLACES * PLACE_BYTES, 0)
                self.events = [driver.get("cuEventCreate", 2) for _ in range(PLACES)]  # CU_EVENT_DISABLE_TIMING
            self.turn = (self.turn + 1) % PLACES
            place, event = self.address + self.turn * PLACE_BYTES, self.events[self.turn]
            driver.call("cuEventSynchronize", event)
            ctypes.memmove(place, source, nbytes)
            driver.call("cuMemcpyHtoDAsync_v2", target, place, nbytes, stream)
            driver.call("cuEventRecord", event, stream)
