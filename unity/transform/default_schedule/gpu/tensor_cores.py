"""The rule for products and convolutions of narrow numbers: tensor cores multiply, a block of warps computes a tile.

Not here: what a block does (`warp_tiles.py`, and `warpgroup_tiles.py` for devices that have products of warpgroups).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ....ir.build import dtype_of, le
from ....ir.expr import IntImm
from ....ir.node import replace
from ....ir.scalar import Cast, IterVar
from ....ir.stmt import BufferStore, IfThenElse, Stmt, seq
from ....ir.types import Expr
from ...infra.backend import GpuMachine
from ...schedule import Schedule
from ...tir.analysis.choices import choose
from ..base import program_of, schedule_of
from .nests import replaced
from .product import Product, extent_of, products_of
from .stages import size_of
from .tensor_views import TensorView, view_of
from .tile_blocks import WARP
from .tile_sides import Side, side_of
from .warp_tiles import Form, WarpTile, kernel
from .warpgroup_tiles import WarpgroupTile, kernel as group_kernel

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


class Choice(NamedTuple):
    """Rows and columns of a tile, warps or warpgroups along them, and the part of the device's speed that is expected of it."""

    rows: int
    columns: int
    row_parts: int
    column_parts: int
    speed: float
    is_grouped: bool = False

    @property
    def sums(self) -> int:
        """Registers of a thread for its sums, where parts are warps."""
        return self.rows * self.columns // (self.row_parts * self.column_parts * WARP)


CHOICES = (
    Choice(128, 256, 2, 4, 1.0),  # a warp has 64 x 64: 8 loads of matrices for 32 products, 128 registers of sums
    Choice(128, 128, 2, 4, 0.9),  # 64 x 32: 6 loads for 16 products; two blocks have room in a processor of an H100
    Choice(64, 128, 2, 4, 0.75),  # 32 x 32: 4 loads for 8 products
    Choice(64, 64, 2, 2, 0.65),
    Choice(32, 64, 2, 2, 0.45),  # few rows: weights are read once, and what limits is memory
    Choice(16, 64, 1, 2, 0.3),
)
"""Tiles, largest first. A larger one reads less memory for each product; smaller ones occupy more multiprocessors."""
GROUP_CHOICES = (
    Choice(128, 256, 2, 1, 1.0, True),  # a warpgroup has 64 x 256: 128 registers of sums
    Choice(128, 128, 2, 1, 0.8, True),  # half of the operands' traffic in shared memory is the left one's
    Choice(64, 256, 1, 2, 0.7, True),
    Choice(64, 128, 1, 2, 0.5, True),
)
"""Tiles of warpgroups, where the device has their products."""
WARP_PART = 0.6
"""The part of the speed of warpgroups that products of warps reach there."""
MOST_SUMS = 64
"""Registers for sums that leave enough for the places of elements which are read one by one."""
STEP_BYTES = 128
"""Bytes of a tile's row of steps: a cache line."""
STAGES = 4
"""Stages of the software pipeline if shared memory has room for them: with four, copies run three tiles ahead."""
GROUP = 8
"""Most tiles of columns that blocks take before the next tile of rows."""
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
        if _form(product) is not None and _size(product.steps) >= FEW_STEPS
    ]  # fmt: skip


def bind_tensor_cores(sch: Schedule, what: Product, gpu: GpuMachine) -> tuple[Schedule, str] | None:
    """Replace a product by its kernel, and return the schedule of the new program and a description. None if the device lacks the
    instructions, and for float32 unless the target has ``-tf32``."""
    form = _form(what)
    if gpu.capability < 80 or gpu.warp != WARP or form is None or (form.operand == "tf32" and not gpu.tf32):
        return None
    if not choose(what.stage.block, "tensor_cores", (0, 1), 1):
        return None
    _inline_producers(sch, what)
    what = next(product for product in products_of(sch) if product.name == what.name)
    rows = extent_of(what.rows)
    tile = _tile(what, gpu, _size(what.rows))
    few = _tile(what, gpu, FEW_ROWS) if type(rows) is not IntImm else tile
    if tile is None or few is None:
        return None
    made, said = _kernel(what, form, tile)
    if few != tile:
        less, how = _kernel(what, form, few)
        made, said = IfThenElse(le(rows, FEW_ROWS), less, made), f"{how} up to {FEW_ROWS} rows, else {said}"
    func = program_of(sch)
    dead = what.after.block if what.after is not None else None
    body = seq(*replaced(func.body, {what.stage.block: made}, dead, what.store.buffer))
    return schedule_of(replace(func, body=body)), f"{what.name} on tensor cores in tiles of {said}"


def _sides(what: Product, rows: int, columns: int, steps: int) -> tuple[Side, Side]:
    left = side_of(what, "left", what.left, what.rows, rows, steps)
    return left, side_of(what, "right", what.right, what.columns, columns, steps)


def _tile(what: Product, gpu: GpuMachine, rows: int) -> WarpTile | WarpgroupTile | None:
    """The tile for a number of rows that costs least, with as many stages as fit into shared memory; None if not even two do."""
    wanted = choose(what.stage.block, "tile", range(len(GROUP_CHOICES) + len(CHOICES)), 0)
    found = list(islice(_tiles(what, gpu, rows), wanted + 1))
    return found[-1] if found else None


def _tiles(what: Product, gpu: GpuMachine, rows: int) -> Iterator[WarpTile | WarpgroupTile]:
    """The tiles that fit, by their costs."""
    block, costs, steps = what.stage.block, _costs(what, gpu, rows), _steps(what)
    for choice in sorted(costs, key=lambda choice: costs[choice]):
        sizes = choice.rows, choice.columns, steps, choice.row_parts, choice.column_parts
        if choice.is_grouped:
            grouped = WarpgroupTile(*sizes, STAGES)
            beside = all([side.copied_bytes >= LEAST_COPY for side in _sides(what, *sizes[:3])])
            if beside and grouped.bytes <= gpu.shared_bytes:
                yield grouped
            continue
        sides = _sides(what, *sizes[:3])
        room = gpu.shared_bytes // sum([side.bytes for side in sides])
        stages = choose(block, "stages", range(2, STAGES + 1), STAGES, room)
        crowded = any([side.single and choice.sums * (1 + side.single // 16) > MOST_SUMS for side in sides])
        if stages > 1 and not crowded:
            yield WarpTile(*sizes, stages)


def _kernel(what: Product, form: Form, tile: WarpTile | WarpgroupTile) -> tuple[Stmt, str]:
    """The kernel of a product, and how it was made."""
    sides = _sides(what, tile.rows, tile.columns, tile.steps)
    if isinstance(tile, WarpTile):
        return kernel(what, form, tile, *sides, _group(what, tile)), f"{tile} ({form.shape})"
    views = [view_of(what, side) for side in sides]
    reasons = [f"{side.buffer.name} {view}" for side, view in zip(sides, views) if isinstance(view, str)]
    tensors = [view for view in views if isinstance(view, TensorView)] if not reasons else []
    how = f"copied by threads: {', '.join(reasons)}" if reasons else "bulk copies"
    return group_kernel(what, tile, sides, tensors, _group(what, tile)), f"{tile} (wgmma, {how})"


def _form(what: Product) -> Form | None:
    """The instruction for a product."""
    left, right = [_narrow(value) for value in (what.left, what.right)]
    return FORMS.get((left, what.store.buffer.dtype.name)) if left == right else None


def _narrow(value: Expr) -> str:
    return dtype_of(value.value if isinstance(value, Cast) else value).name


def _inline_producers(sch: Schedule, what: Product) -> None:
    """Inline producers that only the product reads, such as the padding of an image, into the fill of its tiles."""
    for producer in sch.get_producers(what.stage.rv):
        block = sch.get(producer)
        if block.init is None and type(block.body) is BufferStore and len(sch.get_consumers(producer)) == 1:
            sch.compute_inline(producer)


def _size(axes: tuple[IterVar, ...]) -> int:
    return size_of([axis.dom.extent for axis in axes if axis.dom is not None])


def _item(what: Product) -> int:
    """Bytes of an element of the operands."""
    return dtype_of(what.left.value if isinstance(what.left, Cast) else what.left).itemsize


def _steps(what: Product) -> int:
    """Steps of a tile; fewer if the product has few."""
    item = _item(what)
    steps = STEP_BYTES // item
    while steps > STEP_BYTES // 4 // item and steps >= 2 * _size(what.steps):
        steps //= 2
    return steps


def _costs(what: Product, gpu: GpuMachine, m: int) -> dict[Choice, float]:
    """The cost of each choice for ``m`` rows: waves of tiles over the multiprocessors, times the size of a tile, over its speed."""
    batch, n = _size(what.batch), _size(what.columns)
    whole = _size(what.steps) >= STEP_BYTES // _item(what)  # tiles of warpgroups have rows of a cache line
    grouped = gpu.warpgroups and _narrow(what.left) in GROUPED and whole
    found = {}
    for choice in (*(GROUP_CHOICES if grouped else ()), *CHOICES):
        tiles = batch * math.ceil(m / choice.rows) * math.ceil(n / choice.columns)
        speed = choice.speed * (WARP_PART if grouped and not choice.is_grouped else 1)
        found[choice] = math.ceil(tiles / gpu.processors) * choice.rows * choice.columns / speed
    return found


def _group(what: Product, tile: WarpTile | WarpgroupTile) -> int:
    extent = extent_of(what.columns)
    tiles = math.ceil(extent.value / tile.columns) if type(extent) is IntImm else 1
    groups = [group for group in range(GROUP, 0, -1) if tiles % group == 0]
    return choose(what.stage.block, "group", groups, groups[0])
