"""Special registers of CUDA devices, LLVM intrinsics, and instructions written as PTX."""

from __future__ import annotations

from collections.abc import Sequence

from ...ffi.dtype import DataType
from ...ir.build import const
from ...ir.expr import Call, IntImm, Var
from ...ir.types import Expr
from ...support.errors import CodegenError
from ..llvm.indices import index_parts
from ..llvm.intrinsics import Emitter, pointer
from ..llvm.lltypes import memory_type
from ..llvm.memory import moved
from ..llvm.writer import FunctionWriter

I16, I32 = DataType("int16"), DataType("int32")
ZERO = const(0)
AXES = {
    f"{kind}Idx.{axis}": f"{register}.{axis}"
    for kind, register in (("thread", "tid"), ("block", "ctaid"))
    for axis in "xyz"
}
"""Special register of each thread axis."""
GLOBAL, SHARED, LOCAL = "ptr addrspace(1)", "ptr addrspace(3)", "ptr addrspace(5)"
"""LLVM's types of pointers to memory of the device, of a block and of a thread."""
DYNAMIC_SHARED = "unity_shared"
"""The symbol of dynamic shared memory, whose size is given at the launch."""


def require(w: FunctionWriter, arch: str, call: Call) -> None:
    """Raise CodegenError E526 if code is made for an older architecture: LLVM ends the process at an instruction that the
    architecture does not have."""
    if arch not in w.module.features:
        raise CodegenError("E526", f"{call.op_name} needs {arch}, and this code is for an older architecture", call.span,
                           help=f'give the target "cuda -arch={arch}"')  # fmt: skip


def read_register(w: FunctionWriter, name: str) -> str:
    """Read a special register as i32."""
    symbol = f"@llvm.nvvm.read.ptx.sreg.{name}"
    w.module.declare(symbol, f"declare i32 {symbol}()\n")
    return w.emit(f"call i32 {symbol}()")


def nvvm(w: FunctionWriter, name: str, result: str, *arguments: tuple[str, str]) -> str:
    """Call the intrinsic ``llvm.nvvm.NAME`` with (type, operand) pairs."""
    symbol = f"@llvm.nvvm.{name}"
    w.module.declare(symbol, f"declare {result} {symbol}({', '.join([kind for kind, _ in arguments])})\n")
    return w.call(result, symbol, ", ".join([f"{kind} {operand}" for kind, operand in arguments]))


def structure(kinds: Sequence[str]) -> str:
    """The type of the results of an instruction."""
    if len(kinds) < 2:
        return kinds[0] if kinds else "void"
    return f"{{ {', '.join(kinds)} }}"


def assembly(w: FunctionWriter, text: str, results: Sequence[str], *operands: tuple[str, str]) -> str:
    """Write an instruction as inline PTX, with the types of its results and (type, operand) pairs; returns "" if it has no result.
    LLVM does not move code across it (side effect) and does
    not move it to where fewer threads run (convergent)."""
    letters = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "i1": "b"}
    constraints = [f"={letters[kind]}" for kind in results] + [letters[kind] for kind, _ in operands] + ["~{memory}"]
    result = structure(results)
    given = [f"{kind} {value}" for kind, value in operands]
    call = f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(given)}) convergent'
    if not results:
        w.do(call)
        return ""
    return w.emit(call)


def number(call: Call, index: int) -> int:
    """The constant that an argument is. Raises CodegenError E526."""
    argument = call.args[index]
    if type(argument) is not IntImm:
        raise CodegenError("E526", f"{call.op_name} takes constants", call.span)
    return argument.value


def fixed(arch: str, text: str) -> Emitter:
    """The emitter of an instruction from an architecture on, whose arguments are constants: each stands at a ``{}`` of its text."""

    def emitter(w: FunctionWriter, call: Call) -> None:
        require(w, arch, call)
        assembly(w, text.format(*[number(call, index) for index in range(len(call.args))]), ())

    return emitter


def shared_address(w: FunctionWriter, base: Expr, offset: Expr = ZERO, dtype: DataType = I32) -> tuple[str, str]:
    """The (type, operand) of the address in shared memory of an element at an offset from a pointer."""
    return "i32", w.emit_before_loops(f"ptrtoint ptr addrspace(3) {element(w, base, offset, dtype, SHARED)} to i32")


def element(w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType, kind: str = "ptr") -> str:
    """Pointer of a type to an element at an offset from a pointer."""
    found, at = w.spaces.get(base, ("", "")) if isinstance(base, Var) else ("", "")
    if kind == "ptr":
        at = pointer(w, base)
    elif found != kind:
        at = w.emit(f"addrspacecast ptr {pointer(w, base)} to {kind}")
    text, constant = index_parts(w, offset, kind == GLOBAL)
    ty = memory_type(dtype)
    return moved(w, ty, kind, moved(w, ty, kind, at, text), str(constant))
