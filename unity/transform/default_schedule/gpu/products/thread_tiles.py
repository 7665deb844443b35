"""The kernel of a product without tensor cores: a block of warps computes a tile, each thread a patch of it in registers.

Tiles of both operands are copied to rings in shared memory some turns ahead, asynchronously where a copy has 4 bytes or more. A
thread reads its rows and columns of a step in vectors and adds their products to its sums; it reads those of the next step before
it multiplies those of this one, also from one turn to the next, so that no turn begins with waiting. There is one barrier in a
turn: behind it the next tile is there, and the tile before this one is read no more.

Layout in shared memory: the left operand keeps steps contiguous that are so in memory, and a thread reads some steps of a row at
once; a piece of padding behind each row keeps lanes with successive rows in different banks. Of another operand a thread reads
neighbouring rows (or columns) of one step. Rows of sums are multiplied one after another: then the assembler finds registers for
them that meet the operands in few banks, on which more depends than on the number of instructions.
Not here: the choice of products and tiles (`pipelined_tiles.py`); what a thread takes (`thread_tile_parts.py`).
"""

from __future__ import annotations

from .....ir.analysis.threads import BLOCKS_TOGETHER, OWN_BARRIERS
from .....ir.buffer import Buffer
from .....ir.build import add, buffer_load, ceildiv, const, eq, floordiv, floormod, lt, minimum, mul, select, sub
from .....ir.expr import IntImm, StringImm
from .....ir.stmt import AllocBuffer, AttrStmt, BufferStore, IfThenElse, Stmt, seq
from .....ir.types import Expr
from ....tir.threads.inject_software_pipeline import ASYNC_SCOPE
from ..common.nests import INT, buffer_of
from .product import Product, extent_of
from .thread_tile_parts import SHARED, Part, Step, ThreadTile, buffers_of, parts_of
from .tile_blocks import VECTOR, WARP, Place, do, fill, launched, loop, registers, write, written_at_once
from .tile_sides import Side, sum_of


def kernel(what: Product, tile: ThreadTile, left: Side, right: Side, group: int) -> Stmt:
    """The kernel of a product; ``group``: see ``launched``."""
    sides = (left, right)
    rings, near = buffers_of(tile, sides, (what.left, what.right))
    count = tile.own_rows * tile.own_columns
    sums = registers(f"{what.name}_sums", what.store.buffer.dtype.name, count)
    turns, ahead = ceildiv(extent_of(what.steps), tile.steps), tile.stages - 1

    def block(place: Place) -> Stmt:
        parts = parts_of(tile, place, sides, (rings, near))

        def copies(turn: Expr) -> Stmt:
            fills = [_fill(what, part, at, turn, tile, place) for part, at in zip(parts, (place.row, place.column))]
            beside = AttrStmt(const(0), ASYNC_SCOPE, 1, seq(*fills))
            return seq(IfThenElse(lt(turn, turns), beside), do("ptx_commit_group"))

        def turn(k: Expr) -> Stmt:
            after = minimum(add(k, 1), sub(turns, 1))  # behind the last turn, what is there
            slot, following = [floormod(number, tile.stages) for number in (k, after)]
            return seq(copies(add(k, ahead)), _steps(tile, parts, sums, slot, following))

        begin = seq(*[part.loads(const(0, INT), Step(const(0, INT), 1, 0)) for part in parts])
        body = seq(
            loop("s", ahead, copies, "serial"),
            loop("e", count, lambda e: BufferStore(sums, what.first, (e,))),
            _arrived(tile),
            begin if type(turns) is IntImm else IfThenElse(lt(0, turns), begin),
            loop("turn", turns, turn, "serial"),
            do("ptx_wait_group", 0),
            _finish(what, tile, parts, sums, place),
        )
        noted = AttrStmt(const(0), OWN_BARRIERS, 1, AttrStmt(const(0), BLOCKS_TOGETHER, tile.together, body))
        return seq(*[AllocBuffer(buffer) for buffer in (*rings, sums, *near)], noted)

    return launched(what, tile.rows, tile.columns, tile.warps, block, group)


def _arrived(tile: ThreadTile) -> Stmt:
    """Wait for all threads' copies, but for those of the last turns that were begun."""
    return seq(do("ptx_wait_group", tile.stages - 2), do("tvm_storage_sync", StringImm(SHARED)))


def _fill(what: Product, part: Part, first: Expr, turn: Expr, tile: ThreadTile, place: Place) -> Stmt:
    """The copy of an operand's tile by all threads."""
    side, slot = part.side, floormod(turn, tile.stages)

    def put(element: Expr, line: Expr, start: Expr, lane: Expr | None) -> Stmt:
        return BufferStore(part.ring, element, (add(mul(slot, side.lines), line), sum_of(start, lane)))

    return fill(what, side, place.batch, first, turn, tile.warps * WARP, place.thread, put)


def _steps(tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, slot: Expr, after: Expr) -> Stmt:
    """The steps of a turn. Each begins with reading the next one; the last one, the first of the turn ``after``."""
    most = max([part.ahead for part in parts])
    rounds = tile.own_steps // most

    def some(k: Expr) -> Stmt:
        """The steps that are read at once: the conditions are known where the loop is unrolled."""
        made: list[Stmt] = []
        for step in range(most):
            here, next_k, following = slot, k, step + 1
            if following == most:
                is_last = eq(k, rounds - 1)
                made.append(IfThenElse(is_last, _arrived(tile)))
                here, next_k, following = select(is_last, after, slot), floormod(add(k, 1), rounds), 0
            reads = [part for part in parts if following % part.ahead == 0]
            made += [part.loads(here, Step(next_k, most, following)) for part in reads]
            made.append(_multiply(tile, parts, sums, Step(k, most, step)))
        return seq(*made)

    return loop("k", rounds, some)


def _multiply(tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, step: Step) -> Stmt:
    """The products of a step that a thread adds to its sums."""

    def product(i: Expr, j: Expr) -> Stmt:
        at = (add(mul(i, tile.own_columns), j),)
        term = mul(parts[0].value(i, step), parts[1].value(j, step))
        total = BufferStore(sums, add(buffer_load(sums, *at), term), at)
        return AttrStmt(const(0, "int32"), "reduction", 1, total)

    return loop("i", tile.own_rows, lambda i: loop("j", tile.own_columns, lambda j: product(i, j)))


def _finish(what: Product, tile: ThreadTile, parts: tuple[Part, Part], sums: Buffer, place: Place) -> Stmt:
    """The epilogue: each thread stores its sums, neighbouring columns at once."""
    down, over = parts
    width = written_at_once(what) if over.piece == VECTOR else 1

    def some(i: Expr, j: Expr) -> Stmt:
        first = mul(j, width)

        def cell(lane: Expr | None) -> Expr:
            index = sum_of(mul(i, tile.own_columns), first, lane)
            return buffer_load(sums, index)

        return write(what, (tile.rows, tile.columns), place, down.at(i), floordiv(over.at(first), width), width, cell)

    stores = loop("i", tile.own_rows, lambda i: loop("j", tile.own_columns // width, lambda j: some(i, j)))
    return stores if tile.step_groups == 1 else _joined(what, tile, sums, place, stores)


def _joined(what: Product, tile: ThreadTile, sums: Buffer, place: Place, stores: Stmt) -> Stmt:
    """The first group of warps adds the sums of the others, by way of shared memory, and stores them."""
    threads, count = tile.group_warps * WARP, tile.own_rows * tile.own_columns
    shape = [const((tile.step_groups - 1) * count, INT), const(threads, INT)]
    spread = buffer_of(f"{sums.name}_spread", sums.dtype.name, shape, SHARED)
    group, warp = tile.group(place)
    thread = add(mul(warp, WARP), place.lane)

    def put(e: Expr) -> Stmt:
        return BufferStore(spread, buffer_load(sums, e), (add(mul(sub(group, 1), count), e), thread))

    def take(e: Expr) -> Stmt:
        total: Expr = buffer_load(sums, e)
        for other in range(tile.step_groups - 1):
            total = add(total, buffer_load(spread, add(e, other * count), thread))
        return BufferStore(sums, total, (e,))

    return seq(
        AllocBuffer(spread),
        IfThenElse(lt(0, group), loop("e", count, put)),
        do("tvm_storage_sync", StringImm(SHARED)),
        IfThenElse(lt(group, 1), seq(loop("e", count, take), stores)),
    )
