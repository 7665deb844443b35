"""``__cuda_array_interface__``, version 3: how pycuda, cupy, numba and torch show memory of a CUDA device to each other.

Source: numba's documentation, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

from ctypes import byref, c_int
from typing import Any

import numpy as np

from ..support.errors import FFIError
from .cuda.context import context
from .cuda.driver import INVALID_VALUE, SUCCESS, driver_in_use
from .device import Device, cuda
from .device_array import address_of, array_at
from .dtype import from_numpy

_DEVICE_ORDINAL = 9
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL."""


def export_cuda(array: np.ndarray, device: Device) -> dict[str, Any]:
    """The description of a device's array; work on it is ordered after the thread's current stream."""
    if array.dtype.kind == "V":
        raise AttributeError(f"__cuda_array_interface__ has no name for {array.dtype.name}: use DLPack")
    return {
        "shape": array.shape, "typestr": array.dtype.str, "data": (address_of(array), not array.flags.writeable), "version": 3,
        "strides": None if array.flags.c_contiguous else array.strides, "stream": device.memory.streams.current(device.index) or 1,
    }  # fmt: skip


def import_cuda(value: object) -> tuple[np.ndarray, Device]:
    """An array over the memory that an object shows, and its device. Raises FFIError E702, E704, and E734 without a driver."""
    try:
        found: dict[str, Any] = value.__cuda_array_interface__  # type: ignore[attr-defined]
        address, readonly = found["data"]
        dtype, shape, strides = np.dtype(found["typestr"]), tuple(found["shape"]), found.get("strides")
        masked, stream = found.get("mask"), found.get("stream")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FFIError("E704", f"cannot share the memory of a {type(value).__name__}: {error}") from error
    if masked is not None:
        raise FFIError("E704", f"the {type(value).__name__} has a mask, which tensors have not")
    canonical = from_numpy(dtype).numpy
    index = _device_of(address, value) if address and 0 not in shape else 0
    if stream is not None:
        here = context(index)
        here.order(0 if stream == 1 else stream, here.stream())
    return array_at(address, canonical, shape, value, strides, readonly), cuda(index)


def _device_of(address: int, value: object) -> int:
    """The number of the device whose memory begins at an address. Raises FFIError E704 where it is not a device's."""
    driver, place = driver_in_use(), c_int()
    status = driver.status("cuPointerGetAttribute", byref(place), _DEVICE_ORDINAL, address)
    if status == INVALID_VALUE:
        raise FFIError(
            "E704", f"the {type(value).__name__} shows the address {address:#x}, which is not memory of a CUDA device"
        )
    if status != SUCCESS:
        raise driver.error("cuPointerGetAttribute", status)
    return place.value
