"""The kernel of a product of few rows on tensor cores: what a thread reads is what ``mma`` takes of it.

Eight columns are the columns of the instruction's right operand, the rows those of its left one, of which there are 16. Which steps
meet in an instruction does not matter as long as both operands have the same: a lane's steps of it are four neighbours in memory.
So vectors of steps go from memory to the instruction as they are; of vectors of columns, which are eight matrices of one column in
each lane, two steps are paired. Lanes have no sums of the same cells, warps join theirs in shared memory.
Not here: what is read where, and how results are written (`lane_work.py`).
"""

from __future__ import annotations

from .....ir.buffer import Buffer
from .....ir.build import add, buffer_load, const, floordiv, floormod, intrinsic, lt, mul
from .....ir.expr import StringImm
from .....ir.scalar import BufferLoad
from .....ir.stmt import BufferStore, Evaluate, IfThenElse, Stmt, seq
from .....ir.types import Expr, prim_type
from ...nest_building import INT
from .lane_work import Position, Work, launch_lanes, staged_column, vector_in_block, write_sums
from .tile_blocks import loop, registers, vector

COLUMNS = 8
"""Columns of an instruction, and lanes along them."""
SUMS = 4
"""Sums of a lane: two columns of two rows."""


def kernel(work: Work, operand: str, total: str) -> Stmt:
    """The kernel of a product; ``operand`` and ``total`` are the instruction's types."""
    product = work.product
    tiles, word = work.thread_columns, 4 // work.large.buffer.dtype.itemsize
    sums = registers(f"{product.name}_sums", product.store.buffer.dtype.name, tiles * SUMS)
    left = registers(f"{product.name}_left", work.small.buffer.dtype.name, 4 * word)
    right = registers(f"{product.name}_right", work.large.buffer.dtype.name, 2 * word)
    names = [StringImm(n) for n in (work.tile.form, "row", "col", operand, operand, total)]

    def multiply(matrix: Expr, source: Buffer, at: Expr) -> Stmt:
        addresses = (left.data, const(0, INT), source.data, at, sums.data, mul(matrix, SUMS))
        return Evaluate(intrinsic("ptx_mma", *names, *addresses, const(False), dtype=sums.dtype))

    def group(run: Expr, number: Expr) -> Stmt:
        """The products of four neighbouring steps of each lane (eight of 8 bits)."""
        first = mul(number, 2 * word)
        made = [_left(work, left, run, first, word)]
        if work.large.by_steps:
            made.append(loop("p", tiles, lambda p: multiply(p, work.large.buffer, work.large_index(run, p, first))))
        else:
            made.append(loop("p", tiles, lambda p: seq(
                _right(work, right, p, first, word), multiply(p, right, const(0, INT)))))  # fmt: skip
        return seq(*made)

    def products(pos: Position, k_tile: Expr, run: Expr, is_last: bool) -> Stmt:
        return loop("q", work.run // (2 * word), lambda q: group(run, q))

    regs = [left, sums] if work.large.by_steps else [left, sums, right]
    return launch_lanes(work, sums, regs, products,
                    lambda pos: write_sums(work, pos, lambda shared: _store_sums(work, pos, sums, shared)))  # fmt: skip


def _left(work: Work, left: Buffer, run: Expr, first: Expr, word: int) -> Stmt:
    """The left operand of an instruction: words of row, row + 8, row, row + 8. Where there are no more than eight rows, they are
    there twice."""

    def part(k: int) -> Stmt:
        row = min(k % 2, work.thread_rows - 1)

        def one(lane: Expr | None) -> Stmt:
            step = add(first, const(k // 2 * word, INT)) if lane is None else add(add(first, k // 2 * word), lane)
            value = BufferLoad(
                work.small.buffer, (work.small_index(run, const(row, INT), step),), prim_type(left.dtype)
            )
            return BufferStore(
                left, value, (add(const(k * word, INT), lane) if lane is not None else const(k * word, INT),)
            )

        return vector(word, one)

    return seq(*[part(k) for k in range(4)])


def _right(work: Work, right: Buffer, column: Expr, first: Expr, word: int) -> Stmt:
    """The right operand of an instruction: a column of each lane, of successive steps."""
    width = work.large.width

    def one(e: Expr) -> Stmt:
        at = work.large_index(add(first, e), floordiv(column, width), floormod(column, width))
        return BufferStore(right, BufferLoad(work.large.buffer, (at,), prim_type(right.dtype)), (e,))

    return loop("e", 2 * word, one)


def _store_sums(work: Work, pos: Position, sums: Buffer, shared: Buffer) -> Stmt:
    """Store the sums of a lane: rows by its lane along columns, two columns by that along steps."""
    rows = work.tile.rows

    def one(matrix: Expr, half: int, pair: int) -> Stmt:
        row = add(pos.lanes[0], half * COLUMNS)
        lane = add(mul(pos.lanes[1], 2), pair)  # the lane along columns that read this column
        at = Position(pos.batch, pos.row, pos.column, pos.warps, (lane, pos.lanes[1]), pos.thread)
        vector_at, inner = floordiv(matrix, work.by_column), floormod(matrix, work.by_column)
        column = add(mul(vector_in_block(work, at, vector_at), work.by_column), inner)
        value = buffer_load(sums, add(mul(matrix, SUMS), 2 * half + pair))
        store = BufferStore(shared, value, (pos.warps[1], row, staged_column(work, row, column)))
        return store if rows >= (half + 1) * COLUMNS else IfThenElse(lt(row, rows), store)

    parts = [(half, pair) for half in range(work.thread_rows) for pair in range(2)]
    return loop("p", work.thread_columns, lambda p: seq(*[one(p, half, pair) for half, pair in parts]))
