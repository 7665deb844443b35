"""The kernel of a product without tensor cores: a block of warps computes a tile, each thread a patch of it in registers.

Tiles of both operands are copied to rings in shared memory some k-tiles ahead, asynchronously where a copy has 4 bytes or more. A
thread reads its rows and columns of a step in vectors and adds their products to its sums; it reads those of the next step before
it multiplies those of this one, also from one k-tile to the next, so that none begins with waiting. There is one barrier in a
k-tile: behind it the next tile is there, and the tile before this one is read no more.

Layout in shared memory: the left operand keeps steps contiguous that are so in memory, and a thread reads some steps of a row at
once; a piece of padding behind each row keeps lanes with successive rows in different banks. Of another operand a thread reads
neighbouring rows (or columns) of one step. Rows of sums are multiplied one after another: then the assembler finds registers for
them that meet the operands in few banks, on which more depends than on the number of instructions.
Not here: the choice of products and tiles (`pipelined_tiles.py`); what a thread takes (`thread_tile_parts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .....ir.analysis.threads import MIN_BLOCKS_PER_SM, OWN_BARRIERS
from .....ir.buffer import Buffer, make_buffer
from .....ir.build import (
    add,
    buffer_load,
    ceildiv,
    const,
    eq,
    floordiv,
    floormod,
    intrinsic,
    lt,
    minimum,
    mul,
    select,
    sub,
)
from .....ir.expr import IntImm, StringImm, Var
from .....ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr, prim_type
from ....tir.threads.inject_software_pipeline import ASYNC_SCOPE
from ...nest_building import INT
from .product import Product, extent_of, output_at, unravel
from .thread_tile_parts import SHARED, Part, Step, ThreadTile, buffers_of, parts_of
from .tile_blocks import (
    VECTOR,
    WARP,
    Position,
    do,
    fill,
    launch,
    loop,
    on_columns,
    on_row,
    registers,
    store_width,
    vector,
    write_cells,
)  # fmt: skip
from .tile_sides import Side, all_of, bound_checks, sum_of


def kernel(product: Product, tile: ThreadTile, left: Side, right: Side, group: int) -> Stmt:
    """The kernel of a product; ``group``: see ``launched``."""
    sides = (left, right)
    rings, regs = buffers_of(tile, sides, (product.left, product.right))
    count = tile.thread_rows * tile.thread_columns
    sums = registers(f"{product.name}_sums", product.store.buffer.dtype.name, count)
    k_tiles, ahead = ceildiv(extent_of(product.steps), tile.steps), tile.stages - 1

    def block(pos: Position) -> Stmt:
        parts = parts_of(tile, pos, sides, (rings, regs))

        def copies(k_tile: Expr) -> Stmt:
            fills = [_fill(product, part, at, k_tile, tile, pos) for part, at in zip(parts, (pos.row, pos.column))]
            copy = AttrStmt(const(0), ASYNC_SCOPE, 1, seq(*fills))
            return seq(IfThenElse(lt(k_tile, k_tiles), copy), do("ptx_commit_group"))

        def k_tile(k: Expr) -> Stmt:
            after = minimum(add(k, 1), sub(k_tiles, 1))  # behind the last k-tile, what is there
            slot, following = [floormod(number, tile.stages) for number in (k, after)]
            return seq(copies(add(k, ahead)), _steps(tile, parts, sums, slot, following))

        begin = seq(*[part.loads(const(0, INT), Step(const(0, INT), 1, 0)) for part in parts])
        body = seq(
            loop("s", ahead, copies, "serial"),
            _rows(tile, lambda i, j: BufferStore(sums, product.first, (sum_of(mul(i, tile.thread_columns), j),))),
            _await_copies(tile),
            begin if type(k_tiles) is IntImm else IfThenElse(lt(0, k_tiles), begin),
            loop("k_tile", k_tiles, k_tile, "serial"),
            do("ptx_wait_group", 0),
            _finish(product, tile, parts, sums, pos),
        )
        marked = AttrStmt(const(0), OWN_BARRIERS, 1, AttrStmt(const(0), MIN_BLOCKS_PER_SM, tile.blocks_per_sm, body))
        return seq(*[AllocBuffer(buffer) for buffer in (*rings, sums, *regs)], marked)

    return launch(product, tile.rows, tile.columns, tile.warps, block, group)


def _await_copies(tile: ThreadTile) -> Stmt:
    """Wait for all threads' copies, but for those of the last k-tiles that were begun."""
    return seq(do("ptx_wait_group", tile.stages - 2), do("tvm_storage_sync", StringImm(SHARED)))


def _fill(product: Product, part: Part, first: Expr, k_tile: Expr, tile: ThreadTile, pos: Position) -> Stmt:
    """The copy of an operand's tile by all threads."""
    side, slot = part.side, floormod(k_tile, tile.stages)

    def store(element: Expr, line: Expr, start: Expr, lane: Expr | None) -> Stmt:
        return BufferStore(part.ring, element, (add(mul(slot, side.lines), line), sum_of(start, lane)))

    return fill(product, side, pos.batch, first, k_tile, tile.warps * WARP, pos.thread, store)


def _steps(tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, slot: Expr, after: Expr) -> Stmt:
    """The steps of a k-tile. Each begins with reading the next one; the last one, the first of the k-tile ``after``."""
    most = max([part.ahead for part in parts])
    rounds = tile.thread_steps // most

    def some(k: Expr) -> Stmt:
        """The steps that are read at once: the conditions are known where the loop is unrolled."""
        made: list[Stmt] = []
        for step in range(most):
            slot_k, next_k, following = slot, k, step + 1
            if following == most:
                is_last = eq(k, rounds - 1)
                made.append(IfThenElse(is_last, _await_copies(tile)))
                slot_k, next_k, following = select(is_last, after, slot), floormod(add(k, 1), rounds), 0
            reads = [part for part in parts if following % part.ahead == 0]
            made += [part.loads(slot_k, Step(next_k, most, following)) for part in reads]
            made.append(_multiply(tile, parts, sums, Step(k, most, step)))
        return seq(*made)

    return loop("k", rounds, some)


def _multiply(tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, step: Step) -> Stmt:
    """The products of a step that a thread adds to its sums."""

    def multiply(i: Expr, j: Expr | None) -> Stmt:
        at = (sum_of(mul(i, tile.thread_columns), j),)
        term = mul(parts[0].value(i, step), parts[1].value(sum_of(j), step))
        total = BufferStore(sums, add(buffer_load(sums, *at), term), at)
        return AttrStmt(const(0, "int32"), "reduction", 1, total)

    return _rows(tile, multiply)


def _rows(tile: ThreadTile, body: Callable[[Expr, Expr | None], Stmt]) -> Stmt:
    """A statement for each row of a thread's sums, of all its columns: LLVM has a vector to look at instead of each sum."""
    return loop("i", tile.thread_rows, lambda i: vector(tile.thread_columns, lambda j: body(i, j)))


def _finish(product: Product, tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, pos: Position) -> Stmt:
    """The epilogue: each thread stores its sums, neighbouring columns at once. Columns of several axes, whose places are divisions,
    are gone through outside: a place and its guard serve all rows."""
    down, over = parts
    width = store_width(product) if over.piece == VECTOR else 1
    if over.piece > width:
        stores = _stores_by_lines(product, tile, parts, sums, pos)
        return stores if tile.step_groups == 1 else _reduce_groups(product, tile, sums, pos, stores)
    row_count, column_count = tile.thread_rows, tile.thread_columns // width

    def row(i: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        return on_row(product, tile.rows, add(pos.row, down.at(i)), body)

    def column(j: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
        group = add(floordiv(pos.column, width), floordiv(over.at(mul(j, width)), width))
        return on_columns(product, tile.columns, group, width, body)

    def cells(i: Expr, j: Expr, line: Expr, group: Expr) -> Stmt:
        def cell(lane: Expr | None) -> Expr:
            return buffer_load(sums, sum_of(mul(i, tile.thread_columns), mul(j, width), lane))

        return write_cells(product, pos, line, group, width, cell)

    def by_rows(i: Expr) -> Stmt:
        def inner(line: Expr) -> Stmt:
            return loop("j", column_count, lambda j: column(j, lambda group: cells(i, j, line, group)))

        return row(i, inner)

    def by_columns(j: Expr) -> Stmt:
        def inner(group: Expr) -> Stmt:
            return loop("i", row_count, lambda i: row(i, lambda line: cells(i, j, line, group)))

        return column(j, inner)

    stores = loop("j", column_count, by_columns) if _columns_outside(product) else loop("i", row_count, by_rows)
    return stores if tile.step_groups == 1 else _reduce_groups(product, tile, sums, pos, stores)


def _columns_outside(product: Product) -> bool:
    """True if columns are gone through outside: their places are divisions. Else a row's address serves all of its columns."""
    return len(product.columns) > max(1, len(product.rows))


def _stores_by_lines(product: Product, tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, pos: Position) -> Stmt:
    """The stores of a result whose rows begin anywhere, so that no vectors can be written: by way of shared memory, neighbouring
    lanes get neighbours of a row."""
    down, over = parts
    line, piece = tile.column_lanes * over.piece, over.piece
    shape = [const(n, INT) for n in (tile.warps, tile.row_lanes, tile.column_lanes, piece)]
    staging = make_buffer(f"{sums.name}_lines", sums.dtype.name, shape, SHARED)
    together = WARP // line

    def piece_at(row: Expr, number: Expr) -> Expr:
        """Halves of every other row are exchanged: lanes that write together have two rows."""
        return intrinsic("bitwise_xor", number, mul(floormod(row, 2), tile.column_lanes // 2))

    def stage(i: Expr, j: Expr) -> Stmt:
        def one(lane: Expr | None) -> Stmt:
            value = buffer_load(sums, sum_of(mul(i, tile.thread_columns), mul(j, piece), lane))
            return BufferStore(staging, value, (pos.warp, down.lane, piece_at(down.lane, over.lane), sum_of(lane)))

        return vector(piece, one)

    place = floormod(pos.lane, line)

    def on_piece(j: Expr, body: Callable[[Mapping[Var, Expr], Expr | None], Stmt]) -> Stmt:
        """A statement with the places of a lane's column, and the condition that it is one of the product."""
        first = replace(over, lane=const(0, INT)).at(mul(j, piece))
        at = Var("column", prim_type(INT))
        values = unravel(product.columns, at)
        places = {axis: Var(axis.name, prim_type(INT)) for axis in values}
        bound = [Bind(places[axis], value) for axis, value in values.items()]
        made = body(places, all_of(bound_checks(at, extent_of(product.columns), tile.columns)))
        return seq(Bind(at, sum_of(pos.column, first, place)), *bound, made)

    def lines(i: Expr, j: Expr, places: Mapping[Var, Expr], guard: Expr | None) -> Stmt:
        def store(n: Expr) -> Stmt:
            number = add(mul(n, together), floordiv(pos.lane, line))
            value = buffer_load(
                staging, pos.warp, number, piece_at(number, floordiv(place, piece)), floormod(place, piece)
            )

            def write(row: Expr) -> Stmt:
                values = {**unravel(product.batch, pos.batch), **unravel(product.rows, row), **places}
                made = output_at(product, values, value)
                return made if guard is None else IfThenElse(guard, made)

            return on_row(product, tile.rows, add(pos.row, replace(down, lane=number).at(i)), write)

        return seq(_warp_sync(), stage(i, j), _warp_sync(), loop("n", tile.row_lanes // together, store))

    rows, pieces = tile.thread_rows, tile.thread_columns // piece
    if _columns_outside(product):
        made = loop("j", pieces, lambda j: on_piece(j, lambda *at: loop("i", rows, lambda i: lines(i, j, *at))))
    else:
        made = loop("i", rows, lambda i: loop("j", pieces, lambda j: on_piece(j, lambda *at: lines(i, j, *at))))
    return seq(AllocBuffer(staging), made)


def _warp_sync() -> Stmt:
    return do("tvm_storage_sync", StringImm("warp"))


def _reduce_groups(product: Product, tile: ThreadTile, sums: Buffer, pos: Position, stores: Stmt) -> Stmt:
    """The first group of warps adds the sums of the others, by way of shared memory, and stores them."""
    threads, count = tile.group_warps * WARP, tile.thread_rows * tile.thread_columns
    shape = [const((tile.step_groups - 1) * count, INT), const(threads, INT)]
    staging = make_buffer(f"{sums.name}_staging", sums.dtype.name, shape, SHARED)
    group, warp = tile.group(pos)
    thread = add(mul(warp, WARP), pos.lane)

    def store(e: Expr) -> Stmt:
        return BufferStore(staging, buffer_load(sums, e), (add(mul(sub(group, 1), count), e), thread))

    def add_up(e: Expr) -> Stmt:
        total: Expr = buffer_load(sums, e)
        for other in range(tile.step_groups - 1):
            total = add(total, buffer_load(staging, add(e, other * count), thread))
        return BufferStore(sums, total, (e,))

    return seq(
        AllocBuffer(staging),
        IfThenElse(lt(0, group), loop("e", count, store)),
        do("tvm_storage_sync", StringImm(SHARED)),
        IfThenElse(lt(group, 1), seq(loop("e", count, add_up), stores)),
    )
