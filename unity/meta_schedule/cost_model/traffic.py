"""``TrafficModel``: programs of a device ranked without it, by what one of their warps moves, and by their arithmetic.

Each access of shared and global memory is counted for the lanes of one warp, by what counts for the checker
(``ir/interpret/threads/traffic.py``): passes over the banks, segments of 32 bytes. A load that stands several times in a loop's
body counts once, as the code generator reads it once. Not here: what is learnt from measurements (`models.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...arith.cost import cost_of
from ...arith.evaluate import evaluate
from ...ir.analysis.threads import axis_of, is_thread_axis, is_virtual
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm, Var
from ...ir.function import PrimFunc
from ...ir.interpret.threads.findings import Site
from ...ir.interpret.threads.lanes import WARP
from ...ir.interpret.threads.traffic import BANK_BYTES, BANKS, SEGMENT, count_global, count_shared
from ...ir.scalar import BufferLoad, Ramp
from ...ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, Stmt
from ...ir.structural import structural_hash
from ...ir.types import Expr
from ...ir.walk import children, collect, used_vars
from ...transform.infra.backend import GpuMachine
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import CostModel, Measured, TuneContext
from .features import UNKNOWN, sizes_of

SEGMENT_CYCLES = 1.25
"""Cycles of a multiprocessor for a segment, at its share of the bandwidth."""
PLAIN, MATRIX = 256.0, 2048.0
"""Operations of a multiprocessor in a cycle, without and with tensor cores."""
MATRIX_PASSES = {"T.ptx_ldmatrix": 4, "T.tvm_load_matrix_sync": 8, "T.ptx_wgmma": 12}
"""Passes over shared memory of an instruction for a warp."""
MATRIX_CALLS = ("T.ptx_mma", "T.ptx_wgmma", "T.tvm_mma_sync")
SHORT = 16
"""Turns of a loop that is written out whatever its kind."""
BUSY = 384
"""Threads of a multiprocessor that hide each other's waiting."""


class TrafficModel(CostModel, names=("traffic",)):
    """Scores by the cycles of a device, the same whatever was measured."""

    def __init__(self) -> None:
        self.known: dict[MeasureCandidate, float] = {}

    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Nothing is learnt."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[float]:
        """The scores."""
        for candidate in candidates:
            if candidate not in self.known:
                assert candidate.lowered is not None, "a candidate that is only to be run is not ranked"
                known = sizes_of(candidate.lowered, candidate.args_info)
                self.known[candidate] = cycles_of(candidate.lowered, known, context.machine.gpu)
        return [-math.log(self.known[candidate]) for candidate in candidates]


@dataclass(slots=True)
class Traffic:
    """Of all blocks: passes over the banks of shared memory, and segments of global memory. The largest kernel: its blocks, threads
    of one, and bytes of shared memory."""

    shared: float = 0.0
    segments: float = 0.0
    blocks: float = 1.0
    threads: float = 1.0
    bytes: float = 0.0


@dataclass(slots=True, frozen=True)
class _Around:
    """The surroundings of a statement: how often a thread comes there, the blocks, the thread axes with their extents, the loops
    that are written out with theirs, and the loads that are already counted there."""

    turns: float = 1.0
    blocks: float = 1.0
    axes: tuple[tuple[str, Var, int], ...] = ()
    written: tuple[tuple[Var, float], ...] = ()
    seen: set[tuple[int, int]] = field(default_factory=set)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod([extent for _, _, extent in self.axes])

    def lanes(self) -> list[dict[Var, int]]:
        """The thread axes in each lane of the first warp."""
        found = []
        for lane in range(min(WARP, self.threads)):
            values, rest = {}, lane
            for _, var, extent in sorted(self.axes, key=lambda axis: axis[0]):
                values[var], rest = rest % extent, rest // extent
            found.append(values)
        return found


def cycles_of(fn: PrimFunc, known: Mapping[Var, int], gpu: GpuMachine) -> float:
    """About how many cycles a lowered program takes on a device; ``known``: the sizes of symbols."""
    found = traffic_of(fn, known)
    flops = evaluate(cost_of(fn).flops, dict(known)) or 0
    matrix = any([call.op_name.startswith(MATRIX_CALLS) for call in collect(fn.body, Call)])
    used = min(found.blocks, gpu.processors)
    waves = math.ceil(found.blocks / gpu.processors) * gpu.processors / found.blocks if found.blocks > used else 1.0
    busiest = max(found.shared, found.segments * SEGMENT_CYCLES, flops / (MATRIX if matrix else PLAIN), 1.0)
    room = gpu.shared_bytes // max(1.0, found.bytes)
    there = min(math.ceil(found.blocks / gpu.processors), 2 * gpu.threads // found.threads, room)
    return busiest / used * waves * max(1.0, BUSY / (max(1.0, there) * found.threads))


def traffic_of(fn: PrimFunc, known: Mapping[Var, int]) -> Traffic:
    """The traffic of a lowered program."""
    found = Traffic()
    shared = [alloc.buffer for alloc in collect(fn.body, AllocBuffer) if alloc.buffer.scope.startswith("shared")]
    sizes = [math.prod([evaluate(n, known) or 1 for n in buffer.shape]) * buffer.dtype.itemsize for buffer in shared]
    found.bytes = float(sum(sizes))
    _walk(fn.body, _Around(), dict(known), found)
    return found


def _walk(stmt: Stmt, around: _Around, known: dict[Var, int], found: Traffic) -> None:
    if isinstance(stmt, (For, AttrStmt)) and is_thread_axis(stmt):
        axis = axis_of(stmt)
        extent, known[axis.var] = evaluate(axis.extent, known) or UNKNOWN, 0
        around = _inside(around, axis.tag, axis.var, extent)
        found.blocks, found.threads = max(found.blocks, around.blocks), max(found.threads, around.threads)
    elif isinstance(stmt, For):
        turns = evaluate(stmt.extent, known)
        known[stmt.loop_var], times = evaluate(stmt.min, known) or 0, float(UNKNOWN if turns is None else turns)
        if stmt.kind == "unrolled" or times <= SHORT:
            around = replace(around, written=(*around.written, (stmt.loop_var, times)))
        else:
            around = replace(around, turns=around.turns * times * _copies(around, None), written=(), seen=set())
    for part in children(stmt):
        if isinstance(part, Stmt):
            _walk(part, around, known, found)
        elif isinstance(part, Expr):
            _count(part, around, known, found)
    if isinstance(stmt, BufferStore):
        _access(stmt, around, known, found)


def _inside(around: _Around, tag: str, var: Var, extent: int) -> _Around:
    if is_virtual(tag):
        return replace(around, turns=around.turns * extent)
    if tag.startswith("blockIdx"):
        return replace(around, blocks=around.blocks * extent)
    return replace(around, axes=(*around.axes, (tag, var, extent)))


def _copies(around: _Around, used: set[Var] | None) -> float:
    """The number of times that a statement is written out, or the load of a place that depends on the variables ``used``."""
    return math.prod([extent for var, extent in around.written if used is None or var in used])


def _count(expr: Expr, around: _Around, known: dict[Var, int], found: Traffic) -> None:
    """Count the loads and the instructions of a value."""
    for load in collect(expr, BufferLoad):
        key = id(load.buffer), structural_hash(load.indices)
        if key not in around.seen:
            around.seen.add(key)
            _access(load, around, known, found)
    warps = around.turns * _copies(around, None) * around.blocks * math.ceil(around.threads / WARP)
    for call in collect(expr, Call):
        found.shared += warps * MATRIX_PASSES.get(call.op_name, 0)
        if call.op_name.startswith("T.ptx_cp_async") and "group" not in call.op_name:
            numbers = [arg.value for arg in call.args if type(arg) is IntImm]
            bulk = call.op_name.startswith("T.ptx_cp_async_bulk")  # one thread of a block asks for all of it
            moved = max(numbers, default=0) * (
                around.turns * _copies(around, None) * around.blocks if bulk else warps * WARP
            )
            found.segments += moved / SEGMENT
            found.shared += moved / (BANKS * BANK_BYTES)


def _access(access: BufferLoad | BufferStore, around: _Around, known: dict[Var, int], found: Traffic) -> None:
    scope, item = access.buffer.scope, access.buffer.dtype.itemsize
    if not (scope.startswith("shared") or scope == "global") or not around.axes:
        return
    used = {var for index in access.indices for var in used_vars(index)}
    warps = around.turns * _copies(around, used) * around.blocks * math.ceil(around.threads / WARP)
    width = item * max([dtype_of(index).lanes for index in access.indices], default=1)
    places = [_place(access, {**known, **lane}) for lane in around.lanes()]
    if None in places:  # it depends on data
        found.segments += warps * len(places) * (scope == "global")
        found.shared += warps * (scope != "global")
        return
    site, active = Site(0, access.buffer.name, "", scope, None), np.arange(WARP) < len(places)
    addresses = np.zeros(WARP, np.int64)
    addresses[active] = np.array(places) * item
    count = count_global if scope == "global" else count_shared
    count(site, addresses[None], active[None], width)
    found.segments += warps * site.transactions * (scope == "global")
    found.shared += warps * site.transactions * (scope != "global")


def _place(access: BufferLoad | BufferStore, values: Mapping[Var, int]) -> int | None:
    """The number of an element in its buffer, the first of a vector; None where it depends on data."""
    offset = 0
    for index, extent in zip(access.indices, access.buffer.shape):
        first = index.base if isinstance(index, Ramp) else index
        known = {var: values.get(var, 0) for var in used_vars(first)}
        at, size = evaluate(first, known), evaluate(extent, values)
        if at is None:
            return None
        offset = offset * (1 if size is None else size) + at
    return offset


__all__ = ["Traffic", "TrafficModel", "cycles_of", "traffic_of"]
