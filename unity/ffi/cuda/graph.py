"""CUDA graphs: what a piece of work launches on a stream, to be launched again in one call.

Invariant: memory that the work was given while it was captured belongs to its graph, and is nobody else's as long as that lives.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

from ...support.errors import DeviceError
from .context import Context, capturing

RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: memory may be allocated meanwhile."""


class Graph:
    """Launches that were captured, ready to be made again; ``kept`` is the memory that they work on."""

    def __init__(self, context: Context, handle: int, kept: list[Any]) -> None:
        self.context, self.handle, self.kept = context, handle, kept

    def launch(self) -> None:
        """Launch all of it on the current stream."""
        with self.context.current("launch of a graph"):
            self.context.driver.call("cuGraphLaunch", self.handle, self.context.stream())

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        try:
            with self.context.current("the end of a graph"):
                self.context.driver.status("cuGraphExecDestroy", self.handle)
        except DeviceError:  # a lost context, a forked process: the graph is gone with it
            pass


def capture(context: Context, work: Callable[[], Any]) -> tuple[Any, Graph]:
    """Do some work whose launches are noted instead of made; what it gives, and the graph of its launches.

    The work only launches kernels, copies and fills on the device: it waits for nothing, and reads nothing. Each stream has one
    of its own on which its graphs are captured, so that work that knows its stream finds the same one again. Raises DeviceError
    E735 where the driver cannot capture it.
    """
    driver, user, place = context.driver, context.stream(), c_void_p()
    stream = context.captures.get(user)
    if stream is None:
        stream = context.captures[user] = context.new_stream()
    with context.current("capture"), context.use_stream(stream), capturing() as kept:
        context.wait_for_memory(stream)
        driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
        try:
            made = work()
        except BaseException:
            if driver.status("cuStreamEndCapture", stream, ctypes.byref(place)) == 0 and place.value:
                driver.status("cuGraphDestroy", place)
            raise
        driver.call("cuStreamEndCapture", stream, ctypes.byref(place))
        try:
            handle = driver.get("cuGraphInstantiateWithFlags", place, 0)
        finally:
            driver.status("cuGraphDestroy", place)
    return made, Graph(context, handle, kept)
