"""The share of a thread in a product's tile: its rows and columns, and how it reads them from shared memory into registers.

Lanes of a warp lie along rows and columns. Of four lanes, two read the same vector of either operand: one pass through shared
memory serves half a warp.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, buffer_load, const, dtype_of, floordiv, floormod, mul
from .....ir.scalar import Cast
from .....ir.stmt import BufferStore, Stmt
from .....ir.types import Expr, prim_type
from ...nest_building import INT
from .tile_blocks import VECTOR, WARP, Position, loop, registers, vector
from .tile_sides import Side, sum_of

PAIR = 2
"""Neighbouring lanes that have different rows."""
SHARED = "shared.dyn"


@dataclass(slots=True, frozen=True)
class ThreadTile:
    """The tile of a block; warps along its rows and its columns, lanes along the rows of a warp; stages of the rings; blocks that a
    multiprocessor is to have at a time. ``step_groups``: so many groups of warps share the steps of a tile."""

    rows: int
    columns: int
    steps: int
    row_warps: int
    column_warps: int
    row_lanes: int
    stages: int
    blocks_per_sm: int = 1
    step_groups: int = 1

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns} by {self.steps}"

    @property
    def group_warps(self) -> int:
        """Warps of a group."""
        return self.row_warps * self.column_warps

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.group_warps * self.step_groups

    @property
    def column_lanes(self) -> int:
        """Lanes along the columns of a warp."""
        return WARP // self.row_lanes

    @property
    def thread_rows(self) -> int:
        """Rows of a thread."""
        return self.rows // (self.row_warps * self.row_lanes)

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return self.columns // (self.column_warps * self.column_lanes)

    @property
    def thread_steps(self) -> int:
        """Steps of a thread."""
        return self.steps // self.step_groups

    def group(self, pos: Position) -> tuple[Expr, Expr]:
        """The group of a thread's warp, and the number of the warp in it."""
        return floordiv(pos.warp, self.group_warps), floormod(pos.warp, self.group_warps)


@dataclass(slots=True, frozen=True)
class Step:
    """A step of a k-tile: the ``number``-th of the ``count`` that the round ``k`` has."""

    k: Expr
    count: int
    number: int

    @property
    def index(self) -> Expr:
        """Its number in the k-tile."""
        return add(mul(self.k, self.count), self.number)


@dataclass(slots=True, frozen=True)
class Part:
    """The reads of a thread of an operand, from ``first_step`` on: ``count`` rows (or columns), every ``lanes``-th vector of its
    warp's. ``ring`` has the tiles of all stages, ``regs`` two versions of what the products of a step take."""

    side: Side
    ring: Buffer
    regs: Buffer
    count: int
    lanes: int
    first_step: Expr
    warp: Expr
    lane: Expr

    @property
    def width(self) -> int:
        """Elements that are read at once."""
        return width_of(self.side)

    @property
    def ahead(self) -> int:
        """Steps that are read at once."""
        return self.width if self.side.by_steps else 1

    @property
    def piece(self) -> int:
        """Neighbouring rows that are read at once."""
        return 1 if self.side.by_steps else self.width

    def at(self, number: Expr) -> Expr:
        """The row of the tile that a row of the thread is."""
        pieces, rest = floordiv(number, self.piece), floormod(number, self.piece)
        first = mul(self.warp, self.count * self.lanes)
        return sum_of(first, mul(pieces, self.lanes * self.piece), mul(self.lane, self.piece), rest)

    def loads(self, slot: Expr, step: Step) -> Stmt:
        """Read what the products of ``ahead`` steps take, from one on."""
        along, version = add(self.first_step, step.index), self._version(step)

        def load(number: Expr) -> Stmt:
            first = mul(number, self.piece)

            def one(lane: Expr | None) -> Stmt:
                line, start = (self.at(first), along) if self.side.by_steps else (along, self.at(first))
                index = (add(mul(slot, self.side.lines), line), sum_of(start, lane))
                cell: Expr = buffer_load(self.ring, *index)
                cell = Cast(cell, prim_type(self.regs.dtype)) if self.regs.dtype is not self.ring.dtype else cell
                return BufferStore(self.regs, cell, (sum_of(version, mul(first, self.ahead), lane),))

            return vector(self.width, one)

        return loop("i", self.count // self.piece, load)

    def value(self, number: Expr, step: Step) -> Expr:
        """An element of a step that was read."""
        index = sum_of(self._version(step), mul(number, self.ahead), const(step.number % self.ahead, INT))
        return buffer_load(self.regs, index)

    def _version(self, step: Step) -> Expr:
        """Where what was read for a step begins: every other ``ahead`` steps have the same place."""
        is_whole = self.ahead % step.count == 0
        version = floormod(step.k, 2) if is_whole else const(step.number // self.ahead % 2, INT)
        return mul(version, self.count * self.ahead)


_Buffers = tuple[list[Buffer], list[Buffer]]


def width_of(side: Side) -> int:
    """Elements that a thread reads at once."""
    return min(VECTOR, side.chunk)


def parts_of(tile: ThreadTile, pos: Position, sides: tuple[Side, Side], buffers: _Buffers) -> tuple[Part, Part]:
    """The shares of a thread in both operands; their rings and registers are those of ``buffers_of``."""
    group, warp = tile.group(pos)
    start = mul(group, tile.thread_steps)
    row = add(mul(floordiv(pos.lane, PAIR * tile.column_lanes), PAIR), floormod(pos.lane, PAIR))
    column = floormod(floordiv(pos.lane, PAIR), tile.column_lanes)
    (left, right), (rings, regs) = sides, buffers
    down, over = floordiv(warp, tile.column_warps), floormod(warp, tile.column_warps)
    return (
        Part(left, rings[0], regs[0], tile.thread_rows, tile.row_lanes, start, down, row),
        Part(right, rings[1], regs[1], tile.thread_columns, tile.column_lanes, start, over, column),
    )


def buffers_of(tile: ThreadTile, sides: tuple[Side, Side], values: tuple[Expr, Expr]) -> _Buffers:
    """The rings of tiles of both operands, and a thread's registers for what it reads of them."""
    rings, regs = [], []
    for side, value, count in zip(sides, values, (tile.thread_rows, tile.thread_columns)):
        name, (lines, length) = side.buffer.name, side.buffer.shape
        rings.append(make_buffer(name, side.buffer.dtype.name, [mul(lines, tile.stages), length], SHARED))
        regs.append(
            registers(f"{name}_regs", dtype_of(value).name, 2 * count * (width_of(side) if side.by_steps else 1))
        )
    return rings, regs
