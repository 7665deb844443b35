"""Memory of a device: allocation with a pool, copies, fills.

The pool keeps a freed block for the next request of its size on its stream: up to a quarter of the device's memory, and a few
blocks of each size in any case. Taking a kept block and freeing one of those few need no lock. Invariant: a stream that reuses a
block waits for the work that last used it; a copy to the host waits for the work of its stream.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_size_t, c_uint64

from ...support.errors import DeviceError
from ...support.forking import fork_lock
from .context import CAPTURES, Context, graph_memory
from .driver import OUT_OF_MEMORY, SUCCESS
from .staging import PLACE_BYTES

_LOCK = fork_lock()
POOL_SHARE = 4
"""A pool keeps at most the memory of its device divided by this number."""
GRANULE, SMALL, STEPS = 512, 1 << 20, 8
"""Sizes of blocks: multiples of ``GRANULE`` up to ``SMALL`` bytes, above that ``STEPS`` sizes between powers of two."""
ADDRESSES = 1 << 63
"""Bytes that no memory has; beyond 64 bits the driver would see a small number."""
FEW, FEW_LARGE, SHARE = 64, 2, 64
"""Small blocks of a size that wait whatever else does; larger ones, up to the pool's bytes divided by ``SHARE``: all sizes of two
such blocks together are no more than half of the pool."""


class Block:
    """Memory of a device at ``address``, freed when nothing refers to it."""

    __slots__ = ("address", "context", "nbytes", "size", "stream")

    def __init__(self, context: Context, nbytes: int, size: int, stream: int, address: int) -> None:
        self.context, self.nbytes, self.size, self.stream, self.address = context, nbytes, size, stream, address

    def __del__(self) -> None:
        """Give it back; at once where nobody else is at it, for this may run wherever Python collects garbage."""
        if sys.is_finalizing():
            return
        context, last = self.context, self.context.stream()
        size = self.size
        if last == self.stream and not CAPTURES and (size <= SMALL or size * SHARE <= (context.most or 0)):
            waiting = context.waiting.get((last, size))
            if waiting is not None and len(waiting) < (FEW if size <= SMALL else FEW_LARGE):
                waiting.append(self.address)
                return
        if CAPTURES and (kept := graph_memory(last == self.stream)) is not None:
            kept.append(Block(context, self.nbytes, self.size, self.stream, self.address))
            return
        _RELEASED.append((context, self.size, self.stream, self.address, last))
        if _LOCK.acquire(blocking=False):
            try:
                _reclaim()
            finally:
                _LOCK.release()


_RELEASED: list[tuple[Context, int, int, int, int]] = []
"""Blocks that were given back and wait for the lock: context, size, stream, address, the stream of the thread that dropped it."""


def _reclaim() -> None:
    """Put what was given back into the pool, behind what the stream of its last thread was given, or give it to the driver."""
    while _RELEASED:
        context, size, stream, address, last = _RELEASED.pop()
        if stream in context.ended:  # nobody works on it any more
            stream = last
        try:
            if context.driver.recycles and context.pooled + size <= (context.most or _pool_limit(context)):
                if last != stream:
                    if CAPTURES:  # nothing waits for a stream that is being captured
                        CAPTURES[-1].append(Block(context, size, size, stream, address))
                        continue
                    if context.is_captured(last):  # whoever captures works on it at each launch
                        continue
                    context.reuse_after(stream, last)
                context.waiting.setdefault((stream, size), []).append(address)
            else:
                context.taken -= size
                _free(context, [address])
        except DeviceError:  # a lost context, a forked process: the memory is gone with it
            pass


def rounded(nbytes: int) -> int:
    """The size of the block for a number of bytes."""
    step = GRANULE if nbytes <= SMALL else (1 << (nbytes - 1).bit_length()) // (2 * STEPS)
    return max(step, -(-nbytes // step) * step)


def allocate(context: Context, nbytes: int) -> Block:
    """Allocate uninitialised memory for the current stream. Raises DeviceError E736 if the device does not have enough."""
    driver, stream = context.driver, context.stream()
    if driver.lost:
        context.require_alive("allocation")
    small = 0 < nbytes <= SMALL
    size = max(1, nbytes) if not driver.recycles else -(-nbytes // GRANULE) * GRANULE if small else rounded(nbytes)
    waiting = context.waiting.get((stream, size))
    address = _pop(waiting) if waiting and not _RELEASED else 0
    if not address:
        with _LOCK:
            _reclaim()
            address = _pop(context.waiting.get((stream, size), [])) or _new(context, size, nbytes)
    if stream in context.behind:
        context.wait_for_memory(stream)
    context.ended.discard(stream)
    return Block(context, nbytes, size, stream, address)


def _pop(waiting: list[int]) -> int:
    """A block that waits; 0 where other threads have taken them all."""
    try:
        return waiting.pop()
    except IndexError:
        return 0


def _new(context: Context, size: int, nbytes: int) -> int:
    """Allocate memory from the driver; if it has none left, release the pool first."""
    place, driver = c_uint64(), context.driver
    with context.current("allocation"):
        status = driver.status("cuMemAlloc_v2", ctypes.byref(place), size) if size < ADDRESSES else OUT_OF_MEMORY
        if status == OUT_OF_MEMORY and size < ADDRESSES and context.pooled:
            release_pool(context)
            status = driver.status("cuMemAlloc_v2", ctypes.byref(place), size)
        if status == OUT_OF_MEMORY:
            free, total = memory_info(context)
            raise DeviceError(
                "E736", f"{nbytes} bytes are more than cuda:{context.index} ({context.name}) has left: {free} of {total} bytes "
                f"are free, {context.held} belong to tensors and programs of this process",
                help="drop tensors that are not needed, or use smaller batches; executable.memory() says what a program needs, "
                     "torch.cuda.empty_cache() gives back what torch keeps")  # fmt: skip
        if status != SUCCESS:
            raise driver.error("cuMemAlloc_v2", status)
    context.taken += size
    return place.value


def _pool_limit(context: Context) -> int:
    """Most bytes that the pool may keep."""
    if context.most is None:
        context.most = memory_info(context)[1] // POOL_SHARE
    return context.most


def _free(context: Context, addresses: list[int]) -> None:
    with context.current("free"):
        for address in addresses:
            context.driver.call("cuMemFree_v2", address)


def release_pool(context: Context) -> None:
    """Free all blocks of the pool."""
    with _LOCK:
        _reclaim()
        addresses = []
        for (_, size), blocks in tuple(context.waiting.items()):
            while address := _pop(blocks):
                addresses.append(address)
                context.taken -= size
        _free(context, addresses)


def memory_info(context: Context) -> tuple[int, int]:
    """The free bytes and all bytes of the device."""
    free, total = c_size_t(), c_size_t()
    with context.current("memory_info"):
        context.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def copy_to_device(context: Context, target: int, source: int, nbytes: int) -> None:
    """Copy bytes from the host to the device, in order with the current stream; the source may change after the call."""
    if nbytes:
        with context.current("copy to the device"):
            stream = context.stream()
            if nbytes <= PLACE_BYTES and not CAPTURES and not context.is_captured(stream):
                context.staging.copy(target, source, nbytes, stream)
                return
            context.driver.call("cuMemcpyHtoDAsync_v2", target, source, nbytes, stream)
            context.driver.call("cuStreamSynchronize", stream)


def copy_to_host(context: Context, target: int, source: int, nbytes: int) -> None:
    """Copy bytes from the device to the host, after the current stream has finished its work."""
    if nbytes:
        with context.current("copy to the host"):
            stream = context.stream()
            context.driver.call("cuMemcpyDtoHAsync_v2", target, source, nbytes, stream)
            context.driver.call("cuStreamSynchronize", stream)
            context.raise_failed_checks()


def copy_on_device(context: Context, target: int, source: int, nbytes: int) -> None:
    """Copy bytes inside the device, on the current stream."""
    if nbytes:
        with context.current("copy on the device"):
            context.driver.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, context.stream())


def fill(context: Context, target: int, value: int, nbytes: int) -> None:
    """Set bytes of the device, on the current stream."""
    if nbytes:
        with context.current("fill"):
            context.driver.call("cuMemsetD8Async", target, value, nbytes, context.stream())
