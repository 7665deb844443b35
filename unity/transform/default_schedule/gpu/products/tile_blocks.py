"""Blocks of threads that compute tiles of a product: where a thread stands, loops, and how finished results are written.

Not here: what a block does with its tile (`warp_tiles.py`, `warpgroup_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, ceildiv, const, floordiv, floormod, intrinsic, is_int, lt, minimum, mul, sub
from .....ir.expr import IntImm, Var
from .....ir.scalar import IterVar
from .....ir.stmt import Bind, Block, BlockRealize, Evaluate, For, IfThenElse, Stmt, seq
from .....ir.types import Expr, prim_type
from ...nest_building import INT
from .product import Product, extent_of, output_at, unravel
from .tile_sides import Side, all_of, bound_checks, element_at, is_aligned_vector, last_divides
from .tiles import has_axis

WARP = 32
VECTOR = 4
"""Results that a thread writes at once."""
GROUP = 8
"""Most tiles of columns that blocks take before the next tile of rows."""
SINGLE = 4
"""Elements at most that a thread reads one by one in unrolled code."""


@dataclass(slots=True, frozen=True)
class Position:
    """Where a thread stands: batch, first row and column of the block's tile; its warp, its lane."""

    batch: Expr
    row: Expr
    column: Expr
    warp: Expr
    lane: Expr

    @property
    def thread(self) -> Expr:
        """Its number in the block."""
        return add(mul(self.warp, WARP), self.lane)


def do(name: str, *args: Expr | int) -> Stmt:
    """An instruction without a result."""
    return Evaluate(intrinsic(name, *[const(arg, INT) if type(arg) is int else arg for arg in args]))


def registers(name: str, dtype: str, count: int) -> Buffer:
    """A buffer in the registers of a thread."""
    return make_buffer(name, dtype, [const(count, INT)], "local")


def loop(
    name: str, extent: int | Expr, body: Callable[[Expr], Stmt], kind: str = "unrolled", thread: str | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Stmt:  # fmt: skip
    """A loop; of one iteration, its body."""
    count = const(extent, INT) if isinstance(extent, int) else extent
    if is_int(count, 1) and thread is None:
        return body(const(0, INT))
    var = Var(name, prim_type(INT))
    return For(var, const(0, INT), count, kind, body(var), thread, dict(notes) if notes else None)


def vector(width: int, body: Callable[[Expr | None], Stmt]) -> Stmt:
    """A statement for each of ``width`` neighbours; for a single one without a lane."""
    return body(None) if width == 1 else loop("lane", width, body, "vectorized")


Tiles = Callable[[Callable[[Position, Expr], Stmt]], Stmt]
"""The statement of a loop over the tiles of a block, by that of one tile with its position and number."""


def launch_persistent(
    product: Product,
    rows: int,
    columns: int,
    warps: int,
    block: Callable[[Position, Tiles], Stmt],
    group: int,
    blocks: int,
) -> Stmt:
    """At most ``blocks`` blocks of threads, each of which takes one tile after another, in the order in which ``launched`` has
    blocks."""
    down, over = _tiles(product, rows, columns)
    size = mul(down, group)
    tiles = mul(extent_of(product.batch), mul(down, over))
    zero = const(0, INT)

    def threads(x: Expr) -> Stmt:
        def position(number: Expr, thread: Position) -> Position:
            part, y = floormod(number, size), floordiv(number, size)
            row, column = _tile_at(part, floormod(y, floordiv(over, group)), group)
            batch = floordiv(y, floordiv(over, group))
            return Position(batch, mul(row, rows), mul(column, columns), thread.warp, thread.lane)

        def body(thread: Position) -> Stmt:
            def each(visit: Callable[[Position, Expr], Stmt]) -> Stmt:
                count = ceildiv(sub(tiles, x), blocks)
                return loop("tile", count, lambda i: visit(position(add(mul(i, blocks), x), thread), i), "serial")

            return block(thread, each)

        return thread_loop("ty", warps, "threadIdx.y", lambda ty: thread_loop("tx", WARP, "threadIdx.x", lambda tx: body(
            Position(zero, zero, zero, ty, tx))))  # fmt: skip

    body_of_grid = thread_loop("x", minimum(tiles, const(blocks, INT)), "blockIdx.x", threads)
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, product.name, body_of_grid))


def _tiles(product: Product, rows: int, columns: int) -> tuple[Expr, Expr]:
    """Tiles down and over."""
    return ceildiv(extent_of(product.rows), rows), ceildiv(extent_of(product.columns), columns)


def _tile_at(x: Expr, y: Expr, group: int) -> tuple[Expr, Expr]:
    """The row and the column of the tile that a block has."""
    return floordiv(x, group), add(mul(y, group), floormod(x, group))


def launch(
    product: Product, rows: int, columns: int, warps: int, block: Callable[[Position], Stmt], group: int
) -> Stmt:
    """A block of threads for each tile. Blocks go through ``group`` tiles of columns before they go down: what they read is near
    then."""
    batch = extent_of(product.batch)
    down, over = _tiles(product, rows, columns)
    folded = is_int(batch, 1) or not has_axis(batch)

    def threads(b: Expr, x: Expr, y: Expr) -> Stmt:
        row, column = _tile_at(x, y, group)
        return thread_loop("ty", warps, "threadIdx.y", lambda ty: thread_loop("tx", WARP, "threadIdx.x", lambda tx: block(
            Position(b, mul(row, rows), mul(column, columns), ty, tx))))  # fmt: skip

    def grid(b: Expr) -> Stmt:
        size = mul(down, group)

        def column(x: Expr) -> Stmt:
            at = (floordiv(x, size), floormod(x, size)) if folded and not is_int(batch, 1) else (b, x)
            return thread_loop("y", floordiv(over, group), "blockIdx.y", lambda y: threads(*at, y))

        return thread_loop("x", mul(batch, size) if folded else size, "blockIdx.x", column)

    body = grid(const(0, INT)) if folded else thread_loop("b", batch, "blockIdx.z", grid)
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, product.name, body))


def thread_loop(name: str, extent: int | Expr, thread: str, body: Callable[[Expr], Stmt]) -> Stmt:
    """A loop over threads or blocks."""
    return loop(name, extent, body, "thread_binding", thread)


def fill(
    product: Product, side: Side, batch: Expr, first: Expr, k_tile: Expr, threads: int, thread: Expr,
    store: Callable[[Expr, Expr, Expr, Expr | None], Stmt], unroll: int = 0,
) -> Stmt:  # fmt: skip
    """The copy of an operand's tile by some threads: zeros behind the ends. ``store`` writes an element of a line, from a start in
    it on that of a lane. Copies are written out, or ``unroll`` of them (``SINGLE`` elements read one by one): each takes
    registers for its address."""
    units = side.length // side.width
    step0 = mul(k_tile, side.steps)
    along, across = (step0, first) if side.by_steps else (first, step0)

    def copy(n: Expr) -> Stmt:
        unit = add(mul(n, threads), thread)
        line, group = (
            (floormod(unit, side.lines), floordiv(unit, side.lines))
            if side.transposed
            else (floordiv(unit, units), floormod(unit, units))
        )
        groups = add(floordiv(along, side.width), group)

        def one(lane: Expr | None) -> Stmt:
            element = element_at(product, side, batch, groups, add(across, line), lane)
            return store(element, line, mul(group, side.width), lane)

        copied = vector(side.width, one)
        return copied if side.lines * units % threads == 0 else IfThenElse(lt(unit, side.lines * units), copied)

    rounds = -(-side.lines * units // threads)
    unroll = unroll or (max(1, SINGLE // side.single) if side.single else 0)
    if unroll:
        return loop("i", rounds, copy, "serial", notes={"unroll": unroll})
    return loop("i", rounds, copy)


def group_sizes(product: Product, columns: int) -> list[int]:
    """The numbers of tiles of columns that blocks may take before the next tile of rows, most first: they divide all tiles."""
    extent = extent_of(product.columns)
    tiles = -(-extent.value // columns) if type(extent) is IntImm else 1
    return [group for group in range(GROUP, 0, -1) if tiles % group == 0]


def store_width(product: Product) -> int:
    """Neighbouring columns that are written at once: whole vectors, or single ones."""
    if not last_divides(product.columns, VECTOR):
        return 1
    lane, group = Var("lane", prim_type(INT)), Var("group", prim_type(INT))
    others = {axis.var: axis.var for axis in (*product.batch, *product.rows)}
    store = output_at(
        product, {**others, **unravel(product.columns, group, VECTOR, lane)}, const(0, product.store.buffer.dtype)
    )
    return VECTOR if is_aligned_vector(store, lane, VECTOR) else 1


def write(
    product: Product, sizes: tuple[int, int], pos: Position, row: Expr, group: Expr, width: int,
    cell: Callable[[Expr | None], Expr], guarded: bool = True,
) -> Stmt:  # fmt: skip
    """The store of ``width`` finished sums, those of a row's group in the tile, guarded where tiles of such sizes hang over."""

    def store(line: Expr) -> Stmt:
        columns = add(floordiv(pos.column, width), group)
        return on_columns(product, sizes[1] if guarded else 1, columns, width, lambda groups: (
            write_cells(product, pos, line, groups, width, cell)))  # fmt: skip

    return on_row(product, sizes[0] if guarded else 1, add(pos.row, row), store)


def on_row(product: Product, size: int, at: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
    """A statement about a row, guarded where tiles of ``size`` rows hang over. The row gets a variable: addresses in a compact
    tensor follow from one number."""
    line = Var("line", prim_type(INT))
    return seq(Bind(line, at), _guarded(product.rows, line, size, body(line)))


def on_columns(product: Product, size: int, at: Expr, width: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """The same of a group of ``width`` columns. It gets a variable where columns have several axes, whose places are divisions."""
    if len(product.columns) < 2:
        return _guarded(product.columns, mul(at, width), size, body(at))
    group = Var("columns", prim_type(INT))
    return seq(Bind(group, at), _guarded(product.columns, mul(group, width), size, body(group)))


def _guarded(axes: Sequence[IterVar], at: Expr, size: int, body: Stmt) -> Stmt:
    guard = all_of(bound_checks(at, extent_of(axes), size))
    return body if guard is None else IfThenElse(guard, body)


def write_cells(
    product: Product, pos: Position, row: Expr, groups: Expr, width: int, cell: Callable[[Expr | None], Expr]
) -> Stmt:
    """The store of ``width`` finished sums, those of a row's group."""

    def one(lane: Expr | None) -> Stmt:
        at = {**unravel(product.rows, row), **unravel(product.columns, groups, width, lane)}
        return output_at(product, {**unravel(product.batch, pos.batch), **at}, cell(lane))

    return vector(width, one)
