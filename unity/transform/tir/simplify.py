"""simplify: index and condition arithmetic, with the bounds of the loops around and the conditions in force.

Removes branches whose condition is decided and loops that never run; expressions of index type are brought to normal form.
"""

from __future__ import annotations

from typing import Any

from ...arith.analyzer import Analyzer
from ...ir.buffer import Range
from ...ir.build import dtype_of, is_int
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad, Select
from ...ir.stmt import AssertStmt, Bind, For, IfThenElse, SeqStmt, Stmt, While, seq
from ...ir.types import Expr, PrimType
from ...ir.walk import Rewriter, substitute
from ..base import prim_func_pass

NOTHING = SeqStmt(())


class _Simplify(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()

    def enter(self, node: Any) -> Any | None:
        kind = type(node)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, node)
        if isinstance(node, Expr) and type(node.ty) is PrimType and _worth(node):
            return self.expression(node)
        return None

    def expression(self, expr: Expr) -> Expr:
        """Simplify an integer or bool expression of one lane."""
        return self.analyzer.simplify(expr)

    def cond(self, expr: Expr) -> Expr:
        """Simplify a condition."""
        return self.visit(expr)  # type: ignore[no-any-return]


def _worth(expr: Expr) -> bool:
    dtype = dtype_of(expr)
    return dtype.lanes == 1 and (dtype.is_integral or dtype.is_bool) and type(expr) not in (IntImm, Var, BufferLoad)


def _for(s: _Simplify, loop: For) -> Stmt:
    low, extent = s.visit(loop.min), s.visit(loop.extent)
    if type(extent) is IntImm and extent.value <= 0:
        return NOTHING
    s.analyzer.bind(loop.loop_var, Range(low, extent))
    body = s.visit(loop.body)
    if low is loop.min and extent is loop.extent and body is loop.body:
        return loop
    return replace(loop, min=low, extent=extent, body=body)


def _if(s: _Simplify, stmt: IfThenElse) -> Stmt:
    cond = s.cond(stmt.cond)
    if type(cond) is IntImm:
        chosen = stmt.then_case if cond.value else stmt.else_case
        return NOTHING if chosen is None else s.visit(chosen)  # type: ignore[no-any-return]
    with s.analyzer.constraint(cond):
        then_case = s.visit(stmt.then_case)
    else_case = stmt.else_case if stmt.else_case is None else s.visit(stmt.else_case)
    if cond is stmt.cond and then_case is stmt.then_case and else_case is stmt.else_case:
        return stmt
    return replace(stmt, cond=cond, then_case=then_case, else_case=else_case)


def _seq(s: _Simplify, stmt: SeqStmt) -> Stmt:
    parts: list[Stmt] = []
    changed = False
    constants: dict[Var, Expr] = {}
    for part in stmt.stmts:
        new = s.visit(substitute(part, constants) if constants else part)
        changed = changed or new is not part
        if type(new) is Bind and type(new.value) is IntImm:
            constants[new.var] = new.value
            changed = True
            continue
        parts.append(new)
    return seq(*parts) if changed else stmt


def _assert(s: _Simplify, stmt: AssertStmt) -> Stmt:
    cond = s.cond(stmt.cond)
    if is_int(cond, 1):
        return NOTHING
    return stmt if cond is stmt.cond else replace(stmt, cond=cond)


def _while(s: _Simplify, stmt: While) -> Stmt:
    cond = s.cond(stmt.cond)
    if is_int(cond, 0):
        return NOTHING
    body = s.visit(stmt.body)
    return stmt if cond is stmt.cond and body is stmt.body else replace(stmt, cond=cond, body=body)


def _select(s: _Simplify, expr: Select) -> Expr:
    cond = s.cond(expr.cond)
    if type(cond) is IntImm:
        return s.visit(expr.true_value if cond.value else expr.false_value)  # type: ignore[no-any-return]
    a, b = s.visit(expr.true_value), s.visit(expr.false_value)
    if cond is expr.cond and a is expr.true_value and b is expr.false_value:
        return expr
    return replace(expr, cond=cond, true_value=a, false_value=b)



_RULES: dict[type, Any] = {
    For: _for, IfThenElse: _if, SeqStmt: _seq, AssertStmt: _assert, While: _while, Select: _select,
}  # fmt: skip


@prim_func_pass()
def simplify(func: PrimFunc) -> PrimFunc:
    """Simplify index arithmetic and conditions."""
    body = _Simplify()(func.body)
    return func if body is func.body else replace(func, body=body)
