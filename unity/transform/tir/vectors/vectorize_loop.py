"""vectorize_loop: loops of kind "vectorized" become vector code.

The loop variable turns into a ramp; expressions over it get lanes. Conditions that differ between lanes become
predicates of stores (and of the reads in their values). A statement that has no vector form runs lane by lane in a serial
loop. Iterations of a vectorized loop do not depend on each other: ``independent_lanes`` saw to that.
Loops longer than ``max_lanes`` are cut into a serial loop of vectors and a rest. Serial loops marked ``vectorize`` (by
order_loops, or a vectorized loop of symbolic extent) are left to LLVM, which vectorizes plain arithmetic as well; those that call
functions with branches inside (``BRANCHING``) or divide by integers from memory, which it cannot, are cut into vectors of ``lanes``
and a rest here.

independent_lanes: vectorized loops of which it is not proved that no iteration touches what another writes run in order.

Rewrite: ``for i in T.vectorized(8): A[p[i]] = A[p[i]] + x[i]`` -> ``for i in range(8): ...``. So a vectorized loop gives what the
loop in order gives, whatever it does; what certainly is not a vector loop the verifier refuses before (E351). Run behind
``lower_opaque_block``, while buffers have their axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ffi.dtype import DataType
from ....ir.analysis.lanes import independent
from ....ir.build import (
    add,
    broadcast,
    cast,
    dtype_of,
    floordiv,
    int_imm,
    is_int,
    logical_and,
    mul,
    ramp,
    scalar_type,
    sub,
)
from ....ir.expr import Call, FloatImm, IntImm, Op, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import (
    Add,
    And,
    Binary,
    Broadcast,
    BufferLoad,
    Cast,
    Compare,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    is_binary,
)  # fmt: skip
from ....ir.stmt import (
    NOTHING,
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)  # fmt: skip
from ....ir.types import Expr, PrimType, prim_type
from ....ir.walk import collect, fresh_copy, rewrite, substitute
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import PURE_CALLS
from ..analysis.vector_index import ramp_with_scalar
from ..blocks.lower_opaque_block import leaves_loop
from .vector_masks import CannotVectorize, is_zero, masked

BRANCHING = frozenset(["T.sin", "T.cos", "T.tan", "T.fmod"])
"""Functions whose code has branches for rare arguments."""


WHOLE = 16
"""Lanes from which on vectors have powers of two: LLVM takes others apart badly."""


DEFINITIONS = (Bind, AllocBuffer, AllocConst, DeclBuffer)
"""Statements whose scope is the rest of their sequence."""


class _Lanes:
    """Vector form of statements and expressions over one loop variable."""

    def __init__(self, var: Var, base: Expr, lanes: int) -> None:
        self.var, self.base, self.lanes = var, base, lanes
        self.vectors: dict[Var, Expr] = {var: ramp(base, int_imm(1, prim_type(dtype_of(var))), lanes)}

    # ---- expressions

    def expr(self, expr: Expr) -> Expr:
        """The expression over all lanes; a lane-invariant one stays scalar."""
        if type(expr) is Var:
            return self.vectors.get(expr, expr)
        if isinstance(expr, (IntImm, FloatImm)):
            return expr
        if is_binary(expr):
            return self._binary(expr)
        rule = _RULES.get(type(expr))
        if rule is None:
            raise CannotVectorize
        return rule(self, expr)

    def widen(self, expr: Expr) -> Expr:
        """Give a scalar expression the lanes."""
        return expr if dtype_of(expr).lanes == self.lanes else broadcast(expr, self.lanes)

    def same(self, *exprs: Expr) -> list[Expr]:
        """Expressions brought to a common number of lanes: all scalar, or all vectors."""
        if any([dtype_of(e).lanes > 1 for e in exprs]):
            return [self.widen(e) for e in exprs]
        return list(exprs)

    def _binary(self, expr: Binary) -> Expr:
        kind = type(expr)
        a, b = self.expr(expr.a), self.expr(expr.b)
        if a is expr.a and b is expr.b:
            return expr
        if dtype_of(a).lanes != dtype_of(b).lanes and kind in (Add, Sub, Mul):
            combined = ramp_with_scalar(kind, a, b)
            if combined is not None:
                return combined
        a, b = self.same(a, b)
        lanes = dtype_of(a).lanes
        if isinstance(expr, (Compare, And, Or)):
            return kind(a, b, prim_type(DataType("bool").with_lanes(lanes)), expr.span)
        return kind(a, b, scalar_type(a), expr.span)

    def lanes_type(self, expr: Expr, lanes: int) -> PrimType:
        """The expression's own type with a number of lanes."""
        return prim_type(dtype_of(expr).with_lanes(lanes))

    # ---- statements

    def stmt(self, stmt: Stmt) -> Stmt:
        """The statement over all lanes, lane by lane where there is no other way."""
        try:
            return self._stmt(stmt)
        except CannotVectorize:
            return self._one_by_one(stmt)

    def all_vector(self, stmt: Stmt) -> Stmt:
        """The statement over all lanes with no part lane by lane. Raises CannotVectorize."""
        if type(stmt) is SeqStmt:
            return seq(*[self.all_vector(s) for s in stmt.stmts])
        if type(stmt) is AttrStmt:
            return replace(stmt, body=self.all_vector(stmt.body))
        if not isinstance(stmt, (BufferStore, Bind)):
            raise CannotVectorize
        return self._stmt(stmt)

    def _one_by_one(self, stmt: Stmt) -> Stmt:
        if any([v is not self.var for v in self.vectors]):
            raise CannotVectorize  # uses a value bound per lane: the whole loop goes lane by lane
        if type(stmt) in DEFINITIONS or leaves_loop(stmt):
            raise CannotVectorize  # what follows depends on it: a loop around it alone would change its meaning
        return lane_by_lane(stmt, self.var, self.base, self.lanes)

    def _stmt(self, stmt: Stmt) -> Stmt:
        if type(stmt) is SeqStmt:
            return seq(*[self.stmt(s) for s in stmt.stmts])
        if type(stmt) is BufferStore:
            return self._store(stmt)
        if type(stmt) is AttrStmt:
            return replace(stmt, body=self.stmt(stmt.body))
        if type(stmt) is IfThenElse:
            return self._if(stmt)
        if type(stmt) is For:
            return self._for(stmt)
        if type(stmt) is Bind:
            value = self.expr(stmt.value)
            if dtype_of(value).lanes == 1:
                return replace(stmt, value=value)
            if type(value) is Ramp and not collect(value, (BufferLoad, Call)):
                self.vectors[stmt.var] = value
                return NOTHING  # stays a ramp in indices
            var = Var(stmt.var.name, value.ty)
            self.vectors[stmt.var] = var
            return Bind(var, value)
        raise CannotVectorize

    def _store(self, stmt: BufferStore) -> Stmt:
        if stmt.predicate is not None or not stmt.indices or stmt.buffer.dtype.lanes != 1:
            raise CannotVectorize
        indices = [self.expr(i) for i in stmt.indices]
        if dtype_of(indices[-1]).lanes == 1 or any([dtype_of(i).lanes > 1 for i in indices[:-1]]):
            raise CannotVectorize  # all lanes would write one cell
        return replace(stmt, indices=tuple(indices), value=self.widen(self.expr(stmt.value)))

    def _if(self, stmt: IfThenElse) -> Stmt:
        cond = self.expr(stmt.cond)
        if dtype_of(cond).lanes == 1:
            other = None if stmt.else_case is None else self.stmt(stmt.else_case)
            return replace(stmt, cond=cond, then_case=self.stmt(stmt.then_case), else_case=other)
        mask = Var("mask", cond.ty)  # the condition holds for all stores under it, whatever they write
        parts: list[Stmt] = [Bind(mask, cond), self._guard(stmt.then_case, mask)]
        if stmt.else_case is not None:
            parts.append(self._guard(stmt.else_case, Not(mask, scalar_type(mask))))
        return seq(*parts)

    def _guard(self, stmt: Stmt, cond: Expr) -> Stmt:
        """Stores under a condition per lane, which nothing they write changes."""
        if type(stmt) is SeqStmt:
            return seq(*[self._guard(s, cond) for s in stmt.stmts])
        if type(stmt) is AttrStmt:
            return replace(stmt, body=self._guard(stmt.body, cond))
        if type(stmt) is IfThenElse and stmt.else_case is None:
            inner = logical_and(cond, masked(self.widen(self.expr(stmt.cond)), cond, self.lanes))
            mask = Var("mask", inner.ty)
            return seq(Bind(mask, inner), self._guard(stmt.then_case, mask))
        if type(stmt) is not BufferStore:
            raise CannotVectorize
        made = self._store(stmt)
        assert type(made) is BufferStore
        indices = tuple([masked(i, cond, self.lanes) for i in made.indices])
        return replace(made, indices=indices, value=masked(made.value, cond, self.lanes), predicate=cond)

    def _for(self, stmt: For) -> Stmt:
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        if dtype_of(low).lanes > 1 or dtype_of(extent).lanes > 1 or stmt.kind == "parallel":
            raise CannotVectorize
        before = dict(self.vectors)
        body = self.stmt(stmt.body)
        self.vectors = before
        return replace(stmt, min=low, extent=extent, body=body)


def lane_by_lane(stmt: Stmt, var: Var, base: Expr, lanes: int) -> Stmt:
    """A serial loop over the lanes of a statement, the first of them at ``base``."""
    lane, ty = Var(var.name, var.ty), scalar_type(var)
    body = fresh_copy(stmt, {var: add(lane, base)})
    return For(lane, int_imm(0, ty), int_imm(lanes, ty), "serial", body)


def _load(s: _Lanes, expr: BufferLoad) -> Expr:
    indices = [s.expr(i) for i in expr.indices]
    if not any([dtype_of(i).lanes > 1 for i in indices]):
        return replace(expr, indices=tuple(indices))
    if expr.predicate is not None or any([dtype_of(i).lanes > 1 for i in indices[:-1]]) or expr.buffer.dtype.lanes != 1:
        raise CannotVectorize
    return replace(expr, indices=tuple(indices), ty=s.lanes_type(expr, dtype_of(indices[-1]).lanes))


def _cast(s: _Lanes, expr: Cast) -> Expr:
    value = s.expr(expr.value)
    return expr if value is expr.value else cast(value, expr.ty.dtype.with_lanes(dtype_of(value).lanes))


def _not(s: _Lanes, expr: Not) -> Expr:
    value = s.expr(expr.a)
    return expr if value is expr.a else Not(value, scalar_type(value), expr.span)


def _select(s: _Lanes, expr: Select) -> Expr:
    cond, a, b = s.same(s.expr(expr.cond), s.expr(expr.true_value), s.expr(expr.false_value))
    return Select(cond, a, b, scalar_type(a), expr.span)


def _let(s: _Lanes, expr: Let) -> Expr:
    value = s.expr(expr.value)
    if dtype_of(value).lanes == 1:
        return Let(expr.var, value, s.expr(expr.body), expr.span)
    var = Var(expr.var.name, value.ty)
    s.vectors[expr.var] = var
    body = s.expr(expr.body)
    del s.vectors[expr.var]
    return Let(var, value, body, expr.span) if dtype_of(body).lanes > 1 else body  # a scalar body does not use it


def _call(s: _Lanes, expr: Call) -> Expr:
    if type(expr.op) is not Op:
        raise CannotVectorize
    args = [s.expr(a) for a in expr.args]
    if all([a is b for a, b in zip(args, expr.args)]):
        return expr
    if expr.op.name not in PURE_CALLS or (
        expr.op.name == "T.reinterpret" and dtype_of(expr).bits != dtype_of(expr.args[0]).bits
    ):
        raise CannotVectorize
    args = s.same(*args)
    if expr.op.name == "T.if_then_else" and dtype_of(args[0]).lanes > 1:
        cond, yes, no = args
        lanes = dtype_of(cond).lanes
        if type(yes) is BufferLoad and yes.predicate is None and is_zero(no):
            return masked(yes, cond, lanes)  # lanes that are not read are zero
        mask = Var("mask", cond.ty)  # named, because it goes into every read on both sides
        chosen = (mask, masked(yes, mask, lanes), masked(no, Not(mask, scalar_type(mask)), lanes))
        return Let(mask, cond, replace(expr, args=chosen, ty=yes.ty))
    return replace(expr, args=tuple(args), ty=s.lanes_type(expr, dtype_of(args[0]).lanes))


def _vector_already(s: _Lanes, expr: Expr) -> Expr:
    raise CannotVectorize


_RULES: dict[type, Callable[[Any, Any], Expr]] = {
    BufferLoad: _load, Cast: _cast, Not: _not, Select: _select, Let: _let, Call: _call,
    Ramp: _vector_already, Broadcast: _vector_already, Shuffle: _vector_already,
}  # fmt: skip


def _vectors(loop: For, first: Expr, lanes: int) -> Stmt:
    base = add(loop.min, first)
    if lanes == 1 and not leaves_loop(loop.body):
        return substitute(loop.body, {loop.loop_var: base})
    try:
        return _Lanes(loop.loop_var, base, lanes).stmt(loop.body)
    except CannotVectorize:
        return lane_by_lane(loop.body, loop.loop_var, base, lanes)


def _loop(loop: For, max_lanes: int, serial_lanes: int) -> Stmt:
    if loop.kind == "vectorized" and type(loop.extent) is not IntImm:
        loop = replace(loop, kind="serial", annotations={**(loop.annotations or {}), "vectorize": 1})
    if loop.kind != "vectorized":
        return _serial(loop, serial_lanes) if loop.note("vectorize") else loop
    assert type(loop.extent) is IntImm
    ty = prim_type(dtype_of(loop.loop_var))
    count = loop.extent.value
    if count == 0:
        return NOTHING
    parts: list[Stmt] = []
    whole = count // max_lanes
    if whole > 1:
        outer = Var(f"{loop.loop_var.name}_block", ty)
        main = _vectors(loop, mul(outer, int_imm(max_lanes, ty)), max_lanes)
        parts.append(For(outer, int_imm(0, ty), int_imm(whole, ty), "serial", main))
    first = whole * max_lanes if whole > 1 else 0
    for piece in _pieces(count - first, max_lanes):
        made = _vectors(loop, int_imm(first, ty), piece)
        parts.append(fresh_copy(made) if parts else made)
        first += piece
    return seq(*parts)


def _pieces(count: int, lanes: int) -> list[int]:
    """Vectors that cover ``count`` lanes: powers of two while whole registers are filled, then one for the rest."""
    found = []
    while count >= WHOLE:
        piece = min(lanes, 1 << (count.bit_length() - 1))
        found.append(piece)
        count -= piece
    return found + ([count] if count else [])


def _wants_vectors(body: Stmt) -> bool:
    """True if there is a function that branches, or a division by integers from memory: there are no instructions for lanes of
    it."""
    if any([call.op_name in BRANCHING for call in collect(body, Call)]):
        return True
    divisions = collect(body, (Div, FloorDiv, FloorMod, Mod))
    return any([dtype_of(node).is_integral and collect(node.b, BufferLoad) for node in divisions])


def _serial(loop: For, lanes: int) -> Stmt:
    """A serial loop whose iterations are independent: cut into vectors where LLVM could not do it."""
    if loop.kind != "serial" or not is_int(loop.min, 0) or not _wants_vectors(loop.body) or not independent(loop):
        return loop
    ty = prim_type(dtype_of(loop.loop_var))
    outer, step = Var(f"{loop.loop_var.name}_block", ty), int_imm(lanes, ty)
    try:
        body = _Lanes(loop.loop_var, mul(outer, step), lanes).all_vector(loop.body)
    except CannotVectorize:
        return loop
    blocks = floordiv(loop.extent, step)
    first = mul(blocks, step)
    rest = substitute(loop.body, {loop.loop_var: add(loop.loop_var, first)})
    tail = fresh_copy(replace(loop, extent=sub(loop.extent, first), body=rest, annotations=None))
    return seq(For(outer, int_imm(0, ty), blocks, "serial", body), tail)


def _in_order(loop: For) -> Stmt:
    return replace(loop, kind="serial") if loop.kind == "vectorized" and not independent(loop) else loop


@prim_func_pass()
def independent_lanes(func: PrimFunc) -> PrimFunc:
    """Make vectorized loops serial unless their iterations are proved independent.

    For programs without blocks whose buffers have their axes.
    """
    return rewrite(func, {For: _in_order})


@prim_func_pass()
def vectorize_loop(func: PrimFunc, *, max_lanes: int = 64, lanes: int = 16) -> PrimFunc:
    """Turn vectorized loops into vector code. For flat buffers and independent lanes (``independent_lanes``)."""
    return rewrite(func, {For: lambda loop: _loop(loop, max_lanes, lanes)})
