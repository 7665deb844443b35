"""A product as a kernel of warps that multiply matrices: what a block of threads does with its tile.

Tiles of both operands go to shared memory some turns ahead, beside the threads where copies have 4 bytes or more. Each warp has a
part of the rows and columns: ``ldmatrix`` brings its operands to registers, ``mma`` adds their product to its sums. At last the
sums go through shared memory, 16 rows of each warp at a time, so that neighbours write what follows to neighbouring places.

In shared memory 16 bytes along one axis, a chunk, lie beside those of the next line: eight lines are 128 bytes, which a matrix
instruction reads at once. Lines left free behind each row of chunks keep what one warp writes in different banks.
Not here: which products, and of which sizes tiles are (`tensor_cores.py`); where elements come from (`tile_sides.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import add, ceildiv, const, floordiv, floormod, intrinsic, is_int, lt, mul
from ....ir.expr import StringImm, Var
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, Evaluate, For, IfThenElse, Stmt, seq
from ....ir.types import Expr, prim_type
from .nests import INT, buffer_of
from .product import Product, apart, extent_of, output_at
from .tile_sides import Side, all_of, element_at, inside, is_whole, last_divides, sum_of
from .tiles import has_axis

WARP = 32
PART = 16
"""Rows of a warp whose sums are written together."""
VECTOR = 4
"""Results that a thread writes at once."""


@dataclass(slots=True, frozen=True)
class Form:
    """A matrix instruction: its shape, the names of the types of its operands and of its sums."""

    shape: str
    operand: str
    total: str


@dataclass(slots=True, frozen=True)
class WarpTile:
    """Sizes of a block's tile; how many warps share its rows and its columns; turns that copies are ahead, plus one."""

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


@dataclass(slots=True, frozen=True)
class _Place:
    """Where a thread stands: batch, first row and column of the block's tile; its warp, also along rows and columns; its lane."""

    batch: Expr
    row: Expr
    column: Expr
    warp: Expr
    row_warp: Expr
    column_warp: Expr
    lane: Expr


def kernel(what: Product, form: Form, tile: WarpTile, left: Side, right: Side, group: int) -> Stmt:
    """The kernel of a product. Blocks go through ``group`` tiles of columns before they go down: what they read is near then."""
    down, over = tile.warp_rows // 16, tile.warp_columns // 8
    sums = _registers(f"{what.name}_sums", what.store.buffer.dtype.name, down * over * 4)
    near = [
        _registers(f"{side.buffer.name}_near", side.buffer.dtype.name, count * side.chunk)
        for side, count in ((left, down), (right, over // 2))
    ]
    init = what.stage.block.init
    assert isinstance(init, BufferStore)
    first = init.value
    ahead = tile.stages - 1
    notes = {
        "software_pipeline_stage": [0, 0, ahead],
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_async_stages": [0],
    }

    def block(place: _Place) -> Stmt:
        def turn(k: Expr) -> Stmt:
            fills = [
                _fill(what, left, place.row, k, tile, place),
                _fill(what, right, place.column, k, tile, place),
            ]
            return seq(*fills, _multiply(form, tile, (left, right), near, sums, place))

        return seq(
            *[AllocBuffer(buffer) for buffer in (left.buffer, right.buffer, sums, *near)],
            _loop("e", down * over * 4, lambda e: BufferStore(sums, first, (e,))),
            _loop("turn", ceildiv(extent_of(what.steps), tile.steps), turn, "serial", notes=notes),
            _finish(what, tile, sums, place),
        )

    return _launched(what, tile, block, group)


def _registers(name: str, dtype: str, count: int) -> Buffer:
    return buffer_of(name, dtype, [const(count, INT)], "local")


def _loop(
    name: str, extent: int | Expr, body: Callable[[Expr], Stmt], kind: str = "unrolled", thread: str | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Stmt:  # fmt: skip
    """A loop; of one turn, its body."""
    count = const(extent, INT) if isinstance(extent, int) else extent
    if is_int(count, 1) and thread is None:
        return body(const(0, INT))
    var = Var(name, prim_type(INT))
    return For(var, const(0, INT), count, kind, body(var), thread, dict(notes) if notes else None)


def _vector(width: int, body: Callable[[Expr | None], Stmt]) -> Stmt:
    """A statement for each of ``width`` neighbours; for a single one without a lane."""
    return body(None) if width == 1 else _loop("lane", width, body, "vectorized")


def _launched(what: Product, tile: WarpTile, block: Callable[[_Place], Stmt], group: int) -> Stmt:
    """A block of threads for each tile."""
    batch = extent_of(what.batch)
    down, over = ceildiv(extent_of(what.rows), tile.rows), ceildiv(extent_of(what.columns), tile.columns)
    folded = is_int(batch, 1) or not has_axis(batch)

    def threads(b: Expr, x: Expr, y: Expr) -> Stmt:
        row, column = floordiv(x, group), add(mul(y, group), floormod(x, group))

        def thread(warp: Expr, lane: Expr) -> Stmt:
            along = floordiv(warp, tile.column_warps), floormod(warp, tile.column_warps)
            return block(_Place(b, mul(row, tile.rows), mul(column, tile.columns), warp, *along, lane))

        return _bound("ty", tile.warps, "threadIdx.y", lambda ty: _bound(
            "tx", WARP, "threadIdx.x", lambda tx: thread(ty, tx)))  # fmt: skip

    def grid(b: Expr) -> Stmt:
        size = mul(down, group)

        def column(x: Expr) -> Stmt:
            at = (floordiv(x, size), floormod(x, size)) if folded and not is_int(batch, 1) else (b, x)
            return _bound("y", floordiv(over, group), "blockIdx.y", lambda y: threads(*at, y))

        return _bound("x", mul(batch, size) if folded else size, "blockIdx.x", column)

    body = grid(const(0, INT)) if folded else _bound("b", batch, "blockIdx.z", grid)
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, what.name, body))


def _bound(name: str, extent: int | Expr, thread: str, body: Callable[[Expr], Stmt]) -> Stmt:
    return _loop(name, extent, body, "thread_binding", thread)


def _fill(what: Product, side: Side, first: Expr, turn: Expr, tile: WarpTile, place: _Place) -> Stmt:
    """The copy of an operand's tile by all threads: zeros behind the ends."""
    units, threads = side.length // side.width, tile.warps * WARP
    step0 = mul(turn, side.steps)
    along, across = (step0, first) if side.by_steps else (first, step0)

    def copy(again: Expr) -> Stmt:
        unit = sum_of(mul(again, threads), mul(place.warp, WARP), place.lane)
        lines = side.lines
        line, group = (
            (floormod(unit, lines), floordiv(unit, lines))
            if side.turned
            else (floordiv(unit, units), floormod(unit, units))
        )
        start = mul(group, side.width)

        def put(lane: Expr | None) -> Stmt:
            groups = add(floordiv(along, side.width), group)
            element = element_at(what, side, place.batch, groups, add(across, line), lane)
            chunk, rest = floordiv(start, side.chunk), floormod(start, side.chunk)
            return BufferStore(side.buffer, element, (chunk, sum_of(mul(line, side.chunk), rest, lane)))

        store = _vector(side.width, put)
        return store if side.lines * units % threads == 0 else IfThenElse(lt(unit, side.lines * units), store)

    return _loop("again", -(-side.lines * units // threads), copy)


def _multiply(
    form: Form, tile: WarpTile, sides: tuple[Side, Side], near: list[Buffer], sums: Buffer, place: _Place
) -> Stmt:
    """The step that a warp adds to its sums in one turn."""
    chunk, over = sides[0].chunk, tile.warp_columns // 8
    names = [StringImm(n) for n in (form.shape, "row", "col", form.operand, form.operand, form.total)]

    def product(i: Expr, j: Expr) -> Stmt:
        left, right, total = mul(i, chunk), mul(j, chunk // 2), mul(add(mul(i, over), j), 4)
        places = (near[0].data, left, near[1].data, right, sums.data, total)
        return Evaluate(intrinsic("ptx_mma", *names, *places, const(False), dtype=sums.dtype))

    def steps(k: Expr) -> Stmt:
        def loads(number: int, warp: Expr, size: int) -> Stmt:
            side, first, step = sides[number], mul(warp, size), mul(k, 2 * chunk)
            return _loop(
                "i",
                size // 16,
                lambda i: _matrices(side, number == 0, near[number], i, add(first, mul(i, 16)), step, place.lane),
            )

        return seq(
            loads(0, place.row_warp, tile.warp_rows),
            loads(1, place.column_warp, tile.warp_columns),
            _loop("i", tile.warp_rows // 16, lambda i: _loop("j", over, lambda j: product(i, j))),
        )

    return _loop("k", sides[0].steps // (2 * chunk), steps)


def _matrices(side: Side, is_left: bool, to: Buffer, number: Expr, first: Expr, step: Expr, lane: Expr) -> Stmt:
    """Four matrices of an operand to registers: of 16 rows or columns from ``first``, and two chunks of steps from ``step``.

    Those of the left operand are in the order that rows go first, those of the right that steps do. Neighbours are steps in
    registers; where they are not in memory the instruction turns the matrices over."""
    if is_left == side.by_steps:
        chunk, line = floordiv(lane, 16), floormod(lane, 16)
    else:
        chunk, line = floormod(floordiv(lane, 8), 2), add(mul(floordiv(lane, 16), 8), floormod(lane, 8))
    along, across = (step, first) if side.by_steps else (first, step)
    index = (add(floordiv(along, side.chunk), chunk), mul(add(across, line), side.chunk))
    source = intrinsic("address_of", BufferLoad(side.buffer, index, prim_type(side.buffer.dtype)))
    args = (const(not side.by_steps), const(4), StringImm(".b16"), to.data, mul(number, side.chunk), source)
    return Evaluate(intrinsic("ptx_ldmatrix", *args, const(0, INT), dtype=side.buffer.dtype))


def _finish(what: Product, tile: WarpTile, sums: Buffer, place: _Place) -> Stmt:
    """The sums of all warps through shared memory, some rows of each at a time, and what is made of them written."""
    over, threads, ty = tile.warp_columns // 8, tile.warps * WARP, prim_type(sums.dtype)
    width = VECTOR if _writes_vectors(what) else 1
    shape = [const(tile.row_warps * PART, INT), const(tile.columns + 8, INT)]
    spread = buffer_of(f"{sums.name}_spread", sums.dtype.name, shape, "shared.dyn")
    extents = extent_of(what.rows), extent_of(what.columns)

    def put(i: Expr, j: Expr, half: Expr) -> Stmt:
        row = sum_of(mul(place.row_warp, PART), mul(half, 8), floordiv(place.lane, 4))
        column = sum_of(mul(place.column_warp, tile.warp_columns), mul(j, 8), mul(floormod(place.lane, 4), 2))

        def pair(lane: Expr | None) -> Stmt:
            cell = BufferLoad(sums, (sum_of(mul(add(mul(i, over), j), 4), mul(half, 2), lane),), ty)
            return BufferStore(spread, cell, (row, sum_of(column, lane)))

        return _vector(2, pair)

    def write(i: Expr, again: Expr) -> Stmt:
        unit = sum_of(mul(again, threads), mul(place.warp, WARP), place.lane)
        line, group = floordiv(unit, tile.columns // width), floormod(unit, tile.columns // width)
        row = sum_of(place.row, mul(floordiv(line, PART), tile.warp_rows), mul(i, PART), floormod(line, PART))
        groups = add(floordiv(place.column, width), group)

        def one(lane: Expr | None) -> Stmt:
            cell = BufferLoad(spread, (line, sum_of(mul(group, width), lane)), ty)
            at = {**apart(what.rows, row), **apart(what.columns, groups, width, lane)}
            return output_at(what, {**apart(what.batch, place.batch), **at}, cell)

        made = _vector(width, one)
        guard = all_of([*inside(row, extents[0], tile.rows), *inside(mul(groups, width), extents[1], tile.columns)])
        return made if guard is None else IfThenElse(guard, made)

    def part(i: Expr) -> Stmt:
        puts = _loop("j", over, lambda j: _loop("half", 2, lambda half: put(i, j, half)))
        turns = tile.row_warps * PART * tile.columns // (threads * width)
        return seq(puts, _loop("again", turns, lambda again: write(i, again)))

    return seq(AllocBuffer(spread), _loop("i", tile.warp_rows // PART, part))


def _writes_vectors(what: Product) -> bool:
    """True if neighbouring columns are a whole vector where they are written."""
    if not last_divides(what.columns, VECTOR):
        return False
    lane, group = Var("lane", prim_type(INT)), Var("group", prim_type(INT))
    others = {axis.var: axis.var for axis in (*what.batch, *what.rows)}
    store = output_at(what, {**others, **apart(what.columns, group, VECTOR, lane)}, const(0, what.store.buffer.dtype))
    return is_whole(store, lane, VECTOR)
