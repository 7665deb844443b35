"""The functions of the CUDA driver over emulated devices, as addresses that machine code can call.

Work is done when it is asked for, whatever its stream, unless it is to be ``late`` (`streams.py`). A kernel that does what it must
not loses its context, as on a real device: the launch itself says nothing (unless ``blocking``), and every later call answers the
status; ``cuGetErrorString`` of it tells the finding.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Mapping
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from ....ffi.cuda.driver import FUNCTIONS, Driver
from ....support.errors import InterpreterError
from ..machine.batch import Options
from ..memory.device_memory import DeviceMemory
from ..memory.tensor_map import TensorMap, encode_at, encode_windows_at
from .attributes import SHARED_DEFAULT, Limits
from .contexts import Contexts
from .devices import Device, Found, Handles, write, write_log
from .functions import ANYTIME, IN_CONTEXT, MORE
from .graphs import Graphs
from .image import ImageError, ptx_of
from .kernels import Kernel, LaunchRecord, LoadedModule, launch_kernel, load_module
from .launches import argument_bytes, check_sizes
from .status import (
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_PTX,
    INVALID_VALUE,
    MESSAGES,
    NOT_FOUND,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
    SUCCESS,
    UNKNOWN,
    Refused,
)  # fmt: skip
from .streams import Streams

VERSION = 13000


def _one_of(table: Mapping[Any, Found], key: object, status: int = INVALID_VALUE) -> Found:
    """An entry of a table. Raises Refused where there is none."""
    if key not in table:
        raise Refused(status)
    return table[key]


def _keep_map(out: int, given: TensorMap | None) -> None:
    if given is None or not out or out % 64:
        raise Refused(INVALID_VALUE)
    ctypes.memmove(out, given.pack(), 128)


def _on_stream(body: Callable[..., None]) -> Callable[..., None]:
    """A function whose last argument is the stream that does what ``body`` does."""

    def call(self: EmulatedDriver, *args: Any) -> None:
        self.streams.use(args[-1])
        self.streams.give(args[-1], lambda: body(self, *args[:-1]))

    return call


def _waited(body: Callable[..., None]) -> Callable[..., None]:
    """A function that does what ``body`` does after all work of the default stream."""

    def call(self: EmulatedDriver, *args: Any) -> None:
        self.streams.cuStreamSynchronize(None)
        body(self, *args)

    return call


class EmulatedDriver:
    """The functions by name; ``driver`` is what `unity/ffi/cuda` puts in force. ``failure`` is an error of the emulation itself."""

    def __init__(self, limits: Limits, devices: int, memory: int, options: Options, blocking: bool, late: bool) -> None:
        self.devices = [Device(k, limits, memory) for k in range(devices)]
        self.options, self.blocking = options, blocking
        self.launches: list[LaunchRecord] = []
        self.failure: BaseException | None = None
        self.initialised = False
        self._modules = Handles[tuple[Device, LoadedModule]]()
        self._functions = Handles[tuple[Device, Kernel]]()
        self._contexts = Contexts(self.devices)
        self.streams = Streams(self._contexts, late)
        self._graphs = Graphs(self.streams)
        self._parts = (self, self._contexts, self.streams, self._graphs)
        self._pinned: dict[int, tuple[mmap.mmap, int]] = {}
        self._lock = threading.RLock()
        self._texts: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self._callbacks: dict[str, Any] = {}
        self.driver = Driver("emulated", self.address, recycles=late)

    # ---- the way in

    def address(self, name: str) -> int:
        """The address of a function; 0 for what the emulation lacks."""
        found = [getattr(part, name) for part in self._parts if name.startswith("cu") and hasattr(part, name)]
        types = FUNCTIONS.get(name, MORE.get(name))
        if not found or types is None:
            return 0
        if name not in self._callbacks:
            self._callbacks[name] = ctypes.CFUNCTYPE(c_int, *types)(self._guarded(name, found[0]))
        return ctypes.cast(self._callbacks[name], c_void_p).value or 0

    def _guarded(self, name: str, body: Callable[..., None]) -> Callable[..., int]:
        free = name in ANYTIME

        def call(*args: Any) -> int:
            with self._lock:
                try:
                    if not self.initialised and not free:
                        return NOT_INITIALIZED
                    if name in IN_CONTEXT:
                        device = self._contexts.current_device()
                        if device.lost is not None:
                            return device.lost[0]
                    if not self._graphs.capturing or not self._graphs.captured(name, body, args):
                        body(*args)
                    return SUCCESS
                except Refused as refused:
                    return refused.status
                except BaseException as error:  # nothing may pass through the caller's machine code
                    self.failure = self.failure or error
                    return UNKNOWN

        return call

    def _owner(self, address: int) -> Device | None:
        for device in self.devices:
            if 0 <= address - device.memory.base < device.memory.size:
                return device
        return None

    # ---- what there is

    def cuInit(self, flags: int) -> None:
        self.initialised = True
        if flags:
            raise Refused(INVALID_VALUE)

    def cuDriverGetVersion(self, out: int) -> None:
        write(out, c_int, VERSION)

    def cuGetErrorName(self, status: int, out: int) -> None:
        self._give_text(out, _one_of(MESSAGES, status)[0])

    def cuGetErrorString(self, status: int, out: int) -> None:
        text = _one_of(MESSAGES, status)[1]
        for device in self.devices:
            if device.lost is not None and device.lost[0] == status:
                text += f"\n{device.lost[1]}"
        if status == UNKNOWN and self.failure is not None:
            text = f"the emulation failed: {type(self.failure).__name__}: {self.failure}"
        self._give_text(out, text)

    def _give_text(self, out: int, text: str) -> None:
        kept = self._texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
        write(out, c_void_p, ctypes.addressof(kept))

    def cuDeviceGetCount(self, out: int) -> None:
        write(out, c_int, len(self.devices))

    def _device(self, number: int) -> Device:
        if not 0 <= number < len(self.devices):
            raise Refused(INVALID_DEVICE)
        return self.devices[number]

    def cuDeviceGet(self, out: int, ordinal: int) -> None:
        write(out, c_int, self._device(ordinal).ordinal)

    def cuDeviceGetName(self, out: int, size: int, number: int) -> None:
        limits = self._device(number).limits
        if size < 1:
            raise Refused(INVALID_DEVICE)
        text = f"Emulated {limits.name} (sm_{limits.major}{limits.minor})".encode()[: size - 1]
        ctypes.memmove(out, text + b"\0", len(text) + 1)

    def cuDeviceGetAttribute(self, out: int, which: int, number: int) -> None:
        write(out, c_int, _one_of(self._device(number).attributes, which))

    def cuDeviceComputeCapability(self, major: int, minor: int, number: int) -> None:
        limits = self._device(number).limits
        write(major, c_int, limits.major)
        write(minor, c_int, limits.minor)

    def cuDeviceTotalMem_v2(self, out: int, number: int) -> None:
        write(out, c_size_t, self._device(number).memory.size)

    # ---- memory

    def cuMemAlloc_v2(self, out: int, size: int) -> None:
        memory = self._contexts.current_device().memory
        if not size:
            raise Refused(INVALID_VALUE)
        made = memory.allocate(size)
        if made is None:
            raise Refused(OUT_OF_MEMORY)
        write(out, c_void_p, memory.base + made.start)

    def cuMemFree_v2(self, address: int) -> None:
        owner = self._owner(address)
        if owner is not None:
            self.streams.finish(owner)
        if address and (owner is None or not owner.memory.free(address)):
            raise Refused(INVALID_VALUE)

    def cuMemGetInfo_v2(self, free: int, total: int) -> None:
        memory = self._contexts.current_device().memory
        write(free, c_size_t, memory.size - memory.used)
        write(total, c_size_t, memory.size)

    def cuMemHostAlloc(self, out: int, size: int, flags: int) -> None:
        if not size:
            raise Refused(INVALID_VALUE)
        made = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(made))
        self._pinned[address] = (made, size)
        write(out, c_void_p, address)

    def cuMemFreeHost(self, address: int) -> None:
        _one_of(self._pinned, address)
        self.streams.finish()
        del self._pinned[address]

    def _is_pinned(self, address: int) -> bool:
        return any([first <= address < first + size for first, (_, size) in self._pinned.items()])

    def _bytes(self, address: int, size: int) -> tuple[DeviceMemory, slice]:
        """Memory of a device. Raises Refused outside allocations."""
        owner = self._owner(address)
        found = owner.memory.range(address, size) if owner is not None else None
        if owner is None or found is None or owner.lost is not None:
            raise Refused(INVALID_VALUE)
        return owner.memory, found

    def _between(self, address: int, size: int, host: int) -> tuple[DeviceMemory, slice]:
        """Memory of a device for a copy from or to an address of the host. Raises Refused."""
        if not host or self._owner(host) is not None:
            raise Refused(INVALID_VALUE)
        return self._bytes(address, size)

    def _copy_in(self, target: int, source: int, size: int) -> None:
        if size:
            memory, where = self._between(target, size, source)
            ctypes.memmove(memory.raw[where].ctypes.data, source, size)
            memory.mark(where)

    def _copy_out(self, target: int, source: int, size: int) -> None:
        if size:
            memory, where = self._between(source, size, target)
            ctypes.memmove(target, memory.raw[where].ctypes.data, size)

    def _copy_within(self, target: int, source: int, size: int) -> None:
        if size:
            (memory, where), (origin, there) = self._bytes(target, size), self._bytes(source, size)
            memory.raw[where] = origin.raw[there].copy()
            memory.written[where] = origin.written[there].copy()

    def _fill(self, target: int, pattern: bytes, count: int) -> None:
        if count:
            memory, where = self._bytes(target, count * len(pattern))
            if target % len(pattern):
                raise Refused(INVALID_VALUE)
            memory.raw[where].reshape(count, len(pattern))[:] = list(pattern)
            memory.mark(where)

    def _fill_bytes(self, target: int, value: int, count: int) -> None:
        self._fill(target, bytes([value]), count)

    def _fill_words(self, target: int, value: int, count: int) -> None:
        self._fill(target, value.to_bytes(4, "little"), count)

    cuMemcpyHtoD_v2, cuMemcpyDtoH_v2, cuMemcpyDtoD_v2 = _waited(_copy_in), _waited(_copy_out), _waited(_copy_within)
    cuMemsetD8_v2, cuMemsetD32_v2 = _waited(_fill_bytes), _waited(_fill_words)
    cuMemcpyDtoDAsync_v2 = _on_stream(_copy_within)
    cuMemsetD8Async, cuMemsetD32Async = _on_stream(_fill_bytes), _on_stream(_fill_words)

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> None:
        """The driver keeps a copy of what is not pinned."""
        self.streams.use(stream)
        kept = None
        if self.streams.late and size and not self._is_pinned(source):
            self._between(target, size, source)
            kept = ctypes.create_string_buffer(ctypes.string_at(source, size), size)
        origin = source if kept is None else ctypes.addressof(kept)
        self.streams.give(stream, lambda kept=kept: self._copy_in(target, origin, size))  # type: ignore[misc]

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> None:
        """The call waits where the host's memory is not pinned."""
        self.streams.use(stream)
        self.streams.give(stream, lambda: self._copy_out(target, source, size))
        if not self._is_pinned(target):
            self.streams.cuStreamSynchronize(stream)

    def cuPointerGetAttribute(self, out: int, which: int, address: int) -> None:
        owner = self._owner(address)
        values: dict[int, tuple[Any, int]] = {}
        if owner is None:
            if self._is_pinned(address):
                values[2] = (c_int, 1)
        elif (found := owner.memory.find(address)) is not None:
            values = {
                1: (c_void_p, owner.handle), 2: (c_int, 2), 3: (c_void_p, address), 8: (ctypes.c_bool, 0),
                9: (c_int, owner.ordinal), 11: (c_void_p, owner.memory.base + found.start), 12: (c_size_t, found.size),
            }  # fmt: skip
        write(out, *_one_of(values, which))

    def cuTensorMapEncodeTiled(
        self, out: int, kind: int, rank: int, base: int, sizes: int, strides: int | None, box: int, steps: int, interleave: int,
        swizzle: int, promotion: int, fill: int,
    ) -> None:  # fmt: skip
        _keep_map(out, encode_at(kind, rank, base, (sizes, strides, box, steps), interleave, swizzle, fill))

    def cuTensorMapEncodeIm2col(
        self, out: int, kind: int, rank: int, base: int, sizes: int, strides: int, lower: int, upper: int, channels: int,
        pixels: int, steps: int, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> None:  # fmt: skip
        pointers = (sizes, strides, lower, upper, steps)
        _keep_map(out, encode_windows_at(kind, rank, base, pointers, (channels, pixels), interleave, swizzle, fill))

    # ---- modules and launches

    def cuModuleLoadDataEx(self, out: int, image: int, count: int, options: int | None, values: int | None) -> None:
        device = self._contexts.current_device()
        if not image:
            raise Refused(INVALID_VALUE)
        try:
            text = ptx_of(image)
            loaded = load_module(text, device.memory, device.limits, f"module {len(self._modules)} of PTX")
        except ImageError as error:
            write_log(count, options, values, error.text)
            raise Refused(error.status) from error
        except InterpreterError as error:
            write_log(count, options, values, str(error))
            raise Refused(INVALID_PTX) from error
        self._modules.store(out, (device, loaded))

    def cuModuleLoadData(self, out: int, image: int) -> None:
        self.cuModuleLoadDataEx(out, image, 0, None, None)

    def cuModuleUnload(self, module: int) -> None:
        device, loaded = self._modules.drop(module)
        self.streams.finish(device)
        for allocation in loaded.variables.values():
            if allocation.constant:
                device.memory.constants.remove(allocation)
            device.memory.free(device.memory.base + allocation.start)
        kernels = {id(one) for one in loaded.kernels.values()}
        for handle in [h for h, (_, one) in self._functions.items() if id(one) in kernels]:
            del self._functions[handle]

    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        device, loaded = self._modules[module]
        kernel = _one_of(loaded.kernels, name.decode(), NOT_FOUND)
        self._functions.store(out, (device, kernel))

    def cuModuleGetGlobal_v2(self, out: int | None, size: int | None, module: int, name: bytes) -> None:
        device, loaded = self._modules[module]
        found = _one_of(loaded.variables, name.decode(), NOT_FOUND)
        if size:
            write(size, c_size_t, found.size)
        if out:
            write(out, c_void_p, device.memory.base + found.start)

    def cuFuncGetAttribute(self, out: int, which: int, function: int) -> None:
        device, kernel = self._functions[function]
        program = kernel.program
        capability = device.limits.major * 10 + device.limits.minor
        version = program.module.version[0] * 10 + program.module.version[1]
        values = [
            kernel.threads, program.shared_bytes, 0, program.frame_bytes, 32, version, capability, 0,
            kernel.dynamic_limit or SHARED_DEFAULT - program.shared_bytes, -1,
        ]  # fmt: skip
        write(out, c_int, _one_of(dict(enumerate(values)), which))

    def cuFuncSetBlockShape(self, function: int, x: int, y: int, z: int) -> None:
        """Only launches of an old kind, which are not emulated, read the shape; pycuda sets it before each launch."""
        if function not in self._functions or min(x, y, z) <= 0:
            raise Refused(INVALID_VALUE)

    def cuFuncSetAttribute(self, function: int, which: int, value: int) -> None:
        device, kernel = self._functions[function]
        if which == 8 and 0 <= value <= device.limits.shared_opt_in - kernel.program.shared_bytes:
            kernel.dynamic_limit = value
        elif which != 9:
            raise Refused(INVALID_VALUE)

    def cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int | None,
        params: int | None, extra: int | None,
    ) -> None:  # fmt: skip
        device, kernel = self._functions[function]
        grid, block = (gx, gy, gz), (bx, by, bz)
        self.streams.use(stream, device)
        check_sizes(device.limits, kernel, grid, block, shared)
        if device is not self._contexts.current_device():
            raise Refused(INVALID_CONTEXT)
        arguments = argument_bytes(kernel, params, extra)

        def run(stream: int | None) -> None:
            record = LaunchRecord(kernel.program.name, grid, block, shared, stream or 0)
            self.launches.append(record)
            fault = launch_kernel(kernel, device.memory, record, arguments, self.options)
            if fault is not None:
                device.lost = (fault.code, str(fault.reason))
                if self.blocking:
                    raise Refused(fault.code)

        self._graphs.do(stream, run)
