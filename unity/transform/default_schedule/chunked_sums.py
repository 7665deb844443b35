"""Long sums in chunks: partial sums over neighbours along the reduction, and their sum.

Not here: how long a chunk is (``transform/tir/analysis/chunk_sizes.py``), the order of the other loops (``matmul.py``).
Invariant: partial sums live in one tile of registers, which is added to the tile of totals after each chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IntImm
from ..tir.analysis.chunk_sizes import chunk_of
from ..tir.loops.loop_partition import HINT
from .contraction import Contraction

if TYPE_CHECKING:
    from ..schedule import BlockRV, LoopRV, Schedule


def wants_chunks(contraction: Contraction) -> bool:
    """True if the error of the sum is visible: the operands have the precision of the floating-point sum."""
    types = {buffer.dtype for buffer in (contraction.data.buffer, contraction.weights.buffer, contraction.output)}
    return len(types) == 1 and contraction.output.dtype.is_float


def split_into_chunks(sch: Schedule, steps: list[LoopRV], most: int) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops of a reduction, outermost first, as loops over chunks and loops over the ``most`` steps of one; the former are none
    where the reduction is short, or where nothing could be proved of them fused: of parts of a symbolic loop in others."""
    extents = [e.value if type(e := sch.get(loop).extent) is IntImm else None for loop in steps]
    found = chunk_of(extents, most)
    if found is None:
        return [], steps
    first, size = found
    extent = extents[first - 1]
    if size == 1 or (extent is None and first > 1):
        return (steps[:first], steps[first:]) if first < len(steps) else ([], steps)
    chunk, step = sch.split(steps[first - 1], [None, size])
    if extent is None or extent % size:
        sch.annotate(step, HINT, 1)
    return [*steps[: first - 1], chunk], [step, *steps[first:]]


def sum_chunks(sch: Schedule, block: BlockRV, chunks: list[LoopRV], step: LoopRV, name: str) -> list[BlockRV]:
    """Make the reduction ``block`` named ``name`` one over the steps of a chunk (from loop ``step`` inwards), in its own buffer,
    and add the results up. The blocks on a tile but for ``block``: those that start the total and a chunk, and add to the total."""
    chunk = sch.fuse(*chunks) if len(chunks) > 1 else chunks[0]
    depth = [sch.get(loop) for loop in sch.get_loops(block)].index(sch.get(chunk))
    start = sch.decompose_reduction(block, chunk)
    partial = sch.rfactor(chunk, 0)
    total = sch.get_block(f"{name}_update")
    sch.merge(*[sch.get_loops(part)[depth] for part in (partial, total)])
    return [start, sch.decompose_reduction(partial, step), total]
