"""Features: numbers that describe a lowered program, one row for a program.

The program still has its loops (`unity/meta_schedule/space/sketch.py` lowers it); a vectorized loop counts as the vectors that
it fills. Not here: what is learnt from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...arith.evaluate import evaluate
from ...ir.buffer import Buffer
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.scalar import Add, BufferLoad, Mul, is_binary
from ...ir.stmt import AllocBuffer, BufferStore, For, IfThenElse, Stmt
from ...ir.types import Expr, PointerType
from ...ir.walk import children, collect, used_vars
from ...transform.infra.backend import Machine
from ...transform.tir.analysis.loop_nests import slope
from ..core.arg_info import ArgInfo, ScalarInfo, TensorInfo
from .reuse import Accesses, Loops

NAMES = (
    "cycles", "arithmetic", "vector loads", "single loads", "strided loads", "stores", "register accesses", "loop turns",
    "written out", "statements", "bytes", "largest line", "bytes behind the first cache", "bytes behind the second cache",
    "parallel turns", "reuse distance", "conditions", "unfilled lanes",
)  # fmt: skip
"""The features, in order; all but the last two as logarithms."""
LATENCY = 4.0
"""Cycles until a sum can be added to again."""
WINDOW = 50.0
"""Additions that a processor looks ahead."""
SPILL = 1.5
"""Cycles to store and load a vector that has no register."""
UNKNOWN = 64
"""The turns of a loop whose extent depends on data."""


@dataclass(slots=True)
class _Sums:
    """Sums over the statements of a program."""

    arithmetic: float = 0.0
    vectors: float = 0.0
    singles: float = 0.0
    strided: float = 0.0
    stores: float = 0.0
    registers: float = 0.0
    turns: float = 0.0
    written: float = 0.0
    statements: float = 0.0
    conditions: float = 0.0
    lanes: float = 0.0
    filled: float = 0.0
    parallel: float = 1.0
    cycles: float = 0.0
    touched: dict[Var, float] = field(default_factory=dict)
    accesses: Accesses = field(default_factory=Accesses)
    known: dict[Var, int] = field(default_factory=dict)
    """Sizes, and variables of loops in their first iteration."""


@dataclass(slots=True, frozen=True)
class _Around:
    """The loops around a statement: turns of all, copies of those that are written out, the lanes of a vector; the innermost loop
    that runs with its turns, and those written out inside it with theirs."""

    turns: float = 1.0
    copies: float = 1.0
    lane: Var | None = None
    lanes: int = 1
    written: tuple[tuple[Var, float], ...] = ()
    innermost: Var | None = None
    length: float = 1.0
    loops: Loops = ()


def features_of(fn: PrimFunc, machine: Machine, args_info: Sequence[ArgInfo] = ()) -> np.ndarray:
    """The row of a program; ``args_info`` says the sizes of symbols."""
    sums = _Sums(known=sizes_of(fn, args_info))
    own = {alloc.buffer.data for alloc in collect(fn.body, AllocBuffer) if _is_register(alloc.buffer.data)}
    _walk(fn.body, _Around(), sums, own, machine)
    touched = sum(sums.touched.values())
    reuse = sums.accesses.reuse(machine.second_level)
    logs = [
        sums.cycles, sums.arithmetic, sums.vectors, sums.singles, sums.strided, sums.stores, sums.registers, sums.turns,
        sums.written, sums.statements, touched, max(sums.touched.values(), default=0.0), *reuse.behind,
        sums.parallel,
    ]  # fmt: skip
    rest = [reuse.distance, sums.conditions / max(1.0, sums.statements), 1 - sums.filled / max(1.0, sums.lanes)]
    return np.array([*[math.log1p(value) for value in logs], *rest])


def sizes_of(fn: PrimFunc, args_info: Sequence[ArgInfo]) -> dict[Var, int]:
    """The symbols of a program by its arguments."""
    found: dict[Var, int] = {}
    for param, info in zip(fn.params, args_info):
        buffer = fn.buffer_map.get(param)
        if isinstance(info, ScalarInfo):
            found[param] = info.value
        elif buffer is not None and isinstance(info, TensorInfo):
            found.update({n: size for n, size in zip(buffer.shape, info.shape) if isinstance(n, Var)})
    return found


def _is_register(data: Var) -> bool:
    return isinstance(data.ty, PointerType) and data.ty.scope == "local"


def _walk(stmt: Stmt, around: _Around, sums: _Sums, own: set[Var], machine: Machine) -> None:
    if type(stmt) is For:
        _walk(stmt.body, _inside(stmt, around, sums), sums, own, machine)
        return
    if type(stmt) is BufferStore:
        _store(stmt, around, sums, own, machine)
        return
    if type(stmt) is IfThenElse:
        sums.conditions += around.copies
    for part in children(stmt):
        if isinstance(part, Stmt):
            _walk(part, around, sums, own, machine)


def _inside(loop: For, around: _Around, sums: _Sums) -> _Around:
    found = evaluate(loop.extent, sums.known)
    extent = float(UNKNOWN if found is None else max(0, found))
    sums.known[loop.loop_var] = evaluate(loop.min, sums.known) or 0
    notes = loop.annotations or {}
    around = replace(around, loops=(*around.loops, (loop.loop_var, extent)))
    if loop.kind == "vectorized" or (notes.get("vectorize") and not collect(loop.body, For)):
        return replace(around, lane=loop.loop_var, lanes=max(1, int(extent)))
    if loop.kind == "unrolled":
        written = (*around.written, (loop.loop_var, extent))
        return replace(around, turns=around.turns * extent, copies=around.copies * extent, written=written)
    if loop.kind == "parallel":
        sums.parallel = max(sums.parallel, extent)
    sums.turns += around.turns * extent / max(1, int(notes.get("unroll", 1)))
    return _Around(
        around.turns * extent, around.copies, around.lane, around.lanes, (), loop.loop_var, extent, around.loops
    )


def _store(store: BufferStore, around: _Around, sums: _Sums, own: set[Var], machine: Machine) -> None:
    """Count a store with its loads. Its cycles: two multiply-adds and two loads each, a strided load lane by lane. A vector that is
    half a register or less counts half: the largest registers are often computed with in two halves."""
    width = machine.lanes(max(1, store.buffer.dtype.itemsize))
    vectors = math.ceil(2 * around.lanes / width) / 2
    times = around.turns * vectors
    sums.lanes += times * width
    sums.filled += around.turns * around.lanes
    sums.statements += around.copies
    sums.written = max(sums.written, around.copies)
    arithmetic = max(1, _operations(store.value))
    loads = cycles = 0.0
    for load in collect(store.value, BufferLoad):
        if load.buffer.data in own:
            sums.registers += times
            continue
        step = _step(load, around.lane)
        shared = _shared(load, around)
        if step == 0:
            sums.singles += around.turns / shared
            loads += 1 / shared
        elif step == 1:
            sums.vectors += times / shared
            loads += vectors / shared
        else:
            sums.strided += around.turns * around.lanes / shared
            cycles += around.lanes / shared
        sums.touched[load.buffer.data] = _bytes(load.buffer, sums)
        sums.accesses.add(load, around.loops, lambda extent: _size(extent, sums))
    if store.buffer.data in own:
        sums.registers += times
    else:
        sums.stores += times if _step(store, around.lane) < 2 else around.turns * around.lanes
        sums.touched[store.buffer.data] = _bytes(store.buffer, sums)
        sums.accesses.add(store, around.loops, lambda extent: _size(extent, sums))
    sums.arithmetic += times * arithmetic
    sums.cycles += max(
        around.turns * max(vectors * arithmetic / 2, loads / 2, cycles, 0.5), *_waiting(store, around, vectors, machine)
    )


def _waiting(store: BufferStore, around: _Around, vectors: float, machine: Machine) -> tuple[float, float]:
    """Cycles that a sum waits for itself, and cycles with the sums that do not stay in registers."""
    used = {var for index in store.indices for var in used_vars(index)}
    is_sum = any([load.buffer is store.buffer for load in collect(store.value, BufferLoad)])
    if not is_sum or around.innermost is None or around.innermost in used:
        return 0.0, 0.0
    cells = math.prod([extent for var, extent in around.written if var in used])
    steps, sums = around.turns / cells, cells * vectors
    registers = cells * math.ceil(vectors)
    alone = around.length * sums / (around.length * sums + WINDOW)  # short sums overlap with the next ones
    return steps * LATENCY * alone, steps * (sums / 2 + SPILL * max(0.0, registers - machine.accumulators))


def _operations(value: object) -> int:
    """Operations of a value besides those of indices; a product that is added counts with the sum."""
    if type(value) is BufferLoad or not isinstance(value, Expr):
        return 0
    inside: int = sum([_operations(part) for part in children(value)])
    fused = type(value) is Add and Mul in (type(value.a), type(value.b))
    return inside + int(is_binary(value) and not fused)


def _step(access: BufferLoad | BufferStore, lane: Var | None) -> int:
    """0, 1, or 2 for a step of no element, one, or another number from the first lane to the second."""
    if lane is None or not any([lane in used_vars(index) for index in access.indices]):
        return 0
    *first, last = [slope(index, lane) for index in access.indices]
    if last is not None and None not in first:
        return 2 if any(first) or last not in (0, 1) else last
    first_lane = dict.fromkeys([var for index in access.indices for var in used_vars(index)], 0)
    before, after = [[evaluate(index, {**first_lane, lane: place}) for index in access.indices] for place in (0, 1)]
    if None in before or None in after or before[:-1] != after[:-1]:
        return 2
    return 1 if after[-1] == (before[-1] or 0) + 1 else 2


def _shared(load: BufferLoad, around: _Around) -> float:
    """1, or about how many of the copies of a statement have the load in common."""
    used = {var for index in load.indices for var in used_vars(index)}
    return max(1.0, math.prod([extent for var, extent in around.written if var not in used]))


def _size(extent: Expr, sums: _Sums) -> float:
    found = evaluate(extent, sums.known)
    return float(UNKNOWN if found is None else found)


def _bytes(buffer: Buffer, sums: _Sums) -> float:
    return math.prod([_size(extent, sums) for extent in buffer.shape]) * buffer.dtype.itemsize


__all__ = ["NAMES", "UNKNOWN", "features_of", "sizes_of"]
