"""Contractions on processors with tile registers (AMX): blocks of up to 32x32 outputs along the whole innermost reduction.

The block, its operands' layout and its steps are those of one tensor intrinsic, so that only loops over blocks are left to order.
Not here: contractions in vector registers (``matmul.py``). Invariant: the innermost reduction is whole tiles, else the
rule does not apply; rows that fill no whole number of tiles, or are not neighbours (strided convolutions), are copied into a
buffer where they do and are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.scalar import BufferLoad, IterVar
from ...ir.walk import used_vars
from ..auto_tensorize.dots import decided_intrinsic
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import slope
from .base import split_and_vectorize
from .common.choices import choose
from .common.tile_shape import divisors
from .contraction import Contraction, extent_of

if TYPE_CHECKING:
    from ..schedule import BlockRV, LoopRV, Schedule

SIDE = 16
"""Rows and columns of a tile."""
LEAST = 7
"""Rows from which on filling a tile up costs less than going without: tiles do eight times the work of dot products."""
FASTER = 8
"""Steps in tiles in the time of one without an instruction, for each neighbour along the reduction."""
CACHED = 0.5
"""The part of the second-level cache that data rows take which a core keeps near while it goes through the columns."""


@dataclass(slots=True, frozen=True)
class TileBlock:
    """One block: its rows and columns, the neighbours along the reduction that lie side by side in the weights, and the steps of
    the innermost reduction."""

    kind: str
    rows: int
    columns: int
    group: int
    depth: int

    @property
    def name(self) -> str:
        """The tensor intrinsic."""
        return f"amx_{self.rows}x{self.columns}x{self.depth}_{self.kind}_tiles"


KINDS = {
    ("bfloat16", "bfloat16", "float32"): ("bf16bf16f32", 2),
    ("uint8", "int8", "int32"): ("u8s8s32", 4),
    ("int8", "int8", "int32"): ("s8s8s32", 4),
}
"""Types of data, weights and output: the kind, and the group."""


def _kind_of(contraction: Contraction, machine: Machine) -> tuple[str, int]:
    """The kind and the group for the types of a contraction, ("", 0) where the machine has no tiles for them."""
    kind, group = KINDS.get(contraction.types, ("", 0))
    has = f"amx_{kind}" in machine.intrinsics and decided_intrinsic(contraction.block) is None
    return (kind, group) if has else ("", 0)


def tile_multiple(contraction: Contraction, row: IterVar | None, machine: Machine) -> tuple[int, float]:
    """The multiple of steps that fills tiles for the types of a contraction, 0 where there are none, or its rows are too few; how
    many times as fast they are as steps one by one."""
    height, group = extent_of(row) if row is not None else None, _kind_of(contraction, machine)[1]
    return (SIDE * group, FASTER * group) if height is not None and height >= LEAST else (0, 1.0)


def tile_block_of(contraction: Contraction, row: IterVar | None, machine: Machine) -> TileBlock | None:
    """The block for a contraction; None where the machine has no tiles for its types, or its extents do not fill them."""
    kind, group = _kind_of(contraction, machine)
    depth, height, width = (
        extent_of(contraction.reductions[-1]),
        extent_of(row) if row is not None else None,
        extent_of(contraction.columns),
    )
    plain = len(contraction.weight_order) == len(contraction.weights.indices)
    if not kind or not contraction.is_contiguous or not plain:
        return None
    if row is None or depth is None or height is None or width is None or depth % (SIDE * group) or height < LEAST:
        return None
    if height % SIDE and row_step(contraction.data, row) is None:
        return None
    rows = choose(contraction.block, "rows", (SIDE, 2 * SIDE), 2 * SIDE if -(-height // SIDE) % 2 == 0 else SIDE)
    columns = SIDE if width <= SIDE else choose(contraction.block, "columns", (SIDE, 2 * SIDE), 2 * SIDE)
    return TileBlock(kind, rows, columns, group, depth)


def row_step(data: BufferLoad, row: IterVar) -> tuple[int, int] | None:
    """The axis of the data along which rows lie, and how far apart they are; None where they lie along several."""
    axes = [k for k, e in enumerate(data.indices) if row.var in used_vars(e)]
    step = slope(data.indices[axes[0]], row.var) if len(axes) == 1 else None
    return (axes[0], step) if step is not None and step > 0 else None


def schedule_tile_block(
    sch: Schedule, block: BlockRV, after: BlockRV, contraction: Contraction, row: IterVar, shape: TileBlock, lanes: int,
    shared: bool, machine: Machine,
) -> LoopRV:  # fmt: skip
    """Blocks outside, the other reductions around each, the intrinsic inside; the consumer on each block. The loop around it."""
    loops = dict(zip([axis.var for axis in contraction.block.iter_vars], sch.get_loops(block)))
    j0, j1 = sch.split(loops[contraction.columns.var], [None, shape.columns])
    i0, i1 = sch.split(loops[row.var], [None, shape.rows])
    cached = _rows_in_cache(contraction, row, shape, machine)
    lines = [loops[axis.var] for axis in contraction.rows if axis is not row]
    outer = [loops[axis.var] for axis in contraction.batch]
    if cached is not None:
        i_outer, i0 = sch.split(i0, [None, cached])
        outer.append(i_outer)
    outer += [j0, *lines, i0]
    *around, depth = [loops[axis.var] for axis in contraction.reductions]
    sch.reorder(*outer, *around, i1, j1, depth)
    at: LoopRV = sch.fuse(*outer) if shared and len(outer) > 1 else outer[-1]
    if shared:
        sch.parallel(at)
    sums = sch.cache_write(block, 0, "amx.tile")
    sch.reverse_compute_at(sums, at)
    sch.reverse_compute_at(after, at)
    init = sch.decompose_reduction(block, around[0] if around else i1)
    split_and_vectorize(sch, sch.get_loops(after)[-1], lanes, unroll=True)
    side = f"{shape.rows}x{shape.columns}_{shape.kind}"
    sch.tensorize(sch.get_loops(init)[-2], f"amx_fill_{side}")
    sch.tensorize(sch.get_loops(sums)[-2], f"amx_store_{side}")
    sch.tensorize(i1, shape.name)
    return at


def _rows_in_cache(contraction: Contraction, row: IterVar, shape: TileBlock, machine: Machine) -> int | None:
    """Blocks of rows that stay in cache together, a divisor of all; None where all do."""
    height = extent_of(row)
    assert height is not None
    count = -(-height // shape.rows)
    line = shape.depth * contraction.data.buffer.dtype.itemsize
    most = max(1, int(CACHED * machine.second_level) // (line * shape.rows))
    cached = choose(contraction.block, "rows_near", divisors(count, count), max(divisors(count, most)))
    return cached if cached < count else None


__all__ = ["TileBlock", "row_step", "schedule_tile_block", "tile_block_of", "tile_multiple"]
