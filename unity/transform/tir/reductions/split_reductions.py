"""split_reductions: a long reduction to few cells is done in pieces, which threads can share, and the pieces are joined in order.

For a perfect nest over one reduction block (``loop_nests.point_update``) of constant extents that adds, multiplies or takes the
least or greatest, where the cells themselves are too few for the threads. Its longest reduction loop is cut into pieces whose
number depends on the extents alone, so the result does not depend on the number of threads. This reassociates, as reductions
may.

Rewrite: ``for k in 4096: [init C[()] = z]; C[()] += A[k]`` ->
``for p in 64: for k in 64: [init P[p] = 0]; P[p] += A[p * 64 + k]`` and ``for p in 64: [init C[()] = z]; C[()] += P[p]``;
what is left of the loop is one more piece. Sums of float32 are joined in float64. Functions that were scheduled (attribute
``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....ffi.dtype import DataType
from ....ir.buffer import Buffer, Range
from ....ir.build import add, cast, dtype_of, int_imm, mul
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import Add, BufferLoad, IterVar
from ....ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, SeqStmt, Stmt, seq
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import StatementRewriter, fresh_copy, substitute
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import (
    JOINS,
    Nest,
    Update,
    joined_value,
    neutral_value,
    perfect_nest,
    point_update,
    stride_class,
)
from ..analysis.parallel_cost import SHARED_WORK, store_work
from ..analysis.tiles import TileOptions, iterators_of, operands_of

MOST_PIECES = 64
"""Pieces of a long reduction."""
PIECE_WORK = SHARED_WORK // 8
"""Work of a piece, at least."""
ENOUGH = 8
"""Cells, or tiles of neighbouring cells, that are enough for the threads of a small machine."""
TILE = 64
"""Cells of a tile; also what the steps of a piece are a multiple of where they are neighbours in memory."""


@dataclass(slots=True, frozen=True)
class _Plan:
    nest: Nest
    update: Update
    value: Expr
    """The value that is joined to the cell at each step."""
    loop: For
    """The reduction loop that is cut."""
    size: int
    """Steps of a piece."""


def _extent(loop: For) -> int:
    assert type(loop.extent) is IntImm
    return loop.extent.value


def _plan(stmt: Stmt) -> _Plan | None:
    nest = perfect_nest(stmt)
    update = point_update(nest) if nest is not None else None
    if nest is None or update is None or nest.realize.block.init is None:
        return None
    value, dtype = joined_value(update), update.store.buffer.dtype
    if value is None or dtype.lanes != 1 or dtype.is_bool or (dtype.is_float and dtype.bits < 32):
        return None
    if not all([type(loop.extent) is IntImm for loop in nest.loops]):
        return None
    iterator = iterators_of(update)
    cells = [loop for loop in nest.loops if update.kinds[loop.loop_var] == "S"]
    lines = [
        loop for loop in cells if any([stride_class(x, iterator[loop.loop_var]) == 1 for x in operands_of(update)])
    ]
    units = math.prod([_extent(loop) for loop in cells])
    work = math.prod([_extent(loop) for loop in nest.loops]) * store_work(update.store)
    if (units // TILE if lines else units) >= ENOUGH or work < SHARED_WORK:
        return None
    loop = max([loop for loop in nest.loops if loop not in cells], key=_extent)
    size = -(-_extent(loop) // min(MOST_PIECES, work // PIECE_WORK))
    if any([stride_class(load, iterator[loop.loop_var]) == 1 for load in operands_of(update)]):
        size = -(-size // TILE) * TILE
    return _Plan(nest, update, value, loop, size) if 2 * size <= _extent(loop) else None


class _Pieces:
    """The buffer of the pieces' results, and the nests that fill and join it."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.block = plan.nest.realize.block
        assert type(self.block.init) is BufferStore
        self.init = self.block.init
        self.whole, self.rest = divmod(_extent(plan.loop), plan.size)
        self.index_ty = prim_type(dtype_of(plan.loop.loop_var))
        self.cells = [i for i in self.block.iter_vars if i.kind == "S"]
        loops = {loop.loop_var: loop for loop in plan.nest.loops}
        shape = [loops[plan.update.axis[i.var]].extent for i in self.cells]
        target = plan.update.store.buffer
        data = Var(f"{target.name}_pieces", PointerType(prim_type(target.dtype), "global"))
        count = int_imm(self.whole + (1 if self.rest else 0), self.index_ty)
        self.buffer = Buffer(data, target.dtype, (count, *shape), name=data.name)

    def write(self) -> Stmt:
        """Allocate, fill, join."""
        parts: list[Stmt] = [AllocBuffer(self.buffer), self.fill(self.whole, self.plan.size, "pieces")]
        if self.rest:
            parts.append(self.fill(0, self.rest, "rest"))
        parts += self.join()
        return seq(*[fresh_copy(part) if type(part) is For else part for part in parts])

    def step(self, store: BufferStore, value: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> BufferStore:
        """Join ``value`` to a cell."""
        old = BufferLoad(buffer, indices, prim_type(buffer.dtype))
        return replace(store, buffer=buffer, indices=indices, value=JOINS[type(store.value)](old, value))

    def fill(self, pieces: int, size: int, name: str) -> Stmt:
        """``pieces`` pieces of ``size`` steps each; 0: the last one alone."""
        plan, ty = self.plan, self.index_ty
        piece, place = Var("piece", ty), Var("v_piece", ty)
        at: Expr = place if pieces else int_imm(self.whole, ty)
        indices = (at, *[i.var for i in self.cells])
        cut = iterators_of(plan.update)[plan.loop.loop_var]
        first = mul(at, int_imm(plan.size, ty))
        value = substitute(plan.value, {cut: add(first, cut)})
        operation = type(plan.update.store.value)
        start = neutral_value(operation, self.buffer.dtype, self.init.value)
        iters = [replace(i, dom=_range(size, ty)) if i.var is cut else i for i in self.block.iter_vars]
        values = list(plan.nest.realize.iter_values)
        loops = [replace(loop, extent=int_imm(size, ty)) if loop is plan.loop else loop for loop in plan.nest.loops]
        if pieces:
            iters.insert(0, IterVar(place, _range(pieces, ty), "S"))
            values.insert(0, piece)
            loops.insert(0, For(piece, int_imm(0, ty), int_imm(pieces, ty), "serial", plan.loop.body))
        block = replace(
            self.block, iter_vars=tuple(iters), reads=None, writes=None, name=f"{self.block.name}_{name}",
            init=replace(self.init, buffer=self.buffer, indices=indices, value=start),
            body=self.step(plan.update.store, value, self.buffer, indices),
        )  # fmt: skip
        return _around(loops, block, values)

    def join(self) -> list[Stmt]:
        """The pieces joined to the cells, in order: sums of float32 in float64, as there are many of them."""
        store, cells = self.plan.update.store, tuple([i.var for i in self.cells])
        target = store.buffer
        if type(store.value) is not Add or target.dtype.name != "float32":
            return [self.joined(target, store.indices)]
        wide = DataType("float64")
        data = Var(f"{target.name}_sums", PointerType(prim_type(wide), "global"))
        sums = Buffer(data, wide, self.buffer.shape[1:], name=data.name)
        result = cast(BufferLoad(sums, cells, prim_type(wide)), target.dtype)
        stored = replace(
            self.block, iter_vars=tuple(self.cells), reads=None, writes=None, init=None, body=replace(store, value=result)
        )  # fmt: skip
        last = _around(self.spatial, stored, [self.plan.update.axis[var] for var in cells])
        return [AllocBuffer(sums), self.joined(sums, cells), last]

    def joined(self, out: Buffer, indices: tuple[Expr, ...]) -> Stmt:
        """The pieces joined to the cells of ``out``."""
        ty, dtype = self.index_ty, out.dtype
        piece, place = Var("piece", ty), Var("v_piece", ty)
        count = self.buffer.shape[0]
        assert type(count) is IntImm
        cells = [i.var for i in self.cells]
        part = cast(BufferLoad(self.buffer, (place, *cells), prim_type(self.buffer.dtype)), dtype)
        block = replace(
            self.block, iter_vars=(*self.cells, IterVar(place, _range(count.value, ty), "R")), reads=None, writes=None,
            init=replace(self.init, buffer=out, indices=indices, value=cast(self.init.value, dtype)),
            body=self.step(self.plan.update.store, part, out, indices),
        )  # fmt: skip
        loops = [*self.spatial, For(piece, int_imm(0, ty), count, "serial", self.plan.loop.body)]
        return _around(loops, block, [*[self.plan.update.axis[var] for var in cells], piece])

    @property
    def spatial(self) -> list[For]:
        """The loops over cells."""
        return [loop for loop in self.plan.nest.loops if self.plan.update.kinds[loop.loop_var] == "S"]


def _range(extent: int, ty: object) -> Range:
    return Range(int_imm(0, ty), int_imm(extent, ty))  # type: ignore[arg-type]


def _around(loops: list[For], block: Block, values: list[Expr]) -> Stmt:
    body: Stmt = BlockRealize(tuple(values), IntImm(1, prim_type("bool")), block)
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body


class _Outermost(StatementRewriter):
    """Visits outermost loops only: what stands inside others is repeated, and shared with them."""

    def enter(self, node: object) -> object | None:
        if type(node) is For:
            plan = _plan(node)
            return node if plan is None else _Pieces(plan).write()
        if type(node) is SeqStmt:
            parts = [self.visit(part) for part in node.stmts]
            return node if all([a is b for a, b in zip(parts, node.stmts)]) else seq(*parts)
        return None


@prim_func_pass(options=TileOptions)
def split_reductions(func: PrimFunc, options: TileOptions) -> PrimFunc:
    """Long reductions to few cells in pieces that threads can share."""
    if func.attrs.get("tir.is_scheduled") or func.attrs.get("tir.noalias", True) is False or not options.parallel:
        return func
    body = _Outermost()(func.body)
    return func if body is func.body else replace(func, body=body)
