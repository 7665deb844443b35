"""Refusals for the module text of a file nobody trusts: ways out of tensor programs into other code, addresses of its own.

Not here: what registered functions do, and accesses out of bounds, which are those of any program.
"""

from __future__ import annotations

from ..ir.expr import Call, Op, StringImm, Var
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.stmt import AttrStmt, For
from ..ir.types import Expr, PointerType, PrimType
from ..ir.walk import collect
from ..support.errors import ArtifactError
from ..target.kernel_groups import imported_texts

_CODE = ("T.call_llvm_intrin", "T.call_llvm_pure_intrin", "T.call_cpacked")
_EXTERN = ("T.call_extern", "T.call_pure_extern")
_DERIVED = (
    "T.address_of",
    "T.tvm_access_ptr",
    "T.handle_add_byte_offset",
    "T.ptr_byte_offset",
    "T.tvm_stack_alloca",
    "T.if_then_else",
)
"""Intrinsics that give the address of a buffer, or one at a distance from it."""


def check_confined(mod: IRModule) -> None:
    """Raise ArtifactError E808 where a tensor program calls C or LLVM, brings LLVM IR along, takes addresses or makes them."""
    for name, fn in mod.functions.items():
        if not isinstance(fn, PrimFunc):
            continue
        if any([_is_address(param) and param not in fn.buffer_map for param in fn.params]):
            raise _refused(name, "takes an address")
        nodes = collect(fn, (Expr, AttrStmt, For))
        if imported_texts([n for n in nodes if isinstance(n, (AttrStmt, For))]):
            raise _refused(name, "brings LLVM IR along")
        for node in nodes:
            called = node.op.name if type(node) is Call and type(node.op) is Op else ""
            callee = node.args[0].value if called and node.args and type(node.args[0]) is StringImm else ""
            defined = called in _EXTERN and callee in mod.functions
            if called in _CODE or (called in _EXTERN and not defined):
                raise _refused(name, f"calls {called}({callee!r})")
            if _is_address(node) and not (defined or called in _DERIVED or isinstance(node, Var)):
                raise _refused(name, "makes an address of what is none")


def _is_address(node: object) -> bool:
    kind = node.ty if isinstance(node, Expr) else None
    return type(kind) is PointerType or (type(kind) is PrimType and kind.dtype.code == "handle")


def _refused(name: str, what: str) -> ArtifactError:
    return ArtifactError("E808", f"the tensor program {name} of a file that is not trusted {what}",
                         help="where you trust the file: unity.load(path)")  # fmt: skip
