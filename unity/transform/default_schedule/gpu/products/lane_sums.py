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
from ..common.nests import INT
from .lane_work import Place, Work, launched, left_of, over_of, step_inside, within, written
from .tile_blocks import WARP, loop, registers


def kernel(work: Work) -> Stmt:
    """The kernel of a product."""
    sums = registers(f"{work.what.name}_sums", work.what.store.buffer.dtype.name, work.tile.rows * work.own)

    def products(place: Place, turn: Expr, run: Expr, is_last: bool) -> Stmt:
        def step(e: Expr) -> Stmt:
            made = loop(
                "i", work.tile.rows, lambda i: loop("j", work.own, lambda j: _product(work, sums, run, e, i, j))
            )
            guarded = is_last and not work.large.by_steps
            return IfThenElse(step_inside(work, place, turn, run, e), made) if guarded else made

        made = loop("e", work.run, step)
        guarded = is_last and work.large.by_steps
        return IfThenElse(step_inside(work, place, turn, run, const(0, INT)), made) if guarded else made

    return launched(work, sums, [sums], products, lambda place: _join(work, place, sums))


def _product(work: Work, sums: Buffer, run: Expr, step: Expr, row: Expr, column: Expr) -> Stmt:
    """One product of a step that a thread adds to its sums."""
    what, width = work.what, work.large.width
    if work.large.by_steps:
        large = work.large_at(run, column, step)
    else:
        large = work.large_at(step, over_of(column, width), left_of(column, width))
    values = (what.right, what.left) if work.is_turned else (what.left, what.right)
    places = ((work.small, work.small_at(run, row, step)), (work.large, large))
    factors: list[Expr] = []
    for (side, at), value in zip(places, values):
        load = buffer_load(side.buffer, at)
        factors.append(Cast(load, value.ty) if isinstance(value, Cast) else load)
    cell = (add(mul(row, work.own), column),)
    total = BufferStore(sums, add(buffer_load(sums, *cell), mul(factors[0], factors[1])), cell)
    return AttrStmt(const(0, "int32"), "reduction", 1, total)


def _join(work: Work, place: Place, sums: Buffer) -> Stmt:
    """Join the sums of lanes by shuffles, and write the results."""
    tile, lane = work.tile, place.lanes[1]
    apart = 1 if work.large.by_steps else tile.column_lanes
    made: list[Stmt] = []
    left, first, distance = tile.rows * work.own, const(0, INT), tile.step_lanes // 2
    while distance and left % 2 == 0:
        left //= 2
        upper = floormod(floordiv(lane, distance), 2)
        first = add(first, mul(upper, left))
        made.append(_halved(sums, left, eq(upper, 1), distance * apart))
        distance //= 2
    rest = 2 * distance or 1
    while distance:
        made.append(_added(sums, left, distance * apart))
        distance //= 2

    def puts(shared: Buffer) -> Stmt:
        def put(e: Expr) -> Stmt:
            cell = add(first, e)
            row, own = over_of(cell, work.own), left_of(cell, work.own)
            vector_at, place_in = over_of(own, work.by_column), left_of(own, work.by_column)
            column = add(mul(within(work, place, vector_at), work.by_column), place_in)
            value = buffer_load(sums, e)
            return BufferStore(shared, value, (place.warps[1], row, column))

        stores = loop("e", left, put)
        return stores if rest == 1 else IfThenElse(eq(floormod(lane, rest), 0), stores)

    return seq(*made, written(work, place, puts))


def _halved(sums: Buffer, count: int, upper: Expr, lanes: int) -> Stmt:
    """Of two sums a lane keeps one, and adds that of its partner."""

    def one(e: Expr) -> Stmt:
        own, other = [buffer_load(sums, at) for at in (e, add(e, count))]
        given = _shuffled(select(upper, own, other), lanes)
        return BufferStore(sums, add(select(upper, other, own), given), (e,))

    return loop("e", count, one)


def _added(sums: Buffer, count: int, lanes: int) -> Stmt:
    """Both lanes of a pair have the sum of theirs."""

    def one(e: Expr) -> Stmt:
        own = buffer_load(sums, e)
        return BufferStore(sums, add(own, _shuffled(own, lanes)), (e,))

    return loop("e", count, one)


def _shuffled(value: Expr, lanes: int) -> Expr:
    numbers = [const(n, "int32") for n in (lanes, WARP, WARP)]
    return intrinsic("tvm_warp_shuffle_xor", const(0xFFFFFFFF, "uint32"), value, *numbers, dtype=dtype_of(value))
