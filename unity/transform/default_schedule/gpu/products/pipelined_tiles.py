"""The rule for large products without tensor cores, batched or not, and convolutions: pipelines of copies, a patch for each thread.

Not here: what a block does (`thread_tiles.py`); products of few rows, columns or steps, and devices without asynchronous copies
(`tiles.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace as with_fields
from typing import NamedTuple

from .....ir.buffer import make_buffer
from .....ir.build import const, dtype_of
from .....ir.expr import IntImm, Var
from .....ir.scalar import IterVar
from .....ir.types import Expr
from .....ir.walk import used_vars
from ....infra.backend import GpuMachine
from ....schedule import Schedule
from ...common.choices import choose, choose_whether
from ...nest_building import INT
from .product import (
    Product,
    contiguous_along,
    count_of,
    extent_of,
    inline_producers,
    products_of,
    replace_product,
    stored,
)
from .thread_tile_parts import ThreadTile
from .thread_tiles import kernel
from .tile_blocks import VECTOR, WARP, group_sizes, store_width
from .tile_sides import CHUNK_BYTES, Side, vectors_of


class Choice(NamedTuple):
    """Rows and columns of a tile, warps along them, groups of warps that share its steps, blocks that a multiprocessor is to have
    at a time, and the part of the device's speed that is expected of it."""

    rows: int
    columns: int
    row_warps: int
    column_warps: int
    step_groups: int
    blocks_per_sm: int
    speed: float

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.row_warps * self.column_warps * self.step_groups

    @property
    def registers(self) -> int:
        """Registers that a thread may have."""
        return min(MOST_REGISTERS, REGISTERS // (self.threads * self.blocks_per_sm))

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.rows * self.columns // (self.row_warps * self.column_warps * WARP)


CHOICES = (
    Choice(128, 128, 2, 2, 1, 2, 1.0),  # a thread has 16 x 8 sums: six vectors of operands for 128 products
    Choice(64, 128, 2, 2, 1, 3, 0.94),  # 8 x 8: four vectors for 64 products
    Choice(64, 64, 2, 1, 2, 2, 0.88),
    Choice(32, 64, 1, 1, 4, 2, 0.6),
)
"""Tiles, largest first. A larger one reads less memory for each product; smaller ones occupy more multiprocessors. Speeds are those
of an H100, but for the last one's."""
REGISTERS, MOST_REGISTERS = 65536, 256
"""Registers of a multiprocessor, and of a thread."""
ROW_LANES = 4
"""Lanes of a warp along its rows: the others write a line of memory together."""
STEP_BYTES = 64
"""Bytes of a tile's row of steps for each group."""
STAGES = 4
"""Stages of the rings: copies run three tiles ahead."""
LEAST = 32
"""Least rows, columns and steps of a product for which pipelines pay."""
LEAST_ITEM = 4
"""Bytes that are copied asynchronously at least."""
FEW_SYMBOLS, WIDE = 4, 2
"""Sizes not known before the call for whose addresses there is room beside the sums; registers that each further one takes."""
COPIES = 80
"""The least compute capability of devices that have asynchronous copies."""


def bind_pipelined_tiles(sch: Schedule, product: Product, gpu: GpuMachine) -> tuple[Schedule, str] | None:
    """Replace a product by its kernel, and return the schedule of the new program and a description. None if the device lacks
    asynchronous copies, or the product is small."""
    if gpu.capability < COPIES or gpu.warp != WARP or min(_sizes(product)[1:]) < LEAST or _item(product) < LEAST_ITEM:
        return None
    if not choose_whether(product.stage.block, "pipelined", True):
        return None
    inline_producers(sch, product.stage.rv)
    product = next(p for p in products_of(sch) if p.name == product.name)
    tile = _tile(product, gpu)
    if tile is None:
        return None
    groups = group_sizes(product, tile.columns)
    made = kernel(product, tile, *_sides(product, tile), choose(product.stage.block, "group", groups, groups[0]))
    return replace_product(sch, product, made), f"{product.name} in tiles of {tile}, copied {tile.stages - 1} ahead"


def _sides(product: Product, tile: ThreadTile) -> tuple[Side, Side]:
    left = _side(product, "left", product.left, product.rows, tile.rows, tile.steps, True)
    return left, _side(product, "right", product.right, product.columns, tile.columns, tile.steps, False)


def _side(
    product: Product, name: str, value: Expr, axes: tuple[IterVar, ...], size: int, steps: int, keeps: bool
) -> Side:
    """An operand with a buffer for its tile. ``keeps``: steps that are contiguous in memory are so in the tile; of an operand that
    does not keep them the copy transposes, element by element."""
    contiguous = contiguous_along(value, product.steps, axes)
    value = stored(value)
    by_steps, dtype = contiguous and keeps, dtype_of(value)
    length, lines = (steps, size) if by_steps else (size, steps)
    free = CHUNK_BYTES // dtype.itemsize if contiguous else 0
    buffer = make_buffer(
        f"{product.name}_{name}", dtype.name, [const(lines, INT), const(length + free, INT)], "shared.dyn"
    )
    side = Side(value, axes, size, steps, by_steps, contiguous and not keeps, 1, buffer)
    return side if side.transposed else with_fields(side, width=vectors_of(product, side))


def _tile(product: Product, gpu: GpuMachine) -> ThreadTile | None:
    """The tile that costs least, with as many stages as fit into shared memory; None if not even two do."""
    block, costs = product.stage.block, _costs(product, gpu)
    item, wide = _item(product), max(1, product.store.buffer.dtype.itemsize // LEAST_ITEM)
    symbols = max(0, len(_symbols(product)) - FEW_SYMBOLS) * WIDE
    fits = [choice for choice in CHOICES if 2 * choice.sums * wide + symbols <= choice.registers]
    found = sorted(fits, key=lambda choice: costs[choice])
    choice = found[choose(block, "tile", range(len(found)), 0)]
    rows, columns, row_warps, column_warps, groups, blocks_per_sm, _ = choice
    blocks_per_sm = min(blocks_per_sm, 2) if symbols else blocks_per_sm  # which leaves registers for addresses
    steps = groups * STEP_BYTES // item
    tile = ThreadTile(rows, columns, steps, row_warps, column_warps, ROW_LANES, STAGES, blocks_per_sm, groups)
    staging = (groups - 1) * choice.sums * choice.threads * product.store.buffer.dtype.itemsize // groups
    if store_width(product) == 1 and type(extent_of(product.columns)) is IntImm:
        staging += tile.warps * ROW_LANES * tile.column_lanes * VECTOR * product.store.buffer.dtype.itemsize
    stage = sum([side.bytes for side in _sides(product, tile)])
    room = (gpu.shared_bytes // blocks_per_sm - staging) // stage
    stages = choose(block, "stages", range(2, STAGES + 1), STAGES, max(2, room))
    return with_fields(tile, stages=stages) if stages * stage + staging <= gpu.shared_bytes else None


def _costs(product: Product, gpu: GpuMachine) -> dict[Choice, float]:
    """The cost of each choice: waves of tiles over the multiprocessors, times the size of a tile, over its speed."""
    batch, m, n, _ = _sizes(product)
    found = {}
    for choice in CHOICES:
        tiles = batch * math.ceil(m / choice.rows) * math.ceil(n / choice.columns)
        found[choice] = math.ceil(tiles / gpu.processors) * choice.rows * choice.columns / choice.speed
    return found


def _sizes(product: Product) -> tuple[int, int, int, int]:
    """Batch, rows, columns and steps."""
    return count_of(product.batch), count_of(product.rows), count_of(product.columns), count_of(product.steps)


def _symbols(product: Product) -> set[Var]:
    """The sizes that only the call defines."""
    axes = (*product.batch, *product.rows, *product.columns, *product.steps)
    return {var for axis in axes for var in used_vars(axis.domain.extent)}


def _item(product: Product) -> int:
    """Bytes of the narrower operand's elements in memory."""
    return min([dtype_of(stored(value)).itemsize for value in (product.left, product.right)])
