"""Host functions of programs for CUDA devices: they launch kernels through the driver, and allocate memory between kernels.

A call of a device function becomes ``cuLaunchKernel`` on the stream of the thread, whose record remembers the kernel. Grid, block
and bytes of shared memory are computed from the extents in the device function. Addresses come from ``launch_symbols``
(`ffi/cuda/launch.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ffi.cuda.context import REMEMBERED
from ...ffi.cuda.driver import OUT_OF_MEMORY
from ...ffi.runtime.cuda_runtime import FUNCTION
from ...ir.analysis.asynchronous import SWIZZLES, TensorCopy
from ...ir.build import dtype_of
from ...ir.expr import Call, GlobalVar, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.stmt import AllocBuffer
from ...ir.types import Expr
from ...ir.walk import collect, substitute
from ...support.errors import CodegenError
from ..cpu import calls
from ..cpu.emitters import CPU_EMITTERS
from ..cpu.statements import product_in_range, symbolic_size
from ..kernel_groups import special_nodes
from ..llvm.indices import index
from ..llvm.lltypes import memory_type
from ..llvm.statements import constant_count
from ..llvm.writer import UNDEFINED, Emitters, FunctionWriter
from .barriers import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES
from .kernels import VECTOR_ALIGN, DeviceModule, thread_extents

_EXTENTS = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]
_LAUNCH = """\
@unity_cuda_thread_key = external global i32
@unity_cuda_launch_failed = external global i8
@unity.cuda.format = private constant [4 x i8] c"isK\\00"
declare ptr @pthread_getspecific(i32)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
define internal i32 @unity.cuda.raise(i32 %status, ptr %name, ptr %counts) nounwind {
  %held = call i32 @PyGILState_Ensure()
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @unity_cuda_launch_failed,
    ptr @unity.cuda.format, i32 %status, ptr %name, ptr %counts)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %done, label %drop
drop:
  call void @Py_DecRef(ptr %answer)
  br label %done
done:
  call void @PyGILState_Release(i32 %held)
  ret i32 -1
}
define internal i32 @unity.cuda.refuse(i32 %code, ptr %name, i64 %gx, i64 %gy, i64 %gz, i64 %bx, i64 %by, i64 %bz,
    i64 %shared) nounwind noinline cold {
  %counts = alloca [7 x i64]
  %at1 = getelementptr i64, ptr %counts, i64 1
  %at2 = getelementptr i64, ptr %counts, i64 2
  %at3 = getelementptr i64, ptr %counts, i64 3
  %at4 = getelementptr i64, ptr %counts, i64 4
  %at5 = getelementptr i64, ptr %counts, i64 5
  %at6 = getelementptr i64, ptr %counts, i64 6
  store i64 %gx, ptr %counts
  store i64 %gy, ptr %at1
  store i64 %gz, ptr %at2
  store i64 %bx, ptr %at3
  store i64 %by, ptr %at4
  store i64 %bz, ptr %at5
  store i64 %shared, ptr %at6
  %raised = call i32 @unity.cuda.raise(i32 %code, ptr %name, ptr %counts)
  ret i32 %raised
}
define internal i32 @unity.cuda.launch(ptr %cell, i64 %gx, i64 %gy, i64 %gz, i64 %bx, i64 %by, i64 %bz,
    i64 %shared, ptr %arguments, ptr %name) nounwind {
  %ex = icmp sle i64 %gx, 0
  %ey = icmp sle i64 %gy, 0
  %ez = icmp sle i64 %gz, 0
  %tx = icmp sle i64 %bx, 0
  %ty = icmp sle i64 %by, 0
  %tz = icmp sle i64 %bz, 0
  %exy = or i1 %ex, %ey
  %txy = or i1 %tx, %ty
  %z = or i1 %ez, %tz
  %xy = or i1 %exy, %txy
  %empty = or i1 %xy, %z
  br i1 %empty, label %nothing, label %check
check:
  %a = or i64 %gx, %gy
  %b = or i64 %gz, %bx
  %c = or i64 %by, %bz
  %ab = or i64 %a, %b
  %abc = or i64 %ab, %c
  %all = or i64 %abc, %shared
  %fits = icmp ult i64 %all, 2147483648
  br i1 %fits, label %go, label %bad
go:
  %function = load ptr, ptr %cell
  %key = load i32, ptr @unity_cuda_thread_key
  %record = call ptr @pthread_getspecific(i32 %key)
  %stream = load ptr, ptr %record
  %launches = getelementptr i64, ptr %record, i64 3
  %ring = getelementptr i64, ptr %record, i64 4
  %launched = load i64, ptr %launches
  %turn = urem i64 %launched, REMEMBERED
  %own = getelementptr ptr, ptr %ring, i64 %turn
  store ptr %function, ptr %own
  %more = add i64 %launched, 1
  store i64 %more, ptr %launches
  %gx32 = trunc i64 %gx to i32
  %gy32 = trunc i64 %gy to i32
  %gz32 = trunc i64 %gz to i32
  %bx32 = trunc i64 %bx to i32
  %by32 = trunc i64 %by to i32
  %bz32 = trunc i64 %bz to i32
  %shared32 = trunc i64 %shared to i32
  %status = call i32 @cuLaunchKernel(ptr %function, i32 %gx32, i32 %gy32, i32 %gz32, i32 %bx32, i32 %by32,
    i32 %bz32, i32 %shared32, ptr %stream, ptr %arguments, ptr null)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %nothing, label %bad
nothing:
  ret i32 0
bad:
  %code = phi i32 [ 1, %check ], [ %status, %go ]
  %raised = call i32 @unity.cuda.refuse(i32 %code, ptr %name, i64 %gx, i64 %gy, i64 %gz, i64 %bx, i64 %by, i64 %bz, i64 %shared)
  ret i32 %raised
}
""".replace("REMEMBERED", str(REMEMBERED))
_PYTHON = {
    "@PyGILState_Ensure": "declare i32 @PyGILState_Ensure()\n",
    "@PyGILState_Release": "declare void @PyGILState_Release(i32)\n",
    "@PyObject_CallFunction": "declare ptr @PyObject_CallFunction(ptr, ptr, ...)\n",
    "@Py_DecRef": "declare void @Py_DecRef(ptr)\n",
}
"""Further declarations of calls of registered functions."""
_TENSOR_MAP = "declare i32 @cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)\n"
_WINDOW_MAP = (
    "declare i32 @cuTensorMapEncodeIm2col(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, ptr, i32, i32, i32, i32)\n"
)
TENSOR_MAP_TYPES = {
    "uint8": 0, "int8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4,
    "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
"""CUtensorMapDataType."""
_MEMORY = """\
declare i64 @unity_cuda_allocate(i64)
declare void @unity_cuda_release(i64)
define internal void @unity.cuda.free(ptr %pointer) nounwind {
  %address = ptrtoint ptr %pointer to i64
  call void @unity_cuda_release(i64 %address)
  ret void
}
"""


@dataclass(slots=True, frozen=True)
class Launcher:
    """The device functions that host functions call."""

    functions: Mapping[str, PrimFunc]
    module: DeviceModule

    def emitters(self) -> Emitters:
        """Code generation of a host function."""
        return Emitters(
            "the host of a GPU",
            {**CPU_EMITTERS.statements, AllocBuffer: _allocate},
            CPU_EMITTERS.intrinsics,
            CPU_EMITTERS.leave,
            self.call,
            release=("@unity.cuda.free", _MEMORY),
        )

    def nodes(self, func: PrimFunc) -> list[Any]:
        """The relevant nodes of a host function; of the arguments of kernels, only the pointers that they write through."""
        return [self._writing(node) if type(node) is Call else node for node in special_nodes(func)]

    def _writing(self, call: Call) -> Call:
        if type(call.op) is not GlobalVar or call.op.name not in self.functions:
            return call
        kernel = self.functions[call.op.name]
        written = self.module.written[call.op.name]
        return replace(call, args=tuple([a for p, a in zip(kernel.params, call.args) if p in written]))

    def call(self, w: FunctionWriter, call: Call) -> str:
        """Launch a kernel; other functions are called as on processors."""
        assert type(call.op) is GlobalVar
        name = call.op.name
        func = self.functions.get(name)
        if func is None:
            return calls.call_kernel(w, call)
        if len(call.args) != len(func.params):
            raise CodegenError("E526", f"{name} takes {len(func.params)} arguments, got {len(call.args)}", call.span)
        maps = self.module.maps[name]
        words = w.slot("ptr", 16, max(1, len(func.params) + len(maps)))
        for number, (param, argument) in enumerate(zip(func.params, call.args)):
            self._pass(w, words, number, param, argument, name)
        given = dict(zip(func.params, call.args))
        extents = thread_extents(func)
        counts = [_extent(w, extents.get(axis), given) for axis in _EXTENTS]
        if maps:  # where nothing is launched, tensors may be empty, which have no maps
            describe, described = w.label("describe"), w.label("described")
            none = [w.emit(f"icmp sle i64 {count}, 0") for count in counts]
            while len(none) > 1:
                none.append(w.emit(f"or i1 {none.pop(0)}, {none.pop(0)}"))
            w.branch(none[0], described, describe)
            w.start(describe)
            for number, (source, copy) in enumerate(maps):
                _pass_tensor_map(w, words, len(func.params) + number, w.value(given[source]), copy, given, name)
            w.jump(described)
            w.start(described)
        counts.append(_dynamic_bytes(w, func, given))
        cell = f'@"{FUNCTION}{self.module.symbols[name]}"'
        w.module.declare(cell, f"{cell} = external global ptr\n")
        _declare_launch(w)
        text_of_call = ", ".join([f"i64 {count}" for count in counts])
        status = w.emit(
            f"call i32 @unity.cuda.launch(ptr {cell}, {text_of_call}, ptr {words}, ptr {w.module.string(name)})"
        )
        w.leave_unless(f"icmp eq i32 {status}, 0", lambda: status)
        return UNDEFINED

    def _pass(self, w: FunctionWriter, words: str, number: int, param: Var, argument: Expr, name: str) -> None:
        """Store an argument in memory, and its address in the array of arguments."""
        expected, text = dtype_of(param), w.value(argument)
        if expected is not dtype_of(argument):
            raise CodegenError("E523", f"{name}: {param.name} is a {expected.name}, got {dtype_of(argument).name}")
        if number in self.module.aligned[name]:
            low = w.emit(f"and i64 {w.emit(f'ptrtoint ptr {text} to i64')}, {VECTOR_ALIGN - 1}")
            shown = getattr(argument, "name", param.name)
            w.fail_unless(
                w.emit(f"icmp eq i64 {low}, 0"),
                f"{shown} does not begin at a multiple of {VECTOR_ALIGN} bytes, in which it is read: pass a copy of it",
            )
        kind = memory_type(expected)
        slot = w.slot(kind, 16)
        if expected.is_bool:
            text = w.emit(f"zext i1 {text} to i8")
        w.do(f"store {kind} {text}, ptr {slot}")
        at = w.emit(f"getelementptr ptr, ptr {words}, i64 {number}")
        w.do(f"store ptr {slot}, ptr {at}")


def _pass_tensor_map(
    w: FunctionWriter, words: str, number: int, address: str, copy: TensorCopy, given: Mapping[Var, Expr], name: str
) -> None:
    """Create the tensor map of a tensor and a box of it, innermost axis first, and store its address in the array of arguments."""
    _declare_launch(w)
    rank = len(copy.sizes)
    sizes = [index(w, substitute(size, given)) for size in reversed(copy.sizes)]
    pitches, pitch = [], str(copy.dtype.itemsize)
    for size in sizes[:-1]:
        pitch = w.emit(f"mul i64 {pitch}, {size}")
        pitches.append(pitch)
    slot = w.slot(f"[{TENSOR_MAP_BYTES} x i8]", TENSOR_MAP_ALIGN)
    window = copy.window
    rows = (copy.box, (1,) * rank) if window is None else (window.lower, window.upper, (1, *window.strides, 1))
    tables = [_table(w, "i64", sizes), _table(w, "i64", pitches or ["0"])]
    tables += [_table(w, "i32", [str(n) for n in reversed(row)]) for row in rows]
    args = [f"ptr {table}" for table in tables]
    if window is None:
        w.module.declare("@cuTensorMapEncodeTiled", _TENSOR_MAP)
        encode = "cuTensorMapEncodeTiled"
    else:
        w.module.declare("@cuTensorMapEncodeIm2col", _WINDOW_MAP)
        encode = "cuTensorMapEncodeIm2col"
        args[-1:] = [*[f"i32 {n}" for n in reversed(copy.box)], args[-1]]
    head = f"ptr {slot}, i32 {TENSOR_MAP_TYPES[copy.dtype.name]}, i32 {rank}, ptr {address}"
    swizzle = SWIZZLES.index(copy.swizzle) + 1 if copy.swizzle else 0
    status = w.emit(f"call i32 @{encode}({head}, {', '.join(args)}, i32 0, i32 {swizzle}, i32 2, i32 0)")
    w.leave_unless(f"icmp eq i32 {status}, 0", lambda: _raise_status(w, status, f"the tensor map of {name}"))
    w.do(f"store ptr {slot}, ptr {w.emit(f'getelementptr ptr, ptr {words}, i64 {number}')}")


def _table(w: FunctionWriter, kind: str, values: Sequence[str]) -> str:
    """An array of numbers in memory."""
    table = w.slot(kind, 16, len(values))
    for number, value in enumerate(values):
        w.do(f"store {kind} {value}, ptr {w.emit(f'getelementptr {kind}, ptr {table}, i64 {number}')}")
    return table


def _raise_status(w: FunctionWriter, status: str, what: str) -> str:
    """Raise the error of a status; the status of a function that fails so."""
    return w.emit(f"call i32 @unity.cuda.raise(i32 {status}, ptr {w.module.string(what)}, ptr null)")


def _declare_launch(w: FunctionWriter) -> None:
    """Declare the functions that launch kernels in the module."""
    for symbol, text in _PYTHON.items():
        w.module.declare(symbol, text)
    w.module.declare("unity.cuda.launch", _LAUNCH)


def _extent(w: FunctionWriter, extent: Expr | None, given: Mapping[Var, Expr]) -> str:
    """Operand of an extent of a device function, computed from the arguments of a call; 1 for an axis that it does not have."""
    return "1" if extent is None else index(w, substitute(extent, given))


def _dynamic_bytes(w: FunctionWriter, func: PrimFunc, given: Mapping[Var, Expr]) -> str:
    """Bytes of dynamic shared memory of the launch."""
    total = "0"
    for alloc in collect(func.body, AllocBuffer):
        buffer = alloc.buffer
        if buffer.scope != "shared.dyn":
            continue
        shape = tuple([substitute(extent, given) for extent in buffer.shape])
        bytes_, good = product_in_range(w, buffer.dtype.itemsize, shape)
        bytes_ = w.emit(f"select i1 {good}, i64 {bytes_}, i64 {1 << 47}")  # which no launch gets
        total = bytes_ if total == "0" else w.emit(f"add i64 {total}, {bytes_}")
    return total


def _allocate(w: FunctionWriter, stmt: AllocBuffer) -> None:
    """Allocate device memory between kernels; it is freed when the function ends."""
    buffer = stmt.buffer
    w.buffers[buffer.data] = buffer
    count = constant_count(buffer, stmt.span)
    total = symbolic_size(w, buffer) if count is None else str(count * buffer.dtype.itemsize)
    _declare_launch(w)
    w.module.declare("@unity.cuda.free", _MEMORY)
    some = w.emit(f"call i64 @llvm.umax.i64(i64 {total}, i64 1)")
    address = w.emit(f"call i64 @unity_cuda_allocate(i64 {some})")
    pointer = w.emit(f"inttoptr i64 {address} to ptr")
    w.leave_unless(f"icmp ne i64 {address}, 0", lambda: _raise_status(w, str(OUT_OF_MEMORY), buffer.name))
    w.heap.append(pointer)
    w.env[buffer.data] = pointer
