"""The functions of the CUDA driver over emulated devices, as addresses that machine code can call.

Work is done when it is asked for, whatever its stream. A kernel that does what it must not loses its context, as on a real
device: the launch itself says nothing (unless ``blocking``), and every later call answers the status; ``cuGetErrorString`` of it
tells the finding.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
import time
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from ....ffi.cuda.driver import FUNCTIONS, Driver
from ....support.errors import InterpreterError
from ..machine.batch import Options
from ..memory.tensor_map import TensorMap, encode_at, encode_windows_at
from .attributes import SHARED_DEFAULT, Limits
from .contexts import Contexts
from .devices import Device, write, write_log
from .functions import ANYTIME, IN_CONTEXT, MORE
from .graphs import Graphs
from .image import ImageError, ptx_of
from .kernels import Kernel, LaunchRecord, LoadedModule, launch_kernel, load_module
from .launches import argument_bytes, fits
from .status import (
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_PTX,
    INVALID_VALUE,
    MESSAGES,
    NOT_FOUND,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
    SUCCESS,
    UNKNOWN,
)

VERSION = 13000


class EmulatedDriver:
    """The functions by name; ``driver`` is what `unity/ffi/cuda` puts in force. ``failure`` is an error of the emulation itself."""

    def __init__(self, limits: Limits, devices: int, memory: int, options: Options, blocking: bool) -> None:
        self._handles = itertools.count(0x5EED0000, 16)
        self.devices = [Device(k, limits, memory, next(self._handles)) for k in range(devices)]
        self.options, self.blocking = options, blocking
        self.launches: list[LaunchRecord] = []
        self.failure: BaseException | None = None
        self.initialised = False
        self._modules: dict[int, tuple[Device, LoadedModule]] = {}
        self._functions: dict[int, tuple[Device, Kernel]] = {}
        self._streams: dict[int, Device] = {}
        self._contexts = Contexts(self.devices)
        self._graphs = Graphs(self._handles, self._on)
        self._parts = (self, self._contexts, self._graphs)
        self._events: dict[int, list[float | int]] = {}
        self._pinned: dict[int, tuple[mmap.mmap, int]] = {}
        self._lock = threading.RLock()
        self._texts: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self._callbacks: dict[str, Any] = {}
        self.driver = Driver("emulated", self.address, recycles=False)

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

    def _guarded(self, name: str, body: Callable[..., int]) -> Callable[..., int]:
        free = name in ANYTIME

        def call(*args: Any) -> int:
            with self._lock:
                try:
                    if not self.initialised and not free:
                        return NOT_INITIALIZED
                    if name in IN_CONTEXT:
                        device = self._contexts.current()
                        if device is None:
                            return INVALID_CONTEXT
                        if device.lost is not None:
                            return device.lost[0]
                    noted = self._graphs.noted(name, body, args) if self._graphs.capturing else None
                    return body(*args) if noted is None else noted
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

    def cuInit(self, flags: int) -> int:
        self.initialised = True
        return INVALID_VALUE if flags else SUCCESS

    def cuDriverGetVersion(self, place: int) -> int:
        return write(place, c_int, VERSION)

    def cuGetErrorName(self, status: int, place: int) -> int:
        return self._give_text(place, MESSAGES[status][0]) if status in MESSAGES else INVALID_VALUE

    def cuGetErrorString(self, status: int, place: int) -> int:
        if status not in MESSAGES:
            return INVALID_VALUE
        text = MESSAGES[status][1]
        for device in self.devices:
            if device.lost is not None and device.lost[0] == status:
                text += f"\n{device.lost[1]}"
        if status == UNKNOWN and self.failure is not None:
            text = f"the emulation failed: {type(self.failure).__name__}: {self.failure}"
        return self._give_text(place, text)

    def _give_text(self, place: int, text: str) -> int:
        kept = self._texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
        return write(place, c_void_p, ctypes.addressof(kept))

    def cuDeviceGetCount(self, place: int) -> int:
        return write(place, c_int, len(self.devices))

    def cuDeviceGet(self, place: int, ordinal: int) -> int:
        return write(place, c_int, ordinal) if 0 <= ordinal < len(self.devices) else INVALID_DEVICE

    def cuDeviceGetName(self, place: int, size: int, number: int) -> int:
        if not 0 <= number < len(self.devices) or size < 1:
            return INVALID_DEVICE
        limits = self.devices[number].limits
        text = f"Emulated {limits.name} (sm_{limits.major}{limits.minor})".encode()[: size - 1]
        ctypes.memmove(place, text + b"\0", len(text) + 1)
        return SUCCESS

    def cuDeviceGetAttribute(self, place: int, which: int, number: int) -> int:
        if not 0 <= number < len(self.devices):
            return INVALID_DEVICE
        found = self.devices[number].attributes.get(which)
        return INVALID_VALUE if found is None else write(place, c_int, found)

    def cuDeviceComputeCapability(self, major: int, minor: int, number: int) -> int:
        if not 0 <= number < len(self.devices):
            return INVALID_DEVICE
        limits = self.devices[number].limits
        return write(major, c_int, limits.major) or write(minor, c_int, limits.minor)

    def cuDeviceTotalMem_v2(self, place: int, number: int) -> int:
        if not 0 <= number < len(self.devices):
            return INVALID_DEVICE
        return write(place, c_size_t, self.devices[number].memory.size)

    # ---- memory

    def cuMemAlloc_v2(self, place: int, size: int) -> int:
        memory = self._contexts.here().memory
        if not size:
            return INVALID_VALUE
        made = memory.allocate(size)
        return OUT_OF_MEMORY if made is None else write(place, c_void_p, memory.base + made.start)

    def cuMemFree_v2(self, address: int) -> int:
        if not address:
            return SUCCESS
        owner = self._owner(address)
        return SUCCESS if owner is not None and owner.memory.free(address) else INVALID_VALUE

    def cuMemGetInfo_v2(self, free: int, total: int) -> int:
        memory = self._contexts.here().memory
        return write(free, c_size_t, memory.size - memory.used) or write(total, c_size_t, memory.size)

    def cuMemHostAlloc(self, place: int, size: int, flags: int) -> int:
        if not size:
            return INVALID_VALUE
        made = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(made))
        self._pinned[address] = (made, size)
        return write(place, c_void_p, address)

    def cuMemFreeHost(self, address: int) -> int:
        return SUCCESS if self._pinned.pop(address, None) else INVALID_VALUE

    def _bytes(self, address: int, size: int) -> Any:
        """Memory of a device, as something that ctypes copies; None outside allocations."""
        owner = self._owner(address)
        found = owner.memory.range(address, size) if owner is not None else None
        if owner is None or found is None or owner.lost is not None:
            return None
        return owner.memory, found

    def cuMemcpyHtoD_v2(self, target: int, source: int, size: int) -> int:
        if not size:
            return SUCCESS
        found = self._bytes(target, size)
        if found is None or not source or self._owner(source) is not None:
            return INVALID_VALUE
        memory, where = found
        ctypes.memmove(memory.raw[where].ctypes.data, source, size)
        memory.mark(where)
        return SUCCESS

    def cuMemcpyDtoH_v2(self, target: int, source: int, size: int) -> int:
        if not size:
            return SUCCESS
        found = self._bytes(source, size)
        if found is None or not target or self._owner(target) is not None:
            return INVALID_VALUE
        memory, where = found
        ctypes.memmove(target, memory.raw[where].ctypes.data, size)
        return SUCCESS

    def cuMemcpyDtoD_v2(self, target: int, source: int, size: int) -> int:
        if not size:
            return SUCCESS
        to, come = self._bytes(target, size), self._bytes(source, size)
        if to is None or come is None:
            return INVALID_VALUE
        (memory, where), (origin, there) = to, come
        memory.raw[where] = origin.raw[there].copy()
        memory.written[where] = origin.written[there].copy()
        return SUCCESS

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        return self._on(stream) or self.cuMemcpyHtoD_v2(target, source, size)

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        return self._on(stream) or self.cuMemcpyDtoH_v2(target, source, size)

    def cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        return self._on(stream) or self.cuMemcpyDtoD_v2(target, source, size)

    def _fill(self, target: int, pattern: bytes, count: int) -> int:
        if not count:
            return SUCCESS
        found = self._bytes(target, count * len(pattern))
        if found is None or target % len(pattern):
            return INVALID_VALUE
        memory, where = found
        memory.raw[where].reshape(count, len(pattern))[:] = list(pattern)
        memory.mark(where)
        return SUCCESS

    def cuMemsetD8_v2(self, target: int, value: int, count: int) -> int:
        return self._fill(target, bytes([value]), count)

    def cuMemsetD8Async(self, target: int, value: int, count: int, stream: int | None) -> int:
        return self._on(stream) or self._fill(target, bytes([value]), count)

    def cuMemsetD32_v2(self, target: int, value: int, count: int) -> int:
        return self._fill(target, value.to_bytes(4, "little"), count)

    def cuMemsetD32Async(self, target: int, value: int, count: int, stream: int | None) -> int:
        return self._on(stream) or self._fill(target, value.to_bytes(4, "little"), count)

    def cuPointerGetAttribute(self, place: int, which: int, address: int) -> int:
        owner = self._owner(address)
        if owner is None:
            pinned = [a for a, (_, size) in self._pinned.items() if a <= address < a + size]
            return write(place, c_int, 1) if pinned and which == 2 else INVALID_VALUE
        found = owner.memory.find(address)
        if found is None:
            return INVALID_VALUE
        values: dict[int, tuple[Any, int]] = {
            1: (c_void_p, owner.handle), 2: (c_int, 2), 3: (c_void_p, address), 8: (ctypes.c_bool, 0), 9: (c_int, owner.ordinal),
            11: (c_void_p, owner.memory.base + found.start), 12: (c_size_t, found.size),
        }  # fmt: skip
        return write(place, *values[which]) if which in values else INVALID_VALUE

    def cuTensorMapEncodeTiled(
        self, place: int, kind: int, rank: int, base: int, sizes: int, strides: int | None, box: int, steps: int, interleave: int,
        swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        return self._keep_map(
            place, encode_at(kind, rank, base, (sizes, strides, box, steps), interleave, swizzle, fill)
        )

    def cuTensorMapEncodeIm2col(
        self, place: int, kind: int, rank: int, base: int, sizes: int, strides: int, lower: int, upper: int, channels: int,
        pixels: int, steps: int, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        places = (sizes, strides, lower, upper, steps)
        return self._keep_map(
            place, encode_windows_at(kind, rank, base, places, (channels, pixels), interleave, swizzle, fill)
        )

    def _keep_map(self, place: int, given: TensorMap | None) -> int:
        if given is None or not place or place % 64:
            return INVALID_VALUE
        ctypes.memmove(place, given.pack(), 128)
        return SUCCESS

    # ---- streams and events

    def _on(self, stream: int | None) -> int:
        """The status of using a stream: 0, 1 and 2 are the default ones."""
        return SUCCESS if (stream or 0) <= 2 or stream in self._streams else INVALID_HANDLE

    def cuStreamCreate(self, place: int, flags: int) -> int:
        handle = next(self._handles)
        self._streams[handle] = self._contexts.here()
        return write(place, c_void_p, handle)

    def cuStreamDestroy_v2(self, stream: int) -> int:
        return SUCCESS if self._streams.pop(stream, None) else INVALID_HANDLE

    def cuStreamSynchronize(self, stream: int | None) -> int:
        return self._on(stream)

    def cuStreamQuery(self, stream: int | None) -> int:
        return self._on(stream)

    def cuStreamIsCapturing(self, stream: int | None, place: int) -> int:
        return write(place, c_int, int(stream in self._graphs.capturing))

    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> int:
        return self._on(stream) or (SUCCESS if event in self._events else INVALID_HANDLE)

    def cuEventCreate(self, place: int, flags: int) -> int:
        handle = next(self._handles)
        self._events[handle] = [-1.0, flags]
        return write(place, c_void_p, handle)

    def cuEventRecord(self, event: int, stream: int | None) -> int:
        if event not in self._events:
            return INVALID_HANDLE
        self._events[event][0] = time.perf_counter()
        return self._on(stream)

    def cuEventSynchronize(self, event: int) -> int:
        return SUCCESS if event in self._events else INVALID_HANDLE

    def cuEventQuery(self, event: int) -> int:
        return SUCCESS if event in self._events else INVALID_HANDLE

    def cuEventElapsedTime(self, place: int, start: int, end: int) -> int:
        pair = [self._events.get(start), self._events.get(end)]
        if any([one is None or one[0] < 0 or int(one[1]) & 2 for one in pair]):
            return INVALID_HANDLE
        first, second = pair
        assert first is not None and second is not None
        return write(place, ctypes.c_float, 1e3 * (second[0] - first[0]))

    cuEventElapsedTime_v2 = cuEventElapsedTime

    def cuEventDestroy_v2(self, event: int) -> int:
        return SUCCESS if self._events.pop(event, None) else INVALID_HANDLE

    # ---- modules and launches

    def cuModuleLoadDataEx(self, place: int, image: int, count: int, options: int | None, values: int | None) -> int:
        device = self._contexts.here()
        if not image:
            return INVALID_VALUE
        try:
            text = ptx_of(image)
            loaded = load_module(text, device.memory, device.limits, f"module {len(self._modules)} of PTX")
        except ImageError as error:
            write_log(count, options, values, error.text)
            return error.status
        except InterpreterError as error:
            write_log(count, options, values, str(error))
            return INVALID_PTX
        handle = next(self._handles)
        self._modules[handle] = (device, loaded)
        return write(place, c_void_p, handle)

    def cuModuleLoadData(self, place: int, image: int) -> int:
        return self.cuModuleLoadDataEx(place, image, 0, None, None)

    def cuModuleUnload(self, module: int) -> int:
        found = self._modules.pop(module, None)
        if found is None:
            return INVALID_HANDLE
        device, loaded = found
        for allocation in loaded.variables.values():
            if allocation.constant:
                device.memory.constants.remove(allocation)
            device.memory.free(device.memory.base + allocation.start)
        kernels = {id(one) for one in loaded.kernels.values()}
        for handle in [h for h, (_, one) in self._functions.items() if id(one) in kernels]:
            del self._functions[handle]
        return SUCCESS

    def cuModuleGetFunction(self, place: int, module: int, name: bytes) -> int:
        if module not in self._modules:
            return INVALID_HANDLE
        device, loaded = self._modules[module]
        kernel = loaded.kernels.get(name.decode())
        if kernel is None:
            return NOT_FOUND
        handle = next(self._handles)
        self._functions[handle] = (device, kernel)
        return write(place, c_void_p, handle)

    def cuModuleGetGlobal_v2(self, place: int | None, size: int | None, module: int, name: bytes) -> int:
        if module not in self._modules:
            return INVALID_HANDLE
        device, loaded = self._modules[module]
        found = loaded.variables.get(name.decode())
        if found is None:
            return NOT_FOUND
        if size:
            write(size, c_size_t, found.size)
        return write(place, c_void_p, device.memory.base + found.start) if place else SUCCESS

    def cuFuncGetAttribute(self, place: int, which: int, function: int) -> int:
        if function not in self._functions:
            return INVALID_HANDLE
        device, kernel = self._functions[function]
        program = kernel.program
        capability = device.limits.major * 10 + device.limits.minor
        version = program.module.version[0] * 10 + program.module.version[1]
        values = [
            kernel.threads, program.shared_bytes, 0, program.frame_bytes, 32, version, capability, 0,
            kernel.dynamic_limit or SHARED_DEFAULT - program.shared_bytes, -1,
        ]  # fmt: skip
        return write(place, c_int, values[which]) if 0 <= which < len(values) else INVALID_VALUE

    def cuFuncSetBlockShape(self, function: int, x: int, y: int, z: int) -> int:
        """Only launches of an old kind, which are not emulated, read the shape; pycuda sets it before each launch."""
        return SUCCESS if function in self._functions and min(x, y, z) > 0 else INVALID_VALUE

    def cuFuncSetAttribute(self, function: int, which: int, value: int) -> int:
        if function not in self._functions:
            return INVALID_HANDLE
        device, kernel = self._functions[function]
        if which == 8:
            if value < 0 or value + kernel.program.shared_bytes > device.limits.shared_opt_in:
                return INVALID_VALUE
            kernel.dynamic_limit = value
            return SUCCESS
        return SUCCESS if which == 9 else INVALID_VALUE

    def cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int | None,
        params: int | None, extra: int | None,
    ) -> int:  # fmt: skip
        if function not in self._functions:
            return INVALID_HANDLE
        device, kernel = self._functions[function]
        grid, block = (gx, gy, gz), (bx, by, bz)
        status = self._on(stream) or fits(device.limits, kernel, grid, block, shared)
        if status or device is not self._contexts.here():
            return status or INVALID_CONTEXT
        arguments = argument_bytes(kernel, params, extra)
        if arguments is None:
            return INVALID_VALUE

        def run(stream: int | None) -> int:
            record = LaunchRecord(kernel.program.name, grid, block, shared, stream or 0)
            self.launches.append(record)
            fault = launch_kernel(kernel, device.memory, record, arguments, self.options)
            if fault is None:
                return SUCCESS
            device.lost = (fault.code, str(fault.reason))
            return fault.code if self.blocking else SUCCESS

        return self._graphs.add(stream, run) if stream in self._graphs.capturing else run(stream)


__all__ = ["EmulatedDriver"]
