"""The CUDA driver in use: its functions by address, typed and checked.

A ``Driver`` is a name and the addresses of functions. NVIDIA's ``libcuda.so.1`` and an emulated driver are used in the same way.
Invariant: importing this file loads nothing; every status of a driver is checked; after a fork, a driver that the parent had
started is refused, because it would hang.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint64, c_void_p
from functools import cache
from typing import Any

from ...support.errors import DeviceError, Note
from ...support.forking import fork_lock

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuGetErrorName": (c_int, c_void_p),
    "cuGetErrorString": (c_int, c_void_p),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxGetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemGetInfo_v2": (c_void_p, c_void_p),
    "cuMemHostAlloc": (c_void_p, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuMemcpyDtoD_v2": (c_uint64, c_uint64, c_size_t),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8_v2": (c_uint64, c_uint8, c_size_t),
    "cuMemsetD8Async": (c_uint64, c_uint8, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamGetCtx": (c_void_p, c_void_p),
    "cuStreamIsCapturing": (c_void_p, c_void_p),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventQuery": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuModuleLoadDataEx": (c_void_p, c_void_p, c_uint, c_void_p, c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuModuleGetGlobal_v2": (c_void_p, c_void_p, c_void_p, c_char_p),
    "cuFuncGetAttribute": (c_void_p, c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, c_void_p),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
}
"""Types of the arguments of each function; each returns a status. Source: cuda.h of CUDA 13.0."""

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE, NOT_FOUND = 0, 1, 2, 400, 500
LOST = frozenset((214, 220, 226, 700, 702, 709, 710, *range(714, 720)))
"""Statuses after which every call in a context fails: memory errors, and illegal operations of kernels."""
IMAGE = frozenset((200, 209, 218, 220, 221, 222, 223, 225, 300, 301, NOT_FOUND)) - LOST
"""Statuses about the code of a module."""
_HELP = {
    1: "an argument is outside of what the function takes, as a grid of no blocks, or more threads than a block has",
    3: "the driver was shut down: the process is ending",
    201: "the thread has no context of the device",
    400: "the stream was freed, or is that of another device: each device has streams of its own",
    701: "the kernel asks for more threads, registers or shared memory than a block of this device has",
    802: "the system is not ready: nvidia-fabricmanager may not run",
    803: "the driver and its libraries are of different versions: restart the machine",
    900: "the work waits for the device, or the host reads what it computes, which a graph cannot do",
    901: "the work did what a graph cannot hold",
    804: "the driver is too old for this device's compatibility package",
}
_NOT_HERE = 'unity.cuda(0).exist says whether there is one; target="llvm" runs on the processor'


class Driver:
    """A CUDA driver: ``name``, and ``address(function)``, 0 for what it lacks. ``recycles``: may freed memory wait for its
    next use.

    Calls go through ``call`` and ``get``, which raise DeviceError E735 to E739 for a status that is not success, and E738 in a
    process forked after the driver was started.
    """

    def __init__(self, name: str, address: Callable[[str], int], recycles: bool = True) -> None:
        self.name, self.address, self.recycles = name, address, recycles
        self.contexts: dict[int, Any] = {}
        """Contexts by number of the device (`context.py`)."""
        self.lost: dict[int, tuple[str, str]] = {}
        """Lost contexts by handle: the reason, and the kernels that were launched last."""
        self.kernels: dict[int, str] = {}
        """Names of loaded kernels by handle."""
        self.recent: Callable[[], list[int]] = list
        """Gives the handles of the kernels that this thread launched last (`context.py`)."""
        self.ready = ctypes.c_uint64()
        """1 while the driver is in use and no context is lost: machine code may then launch without calling Python."""
        self.process = 0
        """The process in which the driver was started; 0 before."""
        self._lock = fork_lock()
        self._typed: dict[str, Callable[..., int]] = {}

    def __repr__(self) -> str:
        return f"<CUDA driver {self.name}>"

    def start(self) -> Driver:
        """Initialise the driver once. Raises DeviceError E734 if it has no device, E738 after a fork."""
        if self.process != os.getpid():
            with self._lock:
                self.require_own_process()
                if not self.process:
                    status = self.status("cuInit", 0)
                    if status != SUCCESS:
                        raise DeviceError("E734", f"the CUDA driver {self.name} does not start: {self.text(status)}",
                                       help=_HELP.get(status, _NOT_HERE))  # fmt: skip
                    self.process = os.getpid()
        return self

    def require_own_process(self) -> None:
        """Raise DeviceError E738 if the parent of this process started the driver."""
        if self.process != os.getpid() and self.process:
            raise DeviceError("E738", f"process {self.process} started the CUDA driver and forked: it cannot be used in this one",
                           help='start processes before the first use of a GPU, or with the method "spawn"')  # fmt: skip

    def typed(self, function: str) -> Callable[..., int]:
        """A function of the driver. Raises DeviceError E735 if the driver lacks it."""
        found = self._typed.get(function)
        if found is None:
            address = self.address(function)
            if not address:
                raise DeviceError(
                    "E735", f"the CUDA driver {self.name} has no {function}", help="install a newer driver"
                )
            found = self._typed[function] = ctypes.CFUNCTYPE(c_int, *FUNCTIONS[function])(address)
        return found

    def status(self, function: str, *args: Any) -> int:
        """Call a function and return its status unchecked."""
        return self.typed(function)(*args)

    def call(self, function: str, *args: Any) -> None:
        """Call a function and check its status."""
        self.require_own_process()
        status = (self._typed.get(function) or self.typed(function))(*args)
        if status:
            raise self.error(function, status)

    def get(self, function: str, *args: Any, kind: Any = c_void_p) -> int:
        """Call a function that stores its result at its first argument, check its status and return the result."""
        place = kind()
        self.call(function, ctypes.byref(place), *args)
        return place.value or 0

    def version(self) -> tuple[int, int]:
        """The version of CUDA that the driver supports."""
        number = self.get("cuDriverGetVersion", kind=c_int)
        return number // 1000, number % 1000 // 10

    def text(self, status: int) -> str:
        """A status in words."""
        words = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            place = c_char_p()
            known = self.address(function) and self.status(function, status, ctypes.byref(place)) == SUCCESS
            words.append(place.value.decode(errors="replace") if known and place.value else "")
        name, meaning = words
        return f"{name or 'status'} ({status})" + (f", {meaning}" if meaning else "")

    def error(self, what: str, status: int) -> DeviceError:
        """The error of a status. A lost context is recorded, so that later calls raise the same error."""
        text = self.text(status)
        if status in LOST:
            place = c_void_p()
            self.status("cuCtxGetCurrent", ctypes.byref(place))
            handle = place.value or 0
            if handle not in self.lost:
                names = [self.kernels.get(kernel, "an unloaded kernel") for kernel in self.recent()]
                self.lost[handle] = text, ", ".join(names)
            self.ready.value = 0
            return self.lost_error(what, handle)
        if status == OUT_OF_MEMORY:
            return DeviceError(
                "E736", f"{what}: {text}", help="drop tensors that are not needed, or use smaller batches"
            )
        if status in IMAGE:
            return DeviceError("E739", f"{what}: {text}", help="compile for the architecture of this device")
        return DeviceError("E735", f"{what} failed: {text}", help=_HELP.get(status))

    def lost_error(self, what: str, handle: int) -> DeviceError:
        """The error for the use of a lost context."""
        names = [f"cuda:{index}" for index, one in self.contexts.items() if one.handle == handle] or ["the CUDA device"]
        reason, launched = self.lost[handle]
        notes = [Note(f"the kernels that the thread launched last: {launched}")] if launched else []
        return DeviceError("E737", f"{what}: the context of {names[0]} is lost: {reason}", notes=notes,
                        help="a kernel accessed memory that is not its own, or was stopped; every tensor there is gone: "
                             "restart the process, with CUDA_LAUNCH_BLOCKING=1 to have the error at the launch of the kernel. "
                             "unity.testing.emulated_gpu() names the access, too")  # fmt: skip


_FORCED: list[Driver] = []
"""Drivers of the active ``use_driver`` blocks; the last one is used."""
_LOCK = fork_lock()
CURRENT: list[Driver] = []
"""The driver in use once it is started; empty if it has to be found first."""


def _set_current(*drivers: Driver) -> None:
    """Make a driver the one in use, or None: it is found when it is next needed."""
    for driver in CURRENT:
        driver.ready.value = 0
    CURRENT[:] = drivers
    for driver in drivers:
        driver.ready.value = not driver.lost


os.register_at_fork(after_in_child=_set_current)


@cache
def _machine() -> Driver | DeviceError:
    """NVIDIA's driver of this machine, or the reason why there is none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return DeviceError("E734", f"there is no CUDA driver on this machine: {error}", help=_NOT_HERE)
    return Driver("libcuda.so.1", lambda name: _address(library, name))


def _address(library: ctypes.CDLL, name: str) -> int:
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, c_void_p).value or 0


def driver_in_use() -> Driver:
    """The driver in use, started: that of ``use_driver``, else the machine's. Raises DeviceError E734 (none), E738."""
    for driver in CURRENT:
        return driver
    with _LOCK:
        found = _FORCED[-1] if _FORCED else _machine()
        if isinstance(found, DeviceError):
            raise DeviceError(found.code, found.message, help=found.help)
        _set_current(found.start())
    return found


@contextmanager
def use_driver(driver: Driver) -> Iterator[Driver]:
    """Use a driver for the whole process, such as an emulated one in tests."""
    driver.start()
    with _LOCK:
        _FORCED.append(driver)
        _set_current()
    try:
        yield driver
    finally:
        with _LOCK:
            _FORCED.remove(driver)
            _set_current()


def device_count() -> int:
    """Number of CUDA devices that programs can run on; 0 if there is no driver, or it cannot be used."""
    try:
        return driver_in_use().get("cuDeviceGetCount", kind=c_int)
    except DeviceError:
        return 0
