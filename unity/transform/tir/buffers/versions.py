"""Versions of a buffer: the same buffer several times, along a new first axis. Shared by passes that let parts of a program run
ahead or beside each other.

Accesses are loads, stores, ``T.tvm_access_ptr`` and instructions that take a pointer and, with it, an offset in elements or the
number of a matrix fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....arith.views import elements_of
from ....ir.buffer import Buffer
from ....ir.build import add, cast, const, dtype_of, floordiv, mul
from ....ir.expr import Call, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import BufferStore, Stmt
from ....ir.types import Expr, PointerType
from ....ir.walk import Rewriter, collect

OFFSET_BEHIND = frozenset([
    "T.ptx_mma", "T.ptx_ldmatrix", "T.ptx_cp_async", "T.tvm_access_ptr", "T.ptx_wgmma", "T.ptx_cp_async_bulk",
])  # fmt: skip
"""Instructions whose pointers are each followed by an offset."""
_MOVES = ("T.tvm_fill_fragment", "T.tvm_load_matrix_sync", "T.tvm_store_matrix_sync")
FRAGMENT_NUMBERS = {**{name: {0: 4} for name in _MOVES}, "T.tvm_mma_sync": {0: 1, 2: 3, 4: 5, 6: 7}}
"""Instructions on fragments: where a number stands, by the place of the pointer."""
Fragments = Mapping[Var, int]
"""Elements of a fragment of each buffer of fragments."""


def fragments_in(stmt: Stmt) -> Fragments:
    """The sizes of the fragments that are filled, loaded or stored."""
    found: dict[Var, int] = {}
    for call in collect(stmt, Call):
        pointer = call.args[0] if call.op_name in _MOVES else None
        if isinstance(pointer, Var) and isinstance(pointer.ty, PointerType):
            m, n, k = [getattr(size, "value", 0) for size in call.args[1:4]]
            found[pointer] = {"wmma.matrix_a": m * k, "wmma.matrix_b": k * n}.get(pointer.ty.scope, m * n)
    return {pointer: size for pointer, size in found.items() if size > 0}


def reach_of(buffer: Buffer) -> Expr:
    """Elements from the first one of a buffer to behind its last."""
    if buffer.strides and buffer.shape:
        return mul(cast(buffer.strides[0], "int64"), cast(buffer.shape[0], "int64"))
    return elements_of(buffer)


def with_versions(buffer: Buffer, count: Expr) -> Buffer:
    """A buffer that holds ``count`` of another."""
    strides = (reach_of(buffer), *buffer.strides) if buffer.strides else ()
    data = Var(buffer.data.name, buffer.data.ty, buffer.data.span)
    return replace(buffer, shape=(count, *buffer.shape), strides=strides, data=data)


def has_other_uses(stmt: Stmt, pointer: Var, fragments: Fragments) -> bool:
    """True if memory is reached in a way that has no versions: its pointer goes where no offset goes with it."""
    return any([
        pointer in call.args
        and call.op_name not in OFFSET_BEHIND
        and not (call.op_name in FRAGMENT_NUMBERS and pointer in fragments)
        for call in collect(stmt, Call)
    ])  # fmt: skip


class Versions(Rewriter):
    """Rewrites accesses of buffers to a version of them. ``made`` gives the buffer with versions, ``version`` the one to use."""

    def __init__(self, made: dict[Buffer, Buffer], version: Callable[[Buffer], Expr], fragments: Fragments) -> None:
        super().__init__({BufferLoad: self._access, BufferStore: self._access, Call: self._call})
        self.made, self.version, self.fragments = made, version, fragments
        self.of_pointer = {buffer.data: buffer for buffer in made}

    def _access(self, node: Any) -> Any:
        if node.buffer not in self.made:
            return node
        version = self.version(node.buffer)
        if node.indices:
            version = cast(version, dtype_of(node.indices[0]).element)
        return replace(node, buffer=self.made[node.buffer], indices=(version, *node.indices))

    def _call(self, node: Call) -> Call:
        numbers = FRAGMENT_NUMBERS.get(node.op_name)
        if numbers is None and node.op_name not in OFFSET_BEHIND:
            return node
        args = list(node.args)
        for position, arg in enumerate(node.args[:-1]):
            buffer = self.of_pointer.get(arg) if isinstance(arg, Var) else None
            if buffer is None or (numbers is not None and position not in numbers):
                continue
            args[position] = self.made[buffer].data
            step = mul(cast(self.version(buffer), "int64"), reach_of(buffer))
            if numbers is not None:
                step = floordiv(step, const(self.fragments[buffer.data], "int64"))
            counted = numbers[position] if numbers is not None else position + 1
            args[counted] = add(cast(args[counted], "int64"), step)
        return replace(node, args=tuple(args)) if any([a is not b for a, b in zip(args, node.args)]) else node
