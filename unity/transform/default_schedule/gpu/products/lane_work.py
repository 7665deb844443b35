"""Shares of threads in a product of few rows: where one stands, what it reads of both operands, and what it writes.

If steps are contiguous in memory, lanes have neighbouring vectors of steps and each thread has several columns, else lanes have
neighbouring vectors of columns and each thread several steps. What hangs over is read at the last place there is, so that no read
waits for a condition; such columns and rows are not written.
Not here: how what was read is multiplied (`lane_sums.py`, `lane_matrices.py`), and how a product is divided (`few_rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .....ir.analysis.threads import OWN_BARRIERS
from .....ir.buffer import Buffer
from .....ir.build import (
    add,
    buffer_load,
    ceildiv,
    const,
    dtype_of,
    floordiv,
    floormod,
    lt,
    minimum,
    mul,
    ne,
    select,
    sub,
)
from .....ir.expr import IntImm, StringImm
from .....ir.stmt import AllocBuffer, AttrStmt, Block, BlockRealize, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr
from .....ir.walk import substitute
from ..common.nests import INT, buffer_of
from ..common.stages import is_multiple
from .product import Product, apart, extent_of, output_at, values_at
from .tile_blocks import WARP, bound, do, loop, registers, vector
from .tile_sides import Side, all_of, inside, sum_of
from .tiles import has_axis

AT_ONCE = 64
"""Bytes of the small operand up to which a thread reads what all products of a turn take at once."""


@dataclass(slots=True, frozen=True)
class LaneTile:
    """``rows`` of a block; vectors of columns (single columns where steps are contiguous) that a thread has; lanes along the
    columns, warps along columns and along steps; ``ahead`` reads of each column, or vector of columns, in one turn.
    ``form``: the ``mma`` instruction that multiplies; "" where each thread multiplies for itself."""

    rows: int
    vectors: int
    column_lanes: int
    column_warps: int
    step_warps: int
    ahead: int
    form: str = ""

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.column_warps * self.step_warps

    @property
    def step_lanes(self) -> int:
        """Lanes along the steps."""
        return WARP // self.column_lanes


@dataclass(slots=True, frozen=True)
class Work:
    """A product as a kernel takes it: its large operand, whose ``buffer`` is the registers for what a thread reads of it, its small
    one, and the tile of a block. The iterators of the large one are columns here, whatever they are in the result."""

    what: Product
    large: Side
    small: Side
    tile: LaneTile
    is_turned: bool

    @property
    def by_column(self) -> int:
        """Neighbouring columns that are read at once."""
        return 1 if self.large.by_steps else self.large.width

    @property
    def own(self) -> int:
        """Columns of a thread."""
        return self.tile.vectors * self.by_column

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.own * self.tile.column_lanes * self.tile.column_warps

    @property
    def run(self) -> int:
        """Neighbouring steps of a thread."""
        return self.large.width if self.large.by_steps else self.tile.ahead

    @property
    def runs(self) -> int:
        """Runs of steps in a turn."""
        return self.tile.ahead if self.large.by_steps else 1

    @property
    def steps(self) -> int:
        """Steps of a block in one turn."""
        return self.run * self.runs * self.tile.step_lanes * self.tile.step_warps

    @property
    def own_rows(self) -> int:
        """Rows that a thread reads: of those of a matrix one or two."""
        return -(-self.tile.rows // self.tile.column_lanes) if self.tile.form else self.tile.rows

    @property
    def is_kept(self) -> bool:
        """True if a thread reads what it takes of the small operand in a turn at once."""
        return self.own_rows * self.run * self.runs * dtype_of(self.small.value).itemsize <= AT_ONCE

    @property
    def small_count(self) -> int:
        """Elements of the small operand that a thread has in registers."""
        return self.own_rows * self.run * (self.runs if self.is_kept else 1)

    @property
    def large_count(self) -> int:
        """Elements of the large operand that a thread has in registers."""
        return self.tile.vectors * self.tile.ahead * self.large.width

    def small_at(self, run: Expr, row: Expr, step: Expr) -> Expr:
        """Where the registers have a step of a run of a thread's row."""
        kept = run if self.is_kept else const(0, INT)
        return add(mul(add(mul(kept, self.own_rows), row), self.run), step)

    def large_at(self, ahead: Expr, vector_at: Expr, lane: Expr) -> Expr:
        """Where the registers have an element of a vector."""
        return add(mul(add(mul(ahead, self.tile.vectors), vector_at), self.large.width), lane)


@dataclass(slots=True, frozen=True)
class Place:
    """Where a thread stands: batch, first row and column of its block; its warp and its lane, each along columns and steps; its
    number."""

    batch: Expr
    row: Expr
    column: Expr
    warps: tuple[Expr, Expr]
    lanes: tuple[Expr, Expr]
    thread: Expr


def launched(
    work: Work, sums: Buffer, near: Sequence[Buffer], products: Callable[[Place, Expr, Expr, bool], Stmt],
    finish: Callable[[Place], Stmt],
) -> Stmt:  # fmt: skip
    """A block of threads for each group of columns. In each turn a thread reads its vectors of the large operand before it
    multiplies any; ``products``: those of a run of steps, by place, turn and run, and whether the turn is the last one, in which
    some steps hang over; ``near``: the registers that they use, the sums among them."""
    extent = extent_of(work.what.steps)
    turns = floordiv(extent, work.steps)

    def turn(place: Place, at: Expr, is_last: bool) -> Stmt:
        def small(run: Expr) -> Stmt:
            return read_small(work, place, at, run, is_last)

        def made(run: Expr) -> Stmt:
            return products(place, at, run, is_last)

        bodies = [small, made] if work.is_kept else [lambda run: seq(small(run), made(run))]
        return seq(read_large(work, place, at, is_last), *[loop("run", work.runs, body) for body in bodies])

    def block(place: Place) -> Stmt:
        (count,) = sums.shape
        made = [
            *[AllocBuffer(buffer) for buffer in (work.large.buffer, work.small.buffer, *near)],
            loop("e", count, lambda e: BufferStore(sums, const(0, sums.dtype), (e,))),
            loop("turn", turns, lambda at: turn(place, at, False), "serial"),
        ]
        if not is_multiple(extent, work.steps):
            rest = turn(place, turns, True)
            made.append(rest if type(extent) is IntImm else IfThenElse(ne(floormod(extent, work.steps), 0), rest))
        return seq(*made, finish(place))

    return _in_blocks(work, block)


def _in_blocks(work: Work, block: Callable[[Place], Stmt]) -> Stmt:
    """A block of threads for each group of columns, which has its own barriers."""
    what, tile = work.what, work.tile
    batch, rows, columns = [extent_of(axes) for axes in (what.batch, work.small.axes, work.large.axes)]
    over, down = ceildiv(columns, work.columns), ceildiv(rows, tile.rows)
    has_own = bool(what.batch) and has_axis(batch)
    is_folded = bool(what.batch) and not has_own

    def place(b: Expr, x: Expr, y: Expr, warp: Expr, lane: Expr) -> Stmt:
        warps = over_of(warp, tile.step_warps), left_of(warp, tile.step_warps)
        if work.large.by_steps or tile.form:
            lanes = over_of(lane, tile.step_lanes), left_of(lane, tile.step_lanes)
        else:
            lanes = left_of(lane, tile.column_lanes), over_of(lane, tile.column_lanes)
        thread = add(mul(warp, WARP), lane)
        made = block(Place(b, mul(y, tile.rows), mul(x, work.columns), warps, lanes, thread))
        return AttrStmt(const(0), OWN_BARRIERS, 1, made)

    def grid(b: Expr) -> Stmt:
        def tiles(x: Expr, y: Expr) -> Stmt:
            at = (floordiv(x, over), floormod(x, over)) if is_folded else (b, x)
            return bound("ty", tile.warps, "threadIdx.y", lambda ty: bound("tx", WARP, "threadIdx.x", lambda tx:
                place(*at, y, ty, tx)))  # fmt: skip

        count = mul(batch, over) if is_folded else over
        return bound("x", count, "blockIdx.x", lambda x: bound("y", down, "blockIdx.y", lambda y: tiles(x, y)))

    body = bound("b", batch, "blockIdx.z", grid) if has_own else grid(const(0, INT))
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, what.name, body))


def over_of(value: Expr, by: int) -> Expr:
    """The quotient."""
    return value if by == 1 else floordiv(value, by)


def left_of(value: Expr, by: int) -> Expr:
    """The remainder."""
    return const(0, INT) if by == 1 else floormod(value, by)


def run_at(work: Work, place: Place, turn: Expr, number: Expr) -> Expr:
    """The number of a thread's run of steps among all of the product."""
    tile = work.tile
    first = add(mul(add(mul(turn, work.runs), number), tile.step_warps), place.warps[1])
    return add(mul(first, tile.step_lanes), place.lanes[1])


def step_inside(work: Work, place: Place, turn: Expr, number: Expr, step: Expr) -> Expr:
    """True if a step of a thread's run is one of the product: in vectors of steps all are."""
    extent, at = extent_of(work.what.steps), run_at(work, place, turn, number)
    if work.large.by_steps:
        return lt(at, floordiv(extent, work.run))
    return lt(add(mul(at, work.run), step), extent)


def within(work: Work, place: Place, vector_at: Expr) -> Expr:
    """The number of a thread's vector of columns in the block."""
    tile = work.tile
    return add(mul(add(mul(place.warps[0], tile.vectors), vector_at), tile.column_lanes), place.lanes[0])


def read_large(work: Work, place: Place, turn: Expr, is_last: bool) -> Stmt:
    """Read the vectors of a turn; in the last one some may hang over."""
    side, columns = work.large, floordiv(extent_of(work.large.axes), work.by_column)
    exact = is_multiple(extent_of(side.axes), work.columns)

    def one(u: Expr, vector_at: Expr) -> Stmt:
        column = add(over_of(place.column, work.by_column), within(work, place, vector_at))
        column = column if exact else minimum(column, sub(columns, 1))
        number, step = (u, const(0, INT)) if side.by_steps else (const(0, INT), u)
        at = run_at(work, place, turn, number)
        at = at if side.by_steps else add(mul(at, work.run), u)
        at = _near(work, at, side.width if side.by_steps else 1) if is_last else at
        along, across = (at, column) if side.by_steps else (column, at)
        guard = step_inside(work, place, turn, number, step) if is_last and work.tile.form else None
        return _read(work, side, place, along, across, work.large_at(u, vector_at, const(0, INT)), guard)

    return loop("u", work.tile.ahead, lambda u: loop("p", work.tile.vectors, lambda p: one(u, p)))


def read_small(work: Work, place: Place, turn: Expr, number: Expr, is_last: bool) -> Stmt:
    """Read a run of steps of each row of a thread; in the last turn some may hang over."""
    side, tile = work.small, work.tile
    pieces = work.run // side.width
    exact = is_multiple(extent_of(side.axes), tile.rows) and (not tile.form or tile.rows % tile.column_lanes == 0)

    def one(row: Expr, piece: Expr) -> Stmt:
        at = add(mul(run_at(work, place, turn, number), pieces), piece)
        at = _near(work, at, side.width) if is_last else at
        first = mul(piece, side.width)
        line = add(place.row, add(mul(row, tile.column_lanes), place.lanes[0]) if tile.form else row)
        line = line if exact else minimum(line, sub(extent_of(side.axes), 1))
        along, across = (at, line) if side.by_steps else (line, at)
        guard = step_inside(work, place, turn, number, first) if is_last and tile.form else None
        return _read(work, side, place, along, across, work.small_at(number, row, first), guard)

    return loop("i", work.own_rows, lambda row: loop("piece", pieces, lambda piece: one(row, piece)))


def _near(work: Work, at: Expr, width: int) -> Expr:
    """A vector of steps, or the last one."""
    return minimum(at, sub(floordiv(extent_of(work.what.steps), width), 1))


def _read(
    work: Work, side: Side, place: Place, along: Expr, across: Expr, to: Expr, guard: Expr | None
) -> Stmt:  # fmt: skip
    """Read a vector of an operand: ``along`` counts vectors in memory, ``across`` lines. Zeros where ``guard`` does not hold."""
    what = work.what
    inner, outer = (what.steps, side.axes) if side.by_steps else (side.axes, what.steps)

    def one(lane: Expr | None) -> Stmt:
        values = {**apart(what.batch, place.batch), **apart(inner, along, side.width, lane), **apart(outer, across)}
        element = substitute(side.value, values_at(what, values))
        element = element if guard is None else select(guard, element, const(0, dtype_of(element)))
        return BufferStore(side.buffer, element, (sum_of(to, lane),))

    return vector(side.width, one)


def written(work: Work, place: Place, puts: Callable[[Buffer], Stmt]) -> Stmt:
    """Join the sums of warps in shared memory: ``puts`` stores those of a thread by warp along the steps, row and column. Threads
    write neighbours of the result."""
    what, tile = work.what, work.tile
    total = what.store.buffer.dtype.name
    shape = [const(n, INT) for n in (tile.step_warps, tile.rows, work.columns)]
    shared = buffer_of(f"{what.name}_of_warps", total, shape, "shared")
    count, threads = tile.rows * work.columns, tile.warps * WARP
    return seq(
        AllocBuffer(shared),
        puts(shared),
        do("tvm_storage_sync", StringImm("shared")),
        loop("again", -(-count // threads), lambda again: _written(work, place, shared, again, count, threads)),
    )


def _written(work: Work, place: Place, shared: Buffer, again: Expr, count: int, threads: int) -> Stmt:
    """Write a cell of the block."""
    what, tile = work.what, work.tile
    cell = add(mul(again, threads), place.thread)
    if work.is_turned:
        row, column = left_of(cell, tile.rows), over_of(cell, tile.rows)
    else:
        row, column = over_of(cell, work.columns), left_of(cell, work.columns)
    total, zero = registers(f"{shared.name}_joined", shared.dtype.name, 1), const(0, INT)
    value: Expr = buffer_load(shared, const(0, INT), row, column)
    for warp in range(1, tile.step_warps):
        value = add(value, buffer_load(shared, const(warp, INT), row, column))
    rows, columns = work.small.axes, work.large.axes
    at = add(place.row, row), add(place.column, column)
    places = {**apart(what.batch, place.batch), **apart(rows, at[0]), **apart(columns, at[1])}
    guard = all_of([
        *([] if count % threads == 0 else [lt(cell, count)]),
        *inside(at[0], extent_of(rows), tile.rows), *inside(at[1], extent_of(columns), work.columns),
    ])  # fmt: skip
    store = output_at(what, places, buffer_load(total, zero))
    made = seq(AllocBuffer(total), BufferStore(total, value, (zero,)), store)
    return made if guard is None else IfThenElse(guard, made)
