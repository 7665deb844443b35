"""Long sums in chunks: partial sums over neighbours along the reduction, and their sum.

The rounding error of one running sum of K products grows with the root of K; with chunks it grows with the root of a chunk and
hardly with K. Source: Blanchard, Higham, Mary, "A class of fast and accurate summation algorithms", SIAM J. Sci. Comput. 42(3),
2020; the chunk is as long as the blocks of the reduction in vendors' libraries. Not here: the order of the other loops
(``matmul.py``). Invariant: partial sums live in one tile of registers, which is added to the tile of totals after each chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...ir.expr import IntImm
from ..tir.loop_partition import HINT
from .contraction import Contraction

if TYPE_CHECKING:
    from ..schedule import BlockRV, LoopRV, Schedule

CHUNK = 192
"""Most steps of a chunk."""
LONG = 256
"""Steps from which on a reduction is worth chunks."""


def wants_chunks(what: Contraction) -> bool:
    """Is the error of the sum seen: do the operands have the precision of the floating-point sum."""
    types = {buffer.dtype for buffer in (what.data.buffer, what.weights.buffer, what.output)}
    return len(types) == 1 and what.output.dtype.is_float


def cut_into_chunks(sch: Schedule, steps: list[LoopRV]) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops of a reduction, outermost first, as loops over chunks and loops over the steps of one; the former are none where
    the reduction is short. A chunk is made of whole loops and of a part of the loop around them: a divisor of its extent where one
    is long enough, else the last chunk of that loop is shorter."""
    extents = [e.value if type(e := sch.get(loop).extent) is IntImm else None for loop in steps]
    if None not in extents and math.prod([e or 1 for e in extents]) < LONG:
        return [], steps
    inside, first = 1, len(steps)
    while (extent := extents[first - 1]) is not None and inside * extent <= CHUNK:
        inside, first = inside * extent, first - 1
    size = _size(extent, CHUNK // inside)
    if extent is None and first > 1:
        size = 1  # of a loop fused with such a part nothing could be proved
    if size == 1:
        return (steps[:first], steps[first:]) if first < len(steps) else ([], steps)
    chunk, step = sch.split(steps[first - 1], [None, size])
    if extent is None or extent % size:
        sch.annotate(step, HINT, 1)
    return [*steps[: first - 1], chunk], [step, *steps[first:]]


def _size(extent: int | None, most: int) -> int:
    """Steps of a loop in one chunk."""
    if extent is None:
        return most
    divisor = max([n for n in range(1, most + 1) if extent % n == 0])
    return divisor if 2 * divisor > most or most < 4 else -(-extent // -(-extent // most))


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
