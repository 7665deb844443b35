"""Offsets of fields inside Python and numpy objects for native code, and a check of them against this interpreter.

The offsets hold for 64-bit CPython with the GIL and numpy 2. ``check_layouts`` compares every one of them with live
objects before the first machine code is loaded, so another layout is an error and never a wrong read.
"""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from ...support.errors import InternalError

OBJECT_TYPE = 8
VAR_SIZE, TUPLE_ITEMS, FLOAT_VALUE = 16, tuple.__basicsize__, 16
ARRAY_DATA, ARRAY_NDIM, ARRAY_DIMS, ARRAY_STRIDES, ARRAY_BASE, ARRAY_DESCR, ARRAY_FLAGS = 16, 24, 32, 40, 48, 56, 64
ARRAY_HANDLER = 88
C_CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400
"""numpy's array flags."""

MEMBER_DEFINITION, DEFINITION_OFFSET = 40, 16


def immortal(value: object) -> object:
    """Keep an object until the process ends, past the interpreter's own shutdown, and return it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


def _word(value: object, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(value) + offset).value


def _capsule_name(address: int) -> bytes | None:
    """Name of the capsule at an address; PyCapsule: head, pointer, name."""
    if ctypes.c_uint64.from_address(address + OBJECT_TYPE).value != id(type(np._core._multiarray_umath._ARRAY_API)):  # type: ignore[attr-defined]
        return None
    return ctypes.c_char_p.from_address(address + 24).value


def wrong_layouts() -> list[str]:
    """Names of the facts that do not hold here; empty where machine code may be loaded."""
    array = np.zeros((3, 5), np.int16)
    view = array[1:]
    flags = ctypes.c_int32.from_address(id(array) + ARRAY_FLAGS).value
    dims = ctypes.c_int64 * 2
    facts = {
        "64-bit pointers": struct.calcsize("P") == 8,
        "object type": _word(array, OBJECT_TYPE) == id(np.ndarray),
        "tuple size": _word((1, 2, 3), VAR_SIZE) == 3,
        "tuple items": _word((array, view), TUPLE_ITEMS + 8) == id(view),
        "float value": ctypes.c_double.from_address(id(0.625) + FLOAT_VALUE).value == 0.625,
        "array data": _word(array, ARRAY_DATA) == array.ctypes.data,
        "array rank": ctypes.c_int32.from_address(id(array) + ARRAY_NDIM).value == 2,
        "array base": _word(view, ARRAY_BASE) == id(array),
        "array type": _word(array, ARRAY_DESCR) == id(array.dtype),
        "array flags": flags & 0x505 == C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE,
    }
    if all(facts.values()):  # only then are the pointers behind them safe to follow
        facts["array extents"] = tuple(dims.from_address(_word(array, ARRAY_DIMS))) == (3, 5)
        facts["array strides"] = tuple(dims.from_address(_word(array, ARRAY_STRIDES))) == (10, 2)
        facts["memory handler"] = _capsule_name(_word(array, ARRAY_HANDLER)) == b"mem_handler"
    return [name for name, holds in facts.items() if not holds]


def check_layouts() -> None:
    """Raises InternalError E952 where this interpreter or numpy lays objects out differently."""
    wrong = wrong_layouts()
    if wrong:
        raise InternalError("E952", f"machine code does not know this interpreter's objects: {', '.join(wrong)}",
                            help="use 64-bit CPython 3.11 or later with the GIL, and numpy 2")  # fmt: skip


def member_offset(member: object) -> int:
    """Byte offset of a ``__slots__`` entry in instances, from its descriptor (PyMemberDescrObject)."""
    definition = _word(member, MEMBER_DEFINITION)
    return ctypes.c_ssize_t.from_address(definition + DEFINITION_OFFSET).value
