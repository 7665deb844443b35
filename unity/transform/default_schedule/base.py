"""Rules: a readable function from a tensor program to its schedule, and why it did not apply.

Invariant: a rule only uses schedule primitives, so every step is checked; a program that no rule takes stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...ir.build import int_value
from ...ir.expr import Call, Var
from ...ir.function import SCHEDULED, PrimFunc
from ...ir.module import IRModule
from ...ir.scalar import BufferLoad
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect, used_vars
from ..infra.backend import Machine
from ..schedule import BlockRV, LoopRV, Schedule
from ..tir.analysis.loop_nests import is_choice, stride_class
from .contraction import extent_of
from .packing import Packing


@dataclass(slots=True, frozen=True)
class Scheduled:
    """A program after a rule. ``packed``: parameters it now takes packed, by position."""

    func: PrimFunc
    reason: str
    packed: dict[int, Packing] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Rule:
    """``apply`` takes a program, the positions of parameters that are constants at every call, and the machine; it gives the
    scheduled program or the reason why the rule does not fit."""

    name: str
    apply: Callable[[PrimFunc, Collection[int], Machine], Scheduled | str]


_NAME = "main"


def schedule_of(fn: PrimFunc) -> Schedule:
    """A schedule of one program, whose refusals are not drawn."""
    return Schedule(IRModule({_NAME: fn}, {}, {}), error_render_level="none")


def program_of(sch: Schedule) -> PrimFunc:
    """The program of ``schedule_of`` as it stands."""
    fn = sch.mod[_NAME]
    assert isinstance(fn, PrimFunc)
    return fn


def is_touched(sch: Schedule, block: BlockRV) -> bool:
    """True if a loop around the block is not serial, or a binding is more than a loop."""
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    variables = [loop.loop_var for loop in loops]
    values = list(sch.get_sref(block).realize.iter_values)
    return any([loop.kind != "serial" or loop.annotations for loop in loops]) or values != variables


def split_and_vectorize(sch: Schedule, loop: LoopRV, lanes: int, unroll: bool = False) -> None:
    """Run a loop in vectors; where it has several, the loop over them stays, or is unrolled."""
    if int_value(sch.get(loop).extent, 0) > lanes:
        outer, loop = sch.split(loop, [None, lanes])
        if unroll:
            sch.unroll(outer)
    sch.vectorize(loop)


def mark_scheduled(fn: PrimFunc) -> PrimFunc:
    """The program marked as scheduled."""
    return fn.with_attr(SCHEDULED, True)


PARALLEL_CELLS = 1 << 16
"""Cells from which on a copy is shared between threads."""


def vectorize_copy(sch: Schedule, copy: BlockRV, lanes: int) -> None:
    """Vectors along the last axis of a copy where each is whole and no condition asks for lanes; threads over the others."""
    block: Block = sch.get(copy)
    store = block.body
    if type(store) is not BufferStore or any([axis.kind != "S" for axis in block.iter_vars]):
        return
    *outer, last = sch.get_loops(copy)
    axis = block.iter_vars[-1]
    extents = [extent_of(a) for a in block.iter_vars]
    cells = 1
    for extent in extents:
        cells *= 1 if extent is None else extent
    asked = {v for choice in collect(store.value, Call) if is_choice(choice) for v in used_vars(choice.args[0])}
    accesses = [store, *collect(store.value, BufferLoad)]
    whole = extents[-1] is not None and extents[-1] % lanes == 0 and isinstance(store.indices[-1], Var)
    if whole and axis.var not in asked and all([stride_class(access, axis.var) < 2 for access in accesses]):
        _, lane = sch.split(last, [None, lanes])
        sch.vectorize(lane)
    if outer and cells >= PARALLEL_CELLS:
        sch.parallel(sch.fuse(*outer))
