"""Graphs of an emulated device: what is given to a stream that captures is noted, and done when the graph is launched.

All nodes run in the order in which they were noted. Work of other streams does not become part of a graph, as it would by events.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_void_p
from typing import Any

from .devices import Handles, write
from .status import CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, INVALID_VALUE, Refused
from .streams import Streams

Node = Callable[[int | None], None]
"""Work, given the stream to do it on."""
_COPIES = {"cuMemcpyDtoDAsync_v2": 3, "cuMemsetD8Async": 3, "cuMemsetD32Async": 3}
"""Functions that become nodes, and which argument is their stream."""
_REFUSED = {
    "cuStreamSynchronize": 0, "cuStreamQuery": 0, "cuMemcpyHtoDAsync_v2": 3, "cuMemcpyDtoHAsync_v2": 3, "cuEventRecord": 1,
    "cuStreamDestroy_v2": 0,
}  # fmt: skip
"""Functions that a capture does not outlive."""


class Graphs:
    """Streams that capture, graphs and what was made of them; the driver's functions for these."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.capturing: dict[int, list[Node] | None] = {}
        """Nodes by stream; None where something was done that a graph cannot hold."""
        self._graphs = Handles[list[Node]]()
        self._ready = Handles[list[Node]]()

    def captured(self, name: str, body: Callable[..., None], args: tuple[Any, ...]) -> bool:
        """True for a call that a capture keeps for later. Raises Refused for one that it does not outlive."""
        if name == "cuCtxSynchronize":
            self._invalidate(list(self.capturing), CAPTURE_UNSUPPORTED)
        if name == "cuStreamWaitEvent" and args[0] in self.capturing:
            self._invalidate([args[0]], CAPTURE_ISOLATION)
        refused, copy = _REFUSED.get(name), _COPIES.get(name)
        if refused is not None and args[refused] in self.capturing:
            self._invalidate([args[refused]], CAPTURE_UNSUPPORTED)
        if copy is None or args[copy] not in self.capturing:
            return False
        self.do(args[copy], lambda stream: body(*args[:copy], stream))
        return True

    def _invalidate(self, streams: list[int], status: int) -> None:
        self.capturing.update(dict.fromkeys(streams))
        raise Refused(status)

    def do(self, stream: int | None, node: Node) -> None:
        """Do some work, or note it where its stream captures."""
        if stream not in self.capturing:
            return self._streams.give(stream, lambda: node(stream))
        nodes = self.capturing[stream]
        if nodes is None:
            raise Refused(CAPTURE_INVALIDATED)
        nodes.append(node)

    def cuStreamIsCapturing(self, stream: int | None, out: int) -> None:
        write(out, c_int, int(stream in self.capturing))

    def cuStreamBeginCapture_v2(self, stream: int | None, mode: int) -> None:
        if not 0 <= mode <= 2 or stream in self.capturing:
            raise Refused(INVALID_VALUE)
        if stream is None or stream <= 2:
            raise Refused(CAPTURE_UNSUPPORTED)
        self._streams.use(stream)
        self.capturing[stream] = []

    def cuStreamEndCapture(self, stream: int, out: int) -> None:
        if stream not in self.capturing:
            raise Refused(INVALID_VALUE)
        nodes = self.capturing.pop(stream)
        if nodes is None:
            write(out, c_void_p, None)
            raise Refused(CAPTURE_INVALIDATED)
        self._graphs.store(out, nodes)

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        self._ready.store(out, list(self._graphs[graph]))

    def cuGraphLaunch(self, ready: int, stream: int | None) -> None:
        self._streams.use(stream)
        for node in self._ready[ready]:
            self.do(stream, node)

    def cuGraphDestroy(self, graph: int) -> None:
        self._graphs.drop(graph)

    def cuGraphExecDestroy(self, ready: int) -> None:
        self._ready.drop(ready)
