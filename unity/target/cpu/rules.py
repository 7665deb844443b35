"""Code generation of each node for processors."""

from __future__ import annotations

from ..llvm import arithmetic, expressions, intrinsics  # noqa: F401 - the rules they register
from ..llvm.writer import INTRINSICS, FunctionWriter, Rules
from . import calls
from .intrinsics import prefetch, stack_alloca
from .statements import CPU_STATEMENTS


def _leave(w: FunctionWriter, status: str) -> None:
    w.lines.append(f"  ret i32 {status}")


CPU_RULES = Rules(
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
