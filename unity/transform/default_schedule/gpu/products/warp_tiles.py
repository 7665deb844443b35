"""The kernel of a product on tensor cores: a block of warps computes a tile.

Tiles of both operands are copied to shared memory some iterations ahead, asynchronously where a copy has 4 bytes or more. Each warp
computes a part of the tile: ``ldmatrix`` loads its operands into registers, ``mma`` adds their product to the accumulators. At the
end the accumulators go through shared memory, 16 rows of each warp at a time, so that neighbouring threads store contiguous
elements.

Layout in shared memory: a chunk is 16 bytes along the contiguous axis, and the chunks of successive rows are adjacent. The eight
rows of a matrix are then 128 bytes, which ``ldmatrix`` reads without bank conflicts. Padding behind each column of chunks keeps the
stores of a warp in different banks.
Not here: the choice of products and tiles (`tensor_cores.py`); the elements of a tile (`tile_sides.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, buffer_load, ceildiv, const, floordiv, floormod, intrinsic, mul
from .....ir.expr import StringImm
from .....ir.stmt import AllocBuffer, BufferStore, Evaluate, Stmt, seq
from .....ir.types import Expr
from ...nest_building import INT
from .product import Product, extent_of
from .tile_blocks import WARP, Position, fill, launch, loop, registers, store_width, vector, write
from .tile_sides import Side, sum_of

PART = 16
"""Rows of a warp whose accumulators are stored together."""


@dataclass(slots=True, frozen=True)
class Form:
    """An ``mma`` instruction: its shape, and the PTX types of its operands and accumulators."""

    shape: str
    operand: str
    total: str


@dataclass(slots=True, frozen=True)
class WarpTile:
    """The tile of a block, the warps along its rows and its columns, and the stages of the software pipeline."""

    rows: int
    columns: int
    steps: int
    row_warps: int
    column_warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns} by {self.steps}"

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.row_warps * self.column_warps

    @property
    def warp_rows(self) -> int:
        """Rows of a warp."""
        return self.rows // self.row_warps

    @property
    def warp_columns(self) -> int:
        """Columns of a warp."""
        return self.columns // self.column_warps

    def row_warp(self, warp: Expr) -> Expr:
        """The index of a warp along the rows."""
        return floordiv(warp, self.column_warps)

    def column_warp(self, warp: Expr) -> Expr:
        """The index of a warp along the columns."""
        return floormod(warp, self.column_warps)


def kernel(product: Product, form: Form, tile: WarpTile, left: Side, right: Side, group: int) -> Stmt:
    """The kernel of a product; ``group``: see ``launched``."""
    down, over = tile.warp_rows // 16, tile.warp_columns // 8
    sums = registers(f"{product.name}_sums", product.store.buffer.dtype.name, down * over * 4)
    regs = [
        registers(f"{side.buffer.name}_regs", side.buffer.dtype.name, count * side.chunk)
        for side, count in ((left, down), (right, over // 2))
    ]
    ahead = tile.stages - 1
    notes = {
        "software_pipeline_stage": (0, 0, ahead),
        "software_pipeline_order": (0, 1, 2),
        "software_pipeline_async_stages": (0,),
    }

    def block(pos: Position) -> Stmt:
        def k_tile(k: Expr) -> Stmt:
            fills = [
                _fill(product, left, pos.row, k, tile, pos),
                _fill(product, right, pos.column, k, tile, pos),
            ]
            return seq(*fills, _multiply(form, tile, (left, right), regs, sums, pos))

        return seq(
            *[AllocBuffer(buffer) for buffer in (left.buffer, right.buffer, sums, *regs)],
            loop("e", down * over * 4, lambda e: BufferStore(sums, product.first, (e,))),
            loop("k_tile", ceildiv(extent_of(product.steps), tile.steps), k_tile, "serial", notes=notes),
            _finish(product, tile, sums, pos),
        )

    return launch(product, tile.rows, tile.columns, tile.warps, block, group)


def _fill(product: Product, side: Side, first: Expr, k_tile: Expr, tile: WarpTile, pos: Position) -> Stmt:
    """The copy of an operand's tile by all threads."""

    def store(element: Expr, line: Expr, start: Expr, lane: Expr | None) -> Stmt:
        chunk, rest = floordiv(start, side.chunk), floormod(start, side.chunk)
        return BufferStore(side.buffer, element, (chunk, sum_of(mul(line, side.chunk), rest, lane)))

    return fill(product, side, pos.batch, first, k_tile, tile.warps * WARP, pos.thread, store)


def _multiply(
    form: Form, tile: WarpTile, sides: tuple[Side, Side], regs: list[Buffer], sums: Buffer, pos: Position
) -> Stmt:
    """The products that a warp adds to its accumulators in one iteration."""
    chunk, over = sides[0].chunk, tile.warp_columns // 8
    names = [StringImm(n) for n in (form.shape, "row", "col", form.operand, form.operand, form.total)]

    def multiply(i: Expr, j: Expr) -> Stmt:
        left, right, total = mul(i, chunk), mul(j, chunk // 2), mul(add(mul(i, over), j), 4)
        addresses = (regs[0].data, left, regs[1].data, right, sums.data, total)
        return Evaluate(intrinsic("ptx_mma", *names, *addresses, const(False), dtype=sums.dtype))

    def steps(k: Expr) -> Stmt:
        def loads(number: int, warp: Expr, size: int) -> Stmt:
            side, first, step = sides[number], mul(warp, size), mul(k, 2 * chunk)
            return loop(
                "i",
                size // 16,
                lambda i: _matrices(side, number == 0, regs[number], i, add(first, mul(i, 16)), step, pos.lane),
            )

        return seq(
            loads(0, tile.row_warp(pos.warp), tile.warp_rows),
            loads(1, tile.column_warp(pos.warp), tile.warp_columns),
            loop("i", tile.warp_rows // 16, lambda i: loop("j", over, lambda j: multiply(i, j))),
        )

    return loop("k", sides[0].steps // (2 * chunk), steps)


def _matrices(side: Side, is_left: bool, to: Buffer, number: Expr, first: Expr, step: Expr, lane: Expr) -> Stmt:
    """Load four matrices of an operand into registers: 16 rows or columns from ``first``, and two chunks of steps from ``step``.

    The matrices of the left operand are ordered by rows first, those of the right by steps first. Steps are contiguous in
    registers; if they are not in the tile, ``ldmatrix`` transposes."""
    if is_left == side.by_steps:
        chunk, line = floordiv(lane, 16), floormod(lane, 16)
    else:
        chunk, line = floormod(floordiv(lane, 8), 2), add(mul(floordiv(lane, 16), 8), floormod(lane, 8))
    along, across = (step, first) if side.by_steps else (first, step)
    index = (add(floordiv(along, side.chunk), chunk), mul(add(across, line), side.chunk))
    source = intrinsic("address_of", buffer_load(side.buffer, *index))
    args = (const(not side.by_steps), const(4), StringImm(".b16"), to.data, mul(number, side.chunk), source)
    return Evaluate(intrinsic("ptx_ldmatrix", *args, const(0, INT), dtype=side.buffer.dtype))


def _finish(product: Product, tile: WarpTile, sums: Buffer, pos: Position) -> Stmt:
    """The epilogue: the accumulators of all warps go through shared memory, some rows at a time, and the results are stored."""
    over, threads = tile.warp_columns // 8, tile.warps * WARP
    width = store_width(product)
    shape = [const(tile.row_warps * PART, INT), const(tile.columns + 8, INT)]
    staging = make_buffer(f"{sums.name}_staging", sums.dtype.name, shape, "shared.dyn")

    def store(i: Expr, j: Expr, half: Expr) -> Stmt:
        row = sum_of(mul(tile.row_warp(pos.warp), PART), mul(half, 8), floordiv(pos.lane, 4))
        first = mul(tile.column_warp(pos.warp), tile.warp_columns)
        column = sum_of(first, mul(j, 8), mul(floormod(pos.lane, 4), 2))

        def pair(lane: Expr | None) -> Stmt:
            cell = buffer_load(sums, sum_of(mul(add(mul(i, over), j), 4), mul(half, 2), lane))
            return BufferStore(staging, cell, (row, sum_of(column, lane)))

        return vector(2, pair)

    def write_rows(i: Expr, n: Expr) -> Stmt:
        unit = add(mul(n, threads), pos.thread)
        line, group = floordiv(unit, tile.columns // width), floormod(unit, tile.columns // width)
        row = sum_of(mul(floordiv(line, PART), tile.warp_rows), mul(i, PART), floormod(line, PART))

        def cell(lane: Expr | None) -> Expr:
            return buffer_load(staging, line, sum_of(mul(group, width), lane))

        return write(product, (tile.rows, tile.columns), pos, row, group, width, cell)

    def part(i: Expr) -> Stmt:
        stores = loop("j", over, lambda j: loop("half", 2, lambda half: store(i, j, half)))
        rounds = tile.row_warps * PART * tile.columns // (threads * width)
        return seq(stores, loop("i", rounds, lambda n: write_rows(i, n)))

    return seq(AllocBuffer(staging), loop("i", tile.warp_rows // PART, part))
