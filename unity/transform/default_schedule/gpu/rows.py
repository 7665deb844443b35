"""The rule for stages that work on one row together: reductions along it and what follows from them, in one kernel.

A softmax, a norm or a sum along an axis is a chain of stages over the same rows. Their loops over rows are fused. A group of
threads shares each row: the elements, or vectors of 16 bytes where rows consist of such, are interleaved between the threads, and
reductions are combined across the group. Each thread keeps the results of a whole row, and its elements if they are few; other
elements of short rows are in shared memory. If contiguous elements belong to different rows, neighbouring threads have
neighbouring rows.
Not here: which stages form a chain (`row_stages.py`), how a reduction is combined (`lower_cross_thread_reduction`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....ir.buffer import Buffer
from ....ir.build import const
from ....ir.expr import IntImm
from ....ir.stmt import BufferStore
from ....ir.walk import used_vars
from ....support.errors import ScheduleError
from ...infra.backend import GpuMachine
from ...schedule import LoopRV, Schedule
from .cells import VECTOR_BYTES, is_aligned
from .common.stages import THREADS, is_multiple, one_loop_each, size_of
from .row_stages import SHARED_BYTES, Member, RowStages, fits_shared, reads_own, row_stages

UNROLLED = 32
"""Most elements of a row that a thread goes over in unrolled code."""
AHEAD = 4
"""Steps of a long row that are unrolled together, so that several reads are on their way."""
WARP_ROW = 1024
"""Length of a row up to which one warp has it."""
ROW_BYTES = 64 * 1024
"""Bytes of a row up to which registers hold it, by more threads if need be."""
LEAST = 4
"""Least vectors of a row for which there are vectors."""
COLUMNS = 32
"""Neighbouring rows of a block, if contiguous elements belong to different rows."""


@dataclass(slots=True, frozen=True)
class Shape:
    """Threads of a block: ``rows`` at a time on the axis ``row_axis``, ``lanes`` along each on ``lane_axis``, and the
    elements that a thread reads or writes at once. ``is_long``: rows are too long for registers, each stage reads them again."""

    rows: int
    row_axis: str
    lanes: int
    lane_axis: str
    width: int = 1
    is_long: bool = False


def bind_rows(sch: Schedule, group: RowStages, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a chain of stages and say how. Buffers that other stages read as well are copied for the chain."""
    passed = [m for m in group.members if m.store.buffer not in group.own and _readers(group, m)]
    for member in passed:
        sch.cache_write(member.stage.rv, 0, "global", [reader.stage.rv for reader in _readers(group, member)])
    shape = _shape(group, gpu)
    if shape.is_long and _inline_elements(sch, group):
        return bind_rows(sch, _refreshed(sch, group), gpu)
    copied = _cached_reads(group) if shape.width > 1 and not shape.is_long else {}
    copies = [
        sch.get(sch.cache_read(readers[0].stage.rv, buffer.name, "local", [reader.stage.rv for reader in readers])).name
        for buffer, readers in copied.items()
    ]
    if passed or copied:
        group = _refreshed(sch, group)
        separate = set(copies) - {member.stage.name for member in group.members}
        if separate:  # in a kernel of its own it would fill registers that nobody reads
            raise ScheduleError(
                "E425", f"block {min(separate)} is not a stage over the rows of {group.anchor.stage.name}"
            )
    return sch, _bind(sch, group, shape)


def _refreshed(sch: Schedule, group: RowStages) -> RowStages:
    """The chain as it is after steps of the schedule."""
    return next(found for found in row_stages(sch) if found.anchor.stage.name == group.anchor.stage.name)


def _inline_elements(sch: Schedule, group: RowStages) -> bool:
    """Let the stages of a row that is too long for registers compute the elements they share again, rather than pass them through
    global memory. True if there are such."""
    found = [
        m for m in group.members if m.inner and not m.reduces and m.store.buffer in group.own and not fits_shared(m)
    ]
    for member in found:
        sch.compute_inline(member.stage.rv)
    return bool(found)


def _readers(group: RowStages, member: Member) -> list[Member]:
    return [reader for reader in group.members if member.store.buffer in reader.reads]


def _shape(group: RowStages, gpu: GpuMachine) -> Shape:
    length, count, width = size_of(group.anchor.inner_extents), size_of(group.extents), _width(group)
    most = min(THREADS, gpu.threads)
    if group.rows_contiguous:
        columns = min(COLUMNS, gpu.warp)
        lanes = most // columns
        while lanes > 1 and lanes > length:
            lanes //= 2
        return Shape(columns, "threadIdx.x", lanes, "threadIdx.y")
    lanes = gpu.warp
    if length > WARP_ROW:
        lanes = most if length <= 16 * WARP_ROW or count > gpu.processors else min(1024, gpu.threads)
        items = [buffer.dtype.itemsize for m in group.members for buffer in (*m.reads, m.store.buffer)]
        while width > 1 and length * max(items) <= ROW_BYTES and UNROLLED * lanes < length and 2 * lanes <= gpu.threads:
            lanes *= 2  # so that registers hold the row
    while lanes > 4 and lanes // 2 * width >= length:
        lanes //= 2
    divisor = next((n for n in (lanes, lanes // 2, lanes // 4) if n >= 8 and length // width % n == 0), lanes)
    lanes = divisor if width > 1 else lanes
    rows = max(1, most // 2 // lanes)
    while rows > 1 and count < rows * gpu.processors:
        rows //= 2
    ragged = not all([type(e) is IntImm for e in group.extents]) or count % rows != 0
    if ragged and rows > 1 and length % (lanes * width):  # two conditions, from which a reduction's is not proved
        width = 1
    shape = Shape(rows, "threadIdx.y", lanes, "threadIdx.x", width)
    near = [m.store.buffer for m in group.members if _fits_registers(group, m, shape)]
    read = [buffer for m in group.members if m.reduces for buffer in _read_along(m) if buffer not in near]
    own = [buffer for buffer in read if not _is_shared(group, buffer)]
    if _elements(length, shape) > UNROLLED:
        return replace(shape, is_long=True)
    return shape if set(own) <= _cached_reads(group).keys() else replace(shape, width=1)


def _width(group: RowStages) -> int:
    """Neighbours that a thread reads and writes at once: as many as fill the widest access, if rows consist of whole vectors."""
    inner = [m for m in group.members if m.inner]
    accesses = [(m, access) for m in inner for access in (*m.loads, *(() if m.reduces else (m.store,)))]
    items = [access.buffer.dtype.itemsize for _, access in accesses if access.buffer not in group.own]
    lengths = [e for m in inner for e in m.inner_extents]
    width = VECTOR_BYTES // max([*items, 1])
    while width > 1 and not all([is_multiple(e, width) and size_of([e]) >= LEAST * width for e in lengths]):
        width //= 2
    aligned = [
        len(m.inner) == 1 and all([is_aligned(a, m.inner_vars[0], width) for n, a in accesses if n is m]) for m in inner
    ]
    return max(1, width) if all(aligned) else 1


def _read_along(member: Member) -> set[Buffer]:
    """The buffers of which a stage reads other elements along a row."""
    return {load.buffer for load in member.loads if set(member.inner_vars) & set(used_vars(load))}


def _is_shared(group: RowStages, buffer: Buffer) -> bool:
    """True if the first reduction reads the same elements of a buffer for several rows: a copy of them is not a stage over rows."""
    anchor = group.anchor
    loads = [load for load in anchor.loads if load.buffer is buffer]
    return any([not set(anchor.row_vars) <= set(used_vars(load)) for load in loads])


def _cached_reads(group: RowStages) -> dict[Buffer, list[Member]]:
    """The buffers that the first reduction reads along rows, with the stages that read the same elements: registers take both."""
    anchor = group.anchor
    found: dict[Buffer, list[Member]] = {}
    at = {load.buffer: load.indices for load in anchor.loads}
    for buffer in sorted(_read_along(anchor) - group.own, key=lambda b: b.name):
        if _is_shared(group, buffer):
            continue
        source = replace(anchor, store=BufferStore(buffer, const(0, buffer.dtype), at[buffer]))
        readers = [m for m in group.members if buffer in m.reads and (m is anchor or m.inner) and reads_own(source, m)]
        if anchor in readers:
            found[buffer] = readers
    return found


def _bind(sch: Schedule, group: RowStages, shape: Shape) -> str:
    loops = [_loops(sch, member) for member in group.members]
    top = sch.merge(*[head for head, *_ in loops]) if len(loops) > 1 else loops[0][0]
    if shape.rows > 1:
        block, row = sch.split(top, [None, shape.rows])
    else:
        block, row = top, None
    for member, (_, *inner) in zip(group.members, loops):
        _lanes(sch, group, member, inner[0] if inner else None, shape)
    for member in group.members:
        _set_scope(sch, group, member, shape)
    sch.bind(block, "blockIdx.x")
    if row is not None:
        sch.bind(row, shape.row_axis)
    return f"{group.name} in rows, {shape.rows} of {shape.lanes} threads"


def _loops(sch: Schedule, member: Member) -> list[LoopRV]:
    """The loop of a stage over rows, and its loop along a row if there is one."""
    units = [loop for loop in member.stage.loops if loop not in member.rows and loop not in member.inner]
    return one_loop_each(sch, member.stage, [*member.rows, *units], member.inner)


def _lanes(sch: Schedule, group: RowStages, member: Member, loop: LoopRV | None, shape: Shape) -> None:
    """Distribute the loop of a stage along a row over the threads of the row. Values of a whole row are computed by every
    thread."""
    if loop is None:
        if member.store.buffer in group.own:
            return
        loop = sch.add_unit_loop(member.stage.rv)
    if shape.width > 1 and member.inner:
        loop, element = sch.split(loop, [None, shape.width])
        if member.reduces:
            sch.unroll(element)
        else:
            sch.vectorize(element)
    step, lane = sch.split(loop, [None, shape.lanes])
    sch.reorder(lane, step)
    sch.bind(lane, shape.lane_axis)
    steps = sch.get(step).extent
    if type(steps) is IntImm and steps.value * shape.width <= UNROLLED:
        sch.unroll(step)
    elif shape.is_long:
        sch.annotate(step, "unroll", AHEAD)


def _set_scope(sch: Schedule, group: RowStages, member: Member, shape: Shape) -> None:
    """Put the result of a stage into the memory that is nearest to its readers."""
    buffer = member.store.buffer
    if buffer not in group.own:
        return
    if not member.inner or member.reduces or _fits_registers(group, member, shape):
        sch.set_scope(member.stage.rv, 0, "local")
    elif fits_shared(member) and size_of(member.inner_extents) * shape.rows * buffer.dtype.itemsize <= SHARED_BYTES:
        sch.set_scope(member.stage.rv, 0, "shared")


def _elements(length: int, shape: Shape) -> int:
    """Elements of a row that a thread has."""
    return -(-length // (shape.lanes * shape.width)) * shape.width


def _fits_registers(group: RowStages, member: Member, shape: Shape) -> bool:
    """True if registers hold the elements of a row that a stage computes: loops along a row are unrolled then."""
    own_reads = all([reads_own(member, reader) for reader in _readers(group, member)])
    return (
        member.store.buffer in group.own
        and size_of(member.inner_extents) * member.store.buffer.dtype.itemsize <= ROW_BYTES
        and _elements(size_of(member.inner_extents), shape) <= UNROLLED
        and own_reads
    )
