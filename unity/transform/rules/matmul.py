"""The rule for contractions: matrix products and channels-last convolutions as one register-tiled loop nest.

A tile of rows x columns is accumulated in registers over the whole reduction; columns run in vectors; the operand that rows share
is read from packed panels ``[columns / tile][reduction][tile]``, laid out at build where it is a constant. What consumes the
result element by element runs on the tile. Source of the shape of the nest: Goto, van de Geijn, "Anatomy of high-performance
matrix multiplication", ACM TOMS 34(3), 2008, without its cache blocking of the reduction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...ir.function import PrimFunc
from ...ir.stmt import Block
from ...support.errors import ScheduleError
from ..schedule import BlockRV, LoopRV, Schedule
from ..tir.tile_shape import Machine as TileMachine, tile_shape
from .base import Machine, Rule, Scheduled, mark
from .contraction import Contraction, contraction_of, extent_of, is_parameter
from .packing import Packing, take_packed

FUNC = "main"
UNROLLED = 4
"""Steps of the innermost reduction written out in one iteration."""
PARALLEL_WORK = 1 << 18
"""Multiply-adds from which on a program is shared between threads."""
DEFAULT_ROWS = 64
"""Rows assumed where their number is a symbol."""
PACKED_ROWS = 16
"""Rows from which on an operand that is no constant is worth packing in the program."""


def schedule_contraction(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Schedule a program with one contraction, blocks before it, and at most one block after it."""
    sch = Schedule(fn, error_render_level="none")
    func = next(iter(sch.mod.functions))
    sch.work_on(func)
    names = [b.name for b in _blocks(sch, func)]
    if len(set(names)) != len(names):
        return "two blocks have one name"
    found = [(b, contraction_of(b)) for b in _blocks(sch, func)]
    main = [(b, c) for b, c in found if isinstance(c, Contraction)]
    if len(main) != 1:
        reasons = [c for b, c in found if isinstance(c, str) and b.init is not None]
        return reasons[0] if reasons else "no contraction" if not main else "several contractions"
    block, what = main[0]
    if _touched(sch, sch.get_block(block.name)):
        return "its loops are scheduled already"
    try:
        return _schedule(sch, func, fn, what, constants, machine)
    except ScheduleError as problem:
        return f"a step does not apply: {problem.message}"


def _blocks(sch: Schedule, func: str) -> list[Block]:
    return [s.block for s in sch.state.blocks_below(sch.state.root(func))]


def _touched(sch: Schedule, block: BlockRV) -> bool:
    """Is a loop around the block anything but serial, or a binding more than a loop."""
    sref = sch.get_sref(block)
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    variables = [loop.loop_var for loop in loops]
    return (
        any([loop.kind != "serial" or loop.annotations for loop in loops])
        or list(sref.realize.iter_values) != variables
    )


def _schedule(
    sch: Schedule, func: str, fn: PrimFunc, what: Contraction, constants: Collection[int], machine: Machine
) -> Scheduled | str:
    lanes = machine.lanes(what.output.dtype.itemsize)
    width = extent_of(what.columns)
    if width is None or width < lanes:
        return f"{width} columns are less than a vector" if width is not None else "the number of columns is a symbol"
    row = max(what.rows, key=lambda axis: [e is axis.var for e in what.block.body.indices].index(True), default=None)  # type: ignore[attr-defined]
    height = 1 if row is None else extent_of(row) or DEFAULT_ROWS
    rows, vectors = tile_shape(height, width, TileMachine(lanes, machine.registers - 6))
    tile = vectors * lanes
    block = sch.get_block(what.block.name)
    consumers = sch.get_consumers(block)
    if len(consumers) > 1:
        return "several blocks consume the result"
    weights = is_parameter(fn, what.weights.buffer)
    packed = _pack(sch, block, what, weights, constants, tile, height)
    after = consumers[0] if consumers else sch.cache_write(block, 0, "local")
    if consumers:
        sch.set_scope(block, 0, "local")
    place = _tile(sch, block, what, row, rows, vectors, lanes)
    sch.reverse_compute_at(after, place)
    _finish(sch, block, after, what, lanes)
    made: Any = sch.mod[func]
    layout: dict[int, Packing] = {}
    if packed is not None and weights is not None and weights in constants:
        made = take_packed(made, weights, packed[0])
        layout[weights] = packed[1]
    reason = f"tile of {rows} x {tile}, " + ("packed at build" if layout else "packed" if packed else "not packed")
    return Scheduled(mark(made), reason, layout)


def _pack(
    sch: Schedule,
    block: BlockRV,
    what: Contraction,
    weights: int | None,
    constants: Collection[int],
    tile: int,
    height: int,
) -> tuple[str, Packing] | None:
    """Let the block read the weights from packed panels; (name of the copying block, layout)."""
    constant = weights is not None and weights in constants
    if not constant and height < PACKED_ROWS:
        return None
    if len(what.weight_order) != len(what.weights.indices):
        return None
    order = {var: k for k, var in enumerate(what.weight_order)}
    layout = Packing(
        tuple([order[axis.var] for axis in what.batch]),
        order[what.columns.var],
        tuple([order[axis.var] for axis in what.reductions]),
        tile,
    )
    axes = [axis.var for axis in what.block.iter_vars]
    chosen = [axes.index(var) for var in what.weight_order]
    copy = sch.reindex_cache_read(
        block, what.weights.buffer.name, "global", lambda *v: layout.indices(tuple([v[k].expr for k in chosen]))
    )
    if not constant:
        loops = dict(zip([axis.var.name for axis in sch.get(copy).iter_vars], sch.get_loops(copy)))
        outer, inner = sch.split(loops[what.columns.var.name], [None, tile])
        rest = [loops[axis.var.name] for axis in what.reductions]
        sch.reorder(outer, *rest, inner)
        sch.vectorize(inner)
    return sch.get(copy).name, layout


def _tile(sch: Schedule, block: BlockRV, what: Contraction, row: Any, rows: int, vectors: int, lanes: int) -> LoopRV:
    """Split and order the loops of the block; the loop under which one tile is computed."""
    loops = dict(zip([axis.var for axis in what.block.iter_vars], sch.get_loops(block)))
    j0, j1, j2 = sch.split(loops[what.columns.var], [None, vectors, lanes])
    outer = [loops[axis.var] for axis in what.batch]
    outer += [j0] + [loops[axis.var] for axis in what.rows if axis is not row]
    inner: list[LoopRV] = []
    if row is not None:
        i0, i1 = sch.split(loops[row.var], [None, rows])
        outer.append(i0)
        inner.append(i1)
    steps = [loops[axis.var] for axis in what.reductions]
    innermost = extent_of(what.reductions[-1])
    unrolled: list[LoopRV] = []
    if innermost is not None and innermost % UNROLLED == 0 and innermost > UNROLLED:
        steps[-1], k1 = sch.split(steps[-1], [None, UNROLLED])
        unrolled.append(k1)
    sch.reorder(*outer, *steps, *unrolled, *inner, j1, j2)
    for loop in (*unrolled, *inner, j1):
        sch.unroll(loop)
    sch.vectorize(j2)
    work = 1
    for axis in what.block.iter_vars:
        work *= extent_of(axis) or DEFAULT_ROWS
    if work >= PARALLEL_WORK:
        sch.parallel(sch.fuse(*outer))
    under: list[LoopRV] = sch.get_loops(block)[: -len([*steps, *unrolled, *inner, j1, j2])]
    return under[-1]


def _finish(sch: Schedule, block: BlockRV, after: BlockRV, what: Contraction, lanes: int) -> None:
    """The initialisation of the tile and what consumes it, in vectors."""
    depth = len(sch.get_loops(after))
    inner = 2 if what.rows else 1
    loops = sch.get_loops(block)
    init = sch.decompose_reduction(block, loops[-(len(what.reductions) + inner + 1 + _unrolled(sch, block, what))])
    *_, last = sch.get_loops(init)
    sch.vectorize(last)
    for loop in sch.get_loops(init)[-inner - 1 : -1]:
        sch.unroll(loop)
    *others, last = sch.get_loops(after)
    if depth and sch.get(last).extent.value > lanes:
        middle, last = sch.split(last, [None, lanes])
        sch.unroll(middle)
    sch.vectorize(last)
    if what.rows and len(others) > 0:
        sch.unroll(others[-1])


def _unrolled(sch: Schedule, block: BlockRV, what: Contraction) -> int:
    innermost = extent_of(what.reductions[-1])
    return int(innermost is not None and innermost % UNROLLED == 0 and innermost > UNROLLED)


CONTRACTION = Rule("contraction", schedule_contraction)
