"""compact_buffer_allocation: buffers are allocated where they are used, no larger than what is used there.

An allocation moves into the loops around all its uses where each iteration reads only what it has written itself before: then
iterations share nothing through the buffer, each may have its own, and in a parallel loop each thread does. It then shrinks to
the box of cells touched, where the box has a constant size; indices become relative to its corner.

Rewrite: ``C: alloc (64, 64); for i: { for j: C[i, j] = ..; for j: .. = C[i, j] }`` ->
``for i: { C: alloc (1, 64); for j: C[0, j] = ..; for j: .. = C[0, j] }``.
Buffers with strides or an offset, and those whose pointer is used, stay as they are.
"""

from __future__ import annotations

import math
from typing import Any

from ....arith.analyzer import Analyzer
from ....arith.intset import IntSet, union
from ....ir.analysis.use import size_symbols
from ....ir.buffer import Buffer, Range
from ....ir.build import const, dtype_of, int_values
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import AllocBuffer, AttrStmt, Block, For, IfThenElse, SeqStmt, Stmt, seq, statements_of
from ....ir.types import Expr, PrimType
from ....ir.walk import StatementRewriter, children, collect, used_vars
from ...infra.passes import prim_func_pass
from ..analysis.touched_regions import (
    Access,
    AccessWalk,
    MoveAccesses,
    accesses_of,
    box,
    touched_range,
    within,
    written_before_read,
)
from ..blocks.lower_opaque_block import refuse_block


class _Compact(StatementRewriter):
    def __init__(self, symbols: list[Var]) -> None:
        super().__init__()
        self.analyzer = Analyzer(symbols)
        self.users = _Users()

    def enter(self, node: Any) -> Any | None:
        if type(node) is For:
            with self.analyzer.scope():
                self.analyzer.bind(node.loop_var, Range(node.min, node.extent))
                body = self.visit(node.body)
            return replace(node, body=body)
        if type(node) is SeqStmt and any([type(part) is AllocBuffer for part in node.stmts]):
            return self.sequence(node)
        return None

    def sequence(self, stmt: SeqStmt) -> Stmt:
        """Place the allocations of a sequence, then go on into it."""
        kept: list[Stmt] = []
        rest: Stmt = stmt
        walk: AccessWalk | None = None  # of all buffers, as long as what moves is not in the bounds of what follows
        while type(rest) is SeqStmt:
            first, rest_after = rest.stmts[0], seq(*rest.stmts[1:])
            if type(first) is AllocBuffer:
                walk = walk or AccessWalk(rest)
                placed = self.sink_allocation(first, rest_after, walk)
                if placed is not None:
                    walk = None if first.buffer in walk.addressing() else walk
                    rest = placed
                    if (
                        type(rest) is SeqStmt
                        and type(rest.stmts[0]) is AllocBuffer
                        and rest.stmts[0].buffer.data is first.buffer.data
                    ):
                        kept.append(rest.stmts[0])
                        rest = seq(*rest.stmts[1:])
                    continue
            kept.append(first)
            rest = rest_after
        whole = seq(*kept, rest)
        parts = statements_of(whole)
        return seq(*[self.visit(part) for part in parts], old=stmt)

    def sink_allocation(self, alloc: AllocBuffer, rest: Stmt, walk: AccessWalk) -> Stmt | None:
        """The rest of a sequence with the allocation in its place, or None to leave both as they are; ``walk`` has the accesses."""
        buffer = alloc.buffer
        if buffer.strides or buffer.elem_offset is not None or not buffer.shape:
            return None
        path = self.users.path(rest, buffer.data)
        found = None if walk.is_left else walk.accesses(buffer)
        if found is None and not walk.is_left:
            return None
        for depth in range(len(path) - 1, -1, -1):
            if depth and (type(path[depth - 1]) is not For):
                continue  # only the inside of a loop is worth moving to
            accesses = accesses_of(path[depth], buffer) if found is None else within(path[:depth], found)
            if accesses is None:
                return None
            with self.analyzer.scope():
                for loop in path[:depth]:
                    if type(loop) is For:
                        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
                if depth and not written_before_read(accesses, self.analyzer):
                    continue
                possible = depth or self.possible_size(buffer)
                made = self.shrink(alloc, path[depth], accesses) if possible else None
            if made is None and depth == 0:
                return None
            return _rebuilt(path[: depth + 1], made if made is not None else seq(alloc, path[depth]))
        return None

    def shrink(self, alloc: AllocBuffer, body: Stmt, accesses: list[Access]) -> Stmt | None:
        """Allocation and body with the buffer cut to the box touched; None where that gains nothing."""
        buffer = alloc.buffer
        boxes = [box(access, self.analyzer) for access in accesses]
        if not boxes or any([len(b) != len(buffer.shape) for b in boxes]):
            return None
        corner: list[Expr] = []
        shape: list[Expr] = []
        for axis, extent in enumerate(buffer.shape):
            low, size = self._axis([b[axis] for b in boxes], extent)
            corner.append(low)
            shape.append(size)
        if all([a is b for a, b in zip(shape, buffer.shape)]):
            return None
        for block in collect(body, Block):
            refuse_block(block)
        small = replace(buffer, shape=tuple(shape), data=Var(buffer.data.name, buffer.data.ty))
        moved = MoveAccesses({buffer: (small, corner)}, self.analyzer)(body)
        return seq(replace(alloc, buffer=small), moved)

    def possible_size(self, buffer: Buffer) -> bool:
        """No extent is negative and the constant ones make a possible size: others keep the check of their size."""
        constants = int_values(buffer.shape)
        return math.prod(constants) < 1 << 40 and all(
            [self.analyzer.can_prove_greater_equal(e, 0) for e in buffer.shape]
        )

    def _axis(self, parts: list[IntSet], extent: Expr) -> tuple[Expr, Expr]:
        """(first cell, number of cells) to keep of an axis."""
        if any([end is None or _has_vectors(end) for cells in parts for end in (cells.low, cells.high)]):
            return const(0, dtype_of(extent)), extent
        return touched_range(union(parts, self.analyzer), extent, self.analyzer)


def _has_vectors(expr: Expr) -> bool:
    """True if a bound contains vectors (an index read from a vector): nothing is known of its lanes."""
    return any([isinstance(part.ty, PrimType) and part.ty.dtype.lanes > 1 for part in collect(expr, Expr)])


class _Users:
    """The variables that statements use, each statement looked into once."""

    def __init__(self) -> None:
        self.known: dict[Stmt, set[Var]] = {}

    def used(self, stmt: Stmt) -> set[Var]:
        """The variables in a statement."""
        found = self.known.get(stmt)
        if found is None:
            parts = children(stmt)
            held = [self.used(part) if isinstance(part, Stmt) else set(used_vars(part)) for part in parts]
            found = self.known[stmt] = set().union(*held)
        return found

    def path(self, stmt: Stmt, data: Var) -> list[Stmt]:
        """Nested statements that each hold all uses of a pointer, from outside in."""
        path = [stmt]
        while True:
            inner = self.only_user(path[-1], data)
            if inner is None:
                return path
            path.append(inner)

    def only_user(self, stmt: Stmt, data: Var) -> Stmt | None:
        """The statement directly inside that holds all uses of a pointer."""
        if type(stmt) is SeqStmt:
            users = [part for part in stmt.stmts if data in self.used(part)]
            return users[0] if len(users) == 1 else None
        if type(stmt) is For and stmt.kind in ("serial", "parallel", "unrolled"):
            bounds = [stmt.min, stmt.extent]
            return None if any([data in used_vars(e) for e in bounds]) else stmt.body
        if type(stmt) is AttrStmt:
            return stmt.body
        if type(stmt) is IfThenElse and stmt.else_case is None and data not in used_vars(stmt.cond):
            return stmt.then_case
        return None


def _rebuilt(path: list[Stmt], inner: Stmt) -> Stmt:
    """The outermost statement of a path with the innermost replaced."""
    for stmt, old in zip(reversed(path[:-1]), reversed(path[1:])):
        if type(stmt) is SeqStmt:
            inner = seq(*[inner if part is old else part for part in stmt.stmts])
        elif type(stmt) is IfThenElse:
            inner = replace(stmt, then_case=inner)
        else:
            inner = replace(stmt, body=inner)
    return inner


@prim_func_pass()
def compact_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """Allocate buffers inside the loops that use them, no larger than what is used there.

    For programs without blocks whose buffers have their axes.
    """
    return replace(func, body=_Compact(size_symbols(func))(func.body))
