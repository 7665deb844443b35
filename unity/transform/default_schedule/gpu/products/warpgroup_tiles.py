"""A product as a kernel of warpgroups (``wgmma``): some multiply tiles out of a ring of stages, one fills the ring ahead of them.

A stage has a tile of each operand, in rows of 128 bytes whose pieces of 16 are exchanged as bulk copies do it (swizzle). Two
barriers for each stage tell that it is full, and that it is empty again. Sums stay in registers until they are written.

Not here: which products, and of which sizes tiles are (`tensor_cores.py`); how tiles are copied (`warpgroup_copies.py`), and
results written (`warpgroup_results.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....ir.buffer import Buffer
from .....ir.build import add, cast, ceildiv, const, eq, floordiv, floormod, ge, gt, intrinsic, logical_and, mul, sub
from .....ir.expr import StringImm, Var
from .....ir.stmt import AllocBuffer, Bind, BufferStore, Evaluate, IfThenElse, Stmt, seq
from .....ir.types import Expr, prim_type
from ...nest_building import INT
from .image_views import View, k_tile_count
from .product import Product, extent_of
from .tile_blocks import WARP, Position, Tiles, do, launch, launch_persistent, loop, registers
from .tile_sides import Side
from .warpgroup_copies import PRODUCTS, Operand, bulk_copies, operand_of, parity_of, slot_of, thread_copies
from .warpgroup_results import finish
from .warpgroup_sizes import GROUP, ROWS, SWIZZLE, WarpgroupTile


def kernel(
    product: Product, out: Product, tile: WarpgroupTile, sides: tuple[Side, Side], views: Sequence[View], group: int
) -> Stmt:
    """The kernel of a product, its operands swapped if the tile is; ``out``: what it writes, where the sum is in pieces
    the product of these; ``views``: both operands as tensors, none where threads are to copy; ``group``: see ``launched``."""
    operands = [operand_of(side, view, tile.stages) for side, view in zip(sides, views or (None, None))]
    sums = registers(f"{product.name}_sums", product.store.buffer.dtype.name, tile.sums)
    k_tiles = ceildiv(k_tile_count(product, views, tile.steps), tile.pieces)
    is_bulk = bool(views)
    arrivals = 1 if is_bulk else GROUP * WARP
    limits = tile.registers(is_bulk)

    def limit(role: int) -> list[Stmt]:
        return [] if limits is None else [do("ptx_setmaxnreg", const(bool(role)), limits[role])]

    def block(pos: Position, tiles: Tiles) -> Stmt:
        warp = Var("warp", prim_type(INT))  # the same in all lanes, and the assembler knows

        def copied(pos: Position, number: Expr) -> Stmt:
            batch, before, whole = pos.batch, const(0, INT), extent_of(product.batch)
            if tile.pieces > 1:
                batch, before = floormod(pos.batch, whole), mul(floordiv(pos.batch, whole), k_tiles)
            return copies(
                product, tile, operands, before, mul(number, k_tiles), k_tiles, replace(pos, warp=warp, batch=batch)
            )

        def multiplied(pos: Position, number: Expr) -> Stmt:
            again = Var(
                "warp", prim_type(INT)
            )  # addresses of results are computed when they are needed, not before all tiles
            return seq(
                loop("e", tile.sums, lambda e: BufferStore(sums, product.first, (e,))),
                _multiply(tile, operands, sums, mul(number, k_tiles), k_tiles, replace(pos, warp=warp)),
                *([Bind(again, _same(warp))] if tile.blocks else []),
                finish(out, tile, sums, replace(pos, warp=again if tile.blocks else warp)),
            )

        begin = loop("s", tile.stages, lambda s: seq(
            do("ptx_init_barrier_thread_count", s, arrivals),
            do("ptx_init_barrier_thread_count", add(s, tile.stages), tile.warps),
        ), "serial")  # fmt: skip
        copies = bulk_copies if is_bulk else thread_copies
        return seq(
            *[AllocBuffer(buffer) for buffer in (*[operand.ring for operand in operands], sums)],
            Bind(warp, _same(pos.warp)),
            do("create_barriers", 2 * tile.stages),
            IfThenElse(logical_and(eq(warp, 0), eq(pos.lane, 0)), begin),
            do("tvm_storage_sync", StringImm("shared")),
            IfThenElse(
                ge(warp, tile.warps),
                seq(*limit(0), copying(pos, warp, tiles(copied))),
                seq(*limit(1), tiles(multiplied)),
            ),
        )

    def copying(pos: Position, warp: Var, copies: Stmt) -> Stmt:
        """One thread begins bulk copies."""
        return IfThenElse(logical_and(eq(warp, tile.warps), eq(pos.lane, 0)), copies) if is_bulk else copies

    sizes = (tile.rows, tile.columns, tile.warps + GROUP)
    if tile.blocks:
        return launch_persistent(out, *sizes, block, group, tile.blocks)
    return launch(out, *sizes, lambda pos: block(pos, lambda visit: visit(pos, const(0, INT))), group)


def _same(number: Expr) -> Expr:
    """A number from the first lane of the warp."""
    every = const((1 << WARP) - 1, "uint32")
    return cast(intrinsic("tvm_warp_shuffle", every, cast(number, "int32"), 0, WARP, WARP), INT)


def _multiply(
    tile: WarpgroupTile, operands: Sequence[Operand], sums: Buffer, done: Expr, k_tiles: Expr, pos: Position
) -> Stmt:
    """Add the products of all stages; a stage is empty when the products of the next one are under way."""
    number = floordiv(pos.warp, GROUP)
    firsts = (
        mul(floordiv(number, tile.column_groups), ROWS),
        mul(floormod(number, tile.column_groups), tile.group_columns),
    )
    left, right = operands
    layouts = ("row" if left.side.by_steps else "col", "col" if right.side.by_steps else "row")
    kinds = (left.ring.dtype.name, right.ring.dtype.name, sums.dtype.name)
    depth = left.side.steps // PRODUCTS
    names = [StringImm(name) for name in (f"m{ROWS}n{tile.group_columns}k{depth}", *layouts, *kinds)]

    def multiply(slot: Expr, k: Expr) -> Stmt:
        addresses: list[Expr] = []
        for operand, first in zip(operands, firsts):
            addresses += [operand.ring.data, add(operand.start(slot, first), operand.step(k))]
        rest: list[Expr] = [sums.data, const(0, INT), const(SWIZZLE, INT), const(True)]
        if not right.side.by_steps:
            rest.append(const(right.side.steps * right.row, INT))  # between pieces of a row
        return Evaluate(intrinsic("ptx_wgmma", *names, *addresses, *rest, dtype=sums.dtype))

    def k_tile(number: Expr) -> Stmt:
        k = add(done, number)
        slot, before = slot_of(k, tile.stages), slot_of(sub(k, 1), tile.stages)
        return seq(
            do("ptx_wait_barrier", slot, parity_of(k, tile.stages)),
            do("ptx_wgmma_fence"),
            loop("j", PRODUCTS, lambda j: multiply(slot, j)),
            do("ptx_wgmma_commit_group"),
            do("ptx_wgmma_wait_group", 1),
            IfThenElse(logical_and(gt(number, 0), eq(pos.lane, 0)), do("ptx_arrive_barrier", add(before, tile.stages))),
        )

    last = add(slot_of(sub(add(done, k_tiles), 1), tile.stages), tile.stages)
    emptied = [IfThenElse(eq(pos.lane, 0), do("ptx_arrive_barrier", last))] if tile.blocks else []
    return seq(loop("k_tile", k_tiles, k_tile, "serial"), do("ptx_wgmma_wait_group", 0), *emptied)
