"""Special registers of CUDA devices: the axes of threads and blocks, the lane."""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.expr import Call
from ...support.errors import CodegenError
from ..llvm.writer import FunctionWriter

I32 = DataType("int32")
AXES = {
    f"{kind}Idx.{axis}": f"{register}.{axis}"
    for kind, register in (("thread", "tid"), ("block", "ctaid"))
    for axis in "xyz"
}
"""Special register of each thread axis."""
DYNAMIC_SHARED = "unity_shared"
"""The memory of a block whose size is given at the launch."""


def require(w: FunctionWriter, arch: str, call: Call) -> None:
    """Raises CodegenError E526 where the architecture that code is made for is older than one: LLVM ends the process over an
    instruction that the architecture has not."""
    if arch not in w.module.features:
        raise CodegenError("E526", f"{call.op_name} needs {arch}, and this code is for an older architecture", call.span,
                           help=f'give the target "cuda -arch={arch}"')  # fmt: skip


def read_register(w: FunctionWriter, name: str) -> str:
    """A special register as i32."""
    symbol = f"@llvm.nvvm.read.ptx.sreg.{name}"
    w.module.declare(symbol, f"declare i32 {symbol}()\n")
    return w.emit(f"call i32 {symbol}()")


def nvvm(w: FunctionWriter, name: str, result: str, *arguments: tuple[str, str]) -> str:
    """Call the intrinsic ``llvm.nvvm.NAME`` with (type, operand) pairs; "" for one without result."""
    symbol = f"@llvm.nvvm.{name}"
    w.module.declare(symbol, f"declare {result} {symbol}({', '.join([kind for kind, _ in arguments])})\n")
    text = f"call {result} {symbol}({', '.join([f'{kind} {operand}' for kind, operand in arguments])})"
    if result == "void":
        w.do(text)
        return ""
    return w.emit(text)
