"""thread_sync: barriers between accesses to shared memory that threads could make in the wrong order.

The statements of a kernel are visited in order. A barrier is put before a statement whose accesses can conflict with those since
the last barrier (one of them writes, and they are not provably by the same thread). A loop whose iteration can conflict with the
previous one gets a barrier at the beginning of its body. Existing barriers are kept and used.

Rewrite: ``S[tx] = A[tx]; B[tx] = S[31 - tx]`` -> ``S[tx] = A[tx]; T.tvm_storage_sync("shared"); B[tx] = S[31 - tx]``.
A kernel that creates barriers itself (``T.create_barriers``) synchronises itself and stays as it is.
Races within a single statement (``S[tx] = S[tx + 1]``) and between blocks are not found here; the thread-level checker finds them.
Source: the planner of TVM's ThreadSync; conflicts are found by enumerating the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....ir.analysis.threads import is_thread_axis, thread_axes
from ....ir.build import int_value, intrinsic
from ....ir.expr import Call, IntImm, StringImm, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.stmt import (
    AttrStmt,
    Bind,
    BlockRealize,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    seq,
)  # fmt: skip
from ....ir.types import Expr
from ....ir.walk import Rewriter, collect, free_vars, substitute
from ....support.errors import Note, PassError
from ...infra.passes import prim_func_pass
from .thread_accesses import Access, Accesses, Conflicts, has_barriers, scope_of
from .thread_uniform import Uniform

SCOPES = ("shared", "shared.dyn", "warp")


@dataclass(slots=True)
class Summary:
    """Accesses of a statement before its first and after its last barrier; ``surely``: every thread passes a barrier."""

    head: list[Access] = field(default_factory=list)
    tail: list[Access] = field(default_factory=list)
    surely: bool = False


class _Kernel:
    """Plans the barriers of one kernel."""

    def __init__(self, stmt: Stmt, scope: str, outside: set[Var]) -> None:
        self.scope = scope
        self.accesses = Accesses(scope, stmt)
        threads: dict[str, tuple[Var, int | None]] = {}
        self.every: set[Var] = set()
        """All variables of threadIdx axes: the same axis may be bound by several loops."""
        for axis in thread_axes(stmt):
            if axis.tag.startswith("threadIdx"):
                extent = int_value(axis.extent)
                first = threads.setdefault(axis.tag, (axis.var, extent))[0]
                self.every.add(axis.var)
                if first is not axis.var:
                    self.accesses.values[axis.var] = first
        self.meetings = Conflicts(dict(threads.values()))
        self.uniform = Uniform(stmt, self.every)
        self.fixed: set[Var] = set(outside)
        self.divergent: list[Node] = []
        self.handlers: dict[type, Callable[[Any], tuple[Stmt, Summary]]] = {
            SeqStmt: self._seq, For: self._for, While: self._while, IfThenElse: self._if, AttrStmt: self._attr,
            BlockRealize: self._block, Bind: self._bind,
        }  # fmt: skip

    def visit(self, stmt: Stmt) -> tuple[Stmt, Summary]:
        """A statement with its barriers, and what it accesses."""
        if self._is_barrier(stmt):
            return stmt, Summary(surely=True)
        handler = self.handlers.get(type(stmt))
        if handler is not None:
            return handler(stmt)
        found = self.accesses.of(stmt)
        return stmt, Summary(found, found)

    __call__ = visit  # recursion goes through the name: a call of an object goes through C, whose depth is bounded

    def _is_barrier(self, stmt: Stmt) -> bool:
        if type(stmt) is not Evaluate or type(stmt.value) is not Call or stmt.value.op_name != "T.tvm_storage_sync":
            return False
        first = stmt.value.args[0]
        if type(first) is not StringImm:
            return False
        scope = first.value
        return scope != "warp" if self.scope != "warp" else True

    # ---- barriers

    def _barrier(self, a: Access, b: Access) -> Stmt:
        if self.divergent:
            where = self.divergent[-1]
            raise PassError(
                "E371",
                f"{a.data.name} needs a barrier between two accesses under a condition that differs between threads",
                b.span, [Note("the other access", a.span), Note("the condition", getattr(where, "span", None))],
                help="split the condition so that the accesses stand under separate ones, or make it the same for all threads; "
                "of one read from memory T.tvm_thread_invariant(condition) says that it is",
            )  # fmt: skip
        scope = "shared" if self.scope != "warp" else "warp"
        return Evaluate(intrinsic("tvm_storage_sync", StringImm(scope if self.scope != "shared.dyn" else self.scope)))

    def _seq(self, stmt: SeqStmt) -> tuple[Stmt, Summary]:
        made: list[Stmt] = []
        total = Summary()
        known = set(self.fixed)
        for part in stmt.stmts:
            new, found = self.visit(part)
            met = self.meetings.clash(total.tail, found.head, self.fixed)
            if met is not None:
                made.append(self._barrier(*met))
                total.tail, total.surely = [], True
            made.append(new)
            if not total.surely:
                total.head = [*total.head, *found.head]
            if found.surely:
                total.tail, total.surely = found.tail, True
            else:
                total.tail = [*total.tail, *found.tail]
        self.fixed = known
        return seq(*made, span=stmt.span, old=stmt), total

    def _repeated(self, body: Stmt, fixed: set[Var]) -> tuple[Stmt, Summary]:
        """Body of a loop: an iteration against the previous one, in which the variables of the loop had other values."""
        new, found = self.visit(body)
        met = self.meetings.clash(found.tail, found.head, fixed)
        if met is not None:
            new = seq(self._barrier(*met), new)
            found = Summary([], found.tail, True)
        return new, found

    # ---- statements

    def _for(self, stmt: For) -> tuple[Stmt, Summary]:
        var, outer = stmt.loop_var, self.fixed
        if type(stmt.min) is IntImm and type(stmt.extent) is IntImm and (stmt.thread or "v").startswith("v"):
            self.meetings.ranges[var] = (stmt.min.value, max(stmt.extent.value, 0))
        if stmt.kind == "vectorized":  # one wide access: no barrier can stand inside
            touched = self.accesses.of(stmt)
            return stmt, Summary(touched, touched)
        if stmt.kind == "thread_binding":
            self.fixed = outer | ({var} if (stmt.thread or "").startswith("blockIdx") else set())
            body, found = self.visit(stmt.body)
        else:
            uneven = (
                self._varies(stmt.min)
                or self._varies(stmt.extent)
                or (stmt.step is not None and self._varies(stmt.step))
            )
            if uneven:
                self.uniform.varying.add(var)
                self.divergent.append(stmt)
            else:
                self.fixed = outer | {var}
            if type(stmt.extent) is IntImm and stmt.extent.value <= 1:
                body, found = self.visit(stmt.body)
            else:
                body, found = self._repeated(stmt.body, outer)
            if uneven:
                self.divergent.pop()
            runs = type(stmt.extent) is IntImm and stmt.extent.value > 0
            found = Summary(found.head, found.tail, found.surely and runs)
        self.fixed = outer
        return (replace(stmt, body=body)), found

    def _while(self, stmt: While) -> tuple[Stmt, Summary]:
        uneven = self._varies(stmt.cond)
        if uneven:
            self.divergent.append(stmt)
        body, found = self._repeated(stmt.body, self.fixed)
        if uneven:
            self.divergent.pop()
        tested = self.accesses.of(stmt.cond)
        found = Summary([*tested, *found.head], [*found.tail, *tested])
        return (replace(stmt, body=body)), found

    def _if(self, stmt: IfThenElse) -> tuple[Stmt, Summary]:
        tested = self.accesses.of(stmt.cond)
        uneven = self._varies(stmt.cond)
        if uneven:
            self.divergent.append(stmt)
        outer = self._leave(stmt.cond)
        yes, first = self.visit(stmt.then_case)
        self.accesses.only = outer
        no, second = self.visit(stmt.else_case) if stmt.else_case is not None else (None, Summary())
        if uneven:
            self.divergent.pop()
        both = first.surely and second.surely and not uneven
        tail = [*first.tail, *second.tail] if both else [*tested, *first.tail, *second.tail]
        found = Summary([*tested, *first.head, *second.head], tail, both)
        return replace(stmt, then_case=yes, else_case=no), found

    def _attr(self, stmt: AttrStmt) -> tuple[Stmt, Summary]:
        outer = self.fixed
        if is_thread_axis(stmt) and stmt.node.thread_tag.startswith("blockIdx"):
            self.fixed = outer | {stmt.node.var}
        body, found = self.visit(stmt.body)
        self.fixed = outer
        return (replace(stmt, body=body)), found

    def _bind(self, stmt: Bind) -> tuple[Stmt, Summary]:
        if self._varies(stmt.value):
            self.uniform.varying.add(stmt.var)
        else:
            self.fixed = self.fixed | {stmt.var}  # until the sequence ends
        found = self.accesses.of(stmt.value)
        return stmt, Summary(found, found)

    def _block(self, stmt: BlockRealize) -> tuple[Stmt, Summary]:
        block, outer = stmt.block, self.fixed
        for iterator, value in stmt.bindings:
            self.accesses.values[iterator.var] = substitute(value, self.accesses.values)
            if self._varies(value):
                self.uniform.varying.add(iterator.var)
        uneven = self._varies(stmt.predicate)
        if uneven:
            self.divergent.append(stmt)
        everyone = self._leave(stmt.predicate)
        body, found = self.visit(block.body)
        self.accesses.only = everyone
        if uneven:
            self.divergent.pop()
        start = self.accesses.of(block.init) if block.init is not None else []
        found = Summary([*start, *found.head], [*found.tail, *start], found.surely and not uneven)
        self.fixed = outer
        return replace(stmt, block=replace(block, body=body)), found

    def _leave(self, cond: Expr) -> dict[Var, int]:
        """Only threads with the numbers that a condition asks for go on; the numbers known before."""
        before = self.accesses.only
        self.accesses.only = before | self.meetings.numbers(cond, self.accesses.values)
        return before

    def _varies(self, expr: Expr) -> bool:
        return self.uniform.varies(expr)


class _Kernels(Rewriter):
    """Finds the kernels."""

    def __init__(self, scope: str, outside: set[Var]) -> None:
        super().__init__()
        self.scope, self.outside = scope, outside

    def enter(self, node: Any) -> Any | None:
        if not is_thread_axis(node):
            return None
        if has_barriers(node):
            return node
        outside = self.outside | set(free_vars(node))
        return _Kernel(node, self.scope, outside)(node)[0]


@prim_func_pass()
def thread_sync(func: PrimFunc, *, storage_scope: str = "shared") -> PrimFunc:
    """Insert barriers between accesses to shared memory that threads could make in the wrong order.

    For programs without blocks. Gives ``T.tvm_storage_sync``.
    Options of thread_sync: the storage scope that it handles.
    """
    if storage_scope not in SCOPES:
        raise PassError("E371", f"thread_sync has nothing to do for scope {storage_scope!r}", func.span,
                        help=f"use one of {', '.join(SCOPES)}")  # fmt: skip
    if not any([scope_of(var) == storage_scope for var in collect(func.body, Var)]):
        return func
    return replace(func, body=_Kernels(storage_scope, set())(func.body))
