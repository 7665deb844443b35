"""Devices: a kind such as ``cpu`` or ``cuda`` and an index; the memory of a kind, as functions.

Invariant: a device that ``device`` gives exists once, so that machine code compares devices by address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ctypes import addressof
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..support.arguments import checked
from ..support.errors import CodegenError, FFIError
from .cuda import memory as cuda_memory
from .cuda.context import Context, context as cuda_context
from .cuda.driver import device_count
from .cuda.graph import capture


class Allocation(Protocol):
    """Memory of a device, which goes back when nothing refers to this object."""

    @property
    def address(self) -> int:
        """The device of the tensor."""


class Replay(Protocol):
    """Work that was captured."""

    kept: list[Any]
    """Memory that lives as long as it."""

    def launch(self) -> None:
        """Do it again, on the current stream."""


def _no_streams(*args: Any) -> Any:
    raise FFIError("E703", "the device has no streams", help="it does its work in the order in which it is given")


@dataclass(slots=True, frozen=True)
class DeviceStreams:
    """Streams of a kind of devices that work asynchronously, as functions; the first argument of each is a device's index, a stream
    is its handle, 0 the default one.

    ``current(index)``: that of the thread. ``choose(index, stream)`` makes one the thread's, None: the library's own choice again;
    it gives what was chosen before. ``order(index, first, then)`` makes a stream wait for what another one has been given.
    ``make(index)``, ``free(index, stream)``, ``wait(index, stream)``: a new one, the end of one, waiting for all its work.
    ``require(index, stream)`` raises FFIError E703 for what is not a stream of the device.
    """

    current: Callable[[int], int] = lambda index: 0
    choose: Callable[[int, int | None], int | None] = _no_streams
    order: Callable[[int, int, int], None] = lambda index, first, then: None
    make: Callable[[int], int] = _no_streams
    free: Callable[[int, int], None] = _no_streams
    wait: Callable[[int, int], None] = _no_streams
    require: Callable[[int, int], None] = lambda index, stream: None
    default: int | None = None
    """DLPack's number of stream 0."""


@dataclass(slots=True, frozen=True)
class DeviceMemory:
    """Memory of a kind of devices that the host does not read, as functions; the first argument of each is a device's index.

    ``allocate(index, bytes)``; ``to_device`` and ``to_host(index, target, source, bytes)`` copy between an address of the device
    and one of the host, and are done when they return; ``within(index, target, source, bytes)`` copies inside the device.
    ``synchronize(index)`` waits for all work. ``calling(index)`` is around every call of a program; what it gives tells apart
    calls that may run at the same time, each of which has an arena of its own.
    """

    allocate: Callable[[int, int], Allocation]
    to_device: Callable[[int, int, int, int], None]
    to_host: Callable[[int, int, int, int], None]
    within: Callable[[int, int, int, int], None]
    synchronize: Callable[[int], None] = lambda index: None
    calling: Callable[[int], AbstractContextManager[Any]] = nullcontext
    capture: Callable[[int, Callable[[], Any]], tuple[Any, Replay]] | None = None
    """``capture(index, work)``: what the work gives, and what launches again all that it has launched; None where there is no such
    thing. Memory that the work gives back stays that of the second."""
    gate: Callable[[int], int] = lambda index: 0
    """Address of the words by which machine code enters a program as ``calling`` does, 0 for none
    (`unity/ffi/native/helpers_device_ir.py`)."""
    streams: DeviceStreams = DeviceStreams()
    alignment: int = 1
    """Bytes of the vectors in which programs read tensors that begin at a multiple of them."""
    fact: Callable[[int, str], int | str | None] = lambda index, name: None
    """A fact by the name of a property of ``Device``, None where it is not known."""


@dataclass(slots=True, frozen=True)
class DeviceKind:
    """A family of devices. ``dlpack_code`` is DLPack's number; ``host_memory``: it works on the host's memory, by plain pointers;
    ``count`` says how many there are here; ``memory``: how tensors lie on one whose memory is its own."""

    name: str
    dlpack_code: int
    host_memory: bool
    doc: str = field(compare=False)
    count: Callable[[], int] = field(default=lambda: 1, compare=False)
    memory: DeviceMemory | None = field(default=None, compare=False)


DEVICE_KINDS: dict[str, DeviceKind] = {}
"""Families of devices by name."""
_BY_CODE: dict[int, str] = {}
_PATTERN = re.compile(r"([a-z]\w*)(?::(\d+))?$")


@checked
def register_device_kind(kind: DeviceKind) -> None:
    """Make a family of devices known; a number of DLPack stays with the first that has it. Raises CodegenError E533 where another
    one has its name."""
    if DEVICE_KINDS.get(kind.name, kind) != kind:
        raise CodegenError("E533", f"a device kind {kind.name!r} exists already", help="give yours another name")
    DEVICE_KINDS[kind.name] = kind
    _BY_CODE.setdefault(kind.dlpack_code, kind.name)


CPU_KIND = DeviceKind("cpu", 1, True, "The machine Python runs on.")


def _of_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a context, as one of the index of a CUDA device."""
    return lambda index, *args: function(cuda_context(index), *args)


CUDA_MEMORY = DeviceMemory(
    allocate=_of_context(cuda_memory.allocate), to_device=_of_context(cuda_memory.copy_to_device),
    to_host=_of_context(cuda_memory.copy_to_host), within=_of_context(cuda_memory.copy_on_device),
    synchronize=_of_context(Context.synchronize), calling=lambda index: cuda_context(index).launching,
    capture=_of_context(capture),
    gate=lambda index: addressof(cuda_context(index).gate),
    streams=DeviceStreams(
        _of_context(Context.stream), _of_context(Context.set_stream), _of_context(Context.order), _of_context(Context.new_stream),
        _of_context(Context.free_stream), _of_context(Context.synchronize_stream),
        _of_context(Context.require_stream), 1,
    ),
    alignment=16, fact=_of_context(Context.fact),
)  # fmt: skip
"""Memory of CUDA devices, through the driver in force."""
CUDA_KIND = DeviceKind("cuda", 2, False, "An NVIDIA GPU.", device_count, CUDA_MEMORY)
for _kind in (CPU_KIND, CUDA_KIND):
    register_device_kind(_kind)


def stream_handle(stream: object) -> int:
    """The handle of a stream: a number, or what torch, cupy and pycuda call it. Raises FFIError E703."""
    for name in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, name, stream)
    if not isinstance(stream, int) or not 0 <= stream < 1 << 64:
        what = f"a {type(stream).__name__}" if not isinstance(stream, int) else str(stream)
        raise FFIError("E703", f"{what} is not a stream", help="give a handle, or torch.cuda.Stream()")
    return stream


@dataclass(slots=True, frozen=True)
class Device:
    """A device, e.g. ``Device("cpu", 0)``; ``str`` gives ``cpu:0``. Raises FFIError E703 for an unknown kind."""

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        if (
            not isinstance(self.kind, str)
            or self.kind not in DEVICE_KINDS
            or not isinstance(self.index, int)
            or self.index < 0
        ):
            help = f"known kinds: {', '.join(DEVICE_KINDS)}; the first device of a kind has the number 0"
            raise FFIError("E703", f"unknown device {self.kind}:{self.index}", help=help)

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    @property
    def host_memory(self) -> bool:
        """True where the host may read the device's memory through plain pointers."""
        return DEVICE_KINDS[self.kind].host_memory

    @property
    def memory(self) -> DeviceMemory:
        """The functions of a memory that the host does not read. Raises FFIError E703 where the kind is only a name."""
        found = DEVICE_KINDS[self.kind].memory
        if found is None:
            raise FFIError("E703", f"no tensor can lie on {self}: nobody said how its memory is used",
                           help="register the device with a DeviceMemory, or give unity.cpu()")  # fmt: skip
        return found

    def _stream(self, stream: object) -> int:
        """The handle of a stream of the device. Raises FFIError E703 for anything else."""
        handle = stream_handle(stream)
        self.memory.streams.require(self.index, handle)
        return handle

    def sync(self, stream: object = None) -> None:
        """Wait until the device has done all that it was given, or all of a stream."""
        if stream is not None:
            self.memory.streams.wait(self.index, self._stream(stream))
        elif not self.host_memory:
            self.memory.synchronize(self.index)

    def _text(self, name: str) -> str | None:
        found = None if self.host_memory else self.memory.fact(self.index, name)
        return found if isinstance(found, str) else None

    def _number(self, name: str) -> int | None:
        found = None if self.host_memory else self.memory.fact(self.index, name)
        return found if isinstance(found, int) else None

    @property
    def device_name(self) -> str | None:
        """The name that its driver gives it; None if there is none."""
        return self._text("device_name")

    @property
    def compute_version(self) -> str | None:
        """The version of its instructions, such as ``"9.0"``."""
        return self._text("compute_version")

    @property
    def max_threads_per_block(self) -> int | None:
        """Threads of a block."""
        return self._number("max_threads_per_block")

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of shared memory of a block that does not opt in to more."""
        return self._number("max_shared_memory_per_block")

    @property
    def warp_size(self) -> int | None:
        """Threads of a warp."""
        return self._number("warp_size")

    @property
    def multi_processor_count(self) -> int | None:
        """Multiprocessors."""
        return self._number("multi_processor_count")

    def create_raw_stream(self) -> int:
        """A new stream, by its handle; ``free_raw_stream`` ends it. Raises FFIError E703 where the device has no streams."""
        return self.memory.streams.make(self.index)

    def free_raw_stream(self, stream: object) -> None:
        """End a stream of ``create_raw_stream``, once its work is done. Raises FFIError E703 for any other one."""
        self.memory.streams.free(self.index, stream_handle(stream))

    def set_raw_stream(self, stream: object) -> None:
        """Make ``stream`` current in this thread: programs, copies and new memory are ordered by it. None: the default one."""
        self.memory.streams.choose(self.index, None if stream is None else self._stream(stream))

    @contextmanager
    def use_stream(self, stream: object) -> Iterator[None]:
        """``set_raw_stream`` within a block. ``stream``: a handle, or a stream of torch, cupy or pycuda."""
        before = self.memory.streams.choose(self.index, self._stream(stream))
        try:
            yield
        finally:
            self.memory.streams.choose(self.index, before)

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return self.dlpack[0]

    @property
    def exist(self) -> bool:
        """True where programs run on the device."""
        return self.index < DEVICE_KINDS[self.kind].count()

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's (device type, device id)."""
        return DEVICE_KINDS[self.kind].dlpack_code, self.index


CPU = Device("cpu", 0)


_DEVICES: dict[tuple[str, int], Device] = {("cpu", 0): CPU}


def device(text: str | Device, index: int | None = None) -> Device:
    """A device from text: ``"cpu"``, ``"cpu:0"``, ``"cuda:1"``, or ``"cuda"`` with ``index`` 1. Raises FFIError E703."""
    if isinstance(text, Device):
        return _DEVICES.setdefault((text.kind, text.index), text)
    if index is not None:
        return device(f"{text}:{index}")
    match = _PATTERN.match(text) if isinstance(text, str) else None
    if match is None:
        raise FFIError("E703", f"cannot read the device {text!r}", help='write for example "cpu" or "cuda:0"')
    return device(Device(match.group(1), int(match.group(2) or 0)))


def memory_device(place: Device | str) -> Device:
    """The device whose memory a tensor for this one lies in: the CPU for one that works on the host's memory."""
    found = device(place)
    return CPU if found.host_memory else found


def device_from_dlpack(code: int, index: int) -> Device:
    """A device from DLPack's numbers. Raises FFIError E703 for kinds outside ``DEVICE_KINDS``."""
    name = _BY_CODE.get(code)
    if name is None:
        raise FFIError("E703", f"DLPack device type {code} is not supported", help="copy the tensor to the cpu first")
    return device(f"{name}:{index}")


def cpu(index: int = 0) -> Device:
    """The CPU; ``index`` is its number, 0."""
    return device(Device("cpu", index))


def cuda(index: int = 0) -> Device:
    """GPU number ``index``; ``cuda(0).exist`` says whether there is one."""
    return device(Device("cuda", index))
