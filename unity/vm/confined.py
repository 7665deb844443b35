"""Refusals for the module text of a file nobody trusts: ways out of tensor programs into other code, addresses of its own.

Not here: what registered functions do, and accesses out of bounds, which are those of any program.
"""

from __future__ import annotations

from ..ir.expr import Call, Op, StringImm
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.stmt import AttrStmt, For
from ..ir.types import PointerType, PrimType
from ..ir.walk import collect
from ..support.errors import ArtifactError
from ..target.cpu.imported import imported_texts

_CODE = ("T.call_llvm_intrin", "T.call_llvm_pure_intrin", "T.call_cpacked")
_EXTERN = ("T.call_extern", "T.call_pure_extern")


def check_confined(mod: IRModule) -> None:
    """Raise ArtifactError E808 where a tensor program calls C or LLVM, brings LLVM IR along, or makes addresses."""
    for name, fn in mod.functions.items():
        if not isinstance(fn, PrimFunc):
            continue
        nodes = collect(fn, (Call, AttrStmt, For))
        if imported_texts([n for n in nodes if not isinstance(n, Call)]):
            raise _refused(name, "brings LLVM IR along")
        for node in nodes:
            if type(node) is not Call or type(node.op) is not Op:
                continue
            called = node.op.name
            callee = node.args[0].value if node.args and type(node.args[0]) is StringImm else ""
            if called in _CODE or (called in _EXTERN and callee not in mod.functions):
                raise _refused(name, f"calls {called}({callee!r})")
            handle = type(node.ty) is PrimType and node.ty.dtype.code == "handle"
            if called == "T.reinterpret" and (handle or type(node.ty) is PointerType):
                raise _refused(name, "makes an address of a number")


def _refused(name: str, what: str) -> ArtifactError:
    return ArtifactError("E808", f"the tensor program {name} of a file that is not trusted {what}",
                         help="where you trust the file: unity.load(path)")  # fmt: skip
