"""The native helpers: small functions in LLVM IR that checked entries, drivers and kernels call by name.

They read tensors, make result tensors, call Python, and keep the GIL's rules; ``docs/calling_convention.md`` lists
them. Compiled once per process (from the object cache where it has them). Invariant: a helper that fails returns
null, false or -1 with the Python error set (``unity_extract`` alone reports false without an error).
"""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache

from ...support.options import int_option
from ..machine_code.engine import Engine
from ..machine_code.layout import (
    ALIGNED,
    ARRAY_DATA,
    ARRAY_DESCR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_HANDLER,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    C_CONTIGUOUS,
    WRITEABLE,
    check_layouts,
    immortal,
)
from ..machine_code.llvm import CompileOptions
from .helpers_device_ir import DEVICE_IR
from .helpers_object_ir import OBJECTS_IR
from .helpers_tensor_ir import EXTRACT_IR, TENSORS_IR
from .memory_ir import memory_ir
from .runtime_table import DTYPE_INDEX, SLOTS, TABLE, set_memory_handler, slot_offset

LEAF_BYTES = 32
"""Size of a leaf record: {ptr or scalar bits, ptr object, ptr dims, i64 ndim}."""

_DECLARATIONS = f"""\
@unity_runtime = external global [{len(SLOTS)} x i64]
declare ptr @aligned_alloc(i64, i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyModule_GetDict(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyFloat_FromDouble(double)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare {{ i64, i1 }} @llvm.sadd.with.overflow.i64(i64, i64)
declare {{ i64, i1 }} @llvm.ssub.with.overflow.i64(i64, i64)
declare {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64, i64)
"""

OPTIONS = CompileOptions(pipeline="O2")
_HELPERS = (EXTRACT_IR, TENSORS_IR, OBJECTS_IR, DEVICE_IR)
HELPER_DECLARATIONS = _DECLARATIONS + "".join([
    f"declare {head}\n" for head in re.findall(r"^define ((?!internal)[^)]*\))", "".join(_HELPERS), re.MULTILINE)
])  # fmt: skip
"""Text to put at the top of a module that calls the helpers."""


def dtype_index(name: str) -> int:
    """The number by which helpers know a data type."""
    return DTYPE_INDEX[name]


def helper_ir() -> str:
    """LLVM IR text of all helpers."""
    places = {name: slot_offset(name) for name in SLOTS}
    first = next(iter(DTYPE_INDEX))
    places |= {"dtypes": slot_offset(f"dtype.{first}"), "itemsizes": slot_offset(f"itemsize.{first}")}
    places |= {
        "data": ARRAY_DATA, "ndim": ARRAY_NDIM, "dims": ARRAY_DIMS, "strides": ARRAY_STRIDES, "descr": ARRAY_DESCR,
        "flags": ARRAY_FLAGS, "handler": ARRAY_HANDLER, "carray": C_CONTIGUOUS | ALIGNED | WRITEABLE,
    }  # fmt: skip
    return "".join([_DECLARATIONS, *[part.format(**places) for part in _HELPERS], memory_ir()])


@cache
def helper_engine() -> Engine:
    """The loaded helpers; live as long as the process, since numpy frees result memory through them.

    Raises InternalError E952 where objects are laid out differently from what the helpers read.
    """
    check_layouts()
    engine = Engine({"unity_runtime": ctypes.addressof(TABLE)}).add_ir(helper_ir(), OPTIONS)
    set_memory_handler(*[engine.address(f"unity_handler_{part}") for part in ("malloc", "calloc", "realloc", "free")])
    ctypes.c_uint64.from_address(engine.address("unity_memory_limit")).value = int_option("UNITY_RECYCLE_BYTES")
    immortal(engine)
    return engine


def recycled_bytes() -> int:
    """Bytes of dropped results and temporaries that wait for the next ones."""
    return ctypes.c_uint64.from_address(helper_engine().address("unity_memory_kept")).value


def release_recycled() -> None:
    """Give the memory that waits for the next results back to the system."""
    ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)(helper_engine().address("unity_memory_trim"))(0, 0)


@cache
def allocator_symbols() -> dict[str, int]:
    """The addresses of ``aligned_alloc`` and ``free`` for the drivers and kernels of this process."""
    engine = helper_engine()
    return {"aligned_alloc": engine.address("unity_memory_alloc"), "free": engine.address("unity_memory_free")}


@cache
def helper_symbols() -> dict[str, int]:
    """Addresses of the helpers by name, for the ``symbols`` of an Engine whose code calls them."""
    engine = helper_engine()
    found = {name: engine.address(name) for name in engine.names() if not name.startswith("unity_handler")}
    return found | {"unity_runtime": ctypes.addressof(TABLE)}


def trim_heap() -> bool:
    """Give free pages of the C library's heap back to the system; False where the C library cannot (other than glibc).

    It keeps large freed pieces for itself: its threshold for own mappings grows with what is freed.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return trim is not None and trim(ctypes.c_size_t(0)) == 1
