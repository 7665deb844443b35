"""A CUDA driver whose functions are Python: memory that the host cannot read by the addresses it gives, statuses as a test asks.

Addresses lie in a range that nobody may touch; the bytes lie in a shadow. Kernels are Python functions by name.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from unity.ffi.cuda.driver import FUNCTIONS, Driver

LIMIT = 1 << 26
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_uint64
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


class ScriptedDriver:
    """``fail[function]`` is the status that a function gives; ``calls`` are the functions called, in order. ``crashes``: those that
    were given a stream of ``destroyed``; ``captured``: streams that somebody captures."""

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.fail: dict[str, int] = {}
        self.calls: list[str] = []
        self.crashes: list[str] = []
        self.destroyed: set[int] = set()
        self.captured: set[int] = set()
        self.base = LIBC.mmap(None, LIMIT, 0, 0x4022, -1, 0)  # no access, private, without memory
        self.shadow = ctypes.create_string_buffer(LIMIT)
        self.blocks: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        """Number of the device that a block is on."""
        self.top = 1 << 12
        self.contexts: dict[int, int] = {}
        self.handles = 0x1000
        self.kernels: dict[str, Callable[..., None]] = {}
        self.functions: dict[int, str] = {}
        self.launches: list[tuple[Any, ...]] = []
        self._made: dict[str, Any] = {}
        self.driver = Driver("scripted", self.address)

    def address(self, name: str) -> int:
        body = getattr(self, name, None)
        if body is None:
            return 0
        if name not in self._made:

            def call(*args: Any) -> int:
                self.calls.append(name)
                if not self.destroyed.isdisjoint(args):
                    self.crashes.append(name)
                status = self.fail.get(name, 0)
                return status or body(*args) or 0

            self._made[name] = ctypes.CFUNCTYPE(ctypes.c_int, *FUNCTIONS[name])(call)
        return ctypes.cast(self._made[name], ctypes.c_void_p).value or 0

    def handle(self) -> int:
        self.handles += 16
        return self.handles

    def bytes_of(self, address: int, count: int) -> Any:
        """The shadow of memory that lies inside one block."""
        for start, size in self.blocks.items():
            if start <= address and address + count <= start + size:
                return (ctypes.c_char * count).from_buffer(self.shadow, address - self.base)
        raise AssertionError(f"{count} bytes at {address:#x} are no memory of the device")

    def cuInit(self, flags):
        pass

    def cuDriverGetVersion(self, out):
        put(out, 13000, ctypes.c_int)

    def cuGetErrorName(self, status, out):
        put(out, ctypes.cast(NAMES.get(status, b"CUDA_ERROR"), ctypes.c_void_p).value)

    def cuDeviceGetCount(self, out):
        put(out, self.devices, ctypes.c_int)

    def cuDeviceGet(self, out, index):
        put(out, 100 + index, ctypes.c_int)

    def cuDeviceGetName(self, out, count, number):
        name = f"Scripted {number - 100}".encode() + b"\0"
        ctypes.memmove(out, name, len(name))

    def cuDeviceGetAttribute(self, out, attribute, number):
        put(out, {75: 9, 76: 0, 10: 32, 1: 1024}.get(attribute, 7), ctypes.c_int)

    def cuDevicePrimaryCtxRetain(self, out, number):
        put(out, 0xC0000 + number)

    def cuCtxGetCurrent(self, out):
        put(out, self.contexts.get(thread(), 0))

    def cuCtxSetCurrent(self, handle):
        self.contexts[thread()] = handle or 0

    def cuCtxSynchronize(self):
        pass

    def cuMemAlloc_v2(self, out, count):
        if sum(self.blocks.values()) + count > LIMIT // 2 or self.top + count > LIMIT:
            return 2
        address = self.base + self.top
        self.top += (count + 511) // 512 * 512
        self.blocks[address] = count
        self.owners[address] = self.contexts[thread()] - 0xC0000 - 100
        self.bytes_of(address, count)[:] = b"\xff" * count
        put(out, address)

    def cuMemFree_v2(self, address):
        return 1 if self.blocks.pop(address, None) is None else 0

    def cuPointerGetAttribute(self, out, attribute, address):
        inside = [start for start, size in self.blocks.items() if start <= address < start + size]
        if attribute != 9 or not inside:
            return 1
        put(out, self.owners[inside[0]], ctypes.c_int)

    def cuMemGetInfo_v2(self, free, total):
        put(free, LIMIT // 2 - sum(self.blocks.values()))
        put(total, LIMIT // 2)

    def cuMemcpyHtoDAsync_v2(self, target, source, count, stream):
        self.bytes_of(target, count)[:] = ctypes.string_at(source, count)

    def cuMemcpyDtoHAsync_v2(self, target, source, count, stream):
        ctypes.memmove(target, bytes(self.bytes_of(source, count)), count)

    def cuMemcpyDtoDAsync_v2(self, target, source, count, stream):
        self.bytes_of(target, count)[:] = bytes(self.bytes_of(source, count))

    def cuMemsetD8Async(self, target, value, count, stream):
        self.bytes_of(target, count)[:] = bytes([value]) * count

    def cuStreamCreate(self, out, flags):
        put(out, self.handle())

    def cuStreamDestroy_v2(self, stream):
        self.destroyed.add(stream)

    def cuStreamSynchronize(self, stream):
        pass

    def cuStreamIsCapturing(self, stream, out):
        ctypes.c_int.from_address(out).value = stream in self.captured

    def cuStreamWaitEvent(self, stream, event, flags):
        pass

    def cuEventSynchronize(self, event):
        pass

    def cuMemHostAlloc(self, out, size, flags):
        self.pinned = ctypes.create_string_buffer(size)
        put(out, ctypes.addressof(self.pinned))

    def cuEventCreate(self, out, flags):
        put(out, self.handle())

    def cuEventRecord(self, event, stream):
        pass

    def cuEventDestroy_v2(self, event):
        pass

    def cuModuleLoadDataEx(self, out, image, count, options, values):
        put(out, self.handle())

    def cuModuleUnload(self, module):
        pass

    def cuModuleGetFunction(self, out, module, name):
        if name.decode() not in self.kernels:
            return 500
        found = self.handle()
        self.functions[found] = name.decode()
        put(out, found)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        self.launches.append((self.functions[function], (gx, gy, gz), (bx, by, bz), shared, stream))
        self.kernels[self.functions[function]](self, params)


NAMES = {2: b"CUDA_ERROR_OUT_OF_MEMORY", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 500: b"CUDA_ERROR_NOT_FOUND"}


def put(place: int, value: int, kind: Any = ctypes.c_uint64) -> None:
    kind.from_address(place).value = value


def thread() -> int:
    return threading.get_native_id()
