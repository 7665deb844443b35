"""The rule for any nest whose cells are independent: one thread for each cell, or for a vector of neighbours in memory.

The loops over cells are fused and distributed over blocks of threads; reductions run inside a thread.
"""

from __future__ import annotations

from ....ir.buffer import Buffer
from ....ir.build import const, dtype_of
from ....ir.expr import Call, IntImm, Var
from ....ir.scalar import BufferLoad, Div, FloorDiv, FloorMod, Mod
from ....ir.stmt import BufferStore
from ....ir.types import Expr
from ....ir.walk import collect, rewrite, used_vars
from ....support.errors import ScheduleError
from ...infra.backend import GpuMachine
from ...schedule import Schedule
from ...tir.analysis.loop_nests import stride_class
from ...tir.vectors.vectorize_loop import BRANCHING
from ..common.choices import choose
from .common.stages import Stage, distribute_loop, is_multiple, one_loop_each, size_of, threads_for, variables

VECTOR_BYTES = 16
"""Most bytes that a thread reads or writes at once."""


def bind_cells(sch: Schedule, stage: Stage, gpu: GpuMachine, count: bool = True) -> tuple[Schedule, str]:
    """Bind a stage and say how. ``count``: use an iterator that counts its cells, if the stage can have one."""
    cells, steps = stage.of_kind("S"), [[loop] for loop in stage.loops if loop not in stage.of_kind("S")]
    most = _lanes(stage, gpu)
    lanes = choose(stage.block, "lanes", [most >> part for part in range(most.bit_length())], most)
    if lanes > 1 and type(stage.extents[-1]) is not IntImm and not _goes_through_all(stage):
        return _bind_row_vectors(sch, stage, gpu, lanes)
    loop, *_ = one_loop_each(sch, stage, cells, *steps, count=count)
    size = size_of([e for e, kind in zip(stage.extents, stage.kinds) if (kind or "S") == "S"])
    threads = choose_threads(stage, size // lanes, gpu)
    distribute_loop(sch, loop, threads, lanes)
    return sch, f"{stage.name} by {threads} threads" + (f" of {lanes}" if lanes > 1 else "")


def bind_fused_cells(sch: Schedule, stage: Stage, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a stage by its own iterators and say how."""
    return bind_cells(sch, stage, gpu, count=False)


def bind_axes(sch: Schedule, stage: Stage, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a stage with a grid of several axes and say how, for extents of which nothing can be proved once they are fused.
    Threads run along the innermost loop, blocks along the two longest others; the other loops are serial."""
    cells = stage.of_kind("S")
    steps = [loop for loop in stage.loops if loop not in cells]
    if not cells:
        raise ScheduleError("E425", f"block {stage.name} has no loop for threads")
    *outer, inner = cells
    threads = choose_threads(stage, size_of(stage.extents), gpu)
    block, thread = sch.split(inner, [None, threads])
    longest = sorted(outer, key=lambda loop: size_of([sch.get(loop).extent]))[-2:]
    sch.reorder(*longest, block, thread, *[loop for loop in outer if loop not in longest], *steps)
    for loop, axis in zip([*longest[:1], block, *longest[1:]], ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
        sch.bind(loop, axis)
    sch.bind(thread, "threadIdx.x")
    return sch, f"{stage.name} by axes"


def _bind_row_vectors(sch: Schedule, stage: Stage, gpu: GpuMachine, lanes: int) -> tuple[Schedule, str]:
    """Bind a stage whose rows have a length that is not known, but are whole vectors: threads count these."""
    *outer, inner = stage.loops
    vector, lane = sch.split(inner, [None, lanes])
    loop = sch.fuse(*outer, vector, preserve_unit_iters=False) if outer else vector
    threads = choose_threads(stage, size_of(stage.extents) // lanes, gpu)
    distribute_loop(sch, loop, threads)
    sch.vectorize(lane)
    return sch, f"{stage.name} by {threads} threads of {lanes}"


def choose_threads(stage: Stage, cells: int, gpu: GpuMachine) -> int:
    """Threads of a block for the cells of a stage."""
    counts = [gpu.warp << part for part in range(6) if gpu.warp << part <= gpu.threads]
    return choose(stage.block, "threads", counts, threads_for(cells, gpu))


def _lanes(stage: Stage, gpu: GpuMachine) -> int:
    """The number of contiguous elements that a thread computes: as many as fill its widest access, if there is work for all
    threads."""
    store = stage.store
    if store is None or not stage.loops or any([kind != "S" for kind in stage.kinds]):
        return 1
    accesses = [store, *collect(store.value, BufferLoad)]
    widest = max([access.buffer.dtype.itemsize for access in accesses])
    lanes: int = max(1, VECTOR_BYTES // widest)
    count = size_of(stage.extents)
    if lanes == 1 or count < lanes * gpu.warp * gpu.processors or store.predicate is not None or _is_long(store.value):
        return 1
    inner = stage.extents[-1]
    if _goes_through_all(stage):
        return lanes  # one after another in memory; the last vector may hang over
    if not is_multiple(inner, lanes):
        return 1
    var = variables(stage)[-1]
    along = var is not None and all([is_aligned(access, var, lanes) for access in accesses])
    return lanes if along and stride_class(store, var) == 1 else 1  # type: ignore[arg-type]


def _is_long(value: Expr) -> bool:
    """True if a cell takes a function that branches or divides inside, or a division of integers by a number that is not known: a
    vector of such cells fills the registers, and does not wait for memory."""
    divisions = collect(value, (Div, FloorDiv, FloorMod, Mod))
    long = any([dtype_of(node).is_integral and type(node.b) is not IntImm for node in divisions])
    return long or any([call.op_name in (*BRANCHING, "T.pow") for call in collect(value, Call)])


def _goes_through_all(stage: Stage) -> bool:
    """True if all accesses go over whole compact buffers in the order of the loops, and the place of a cell serves nothing else."""
    store = stage.store
    if store is None or not all([_same_cell(a, store, stage) for a in (store, *collect(store.value, BufferLoad))]):
        return False
    without = rewrite(store.value, {BufferLoad: lambda load: const(0, dtype_of(load))})
    return not set(used_vars(without)) & set(variables(stage))


def _same_cell(access: BufferLoad | BufferStore, store: BufferStore, stage: Stage) -> bool:
    """True if an access goes over all of a compact buffer in the order of the loops."""
    if len(access.indices) != len(stage.loops) or access.buffer.strides:
        return False
    order = all([index is var for index, var in zip(access.indices, variables(stage))])
    return order and _extents_equal(access.buffer, store.buffer)


def _extents_equal(a: Buffer, b: Buffer) -> bool:
    same = [
        x is y or (type(x) is IntImm and type(y) is IntImm and x.value == y.value) for x, y in zip(a.shape, b.shape)
    ]
    return all(same)


def is_aligned(access: BufferLoad | BufferStore, var: Var, lanes: int) -> bool:
    """True if the access is the same for all lanes, or if the lanes access contiguous elements from a multiple of their number
    on."""
    if not any([var in used_vars(index) for index in access.indices]):
        return True
    *outer, last = access.indices
    if access.buffer.strides or access.buffer.elem_offset is not None or any([var in used_vars(i) for i in outer]):
        return False
    width = access.buffer.shape[-1]
    return last is var and (not outer or is_multiple(width, lanes))
