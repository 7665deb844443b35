"""The kernel of a product of few rows whose threads multiply for themselves: it reads memory as fast as it can be read.

Each thread reads some vectors of the large operand before it multiplies any, and adds up the products of all rows in registers.
Lanes join their sums by shuffles: where a number of sums is even, each lane of a pair goes on with one half of them. Warps join
theirs in shared memory.
Not here: what is read where, and how results are written (`lane_work.py`).
"""

from __future__ import annotations

from .....ir.buffer import Buffer
from .....ir.build import add, buffer_load, const, dtype_of, eq, floordiv, floormod, intrinsic, mul, select
from .....ir.scalar import Cast
from .....ir.stmt import AttrStmt, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr
from ...nest_building import INT
from .lane_work import Position, Work, launch_lanes, quotient, remainder, step_in_bounds, vector_in_block, write_sums
from .tile_blocks import WARP, loop, registers


def kernel(work: Work) -> Stmt:
    """The kernel of a product."""
    sums = registers(
        f"{work.product.name}_sums", work.product.store.buffer.dtype.name, work.tile.rows * work.thread_columns
    )

    def products(pos: Position, k_tile: Expr, run: Expr, is_last: bool) -> Stmt:
        def step(e: Expr) -> Stmt:
            made = loop(
                "i",
                work.tile.rows,
                lambda i: loop("j", work.thread_columns, lambda j: _product(work, sums, run, e, i, j)),
            )
            guarded = is_last and not work.large.by_steps
            return IfThenElse(step_in_bounds(work, pos, k_tile, run, e), made) if guarded else made

        made = loop("e", work.run, step)
        guarded = is_last and work.large.by_steps
        return IfThenElse(step_in_bounds(work, pos, k_tile, run, const(0, INT)), made) if guarded else made

    return launch_lanes(work, sums, [sums], products, lambda pos: _reduce_lanes(work, pos, sums))


def _product(work: Work, sums: Buffer, run: Expr, step: Expr, row: Expr, column: Expr) -> Stmt:
    """One product of a step that a thread adds to its sums."""
    product, width = work.product, work.large.width
    if work.large.by_steps:
        large = work.large_index(run, column, step)
    else:
        large = work.large_index(step, quotient(column, width), remainder(column, width))
    values = (product.right, product.left) if work.is_swapped else (product.left, product.right)
    operands = ((work.small, work.small_index(run, row, step)), (work.large, large))
    factors: list[Expr] = []
    for (side, at), value in zip(operands, values):
        load = buffer_load(side.buffer, at)
        factors.append(Cast(load, value.ty) if isinstance(value, Cast) else load)
    cell = (add(mul(row, work.thread_columns), column),)
    total = BufferStore(sums, add(buffer_load(sums, *cell), mul(factors[0], factors[1])), cell)
    return AttrStmt(const(0, "int32"), "reduction", 1, total)


def _reduce_lanes(work: Work, pos: Position, sums: Buffer) -> Stmt:
    """Join the sums of lanes by shuffles, and write the results."""
    tile, lane = work.tile, pos.lanes[1]
    stride = 1 if work.large.by_steps else tile.column_lanes
    stmts: list[Stmt] = []
    left, first, distance = tile.rows * work.thread_columns, const(0, INT), tile.step_lanes // 2
    while distance and left % 2 == 0:
        left //= 2
        upper = floormod(floordiv(lane, distance), 2)
        first = add(first, mul(upper, left))
        stmts.append(_halve_sums(sums, left, eq(upper, 1), distance * stride))
        distance //= 2
    lanes_left = 2 * distance or 1
    while distance:
        stmts.append(_add_pairs(sums, left, distance * stride))
        distance //= 2

    def stores_of(shared: Buffer) -> Stmt:
        def store(e: Expr) -> Stmt:
            cell = add(first, e)
            row, own = quotient(cell, work.thread_columns), remainder(cell, work.thread_columns)
            vector_at, inner = quotient(own, work.by_column), remainder(own, work.by_column)
            column = add(mul(vector_in_block(work, pos, vector_at), work.by_column), inner)
            value = buffer_load(sums, e)
            return BufferStore(shared, value, (pos.warps[1], row, column))

        stores = loop("e", left, store)
        return stores if lanes_left == 1 else IfThenElse(eq(floormod(lane, lanes_left), 0), stores)

    return seq(*stmts, write_sums(work, pos, stores_of))


def _halve_sums(sums: Buffer, count: int, upper: Expr, lanes: int) -> Stmt:
    """Of two sums a lane keeps one, and adds that of its partner."""

    def one(e: Expr) -> Stmt:
        own, other = [buffer_load(sums, at) for at in (e, add(e, count))]
        received = _shuffle_xor(select(upper, own, other), lanes)
        return BufferStore(sums, add(select(upper, other, own), received), (e,))

    return loop("e", count, one)


def _add_pairs(sums: Buffer, count: int, lanes: int) -> Stmt:
    """Both lanes of a pair have the sum of theirs."""

    def one(e: Expr) -> Stmt:
        own = buffer_load(sums, e)
        return BufferStore(sums, add(own, _shuffle_xor(own, lanes)), (e,))

    return loop("e", count, one)


def _shuffle_xor(value: Expr, lanes: int) -> Expr:
    numbers = [const(n, "int32") for n in (lanes, WARP, WARP)]
    return intrinsic("tvm_warp_shuffle_xor", const(0xFFFFFFFF, "uint32"), value, *numbers, dtype=dtype_of(value))
