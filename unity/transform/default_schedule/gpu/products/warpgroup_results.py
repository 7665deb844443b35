"""The end of a kernel of warpgroups: each warp writes its sums, and what is made of them, by way of shared memory of its own.

A warp has 16 rows of sums; a lane has pairs of neighbours of two rows. Through shared memory neighbouring lanes get neighbours of
the result, some lines at a time. Where operands are exchanged, lines of the result are columns of the sums.
Not here: how sums come about (`warpgroup_tiles.py`).
"""

from __future__ import annotations

from dataclasses import replace

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, buffer_load, const, floordiv, floormod, mul
from .....ir.expr import StringImm
from .....ir.stmt import AllocBuffer, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr
from ...nest_building import INT
from .product import Product, extent_of
from .product_pieces import swap_operands
from .tile_blocks import WARP, Position, do, loop, store_width, vector, write
from .tile_sides import all_of, bound_checks, sum_of
from .warpgroup_sizes import GROUP, HALF_ROWS, ROWS, WARP_ROWS, WarpgroupTile

BESIDE = 8
"""Lines of the result whose cells a warp writes before it goes on to others: whole lines, as many at once as it has lanes for."""


def finish(product: Product, tile: WarpgroupTile, sums: Buffer, pos: Position) -> Stmt:
    """Write the sums of a warp; ``product`` is the product as it is computed, its operands swapped if the tile is."""
    lines, cells, behind = tile.staging
    shape = [const(n, INT) for n in (tile.warps, lines, cells + behind)]
    staging = make_buffer(f"{sums.name}_staging", sums.dtype.name, shape, "shared.dyn")
    number = floordiv(pos.warp, GROUP)
    row = add(mul(floordiv(number, tile.column_groups), ROWS), mul(floormod(pos.warp, GROUP), WARP_ROWS))
    column = mul(floormod(number, tile.column_groups), tile.group_columns)
    written = _by_columns if tile.swapped else _by_rows
    ends = [
        *bound_checks(sum_of(pos.row, row, const(WARP_ROWS - 1, INT)), extent_of(product.rows), tile.rows),
        *bound_checks(
            sum_of(pos.column, column, const(tile.group_columns - 1, INT)), extent_of(product.columns), tile.columns
        ),
    ]
    made = [
        written(product, tile, sums, staging, pos, row, column, guarded) for guarded in (False, True)[: len(ends) + 1]
    ]
    whole = all_of(ends)  # without guards, what comes from memory is read all at once
    return seq(AllocBuffer(staging), made[0] if whole is None else IfThenElse(whole, made[0], made[1]))


def _by_rows(
    product: Product, tile: WarpgroupTile, sums: Buffer, staging: Buffer, pos: Position, row0: Expr, column0: Expr, guarded: bool
) -> Stmt:  # fmt: skip
    """Eight rows at a time, and some of the columns."""
    width = store_width(product)
    lines, columns, _ = tile.staging

    def part(half: Expr, j: Expr) -> Stmt:
        def store(i: Expr) -> Stmt:
            def pair(lane: Expr | None) -> Stmt:
                at = sum_of(mul(add(mul(j, columns // 8), i), 4), mul(half, 2), lane)
                column = sum_of(mul(i, 8), mul(floormod(pos.lane, 4), 2), lane)
                return BufferStore(staging, buffer_load(sums, at), (pos.warp, floordiv(pos.lane, 4), column))

            return vector(2, pair)

        def write_rows(n: Expr) -> Stmt:
            unit = add(mul(n, WARP), pos.lane)
            line, group = floordiv(unit, columns // width), floormod(unit, columns // width)

            def cell(lane: Expr | None) -> Expr:
                return buffer_load(staging, pos.warp, line, sum_of(mul(group, width), lane))

            row = sum_of(row0, mul(half, HALF_ROWS), line)
            first = floordiv(add(column0, mul(j, columns)), width)
            return write(product, (tile.rows, tile.columns), pos, row, add(first, group), width, cell, guarded)

        rounds = lines * columns // (WARP * width)
        return seq(loop("i", columns // 8, store), _sync(), loop("i", rounds, write_rows), _sync())

    return loop("half", 2, lambda half: loop("part", tile.group_columns // columns, lambda j: part(half, j)))


def _by_columns(
    product: Product, tile: WarpgroupTile, sums: Buffer, staging: Buffer, pos: Position, row0: Expr, column0: Expr, guarded: bool
) -> Stmt:  # fmt: skip
    """Some columns of the sums at a time: each is a line of the result, of which a warp has 16 neighbours."""
    result = swap_operands(product)
    here = replace(pos, row=pos.column, column=pos.row)
    width = store_width(result)
    lines, cells, _ = tile.staging
    groups = cells // width
    together = WARP // groups  # lines beside each other, which begin in other banks
    apart = BESIDE // together

    def part(j: Expr) -> Stmt:
        def store(i: Expr, half: Expr, pair: Expr) -> Stmt:
            at = sum_of(mul(add(mul(j, lines // 8), i), 4), mul(half, 2), pair)
            line = sum_of(mul(i, 8), mul(floormod(pos.lane, 4), 2), pair)
            index = (pos.warp, line, add(mul(half, 8), floordiv(pos.lane, 4)))
            return BufferStore(staging, buffer_load(sums, at), index)

        def write_rows(n: Expr) -> Stmt:
            group, line = floordiv(pos.lane, together), mul(floormod(pos.lane, together), apart)
            line = sum_of(mul(floordiv(n, apart), BESIDE), line, floormod(n, apart))

            def cell(lane: Expr | None) -> Expr:
                return buffer_load(staging, pos.warp, line, sum_of(mul(group, width), lane))

            row = sum_of(column0, mul(j, lines), line)
            first = add(floordiv(row0, width), group)
            return write(result, (tile.columns, tile.rows), here, row, first, width, cell, guarded)

        stores = loop(
            "i", lines // 8, lambda i: loop("half", 2, lambda half: loop("pair", 2, lambda n: store(i, half, n)))
        )
        return seq(stores, _sync(), loop("i", lines * groups // WARP, write_rows), _sync())

    return loop("part", tile.group_columns // lines, part)


def _sync() -> Stmt:
    return do("tvm_storage_sync", StringImm("warp"))
