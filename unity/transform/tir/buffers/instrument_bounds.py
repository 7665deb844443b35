"""instrument_bounds: every access to a buffer is checked at run time; an index outside the shape is an error with a message.

Not part of the default pipeline: ``CHECKED_CPU_PIPELINE`` has it. A check stands before the statement that makes the access and
holds under the conditions under which the access happens (branches of ``T.if_then_else``, right sides of ``and`` / ``or``).
`simplify` removes what the loop bounds prove. Vectors of indices other than ramps are not checked.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import add, const, dtype_of, ge, logical_and, logical_not, logical_or, lt, mul
from ....ir.expr import Call, IntImm, Op, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import And, BufferLoad, Let, Or, Ramp
from ....ir.stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Break,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    seq,
)  # fmt: skip
from ....ir.types import Expr
from ....ir.walk import children, rebuild, substitute
from ...infra.passes import prim_func_pass


def _inside(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """The condition that indices lie in the shape; None where nothing can be said."""
    found: Expr | None = None
    for index, extent in zip(indices, buffer.shape):
        if type(index) is Ramp and type(index.stride) is IntImm:
            last = add(index.base, mul(index.stride, const(index.lanes - 1, dtype_of(index.stride))))
            ends = [index.base, last]
        elif dtype_of(index).lanes == 1:
            ends = [index]
        else:
            continue
        for end in ends:
            good = logical_and(ge(end, 0), lt(end, extent))
            found = good if found is None else logical_and(found, good)
    return found


class _Checks:
    """The checks that the evaluation of expressions needs, in order of evaluation."""

    def __init__(self) -> None:
        self.found: list[Stmt] = []

    def require(self, buffer: Buffer, indices: tuple[Expr, ...], guard: Expr | None, span: Any) -> None:
        """Check an access that happens where ``guard`` holds."""
        condition = _inside(buffer, indices)
        if condition is not None:
            condition = condition if guard is None else logical_or(logical_not(guard), condition)
            if not (type(condition) is IntImm and condition.value):
                self.found.append(
                    AssertStmt(condition, f"an index of {buffer.name} is out of bounds", "IndexError", span)
                )

    def expr(self, expr: Any, guard: Expr | None = None) -> None:
        """Collect the checks of an expression evaluated where ``guard`` holds."""
        kind = type(expr)
        if kind is Var or Expr not in kind.__mro__:
            return
        if kind is Let:
            self.expr(expr.value, guard)
            self.expr(substitute(expr.body, {expr.var: expr.value}), guard)
        elif (kind is And or kind is Or) and dtype_of(expr).lanes == 1:
            self.expr(expr.a, guard)
            self.expr(expr.b, _both(guard, expr.a if kind is And else logical_not(expr.a)))
        elif (
            kind is Call
            and type(expr.op) is Op
            and expr.op.name == "T.if_then_else"
            and dtype_of(expr.args[0]).lanes == 1
        ):
            cond, yes, no = expr.args
            self.expr(cond, guard)
            self.expr(yes, _both(guard, cond))
            self.expr(no, _both(guard, logical_not(cond)))
        elif kind is BufferLoad:
            for index in expr.indices:
                self.expr(index, guard)
            if expr.predicate is None:
                self.require(expr.buffer, expr.indices, guard, expr.span)
        elif kind is Call and expr.op_name == "T.address_of":
            for index in getattr(expr.args[0], "indices", ()):
                self.expr(index, guard)
        else:
            for child in children(expr):
                self.expr(child, guard)


def _both(guard: Expr | None, condition: Expr) -> Expr:
    return condition if guard is None else logical_and(guard, condition)


def _before(stmt: Stmt, *exprs: Expr | None) -> list[Stmt]:
    checks = _Checks()
    for expr in exprs:
        if expr is not None:
            checks.expr(expr)
    return checks.found


def _checked(stmt: Any) -> Any:
    """A statement with checks in the statements it holds."""
    return rebuild(stmt, lambda part: _stmt(part) if isinstance(part, Stmt) else part)


def _stmt(stmt: Any) -> Any:
    kind = type(stmt)
    if kind in (SeqStmt, AttrStmt):
        return _checked(stmt)
    if kind is BufferStore:
        checks = _Checks()
        for part in (*stmt.indices, stmt.value):
            checks.expr(part)
        if stmt.predicate is None:
            checks.require(stmt.buffer, stmt.indices, None, stmt.span)
        return seq(*checks.found, stmt)
    if kind is For:
        return seq(*_before(stmt, stmt.min, stmt.extent), _checked(stmt))
    if kind is While:
        head = _before(stmt, stmt.cond)
        if not head:
            return _checked(stmt)
        leave = IfThenElse(logical_not(stmt.cond), Break())
        return replace(stmt, cond=const(True), body=seq(*head, leave, _stmt(stmt.body)))
    if kind is IfThenElse:
        return seq(*_before(stmt, stmt.cond), _checked(stmt))
    if kind is Bind or kind is Evaluate:
        return seq(*_before(stmt, stmt.value), stmt)
    if kind is AssertStmt:
        return seq(*_before(stmt, stmt.cond), stmt)
    if kind is AllocBuffer:
        return seq(*_before(stmt, *stmt.buffer.shape), stmt)
    return stmt


@prim_func_pass()
def instrument_bounds(func: PrimFunc) -> PrimFunc:
    """Check every buffer access at run time.

    For programs without blocks whose buffers have their axes. Gives assertions that raise E614.
    """
    return replace(func, body=_stmt(func.body))
