"""torch tensors to numpy arrays and back without copying. torch is imported only when a tensor goes there."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..support.errors import FFIError
from ..support.optional import require
from .device import CPU, DEVICE_KINDS, Device, device
from .device_array import array_at
from .dtype import DataType, from_numpy

if TYPE_CHECKING:
    import torch


_SHARED = frozenset("hilqefd")
"""numpy's letters of types that torch has too: a compact array of them needs no care."""


def shared_with_torch(dtype: DataType | None) -> bool:
    """True for types that numpy and torch both have: new memory of one goes to torch by ``torch.from_numpy`` alone."""
    return dtype is not None and dtype.lanes == 1 and not _is_carried(dtype) and dtype.numpy.char in _SHARED


def is_torch_tensor(value: object) -> bool:
    """True for a ``torch.Tensor``; never imports torch."""
    torch_module = sys.modules.get("torch")
    tensor_type = getattr(torch_module, "Tensor", None)
    return tensor_type is not None and isinstance(value, tensor_type)


def _is_carried(dtype: DataType) -> bool:
    """True for types that torch and numpy exchange as integers of the same width."""
    return dtype.code == "bfloat" or dtype.code.startswith("float8")


def array_from_torch(value: torch.Tensor) -> tuple[np.ndarray, Device]:
    """An array over a torch tensor's memory, and the device; gradients are cut as by ``detach``. Raises FFIError E703, E704."""
    torch_module = require("torch")
    kind = value.device.type
    if kind not in DEVICE_KINDS or (kind != CPU.kind and DEVICE_KINDS[kind].memory is None):
        raise FFIError(
            "E703", f"the torch tensor is on {value.device}, where no tensor can lie", help="call .cpu() first"
        )
    plain = value.detach()
    if plain.layout is not torch_module.strided or plain.is_conj() or plain.is_neg():
        raise FFIError("E704", "a sparse, conjugated or negated torch tensor has no plain memory to share",
                       help="call .to_dense() or .resolve_neg() first")  # fmt: skip
    if kind != CPU.kind:
        dtype = DataType(str(plain.dtype).removeprefix("torch."))
        steps = [step * dtype.itemsize for step in plain.stride()]
        try:
            address = plain.data_ptr()
        except RuntimeError as error:
            raise _without_memory(plain, error) from error
        return array_at(address, dtype.numpy, plain.shape, plain, steps), device(kind, value.device.index or 0)
    return _host_array(plain), CPU


def _host_array(plain: torch.Tensor) -> np.ndarray:
    """A numpy array over the memory of a torch tensor on the host."""
    torch_module = require("torch")
    name = str(plain.dtype).removeprefix("torch.")
    dtype = DataType(name)
    try:
        if _is_carried(dtype):
            carrier = torch_module.int16 if dtype.itemsize == 2 else torch_module.uint8
            result: np.ndarray = plain.view(carrier).numpy().view(dtype.numpy)
            return result
        shared: np.ndarray = plain.numpy()
        return shared
    except ValueError as error:
        raise FFIError("E704", f"a tensor of {plain.dim()} dimensions cannot be shared: {error}") from error
    except RuntimeError as error:
        raise _without_memory(plain, error) from error


def _without_memory(plain: torch.Tensor, error: RuntimeError) -> FFIError:
    """The error of tensors that torch.export, torch.vmap and the like trace with."""
    return FFIError(
        "E704", f"a torch {type(plain).__name__} without memory of its own cannot be shared: {error}",
        help="call compiled functions outside of torch.export, torch.vmap and other transformations of torch",
    )  # fmt: skip


@cache
def _carrier(dtype: np.dtype) -> tuple[np.dtype, torch.dtype] | None:
    """The integers that numpy hands to torch for a type, and what torch makes of them; None for types both have."""
    kind = from_numpy(dtype)
    target = getattr(require("torch"), kind.name, None)
    return (
        (np.dtype(np.int16 if kind.itemsize == 2 else np.uint8), target)
        if _is_carried(kind) and target is not None
        else None
    )


def torch_from_array(array: np.ndarray) -> torch.Tensor:
    """A torch tensor over a numpy array's memory. Raises FFIError E704 (type unknown to torch), E712 (read-only)."""
    made = _over_memory(array)
    return made if array.size else made.new_empty(array.shape)  # numpy gives arrays without elements no strides


def torch_from_device(producer: object, place: Device) -> torch.Tensor:
    """A torch tensor over a tensor's memory on a device. Raises FFIError E703 where torch has no such device."""
    try:
        made: torch.Tensor = require("torch").from_dlpack(producer)
        return made
    except (BufferError, RuntimeError, AssertionError, ValueError) as error:
        raise FFIError(
            "E703", f"torch cannot share memory of {place}: {error}", help="copy: tensor.to(unity.cpu()).torch()"
        ) from error


def _over_memory(array: np.ndarray) -> torch.Tensor:
    torch_module = sys.modules.get("torch") or require("torch")
    if array.dtype.char in _SHARED and array.flags.carray:
        plain: torch.Tensor = torch_module.from_numpy(array)
        return plain
    if not array.flags.writeable:
        raise FFIError("E712", "torch cannot share read-only memory", help="copy first: tensor.numpy().copy()")
    if any([step < 0 for step in array.strides]):
        raise FFIError("E704", "torch has no negative strides", help="copy first: tensor.numpy().copy()")
    carried = _carrier(array.dtype)
    if carried is not None:
        return torch_module.from_numpy(array.view(carried[0])).view(carried[1])  # type: ignore[no-any-return]
    name = from_numpy(array.dtype).name
    if getattr(torch_module, name, None) is None:
        raise FFIError("E704", f"torch has no data type {name}", help="cast the tensor first")
    shared: torch.Tensor = torch_module.from_numpy(array)
    return shared
