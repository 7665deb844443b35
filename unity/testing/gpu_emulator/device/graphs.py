"""Graphs of an emulated device: what is given to a stream that captures is noted, and done when the graph is launched.

All nodes run in the order in which they were noted. Work of other streams does not become part of a graph, as it would by events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import c_void_p
from typing import Any

from .devices import write
from .status import CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS

Node = Callable[[int | None], int]
"""Work, given the stream to do it on; gives its status."""
_COPIES = {"cuMemcpyDtoDAsync_v2": 3, "cuMemsetD8Async": 3, "cuMemsetD32Async": 3}
"""Functions that become nodes, and which argument is their stream."""
_REFUSED = {
    "cuStreamSynchronize": 0, "cuStreamQuery": 0, "cuMemcpyHtoDAsync_v2": 3, "cuMemcpyDtoHAsync_v2": 3, "cuEventRecord": 1,
    "cuStreamDestroy_v2": 0,
}  # fmt: skip
"""Functions that a capture does not outlive."""


class Graphs:
    """Streams that capture, graphs and what was made of them; the driver's functions for these."""

    def __init__(self, handles: Iterator[int], known: Callable[[int | None], int]) -> None:
        self._handles, self._known = handles, known
        self.capturing: dict[int, list[Node] | None] = {}
        """Nodes by stream; None where something was done that a graph cannot hold."""
        self._graphs: dict[int, list[Node]] = {}
        self._ready: dict[int, list[Node]] = {}

    def noted(self, name: str, body: Callable[..., int], args: tuple[Any, ...]) -> int | None:
        """The status of a call where a capture changes what it does, else None."""
        if name == "cuCtxSynchronize":
            return self._spoilt(list(self.capturing))
        if name == "cuStreamWaitEvent" and args[0] in self.capturing:
            self.capturing[args[0]] = None
            return CAPTURE_ISOLATION
        refused, copy = _REFUSED.get(name), _COPIES.get(name)
        if refused is not None and args[refused] in self.capturing:
            return self._spoilt([args[refused]])
        if copy is not None and args[copy] in self.capturing:
            return self.add(args[copy], lambda stream: body(*args[:copy], stream))
        return None

    def _spoilt(self, streams: list[int]) -> int | None:
        self.capturing.update(dict.fromkeys(streams))
        return CAPTURE_UNSUPPORTED if streams else None

    def add(self, stream: int, node: Node) -> int:
        """Note a node."""
        nodes = self.capturing[stream]
        if nodes is None:
            return CAPTURE_INVALIDATED
        nodes.append(node)
        return SUCCESS

    def cuStreamBeginCapture_v2(self, stream: int | None, mode: int) -> int:
        if not 0 <= mode <= 2 or stream in self.capturing:
            return INVALID_VALUE
        if stream is None or stream <= 2:
            return CAPTURE_UNSUPPORTED
        self.capturing[stream] = []
        return self._known(stream)

    def cuStreamEndCapture(self, stream: int, place: int) -> int:
        if stream not in self.capturing:
            return INVALID_VALUE
        nodes = self.capturing.pop(stream)
        if nodes is None:
            return write(place, c_void_p, None) or CAPTURE_INVALIDATED
        handle = next(self._handles)
        self._graphs[handle] = nodes
        return write(place, c_void_p, handle)

    def cuGraphInstantiateWithFlags(self, place: int, graph: int, flags: int) -> int:
        if graph not in self._graphs:
            return INVALID_HANDLE
        handle = next(self._handles)
        self._ready[handle] = list(self._graphs[graph])
        return write(place, c_void_p, handle)

    def cuGraphLaunch(self, ready: int, stream: int | None) -> int:
        nodes, status = self._ready.get(ready), self._known(stream)
        if nodes is None or status:
            return status or INVALID_HANDLE
        for node in nodes:
            status = self.add(stream, node) if stream in self.capturing else node(stream)
            if status:
                return status
        return SUCCESS

    def cuGraphDestroy(self, graph: int) -> int:
        return INVALID_HANDLE if self._graphs.pop(graph, None) is None else SUCCESS

    def cuGraphExecDestroy(self, ready: int) -> int:
        return INVALID_HANDLE if self._ready.pop(ready, None) is None else SUCCESS


__all__ = ["Graphs", "Node"]
