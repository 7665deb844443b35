"""A product as a kernel of warpgroups (``wgmma``): some multiply tiles out of a ring of stages, one fills the ring ahead of them.

A stage has a tile of each operand, in rows of 128 bytes whose pieces of 16 are exchanged as bulk copies do it (swizzle). Two
barriers for each stage tell that it is full, and that it is empty again. Where an operand is a tensor that bulk copies take, one
thread copies whole tiles; where one is not, the warpgroup copies by elements. Sums stay in registers until they are
written (`warpgroup_results.py`).

Not here: which products, and of which sizes tiles are (`tensor_cores.py`); which tensors bulk copies take (`tensor_views.py`,
`image_views.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....ir.analysis.threads import BLOCKS_TOGETHER, CLUSTER
from ....ir.buffer import Buffer
from ....ir.build import (
    add,
    cast,
    ceildiv,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    intrinsic,
    logical_and,
    lt,
    mul,
    sub,
)
from ....ir.expr import StringImm, Var
from ....ir.node import replace as with_fields
from ....ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, Evaluate, IfThenElse, Stmt, seq
from ....ir.types import Expr, prim_type
from ...tir.threads.inject_software_pipeline import ASYNC_SCOPE
from .image_views import View, stages_in
from .nests import INT, buffer_of
from .product import Product, extent_of
from .tile_blocks import WARP, Place, Tiles, fill, launched, launched_in_turn, loop, registers
from .tile_sides import Side, sum_of
from .warpgroup_results import finish
from .warpgroup_sizes import GROUP, ROWS, SWIZZLE, WarpgroupTile

PIECE = 16
"""Bytes that are exchanged."""
ALIGN = 8 * SWIZZLE
PRODUCTS = 4
"""Products of a stage: each takes 32 bytes of a row of steps."""
TOGETHER = 4
"""Copies that a thread begins at once."""


@dataclass(slots=True, frozen=True)
class _Operand:
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


def kernel(
    what: Product, out: Product, tile: WarpgroupTile, sides: tuple[Side, Side], views: Sequence[View], group: int
) -> Stmt:
    """The kernel of a product, its operands exchanged if the tile is turned; ``out``: what it writes, where the sum is in pieces
    the product of these; ``views``: both operands as tensors, none where threads are to copy; ``group``: see ``launched``."""
    operands = [_operand(side, view, tile.stages) for side, view in zip(sides, views or (None, None))]
    sums = registers(f"{what.name}_sums", what.store.buffer.dtype.name, tile.sums)
    init = what.stage.block.init
    assert isinstance(init, BufferStore)
    first = init.value
    turns = ceildiv(stages_in(what, views, tile.steps), tile.pieces)
    is_bulk = bool(views)
    arrivals = 1 if is_bulk else GROUP * WARP
    moved = tile.registers(is_bulk)
    cluster_sync = [_do("ptx_cluster_sync")] if tile.cluster > 1 else []

    def limit(place: int) -> list[Stmt]:
        return [] if moved is None else [_do("ptx_setmaxnreg", const(bool(place)), moved[place])]

    def block(place: Place, tiles: Tiles) -> Stmt:
        warp = Var("warp", prim_type(INT))  # the same in all lanes, and the assembler knows

        def copied(place: Place, number: Expr) -> Stmt:
            batch, before, whole = place.batch, const(0, INT), extent_of(what.batch)
            if tile.pieces > 1:
                batch, before = floormod(place.batch, whole), mul(floordiv(place.batch, whole), turns)
            return copies(
                what, tile, operands, before, mul(number, turns), turns, replace(place, warp=warp, batch=batch)
            )

        def multiplied(place: Place, number: Expr) -> Stmt:
            again = Var(
                "warp", prim_type(INT)
            )  # places of results are computed when they are needed, not before all tiles
            return seq(
                loop("e", tile.sums, lambda e: BufferStore(sums, first, (e,))),
                _multiply(tile, operands, sums, mul(number, turns), turns, replace(place, warp=warp)),
                *([Bind(again, _same(warp))] if tile.blocks else []),
                finish(out, tile, sums, replace(place, warp=again if tile.blocks else warp)),
            )

        begin = loop("s", tile.stages, lambda s: seq(
            _do("ptx_init_barrier_thread_count", s, arrivals),
            _do("ptx_init_barrier_thread_count", add(s, tile.stages), tile.warps * tile.cluster),
        ), "serial")  # fmt: skip
        copies = _bulk_copies if is_bulk else _thread_copies
        return seq(
            *[AllocBuffer(buffer) for buffer in (*[operand.ring for operand in operands], sums)],
            Bind(warp, _same(place.warp)),
            _do("create_barriers", 2 * tile.stages),
            IfThenElse(logical_and(eq(warp, 0), eq(place.lane, 0)), begin),
            _do("tvm_storage_sync", StringImm("shared")),
            *cluster_sync,
            IfThenElse(
                ge(warp, tile.warps),
                seq(*limit(0), copying(place, warp, tiles(copied))),
                seq(*limit(1), tiles(multiplied)),
            ),
            *cluster_sync,  # others may still tell barriers of this block
        )

    def copying(place: Place, warp: Var, copies: Stmt) -> Stmt:
        """One thread begins bulk copies."""
        return IfThenElse(logical_and(eq(warp, tile.warps), eq(place.lane, 0)), copies) if is_bulk else copies

    def kept(place: Place, tiles: Tiles) -> Stmt:
        made = block(place, tiles)
        for key, number in ((BLOCKS_TOGETHER, tile.together), (CLUSTER, tile.cluster)):
            made = AttrStmt(const(0), key, number, made) if number > 1 else made
        return made

    sizes = tile.rows, tile.columns, tile.warps + GROUP
    if tile.blocks:
        return launched_in_turn(out, *sizes, kept, group, tile.blocks)
    return launched(out, *sizes, lambda place: kept(place, lambda visit: visit(place, const(0, INT))), group)


def _operand(side: Side, view: View | None, stages: int) -> _Operand:
    shape = [const(stages * side.size * side.steps, INT)]
    ring = buffer_of(side.buffer.name, side.buffer.dtype.name, shape, "shared.dyn")
    return _Operand(side, with_fields(ring, align=ALIGN), view)


def _same(number: Expr) -> Expr:
    """A number from the first lane of the warp."""
    every = const((1 << WARP) - 1, "uint32")
    return cast(intrinsic("tvm_warp_shuffle", every, cast(number, "int32"), 0, WARP, WARP), INT)


def _do(name: str, *args: Expr | int) -> Stmt:
    return Evaluate(intrinsic(name, *[const(arg, INT) if type(arg) is int else arg for arg in args]))


# ---- the warpgroup that copies


def _slot(turn: Expr, stages: int) -> Expr:
    return floormod(turn, stages)


def _parity(turn: Expr, stages: int) -> Expr:
    """The parity of the phase in which a stage is filled for a turn."""
    return floormod(floordiv(turn, stages), 2)


def _await_empty(tile: WarpgroupTile, turn: Expr) -> Stmt:
    slot, parity = _slot(turn, tile.stages), sub(1, _parity(turn, tile.stages))
    return _do("ptx_wait_barrier", add(slot, tile.stages), parity)


def _bulk_copies(
    what: Product,
    tile: WarpgroupTile,
    operands: Sequence[_Operand],
    before: Expr,
    done: Expr,
    turns: Expr,
    place: Place,
) -> Stmt:
    """A thread copies whole tiles; so many turns ``before`` them are another block's, so many are ``done``."""

    def turn(number: Expr) -> Stmt:
        k, step = add(done, number), add(before, number)
        slot, total = _slot(k, tile.stages), sum([o.size * o.ring.dtype.itemsize for o in operands])
        firsts = (place.row, place.column)
        left, right = [_boxes(what, o, slot, first, step, place.batch) for o, first in zip(operands, firsts)]
        if tile.cluster > 1:
            left = [_part_for_all(what, tile, operands[0], slot, place, step)]
        copies = [*left, *right]
        return seq(_await_empty(tile, k), _do("ptx_arrive_barrier_expect_tx", slot, total), *copies)

    return loop("turn", turns, turn, "serial")


def _boxes(what: Product, operand: _Operand, slot: Expr, first: Expr, turn: Expr, batch: Expr) -> list[Stmt]:
    """The copies of a tile: one, or one for each piece of a row in shared memory."""
    side, view = operand.side, operand.view
    assert view is not None
    size, steps = (side.size, operand.row) if side.by_steps else (operand.row, side.steps)
    found: list[Stmt] = []
    for piece in range(0, side.size, size):
        box = view.box(what, side, batch, add(first, piece), size, turn, steps)
        at = operand.start(slot, const(piece, INT))
        args = (operand.ring.data, at, view.data, slot, const(SWIZZLE, INT), *box)
        found.append(Evaluate(intrinsic(view.copy, *args, dtype=operand.ring.dtype)))
    return found


def _part_for_all(what: Product, tile: WarpgroupTile, operand: _Operand, slot: Expr, place: Place, turn: Expr) -> Stmt:
    """The copy of a part of the rows that the blocks of a cluster share, to all of them."""
    side, view, size = operand.side, operand.view, tile.rows // tile.cluster
    assert view is not None
    first = mul(floormod(floordiv(place.column, tile.columns), tile.cluster), size)
    box = view.box(what, side, place.batch, add(place.row, first), size, turn, operand.row)
    mask = const((1 << tile.cluster) - 1, "int32")
    args = (operand.ring.data, operand.start(slot, first), view.data, slot, const(SWIZZLE, INT), mask, *box)
    return Evaluate(intrinsic("ptx_cp_async_bulk_tensor_multicast", *args, dtype=operand.ring.dtype))


def _told(tile: WarpgroupTile, barrier: Expr) -> Stmt:
    """One lane of a warp tells that it has multiplied what is in a stage, to all who copy into it."""
    if tile.cluster == 1:
        return _do("ptx_arrive_barrier", barrier)
    return seq(*[_do("ptx_arrive_barrier_cluster", barrier, rank) for rank in range(tile.cluster)])


def _thread_copies(
    what: Product,
    tile: WarpgroupTile,
    operands: Sequence[_Operand],
    before: Expr,
    done: Expr,
    turns: Expr,
    place: Place,
) -> Stmt:
    """All threads of the warpgroup copy elements. What a thread has copied for a turn is told when it has begun to copy later ones:
    so many turns are on their way. A block has one tile: nothing is ``done`` before."""
    late = tile.stages - 2
    thread = add(mul(sub(place.warp, tile.warps), WARP), place.lane)

    def turn(k: Expr) -> Stmt:
        slot = _slot(k, tile.stages)
        fills = [
            _fill(what, operand, place.batch, first, add(before, k), slot, thread)
            for operand, first in zip(operands, (place.row, place.column))
        ]
        told = sub(k, late)
        return seq(
            IfThenElse(
                lt(k, turns), seq(_await_empty(tile, k), AttrStmt(const(0), ASYNC_SCOPE, const(1), seq(*fills)))
            ),
            _do("ptx_commit_group"),
            _do("ptx_wait_group", late),
            _do("ptx_fence_proxy_async"),
            IfThenElse(ge(told, 0), _do("ptx_arrive_barrier", _slot(told, tile.stages))),
        )

    return loop("turn", add(turns, late), turn, "serial")


def _fill(what: Product, operand: _Operand, batch: Expr, first: Expr, turn: Expr, slot: Expr, thread: Expr) -> Stmt:
    side, row = operand.side, operand.row
    lanes = PIECE // operand.ring.dtype.itemsize

    def put(element: Expr, line: Expr, start: Expr, lane: Expr | None) -> Stmt:
        within = floormod(start, row)
        piece = intrinsic("bitwise_xor", floordiv(within, lanes), floormod(line, SWIZZLE // PIECE))
        place = sum_of(operand.start(slot, mul(floordiv(start, row), row)), mul(line, row), mul(piece, lanes))
        return BufferStore(operand.ring, element, (sum_of(place, floormod(within, lanes), lane),))

    return fill(what, side, batch, first, turn, GROUP * WARP, thread, put, TOGETHER)


# ---- the warpgroups that multiply


def _multiply(
    tile: WarpgroupTile, operands: Sequence[_Operand], sums: Buffer, done: Expr, turns: Expr, place: Place
) -> Stmt:
    """Add the products of all stages; a stage is empty when the products of the next one are under way."""
    number = floordiv(place.warp, GROUP)
    firsts = (
        mul(floordiv(number, tile.column_groups), ROWS),
        mul(floormod(number, tile.column_groups), tile.group_columns),
    )
    left, right = operands
    layouts = ("row" if left.side.by_steps else "col", "col" if right.side.by_steps else "row")
    kinds = (left.ring.dtype.name, right.ring.dtype.name, sums.dtype.name)
    depth = left.side.steps // PRODUCTS
    names = [StringImm(name) for name in (f"m{ROWS}n{tile.group_columns}k{depth}", *layouts, *kinds)]

    def product(slot: Expr, k: Expr) -> Stmt:
        places: list[Expr] = []
        for operand, first in zip(operands, firsts):
            places += [operand.ring.data, add(operand.start(slot, first), operand.step(k))]
        rest: list[Expr] = [sums.data, const(0, INT), const(SWIZZLE, INT), const(True)]
        if not right.side.by_steps:
            rest.append(const(right.side.steps * right.row, INT))  # between pieces of a row
        return Evaluate(intrinsic("ptx_wgmma", *names, *places, *rest, dtype=sums.dtype))

    def turn(number: Expr) -> Stmt:
        k = add(done, number)
        slot, before = _slot(k, tile.stages), _slot(sub(k, 1), tile.stages)
        return seq(
            _do("ptx_wait_barrier", slot, _parity(k, tile.stages)),
            _do("ptx_wgmma_fence"),
            loop("j", PRODUCTS, lambda j: product(slot, j)),
            _do("ptx_wgmma_commit_group"),
            _do("ptx_wgmma_wait_group", 1),
            IfThenElse(logical_and(gt(number, 0), eq(place.lane, 0)), _told(tile, add(before, tile.stages))),
        )

    last = add(_slot(sub(add(done, turns), 1), tile.stages), tile.stages)
    emptied = [IfThenElse(eq(place.lane, 0), _told(tile, last))] if tile.blocks else []
    return seq(loop("turn", turns, turn, "serial"), _do("ptx_wgmma_wait_group", 0), *emptied)
