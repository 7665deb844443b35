"""Addresses that native code needs at run time: Python types and singletons, numpy's C functions, dtype objects.

One array of 64-bit words for the process, known to generated code as ``@unity_runtime``; word ``SLOTS[name]`` holds
the address (or number) called ``name``. Invariant: an object in the table is kept alive for ever; words of torch are
zero until torch tensors are first seen, and comparing a type with zero never holds.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from ...support.errors import InternalError, VMError
from ..device import CPU
from ..dlpack import dlpack_type
from ..dtype import DataType, dtype_names
from ..machine_code.layout import immortal, member_offset
from ..tensor import Tensor

_FIXED = (
    "ndarray", "tensor", "torch_tensor", "torch_parameter", "torch_exchange", "tensor_array", "tensor_device",
    "cpu", "None", "True", "False", "int", "float", "tuple", "numpy_new", "numpy_set_base", "memory_handler", "raise",
)  # fmt: skip
_ADDED = ("torch_is_neg",)
SLOTS: dict[str, int] = {
    name: index
    for index, name in enumerate(
        [
            *_FIXED,
            *[f"dtype.{name}" for name in dtype_names()],
            *[f"itemsize.{name}" for name in dtype_names()],
            *_ADDED,
        ]
    )
}
"""Word number by name; saved objects know the numbers, so new words come last."""

DTYPE_INDEX: dict[str, int] = {name: index for index, name in enumerate(dtype_names())}
"""Number of a data type in the calls of the native helpers."""

TABLE = (ctypes.c_uint64 * len(SLOTS))()
immortal(TABLE)

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_NUMPY_NEW_FROM_DESCR = 94
_NUMPY_SET_BASE = 282


def slot_offset(name: str) -> int:
    """Byte offset of a word in the table."""
    return SLOTS[name] * 8


def put(name: str, value: int) -> None:
    """Set a word of the table."""
    TABLE[SLOTS[name]] = value


def put_object(name: str, value: object) -> None:
    """Set a word to an object's address and keep the object for ever."""
    put(name, id(immortal(value)))


def raise_native(code: int, first: int, second: int) -> None:
    """Raise the error that native code reports by number (see ``docs/calling_convention.md``)."""
    if code == 1:
        raise VMError("E615", f"a tensor computed at run time has the impossible extent {first} in dimension {second}")
    if code == 2:
        raise VMError("E615", "a tensor computed at run time is too large", help=f"its size is beyond {first} bytes")
    if code == 3:
        raise VMError("E615", f"out of memory: {first} bytes for a result")
    raise InternalError("E951", f"native and Python checks disagree about valid arguments (code {code})")


def _fill() -> None:
    put_object("ndarray", np.ndarray)
    put_object("tensor", Tensor)
    put("tensor_array", member_offset(Tensor.__dict__["_array"]))
    put("tensor_device", member_offset(Tensor.__dict__["_device"]))
    put_object("cpu", CPU)
    for name, value in (
        ("None", None),
        ("True", True),
        ("False", False),
        ("int", int),
        ("float", float),
        ("tuple", tuple),
    ):
        put_object(name, value)
    put_object("raise", raise_native)
    api = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    table = _api.PyCapsule_GetPointer(api, None)
    put("numpy_new", ctypes.c_uint64.from_address(table + 8 * _NUMPY_NEW_FROM_DESCR).value)
    put("numpy_set_base", ctypes.c_uint64.from_address(table + 8 * _NUMPY_SET_BASE).value)
    for name in dtype_names():
        put_object(f"dtype.{name}", DataType(name).numpy)
        put(f"itemsize.{name}", DataType(name).itemsize)


class _Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p), ("calloc", ctypes.c_void_p), ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]  # fmt: skip


def set_memory_handler(malloc: int, calloc: int, realloc: int, free: int) -> None:
    """Name the C functions with which numpy frees (and resizes) memory that native code allocated for a result."""
    handler = _Handler(b"unity", 1, None, malloc, calloc, realloc, free)
    immortal(handler)
    put_object("memory_handler", _api.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None))


def activate_torch() -> None:
    """Let native code read torch tensors directly, once torch is imported and offers DLPack's C exchange table."""
    torch: Any = sys.modules.get("torch")
    if getattr(torch, "Tensor", None) is None or TABLE[SLOTS["torch_tensor"]]:
        return
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return
    table = _api.PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
    major = ctypes.c_uint32.from_address(table).value
    function = ctypes.c_uint64.from_address(table + 16 + 3 * 8).value
    if major != 1 or not function:
        return
    put("torch_exchange", function)
    put_object("torch_is_neg", torch.Tensor.is_neg)
    put_object("torch_parameter", torch.nn.Parameter)
    put_object("torch_tensor", torch.Tensor)


def packed_dlpack_type(dtype: str) -> int:
    """DLPack's type as the 32-bit number that a DLTensor holds (one lane)."""
    code, bits = dlpack_type(DataType(dtype))
    return code | bits << 8 | 1 << 16


_fill()
