"""Python functions called from programs of a device whose memory the host does not read: they get copies in the host's memory, and
what they write there goes back. A function that is registered with ``on_device=True`` gets the tensors themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ..device import CPU, Device
from ..registry import PackedFunc
from ..tensor import Tensor


class _Running(threading.local):
    """The device of the program that a thread runs, and not of the Python functions that it calls."""

    device: Device = CPU
    returned: list[tuple[Tensor, np.ndarray]] | None = None
    """Arrays of the host that the innermost call was given to write to, and the tensors that stand for them."""


_RUNNING = _Running()


def running_device() -> Device:
    """The device whose program calls from machine code of this thread."""
    return _RUNNING.device


@contextmanager
def _runs(device: Device) -> Iterator[None]:
    before, _RUNNING.device = _RUNNING.device, device
    try:
        yield
    finally:
        _RUNNING.device = before


def running_on(device: Device) -> RunningOn:
    """A block around a call of code of a device, or of the host."""
    return RunningOn(device, nullcontext() if device.host_memory else device.memory.calling(device.index))


class RunningOn:
    """The block of ``running_on``; gives what tells apart calls that run at the same time."""

    __slots__ = ("before", "block", "device", "returned")

    def __init__(self, device: Device, block: AbstractContextManager[Any]) -> None:
        self.device, self.block = device, block

    def __enter__(self) -> Any:
        lane = self.block.__enter__()
        self.before, _RUNNING.device = _RUNNING.device, self.device
        self.returned, _RUNNING.returned = _RUNNING.returned, None
        return lane

    def __exit__(self, *error: Any) -> None:
        _RUNNING.device, arrays = self.before, _RUNNING.returned
        _RUNNING.returned = self.returned
        try:
            if arrays and error[0] is None:
                for owner, array in arrays:
                    np.copyto(array, owner.numpy())
        finally:
            self.block.__exit__(*error)


def written_for(array: np.ndarray, device: Device) -> Tensor:
    """A tensor of a device in the place of an array of the host that a program writes to; it is copied back when the call ends."""
    made = Tensor(array, device)
    _RUNNING.returned = [*(_RUNNING.returned or ()), (made, array)]
    return made


def call_from_device(function: PackedFunc, args: Sequence[Any]) -> Any:
    """Call a registered function with values of a device's program."""
    with _runs(CPU):
        if function.on_device:
            return function.function(*args)
        loans = Loans()
        result = function.function(*[loans.lend(a) for a in args])
        loans.settle()
        return result


class Loans:
    """Copies in the host's memory of tensors of a device; one for all tensors over the same memory."""

    def __init__(self) -> None:
        self.copies: dict[tuple[Any, ...], tuple[Tensor, Tensor, np.ndarray]] = {}

    def lend(self, value: Any) -> Any:
        """A value with copies for tensors of a device."""
        if isinstance(value, tuple):
            return tuple([self.lend(v) for v in value])
        if not isinstance(value, Tensor) or value.device.host_memory:
            return value
        key = (value.data_ptr, value.dtype, value.shape, value.strides)
        if key not in self.copies:
            copy = Tensor(value.numpy())
            self.copies[key] = value, copy, copy.numpy().copy()
        return self.copies[key][1]

    def settle(self) -> None:
        """Copy back what was written."""
        for owner, copy, before in self.copies.values():
            if copy.numpy().tobytes() != before.tobytes():
                owner.copyfrom(copy)
