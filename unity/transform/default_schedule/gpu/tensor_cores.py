"""The rule for products and convolutions of narrow numbers: tensor cores multiply, a block of warps computes a tile.

Not here: what a block does (`warp_tiles.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ir.build import dtype_of
from ....ir.expr import IntImm
from ....ir.node import replace
from ....ir.scalar import Cast, IterVar
from ....ir.stmt import BufferStore, seq
from ....ir.types import Expr
from ...infra.backend import GpuMachine
from ...schedule import Schedule
from ..base import program_of, schedule_of
from .nests import replaced
from .product import Product, extent_of, products_of
from .stages import size_of
from .tile_sides import side_of
from .warp_tiles import WARP, Form, WarpTile, kernel

FORMS = {
    ("float16", "float32"): Form("m16n8k16", "fp16", "fp32"),
    ("bfloat16", "float32"): Form("m16n8k16", "bf16", "fp32"),
    ("int8", "int32"): Form("m16n8k32", "int8", "int32"),
    ("uint8", "int32"): Form("m16n8k32", "uint8", "int32"),
}
"""The instruction by types of the operands and of the sums."""


class Choice(NamedTuple):
    """Rows and columns of a tile, warps along them, and the part of the device's speed that is expected of it."""

    rows: int
    columns: int
    row_warps: int
    column_warps: int
    speed: float


CHOICES = (
    Choice(128, 256, 2, 4, 1.0),  # a warp has 64 x 64: 8 loads of matrices for 32 products, 128 registers of sums
    Choice(128, 128, 2, 4, 0.9),  # 64 x 32: 6 loads for 16 products; two blocks have room in a processor of an H100
    Choice(64, 128, 2, 4, 0.75),  # 32 x 32: 4 loads for 8 products
    Choice(64, 64, 2, 2, 0.65),
    Choice(32, 64, 2, 2, 0.45),  # few rows: weights are read once, and what limits is memory
    Choice(16, 64, 1, 2, 0.3),
)
"""Tiles from the largest. A larger one reads less for each product; a smaller one lets more processors work."""
STEP_BYTES = 128
"""Bytes of a tile's row of steps: a line of memory."""
STAGES = 4
"""Stages of the pipeline where shared memory has room for them: with four, three tiles are on their way."""
GROUP = 8
"""Tiles of columns at most that blocks go through before they go down."""
FEW_STEPS = 8
"""Steps of a product from which on matrix instructions pay."""


def matrix_products(sch: Schedule) -> list[Product]:
    """The products that tensor cores have an instruction for."""
    return [
        product for product in products_of(sch)
        if _form(product) is not None and _size(product.steps) >= FEW_STEPS
    ]  # fmt: skip


def bind_tensor_cores(sch: Schedule, what: Product, gpu: GpuMachine) -> tuple[Schedule, str] | None:
    """Bind a product; the schedule goes on from the program with its kernel. None for a device without the instructions."""
    if gpu.capability < 80 or gpu.warp != WARP:
        return None
    _inline_producers(sch, what)
    what = next(product for product in products_of(sch) if product.name == what.name)
    form = _form(what)
    costs = _costs(what, gpu)
    for choice in sorted(CHOICES, key=lambda choice: costs[choice]):
        steps = _steps(what)
        left = side_of(what, "left", what.left, what.rows, choice.rows, steps)
        right = side_of(what, "right", what.right, what.columns, choice.columns, steps)
        stages = min(STAGES, gpu.shared_bytes // (left.bytes + right.bytes))
        if form is None or stages < 2:
            continue
        tile = WarpTile(choice.rows, choice.columns, steps, choice.row_warps, choice.column_warps, stages)
        func = program_of(sch)
        made = kernel(what, form, tile, left, right, _group(what, choice))
        dead = what.after.block if what.after is not None else None
        body = seq(*replaced(func.body, {what.stage.block: made}, dead, what.store.buffer))
        sizes = f"{tile.rows} x {tile.columns} by {steps}"
        return schedule_of(replace(func, body=body)), f"{what.name} on tensor cores ({form.shape}) in tiles of {sizes}"
    return None


def _form(what: Product) -> Form | None:
    """The instruction for a product."""
    left, right = [_narrow(value) for value in (what.left, what.right)]
    return FORMS.get((left, what.store.buffer.dtype.name)) if left == right else None


def _narrow(value: Expr) -> str:
    return dtype_of(value.value if isinstance(value, Cast) else value).name


def _inline_producers(sch: Schedule, what: Product) -> None:
    """Compute what alone the product reads while its tiles are filled: the border of an image."""
    for producer in sch.get_producers(what.stage.rv):
        block = sch.get(producer)
        if block.init is None and type(block.body) is BufferStore and len(sch.get_consumers(producer)) == 1:
            sch.compute_inline(producer)


def _size(axes: tuple[IterVar, ...]) -> int:
    return size_of([axis.dom.extent for axis in axes if axis.dom is not None])


def _steps(what: Product) -> int:
    """Steps of a tile: fewer where the product has few."""
    item = dtype_of(what.left.value if isinstance(what.left, Cast) else what.left).itemsize
    steps = STEP_BYTES // item
    while steps > STEP_BYTES // 4 // item and steps >= 2 * _size(what.steps):
        steps //= 2
    return steps


def _costs(what: Product, gpu: GpuMachine) -> dict[Choice, float]:
    """The cost of each tile: the turns in which the processors go through the tiles, by size and speed."""
    batch, m, n = [_size(part) for part in (what.batch, what.rows, what.columns)]
    found = {}
    for choice in CHOICES:
        tiles = batch * math.ceil(m / choice.rows) * math.ceil(n / choice.columns)
        found[choice] = math.ceil(tiles / gpu.processors) * choice.rows * choice.columns / choice.speed
    return found


def _group(what: Product, choice: Choice) -> int:
    extent = extent_of(what.columns)
    tiles = math.ceil(extent.value / choice.columns) if type(extent) is IntImm else 1
    return next(group for group in range(GROUP, 0, -1) if tiles % group == 0)
