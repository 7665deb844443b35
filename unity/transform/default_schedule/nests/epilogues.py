"""Consumers that follow a reduction at its tile: what is computed cell by cell from a result needs no stored result.

Shared by the passes that tile reductions, as is the walk over the nests that they tile. Not here: the tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ....ir.build import add, is_int, mul
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc, is_scheduled, may_alias
from ....ir.node import replace
from ....ir.scalar import BufferLoad, FloorDiv, FloorMod
from ....ir.stmt import Bind, BufferStore, For, IfThenElse, SeqStmt, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, collect, rewrite, substitute
from ...tir.analysis.loop_nests import Nest, cell_nest, small_stride, stride_class
from ..common.choices import choose_whether


def _follow(epilogue: Nest, store: BufferStore, result: Var, coordinates: dict[Var, Expr]) -> Stmt:
    """The consumer's store for the cell that ``store`` would have written."""
    read = next(load for load in epilogue.loads if load.buffer is store.buffer)
    where: dict[Var, Expr] = {}
    for var, (place, parts) in _axes_of(read).items():
        where[var] = substitute(store.indices[place], coordinates)
        if parts == 2:
            last = store.buffer.shape[place + 1]
            where[var] = add(mul(where[var], last), substitute(store.indices[place + 1], coordinates))
    made = rewrite(epilogue.store, {BufferLoad: lambda load: result if load.buffer is store.buffer else load})
    return substitute(made, where)


def epilogue_of(nest: Nest, column: Var | None, following: Stmt, func: PrimFunc) -> Nest | None:
    """The nest of the next statement, if it may be computed in the place of storing the result; with ``column``, in
    vectors along that iterator of ``nest``."""
    consumer = cell_nest(following)
    result = nest.store.buffer
    if consumer is None or consumer.block.init is not None or consumer.of_kind("R"):
        return None
    reads = [load for load in consumer.loads if load.buffer is result]
    if not reads or result in func.buffer_map.values() or consumer.store.buffer.data is result.data:
        return None
    if consumer.store.buffer.data in [load.buffer.data for load in nest.loads]:
        return None
    if not all([_cell_by_cell(load, reads[0], consumer) for load in reads]):
        return None
    if column is not None:
        axis = next(i for i, index in enumerate(nest.store.indices) if index is column)
        along = reads[0].indices[axis]
        others = [load for load in consumer.loads if load.buffer is not result]
        if type(along) is not Var or stride_class(consumer.store, along) != 1:
            return None
        if not all([small_stride(load, along) for load in others]):
            return None
    here = [a for part in (nest.loops[0], following) for a in collect(part, (BufferLoad, BufferStore))]
    everywhere = [a for a in collect(func.body, (BufferLoad, BufferStore)) if a.buffer.data is result.data]
    return consumer if all([a in here for a in everywhere]) else None


def _axes_of(read: BufferLoad) -> dict[Var, tuple[int, int]]:
    """Iterators of the consumer: the axis of the result that each walks along, or the first of two, where the indices are its
    quotient and its remainder by the extent of the second (as of groups that are joined); with the number of axes."""
    found: dict[Var, tuple[int, int]] = {}
    shape = read.buffer.shape
    for position, index in enumerate(read.indices):
        behind = read.indices[position + 1] if position + 1 < len(shape) else None
        if type(index) is Var:
            found[index] = position, 1
        elif type(index) is FloorDiv and type(behind) is FloorMod and type(index.a) is Var and index.a is behind.a:
            if _same(index.b, shape[position + 1]) and _same(behind.b, shape[position + 1]):
                found[index.a] = position, 2
    return found


def _cell_by_cell(load: BufferLoad, first: BufferLoad, consumer: Nest) -> bool:
    """True when a read walks over the whole buffer, an iterator an axis or two, as ``first`` does."""
    axes, shape = _axes_of(load), load.buffer.shape
    extents = {loop.loop_var: loop.extent for loop in consumer.loops}
    if set(axes) != set(consumer.axis):
        return False
    walked: set[int] = set()
    for var, (index, parts) in axes.items():
        whole = shape[index] if parts == 1 else mul(shape[index], shape[index + 1])
        if not _same(extents[consumer.axis[var]], whole):
            return False
        walked |= set(range(index, index + parts))
    rest = [index for index in range(len(shape)) if index not in walked]
    if not all([is_int(load.indices[index], 0) and is_int(shape[index], 1) for index in rest]):
        return False
    return all([structural_equal(a, b) for a, b in zip(load.indices, first.indices)])


def _same(a: Expr, b: Expr) -> bool:
    return a is b or (type(a) is IntImm and type(b) is IntImm and a.value == b.value)


@dataclass(slots=True, kw_only=True)
class Plan:
    """A nest that is going to be tiled, and what follows it at its tiles."""

    nest: Nest
    column: Var | None = None
    """The iterator along which results are vectors."""
    epilogue: Nest | None = None

    def write(self) -> Stmt:
        """The loops over tiles."""
        raise NotImplementedError

    @property
    def initial(self) -> Expr:
        """The value that a cell begins with."""
        init = self.nest.block.init
        assert type(init) is BufferStore
        return init.value

    def iterators(self, values: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """Values of the iterators where loop variables have these."""
        return {iterator: values.get(loop, loop) for iterator, loop in self.nest.axis.items()}

    def finish(self, total: Expr, places: dict[Var, Expr], inside: Expr | None = None) -> Stmt:
        """The store of a cell, or the consumer's in its place. The total is read outside the condition."""
        store = self.nest.store
        result = Var("result", prim_type(store.buffer.dtype))
        alone = substitute(replace(store, value=result), places)
        made = alone if self.epilogue is None else _follow(self.epilogue, store, result, places)
        return seq(Bind(result, total), made if inside is None else IfThenElse(inside, made))


class _Outermost(StatementRewriter):
    """Nests that have a plan become what it writes, from the outside in, each with the consumer behind it where that can follow."""

    def __init__(self, func: PrimFunc, plan: Callable[[For], Plan | None]) -> None:
        super().__init__()
        self.func, self.plan = func, plan

    def enter(self, node: object) -> object | None:
        if type(node) is For:
            plan = self.plan(node)
            return plan.write() if plan is not None else None
        return self.sequence(node) if type(node) is SeqStmt else None

    def sequence(self, stmt: SeqStmt) -> Stmt:
        """Nests of a sequence, each with the consumer behind it."""
        parts: list[Stmt] = []
        position = 0
        while position < len(stmt.stmts):
            part = stmt.stmts[position]
            plan = self.plan(part) if type(part) is For else None
            if plan is not None and position + 1 < len(stmt.stmts):
                behind = stmt.stmts[position + 1]
                epilogue = epilogue_of(plan.nest, plan.column, behind, self.func)
                follows = epilogue is not None and choose_whether(plan.nest.block, "follow", True)
                plan.epilogue = epilogue if follows else None
            parts.append(self.visit(part) if plan is None else plan.write())
            position += 2 if plan is not None and plan.epilogue is not None else 1
        changed = len(parts) != len(stmt.stmts) or any([a is not b for a, b in zip(parts, stmt.stmts)])
        return seq(*parts) if changed else stmt


def tile_outermost(func: PrimFunc, plan: Callable[[For], Plan | None]) -> PrimFunc:
    """The function with its outermost nests tiled, unless a schedule is its author's or memory may be shared."""
    if is_scheduled(func) or may_alias(func):
        return func
    return replace(func, body=_Outermost(func, plan)(func.body))
