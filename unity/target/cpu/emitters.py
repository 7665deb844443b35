"""Code generation of each node for processors; here, of the intrinsics that only they have code for."""

from __future__ import annotations

from ...ir.expr import Call, IntImm, StringImm
from ...ir.scalar import BufferLoad
from ...support.errors import CodegenError
from ..llvm import arithmetic, expressions, intrinsics  # noqa: F401 - the emitters they register
from ..llvm.intrinsics import pointer
from ..llvm.memory import address
from ..llvm.writer import INTRINSICS, Emitters, FunctionWriter
from . import calls
from .statements import CPU_STATEMENTS


def prefetch(w: FunctionWriter, call: Call) -> None:
    """``T.prefetch(place, write, locality, data cache)``."""
    numbers = [a.value for a in call.args[1:] if type(a) is IntImm]
    write, locality, kind = (numbers + [0, 3, 1][len(numbers) :])[:3]
    if len(numbers) != len(call.args) - 1 or write not in (0, 1) or not 0 <= locality <= 3 or kind not in (0, 1):
        raise CodegenError("E526", "T.prefetch takes constants: write 0/1, locality 0..3, data cache 0/1", call.span)
    first = call.args[0]
    ptr = address(w, first.buffer, first.indices) if type(first) is BufferLoad else pointer(w, first)
    w.do(f"call void @llvm.prefetch.p0(ptr {ptr}, i32 {write}, i32 {locality}, i32 {kind})")


def stack_alloca(w: FunctionWriter, call: Call) -> str:
    """``T.tvm_stack_alloca(kind, count)``: words on the stack."""
    count = call.args[1]
    if type(count) is not IntImm or not 0 <= count.value <= 1024 or type(call.args[0]) is not StringImm:
        raise CodegenError("E526", "T.tvm_stack_alloca takes a kind and a constant count up to 1024", call.span)
    return w.slot("i64", 16, max(1, count.value))


def _leave(w: FunctionWriter, status: str) -> None:
    w.lines.append(f"  ret i32 {status}")


CPU_EMITTERS = Emitters(
    "a processor",
    CPU_STATEMENTS,
    {
        **INTRINSICS, "T.prefetch": prefetch, "T.tvm_stack_alloca": stack_alloca,
        "T.call_extern": calls.call_extern, "T.call_pure_extern": calls.call_extern,
        "T.call_llvm_intrin": calls.call_llvm, "T.call_llvm_pure_intrin": calls.call_llvm,
        "T.call_packed": calls.call_packed, "T.tvm_call_packed": calls.call_packed, "T.call_cpacked": calls.call_packed,
    },
    _leave,
    calls.call_kernel,
)  # fmt: skip
