"""The loop nest of a contraction: tiles of rows x columns, the reduction inside them, what consumes the result on each tile.

Not here: which contractions, and what their operands look like (`matmul.py`).

Long sums go in chunks, whose sums live in one tile of registers, which is added to the tile of totals after each chunk; how long a
chunk is stands in `transform/default_schedule/common/tile_shape.py`. Where few rows wait for long panels of weights, chunks go
outside of the tiles: the part of a panel that a chunk needs is used for all rows while it is near, and the next one fetched
meanwhile.
"""

from __future__ import annotations

import math
from typing import Any

from ...ir.constant import is_int
from ...ir.expr import IntImm
from ..auto_tensorize.dots import Dot
from ..infra.backend import Machine
from ..schedule import BlockRV, LoopRV, Schedule
from ..tir.analysis.parallel_cost import FEW, SHARED_WORK
from ..tir.buffers.inject_prefetch import SOFTWARE_PREFETCH_ONCE, SOFTWARE_PREFETCH_PANEL
from ..tir.loops.loop_partition import HINT
from .base import split_and_vectorize
from .common.choices import choose, choose_whether
from .common.tile_shape import CHUNK, SHARED_TILES, UNKNOWN, chunk_of, divisors, most_rows, tile_cost, tile_shape
from .contraction import Contraction, extent_of, steps_of

UNROLLED = 16
"""Vectors of sums updated in one iteration: small tiles write several steps of the innermost reduction out, others one."""
CACHED = 0.25
"""The part of the second-level cache in which weights stay while a core goes through the rows."""
FETCHED = 0.75
"""Most of the second-level cache that a panel of weights takes which is fetched while the panel before it is used: it holds most of
both."""
LONG_PANEL, TOTALS = 0.25, 1 << 14
"""The least of the second-level cache that a panel takes whose chunks go outside of the tiles, and bytes of their totals at most:
the first-level cache keeps these beside a chunk."""
NARROWER = 1.05
"""The cost of narrower tiles, of which there are enough for the threads, beside that of the best, at most."""
MOST_ROWS, MOST_VECTORS = 16, 8
"""Rows and vectors of a tile, at most."""
WRITTEN = (1, 2, 4, 8)
"""Steps that are written out."""
CHUNKS = (96, 128, 192, 256)
"""Steps of a chunk of a long sum: its rounding error grows with them."""


def tile_size(
    contraction: Contraction, height: int, width: int, lanes: int, machine: Machine, even: bool
) -> tuple[int, int]:
    """Rows and vectors of a tile of ``height`` rows x ``width`` vectors; with ``even`` all tiles have as many vectors."""
    rows, vectors = tile_shape(height, width * lanes, lanes, machine.registers)
    shared = width // SHARED_TILES
    if 0 < shared < vectors and _is_long(contraction, shared * lanes, machine):
        cost, *narrow = tile_cost(height, shared * lanes, lanes, machine.registers)
        wide = tile_cost(height, width * lanes, lanes, machine.registers)[0]
        if cost * width <= NARROWER * wide * shared and narrow[0] < steps_of(contraction.rows):
            rows, vectors = narrow
    candidates = [v for v in range(1, max(vectors, MOST_VECTORS) + 1) if not even or width % v == 0]
    if even:
        most = max([v for v in candidates if v <= vectors])
        rows, vectors = tile_shape(height, most * lanes, lanes, machine.registers)
        vectors = vectors if vectors in candidates else 1
    vectors = choose(contraction.block, "vectors", candidates, vectors, width)
    most = min(height, most_rows(vectors, machine.registers))
    return choose(contraction.block, "rows", range(1, MOST_ROWS + 1), rows, most), vectors


def tile_nest(
    sch: Schedule, block: BlockRV, after: BlockRV, contraction: Contraction, row: Any, rows: int, vectors: int, lanes: int,
    dot: Dot | None, machine: Machine,
) -> LoopRV:  # fmt: skip
    """Tiles outside, the reduction inside them in chunks, the tile unrolled and in vectors (or in dot products of groups of the
    reduction); the consumer on each tile. The loop around each tile."""
    loops = dict(zip([axis.var for axis in contraction.block.iter_vars], sch.get_loops(block)))
    j0, j1, j2 = sch.split(loops[contraction.columns.var], [None, vectors, lanes])
    lines = [loops[axis.var] for axis in contraction.rows if axis is not row]
    inner: list[LoopRV] = []
    outer_rows: list[LoopRV] = []
    if row is not None:
        i0, i1 = sch.split(loops[row.var], [None, rows])
        extent = sch.get(i0).extent
        count = extent.value if type(extent) is IntImm else 1
        cached = choose(contraction.block, "rows_near", divisors(count, count), count)
        if cached < count:
            i_outer, i0 = sch.split(i0, [None, cached])
            outer_rows.append(i_outer)
        lines.append(i0)
        inner.append(i1)
    outer = [*[loops[axis.var] for axis in contraction.batch], *outer_rows]
    single = all([is_int(sch.get(loop).extent, 1) for loop in lines]) or is_int(sch.get(j0).extent, 1)
    rows_outside = _weights_cached(contraction, machine)
    if not single:
        rows_outside = choose_whether(contraction.block, "rows_outside", rows_outside)
    steps = [loops[axis.var] for axis in contraction.reductions]
    unrolled: list[LoopRV] = []
    grouped: list[LoopRV] = []
    if dot is not None:
        steps[-1], k2 = sch.split(steps[-1], [None, dot.group])
        grouped.append(k2)
    chunks: list[LoopRV] = []
    if wants_chunks(contraction):
        chunks, steps = split_into_chunks(sch, steps, choose(contraction.block, "chunk", CHUNKS, CHUNK))
    innermost = sch.get(steps[-1])
    extent = innermost.extent.value if type(innermost.extent) is IntImm and not innermost.annotations else 0
    even = [n for n in WRITTEN if n == 1 or (extent % n == 0 and extent > n)]
    default = next((n for n in (4, 2) if rows * vectors * n <= UNROLLED), 1)
    written = choose(contraction.block, "unrolled", WRITTEN, default if default in even else 1)
    if written > 1 and written in even:
        steps[-1], k1 = sch.split(steps[-1], [None, written])
        unrolled.append(k1)
    elif written > 1:  # whatever is left over: LLVM writes a loop of its own for it
        sch.annotate(steps[-1], "unroll", written)
    inside: list[LoopRV] = []
    if chunks and not rows_outside and not outer_rows:
        few = not single and _has_few_rows(contraction, vectors * lanes)
        worth = (
            _is_long(contraction, vectors * lanes, machine) if few else _is_far(contraction, vectors * lanes, machine)
        )
        if (few or worth) and choose_whether(contraction.block, "chunks_outside", worth):
            most = TOTALS // (rows * vectors * lanes * contraction.output.dtype.itemsize)
            lines, inside = ([], lines) if few else _near_lines(sch, lines, most)
    outer += [*lines, j0] if rows_outside else [j0, *lines]
    sch.reorder(*outer, *chunks, *inside, *steps, *unrolled, *inner, j1, j2, *grouped)
    panels, at = 0, outer[-1]
    if is_large(contraction):
        panel = _panel(contraction, vectors * lanes)
        if at is not j0 and choose_whether(contraction.block, "prefetch", panel <= FETCHED * machine.second_level):
            panels = outer.index(j0) + 1
        at = _parallelize(sch, outer, panels)
    sch.reverse_compute_at(after, at)
    if chunks:
        on_tile = sum_chunks(sch, block, chunks, steps[0], contraction.block.name, inside)
        if inside:  # what a chunk needs is fetched while the last tiles use what the one before needed
            loop = sch.get_loops(sch.get_block(f"{contraction.block.name}_update"))[-4 - len(inner)]
            sch.annotate(loop, SOFTWARE_PREFETCH_PANEL, 1)
            sch.annotate(loop, SOFTWARE_PREFETCH_ONCE, int(machine.streams and not lines))
    else:
        on_tile = [sch.decompose_reduction(block, steps[0])]
    for loop in (*unrolled, *inner, j1):
        sch.unroll(loop)
    if dot is None:
        sch.vectorize(j2)
    for part in on_tile:
        *others, last = sch.get_loops(part)[-2 - len(inner) :]
        sch.vectorize(last)
        for loop in others:
            sch.unroll(loop)
    if dot is not None:
        sch.tensorize(j2, dot.name)
    _consume(sch, after, at, lanes, 1 + len(inner) if inside else None)
    return at


def _panel(contraction: Contraction, columns: int) -> int:
    """Bytes of the weights that a tile of so many columns reads."""
    return steps_of(contraction.reductions, UNKNOWN) * columns * contraction.weights.buffer.dtype.itemsize


def _has_few_rows(contraction: Contraction, columns: int) -> bool:
    """True if the totals of all rows of so many columns stay in the first-level cache."""
    return steps_of(contraction.rows, UNKNOWN) * columns * contraction.output.dtype.itemsize <= TOTALS


def _is_long(contraction: Contraction, columns: int, machine: Machine) -> bool:
    """True if few rows wait for panels of so many columns, long ones beside the second-level cache, and enough for the threads."""
    is_long = machine.streams and _panel(contraction, columns) >= LONG_PANEL * machine.second_level
    panels = -(-(extent_of(contraction.columns) or 0) // columns)
    return is_long and panels >= SHARED_TILES and _has_few_rows(contraction, columns) and wants_chunks(contraction)


def _is_far(contraction: Contraction, columns: int, machine: Machine) -> bool:
    """True if the panels of so many columns do not stay in the second-level cache from tile to tile."""
    return machine.streams and wants_chunks(contraction) and _panel(contraction, columns) > machine.second_level


def _near_lines(sch: Schedule, lines: list[LoopRV], most: int) -> tuple[list[LoopRV], list[LoopRV]]:
    """Loops over tiles, outermost first, as those over groups and those over the at most so many tiles of one; one may be split."""
    inside: list[LoopRV] = []
    outer, left = [*lines], most
    while outer and left > 1:
        extent = sch.get(outer[-1]).extent
        count = extent.value if type(extent) is IntImm else 0
        size = max(divisors(count, left), default=0)
        if size > 1 or count == 1:
            loop = outer.pop()
            if size < count:
                group, loop = sch.split(loop, [None, size])
                outer.append(group)
            inside.insert(0, loop)
        left //= max(size, 1)
        if size < count or not count:
            break
    return (outer, inside) if left < most else (lines, [])


def _weights_cached(contraction: Contraction, machine: Machine) -> bool:
    """True if the weights stay in cache beside more rows than columns: then rows go outside, so that each is read once, and threads
    keep to their rows from one program to the next."""
    extents = [extent_of(axis) for axis in (*contraction.rows, contraction.columns, *contraction.reductions)]
    if None in extents:
        return False
    rows = math.prod([extent_of(axis) or 1 for axis in contraction.rows])
    columns = extent_of(contraction.columns) or 1
    size = columns * steps_of(contraction.reductions) * contraction.weights.buffer.dtype.itemsize
    return rows > columns and size <= CACHED * machine.second_level


def _parallelize(sch: Schedule, outer: list[LoopRV], panels: int) -> LoopRV:
    """Share loops over tiles between threads; returns the innermost. Loops of symbolic extent stay by themselves (nothing could be
    proved of a fused one): those before them are shared where they are enough, else the first of them is. The first ``panels``
    loops go over panels of weights, the others over tiles that read one: where the loops allow, and there are several, panels are
    fetched ahead."""
    extents = [sch.get(loop).extent for loop in outer]
    fixed = [e.value if type(e) is IntImm else 0 for e in extents]
    count = fixed.index(0) if 0 in fixed else len(outer)
    first = sch.fuse(*outer[:count]) if count > 1 else outer[0]
    enough = count == len(outer) or (count > 0 and math.prod(fixed[:count]) >= FEW)
    sch.parallel(first if enough else outer[count])
    tiles = math.prod(fixed[panels:count])
    if 0 < panels <= count and math.prod(fixed[:panels]) > 1 and (tiles > 1 or count < len(outer)):
        sch.annotate(first, SOFTWARE_PREFETCH_PANEL, tiles)
    return first if count == len(outer) else outer[-1]


def _consume(sch: Schedule, after: BlockRV, at: LoopRV, lanes: int, axes: int | None) -> None:
    """The consumer on a tile: its last loop in vectors, the others of the tile, its last ``axes``, unrolled."""
    around = sch.get_loops(after)
    inner = around[[sch.get(loop) for loop in around].index(sch.get(at)) + 1 :]
    if not inner:
        return
    *others, last = inner if axes is None else inner[-axes:]
    split_and_vectorize(sch, last, lanes, unroll=True)
    for loop in others:
        sch.unroll(loop)


def transpose_tile(sch: Schedule, then: BlockRV, copy: BlockRV, at: LoopRV, rows: int) -> None:
    """Let the block that transposes a tile follow it: rows of the tile are neighbours in its output."""
    sch.set_scope(copy, 0, "local")
    sch.reverse_compute_at(then, at)
    *_, last = sch.get_loops(then)
    extent = sch.get(last).extent
    if type(extent) is IntImm and extent.value <= rows:
        sch.unroll(last)


def is_large(contraction: Contraction) -> bool:
    """True if there are enough multiply-adds to share between threads."""
    return choose_whether(contraction.block, "parallel", steps_of(contraction.block.iter_vars, UNKNOWN) >= SHARED_WORK)


def wants_chunks(contraction: Contraction) -> bool:
    """True if the error of the sum is visible: the operands have the precision of the floating-point sum."""
    return len(set(contraction.types)) == 1 and contraction.output.dtype.is_float


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


def sum_chunks(
    sch: Schedule, block: BlockRV, chunks: list[LoopRV], step: LoopRV, name: str, tiles: list[LoopRV] | None = None
) -> list[BlockRV]:
    """Make the reduction ``block`` named ``name`` one over the steps of a chunk (from loop ``step`` inwards), in its own buffer,
    and add the results up; loops over ``tiles`` go inside of chunks. The blocks on a tile but for ``block``: those that start the
    total and a chunk, and add to the total."""
    chunk = sch.fuse(*chunks) if len(chunks) > 1 else chunks[0]
    tile = (sch.fuse(*tiles) if len(tiles) > 1 else tiles[0]) if tiles else chunk
    around = [sch.get(loop) for loop in sch.get_loops(block)]
    depth = around.index(sch.get(tile))
    start = sch.decompose_reduction(block, chunk)
    partial = sch.rfactor(chunk, 0)
    total = sch.get_block(f"{name}_update")
    sch.merge(*[sch.get_loops(part)[depth] for part in (partial, total)])
    return [start, sch.decompose_reduction(partial, step), total]
