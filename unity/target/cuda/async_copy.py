"""Asynchronous copies from global to shared memory: ``cp.async`` and its groups. Arguments are TVM's."""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm, Var
from ...ir.types import Expr, PointerType, PrimType
from ...support.errors import CodegenError
from ..llvm.writer import FunctionWriter, Intrinsics
from .registers import GLOBAL, SHARED, element, nvvm, require


def _element(expr: Expr, call: Call) -> DataType:
    """Type of the elements of a pointer; the type of the call if the pointer has none."""
    ty = expr.ty if isinstance(expr, Var) else None
    if isinstance(ty, PointerType) and isinstance(ty.element, PrimType) and ty.element.dtype.code != "void":
        return ty.element.dtype.element
    return dtype_of(call).element


def _pointer(w: FunctionWriter, call: Call, number: int, kind: str) -> tuple[str, str]:
    base = call.args[number]
    return kind, element(w, base, call.args[number + 1], _element(base, call), kind)


def cp_async(w: FunctionWriter, call: Call) -> None:
    """Arguments: shared pointer and offset, global pointer and offset (in elements), bytes, and optionally a condition: where it
    does not hold, zeros are written."""
    size = call.args[4].value if type(call.args[4]) is IntImm else 0
    if size not in (4, 8, 16):
        raise CodegenError("E526", "T.ptx_cp_async copies 4, 8 or 16 bytes", call.span)
    require(w, "sm_80", call)
    operands = [_pointer(w, call, 0, SHARED), _pointer(w, call, 2, GLOBAL)]
    name = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    if len(call.args) > 5:
        name += ".s"
        operands.append(("i32", w.emit(f"select i1 {w.value(call.args[5])}, i32 {size}, i32 0")))
    nvvm(w, name, "void", *operands)


def commit_group(w: FunctionWriter, call: Call) -> None:
    """Commit the copies begun since the last group as a group."""
    require(w, "sm_80", call)
    nvvm(w, "cp.async.commit.group", "void")


def wait_group(w: FunctionWriter, call: Call) -> None:
    """Wait until at most a given number of groups of the thread are unfinished."""
    count = call.args[0]
    if type(count) is not IntImm or count.value < 0:
        raise CodegenError("E526", "T.ptx_wait_group takes a constant", call.span)
    require(w, "sm_80", call)
    nvvm(w, "cp.async.wait.group", "void", ("i32", str(count.value)))


EMITTERS: Intrinsics = {
    "T.ptx_cp_async": cp_async,
    "T.ptx_commit_group": commit_group,
    "T.ptx_wait_group": wait_group,
}
