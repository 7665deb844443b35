"""The rule for stages that work on one row together: reductions along it and what follows from them, in one kernel.

A softmax, a norm or a sum along an axis is a chain of stages over the same rows. Their loops over rows are fused. A group of
threads shares each row: the elements are interleaved between the threads, and reductions are combined across the group. Each
thread keeps the results of a whole row, and its elements if they are few; other elements of short rows are in shared memory. If
contiguous elements belong to different rows, neighbouring threads have neighbouring rows.
Not here: which stages form a chain (`row_stages.py`), how a reduction is combined (`lower_cross_thread_reduction`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.expr import IntImm
from ...infra.backend import GpuMachine
from ...schedule import LoopRV, Schedule
from .row_stages import HELD, Member, RowStages, is_held, reads_own, row_stages
from .stages import THREADS, one_loop_each, size_of

UNROLLED = 32
"""Most elements of a row that a thread goes over in unrolled code."""
WARP_ROW = 1024
"""Length of a row up to which one warp has it."""
COLUMNS = 32
"""Neighbouring rows of a block, if contiguous elements belong to different rows."""


@dataclass(slots=True, frozen=True)
class Shape:
    """Threads of a block: ``rows`` at a time on the axis ``row_axis``, ``lanes`` along each on ``lane_axis``."""

    rows: int
    row_axis: str
    lanes: int
    lane_axis: str


def bind_rows(sch: Schedule, group: RowStages, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a chain of stages and say how. Buffers that other stages read as well are copied for the chain."""
    passed = [m for m in group.members if m.store.buffer not in group.own and _readers(group, m)]
    for member in passed:
        sch.cache_write(member.stage.rv, 0, "global", [reader.stage.rv for reader in _readers(group, member)])
    if passed:
        first = group.members[0].stage.block.name
        group = next(found for found in row_stages(sch) if found.members[0].stage.block.name == first)
    return sch, _bind(sch, group, gpu)


def _readers(group: RowStages, member: Member) -> list[Member]:
    return [reader for reader in group.members if member.store.buffer in reader.reads]


def _shape(group: RowStages, gpu: GpuMachine) -> Shape:
    length, count = size_of(group.length), size_of(group.extents)
    most = min(THREADS, gpu.threads)
    if group.is_across:
        columns = min(COLUMNS, gpu.warp)
        lanes = most // columns
        while lanes > 1 and lanes > length:
            lanes //= 2
        return Shape(columns, "threadIdx.x", lanes, "threadIdx.y")
    lanes = gpu.warp
    if length > WARP_ROW:
        lanes = most if length <= 16 * WARP_ROW or count > gpu.processors else min(1024, gpu.threads)
    while lanes > 4 and lanes // 2 >= length:
        lanes //= 2
    rows = max(1, most // 2 // lanes)
    while rows > 1 and count < rows * gpu.processors:
        rows //= 2
    return Shape(rows, "threadIdx.y", lanes, "threadIdx.x")


def _bind(sch: Schedule, group: RowStages, gpu: GpuMachine) -> str:
    shape = _shape(group, gpu)
    loops = [_loops(sch, member) for member in group.members]
    top = sch.merge(*[head for head, *_ in loops]) if len(loops) > 1 else loops[0][0]
    if shape.rows > 1:
        block, row = sch.split(top, [None, shape.rows])
    else:
        block, row = top, None
    for member, (_, *along) in zip(group.members, loops):
        _lanes(sch, group, member, along[0] if along else None, shape)
    for member in group.members:
        _keep(sch, group, member, shape)
    sch.bind(block, "blockIdx.x")
    if row is not None:
        sch.bind(row, shape.row_axis)
    return f"{group.name} in rows, {shape.rows} of {shape.lanes} threads"


def _loops(sch: Schedule, member: Member) -> list[LoopRV]:
    """The loop of a stage over rows, and its loop along a row if there is one."""
    units = [loop for loop in member.stage.loops if loop not in member.rows and loop not in member.along]
    return one_loop_each(sch, member.stage, [*member.rows, *units], member.along)


def _lanes(sch: Schedule, group: RowStages, member: Member, loop: LoopRV | None, shape: Shape) -> None:
    """Distribute the loop of a stage along a row over the threads of the row. Values of a whole row are computed by every
    thread."""
    if loop is None:
        if member.store.buffer in group.own:
            return
        loop = sch.add_unit_loop(member.stage.rv)
    step, lane = sch.split(loop, [None, shape.lanes])
    sch.reorder(lane, step)
    sch.bind(lane, shape.lane_axis)
    if type(sch.get(step).extent) is IntImm and sch.get(step).extent.value <= UNROLLED:
        sch.unroll(step)


def _keep(sch: Schedule, group: RowStages, member: Member, shape: Shape) -> None:
    """Put the result of a stage into the memory that is nearest to its readers."""
    buffer = member.store.buffer
    if buffer not in group.own:
        return
    if not member.along or member.reduces:
        sch.set_scope(member.stage.rv, 0, "local")
        return
    steps = -(-size_of(member.along_extents) // shape.lanes)
    readers = _readers(group, member)
    if is_held(member) and steps <= UNROLLED and all([reads_own(member, reader) for reader in readers]):
        sch.set_scope(member.stage.rv, 0, "local")  # loops along a row are unrolled: registers
    elif is_held(member) and size_of(member.along_extents) * shape.rows * buffer.dtype.itemsize <= HELD:
        sch.set_scope(member.stage.rv, 0, "shared")


__all__ = ["bind_rows"]
