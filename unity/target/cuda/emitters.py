"""Emitters for CUDA devices: memory of each scope, thread axes, instructions of warps and blocks."""

from __future__ import annotations

import math

from ...arith.interval import Interval
from ...ffi.cuda.module import STATUS
from ...ir.buffer import Buffer
from ...ir.build import dtype_of, int_value
from ...ir.expr import Call, IntImm
from ...ir.scalar import IterVar
from ...ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, DeclBuffer, For
from ...support.errors import CodegenError
from ...transform.tir.threads.verify_gpu_code import AXIS_LIMITS
from ..llvm import arithmetic, expressions  # noqa: F401 - the emitters they register
from ..llvm.casts import convert
from ..llvm.indices import index
from ..llvm.intrinsics import shift
from ..llvm.lltypes import memory_type
from ..llvm.small_indices import give_range, write_out
from ..llvm.statements import attribute, constant_count, scoped, serial_loop
from ..llvm.writer import INTRINSICS, STATEMENTS, Emitters, FunctionWriter
from . import async_copy, barriers, llvm_calls, matrix, warp, warpgroup
from .places import give_slot
from .registers import AXES, DYNAMIC_SHARED, I32, SHARED, nvvm, read_register
from .sums import Sums, store
from .written_loops import is_written_out

DYNAMIC_ALIGN = 1024
"""Alignment of dynamic shared memory in bytes."""
LOCAL_BYTES = 64 << 10
"""Most bytes of one buffer of a thread; what does not fit into registers is in slow local memory."""


def _leave(w: FunctionWriter, status: str) -> None:
    """End a thread; a failed check stores its number for the host."""
    if status != "0":
        w.module.declare(f"@{STATUS}", f"@{STATUS} = addrspace(1) global i32 0, align 4\n")
        where = f"ptr addrspace(1) @{STATUS} monotonic, align 4"  # threads may fail together
        w.lines.append(f"  store atomic i32 {status}, {where}")
    w.lines.append("  ret void")


def _call_function(w: FunctionWriter, call: Call) -> str:
    raise CodegenError(
        "E526", f"a kernel cannot call the tensor program {getattr(call.op, 'name', call.op)}", call.span
    )


def _loop(w: FunctionWriter, stmt: For) -> None:
    if stmt.kind == "thread_binding":
        raise CodegenError("E520", f"loop {stmt.loop_var.name} is bound to {stmt.thread} inside a kernel", stmt.span,
                           help="lower the program with unity.target.GPU_PIPELINE first")  # fmt: skip
    if not is_written_out(stmt):
        serial_loop(w, stmt)
        return
    assert type(stmt.extent) is IntImm and type(stmt.min) is IntImm
    for value in range(stmt.min.value, stmt.min.value + stmt.extent.value):
        write_out(w, stmt.loop_var, value)
        scoped(w, stmt.body)


def _attribute(w: FunctionWriter, stmt: AttrStmt) -> None:
    if stmt.key != "thread_extent":
        attribute(w, stmt)
        return
    axis = stmt.node
    register = AXES.get(axis.thread_tag) if type(axis) is IterVar else None
    if register is None:
        raise CodegenError("E520", f"a kernel has no thread axis {getattr(axis, 'thread_tag', axis)!r}", stmt.span)
    dtype = dtype_of(axis.var)
    w.env[axis.var] = convert(w, read_register(w, register), I32, dtype)
    if dtype.name == "int64":
        extent = stmt.value.value if type(stmt.value) is IntImm else AXIS_LIMITS[axis.thread_tag]
        give_range(w, axis.var, Interval(0, max(0, extent - 1)))
    w.statement(stmt.body)


def _allocate(w: FunctionWriter, stmt: AllocBuffer) -> None:
    """Allocate memory of a thread (``local``) or of a block (``shared``, ``shared.dyn``)."""
    buffer = stmt.buffer
    w.buffers[buffer.data] = buffer
    item, scope = memory_type(buffer.dtype, stmt.span), buffer.scope
    if scope == "shared.dyn":
        text = f"@{DYNAMIC_SHARED} = external addrspace(3) global [0 x i8], align {DYNAMIC_ALIGN}\n"
        w.module.declare(f"@{DYNAMIC_SHARED}", text)
        w.aligned[buffer.data] = DYNAMIC_ALIGN
        _in_shared(w, buffer, f"@{DYNAMIC_SHARED}")
        return
    count = constant_count(buffer, stmt.span)
    if count is None:
        raise CodegenError("E525", f"buffer {buffer.name} of scope {scope} has no constant size", stmt.span,
                           help="memory of a thread or a block has a constant size; shared.dyn is sized at the launch")  # fmt: skip
    align = w.aligned[buffer.data] = max(16, min(buffer.align if buffer.align > 0 else 16, DYNAMIC_ALIGN))
    if scope == "shared":
        symbol = "@" + w.module.unique(f"{w.module.symbols[w.kernel.name]}.shared")
        w.module.definitions[symbol] = (
            f"{symbol} = internal addrspace(3) global [{max(1, count)} x {item}] undef, align {align}\n"
        )
        _in_shared(w, buffer, symbol)
    elif scope.startswith("wmma."):
        matrix.fragments(w, buffer, count, stmt.span)
    elif scope in ("local", "") and count * buffer.dtype.itemsize <= LOCAL_BYTES:
        place = w.places.get(buffer.data)
        if isinstance(place, Sums):
            place.declare(w, count)
        else:
            give_slot(w, buffer, item, align, max(1, count))
    else:
        help = (
            "cache what a block needs in shared memory" if scope == "local" else "lower the program with GPU_PIPELINE"
        )
        text = (
            f"{buffer.name} needs {count * buffer.dtype.itemsize} bytes of scope {scope or 'global'!r} inside a kernel"
        )
        raise CodegenError("E525", text, stmt.span, help=help)


def _in_shared(w: FunctionWriter, buffer: Buffer, symbol: str) -> None:
    """A buffer is a symbol of shared memory; the generic pointer is for intrinsics that take its address."""
    w.spaces[buffer.data] = (SHARED, symbol)
    w.env[buffer.data] = w.emit(f"addrspacecast {SHARED} {symbol} to ptr")


def _bind(w: FunctionWriter, stmt: Bind) -> None:
    """Bind a variable; a pointer to shared memory keeps its address space and alignment."""
    STATEMENTS[Bind](w, stmt)
    value = stmt.value
    if type(value) is Call and value.op_name == "T.handle_add_byte_offset" and value.args[0] in w.spaces:
        kind, base = w.spaces[value.args[0]]
        w.spaces[stmt.var] = kind, w.emit(f"getelementptr i8, {kind} {base}, i64 {index(w, value.args[1])}")
        known = w.aligned.get(value.args[0], 1) if type(value.args[1]) is IntImm else 1
        w.aligned[stmt.var] = math.gcd(known, int_value(value.args[1], 1))


def _declare(w: FunctionWriter, stmt: DeclBuffer) -> None:
    if stmt.buffer.data not in w.env:
        raise CodegenError("E524", f"buffer {stmt.buffer.name} is declared over a pointer without value", stmt.span)
    w.buffers.setdefault(stmt.buffer.data, stmt.buffer)


def _ignored(w: FunctionWriter, call: Call) -> None:
    """No code."""


def _ex2(w: FunctionWriter, call: Call) -> str:
    """2 to the power of a number, approximately; subnormal results are 0."""
    if dtype_of(call).name != "float32":
        raise CodegenError("E526", f"T.ptx_ex2 of {dtype_of(call).name}", call.span)
    return nvvm(w, "ex2.approx.ftz.f", "float", ("float", w.value(call.args[0])))


_SHIFTS = {"T.shift_left": shift(True, by_minimum=True), "T.shift_right": shift(False, by_minimum=True)}
"""NVPTX of LLVM 22 takes ``amount < 64 ? x << amount : 0`` for its own shift, which looks at 32 bits of the amount."""
_EMITTERS = {
    **INTRINSICS, "T.prefetch": _ignored, "T.ptx_ex2": _ex2, **_SHIFTS, **warp.EMITTERS, **matrix.EMITTERS, **async_copy.EMITTERS,
    **barriers.EMITTERS, **warpgroup.EMITTERS, **llvm_calls.EMITTERS,
}  # fmt: skip
GPU_EMITTERS = Emitters(
    "a GPU",
    {
        **STATEMENTS,
        For: _loop,
        BufferStore: store,
        AllocBuffer: _allocate,
        AttrStmt: _attribute,
        Bind: _bind,
        DeclBuffer: _declare,
    },
    _EMITTERS,
    _leave,
    _call_function,
)
