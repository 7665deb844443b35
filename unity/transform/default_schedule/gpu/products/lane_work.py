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
from .....ir.buffer import Buffer, make_buffer
from .....ir.build import (
    add,
    buffer_load,
    ceildiv,
    const,
    dtype_of,
    floordiv,
    floormod,
    intrinsic,
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
from ...nest_building import INT
from ..common.stages import is_multiple
from .product import Product, extent_of, iterator_values, output_at, unravel
from .tile_blocks import WARP, do, loop, registers, thread_loop, vector
from .tile_sides import Side, all_of, bound_checks, sum_of
from .tiles import has_axis

ROWS = 8
"""Rows of a matrix of sums."""
AT_ONCE = 64
"""Bytes of the small operand up to which a thread reads what all products of a k-tile take at once."""


@dataclass(slots=True, frozen=True)
class LaneTile:
    """``rows`` of a block; vectors of columns (single columns where steps are contiguous) that a thread has; lanes along the
    columns, warps along columns and along steps; ``ahead`` reads of each column, or vector of columns, in one k-tile.
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

    product: Product
    large: Side
    small: Side
    tile: LaneTile
    is_swapped: bool

    @property
    def by_column(self) -> int:
        """Neighbouring columns that are read at once."""
        return 1 if self.large.by_steps else self.large.width

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return self.tile.vectors * self.by_column

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.thread_columns * self.tile.column_lanes * self.tile.column_warps

    @property
    def run(self) -> int:
        """Neighbouring steps of a thread."""
        return self.large.width if self.large.by_steps else self.tile.ahead

    @property
    def runs(self) -> int:
        """Runs of steps in a k-tile."""
        return self.tile.ahead if self.large.by_steps else 1

    @property
    def small_steps(self) -> int:
        """Neighbouring steps of the small operand that are read at once."""
        return self.small.width if self.small.by_steps else 1

    @property
    def small_rows(self) -> int:
        """Neighbouring rows of the small operand that are read at once."""
        return 1 if self.small.by_steps else self.small.width

    @property
    def steps(self) -> int:
        """Steps of a block in one k-tile."""
        return self.run * self.runs * self.tile.step_lanes * self.tile.step_warps

    @property
    def thread_rows(self) -> int:
        """Rows that a thread reads: of those of a matrix one or two."""
        return -(-self.tile.rows // self.tile.column_lanes) if self.tile.form else self.tile.rows

    @property
    def is_preloaded(self) -> bool:
        """True if a thread reads what it takes of the small operand in a k-tile at once."""
        return self.thread_rows * self.run * self.runs * dtype_of(self.small.value).itemsize <= AT_ONCE

    @property
    def small_count(self) -> int:
        """Elements of the small operand that a thread has in registers."""
        return self.thread_rows * self.run * (self.runs if self.is_preloaded else 1)

    @property
    def large_count(self) -> int:
        """Elements of the large operand that a thread has in registers."""
        return self.tile.vectors * self.tile.ahead * self.large.width

    def small_index(self, run: Expr, row: Expr, step: Expr) -> Expr:
        """Where the registers have a step of a run of a thread's row: neighbours are what is read at once."""
        first = run if self.is_preloaded else const(0, INT)
        if self.small_rows > 1:
            return add(mul(add(mul(first, self.run), step), self.thread_rows), row)
        return add(mul(add(mul(first, self.thread_rows), row), self.run), step)

    def large_index(self, ahead: Expr, vector_at: Expr, lane: Expr) -> Expr:
        """Where the registers have an element of a vector."""
        return add(mul(add(mul(ahead, self.tile.vectors), vector_at), self.large.width), lane)


@dataclass(slots=True, frozen=True)
class Position:
    """Where a thread stands: batch, first row and column of its block; its warp and its lane, each along columns and steps; its
    number."""

    batch: Expr
    row: Expr
    column: Expr
    warps: tuple[Expr, Expr]
    lanes: tuple[Expr, Expr]
    thread: Expr


def launch_lanes(
    work: Work, sums: Buffer, buffers: Sequence[Buffer], products: Callable[[Position, Expr, Expr, bool], Stmt],
    finish: Callable[[Position], Stmt],
) -> Stmt:  # fmt: skip
    """A block of threads for each group of columns. In each k-tile a thread reads its vectors of the large operand before it
    multiplies any; ``products``: those of a run of steps, by position, k-tile and run, and whether it is the last k-tile, in which
    some steps hang over; ``buffers``: the registers that they use, the sums among them."""
    extent = extent_of(work.product.steps)
    k_tiles = floordiv(extent, work.steps)

    def k_tile(pos: Position, at: Expr, is_last: bool) -> Stmt:
        def small(run: Expr) -> Stmt:
            return read_small(work, pos, at, run, is_last)

        def made(run: Expr) -> Stmt:
            return products(pos, at, run, is_last)

        bodies = [small, made] if work.is_preloaded else [lambda run: seq(small(run), made(run))]
        return seq(read_large(work, pos, at, is_last), *[loop("run", work.runs, body) for body in bodies])

    def block(pos: Position) -> Stmt:
        (count,) = sums.shape
        made = [
            *[AllocBuffer(buffer) for buffer in (work.large.buffer, work.small.buffer, *buffers)],
            loop("e", count, lambda e: BufferStore(sums, const(0, sums.dtype), (e,))),
            loop(
                "k_tile",
                k_tiles,
                lambda at: k_tile(pos, at, False),
                "serial",
                notes={"unroll": 1} if work.tile.form else None,
            ),
        ]
        if not is_multiple(extent, work.steps):
            rest = k_tile(pos, k_tiles, True)
            made.append(rest if type(extent) is IntImm else IfThenElse(ne(floormod(extent, work.steps), 0), rest))
        return seq(*made, finish(pos))

    return _in_blocks(work, block)


def _in_blocks(work: Work, block: Callable[[Position], Stmt]) -> Stmt:
    """A block of threads for each group of columns, which has its own barriers."""
    product, tile = work.product, work.tile
    batch, rows, columns = [extent_of(axes) for axes in (product.batch, work.small.axes, work.large.axes)]
    over, down = ceildiv(columns, work.columns), ceildiv(rows, tile.rows)
    has_own = bool(product.batch) and has_axis(batch)
    is_folded = bool(product.batch) and not has_own

    def thread_at(b: Expr, x: Expr, y: Expr, warp: Expr, lane: Expr) -> Stmt:
        warps = quotient(warp, tile.step_warps), remainder(warp, tile.step_warps)
        if work.large.by_steps or tile.form:
            lanes = quotient(lane, tile.step_lanes), remainder(lane, tile.step_lanes)
        else:
            lanes = remainder(lane, tile.column_lanes), quotient(lane, tile.column_lanes)
        thread = add(mul(warp, WARP), lane)
        made = block(Position(b, mul(y, tile.rows), mul(x, work.columns), warps, lanes, thread))
        return AttrStmt(const(0), OWN_BARRIERS, 1, made)

    def grid(b: Expr) -> Stmt:
        def tiles(x: Expr, y: Expr) -> Stmt:
            at = (floordiv(x, over), floormod(x, over)) if is_folded else (b, x)
            return thread_loop("ty", tile.warps, "threadIdx.y", lambda ty: thread_loop("tx", WARP, "threadIdx.x", lambda tx:
                thread_at(*at, y, ty, tx)))  # fmt: skip

        count = mul(batch, over) if is_folded else over
        return thread_loop(
            "x", count, "blockIdx.x", lambda x: thread_loop("y", down, "blockIdx.y", lambda y: tiles(x, y))
        )

    body = thread_loop("b", batch, "blockIdx.z", grid) if has_own else grid(const(0, INT))
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, product.name, body))


def quotient(value: Expr, by: int) -> Expr:
    """The quotient."""
    return value if by == 1 else floordiv(value, by)


def remainder(value: Expr, by: int) -> Expr:
    """The remainder."""
    return const(0, INT) if by == 1 else floormod(value, by)


def vector_index(work: Work, pos: Position, k_tile: Expr, number: Expr, piece: Expr) -> Expr:
    """The number of the ``piece``-th vector of a thread's run of steps among all of the product. Lanes have neighbouring vectors of
    the large operand, or of the small one if steps are contiguous in that alone."""
    tile = work.tile
    pieces = work.run // (work.large.width if work.large.by_steps else work.small_steps)
    first = add(mul(add(mul(k_tile, work.runs), number), tile.step_warps), pos.warps[1])
    return add(mul(add(mul(first, pieces), piece), tile.step_lanes), pos.lanes[1])


def step_index(work: Work, pos: Position, k_tile: Expr, number: Expr, step: Expr) -> Expr:
    """A step of a thread's run among all of the product, where steps are not contiguous in the large operand."""
    width = work.small_steps
    return add(mul(vector_index(work, pos, k_tile, number, quotient(step, width)), width), remainder(step, width))


def step_in_bounds(work: Work, pos: Position, k_tile: Expr, number: Expr, step: Expr) -> Expr:
    """True if a step of a thread's run is one of the product: in vectors of steps all are."""
    extent = extent_of(work.product.steps)
    if work.large.by_steps:
        return lt(vector_index(work, pos, k_tile, number, const(0, INT)), floordiv(extent, work.run))
    return lt(step_index(work, pos, k_tile, number, step), extent)


def vector_in_block(work: Work, pos: Position, vector_at: Expr) -> Expr:
    """The number of a thread's vector of columns in the block."""
    tile = work.tile
    return add(mul(add(mul(pos.warps[0], tile.vectors), vector_at), tile.column_lanes), pos.lanes[0])


def read_large(work: Work, pos: Position, k_tile: Expr, is_last: bool) -> Stmt:
    """Read the vectors of a k-tile; in the last one some may hang over."""
    side, columns = work.large, floordiv(extent_of(work.large.axes), work.by_column)
    exact = is_multiple(extent_of(side.axes), work.columns)

    def one(u: Expr, vector_at: Expr) -> Stmt:
        column = add(quotient(pos.column, work.by_column), vector_in_block(work, pos, vector_at))
        column = column if exact else minimum(column, sub(columns, 1))
        number, step = (u, const(0, INT)) if side.by_steps else (const(0, INT), u)
        at = (vector_index if side.by_steps else step_index)(work, pos, k_tile, number, step)
        at = _clamp_step(work, at, side.width if side.by_steps else 1) if is_last else at
        along, across = (at, column) if side.by_steps else (column, at)
        guard = step_in_bounds(work, pos, k_tile, number, step) if is_last and work.tile.form else None
        return _read(work, side, pos, along, across, work.large_index(u, vector_at, const(0, INT)), guard)

    return loop("u", work.tile.ahead, lambda u: loop("p", work.tile.vectors, lambda p: one(u, p)))


def read_small(work: Work, pos: Position, k_tile: Expr, number: Expr, is_last: bool) -> Stmt:
    """Read a run of steps of each row of a thread, in vectors of what is contiguous; in the last k-tile some may hang over."""
    side, tile = work.small, work.tile
    pieces = work.run // work.small_steps  # of a vector of the large operand, or of a run
    exact = is_multiple(extent_of(side.axes), tile.rows) and (not tile.form or tile.rows % tile.column_lanes == 0)

    def one(i: Expr, piece: Expr) -> Stmt:
        if work.large.by_steps:
            at = add(mul(vector_index(work, pos, k_tile, number, const(0, INT)), pieces), piece)
        else:
            at = vector_index(work, pos, k_tile, number, piece)
        at = _clamp_step(work, at, work.small_steps) if is_last else at
        row, first = mul(i, work.small_rows), mul(piece, work.small_steps)
        own = add(mul(row, tile.column_lanes), pos.lanes[0]) if tile.form else i
        line = add(quotient(pos.row, work.small_rows), own)
        line = line if exact else minimum(line, sub(floordiv(extent_of(side.axes), work.small_rows), 1))
        along, across = (at, line) if side.by_steps else (line, at)
        guard = step_in_bounds(work, pos, k_tile, number, first) if is_last and tile.form else None
        return _read(work, side, pos, along, across, work.small_index(number, row, first), guard)

    rows = work.thread_rows // work.small_rows
    return loop("i", rows, lambda row: loop("piece", pieces, lambda piece: one(row, piece)))


def _clamp_step(work: Work, at: Expr, width: int) -> Expr:
    """A vector of steps, or the last one."""
    return minimum(at, sub(floordiv(extent_of(work.product.steps), width), 1))


def _read(
    work: Work, side: Side, pos: Position, along: Expr, across: Expr, to: Expr, guard: Expr | None
) -> Stmt:  # fmt: skip
    """Read a vector of an operand: ``along`` counts vectors in memory, ``across`` lines. Zeros where ``guard`` does not hold."""
    product = work.product
    inner, outer = (product.steps, side.axes) if side.by_steps else (side.axes, product.steps)

    def one(lane: Expr | None) -> Stmt:
        values = {
            **unravel(product.batch, pos.batch),
            **unravel(inner, along, side.width, lane),
            **unravel(outer, across),
        }
        element = substitute(side.value, iterator_values(product, values))
        element = element if guard is None else select(guard, element, const(0, dtype_of(element)))
        return BufferStore(side.buffer, element, (sum_of(to, lane),))

    return vector(side.width, one)


def staged_column(work: Work, row: Expr, column: Expr) -> Expr:
    """Where a row of sums in shared memory has a column. A matrix instruction leaves each lane pairs of columns of a row: those of
    eight rows are exchanged so that they lie in different banks."""
    tile = work.tile
    if not tile.form:
        return column
    beside = max(1, WARP // work.columns)  # rows that lie side by side in the banks
    number = quotient(remainder(row, ROWS), beside)
    low = 2 * work.by_column  # the lanes of a row lie in the two bits from here on
    places = add(remainder(number, low), mul(quotient(number, low), 4 * low))
    if work.is_swapped:  # a warp reads four columns of each of the rows
        places = add(places, mul(remainder(number, min(low, 4)), max(low, 4)))
    return intrinsic("bitwise_xor", column, places)


def write_sums(work: Work, pos: Position, stores: Callable[[Buffer], Stmt]) -> Stmt:
    """Join the sums of warps in shared memory: ``stores`` writes those of a thread by warp along the steps, row and column. Threads
    write neighbours of the result."""
    product, tile = work.product, work.tile
    total = product.store.buffer.dtype.name
    shape = [const(n, INT) for n in (tile.step_warps, tile.rows, work.columns)]
    shared = make_buffer(f"{product.name}_of_warps", total, shape, "shared")
    count, threads = tile.rows * work.columns, tile.warps * WARP
    return seq(
        AllocBuffer(shared),
        stores(shared),
        do("tvm_storage_sync", StringImm("shared")),
        loop("i", -(-count // threads), lambda n: _write_cell(work, pos, shared, n, count, threads)),
    )


def _write_cell(work: Work, pos: Position, shared: Buffer, n: Expr, count: int, threads: int) -> Stmt:
    """Write a cell of the block."""
    product, tile = work.product, work.tile
    cell = add(mul(n, threads), pos.thread)
    if work.is_swapped:
        row, column = remainder(cell, tile.rows), quotient(cell, tile.rows)
    else:
        row, column = quotient(cell, work.columns), remainder(cell, work.columns)
    total, zero = registers(f"{shared.name}_sum", shared.dtype.name, 1), const(0, INT)
    place = staged_column(work, row, column)
    value: Expr = buffer_load(shared, const(0, INT), row, place)
    for warp in range(1, tile.step_warps):
        value = add(value, buffer_load(shared, const(warp, INT), row, place))
    rows, columns = work.small.axes, work.large.axes
    at = add(pos.row, row), add(pos.column, column)
    values = {**unravel(product.batch, pos.batch), **unravel(rows, at[0]), **unravel(columns, at[1])}
    guard = all_of([
        *([] if count % threads == 0 else [lt(cell, count)]),
        *bound_checks(at[0], extent_of(rows), tile.rows), *bound_checks(at[1], extent_of(columns), work.columns),
    ])  # fmt: skip
    store = output_at(product, values, buffer_load(total, zero))
    made = seq(AllocBuffer(total), BufferStore(total, value, (zero,)), store)
    return made if guard is None else IfThenElse(guard, made)
