"""The rule for pooling and depthwise convolutions: reductions over small windows that overlap.

A thread computes a few cells that are neighbours across memory. The elements of their windows are read once, into registers, where
the border of an image is put around them; threads that are neighbours have cells that are neighbours in memory. What follows a
reduction cell by cell is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....ir.analysis.threads import MIN_BLOCKS_PER_SM
from ....ir.build import dtype_of
from ....ir.expr import IntImm, Var
from ....ir.scalar import BufferLoad
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, used_vars
from ....support.errors import ScheduleError
from ...infra.backend import GpuMachine
from ...schedule import BlockRV, LoopRV, Schedule
from ...tir.analysis.loop_nests import slope
from .common.stages import Stage, is_simple, own_producers, size_of, stage_of, stages_of, threads_for, variables

CELLS = (4, 5, 7, 3, 2)
"""Cells of a thread, best first; a known number of cells is divided without a rest."""
REGISTERS = 64
"""Registers for windows at most that a thread has, and elements of a window."""
OTHER_REGISTERS = 64
"""Registers of a thread for sums, addresses and conditions."""
SM_REGISTERS = 65536
"""Registers of a multiprocessor, of all architectures that have code."""
WARPS = 8
"""Warps of each processor that must have work, for a thread to have several cells."""


@dataclass(slots=True, frozen=True)
class Windows:
    """A stage, the load whose windows overlap or not, and the extents of the iterators that go through a window."""

    stage: Stage
    load: BufferLoad
    steps: dict[Var, int]

    @property
    def name(self) -> str:
        """The name of its block."""
        return self.stage.name


def windows_of(sch: Schedule) -> list[Windows]:
    """The reductions over windows that are not bound."""
    return [found for found in [_windows(stage) for stage in stages_of(sch)] if found is not None]


def _windows(stage: Stage) -> Windows | None:
    store = stage.store
    if store is None or stage.block.init is None or not is_simple(stage):
        return None
    kinds = {v: kind for v, kind in zip(variables(stage), stage.kinds) if v is not None}
    known = [(v, e.value) for v, e in zip(variables(stage), stage.extents) if v is not None and type(e) is IntImm]
    steps = {v: n for v, n in known if kinds[v] == "R"}
    if len(steps) < list(kinds.values()).count("R") or math.prod(steps.values()) > REGISTERS:
        return None
    sliding = [
        load for load in collect(store.value, BufferLoad)
        if any([{kinds.get(v) for v in used_vars(index)} == {"S", "R"} for index in load.indices])
    ]  # fmt: skip
    return Windows(stage, sliding[0], steps) if len(sliding) == 1 else None


def _cells(windows: Windows, gpu: GpuMachine) -> tuple[Var | None, int, int]:
    """The iterator along which a thread has several cells, not the one along memory, how many, and registers for their windows."""
    stage, store = windows.stage, windows.stage.store
    assert store is not None
    spatial = {
        v: e for v, e, kind in zip(variables(stage), stage.extents, stage.kinds) if v is not None and kind == "S"
    }
    most = size_of(list(spatial.values())) // (WARPS * gpu.warp * gpu.processors)
    for cells in CELLS:
        for var, extent in reversed(spatial.items()):
            divides = type(extent) is not IntImm or extent.value % cells == 0
            held = _registers(windows, var, cells)
            if divides and cells <= most and store.indices[-1] is not var and 0 < held <= REGISTERS:
                return var, cells, held
    return None, 1, math.prod(windows.steps.values()) * _words(windows)


def _words(windows: Windows) -> int:
    return max(1, dtype_of(windows.load).bits // 32)


def _registers(windows: Windows, var: Var, cells: int) -> int:
    """Registers for the windows of cells along an iterator; 0 if they do not overlap there."""
    elements, overlap = _words(windows), False
    for index in windows.load.indices:
        slopes = {v: slope(index, v) for v in used_vars(index) if v in windows.steps or v is var}
        if any([step is None or step < 0 for step in slopes.values()]):
            return 0
        span = 1 + sum([(slopes[v] or 0) * (windows.steps[v] - 1) for v in slopes if v is not var])
        step = slopes.get(var) or 0
        overlap = overlap or 0 < step < span
        elements *= span + step * (cells - 1)
    return elements if overlap else 0


def bind_windows(sch: Schedule, windows: Windows, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a stage with what is around it."""
    stage, rv = windows.stage, windows.stage.rv
    spatial = stage.of_kind("S")
    if not spatial:
        raise ScheduleError("E425", f"block {stage.name} has no loop for threads")
    along, cells, held = _cells(windows, gpu)
    number = None if along is None else spatial.index(stage.loops[variables(stage).index(along)])
    after = _after(sch, stage)
    nests = [(spatial, stage.of_kind("R")), *([(after[1], [])] if after is not None else [])]
    axes = _axes([sch.get(loop).extent for loop in spatial], number, cells, after is None, gpu)
    made = [_split_cells(sch, loops, steps, number, cells, axes) for loops, steps in nests]
    if after is not None:
        sch.merge(made[0][-1], made[1][-1])
        sch.set_scope(rv, 0, "local")
    outer = sch.get_loops(rv)[: len(made[0])]
    if len(axes) == 2:
        outer = sch.split(_fused(sch, outer), [None, axes[-1][1]])
    elif len(outer) > 4:
        outer = [_fused(sch, outer[:-4]), *outer[-4:]]
    for loop, (axis, _) in zip(reversed(outer), reversed(axes)):
        sch.bind(loop, axis)
    for block in [*_cache_windows(sch, windows, outer[-1], cells), rv, *([after[0]] if after is not None else [])]:
        for loop in sch.get_loops(block):
            if sch.get(loop).kind == "serial" and type(sch.get(loop).extent) is IntImm:
                sch.unroll(loop)
    threads = math.prod([count for axis, count in axes if axis.startswith("thread") and count is not None])
    together = SM_REGISTERS // (threads * (held + OTHER_REGISTERS))  # unasked, the assembler spills to have more blocks
    sch.annotate(rv, MIN_BLOCKS_PER_SM, max(1, together))
    return sch, f"{stage.name} in windows, " + ("one for each thread" if cells == 1 else f"{cells} for each thread")


def _axes(
    extents: Sequence[Expr], number: int | None, cells: int, alone: bool, gpu: GpuMachine
) -> list[tuple[str, int | None]]:
    """The axes of a grid with their threads: one of all loops if the extents of the inner ones are known, else the last two loops
    have axes of their own. A stage that is not alone then needs whole blocks: what is read behind it is proved."""
    threads = most = threads_for(size_of(extents) // cells, gpu)
    known = [e.value for e in extents if type(e) is IntImm]
    while not alone and threads > gpu.warp and math.prod(known) // cells % threads:
        threads //= 2
    if all([type(e) is IntImm for e in extents[1:]]) and (alone or math.prod(known) // cells % threads == 0):
        return [("blockIdx.x", None), ("threadIdx.x", threads)]
    made = [
        ("blockIdx.y", None),
        ("threadIdx.y", max(1, most // gpu.warp)),
        ("blockIdx.z", None),
        ("threadIdx.x", gpu.warp),
    ]
    return [("blockIdx.x", None), *made] if len(extents) > 1 else made[2:]


def _split_cells(
    sch: Schedule, loops: Sequence[LoopRV], steps: Sequence[LoopRV], number: int | None, cells: int,
    axes: Sequence[tuple[str, int | None]],
) -> list[LoopRV]:  # fmt: skip
    """Split the loops of a nest over cells for a grid; those of a thread's own cells, and the steps, are inside."""
    outer, own, grid = list(loops), [], len(axes) > 2
    rows = axes[-3][1] if grid and len(loops) > 1 else None
    if number is not None:
        factors = [None, cells] if rows is None or number != len(loops) - 2 else [None, rows, cells]
        *groups, inner = sch.split(outer[number], factors)
        outer[number : number + 1] = groups
        own.append(inner)
    if rows is not None and len(outer) == len(loops):
        outer[-2:-1] = sch.split(outer[-2], [None, rows])
    if grid:
        outer[-1:] = sch.split(outer[-1], [None, axes[-1][1]])
    sch.reorder(*outer, *own, *steps)
    return outer


def _fused(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    return sch.fuse(*loops, preserve_unit_iters=False) if len(loops) > 1 else loops[0]


def _cache_windows(sch: Schedule, windows: Windows, at: LoopRV, cells: int) -> list[BlockRV]:
    """Bring the elements of windows to registers: their producer, if it copies for the stage alone, else a copy of them. A single
    window reads its elements where they are, past such a producer."""
    rv = windows.stage.rv
    copies = [one for one in own_producers(sch, rv) if windows.load.buffer in [w.buffer for w in sch.get(one).writes]]
    if cells == 1:
        for producer in copies:
            sch.compute_inline(producer)
        return []
    cached = copies[0] if copies else sch.cache_read(rv, windows.load.buffer.name, "local")
    if copies:
        sch.set_scope(cached, 0, "local")
    sch.compute_at(cached, at, preserve_unit_loops=True)
    inner = [loop for loop in map(sch.get, sch.get_loops(cached)) if loop.kind == "serial"]
    if any([type(loop.extent) is not IntImm for loop in inner]):
        raise ScheduleError("E425", f"how many elements a thread of block {windows.name} reads is not known")
    return [cached]


def _after(sch: Schedule, stage: Stage) -> tuple[BlockRV, list[LoopRV]] | None:
    """The block that alone reads what a stage computes, cell by cell, and its loops in the order of the stage's."""
    store, consumers = stage.store, sch.get_consumers(stage.rv)
    reader = stage_of(sch, consumers[0]) if len(consumers) == 1 else None
    if store is None or reader is None or not is_simple(reader) or reader.block.init is not None:
        return None
    first, *others = [load for load in collect(reader.block.body, BufferLoad) if load.buffer is store.buffer]
    loops = {v: loop for v, loop in zip(variables(reader), reader.loops) if v is not None}
    reads = {own: loops.get(index) for own, index in zip(store.indices, first.indices) if isinstance(index, Var)}
    cells = [v for v, kind in zip(variables(stage), stage.kinds) if kind == "S"]
    found = [reads.get(v) for v in cells if v is not None]
    same = all([structural_equal(load.indices, first.indices) for load in others])
    if not same or len(found) < len(cells) or len(set(found)) < len(reader.loops):
        return None
    order = [loop for loop in found if loop is not None]
    return (reader.rv, order) if len(order) == len(cells) == len(reader.loops) else None
