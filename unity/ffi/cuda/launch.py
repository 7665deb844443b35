"""Launches: from Python, and the addresses that machine code needs to launch by itself.

Machine code that launches a kernel calls ``cuLaunchKernel`` on the stream of its thread, in the context that its caller has made
current (``context.Launching``):

    %key = load i32, ptr @unity_cuda_thread_key
    %record = call ptr @pthread_getspecific(i32 %key)
    %stream = load ptr, ptr %record
    %status = call i32 @cuLaunchKernel(ptr %function, i32 %gx, ..., i32 %shared, ptr %stream, ptr %params, ptr null)

A status that is not 0 becomes the Python error of ``launch_failed``, with the GIL held: ``@unity_cuda_launch_failed`` is that
function as a Python object, called with the status and the kernel's name, after which the raw entry returns -1. Memory that a
program needs between its kernels comes from ``unity_cuda_allocate``, a null address where there is none (then ``launch_failed``
says so), and goes back to ``unity_cuda_release``; both take the GIL themselves.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_size_t, c_uint64, c_void_p
from typing import Any, NoReturn

from ...support.errors import DeviceError, UnityError
from .context import LIBC, Context, thread_key
from .driver import OUT_OF_MEMORY, Driver, driver_in_use
from .memory import Block, allocate

LAUNCH_FUNCTIONS = (
    "cuLaunchKernel", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuFuncSetAttribute", "cuTensorMapEncodeTiled"
)  # fmt: skip
"""Functions of the driver that machine code may call by their names."""


def launch(
    context: Context, function: int, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared: int = 0
) -> None:
    """Launch a kernel on the current stream. ``args`` are ctypes values; addresses of the device are ``c_uint64``."""
    places = (c_void_p * max(1, len(args)))(*[ctypes.addressof(a) for a in args])
    with context.current("launch"):
        context.driver.call(
            "cuLaunchKernel", function, *_three(grid), *_three(block), shared, context.stream(), places, None
        )


def _three(extents: Sequence[int]) -> tuple[int, ...]:
    return (*extents, 1, 1, 1)[:3]


def launch_failed(status: int, kernel: str) -> NoReturn:
    """Raise the error of a launch by machine code: DeviceError E735 to E739."""
    kept, _FAILED.error = _FAILED.error, None
    if status == OUT_OF_MEMORY and kept is not None:
        raise kept
    raise driver_in_use().error(f"the kernel {kernel}", status)


class _Failed(threading.local):
    """The reason why the last allocation of a thread by machine code failed."""

    error: UnityError | None = None


_FAILED = _Failed()
_HELD: dict[int, Block] = {}
"""Memory that machine code has asked for, by address."""


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
    """The context of the thread, as one of ours."""
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
