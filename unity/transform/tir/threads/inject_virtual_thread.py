"""inject_virtual_thread: a thread runs its virtual threads itself, statement by statement.

Every statement that differs between virtual threads gets a loop over them. Statements that are the same for all of them, such as
barriers, run once. So the virtual threads proceed together, as the threads of a launch do. Memory that a thread allocates inside
the axis exists once for each virtual thread.

Rewrite: ``for v in T.thread_binding(2, "vthread"): { L: alloc (1,) local; for k in range(n): { L[0] = A[v, k]; B[v, k] = L[0] }
}`` -> ``L: alloc (2, 1) local; for k in range(n): { for v in T.unroll(2): L[v, 0] = A[v, k]; for v in T.unroll(2): B[v, k] =
L[v, 0] }``.

Raises PassError E371 where a barrier stands under a condition that differs between virtual threads, E376 where memory of a
virtual thread is passed to an instruction that cannot address its versions. Source: TVM's InjectVirtualThread.
"""

from __future__ import annotations

from typing import Any

from ....ir.analysis.threads import axis_of, is_thread_axis, is_virtual
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import const, dtype_of
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.scalar import BufferLoad, CommReducer
from ....ir.stmt import (
    NOTHING,
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import collect, fresh_copy, rewrite, substitute, used_vars
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..blocks.lower_opaque_block import leaves_loop
from ..buffers.versions import Versions, fragments_in, has_other_uses, with_versions


class _Axis:
    """Removes one axis of virtual threads."""

    def __init__(self, var: Var, extent: Expr, body: Stmt) -> None:
        self.var, self.extent, self.fragments = var, extent, fragments_in(body)
        self.own: dict[Buffer, Buffer] = {}
        """Buffers of one virtual thread, and the buffer that replaces each for all of them."""
        self.values: dict[Var, Expr] = {}
        """Variables that differ between virtual threads, as expressions of variables that remain."""
        self.differs: set[Var] = {var}
        count = 0
        while count != len(self.differs):
            count = len(self.differs)
            self._mark(body, False)

    # ---- what differs

    def differing(self, node: Node) -> bool:
        """True if an expression or statement mentions what differs between virtual threads."""
        return any([v in self.differs for v in used_vars(node)])

    def _mark(self, stmt: Any, under: bool) -> None:
        """Record variables and memory that differ; ``under``: the statement itself does not run in all virtual threads."""
        kind = type(stmt)
        if kind is Bind:
            if under or self.differing(stmt.value):
                self.differs.add(stmt.var)
        elif kind is BufferStore:
            if stmt.buffer.scope == "local" and (under or self.differing(stmt)):
                self.differs.add(stmt.buffer.data)
        elif kind is Evaluate:
            if under or self.differing(stmt):
                loads = [load.buffer.data for load in collect(stmt, BufferLoad)]
                pointers = [v for v in used_vars(stmt) if isinstance(v.ty, PointerType)]
                self.differs.update([v for v in (*loads, *pointers) if getattr(v.ty, "scope", "") == "local"])
        elif kind is For:
            uneven = under or self.differing(stmt.extent) or self.differing(stmt.min)
            if uneven:
                self.differs.add(stmt.loop_var)
            self._mark(stmt.body, uneven)
        elif kind is IfThenElse:
            uneven = under or self.differing(stmt.cond)
            self._mark(stmt.then_case, uneven)
            if stmt.else_case is not None:
                self._mark(stmt.else_case, uneven)
        elif kind is While:
            self._mark(stmt.body, under or self.differing(stmt.cond))
        elif kind is SeqStmt:
            for part in stmt.stmts:
                self._mark(part, under)
        elif kind is AttrStmt:
            self._mark(stmt.body, under)

    # ---- statements

    def visit(self, stmt: Any) -> Any:
        """A statement run for all virtual threads."""
        if not self.differing(stmt):
            return stmt
        kind = type(stmt)
        if kind is SeqStmt:
            return seq(*[self.visit(part) for part in stmt.stmts], span=stmt.span)
        if kind is AllocBuffer:
            if stmt.buffer.scope != "local":
                return stmt
            made = self.own[stmt.buffer] = with_versions(stmt.buffer, self.extent)
            return replace(stmt, buffer=made)
        if kind is Bind:
            return self._bind(stmt)
        same = not any([self.differing(part) for part in self._bounds(stmt)])
        if kind is For and same and stmt.kind != "vectorized" and not leaves_loop(stmt.body):
            return replace(stmt, body=self.visit(stmt.body))
        if kind is While and same and not leaves_loop(stmt.body):
            return replace(stmt, body=self.visit(stmt.body))
        if kind is IfThenElse and same:
            other = None if stmt.else_case is None else self.visit(stmt.else_case)
            return replace(stmt, then_case=self.visit(stmt.then_case), else_case=other)
        if kind is AttrStmt and type(stmt.node) is not CommReducer:
            return replace(stmt, body=self.visit(stmt.body))
        return self._looped(stmt)

    def _bounds(self, stmt: Any) -> tuple[Expr, ...]:
        """The expressions that say how often a statement's parts run."""
        if type(stmt) is For:
            return stmt.min, stmt.extent
        return (stmt.cond,) if isinstance(stmt, (IfThenElse, While)) else ()

    def _bind(self, stmt: Bind) -> Stmt:
        """A value that differs: index arithmetic is written where it is used, other values are kept in memory."""
        if not collect(stmt.value, (BufferLoad, Call)):
            self.values[stmt.var] = substitute(stmt.value, self.values)
            return NOTHING
        cell = make_buffer(stmt.var.name, dtype_of(stmt.var), (self.extent,), "local")
        here = (self.var,)
        store = self._looped(BufferStore(cell, stmt.value, here, span=stmt.span))
        self.values[stmt.var] = BufferLoad(cell, here, prim_type(cell.dtype))
        return seq(AllocBuffer(cell), store)

    def _looped(self, stmt: Stmt) -> Stmt:
        """A statement once for each virtual thread."""
        self._check(stmt)
        var = Var(self.var.name, self.var.ty, self.var.span)
        body = fresh_copy(
            Versions(self.own, lambda _: self.var, self.fragments)(substitute(stmt, self.values)), {self.var: var}
        )
        return For(var, const(0, dtype_of(var)), self.extent, "unrolled", body)

    def _check(self, stmt: Stmt) -> None:
        calls = collect(stmt, Call)
        barrier = next((c for c in calls if c.op_name == "T.tvm_storage_sync"), None)
        if barrier is not None:
            raise PassError("E371", "a barrier stands under a condition that differs between virtual threads", barrier.span,
                            help="make the condition the same for all virtual threads of a thread")  # fmt: skip
        for buffer in self.own:
            if has_other_uses(stmt, buffer.data, self.fragments):
                raise PassError(
                    "E376", f"{buffer.name} of a virtual thread is given to an instruction as a whole", buffer.span,
                    help="allocate it outside of the virtual threads, with an axis for them",
                )  # fmt: skip


def _inject(attr: AttrStmt) -> Stmt:
    if not is_thread_axis(attr) or not is_virtual(attr.node.thread_tag):
        return attr
    axis = axis_of(attr)
    made: Stmt = _Axis(axis.var, axis.extent, attr.body).visit(attr.body)
    return made


@prim_func_pass()
def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    """Replace virtual threads by loops."""
    return replace(func, body=rewrite(func.body, {AttrStmt: _inject}))
