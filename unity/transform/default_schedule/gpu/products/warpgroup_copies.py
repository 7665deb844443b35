"""The warpgroup that copies tiles of both operands into the ring of a kernel of warpgroups, ahead of those that multiply.

Where an operand is a tensor that bulk copies take, one thread copies whole tiles; where one is not, all threads copy by elements.
Not here: which tensors bulk copies take (`tensor_views.py`, `image_views.py`); what is done with the tiles (`warpgroup_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, const, floordiv, floormod, ge, intrinsic, lt, mul, sub
from .....ir.node import replace as with_fields
from .....ir.stmt import AttrStmt, BufferStore, Evaluate, IfThenElse, Stmt, seq
from .....ir.types import Expr
from ....tir.threads.inject_software_pipeline import ASYNC_SCOPE
from ...nest_building import INT
from .image_views import View
from .product import Product
from .tile_blocks import WARP, Position, do, fill, loop
from .tile_sides import Side, sum_of
from .warpgroup_sizes import GROUP, SWIZZLE, WarpgroupTile

PIECE = 16
"""Bytes that are exchanged."""
ALIGN = 8 * SWIZZLE
PRODUCTS = 4
"""Products of a stage: each takes 32 bytes of a row of steps."""
TOGETHER = 4
"""Copies that a thread begins at once."""


@dataclass(slots=True, frozen=True)
class Operand:
    """An operand, its ring of tiles, and the tensor that bulk copies take; None where threads copy."""

    side: Side
    ring: Buffer
    view: View | None

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.side.size * self.side.steps

    @property
    def row(self) -> int:
        """Elements of a row in shared memory."""
        return SWIZZLE // self.ring.dtype.itemsize

    def start(self, slot: Expr, first: Expr) -> Expr:
        """Where in the ring the rows or columns of a warpgroup begin: a multiple of a row's elements if it lies across."""
        return add(mul(slot, self.size), mul(first, self.side.steps))

    def step(self, k: Expr) -> Expr:
        """From there to the operand of a product in the stage."""
        depth = self.side.steps // PRODUCTS
        return mul(k, depth if self.side.by_steps else depth * self.row)


def operand_of(side: Side, view: View | None, stages: int) -> Operand:
    """An operand with a ring of so many stages."""
    shape = [const(stages * side.size * side.steps, INT)]
    ring = make_buffer(side.buffer.name, side.buffer.dtype.name, shape, "shared.dyn")
    return Operand(side, with_fields(ring, align=ALIGN), view)


def slot_of(k_tile: Expr, stages: int) -> Expr:
    """The stage of a k-tile."""
    return floormod(k_tile, stages)


def parity_of(k_tile: Expr, stages: int) -> Expr:
    """The parity of the phase in which a stage is filled for a k-tile."""
    return floormod(floordiv(k_tile, stages), 2)


def _await_empty(tile: WarpgroupTile, k_tile: Expr) -> Stmt:
    slot, parity = slot_of(k_tile, tile.stages), sub(1, parity_of(k_tile, tile.stages))
    return do("ptx_wait_barrier", add(slot, tile.stages), parity)


def bulk_copies(
    product: Product,
    tile: WarpgroupTile,
    operands: Sequence[Operand],
    before: Expr,
    done: Expr,
    k_tiles: Expr,
    pos: Position,
) -> Stmt:
    """A thread copies whole tiles; so many k-tiles ``before`` them are another block's, so many are ``done``."""

    def k_tile(number: Expr) -> Stmt:
        k, step = add(done, number), add(before, number)
        slot, total = slot_of(k, tile.stages), sum([o.size * o.ring.dtype.itemsize for o in operands])
        copies = [
            copy
            for operand, first in zip(operands, (pos.row, pos.column))
            for copy in _boxes(product, operand, slot, first, step, pos.batch)
        ]
        return seq(_await_empty(tile, k), do("ptx_arrive_barrier_expect_tx", slot, total), *copies)

    return loop("k_tile", k_tiles, k_tile, "serial")


def _boxes(product: Product, operand: Operand, slot: Expr, first: Expr, k_tile: Expr, batch: Expr) -> list[Stmt]:
    """The copies of a tile: one, or one for each piece of a row in shared memory."""
    side, view = operand.side, operand.view
    assert view is not None
    size, steps = (side.size, operand.row) if side.by_steps else (operand.row, side.steps)
    found: list[Stmt] = []
    for piece in range(0, side.size, size):
        begin = const(piece, INT)
        box = view.box(product, side, batch, add(first, begin), size, k_tile, steps)
        args = (operand.ring.data, operand.start(slot, begin), view.data, slot, const(SWIZZLE, INT), *box)
        found.append(Evaluate(intrinsic(view.copy, *args, dtype=operand.ring.dtype)))
    return found


def thread_copies(
    product: Product,
    tile: WarpgroupTile,
    operands: Sequence[Operand],
    before: Expr,
    done: Expr,
    k_tiles: Expr,
    pos: Position,
) -> Stmt:
    """All threads of the warpgroup copy elements. What a thread has copied for a k-tile is announced when it has begun to copy
    later ones: so many k-tiles are on their way. A block has one tile: nothing is ``done`` before."""
    late = tile.stages - 2
    thread = add(mul(sub(pos.warp, tile.warps), WARP), pos.lane)

    def k_tile(k: Expr) -> Stmt:
        slot = slot_of(k, tile.stages)
        fills = [
            _fill(product, operand, pos.batch, first, add(before, k), slot, thread)
            for operand, first in zip(operands, (pos.row, pos.column))
        ]
        arrived = sub(k, late)
        return seq(
            IfThenElse(
                lt(k, k_tiles), seq(_await_empty(tile, k), AttrStmt(const(0), ASYNC_SCOPE, const(1), seq(*fills)))
            ),
            do("ptx_commit_group"),
            do("ptx_wait_group", late),
            do("ptx_fence_proxy_async"),
            IfThenElse(ge(arrived, 0), do("ptx_arrive_barrier", slot_of(arrived, tile.stages))),
        )

    return loop("k_tile", add(k_tiles, late), k_tile, "serial")


def _fill(product: Product, operand: Operand, batch: Expr, first: Expr, k_tile: Expr, slot: Expr, thread: Expr) -> Stmt:
    side, row = operand.side, operand.row
    lanes = PIECE // operand.ring.dtype.itemsize

    def store(element: Expr, line: Expr, start: Expr, lane: Expr | None) -> Stmt:
        column = floormod(start, row)
        piece = intrinsic("bitwise_xor", floordiv(column, lanes), floormod(line, SWIZZLE // PIECE))
        offset = sum_of(operand.start(slot, mul(floordiv(start, row), row)), mul(line, row), mul(piece, lanes))
        return BufferStore(operand.ring, element, (sum_of(offset, floormod(column, lanes), lane),))

    return fill(product, side, batch, first, k_tile, GROUP * WARP, thread, store, TOGETHER)
