"""Blocks before a scheduled one that copy cell by cell, as the border of an image: in vectors, and shared between threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import Call, Var
from ...ir.scalar import BufferLoad
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect, used_vars
from ..tir.analysis.loop_nests import is_choice, stride_class
from .contraction import extent_of

if TYPE_CHECKING:
    from ..schedule import BlockRV, Schedule

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
