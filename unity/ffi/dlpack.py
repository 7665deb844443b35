"""DLPack capsules for every data type of ours, on top of numpy's own exchange.

numpy neither exports nor imports bfloat16 and float8. A capsule is passed through numpy as unsigned integers of the
same width, and only the type code inside the capsule (ours while nobody consumed it) is rewritten on the way.
Invariant: no memory is copied and the producer's deleter stays the producer's.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..support.errors import FFIError
from .dtype import DataType, from_numpy

DLPACK_CODES: dict[str, int] = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6,
    "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11,
    "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
"""DLPack's type code by ``DataType.code``."""

_FOREIGN = {code: name for name, code in DLPACK_CODES.items() if name == "bfloat" or name.startswith("float8")}
_HOST_MEMORY = (1, 3, 11, 13)
"""DLPack's devices whose memory the host reads through plain pointers: cpu, and what CUDA and ROCm pin or manage."""
_DTYPE_OFFSET = {b"dltensor": 20, b"dltensor_versioned": 52}

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def dlpack_type(dtype: DataType) -> tuple[int, int]:
    """DLPack's (code, bits) of a scalar type."""
    return DLPACK_CODES[dtype.code], dtype.bits


def _type_field(capsule: object) -> ctypes.Array[ctypes.c_uint8]:
    name = _api.PyCapsule_GetName(capsule)
    offset = _DTYPE_OFFSET.get(name)
    if offset is None:
        raise FFIError("E704", f"not a fresh DLPack capsule (its name is {name!r})")
    pointer = _api.PyCapsule_GetPointer(capsule, name)
    return (ctypes.c_uint8 * 4).from_address(pointer + offset)


def export_array(array: np.ndarray, **options: object) -> object:
    """A DLPack capsule that shares the array's memory; ``options`` as for ``__dlpack__``."""
    dtype = from_numpy(array.dtype)
    if DLPACK_CODES[dtype.code] not in _FOREIGN:
        return array.__dlpack__(**options)  # type: ignore[arg-type]
    capsule = array.view(f"u{dtype.itemsize}").__dlpack__(**options)  # type: ignore[arg-type]
    _type_field(capsule)[0] = DLPACK_CODES[dtype.code]
    return capsule


class _Patched:
    """A producer whose capsules say ``uint`` where the real one said bfloat16 or float8."""

    def __init__(self, producer: object) -> None:
        self.producer = producer
        self.dtype: DataType | None = None

    def __dlpack__(self, **options: object) -> object:
        try:
            capsule = self.producer.__dlpack__(**options)  # type: ignore[attr-defined]
        except TypeError:
            if not options:
                raise
            capsule = self.producer.__dlpack__()  # type: ignore[attr-defined]
        field = _type_field(capsule)
        name = _FOREIGN.get(field[0])
        if name is not None:
            self.dtype = DataType(f"bfloat{field[1]}" if name == "bfloat" else name)
            field[0] = DLPACK_CODES["uint"]
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.producer.__dlpack_device__()  # type: ignore[attr-defined, no-any-return]


def import_array(producer: object) -> np.ndarray:
    """A numpy array over the memory of an object with ``__dlpack__`` on the cpu. Raises FFIError E703, E704."""
    patched = _Patched(producer)
    try:
        kind, index = patched.__dlpack_device__()
        if kind not in _HOST_MEMORY:
            place = f"DLPack's device ({int(kind)}, {index})"
            raise FFIError("E703", f"the {type(producer).__name__} lies on {place}, expected the cpu",
                           help="copy it to the cpu first")  # fmt: skip
        array = np.from_dlpack(patched)  # type: ignore[arg-type]
    except (BufferError, RuntimeError, AttributeError, TypeError, ValueError) as error:
        raise FFIError("E704", f"cannot share the memory of a {type(producer).__name__}: {error}") from error
    return array if patched.dtype is None else array.view(patched.dtype.numpy)
