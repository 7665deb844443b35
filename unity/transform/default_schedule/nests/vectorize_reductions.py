"""vectorize_reductions: a reduction along contiguous memory is accumulated lane by lane in vectors, joined at the end.

For a perfect nest over one reduction block (``loop_nests.cell_nest``) that adds, multiplies or takes the least or greatest
of values read contiguously along its last reduction loop. A tile of outputs, or for a single output several vectors side by
side, hides the latency of the additions; lanes beyond the end hold the operation's neutral value; the vectors are joined in
halves. This reassociates, as reductions may.

Rewrite: ``for i, k: [init C[i] = z]; C[i] += A[i, k]`` ->
``for i: { t[0:16] = 0; for ko: t[0:16] += A[i, ko * 16 : ..]; t[0:8] += t[8:16]; ..; C[i] = z + t[0] }``.
Functions that were scheduled (attribute ``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.analysis.reductions import NUMBERS, REDUCTION
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import (
    add,
    const,
    dtype_of,
    floordiv,
    floormod,
    if_then_else,
    int_imm,
    is_const,
    lt,
    mul,
)
from ....ir.expr import FloatImm, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import Add, BufferLoad, Mul
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import fresh_copy, substitute
from ...infra.backend import machine_in_use
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import (
    JOINS,
    Nest,
    neutral_value,
    reduced_value,
)
from ..common.choices import LEAST_LANES, choose, choose_lanes, choose_whether
from ..common.tile_shape import LATENCY, chunk_of, pieces
from .epilogues import Plan, tile_outermost
from .tiles import Corner, Piece, extent_of, loop_order, nested, over_tiles, reduction_nest, shared_loops, split_loop

MOST_OUTPUTS = 8
"""Outputs of a tile along one loop, at most."""
PICKED, PICKED_MASKS = 6, 8
"""Steps whose elements, of four bytes, are picked for neighbouring outputs, at most; where masks have registers of their own."""
_Make = Callable[[Corner, tuple[Expr, ...], Var], Stmt]
"""Statement of one output: (values of the loop variables, its place in the tile, lane)."""


@dataclass(slots=True, kw_only=True)
class _Plan(Plan):
    along: For
    """The reduction loop that becomes vectors."""
    value: Expr
    """The value that is joined to the cell at each step."""
    sizes: dict[For, int]
    """Outputs of a tile along each of its loops."""
    side_by_side: int
    lanes: int

    def write(self) -> Stmt:
        order = [loop for loop in self.nest.of_kind("S") if loop not in self.sizes]
        order = loop_order([*order, *self.sizes], self.nest)
        shared = shared_loops(self.nest, order)
        return over_tiles(order, self.sizes, shared, lambda corner, pieces: _Tile(self, corner, pieces).write())


def _plan(stmt: Stmt) -> _Plan | None:
    nest = reduction_nest(stmt)
    value = None if nest is None else reduced_value(nest.store)
    if nest is None or value is None:
        return None
    along, dtype = nest.of_kind("R")[-1], nest.store.buffer.dtype
    if dtype.is_float and dtype.bits < 32:
        return None
    machine = machine_in_use()
    own = full = machine.lanes(dtype.itemsize)
    while dtype.bits >= 32 and own > LEAST_LANES and 2 * extent_of(along) < own:
        own //= 2
    lanes = choose_lanes(nest.block, full, own)
    if type(along.extent) is IntImm and 2 * extent_of(along) < (lanes if extent_of(along) >= LEAST_LANES else full):
        return None
    classes = [nest.stride(load, along) for load in nest.operands]
    if 1 not in classes or 2 in classes:
        return None
    if type(along.extent) is IntImm and not _fills(nest, along, machine.masks):
        return None
    moving = [load for load in nest.operands if nest.stride(load, along) == 1]
    block, outputs = nest.block, 1
    sizes = _sizes(nest, moving, machine.accumulators)
    for index, (loop, size) in enumerate(sizes.items()):
        fit = min(extent_of(loop), MOST_OUTPUTS, max(1, machine.accumulators // outputs))
        sizes[loop] = choose(block, f"outputs_{index}", range(1, MOST_OUTPUTS + 1), size, fit)
        outputs *= sizes[loop]
    steps = extent_of(along) // lanes if type(along.extent) is IntImm else 8
    side = 1
    while side * outputs < 2 * LATENCY and side < 4 and side * 2 <= steps:
        side *= 2
    side = choose(block, "side_by_side", (1, 2, 4, 8), side)
    return _Plan(nest=nest, along=along, value=value, sizes=sizes, side_by_side=side, lanes=lanes)


def _fills(nest: Nest, along: For, masks: bool) -> bool:
    """True if steps become vectors, as was decided: where one short loop goes over one operand, LLVM makes vectors of neighbouring
    outputs, whose elements it picks by shuffles."""
    extent, is_plain = extent_of(along), nest.store.buffer.dtype.itemsize == 4
    moving = {load.buffer for load in nest.operands if any([nest.stride(load, loop) for loop in nest.of_kind("S")])}
    picks = is_plain and len(nest.of_kind("R")) == len(moving) == 1 and extent <= (PICKED_MASKS if masks else PICKED)
    return extent > PICKED_MASKS or choose_whether(nest.block, "along", not picks)


def _sizes(nest: Nest, moving: list[BufferLoad], accumulators: int) -> dict[For, int]:
    """Up to two loops along which a vector read is shared, and how many of their outputs make a tile."""
    shared: list[For] = []
    for load in moving:
        for loop in nest.of_kind("S"):
            if extent_of(loop) > 1 and loop not in shared and nest.stride(load, loop) == 0:
                shared.append(loop)
                break
    best: dict[For, int] = {}
    best_cost = float("inf")
    first = extent_of(shared[0]) if shared else 1
    second = extent_of(shared[1]) if len(shared) > 1 else 1
    for a in range(1, min(MOST_OUTPUTS, first) + 1):
        for b in range(1, min(MOST_OUTPUTS, second) + 1):
            if a * b > accumulators:
                break
            sizes = [(n * m, x, y) for n, x in pieces(first, a) for m, y in pieces(second, b)]
            cost = sum([n * (max(x * y / 2, LATENCY, (x + y) / 2) + 0.1 * (x + y)) for n, x, y in sizes])
            if cost < best_cost:
                best, best_cost = dict(zip(shared, (a, b))), cost
    return best


class _Tile:
    """One tile of outputs."""

    def __init__(self, plan: _Plan, corner: Corner, pieces: dict[For, Piece]) -> None:
        self.plan, self.corner = plan, corner
        self.pieces = {loop: piece.size for loop, piece in pieces.items()}
        self.operation = type(plan.nest.store.value)
        self.may = plan.nest.block.annotations.get(REDUCTION, 1)
        self.width = plan.side_by_side * plan.lanes
        self.buffer = self.lanes("lanes")
        self.ty = prim_type(dtype_of(plan.along.loop_var))

    def lanes(self, name: str) -> Buffer:
        """A buffer for the lanes of all outputs."""
        target = self.plan.nest.store.buffer
        return make_buffer(f"{target.name}_{name}", target.dtype, [*self.pieces.values(), self.width], "local")

    def write(self) -> Stmt:
        """Start, accumulate, join, store."""
        parts = [AllocBuffer(self.buffer), self.start(), self.accumulate(), *self.join(), self.finish()]
        return fresh_copy(seq(*parts))

    def neutral(self) -> Expr:
        """The value that joining does not notice: for Min and Max the initial value itself."""
        return neutral_value(self.operation, self.buffer.dtype, self.plan.initial)

    def outputs(self, make: _Make, *, lanes: int = 0) -> Stmt:
        """Loops over the outputs of the tile, and over ``lanes`` inside."""
        rows = {loop: Var("row", prim_type(dtype_of(loop.loop_var))) for loop in self.pieces}
        lane = Var("lane", self.ty)
        values = dict(self.corner)
        for loop, row in rows.items():
            values[loop.loop_var] = add(values[loop.loop_var], row)
        body: Stmt = make(values, tuple(rows.values()), lane)
        if lanes:
            body = For(lane, int_imm(0, self.ty), int_imm(lanes, self.ty), "vectorized", body)
        for loop, row in reversed(rows.items()):
            ty = prim_type(dtype_of(row))
            body = For(row, int_imm(0, ty), int_imm(self.pieces[loop], ty), "unrolled", body)
        return body

    def start(self) -> Stmt:
        """All lanes neutral."""
        return self.sides(lambda first: self.outputs(
            lambda values, cell, lane: BufferStore(
                self.buffer, substitute(self.neutral(), self.plan.iterators(values)), (*cell, add(lane, first))
            ),
            lanes=self.plan.lanes,
        ))  # fmt: skip

    def sides(self, make: Callable[[Expr], Stmt]) -> Stmt:
        """One statement for each of the vectors side by side, given its first lane."""
        lanes = self.plan.lanes
        return seq(*[make(int_imm(n * lanes, self.ty)) for n in range(self.plan.side_by_side)])

    def step(self, position: Expr, first: Expr, inside: Expr | None) -> Stmt:
        """Join the values of one vector from ``position`` on to the lanes from ``first`` on."""

        def make(values: Corner, cell: tuple[Expr, ...], lane: Var) -> Stmt:
            coordinates = self.plan.iterators({**values, self.plan.along.loop_var: add(position, lane)})
            value = substitute(self.plan.value, coordinates)
            if inside is not None:
                value = if_then_else(lt(lane, inside), value, substitute(self.neutral(), coordinates))
            where = (*cell, add(lane, first))
            old = BufferLoad(self.buffer, where, prim_type(self.buffer.dtype))
            joined = JOINS[self.operation](old, value)
            return AttrStmt(const(0, "int32"), REDUCTION, self.may, BufferStore(self.buffer, joined, where))

        return fresh_copy(self.outputs(make, lanes=self.plan.lanes))

    def accumulate(self) -> Stmt:
        """The reduction loops; a long sum of floats in chunks of them, each added to the totals."""
        plan = self.plan
        loops = [loop for loop in plan.nest.of_kind("R") if loop is not plan.along]
        number = floordiv(plan.along.extent, int_imm(self.width, self.ty))
        strides = For(Var(f"{plan.along.loop_var.name}_vector", self.ty), int_imm(0, self.ty), number, "serial", seq())
        float_sum = self.operation is Add and self.buffer.dtype.is_float
        extents = [extent_of(s) if type(s.extent) is IntImm else None for s in (*loops, strides)]
        cut = chunk_of(extents) if float_sum else None
        if cut is None:
            return nested(loops, seq(self.strides(strides), *self.rest(number)))
        first, size = cut
        total, self.buffer = self.buffer, self.lanes("chunk")
        if first > len(loops):
            outer, inner, at = split_loop(strides, size)
            steps = self.strides(inner, at)
        else:
            outer, inner, at = split_loop(loops[first - 1], size)
            whole = nested([inner, *loops[first:]], seq(self.strides(strides), *self.rest(number)))
            steps = substitute(whole, {loops[first - 1].loop_var: at})
        chunk = seq(AllocBuffer(self.buffer), self.start(), steps, self.add_chunk(total))
        self.buffer = total
        body: Stmt = replace(outer, body=chunk)
        return nested(loops, seq(body, *self.rest(number))) if first > len(loops) else nested(loops[: first - 1], body)

    def strides(self, loop: For, at: Expr | None = None) -> Stmt:
        """A loop over whole strides, whose number is ``at`` if not the loop variable."""
        start = mul(loop.loop_var if at is None else at, int_imm(self.width, self.ty))
        body = self.sides(lambda first: self.step(add(start, first), first, None))
        return seq() if type(loop.extent) is IntImm and extent_of(loop) == 0 else replace(loop, body=body)

    def rest(self, strides: Expr) -> list[Stmt]:
        """The statements for what whole strides leave of the contiguous axis."""
        plan, lanes, zero = self.plan, int_imm(self.plan.lanes, self.ty), int_imm(0, self.ty)
        if type(plan.along.extent) is IntImm:
            left = plan.along.extent.value % self.width
            at = plan.along.extent.value - left
            parts: list[Stmt] = []
            for n in range(-(-left // plan.lanes)):
                count = min(plan.lanes, left - n * plan.lanes)
                inside = int_imm(count, self.ty) if count < plan.lanes else None
                parts.append(self.step(int_imm(at + n * plan.lanes, self.ty), int_imm(n * plan.lanes, self.ty), inside))
            return parts
        stride = int_imm(self.width, self.ty)
        rest = Var(f"{plan.along.loop_var.name}_rest", self.ty)
        whole = floordiv(floormod(plan.along.extent, stride), lanes)
        done = mul(strides, stride)
        return [
            For(rest, zero, whole, "serial", self.step(add(done, mul(rest, lanes)), zero, None)),
            self.step(add(done, mul(whole, lanes)), zero, floormod(plan.along.extent, lanes)),
        ]

    def add_chunk(self, total: Buffer) -> Stmt:
        """The sums of a chunk added to the totals."""
        ty = prim_type(total.dtype)

        def make(values: Corner, cell: tuple[Expr, ...], lane: Var) -> Stmt:
            old, part = [BufferLoad(buffer, (*cell, lane), ty) for buffer in (total, self.buffer)]
            return BufferStore(total, add(old, part), (*cell, lane))

        return self.outputs(make, lanes=self.width)

    def join(self) -> list[Stmt]:
        """Halve the vectors until one lane is left."""
        parts: list[Stmt] = []
        width = self.width
        while width > 1:
            width //= 2
            half = int_imm(width, self.ty)

            def make(values: Corner, cell: tuple[Expr, ...], lane: Var, half: Expr = half) -> Stmt:
                ty = prim_type(self.buffer.dtype)
                a = BufferLoad(self.buffer, (*cell, lane), ty)
                b = BufferLoad(self.buffer, (*cell, add(lane, half)), ty)
                joined = BufferStore(self.buffer, JOINS[self.operation](a, b), (*cell, lane))
                return AttrStmt(const(0, "int32"), REDUCTION, self.may, joined) if self.may == NUMBERS else joined

            parts.append(fresh_copy(self.outputs(make, lanes=width)))
        return parts

    def finish(self) -> Stmt:
        """The store of each output, or what follows in its place."""

        def make(values: Corner, cell: tuple[Expr, ...], lane: Var) -> Stmt:
            coordinates = self.plan.iterators(values)
            total: Expr = BufferLoad(self.buffer, (*cell, int_imm(0, self.ty)), prim_type(self.buffer.dtype))
            initial = substitute(self.plan.initial, coordinates)
            if self.operation in (Add, Mul) and not _is_neutral(initial, self.operation):
                total = JOINS[self.operation](initial, total)
            return self.plan.finish(total, coordinates)

        return self.outputs(make)


def _is_neutral(value: Expr, operation: type) -> bool:
    return is_const(value) and isinstance(value, (IntImm, FloatImm)) and value.value == (0 if operation is Add else 1)


@prim_func_pass()
def vectorize_reductions(func: PrimFunc) -> PrimFunc:
    """Accumulate reductions along contiguous memory in vectors. Changes the order of sums.

    For programs with blocks. Scheduled programs stay.
    """
    return tile_outermost(func, _plan)
