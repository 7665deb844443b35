"""Versions of a buffer: the same buffer several times, along a new first axis. Shared by passes that let parts of a program run
ahead or beside each other.

Accesses are loads, stores, ``T.tvm_access_ptr`` and instructions that take a pointer and, behind it, an offset in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import add, cast, const, dtype_of, mul
from ....ir.expr import Call, Op, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import BufferStore, Stmt
from ....ir.types import Expr
from ....ir.walk import Rewriter, collect

OFFSET_BEHIND = frozenset(["T.ptx_mma", "T.ptx_ldmatrix", "T.ptx_cp_async", "T.tvm_access_ptr"])
"""Instructions whose pointers are each followed by an offset."""


def elements_of(buffer: Buffer) -> Expr:
    """Elements from the first one of a buffer to behind its last."""
    if buffer.strides and buffer.shape:
        return mul(cast(buffer.strides[0], "int64"), cast(buffer.shape[0], "int64"))
    size: Expr = const(1, "int64")
    for extent in buffer.shape:
        size = mul(size, cast(extent, "int64"))
    return size


def with_versions(buffer: Buffer, count: Expr) -> Buffer:
    """A buffer that holds ``count`` of another."""
    strides = (elements_of(buffer), *buffer.strides) if buffer.strides else ()
    data = Var(buffer.data.name, buffer.data.ty, buffer.data.span)
    return replace(buffer, shape=(count, *buffer.shape), strides=strides, data=data)


def has_other_uses(stmt: Stmt, pointer: Var) -> bool:
    """True if memory is reached in a way that has no versions: its pointer goes where no offset goes with it."""
    return any([
        pointer in call.args and not (type(call.op) is Op and call.op.name in OFFSET_BEHIND)
        for call in collect(stmt, Call)
    ])  # fmt: skip


class Versions(Rewriter):
    """Rewrites accesses of buffers to a version of them. ``made`` gives the buffer with versions, ``version`` the one to use."""

    def __init__(self, made: dict[Buffer, Buffer], version: Callable[[Buffer], Expr]) -> None:
        super().__init__({BufferLoad: self._access, BufferStore: self._access, Call: self._call})
        self.made, self.version = made, version
        self.of_pointer = {buffer.data: buffer for buffer in made}

    def _access(self, node: Any) -> Any:
        if node.buffer not in self.made:
            return node
        version = self.version(node.buffer)
        if node.indices:
            version = cast(version, dtype_of(node.indices[0]).element)
        return replace(node, buffer=self.made[node.buffer], indices=(version, *node.indices))

    def _call(self, node: Call) -> Call:
        if type(node.op) is not Op or node.op.name not in OFFSET_BEHIND:
            return node
        args = list(node.args)
        for place, arg in enumerate(node.args[:-1]):
            buffer = self.of_pointer.get(arg) if isinstance(arg, Var) else None
            if buffer is not None:
                args[place] = self.made[buffer].data
                step = mul(cast(self.version(buffer), "int64"), elements_of(buffer))
                args[place + 1] = add(cast(args[place + 1], "int64"), step)
        return replace(node, args=tuple(args)) if any([a is not b for a, b in zip(args, node.args)]) else node
