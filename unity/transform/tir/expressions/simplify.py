"""simplify: index and condition arithmetic, with the bounds of the loops around and the conditions in force.

Removes branches whose condition is decided and loops that never run; expressions of index type are brought to normal form.

``bind_shared``: expression objects that stand in many places are bound once by ``T.Let``, so that nothing after has to visit every
place. Programs read from script share nothing; those built in Python may.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.threads import is_thread_axis
from ....ir.analysis.use import shape_symbols, size_symbols
from ....ir.buffer import Buffer, Range
from ....ir.build import dtype_of, int_imm, is_int, logical_not
from ....ir.common_subtrees import bind_shared_values
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Cast, Select
from ....ir.stmt import NOTHING, AssertStmt, AttrStmt, Bind, For, IfThenElse, SeqStmt, Stmt, While, seq
from ....ir.types import Expr, PrimType
from ....ir.walk import Rewriter, children, substitute
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import is_choice


class _Simplify(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.analyzer = Analyzer(size_symbols(func))
        self.indices = set(shape_symbols(func))
        """Loop variables and shape symbols: arithmetic on these does not overflow. On data it wraps, and stays as written."""
        self.known: dict[Expr, bool] = {}
        """The results of ``over_indices`` for each compound expression."""
        self.asked: dict[Expr, bool] = {}

    def enter(self, node: Any) -> Any | None:
        kind = type(node)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, node)
        if isinstance(node, Expr) and type(node.ty) is PrimType and self._is_index(node):
            return self.expression(node)
        return None

    def _is_index(self, expr: Expr) -> bool:
        dtype = dtype_of(expr)
        if dtype.lanes != 1 or not (dtype.is_integral or dtype.is_bool) or isinstance(expr, (IntImm, Var)):
            return False
        return self.over_indices(expr)

    def over_indices(self, expr: Any) -> bool:
        """True when all leaves are constants, loop variables and shape symbols. Cached per node: asked at every level."""
        kind = type(expr)
        if kind is Var:
            return expr in self.indices
        if kind is BufferLoad or kind is Call or kind is Cast:
            return False
        known = self.asked.get(expr)
        if known is None:
            known = all([self.over_indices(child) for child in children(expr)])
            self.asked[expr] = known
        return known

    def define(self, node: Any) -> Any:
        """Shapes of buffers stay products as written, so that allocation can check each factor."""
        return node if type(node) is Buffer else super().define(node)

    def expression(self, expr: Expr) -> Expr:
        """Simplify an integer or bool expression of one lane."""
        return self.analyzer.simplify(expr)


def _for(s: _Simplify, loop: For) -> Stmt:
    low, extent = s.visit(loop.min), s.visit(loop.extent)
    if type(extent) is IntImm and extent.value <= 0:
        return NOTHING
    with s.analyzer.scope():
        if s.over_indices(loop.extent) and s.over_indices(loop.min):
            s.analyzer.bind(loop.loop_var, Range(low, extent))
            s.indices.add(loop.loop_var)
        body = s.visit(loop.body)
    return replace(loop, min=low, extent=extent, body=body)


def _attr(s: _Simplify, stmt: AttrStmt) -> Stmt | None:
    """A thread axis bounds its variable; one of a single thread or block is 0: buffers in registers need constant indices."""
    if not is_thread_axis(stmt):
        return None
    extent, axis = s.visit(stmt.value), stmt.node.var
    if type(extent) is IntImm and extent.value <= 0:
        return NOTHING
    with s.analyzer.scope():
        if is_int(extent, 1):
            s.mapping[axis] = int_imm(0, axis.ty)
            s.analyzer.bind(axis, 0)
            s.indices.add(axis)
        elif s.over_indices(extent):
            s.analyzer.bind(axis, Range(int_imm(0, axis.ty), extent))
            s.indices.add(axis)
        body = s.visit(stmt.body)
    return replace(stmt, value=extent, body=body)


def _if(s: _Simplify, stmt: IfThenElse) -> Stmt:
    cond = s.visit(stmt.cond)
    if type(cond) is IntImm:
        chosen = stmt.then_case if cond.value else stmt.else_case
        return NOTHING if chosen is None else s.visit(chosen)
    if s.over_indices(cond):
        with s.analyzer.constraint(cond):
            then_case = s.visit(stmt.then_case)
    else:
        then_case = s.visit(stmt.then_case)
    else_case = stmt.else_case
    if else_case is not None and s.over_indices(cond):
        with s.analyzer.constraint(logical_not(cond)):
            else_case = s.visit(else_case)
    elif else_case is not None:
        else_case = s.visit(else_case)
    return replace(stmt, cond=cond, then_case=then_case, else_case=else_case)


def _seq(s: _Simplify, stmt: SeqStmt) -> Stmt:
    parts: list[Stmt] = []
    constants: dict[Var, Expr] = {}
    for part in stmt.stmts:
        new = s.visit(substitute(part, constants) if constants else part)
        if type(new) is Bind and type(new.value) is IntImm:
            constants[new.var] = new.value
        else:
            parts.append(new)
    return seq(*parts, old=stmt)


def _assert(s: _Simplify, stmt: AssertStmt) -> Stmt:
    cond = s.visit(stmt.cond)
    if is_int(cond, 1) or s.analyzer.can_prove(cond):
        return NOTHING
    return replace(stmt, cond=cond)


def _while(s: _Simplify, stmt: While) -> Stmt:
    cond = s.visit(stmt.cond)
    if is_int(cond, 0):
        return NOTHING
    return replace(stmt, cond=cond, body=s.visit(stmt.body))


def _select(s: _Simplify, expr: Select) -> Expr:
    cond = s.visit(expr.cond)
    if type(cond) is IntImm:
        chosen: Expr = s.visit(expr.true_value if cond.value else expr.false_value)
        return chosen
    return replace(expr, cond=cond, true_value=s.visit(expr.true_value), false_value=s.visit(expr.false_value))


def _call(s: _Simplify, expr: Call) -> Expr | None:
    """Only the chosen side of a choice that is decided."""
    if not is_choice(expr):
        return None
    cond = s.visit(expr.args[0])
    if type(cond) is not IntImm:
        return None
    chosen: Expr = s.visit(expr.args[1 if cond.value else 2])
    return chosen


_RULES: dict[type, Any] = {
    Call: _call, AttrStmt: _attr,
    For: _for, IfThenElse: _if, SeqStmt: _seq, AssertStmt: _assert, While: _while, Select: _select,
}  # fmt: skip


@prim_func_pass()
def simplify(func: PrimFunc) -> PrimFunc:
    """Simplify index arithmetic and conditions of lowered programs. For programs without blocks."""
    return replace(func, body=_Simplify(func)(func.body))


@prim_func_pass()
def bind_shared(func: PrimFunc) -> PrimFunc:
    """Bind expression objects that stand in many places to variables. Gives ``T.Let``. Programs read from script share none."""
    return bind_shared_values(func)
