"""instrument_bounds: every access to a buffer is checked at run time; an index outside the shape is an error with a message.

Not part of the default pipeline: ``CHECKED_CPU_PIPELINE`` has it. A check stands before the statement that makes the access and
holds under the conditions under which the access happens (branches of ``T.if_then_else``, right sides of ``and`` / ``or``).
An element of a view (``T.decl_buffer``) must lie in the memory that the view shows as well. `simplify` removes what the loop bounds
prove. Vectors of indices other than ramps are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import product
from typing import Any

from ....arith.views import byte_range, owners, viewed_buffer
from ....ir.buffer import Buffer
from ....ir.build import add, const, dtype_of, ge, le, logical_and, logical_not, logical_or, lt, mul
from ....ir.expr import Call, IntImm, Var
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
from ..analysis.loop_nests import is_choice


def _inside(buffer: Buffer, indices: tuple[Expr, ...], owner: Buffer | None) -> Expr | None:
    """The condition that indices lie in the shape, and in the memory that a view shows; None where nothing can be said."""
    ends = [_ends(index) for index in indices]
    conditions = [logical_and(ge(end, 0), lt(end, extent)) for both, extent in zip(ends, buffer.shape) for end in both]
    if owner is not None and all(ends):
        spans = [byte_range(buffer, corner, owner) for corner in product(*ends)]
        conditions += [logical_and(ge(p.first, 0), le(p.end, p.size)) for p in spans if p is not None]
    return reduce(logical_and, conditions) if conditions else None


def _ends(index: Expr) -> list[Expr]:
    """The first and the last of the indices of an axis: one, those of a ramp, or none that are known."""
    if type(index) is Ramp and type(index.stride) is IntImm:
        return [index.base, add(index.base, mul(index.stride, const(index.lanes - 1, dtype_of(index.stride))))]
    return [index] if dtype_of(index).lanes == 1 else []


class _Checks:
    """The checks that the evaluation of expressions needs, in order of evaluation."""

    def __init__(self, made: Mapping[Var, Buffer]) -> None:
        self.made = made
        self.found: list[Stmt] = []

    def require(self, buffer: Buffer, indices: tuple[Expr, ...], guard: Expr | None, span: Any) -> None:
        """Check an access that happens where ``guard`` holds."""
        condition = _inside(buffer, indices, viewed_buffer(buffer, self.made))
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
        elif is_choice(expr) and dtype_of(expr.args[0]).lanes == 1:
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


class _Checked:
    """Statements with their checks. ``made``: the buffers that pointers belong to."""

    def __init__(self, made: dict[Var, Buffer]) -> None:
        self.made = made

    def before(self, *exprs: Expr | None) -> list[Stmt]:
        """The checks of expressions that a statement evaluates first."""
        checks = _Checks(self.made)
        for expr in exprs:
            if expr is not None:
                checks.expr(expr)
        return checks.found

    def inside(self, stmt: Any) -> Any:
        """A statement with checks in the statements it holds."""
        return rebuild(stmt, lambda part: self.stmt(part) if isinstance(part, Stmt) else part)

    def stmt(self, stmt: Any) -> Any:
        """A statement behind the checks that it needs."""
        kind = type(stmt)
        if kind in (SeqStmt, AttrStmt):
            return self.inside(stmt)
        if kind is BufferStore:
            checks = _Checks(self.made)
            for part in (*stmt.indices, stmt.value):
                checks.expr(part)
            if stmt.predicate is None:
                checks.require(stmt.buffer, stmt.indices, None, stmt.span)
            return seq(*checks.found, stmt)
        if kind is For:
            return seq(*self.before(stmt.min, stmt.extent), self.inside(stmt))
        if kind is While:
            head = self.before(stmt.cond)
            if not head:
                return self.inside(stmt)
            leave = IfThenElse(logical_not(stmt.cond), Break())
            return replace(stmt, cond=const(True), body=seq(*head, leave, self.stmt(stmt.body)))
        if kind is IfThenElse:
            return seq(*self.before(stmt.cond), self.inside(stmt))
        if kind is Bind or kind is Evaluate:
            if kind is Bind and isinstance(stmt.value, Var) and stmt.value in self.made:
                self.made[stmt.var] = self.made[stmt.value]
            return seq(*self.before(stmt.value), stmt)
        if kind is AssertStmt:
            return seq(*self.before(stmt.cond), stmt)
        if kind is AllocBuffer:
            return seq(*self.before(*stmt.buffer.shape), stmt)
        return stmt


@prim_func_pass()
def instrument_bounds(func: PrimFunc) -> PrimFunc:
    """Check every buffer access at run time.

    For programs without blocks whose buffers have their axes. Gives assertions that raise E614.
    """
    return replace(func, body=_Checked(owners(func)).stmt(func.body))
