"""The end of a kernel of warpgroups: each warp writes its sums, and what is made of them, by way of shared memory of its own.

A warp has 16 rows of sums; a lane has pairs of neighbours of two rows. Through shared memory neighbouring lanes get neighbours of
the result, some lines at a time. Where operands are exchanged, lines of the result are columns of the sums.
Not here: how sums come about (`warpgroup_tiles.py`).
"""

from __future__ import annotations

from dataclasses import replace

from .....ir.buffer import Buffer
from .....ir.build import add, buffer_load, const, floordiv, floormod, mul
from .....ir.expr import StringImm
from .....ir.stmt import AllocBuffer, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr
from ..common.nests import INT, buffer_of
from .product import Product, extent_of
from .product_pieces import exchanged
from .tile_blocks import WARP, Place, do, loop, vector, write, written_at_once
from .tile_sides import all_of, inside, sum_of
from .warpgroup_sizes import GROUP, HALF_ROWS, ROWS, WARP_ROWS, WarpgroupTile


def finish(what: Product, tile: WarpgroupTile, sums: Buffer, place: Place) -> Stmt:
    """Write the sums of a warp; ``what`` is the product as it is computed, its operands exchanged if the tile is turned."""
    lines, cells, behind = tile.spread
    shape = [const(n, INT) for n in (tile.warps, lines, cells + behind)]
    spread = buffer_of(f"{sums.name}_spread", sums.dtype.name, shape, "shared.dyn")
    number = floordiv(place.warp, GROUP)
    row = add(mul(floordiv(number, tile.column_groups), ROWS), mul(floormod(place.warp, GROUP), WARP_ROWS))
    column = mul(floormod(number, tile.column_groups), tile.group_columns)
    written = _across if tile.turned else _along
    ends = [
        *inside(sum_of(place.row, row, const(WARP_ROWS - 1, INT)), extent_of(what.rows), tile.rows),
        *inside(
            sum_of(place.column, column, const(tile.group_columns - 1, INT)), extent_of(what.columns), tile.columns
        ),
    ]
    made = [
        written(what, tile, sums, spread, place, row, column, guarded) for guarded in (False, True)[: len(ends) + 1]
    ]
    whole = all_of(ends)  # without guards, what comes from memory is read all at once
    return seq(AllocBuffer(spread), made[0] if whole is None else IfThenElse(whole, made[0], made[1]))


def _along(
    what: Product, tile: WarpgroupTile, sums: Buffer, spread: Buffer, place: Place, row0: Expr, column0: Expr, guarded: bool
) -> Stmt:  # fmt: skip
    """Eight rows at a time, and some of the columns."""
    width = written_at_once(what)
    lines, columns, _ = tile.spread

    def part(half: Expr, j: Expr) -> Stmt:
        def put(i: Expr) -> Stmt:
            def pair(lane: Expr | None) -> Stmt:
                at = sum_of(mul(add(mul(j, columns // 8), i), 4), mul(half, 2), lane)
                column = sum_of(mul(i, 8), mul(floormod(place.lane, 4), 2), lane)
                return BufferStore(spread, buffer_load(sums, at), (place.warp, floordiv(place.lane, 4), column))

            return vector(2, pair)

        def take(again: Expr) -> Stmt:
            unit = add(mul(again, WARP), place.lane)
            line, group = floordiv(unit, columns // width), floormod(unit, columns // width)

            def cell(lane: Expr | None) -> Expr:
                return buffer_load(spread, place.warp, line, sum_of(mul(group, width), lane))

            row = sum_of(row0, mul(half, HALF_ROWS), line)
            first = floordiv(add(column0, mul(j, columns)), width)
            return write(what, (tile.rows, tile.columns), place, row, add(first, group), width, cell, guarded)

        turns = lines * columns // (WARP * width)
        return seq(loop("i", columns // 8, put), _sync(), loop("again", turns, take), _sync())

    return loop("half", 2, lambda half: loop("part", tile.group_columns // columns, lambda j: part(half, j)))


def _across(
    what: Product, tile: WarpgroupTile, sums: Buffer, spread: Buffer, place: Place, row0: Expr, column0: Expr, guarded: bool
) -> Stmt:  # fmt: skip
    """Some columns of the sums at a time: each is a line of the result, of which a warp has 16 neighbours."""
    result = exchanged(what)
    here = replace(place, row=place.column, column=place.row)
    width = written_at_once(result)
    lines, cells, _ = tile.spread
    groups = cells // width

    def part(j: Expr) -> Stmt:
        def put(i: Expr, half: Expr, pair: Expr) -> Stmt:
            at = sum_of(mul(add(mul(j, lines // 8), i), 4), mul(half, 2), pair)
            line = sum_of(mul(i, 8), mul(floormod(place.lane, 4), 2), pair)
            index = (place.warp, line, add(mul(half, 8), floordiv(place.lane, 4)))
            return BufferStore(spread, buffer_load(sums, at), index)

        def take(again: Expr) -> Stmt:
            unit = add(mul(again, WARP), place.lane)  # eight lines beside each other: each begins in other banks
            line = add(mul(floordiv(unit, 8 * groups), 8), floormod(unit, 8))
            group = floormod(floordiv(unit, 8), groups)

            def cell(lane: Expr | None) -> Expr:
                return buffer_load(spread, place.warp, line, sum_of(mul(group, width), lane))

            row = sum_of(column0, mul(j, lines), line)
            first = add(floordiv(row0, width), group)
            return write(result, (tile.columns, tile.rows), here, row, first, width, cell, guarded)

        puts = loop("i", lines // 8, lambda i: loop("half", 2, lambda half: loop("pair", 2, lambda n: put(i, half, n))))
        return seq(puts, _sync(), loop("again", lines * groups // WARP, take), _sync())

    return loop("part", tile.group_columns // lines, part)


def _sync() -> Stmt:
    return do("tvm_storage_sync", StringImm("warp"))
