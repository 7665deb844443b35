"""inject_double_buffer: a buffer that one statement of a loop fills for the others exists twice, and is filled one step ahead.

A block with the annotation ``double_buffer_scope: n`` (its n-th written buffer), or the statement under an attribute
``double_buffer_scope`` on the buffer's pointer, is the producer. Iteration i + 1's content is written while iteration i's is read.

Rewrite: ``for i in range(n): { B <- f(i); use B }`` ->
``B2: alloc (2, ..); if n > 0: B2[0] <- f(0); for i in range(n): { if i + 1 < n: B2[(i + 1) % 2] <- f(i + 1); use B2[i % 2] }``.

Legal where each iteration reads only what it wrote, and where writing it earlier changes nothing: the loop is serial, the
producer alone writes the buffer, the same cells in every iteration, from values that nothing else in the loop changes, and all
other uses are reads behind it in the loop. Raises PassError E532 naming what is not so.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import add, const, dtype_of, floormod, gt, int_imm, is_int, lt
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    Return,
    SeqStmt,
    Stmt,
    seq,
    statements_of,
)
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, StatementRewriter, children, collect, fresh_copy, nodes_in, substitute, used_vars
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..blocks.lower_opaque_block import DOUBLE_BUFFER, _leaves

_HELP = "leave double_buffer_scope out, or let the loop fill all of a buffer of its own before it reads it"
_FILLING = (SeqStmt, For, IfThenElse, BufferStore, Bind, AttrStmt)
"""Statements a producer is made of."""


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


class _ReplaceStmt(StatementRewriter):
    """One statement replaced."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        super().__init__()
        self.old, self.new = old, new

    def enter(self, node: Any) -> Any | None:
        return self.new if node is self.old else None


def _parts(loop: For) -> tuple[tuple[Stmt, ...], AttrStmt | None, tuple[Stmt, ...]]:
    """The body of a loop: what stands before its first producer, the producer, what stands behind."""
    stmts = statements_of(loop.body)
    for position, stmt in enumerate(stmts):
        if type(stmt) is AttrStmt and stmt.key == DOUBLE_BUFFER:
            return stmts[:position], stmt, stmts[position + 1 :]
    return stmts, None, ()


def _loop(loop: For, whole: Stmt) -> Stmt:
    """The loop with two copies of the buffer its producer fills. Raises PassError E532."""
    before, producer, behind = _parts(loop)
    assert producer is not None
    alloc = next((a for a in collect(whole, AllocBuffer) if a.buffer.data is producer.node), None)
    reason = _why_not(loop, whole, alloc)
    if reason is not None:
        name = getattr(producer.node, "name", "?")
        text = f"{name} cannot have a double buffer in loop {loop.loop_var.name}: {reason}"
        raise PassError("E532", text, producer.span or loop.span, help=_HELP)
    assert alloc is not None
    buffer = alloc.buffer
    two = (const(2, dtype_of(buffer.shape[0]) if buffer.shape else "int64"), *buffer.shape)
    new = replace(buffer, shape=two, data=Var(buffer.data.name, buffer.data.ty))
    ty = prim_type(dtype_of(loop.loop_var))
    zero, one = int_imm(0, ty), int_imm(1, ty)
    following = add(loop.loop_var, one)

    def fill(step: Expr) -> Stmt:
        body = _Version(buffer, new, floormod(step, 2))(substitute(producer.body, {loop.loop_var: step}))
        return fresh_copy(body)

    users = [_Version(buffer, new, floormod(loop.loop_var, 2))(s) for s in behind]
    ahead = IfThenElse(lt(following, loop.extent), fill(following))
    first = fill(zero)
    if not (type(loop.extent) is IntImm and loop.extent.value > 0):
        first = IfThenElse(gt(loop.extent, zero), first)
    made = replace(loop, body=seq(*[s for s in before if s is not alloc], ahead, *users))
    return seq(AllocBuffer(new), first, made)


def _why_not(loop: For, whole: Stmt, alloc: AllocBuffer | None) -> str | None:
    """The reason against two copies of the buffer that the producer of a loop fills, None where there is none."""
    before, producer, behind = _parts(loop)
    assert producer is not None
    if loop.kind != "serial" or loop.step is not None or not is_int(loop.min, 0):
        return "the loop is not serial from zero in steps of one"
    if _leaves(loop.body) or collect(loop.body, Return):
        return "an iteration may be left early"
    if alloc is None or alloc.buffer.strides:
        return "it is not allocated in this program, or has strides"
    fill, data = producer.body, alloc.buffer.data
    if any([s.buffer is not alloc.buffer for s in collect(fill, BufferStore)]) or any(
        [isinstance(node, Stmt) and type(node) not in _FILLING for node in nodes_in(fill)]
    ):
        return "the statement that fills it does something else too"
    rest = [node for part in (*before, *behind) for node in nodes_in(part)]
    if [node for node in nodes_in(whole, {id(loop)}) if node is not alloc and _touches(node, data)]:
        return "it is used outside of the loop"
    if [n for n in (*rest, *nodes_in(fill)) if n is not alloc and _touches(n, data) and not _accesses(n, alloc.buffer)]:
        return "it is used through a pointer or a view"
    reads = {load.buffer.data for load in collect(fill, BufferLoad)}
    if data in reads or [node for part in before for node in nodes_in(part) if _accesses(node, alloc.buffer)]:
        return "it is read before the iteration has filled it"
    stores = [node for node in rest if type(node) is BufferStore]
    if [s for s in stores if s.buffer is alloc.buffer]:
        return "another statement of the loop writes it too"
    changed = {s.buffer.data for s in stores}
    changed |= {
        v for node in rest if not isinstance(node, (BufferLoad, BufferStore)) for v in reads if _touches(node, v)
    }
    own = {s.var if isinstance(s, Bind) else s.buffer.data for s in before if isinstance(s, _DEFINING)}
    if reads & changed or own & set(used_vars(fill)):
        return "what fills it depends on what the loop computes"
    if alloc in before:
        return None  # it lives in one iteration: no cell outlives it
    moving = {f.loop_var for f in collect(whole, For) if alloc not in nodes_in(f)} | {
        b.var for b in collect(whole, Bind)
    }
    moving -= set(_defined(fill))
    if any([collect(e, BufferLoad) or moving & set(used_vars(e)) for e in _deciding(fill)]):
        return "not every iteration fills the same cells, so that one may read what another left"
    return None


_DEFINING = (Bind, AllocBuffer, AllocConst, DeclBuffer)


def _defined(stmt: Stmt) -> list[Var]:
    """Variables that a statement defines."""
    return [node.loop_var if type(node) is For else node.var for node in collect(stmt, (For, Bind))]


def _deciding(fill: Stmt) -> list[Expr]:
    """The expressions that decide which cells a statement writes: bounds, conditions, values that have names, indices."""
    found: list[Expr] = []
    for node in collect(fill, (For, IfThenElse, Bind, BufferStore)):
        if type(node) is For:
            found += [node.min, node.extent]
        elif type(node) is BufferStore:
            found += [*node.indices, *([] if node.predicate is None else [node.predicate])]
        else:
            found.append(node.cond if type(node) is IfThenElse else node.value)
    return found


def _accesses(node: Node, buffer: Buffer) -> bool:
    return isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer


def _touches(node: Node, data: Var) -> bool:
    """True if a node names the pointer, by itself or through a buffer over it; the attribute that marks a producer does not
    count."""
    if type(node) is Buffer or (type(node) is AttrStmt and node.key == DOUBLE_BUFFER):
        return False
    return any([child is data or (type(child) is Buffer and child.data is data) for child in children(node)])


@prim_func_pass()
def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """Allocate annotated buffers twice and fill them one step ahead.

    Requires the annotation ``double_buffer_scope``. Raises PassError E532 where earlier writes could change a result.
    """
    body = func.body
    while [a for a in collect(body, AttrStmt) if a.key == DOUBLE_BUFFER]:
        loop = next((f for f in collect(body, For) if _parts(f)[1] is not None), None)
        if loop is None:
            left = next(a for a in collect(body, AttrStmt) if a.key == DOUBLE_BUFFER)
            text = "a double buffer must be filled in the body of a serial loop"
            raise PassError("E532", text, left.span, help=_HELP)
        body = _ReplaceStmt(loop, _loop(loop, body))(body)
    return replace(func, body=body)
