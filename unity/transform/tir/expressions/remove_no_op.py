"""remove_no_op: statements without effect disappear.

Empty sequences, loops and conditions with empty bodies (the bounds and conditions must have no effect), evaluations of
values without effect, allocations that nobody uses, stores of a value just read from the same cell.
"""

from __future__ import annotations

from ....ir.build import is_const
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import (
    NOTHING,
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    is_nothing,
)  # fmt: skip
from ....ir.walk import Visit, children, rewrite
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import calls_are_pure


class _Uses:
    """The variables that some statements use, searched only as far as it takes to find one."""

    def __init__(self) -> None:
        self.rest: list[Node] = []
        self.seen: set[int] = set()
        self.found: set[Var] = set()

    def of(self, var: Var) -> bool:
        """True when a statement in ``rest`` uses the variable."""
        while var not in self.found and self.rest:
            node = self.rest.pop()
            if id(node) not in self.seen:
                self.seen.add(id(node))
                if isinstance(node, Var):
                    self.found.add(node)
                self.rest += reversed(children(node))
        return var in self.found


def _seq(stmt: SeqStmt) -> Stmt:
    kept: list[Stmt] = []
    uses = _Uses()
    for part in reversed(stmt.stmts):
        if is_nothing(part):
            continue
        if type(part) is Bind:
            if calls_are_pure(part.value) and not uses.of(part.var):
                continue
        elif isinstance(part, (AllocBuffer, AllocConst)):
            if not uses.of(part.buffer.data):
                continue
        uses.rest.append(part)
        kept.append(part)
    if len(kept) == len(stmt.stmts) and len(kept) != 1:
        return stmt
    kept.reverse()
    return kept[0] if len(kept) == 1 else SeqStmt(tuple(kept), stmt.span)


def _for(stmt: For) -> Stmt:
    return NOTHING if is_nothing(stmt.body) and calls_are_pure(stmt.extent) else stmt


def _if(stmt: IfThenElse) -> Stmt:
    if is_nothing(stmt.then_case) and is_nothing(stmt.else_case):
        return NOTHING if calls_are_pure(stmt.cond) else Evaluate(stmt.cond, stmt.span)
    if stmt.else_case is not None and is_nothing(stmt.else_case):
        return replace(stmt, else_case=None)
    return stmt


def _attr(stmt: AttrStmt) -> Stmt:
    return NOTHING if is_nothing(stmt.body) else stmt


def _evaluate(stmt: Evaluate) -> Stmt:
    value = stmt.value
    return NOTHING if is_const(value) or (type(value) is not Call and calls_are_pure(value)) else stmt


def _store(stmt: BufferStore) -> Stmt:
    value = stmt.value
    if type(value) is BufferLoad and value.buffer is stmt.buffer and value.predicate is None:
        if all([a is b for a, b in zip(value.indices, stmt.indices)]):
            return NOTHING
    return stmt


@prim_func_pass()
def remove_no_op(func: PrimFunc) -> PrimFunc:
    """Remove statements without effect."""
    rules: dict[type, Visit] = {
        SeqStmt: _seq,
        For: _for,
        IfThenElse: _if,
        AttrStmt: _attr,
        Evaluate: _evaluate,
        BufferStore: _store,
    }
    return replace(func, body=rewrite(func.body, rules))
