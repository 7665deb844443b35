"""Arrays over memory of a device, and copies between them and the host.

Such an array is an exact ndarray whose shape, strides, data type and address are true and whose elements the host must not touch.
Invariant: it keeps the object alive that owns the memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..support.errors import FFIError
from .device import Device

ADDRESSES = 1 << 63
"""Bytes that no memory has."""
NO_DEVICE = 1 << 12
"""The address of arrays without elements whose owner gives none: numpy takes no zero. Nobody looks there."""


class _Memory:
    """Bytes at an address, in the form in which numpy takes them; ``owner`` lives as long as an array over them."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, owner: object, readonly: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, readonly), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def array_at(
    address: int,
    dtype: np.dtype,
    shape: Sequence[int],
    owner: object,
    strides: Sequence[int] | None = None,
    readonly: bool = False,
) -> np.ndarray:
    """An array over memory that starts at an address; ``strides`` in bytes, None for row-major order. Raises FFIError E704 for
    sizes below zero or beyond all memory, and for elements at the address 0."""
    shape = tuple(shape)
    if 0 in shape:
        strides, address = None, address or NO_DEVICE
    if not address or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize >= ADDRESSES:
        help = "the object that shows it says what cannot be"
        raise FFIError("E704", f"no array of shape {shape} begins at the address {address}", help=help)
    if strides is None:
        low, nbytes = 0, math.prod(shape) * dtype.itemsize
    else:
        reach = [(extent - 1) * step for extent, step in zip(shape, strides)]
        low = sum([min(r, 0) for r in reach])
        nbytes = sum([max(r, 0) for r in reach]) - low + dtype.itemsize
    memory: Any = np.asarray(_Memory(address + low, max(nbytes, 1), owner, readonly))
    return np.ndarray(shape, dtype, memory, -low, strides)


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def empty(device: Device, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Memory of a device, its elements not set. Raises DeviceError E736 where there is not so much."""
    block = device.memory.allocate(device.index, math.prod(shape) * dtype.itemsize)
    return array_at(block.address, dtype, shape, block)


def to_host(array: np.ndarray, device: Device) -> np.ndarray:
    """A compact copy in the host's memory, once the device has computed it."""
    if array.flags.c_contiguous:
        made = np.empty(array.shape, array.dtype)
        device.memory.to_host(device.index, address_of(made), address_of(array), array.nbytes)
        return made
    return _copy_span(array, device)[1].copy(order="C")


def _copy_span(array: np.ndarray, device: Device) -> tuple[np.ndarray, np.ndarray, int]:
    """The bytes that a strided array reaches over, copied to the host; the array over them; where on the device they begin."""
    low, high = np.lib.array_utils.byte_bounds(array)
    raw = np.empty(high - low, np.uint8)
    device.memory.to_host(device.index, address_of(raw), low, raw.nbytes)
    return raw, np.ndarray(array.shape, array.dtype, raw, address_of(array) - low, array.strides), low


def to_device(source: np.ndarray, device: Device) -> np.ndarray:
    """A compact copy of an array of the host on a device."""
    made = empty(device, source.shape, source.dtype)
    assign(made, device, source)
    return made


def assign(target: np.ndarray, device: Device, source: np.ndarray) -> None:
    """Elements of the host into an array of a device of the same shape and data type."""
    if target.flags.c_contiguous:
        given = np.asarray(source, order="C")
        device.memory.to_device(device.index, address_of(target), address_of(given), given.nbytes)
        return
    raw, view, low = _copy_span(target, device)
    view[...] = source
    device.memory.to_device(device.index, low, address_of(raw), raw.nbytes)


def copy_within(target: np.ndarray, source: np.ndarray, device: Device) -> None:
    """Elements of one array of a device into another one of the same shape and data type."""
    if target.flags.c_contiguous and source.flags.c_contiguous:
        device.memory.within(device.index, address_of(target), address_of(source), source.nbytes)
    else:
        assign(target, device, to_host(source, device))
