"""Launches: from Python, and the addresses that machine code needs to launch by itself.

Machine code that launches a kernel calls ``cuLaunchKernel`` on the stream of its thread, in the context that its caller has made
current (``context.Launching``):

    %key = load i32, ptr @unity_cuda_thread_key
    %record = call ptr @pthread_getspecific(i32 %key)
    %stream = load ptr, ptr %record
    ; %function is stored in the record's ring of the last launches
    %status = call i32 @cuLaunchKernel(ptr %function, i32 %gx, ..., i32 %shared, ptr %stream, ptr %params, ptr null)

A status that is not 0 becomes the Python error of ``launch_failed``, with the GIL held: ``@unity_cuda_launch_failed`` is that
function as a Python object, called with the status, the kernel's name and the address of grid, block and shared bytes (seven
integers, null for none), after which the raw entry returns -1. Memory that a
program needs between its kernels comes from ``unity_cuda_allocate``, a null address where there is none (then ``launch_failed``
says so), and goes back to ``unity_cuda_release``; both take the GIL themselves.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from ctypes import c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, NoReturn

from ...support.errors import DeviceError, UnityError
from .context import LIBC, Context, thread_key
from .driver import INVALID_VALUE, OUT_OF_MEMORY, Driver, driver_in_use
from .memory import Block, allocate

MAX_GRID_X, MAX_GRID_YZ, MAX_BLOCK_Z = 2**31 - 1, 65535, 64
"""Limits of every device. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""
OUT_OF_RESOURCES = 701
LAUNCH_FUNCTIONS = (
    "cuLaunchKernel", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuFuncSetAttribute", "cuTensorMapEncodeTiled",
    "cuTensorMapEncodeIm2col",
)  # fmt: skip
"""Functions of the driver that machine code may call by their names."""


def launch(
    context: Context, function: int, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared: int = 0
) -> None:
    """Launch a kernel on the current stream. ``args`` are ctypes values; addresses of the device are ``c_uint64``."""
    places = (c_void_p * max(1, len(args)))(*[ctypes.addressof(a) for a in args])
    with context.current("launch"):
        context.driver.call(
            "cuLaunchKernel", function, *_dim3(grid), *_dim3(block), shared, context.stream(), places, None
        )


def _dim3(extents: Sequence[int]) -> tuple[int, ...]:
    return (*extents, 1, 1, 1)[:3]


def launch_failed(status: int, kernel: str, counts: int = 0) -> NoReturn:
    """Raise the error of a launch by machine code: DeviceError E735 to E739."""
    kept, _FAILED.error = _FAILED.error, None
    if status == OUT_OF_MEMORY and kept is not None:
        raise kept
    if counts and status in (INVALID_VALUE, OUT_OF_RESOURCES):
        _refuse_size(kernel, tuple((c_int64 * 7).from_address(counts)))
    raise driver_in_use().error(f"the kernel {kernel}", status)


def _refuse_size(kernel: str, counts: tuple[int, ...]) -> None:
    """Raise DeviceError E735 where a launch is larger than the device takes."""
    context = _current_context()
    grid, block, shared = counts[:3], counts[3:6], counts[6]
    threads, room = math.prod(block), context.attribute("max_shared_memory_per_block_optin")
    most = context.attribute("max_threads_per_block")
    if threads > most or block[2] > MAX_BLOCK_Z:
        what = f"a block of {_shown(block)} threads, where at most {most}, and {MAX_BLOCK_Z} along z, fit"
    elif shared > room:
        what = f"{shared} bytes of shared memory for a block, which has {room}"
    elif max(grid[1:]) > MAX_GRID_YZ or grid[0] > MAX_GRID_X:
        what = (
            f"a grid of {_shown(grid)} blocks, where at most {MAX_GRID_X} along x and {MAX_GRID_YZ} along y and z fit"
        )
    else:
        return
    raise DeviceError("E735", f"the kernel {kernel} asks cuda:{context.index} ({context.name}) for {what}",
                      help="bind another loop, or split the one that is too long: its extent comes from the arguments")  # fmt: skip


def _shown(counts: tuple[int, ...]) -> str:
    return " x ".join(map(str, counts))


class _Failed(threading.local):
    """The reason why a thread's last allocation by machine code failed."""

    error: UnityError | None = None


_FAILED = _Failed()
_HELD: dict[int, Block] = {}
"""Memory that machine code has allocated, by address."""


def _allocate(nbytes: int) -> int:
    try:
        block = allocate(_current_context(), nbytes)
    except UnityError as error:
        _FAILED.error = error
        return 0
    _HELD[block.address] = block
    return block.address


def _release(address: int) -> None:
    _HELD.pop(address, None)


def _current_context() -> Context:
    """The current context of the thread, as a ``Context``."""
    driver = driver_in_use()
    handle = driver.get("cuCtxGetCurrent")
    for found in driver.contexts.values():
        if found.handle == handle:
            return found  # type: ignore[no-any-return]
    raise DeviceError(
        "E735", "the thread has no context of a CUDA device", help="call programs through the virtual machine"
    )


_ALLOCATE = ctypes.CFUNCTYPE(c_uint64, c_size_t)(_allocate)
_RELEASE = ctypes.CFUNCTYPE(None, c_uint64)(_release)


def launch_symbols(driver: Driver) -> dict[str, int]:
    """Addresses for machine code that launches kernels through a driver: see above."""
    symbols = {name: driver.address(name) for name in LAUNCH_FUNCTIONS}
    return symbols | {
        "pthread_getspecific": ctypes.cast(LIBC.pthread_getspecific, c_void_p).value or 0,
        "unity_cuda_thread_key": ctypes.addressof(thread_key()),
        "unity_cuda_launch_failed": id(launch_failed),
        "unity_cuda_allocate": ctypes.cast(_ALLOCATE, c_void_p).value or 0,
        "unity_cuda_release": ctypes.cast(_RELEASE, c_void_p).value or 0,
    }
