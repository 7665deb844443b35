"""inject_double_buffer: a buffer that one statement of a loop fills for the others exists twice, and is filled one step ahead.

A block with the annotation ``double_buffer_scope: n`` (its n-th written buffer), or the statement under an attribute
``double_buffer_scope`` on the buffer's pointer, is the producer. Iteration i + 1's content is written while iteration i's is read.

Rewrite: ``for i in range(n): { B <- f(i); use B }`` ->
``B2: alloc (2, ..); if n > 0: B2[0] <- f(0); for i in range(n): { if i + 1 < n: B2[(i + 1) % 2] <- f(i + 1); use B2[i % 2] }``.
Raises PassError E532 where the loop does not have that form.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import add, const, dtype_of, floormod, gt, int_imm, lt
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, IfThenElse, SeqStmt, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, StatementRewriter, collect, fresh_copy, substitute
from ....support.errors import PassError
from ...base import prim_func_pass
from ..blocks.lower_opaque_block import DOUBLE_BUFFER


class _Version(Rewriter):
    """Accesses of a buffer get a leading index."""

    def __init__(self, old: Buffer, new: Buffer, version: Expr) -> None:
        super().__init__({BufferLoad: self.access, BufferStore: self.access})
        self.old, self.new, self.version = old, new, version

    def access(self, node: Any) -> Any:
        """One access."""
        if node.buffer is not self.old:
            return node
        return replace(node, buffer=self.new, indices=(self.version, *node.indices))


def _producer(stmts: tuple[Stmt, ...]) -> int:
    """Position of the first producer, -1 without one."""
    for position, stmt in enumerate(stmts):
        if type(stmt) is AttrStmt and stmt.key == DOUBLE_BUFFER:
            return position
    return -1


def _loop(loop: For, pending: dict[Var, Buffer]) -> Stmt | None:
    stmts = loop.body.stmts if type(loop.body) is SeqStmt else (loop.body,)
    position = _producer(stmts)
    if position < 0:
        return None
    producer = stmts[position]
    assert type(producer) is AttrStmt
    others = [*stmts[:position], *stmts[position + 1 :]]
    buffer = next((s.buffer for s in others if type(s) is AllocBuffer and s.buffer.data is producer.node), None)
    inside = buffer is not None
    buffer = buffer or pending.get(producer.node)
    name = getattr(producer.node, "name", "?")
    if (
        buffer is None
        or buffer.strides
        or loop.kind != "serial"
        or not _only_writer(producer.body, buffer, others, loop)
    ):
        raise PassError(
            "E532", f"{name} cannot have a double buffer in loop {loop.loop_var.name}", producer.span or loop.span
        )
    two = (const(2, dtype_of(buffer.shape[0]) if buffer.shape else "int64"), *buffer.shape)
    new = replace(buffer, shape=two, data=Var(buffer.data.name, buffer.data.ty))
    ty = prim_type(dtype_of(loop.loop_var))
    zero, one = int_imm(0, ty), int_imm(1, ty)
    following = add(loop.loop_var, one)

    def fill(step: Expr) -> Stmt:
        body = _Version(buffer, new, floormod(step, 2))(substitute(producer.body, {loop.loop_var: step}))
        return fresh_copy(body)  # type: ignore[no-any-return]

    rest = [s for s in others if not (inside and type(s) is AllocBuffer and s.buffer is buffer)]
    users = [_Version(buffer, new, floormod(loop.loop_var, 2))(s) for s in rest]
    ahead = IfThenElse(lt(following, loop.extent), fill(following))
    first = fill(zero)
    if not (type(loop.extent) is IntImm and loop.extent.value > 0):
        first = IfThenElse(gt(loop.extent, zero), first)
    made = replace(loop, body=seq(*users[:position], ahead, *users[position:]))
    return seq(AllocBuffer(new), first, made)


def _only_writer(body: Stmt, buffer: Buffer, others: list[Stmt], loop: For) -> bool:
    """True when the producer alone writes the buffer and depends on nothing that the rest of the loop writes."""
    writes = {s.buffer.data for s in collect(body, BufferStore)}
    reads = {s.buffer.data for s in collect(body, BufferLoad)}
    rest = [s for part in others for s in collect(part, BufferStore)]
    if writes != {buffer.data} or buffer.data in reads:
        return False
    defined = {s.buffer.data for s in others if type(s) is AllocBuffer and s.buffer is not buffer}
    return not any([s.buffer.data in reads or s.buffer is buffer for s in rest]) and not (reads & defined)


class _Inject(StatementRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.pending: dict[Var, Buffer] = {}

    def enter(self, node: Any) -> Any | None:
        if type(node) is AllocBuffer:
            self.pending[node.buffer.data] = node.buffer
        return None

    def leave(self, node: Any) -> Any:
        if type(node) is not For:
            return node
        made = _loop(node, self.pending)
        return node if made is None else made


@prim_func_pass()
def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """Fill buffers one step ahead."""
    if not [a for a in collect(func.body, AttrStmt) if a.key == DOUBLE_BUFFER]:
        return func
    body = _Inject()(func.body)
    left = [a for a in collect(body, AttrStmt) if a.key == DOUBLE_BUFFER]
    if left:
        raise PassError("E532", "a double buffer must be filled in the body of a serial loop", left[0].span)
    return replace(func, body=body)
