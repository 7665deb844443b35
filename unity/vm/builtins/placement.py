"""Where the tensors of a machine lie, and what changes with it: the VM's operations, values from outside, registered functions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...ffi.calls.host_copies import RunningOn, call_from_device
from ...ffi.device import CPU, Device
from ...ffi.registry import PackedFunc
from ...ffi.tensor import Tensor
from ...support.errors import DeviceError, Note
from .builtins import builtins_on
from .values import to_device_value, to_value


class Placement:
    """A device as the place of a machine's tensors; ``own_memory``: the host does not read it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.own_memory = not device.host_memory
        self.builtins = builtins_on(device)
        self.running: AbstractContextManager[Any] = RunningOn(device) if self.own_memory else nullcontext()
        """Around a call of the program."""

    def gate(self) -> int:
        """The words by which machine code enters the program without ``running``; 0 where the device has none."""
        return self.device.memory.gate(self.device.index)

    def value(self, value: Any) -> Any:
        """A value from outside the program: tensors of the host are copied to the device. Raises VMError E603, E604, E612."""
        found = to_value(value)
        return to_device_value(found, self.device) if self.own_memory else found

    def call(self, function: PackedFunc, args: Sequence[Any]) -> Any:
        """Call a registered function; its result as a value of the program."""
        if self.own_memory:
            return self.value(call_from_device(function, args))
        return to_value(function.function(*args))

    def constants(self, constants: Sequence[Tensor]) -> list[Tensor]:
        """A program's constants, copied to the device. Raises DeviceError E736 where they do not fit."""
        try:
            return [c.to(self.device) for c in constants] if self.own_memory else list(constants)
        except DeviceError as error:
            if error.code == "E736":
                total = sum([c.layout.nbytes for c in constants])
                error.notes.append(Note(f"the program has {len(constants)} constants of {total} bytes together"))
            raise


HOST = Placement(CPU)
