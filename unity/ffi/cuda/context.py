"""Contexts and streams: the primary context of each device, which torch uses too, and the current stream of a thread.

Machine code launches on the stream in the record of its thread (`launch.py` has the addresses). Invariant: a process retains a
context once; a thread gets its former context back.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_void_p
from typing import Any
from weakref import WeakSet

from ...support.errors import DeviceError, FFIError
from ...support.forking import fork_lock
from .driver import CURRENT, INVALID_HANDLE, SUCCESS, Driver, driver_in_use
from .staging import Staging

_LOCK, _EVENT_LOCK = fork_lock(), fork_lock()
_ATTRIBUTES = {
    "max_threads_per_block": 1, "max_shared_memory_per_block": 8, "warp_size": 10, "multi_processor_count": 16,
    "l2_cache_size_bytes": 38, "max_threads_per_multi_processor": 39, "compute_capability_major": 75,
    "compute_capability_minor": 76, "max_shared_memory_per_multi_processor": 81, "max_shared_memory_per_block_optin": 97,
}  # fmt: skip
"""Numbers of a device's attributes. Source: CUdevice_attribute of cuda.h."""
LAST_DEFAULT_STREAM = 2
"""The streams that every context has: 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD."""
LEAST_ADDRESS = 1 << 16
"""Linux gives no memory below; handles are addresses."""


class Context:
    """The primary context of a device of a driver: its ``handle``, and the functions that need it."""

    __slots__ = (
        "__weakref__",
        "_attributes",
        "_get_current",
        "behind",
        "captures",
        "checks",
        "driver",
        "ended",
        "gate",
        "handle",
        "index",
        "launching",
        "made",
        "most",
        "name",
        "number",
        "staging",
        "taken",
        "waiting",
    )

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver, self.index = driver, index
        driver.recent = recent_launches
        self.number = driver.get("cuDeviceGet", index, kind=c_int)
        text = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", text, 256, self.number)
        self.name = text.value.decode(errors="replace")
        self.handle = driver.get("cuDevicePrimaryCtxRetain", self.number)
        self._attributes: dict[str, int] = {}
        self._get_current = driver.typed("cuCtxGetCurrent")
        self.launching = Launching(self)
        """The block around calls of machine code that launches."""
        self.gate = (ctypes.c_uint64 * 9)(
            ctypes.addressof(driver.ready), self.handle, driver.address("cuCtxGetCurrent"), ctypes.addressof(thread_key()),
            id(sys.modules), id(_TORCH_CUDA), id(_INITIALIZED), 0, id(self.index),
        )  # fmt: skip
        """The words by which machine code enters a program without that block (`unity/ffi/native/helpers_device_ir.py`)."""
        self.checks: WeakSet[Any] = WeakSet()
        """The checks inside the kernels that are loaded (`module.py`)."""
        self.captures: dict[int, int] = {}
        """For each stream the stream on which its graphs are captured (`graph.py`)."""
        self.made: set[int] = set()
        """Handles of the streams of ``new_stream``."""
        self.ended: set[int] = set()
        """Handles of those that were destroyed, until a stream of such a handle is used again."""
        self.behind: dict[int, dict[int, int]] = {}
        """For a stream the events that it waits for before its memory is used again, by the stream behind whose work they are."""
        self.staging = Staging(self)
        self.taken = 0
        """Bytes that the driver gave (`memory.py`)."""
        self.most: int | None = None
        """Most bytes of the pool; None until it is first needed."""
        self.waiting: dict[tuple[int, int], list[int]] = {}
        """Addresses of the blocks in the pool, by stream and size."""

    def __repr__(self) -> str:
        return f"<CUDA context of cuda:{self.index}, {self.name}>"

    @property
    def pooled(self) -> int:
        """Bytes that wait for their next use."""
        return sum([size * len(blocks) for (_, size), blocks in tuple(self.waiting.items())])

    @property
    def held(self) -> int:
        """Bytes that tensors and programs have."""
        return self.taken - self.pooled

    def fact(self, name: str) -> int | str:
        """A fact about the device by TVM's name for it: ``device_name``, ``compute_version``, or one of ``attribute``."""
        if name == "device_name":
            return self.name
        return (
            self.arch.removeprefix("sm_")[:-1] + "." + self.arch[-1]
            if name == "compute_version"
            else self.attribute(name)
        )

    def attribute(self, name: str) -> int:
        """A fact about the device, by its name in ``_ATTRIBUTES``."""
        found = self._attributes.get(name)
        if found is None:
            found = self.driver.get("cuDeviceGetAttribute", _ATTRIBUTES[name], self.number, kind=c_int)
            self._attributes[name] = found
        return found

    @property
    def arch(self) -> str:
        """The architecture, such as ``sm_90``."""
        return f"sm_{self.attribute('compute_capability_major')}{self.attribute('compute_capability_minor')}"

    def require_alive(self, what: str) -> None:
        """Raise DeviceError E737 if the context was lost, before anything waits for it."""
        if self.handle in self.driver.lost:
            raise self.driver.lost_error(what, self.handle)

    def enter(self, what: str) -> int | None:
        """Make the context current in the thread and return the former one for ``leave``. Raises DeviceError E737, E738."""
        driver, thread = self.driver, _THREADS.state
        if driver.lost:
            self.require_alive(what)
        driver.require_own_process()
        status = self._get_current(thread.reference)
        if status:
            raise driver.error("cuCtxGetCurrent", status)
        before = thread.place.value or 0
        if before == self.handle:
            return None
        driver.call("cuCtxSetCurrent", self.handle)
        return before if before or self.index else None  # a thread without a context may keep that of the first device

    def leave(self, before: int | None) -> None:
        """Make the thread's former context current again."""
        if before is not None:
            self.driver.call("cuCtxSetCurrent", before)

    def current(self, what: str = "the call") -> Current:
        """A ``with`` block in which the context is current in the thread. Raises DeviceError E737, E738."""
        return Current(self, what)

    def synchronize(self) -> None:
        """Wait until the device has finished all work. Raises DeviceError E737 for an error in a kernel."""
        with self.current("synchronize"):
            self.driver.call("cuCtxSynchronize")
            self.raise_failed_checks()

    def raise_failed_checks(self) -> None:
        """Raise VMError E614 if a check inside a kernel failed. Call it after waiting in the context."""
        for check in tuple(self.checks):
            check.raise_if_failed()

    def stream(self) -> int:
        """The handle of the thread's current stream: that of ``use_stream``, else torch's where torch uses the device, else 0."""
        chosen = _THREADS.state.streams.get(self)
        if chosen is None:
            return (_TORCH_CUDA in sys.modules and _torch_stream(self)) or 0
        return chosen

    def set_stream(self, stream: int | None) -> int | None:
        """Make the stream of a handle the thread's current one, or unset it (None). Returns the former one."""
        thread = _THREADS.state
        before = thread.streams.get(self)
        thread.streams[self] = stream
        thread.record[1] = 0
        return before

    def require_stream(self, stream: int) -> None:
        """Raise FFIError E703 for a handle that is not a stream, or one of another device: later calls may crash on it."""
        if stream <= LAST_DEFAULT_STREAM or stream in self.made:
            return
        help = f"unity.cuda({self.index}).create_raw_stream() makes one, torch.cuda.Stream() another"
        owner = c_void_p()
        if (
            stream < LEAST_ADDRESS
            or self.driver.status("cuStreamGetCtx", stream, ctypes.byref(owner)) == INVALID_HANDLE
        ):
            raise FFIError("E703", f"{stream:#x} is not a stream of cuda:{self.index}, or was freed", help=help)
        for index, one in self.driver.contexts.items():
            if one is not self and owner.value == one.handle:
                raise FFIError(
                    "E703",
                    f"{stream:#x} is a stream of cuda:{index}, and cuda:{self.index} has streams of its own",
                    help=help,
                )

    @contextmanager
    def use_stream(self, stream: int) -> Iterator[int]:
        """A ``with`` block in which the stream of a handle is the current one of this thread."""
        before = self.set_stream(stream)
        try:
            yield stream
        finally:
            self.set_stream(before)

    def new_stream(self) -> int:
        """Create a stream that waits for no other one. The caller destroys it."""
        with self.current("new_stream"):
            made = self.driver.get("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
        self.ended.discard(made)
        self.made.add(made)
        return made

    def free_stream(self, stream: int) -> None:
        """Wait for the work of a stream of ``new_stream``, and destroy it. Memory that was allocated for it stays valid. Raises
        FFIError E703 for any other one: a driver may crash on a handle that is none, and whoever made it ends it."""
        if stream not in self.made:
            raise FFIError("E703", f"{stream:#x} is not a stream that create_raw_stream made for cuda:{self.index}",
                           help="whoever made a stream frees it, once, on its device")  # fmt: skip
        with self.current("free_stream"):
            self.wait_for_memory(stream)
            self.driver.call("cuStreamSynchronize", stream)
            self.made.discard(stream)
            self.ended.add(stream)
            for of, size in tuple(self.waiting):
                if of == stream:  # nobody works on them any more
                    self.waiting.setdefault((0, size), []).extend(self.waiting.pop((of, size)))
            self.driver.call("cuStreamDestroy_v2", stream)

    def synchronize_stream(self, stream: int) -> None:
        """Wait for the work of a stream."""
        with self.current("synchronize"):
            self.driver.call("cuStreamSynchronize", stream)
            self.raise_failed_checks()

    def is_captured(self, stream: int) -> bool:
        """True if somebody captures a graph of a stream, or the driver does not say."""
        state = c_int()
        with self.current("capture"):
            status = self.driver.status("cuStreamIsCapturing", stream, ctypes.byref(state))
        return status != SUCCESS or state.value != 0

    def reuse_after(self, stream: int, last: int) -> None:
        """Let memory of a stream be used again after the present work of another one, which is alive. The stream itself is left
        alone until it is the current one of a thread that wants memory: whoever made it may have destroyed it."""
        with self.current("order of streams"), _EVENT_LOCK:
            events = self.behind.setdefault(stream, {})
            if last not in events:
                events[last] = self.driver.get("cuEventCreate", 2)  # CU_EVENT_DISABLE_TIMING
            self.driver.call("cuEventRecord", events[last], last)

    def wait_for_memory(self, stream: int) -> None:
        """Make a stream that is alive wait for what its memory waits for."""
        with self.current("order of streams"), _EVENT_LOCK:
            events = self.behind.get(stream, {})
            while events:
                _, event = events.popitem()
                try:
                    self.driver.call("cuStreamWaitEvent", stream, event, 0)
                finally:
                    self.driver.call("cuEventDestroy_v2", event)
            self.behind.pop(stream, None)

    def order(self, first: int, then: int) -> None:
        """Make later work of a stream wait for all earlier work of another one; the host does not wait."""
        if first == then:
            return
        with self.current("order of streams"):
            event = self.driver.get("cuEventCreate", 2)  # CU_EVENT_DISABLE_TIMING
            try:
                self.driver.call("cuEventRecord", event, first)
                self.driver.call("cuStreamWaitEvent", then, event, 0)
            finally:
                self.driver.call("cuEventDestroy_v2", event)


class Current:
    """A ``with`` block in which a context is current in the thread; after it the former one is current again."""

    __slots__ = ("before", "context", "what")

    def __init__(self, context: Context, what: str) -> None:
        self.context, self.what = context, what

    def __enter__(self) -> Context:
        self.before = self.context.enter(self.what)
        return self.context

    def __exit__(self, *error: object) -> None:
        self.context.leave(self.before)


def context(index: int) -> Context:
    """The context of device number ``index`` of the driver in use. Raises DeviceError E734 if there is no such device."""
    for driver in CURRENT:
        found: Context | None = driver.contexts.get(index)
        if found is not None:
            return found
    return _new_context(index)


def _new_context(index: int) -> Context:
    driver = driver_in_use()
    with _LOCK:
        found: Context | None = driver.contexts.get(index)
        if found is None:
            count = driver.get("cuDeviceGetCount", kind=c_int)
            if not 0 <= index < count:
                raise DeviceError("E734", f"there is no device cuda:{index}: the CUDA driver has {count}",
                               help="unity.cuda(0) is the first one; CUDA_VISIBLE_DEVICES hides devices")  # fmt: skip
            found = driver.contexts[index] = Context(driver, index)
    return found


_TORCH_CUDA, _INITIALIZED = "torch.cuda", "_initialized"


def _torch_stream(context: Context) -> int | None:
    """The handle of torch's current stream of a device, None where torch does not use CUDA."""
    torch_cuda: Any = sys.modules.get(_TORCH_CUDA)
    if torch_cuda is None or not torch_cuda.is_initialized():
        return None
    current = sys.modules["torch"]._C._cuda_getCurrentRawStream
    context.gate[7] = id(current)
    return int(current(context.index))


# ---- the stream of a thread, for machine code


THREAD_KEY = ctypes.c_uint(0xFFFFFFFF)
"""The key under which ``pthread_getspecific`` returns the record of a thread; ``thread_key`` creates it."""
NO_CHOICE = (1 << 64) - 1
REMEMBERED = 8
"""Launches of a thread that are remembered; a power of two."""
LIBC = ctypes.CDLL(None)
LIBC.pthread_setspecific.argtypes = [ctypes.c_uint, ctypes.c_void_p]
LIBC.pthread_getspecific.restype = LIBC.calloc.restype = ctypes.c_void_p


def _thread_key() -> bool:
    return THREAD_KEY.value != 0xFFFFFFFF


def thread_key() -> ctypes.c_uint:
    """The cell that holds the key; machine code reads it at ``launch_symbols()["unity_cuda_thread_key"]``."""
    if not _thread_key():
        with _LOCK:
            if not _thread_key():
                made = ctypes.c_uint()
                if LIBC.pthread_key_create(ctypes.byref(made), LIBC.free) != 0:
                    raise DeviceError("E735", "the process has no key of a thread left for the current CUDA stream")
                THREAD_KEY.value = made.value
    return THREAD_KEY


class _Thread:
    """A thread's stream of each context, and the calls that it is in; a place for the driver to store at.

    ``record`` is what machine code sees: the stream of launches, the context that the next word is for, and the stream that the
    thread has chosen there (``NO_CHOICE`` for none); how many kernels the thread has launched, and the handles of the last
    ``REMEMBERED`` of them, in a ring. It lives as long as the thread of the system.
    """

    __slots__ = ("calls", "kept", "place", "record", "reference", "streams")

    def __init__(self) -> None:
        self.place = ctypes.c_void_p()
        self.reference = ctypes.byref(self.place)
        self.streams: dict[Context, int | None] = {}
        key = thread_key()
        address = LIBC.pthread_getspecific(key)
        if not address:
            address = LIBC.calloc(4 + REMEMBERED, 8)
            LIBC.pthread_setspecific(key, address)
        self.record = (ctypes.c_uint64 * (4 + REMEMBERED)).from_address(address)
        self.record[1] = 0
        self.calls: list[tuple[int | None, int]] = []
        """For each active ``Launching`` block the former context of the thread and its former stream of launches."""
        self.kept: list[Any] | None = None
        """While the thread captures a graph, the memory that it gives back."""


class _Threads(threading.local):
    """The state of each thread, in one attribute: access to thread-local attributes is slow."""

    def __init__(self) -> None:
        self.state = _Thread()


_THREADS = _Threads()


def recent_launches() -> list[int]:
    """Handles of the kernels that machine code of this thread launched last, in order."""
    count, ring = _THREADS.state.record[3], _THREADS.state.record[4:]
    return [ring[number % REMEMBERED] for number in range(max(0, count - REMEMBERED), count)]


CAPTURES: list[list[Any]] = []
"""For each thread that captures a graph now, the memory that is given back meanwhile."""


@contextmanager
def capturing() -> Iterator[list[Any]]:
    """A block in which the thread captures a graph: gives the memory that is given back meanwhile."""
    thread = _THREADS.state
    before, thread.kept = thread.kept, []
    kept = thread.kept
    CAPTURES.append(kept)
    try:
        yield kept
    finally:
        CAPTURES[:] = [other for other in CAPTURES if other is not kept]
        thread.kept = before


def graph_memory(ordered: bool) -> list[Any] | None:
    """Where memory belongs that the thread gives back: None for the pool. While a graph is captured, memory of the thread that does
    it is the graph's, and so is that of others that is not ``ordered`` after the work of its stream yet: nothing waits for
    a stream that is being captured."""
    kept = _THREADS.state.kept
    return kept if kept is not None or ordered or not CAPTURES else CAPTURES[-1]


class Launching:
    """A block around calls of machine code that launches: the thread has the context, and launches go to its current stream. Gives
    the stream. The one of a context serves all threads, and calls inside calls."""

    __slots__ = ("context",)

    def __init__(self, context: Context) -> None:
        self.context = context

    def __enter__(self) -> int:
        context, thread = self.context, _THREADS.state
        before, record = context.enter("the call"), thread.record
        stream, torch_stream = thread.streams.get(context), _torch_stream(context)
        record[1], record[2] = context.handle, NO_CHOICE if stream is None else stream
        if stream is None:
            stream = torch_stream or 0
        elif torch_stream is not None and torch_stream != stream and thread.kept is None:
            context.order(torch_stream, stream)  # tensors that torch has given a stream of its own to compute
        thread.calls.append((before, record[0]))
        record[0] = stream
        return stream

    def __exit__(self, *error: object) -> None:
        thread = _THREADS.state
        before, thread.record[0] = thread.calls.pop()
        if before is not None:
            self.context.leave(before)
