"""Raw entries that call Python functions: how a device that is driven from Python looks like machine code to the virtual machine.

An entry stores its arguments as 64-bit words and calls the Python object behind a symbol of its own with their address. The
function gets numpy arrays over the memory of its buffers and Python numbers; what it raises leaves the entry as status -1.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..abi import BufferParam, KernelSignature, evaluate, linkage_ir
from ..calls.object_ir import llvm_scalar
from ..dtype import DataType
from ..machine_code.engine import Engine
from ..machine_code.llvm import CompileOptions

_DECLARATIONS = """\
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)
@format = private constant [2 x i8] c"K\\00"
"""
_BODY = """\
  %held = call i32 @PyGILState_Ensure()
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @"{function}", ptr @format, ptr %words)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %answered
raised:
  call void @PyGILState_Release(i32 %held)
  ret i32 -1
answered:
  call void @Py_DecRef(ptr %answer)
  call void @PyGILState_Release(i32 %held)
  ret i32 0
}}
"""


Bytes = Callable[[int, int], Any]
"""The bytes of memory, as a buffer that numpy takes, by their address and number."""


def host_bytes(address: int, nbytes: int) -> Any:
    """Memory of the host."""
    return (ctypes.c_char * nbytes).from_address(address)


def python_kernels(
    engine: Engine,
    functions: Mapping[str, Callable[..., Any]],
    kernels: Mapping[str, KernelSignature],
    memory: Bytes = host_bytes,
) -> None:
    """Give tensor programs entries in ``engine`` that call Python functions: ``functions`` by symbol, ``kernels`` their signatures.

    A function is called with its parameters in order; it writes into the arrays and gives the scalar that the program returns.
    ``memory(address, bytes)`` is the memory of a buffer, for a device whose addresses the host cannot follow.
    """
    known = {symbol: f for symbol, f in functions.items() if symbol in kernels}
    word_kernels(engine, {symbol: _Call(f, kernels[symbol], memory) for symbol, f in known.items()}, kernels)


def word_kernels(
    engine: Engine, functions: Mapping[str, Callable[[int], None]], kernels: Mapping[str, KernelSignature]
) -> None:
    """Give tensor programs entries that call Python objects with the address of the entry's arguments as 64-bit words."""
    for symbol, function in functions.items():
        engine.add_symbol(f"{symbol}.function", id(function))
        engine.keep_alive(function)
        engine.add_ir(word_kernel_ir(symbol, kernels[symbol]), OPTIONS)


OPTIONS = CompileOptions(pipeline="light", opt=0)


def word_kernel_ir(symbol: str, signature: KernelSignature) -> str:
    """LLVM IR of the entry of one tensor program, under its symbol and under the name that the virtual machine asks for."""
    types = ["ptr" if isinstance(p, BufferParam) else llvm_scalar(DataType(p.dtype)) for p in signature.params]
    types += ["i64"] * len(signature.symbols) + ["ptr"] * (signature.result is not None)
    params = ", ".join([f"{ty} %a{number}" for number, ty in enumerate(types)])
    stores = []
    for number, ty in enumerate(types):
        stores.append(f"  %w{number} = getelementptr i64, ptr %words, i64 {number}")
        stores.append(f"  store {ty} %a{number}, ptr %w{number}")
    lines = [
        f'@"{symbol}.function" = external global i8', f'define i32 @"{symbol}"({params}) {{',
        f"  %words = alloca i64, i64 {max(1, len(types))}", *stores,
    ]  # fmt: skip
    return (
        _DECLARATIONS
        + "\n".join(lines)
        + "\n"
        + _BODY.format(function=f"{symbol}.function")
        + linkage_ir(symbol, signature)
    )


class _Call:
    """The Python object behind an entry. Called with the address of the words."""

    def __init__(self, function: Callable[..., Any], signature: KernelSignature, memory: Bytes) -> None:
        self.function, self.signature, self.memory = function, signature, memory

    def __call__(self, address: int) -> None:
        signature = self.signature
        first = address + 8 * len(signature.params)
        symbols = [ctypes.c_int64.from_address(first + 8 * k).value for k in range(len(signature.symbols))]
        values = [
            _array(place, p, symbols, self.memory) if isinstance(p, BufferParam) else _scalar(place, p.dtype).item()
            for place, p in zip(range(address, first, 8), signature.params, strict=True)
        ]
        result = self.function(*values)
        if signature.result is not None:
            place = ctypes.c_uint64.from_address(first + 8 * len(symbols)).value
            _scalar(place, signature.result)[...] = result


def _scalar(address: int, dtype: str) -> np.ndarray[Any, Any]:
    """One element of memory."""
    item = DataType("uint64" if dtype == "handle" else dtype)
    memory: Any = (ctypes.c_char * item.itemsize).from_address(address)
    return np.frombuffer(memory, item.numpy).reshape(())


def _array(address: int, param: BufferParam, symbols: list[int], bytes_of: Bytes) -> np.ndarray[Any, Any]:
    """The array of a buffer whose address lies at an address."""
    item = DataType(param.dtype).numpy
    shape, steps, count = reach(param, symbols)
    if 0 in shape:
        return np.empty(shape, item)
    memory = bytes_of(ctypes.c_uint64.from_address(address).value, count)
    return np.ndarray(shape, item, memory, strides=steps or None)


def reach(param: BufferParam, symbols: list[int]) -> tuple[list[int], list[int], int]:
    """The extents of a buffer, its strides in bytes (none where it is compact), the bytes from its first to its last element."""
    size = DataType(param.dtype).itemsize
    shape = [evaluate(dim, symbols) for dim in param.shape]
    steps = [evaluate(dim, symbols) * size for dim in param.strides]
    if 0 in shape or not steps:
        return shape, steps, math.prod(shape) * size
    return shape, steps, size + sum([(extent - 1) * step for extent, step in zip(shape, steps)])
