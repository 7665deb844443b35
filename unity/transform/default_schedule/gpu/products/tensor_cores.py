"""The rule for products and convolutions of narrow numbers: tensor cores multiply, a block of warps computes a tile.

Not here: what a block does (`warp_tiles.py`, and `warpgroup_tiles.py` for devices that have products of warpgroups).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace as replace_sizes
from itertools import islice

from .....ir.build import dtype_of, le
from .....ir.expr import IntImm
from .....ir.scalar import BufferLoad
from .....ir.stmt import AllocBuffer, IfThenElse, Stmt, seq
from .....ir.types import Expr
from .....ir.walk import collect
from ....infra.backend import GpuMachine
from ....schedule import Schedule
from ...common.choices import choose, choose_whether
from ..common.stages import size_of
from .image_views import k_tile_count, views_of
from .product import Product, count_of, extent_of, inline_producers, products_of, replace_product, stored
from .product_pieces import in_operand_order, reduce_pieces, split_k, swap_operands
from .tile_blocks import GROUP, WARP, group_sizes
from .tile_costs import CHOICES, GROUP_CHOICES, PIECES, STEP_BYTES, Choice, Sizes, plans, tiles_of
from .tile_sides import Side, side_of
from .warp_tiles import Form, WarpTile, kernel
from .warpgroup_sizes import WarpgroupTile
from .warpgroup_tiles import kernel as group_kernel

FORMS = {
    ("float16", "float32"): Form("m16n8k16", "fp16", "fp32"),
    ("bfloat16", "float32"): Form("m16n8k16", "bf16", "fp32"),
    ("int8", "int32"): Form("m16n8k32", "int8", "int32"),
    ("uint8", "int32"): Form("m16n8k32", "uint8", "int32"),
    ("float32", "float32"): Form("m16n8k8", "tf32", "fp32"),
}
"""The instruction of a warp by types of the operands and of the sums."""
GROUPED = ("float16", "bfloat16", "int8", "uint8")
"""Operands of which warpgroups have products, with the same sums."""
MOST_SUMS = 64
"""Registers for sums that leave enough for the places of elements which are read one by one."""
STAGES, MOST_STAGES = 4, 12
"""Stages of the software pipeline if shared memory has room for them: with four, copies run three tiles ahead. Small tiles have
more, so that as many bytes are on their way."""
DEEP = 96 << 10
"""Bytes of such stages where blocks are fewer than processors."""
FEW_ROWS = 64
"""A product with a symbolic number of rows has a kernel of its own for up to this many."""
LEAST_COPY = 8
"""Bytes that a thread copies at once at least: with less, one warpgroup that copies would not keep up with two that multiply."""
FEW_STEPS = 8
"""Least steps of a product for which tensor cores pay."""


def matrix_products(sch: Schedule) -> list[Product]:
    """The products of a program for which tensor cores have an instruction."""
    return [
        product for product in products_of(sch)
        if _form(product) is not None and count_of(product.steps) >= FEW_STEPS
    ]  # fmt: skip


def bind_tensor_cores(sch: Schedule, product: Product, gpu: GpuMachine) -> tuple[Schedule, str] | None:
    """Replace a product by its kernel, and return the schedule of the new program and a description. None if the device lacks the
    instructions, and for float32 unless the target has ``-tf32``."""
    form = _form(product)
    if gpu.capability < 80 or gpu.warp != WARP or form is None or (form.operand == "tf32" and not gpu.tf32):
        return None
    if not choose_whether(product.stage.block, "tensor_cores", True):
        return None
    inline_producers(sch, product.stage.rv)
    product = in_operand_order(next(p for p in products_of(sch) if p.name == product.name))
    rows = extent_of(product.rows)
    tile = _tile(product, gpu, count_of(product.rows))
    few = _tile(product, gpu, FEW_ROWS) if type(rows) is not IntImm else tile
    if tile is None or few is None:
        return None
    stmts, description = _kernel(product, form, tile)
    if few != tile:  # neither is in pieces
        less, how = _kernel(product, form, few)
        stmts, description = (
            [IfThenElse(le(rows, FEW_ROWS), seq(*less), seq(*stmts))],
            f"{how} up to {FEW_ROWS} rows, else {description}",
        )
    return replace_product(sch, product, *stmts), f"{product.name} on tensor cores in tiles of {description}"


def _sides(product: Product, rows: int, columns: int, steps: int) -> tuple[Side, Side]:
    left = side_of(product, "left", product.left, product.rows, rows, steps)
    return left, side_of(product, "right", product.right, product.columns, columns, steps)


def _tile(product: Product, gpu: GpuMachine, rows: int) -> WarpTile | WarpgroupTile | None:
    """The tile for a number of rows that takes least time, with stages that fit into shared memory; None if not even two do."""
    wanted = choose(product.stage.block, "tile", range(len(GROUP_CHOICES) + len(CHOICES)), 0)
    found = list(islice(_tiles(product, gpu, rows), wanted + 1))
    return found[-1] if found else None


def _tiles(product: Product, gpu: GpuMachine, rows: int) -> Iterator[WarpTile | WarpgroupTile]:
    """The tiles that fit, by their times."""
    sizes = _sizes(product, rows)
    whole = sizes.steps >= STEP_BYTES // sizes.item  # tiles of warpgroups have rows of a cache line
    for choice, pieces in plans(sizes, gpu, gpu.warpgroups and _narrow(product.left) in GROUPED and whole):
        made = _group_tile if choice.is_grouped else _warp_tile
        tile = made(product, gpu, choice, sizes, pieces)
        if tile is not None:
            yield tile


def _group_tile(product: Product, gpu: GpuMachine, choice: Choice, sizes: Sizes, pieces: int) -> WarpgroupTile | None:
    """A tile of warpgroups, if threads keep up with its copies and have registers and shared memory for it."""
    product, block = swap_operands(product) if choice.swapped else product, product.stage.block
    pieces = choose(block, "pieces", PIECES, pieces) if sizes.known else 1
    shape = choice.row_parts, choice.column_parts, 1
    tile = WarpgroupTile(*choice[:2], _steps(product), *shape, pieces, choice.swapped)
    sides = _sides(product, tile.rows, tile.columns, tile.steps)
    parts = (tile.rows // tile.row_groups, tile.group_columns)
    if not all([side.by_steps or part % side.steps == 0 for side, part in zip(sides, parts)]):
        return None  # a row of shared memory has 128 bytes
    views = views_of(product, sides)
    if not tile.has_room(not isinstance(views, str)):
        return None
    room = (gpu.shared_bytes - tile.bytes) // tile.stage_bytes + 1
    if sizes.known:
        stages_of_sum = size_of([k_tile_count(product, views, tile.steps)])
        if (
            not isinstance(views, str) and views[0].k_tiles.outer
        ):  # behind the last stage a window is not outside of the image
            pieces = max([number for number in PIECES if number <= pieces and stages_of_sum % number == 0])
            tile = replace_sizes(tile, pieces=pieces)
    k_tiles = math.ceil(stages_of_sum / pieces) if sizes.known else room
    stages = choose(block, "stages", range(2, MOST_STAGES + 1), max(2, min(room, k_tiles, MOST_STAGES)), room)
    keeps_up = all([side.copied_bytes >= LEAST_COPY for side in sides])
    waits = tiles_of(choice, pieces, sizes) > gpu.processors
    persistent = replace_sizes(tile, blocks=gpu.processors)
    if not isinstance(views, str) and choose_whether(block, "in_turn", waits and persistent.has_room(True)):
        tile = persistent
    return replace_sizes(tile, stages=stages) if keeps_up and stages > 1 else None


def _warp_tile(product: Product, gpu: GpuMachine, choice: Choice, sizes: Sizes, pieces: int) -> WarpTile | None:
    """A tile of warps, if they have registers and shared memory for it."""
    steps = _steps(product)
    sides = _sides(product, choice.rows, choice.columns, steps)
    each = sum([side.bytes for side in sides])
    own = min(MOST_STAGES, max(STAGES, DEEP // each)) if tiles_of(choice, 1, sizes) <= gpu.processors else STAGES
    stages = choose(product.stage.block, "stages", range(2, MOST_STAGES + 1), own, gpu.shared_bytes // each)
    crowded = any([side.single and choice.sums * (1 + side.single // 16) > MOST_SUMS for side in sides])
    return WarpTile(*choice[:2], steps, *choice[2:4], stages) if stages > 1 and not crowded else None


def _kernel(product: Product, form: Form, tile: WarpTile | WarpgroupTile) -> tuple[list[Stmt], str]:
    """The kernel of a product, what else there is to do, and how it was made."""
    if isinstance(tile, WarpTile):
        sides = _sides(product, tile.rows, tile.columns, tile.steps)
        return [kernel(product, form, tile, *sides, _group(product, tile))], f"{tile} ({form.shape})"
    seen = swap_operands(product) if tile.swapped else product
    sides = _sides(seen, tile.rows, tile.columns, tile.steps)
    found = views_of(seen, sides)
    views, copied = ([], f"copied by threads: {found}") if isinstance(found, str) else (found, "bulk copies")
    how = f"{tile} (wgmma, {copied})"
    if tile.pieces == 1:
        return [group_kernel(seen, seen, tile, sides, views, _group(seen, tile))], how
    out, parts = split_k(seen, tile.pieces)
    made = group_kernel(seen, out, tile, sides, views, _group(seen, tile))
    return [AllocBuffer(parts), made, reduce_pieces(product, parts, tile.pieces)], how


def _form(product: Product) -> Form | None:
    """The instruction for a product."""
    left, right = [_narrow(value) for value in (product.left, product.right)]
    return FORMS.get((left, product.store.buffer.dtype.name)) if left == right else None


def _narrow(value: Expr) -> str:
    return dtype_of(stored(value)).name


def _item(product: Product) -> int:
    """Bytes of an element of the operands."""
    return dtype_of(stored(product.left)).itemsize


def _steps(product: Product) -> int:
    """Steps of a tile; fewer if the product has few."""
    item = _item(product)
    steps = STEP_BYTES // item
    while steps > STEP_BYTES // 4 // item and steps >= 2 * count_of(product.steps):
        steps //= 2
    return steps


def _sizes(product: Product, rows: int) -> Sizes:
    """The sizes of a product, of which ``rows`` are given."""
    written = product.store if product.after is None else product.after.store
    result = written.buffer.dtype.itemsize if written is not None else product.store.buffer.dtype.itemsize
    axes = (*product.batch, *product.rows, *product.columns, *product.steps)
    known = all([type(axis.domain.extent) is IntImm for axis in axes])
    batch, columns, steps, item = (
        count_of(product.batch),
        count_of(product.columns),
        count_of(product.steps),
        _item(product),
    )
    counts = (batch * rows * steps, batch * columns * steps)
    read = item * sum([_elements(value, most) for value, most in zip((product.left, product.right), counts)])
    return Sizes(batch, rows, columns, steps, item, result, known, read)


def _elements(operand: Expr, most: int) -> int:
    """Elements of an operand in memory, at most so many."""
    return sum([min(most, size_of(load.buffer.shape)) for load in collect(operand, BufferLoad)])


def _group(product: Product, tile: WarpTile | WarpgroupTile) -> int:
    """Tiles of columns that blocks take before the next tile of rows. Where tiles of rows are few, neighbouring blocks have all of
    them, and read the same columns, which are weights as a rule."""
    rows, groups = extent_of(product.rows), group_sizes(product, tile.columns)
    few = type(rows) is IntImm and 0 < rows.value <= GROUP * tile.rows
    own = 1 if isinstance(tile, WarpgroupTile) and few else groups[0]
    return choose(product.stage.block, "group", groups, own)
