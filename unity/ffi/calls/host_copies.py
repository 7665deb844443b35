"""Python functions called from programs of a device whose memory the host does not read: they get copies in the host's memory, and
what they write there goes back. A function that is registered with ``on_device=True`` gets the tensors themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..device import CPU, Device
from ..registry import PackedFunc
from ..tensor import Tensor


class _Running:
    """The device of the program that a thread runs, and not of the Python functions that it calls."""

    __slots__ = ("before", "device", "returned")

    def __init__(self) -> None:
        self.device: Device = CPU
        self.returned: list[tuple[Tensor, np.ndarray]] | None = None
        """Arrays of the host that the innermost call was given to write to, and the tensors that stand for them."""
        self.before: list[tuple[Device, list[tuple[Tensor, np.ndarray]] | None, AbstractContextManager[Any]]] = []
        """Device and arrays of the calls around the innermost one, and its block."""


class _Threads(threading.local):
    """The work of each thread: one look into what is local to it, which takes longer than other attributes."""

    def __init__(self) -> None:
        self.running = _Running()


_THREADS = _Threads()


def running_device() -> Device:
    """The device whose program calls from machine code of this thread."""
    return _THREADS.running.device


class RunningOn:
    """A block around calls of code of a device, or of the host: gives what tells apart calls that run at the same time. One serves
    all threads, and calls inside calls."""

    __slots__ = ("calling", "device")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calling = nullcontext if device.host_memory else device.memory.calling

    def __enter__(self) -> Any:
        block = self.calling(self.device.index)
        lane = block.__enter__()
        running = _THREADS.running
        running.before.append((running.device, running.returned, block))
        running.device, running.returned = self.device, None
        return lane

    def __exit__(self, *error: Any) -> None:
        running = _THREADS.running
        arrays = running.returned
        running.device, running.returned, block = running.before.pop()
        try:
            if arrays and error[0] is None:
                for owner, array in arrays:
                    np.copyto(array, owner.numpy())
        finally:
            block.__exit__(*error)


HOST_CODE = RunningOn(CPU)


def device_copy(array: np.ndarray, device: Device) -> Tensor:
    """A tensor of a device in the place of an array of the host that a program writes to; it is copied back when the call ends."""
    made, running = Tensor(array, device), _THREADS.running
    running.returned = [*(running.returned or ()), (made, array)]
    return made


def call_from_device(function: PackedFunc, args: Sequence[Any]) -> Any:
    """Call a registered function with values of a device's program."""
    with HOST_CODE:
        if function.on_device:
            return function.function(*args)
        copies = HostCopies()
        result = function.function(*[copies.to_host(a) for a in args])
        copies.copy_back()
        return result


class HostCopies:
    """Copies in the host's memory of tensors of a device; one for all tensors over the same memory."""

    def __init__(self) -> None:
        self.copies: dict[tuple[Any, ...], tuple[Tensor, Tensor, np.ndarray]] = {}

    def to_host(self, value: Any) -> Any:
        """A value with copies for tensors of a device."""
        if isinstance(value, tuple):
            return tuple([self.to_host(v) for v in value])
        if not isinstance(value, Tensor) or value.device.host_memory:
            return value
        key = (value.data_ptr, value.dtype, value.shape, value.strides)
        if key not in self.copies:
            copy = Tensor(value.numpy())
            self.copies[key] = value, copy, copy.numpy().copy()
        return self.copies[key][1]

    def copy_back(self) -> None:
        """Copy back what was written."""
        for owner, copy, before in self.copies.values():
            if copy.numpy().tobytes() != before.tobytes():
                owner.copyfrom(copy)
