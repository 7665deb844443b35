"""DLPack capsules for every data type of ours.

numpy exports neither bfloat16 nor float8: such arrays are exported as unsigned integers of the same width, and the type code inside
the capsule (ours while nobody consumed it) is rewritten. Capsules of others are read here. Invariant: no memory is copied and the
producer's deleter stays the producer's.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..support.errors import FFIError
from .device import CPU, Device, device_from_dlpack
from .device_array import array_at, to_device, to_host
from .dtype import DataType, from_numpy

DLPACK_CODES: dict[str, int] = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6,
    "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11,
    "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
"""DLPack's type code by ``DataType.code``."""

_FOREIGN = {name for name in DLPACK_CODES if name == "bfloat" or name.startswith("float8")}
"""Codes of types that numpy does not export."""
_HOST_MEMORY = (1, 3, 11, 13)
"""DLPack's devices whose memory the host reads through plain pointers: cpu, and what CUDA and ROCm pin or manage."""
_TENSOR_OFFSET = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Where in the memory that a capsule points to its DLTensor begins."""
_DEVICE, _RANK, _TYPE, _SHAPE, _STRIDES, _START = 8, 16, 20, 24, 32, 40
"""Where the fields of a DLTensor lie; the address of its data is its first one."""
_FLAGS, _READ_ONLY = 24, 1

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def dlpack_type(dtype: DataType) -> tuple[int, int]:
    """DLPack's (code, bits) of a scalar type."""
    return DLPACK_CODES[dtype.code], dtype.bits


def _dltensor(capsule: object) -> tuple[int, int]:
    """The address of a fresh capsule's DLTensor, and the flags of its memory."""
    name = _api.PyCapsule_GetName(capsule)
    offset = _TENSOR_OFFSET.get(name)
    if offset is None:
        raise FFIError("E704", f"not a fresh DLPack capsule (its name is {name!r})")
    pointer = _api.PyCapsule_GetPointer(capsule, name)
    return pointer + offset, ctypes.c_uint64.from_address(pointer + _FLAGS).value if offset else 0


def export_array(array: np.ndarray, **options: object) -> object:
    """A DLPack capsule that shares the array's memory; ``options`` as for ``__dlpack__``."""
    dtype = from_numpy(array.dtype)
    if dtype.code not in _FOREIGN:
        return array.__dlpack__(**options)  # type: ignore[arg-type]
    capsule = array.view(f"u{dtype.itemsize}").__dlpack__(**options)  # type: ignore[arg-type]
    ctypes.c_uint8.from_address(_dltensor(capsule)[0] + _TYPE).value = DLPACK_CODES[dtype.code]
    return capsule


def _not_shared(producer: object, error: Exception) -> FFIError:
    return FFIError("E704", f"cannot share the memory of a {type(producer).__name__}: {error}",
                    help="pass an array, a dense tensor, or an object with __dlpack__ and __dlpack_device__")  # fmt: skip


# ---- memory that is not the host's


def export_from(
    array: np.ndarray, device: Device, stream: int | None = None, dl_device: tuple[int, int] | None = None,
    copy: bool | None = None, **options: object,
) -> object:  # fmt: skip
    """A DLPack capsule of a device's array, for work on the consumer's ``stream``; a copy for ``dl_device`` on the host."""
    if dl_device is not None and tuple(dl_device) != device.dlpack:
        if tuple(dl_device) != CPU.dlpack or copy is False:
            raise BufferError(f"a tensor on {device} is shared there, and copied to the cpu alone")
        return export_array(to_host(array, device), **options)
    streams = device.memory.streams
    if copy:
        array = to_device(to_host(array, device), device)
    if stream != -1:  # DLPack's word for a consumer that waits by itself
        then = 0 if stream is None or stream == streams.default else stream
        streams.order(device.index, streams.current(device.index), then)
    capsule = export_array(array, **options)
    (ctypes.c_int32 * 2).from_address(_dltensor(capsule)[0] + _DEVICE)[:] = list(device.dlpack)
    return capsule


def import_from(producer: object) -> tuple[np.ndarray, Device]:
    """An array over the memory of an object with ``__dlpack__``, and the device it lies on. Raises FFIError E702 to E704."""
    export: Any = getattr(producer, "__dlpack__", None)
    try:
        kind, index = producer.__dlpack_device__()  # type: ignore[attr-defined]
        device = CPU if kind in _HOST_MEMORY else device_from_dlpack(int(kind), index)
        if device is not CPU:
            streams = device.memory.streams
            return _read(export(stream=streams.current(device.index) or streams.default)), device
        try:
            return _read(export(max_version=(1, 0))), CPU  # only then read-only memory is shared
        except TypeError:
            return _read(export()), CPU
    except (BufferError, RuntimeError, AttributeError, TypeError, ValueError) as error:
        raise _not_shared(producer, error) from error


def _read(capsule: object) -> np.ndarray:
    """The array of a capsule, which is kept and never consumed: its own end tells the producer."""
    place, flags = _dltensor(capsule)
    code, bits, lanes, more = (ctypes.c_uint8 * 4).from_address(place + _TYPE)
    name = next((name for name, known in DLPACK_CODES.items() if known == code), None)
    if name is None or lanes != 1 or more:
        raise FFIError("E702", f"no data type has DLPack's code {code} with {bits} bits in {lanes + 256 * more} lanes")
    dtype = DataType(name if name == "bool" or name.startswith("float8") else f"{name}{bits}")
    rank = ctypes.c_int32.from_address(place + _RANK).value
    data, shape, strides, start = [ctypes.c_uint64.from_address(place + k).value for k in (0, _SHAPE, _STRIDES, _START)]
    extents = list((ctypes.c_int64 * rank).from_address(shape)) if rank else []
    steps = (
        [step * dtype.itemsize for step in (ctypes.c_int64 * rank).from_address(strides)] if strides and rank else None
    )
    return array_at(data + start, dtype.numpy, extents, capsule, steps, bool(flags & _READ_ONLY))
