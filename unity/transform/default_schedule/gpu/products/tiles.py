"""The rule for products, batched or not, and convolutions: a block of threads computes a tile of the result.

Tiles of both operands go through shared memory, and each thread keeps the sums of a few rows and columns. The threads of a warp
have columns of the same rows, so they write contiguous elements and all read the same elements of the rows.
"""

from __future__ import annotations

from .....ir.build import dtype_of
from .....ir.expr import IntImm
from .....ir.scalar import BufferLoad
from .....ir.types import Expr
from .....ir.walk import collect, used_vars
from ....infra.backend import GpuMachine
from ....schedule import BlockRV, LoopRV, Schedule
from ....tir.loops.hoist_if_then_else import MARK
from ...base import program_of, schedule_of
from ...common.choices import choose
from ..common.stages import is_multiple
from .product import Product, Tile, contiguous_along, count_of, extent_of, inline_producers, tile_product

WARPS = 8
"""Warps of a block; each has different rows."""
STEPS = 32
"""Steps of a tile: contiguous ones fill a line of memory."""
FEW_STEPS = 8
"""Least steps of a product for which tiles are used."""
ROWS = (16, 8, 4, 2, 1)
"""Rows of a thread, best first."""
COLUMNS = (4, 2, 1)
"""Columns of a thread, best first."""
MOST_BLOCKS = 65535
"""Most blocks along the second and third axis of a grid."""
VECTOR = 4
"""Most elements that are read or written at once."""


def bind_tiles(sch: Schedule, product: Product, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a product. The schedule continues with the program on tiles."""
    tile = _tile(product, gpu)
    rows = tile.rows // WARPS
    tiled = tile_product(program_of(sch), product, tile)
    sch = schedule_of(tiled.func)
    sch.tests = False
    main, last = sch.get_block(tiled.main), sch.get_block(tiled.last)
    fills = [sch.get_block(tiled.left), sch.get_block(tiled.right)]
    for fill in fills:
        inline_producers(sch, fill)
    b, io, jo, ii, tx, j, ko, ki = sch.get_loops(main)
    ty, i = sch.split(ii, [WARPS, rows])
    k1, k2 = sch.split(ki, [None, min(VECTOR, tile.steps)])
    sch.reorder(b, io, jo, ty, tx, ko, k1, i, k2, j)
    lb, li, lj = sch.get_loops(last)
    lio, lty, lii = sch.split(li, [None, WARPS, rows])
    if tile.contiguous:
        ljo, ltx, ljj = sch.split(lj, [None, tile.lanes, tile.per_lane])
    else:
        ljo, ljj, ltx = sch.split(lj, [None, tile.per_lane, tile.lanes])
    inner = (lii, ljj) if tile.contiguous or type(extent_of(product.rows)) is not IntImm else (ljj, lii)
    sch.reorder(lb, lio, ljo, lty, ltx, *inner)
    sch.annotate(inner[1], MARK, True)  # one condition for all that lies inside the result with the same outer one
    sch.merge(tx, ltx)
    b, io, jo, ty, tx, *_ = sch.get_loops(main)
    if not has_axis(extent_of(product.batch)):
        io = sch.fuse(b, io)
    elif product.batch:
        sch.bind(b, "blockIdx.z")
    for loop, axis in ((io, "blockIdx.x"), (jo, "blockIdx.y"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        sch.bind(loop, axis)
    first = sch.decompose_reduction(main, ko)
    for fill, lanes, transposed in zip(fills, _lanes(product, tile), (False, tile.right_steps)):
        _bind_fill(sch, fill, ko, gpu.warp, lanes, transposed)
    cached = sch.cache_read(main, tiled.left, "local")
    if tile.left_steps or rows % VECTOR:
        sch.compute_at(cached, i)
        group = [i]
    else:
        group = sch.split(i, [None, VECTOR])
        sch.compute_at(cached, group[0])
    *_, lane = sch.get_loops(cached)
    if tile.left_steps or not rows % VECTOR:
        sch.vectorize(lane)
    for loop in (*group, k2, lii):
        sch.unroll(loop)
    for loop in (j, ljj, sch.get_loops(first)[-1]):
        if tile.contiguous:
            sch.vectorize(loop)
        else:
            sch.unroll(loop)
    return sch, f"{product.name} in tiles of {tile.rows} x {tile.columns} by {tile.steps}"


def has_axis(batch: Expr) -> bool:
    """True if a batch surely fits on the third axis of a grid; a larger one, or one of any size, shares the first axis."""
    return type(batch) is IntImm and batch.value <= MOST_BLOCKS


def _bind_fill(sch: Schedule, fill: BlockRV, loop: LoopRV, warp: int, lanes: int, transposed: bool) -> None:
    """Distribute the filling of a tile over all threads: a warp reads one or more lines of memory, in vectors. ``transposed``:
    lines of memory are columns of the tile."""
    sch.compute_at(fill, loop, preserve_unit_loops=True)
    *_, row, inner = sch.get_loops(fill)
    if transposed:
        row, inner = inner, row
    width = sch.get(inner).extent.value
    threads = min(warp, width // lanes)
    step, y, x = sch.split(row, [None, WARPS, warp // threads])
    outer, lane, vector = sch.split(inner, [None, threads, lanes])
    sch.reorder(step, y, outer, x, lane, vector)
    sch.vectorize(vector)
    sch.bind(y, "threadIdx.y")
    sch.bind(sch.fuse(x, lane), "threadIdx.x")
    sch.unroll(step)
    sch.unroll(outer)


def _tile(product: Product, gpu: GpuMachine) -> Tile:
    """The tile of a product."""
    batch, m, n, k = [count_of(part) for part in (product.batch, product.rows, product.columns, product.steps)]
    columns = next((c for c in COLUMNS if gpu.warp * c < 2 * n), COLUMNS[-1])
    rows = next((r for r in ROWS if WARPS * r < 2 * m), ROWS[-1])
    while rows > 4 and batch * -(-m // (rows * WARPS)) * -(-n // (columns * gpu.warp)) < gpu.processors:
        rows //= 2
    block = product.stage.block
    columns, rows = choose(block, "columns", COLUMNS, columns), choose(block, "rows", ROWS, rows)
    steps = STEPS
    while steps > VECTOR and steps >= 2 * k:
        steps //= 2
    item = max([dtype_of(value).itemsize for value in (product.left, product.right)])
    while steps > VECTOR and steps * (rows * WARPS + columns * gpu.warp + 1) * item > gpu.static_shared_bytes:
        steps //= 2  # 1: a column of padding
    steps = choose(block, "steps", [steps >> part for part in range(3) if steps >> part >= VECTOR], steps)
    left, right = (
        contiguous_along(product.left, product.steps, product.rows),
        contiguous_along(product.right, product.steps, product.columns),
    )
    contiguous = columns > 1 and not right and _writes_vectors(product, columns * gpu.warp)
    return Tile(rows * WARPS, gpu.warp, columns, steps, contiguous, left, right)


def _lanes(product: Product, tile: Tile) -> list[int]:
    """Contiguous elements that a thread reads at once while it fills a tile, for each operand."""
    found = []
    for value, axes, size, by_steps in (
        (product.left, product.rows, tile.rows, tile.left_steps),
        (product.right, product.columns, tile.columns, tile.right_steps),
    ):
        inner, size_of_tile = (product.steps, tile.steps) if by_steps else (axes, size)
        loads = collect(value, BufferLoad)
        fits = len(loads) == 1 and bool(inner) and count_of(inner) % size_of_tile == 0 and not loads[0].buffer.strides
        load = loads[0] if loads else None
        if fits and load is not None and load.indices and load.indices[-1] is inner[-1].var:
            width = load.buffer.shape[-1]
            aligned = is_multiple(inner[-1].domain.extent, VECTOR) and (
                len(load.indices) == 1 or is_multiple(width, VECTOR)
            )
            once = not any([inner[-1].var in used_vars(index) for index in load.indices[:-1]])
            transposed = by_steps and value is product.right
            found.append(min(VECTOR, 16 // load.buffer.dtype.itemsize) if aligned and once and not transposed else 1)
        else:
            found.append(1)
    return found


def _writes_vectors(product: Product, columns: int) -> bool:
    """True if a thread can write its columns as one vector."""
    last = product.columns[-1]
    alone = product.after is None and product.store.indices[-1:] == (last.var,)
    divides = is_multiple(last.domain.extent, VECTOR) and count_of(product.columns) % columns == 0
    return alone and divides and product.store.buffer.dtype.itemsize <= 4
