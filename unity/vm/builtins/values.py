"""Run-time values beside tensors: closures; and arguments from outside turned into values.

Tensors are ``unity.Tensor``, tuples are tuples, shapes are tuples of int, scalars are Python numbers, storage is a flat
uint8 array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.device import Device
from ...ffi.tensor import Tensor, shared_tensor
from ...ffi.torch_bridge import is_torch_tensor
from ...support.errors import DeviceError, FFIError, VMError


@dataclass(slots=True, eq=False)
class Closure:
    """A function of the program with its first arguments already given. Call it like a function."""

    name: str
    captured: tuple[Any, ...]
    call: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        return self.call(*self.captured, *[to_value(a) for a in args])

    def __repr__(self) -> str:
        return f"<closure {self.name} with {len(self.captured)} captured values>"


def to_value(value: Any) -> Any:
    """A value from outside: numpy, torch and DLPack tensors are wrapped without copying, tuples and lists entered.

    Raises VMError E603 and E604 for tensors that cannot be shared.
    """
    try:
        return _value(value)
    except DeviceError:
        raise
    except FFIError as error:
        code = "E604" if error.code == "E702" else "E603"
        raise VMError(code, f"a {type(value).__name__} cannot be used: {error.message}", help=error.help) from error


def _value(value: Any) -> Any:
    if isinstance(value, (Tensor, int, float, str, Closure)) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if is_torch_tensor(value):
        return Tensor.from_torch(value)
    if isinstance(value, (tuple, list)):
        return tuple([_value(v) for v in value])
    if isinstance(value, np.generic):
        return value.item()
    found = shared_tensor(value)
    return value if found is None else found


def to_device_value(value: Any, device: Device) -> Any:
    """A value of the VM whose tensors lie on a device: those of the host are copied there. Raises VMError E612 for others."""
    if isinstance(value, tuple):
        return tuple([to_device_value(v, device) for v in value])
    if not isinstance(value, Tensor) or value.device == device:
        return value
    if not value.device.host_memory:
        raise VMError("E612", f"expected a tensor on {device}, got one on {value.device}",
                      help=f'copy it first: x.to("{device}")')  # fmt: skip
    return value.to(device)


def describe(value: Any) -> str:
    """A value in words, for messages."""
    if isinstance(value, Tensor):
        return f'a tensor {value.shape} of "{value.dtype}"'
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return (
        "None"
        if value is None
        else f"{type(value).__name__} {value!r}"
        if isinstance(value, (int, float))
        else f"a {type(value).__name__}"
    )


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Fresh memory, aligned to 64 bytes."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)
