"""The rule for long reductions to few cells: they are done in pieces, which threads can share, and the pieces are joined in order.

It is for reductions of constant extents that add, multiply or take the least or greatest, where the cells themselves are too few
for the threads. How many pieces depends on the extents alone, so the result does not depend on the number of threads. This
reassociates, as reductions may. The nests that result are tiled as any other: the program is not marked as scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ...ir.expr import IntImm
from ...ir.function import PrimFunc, may_alias
from ...ir.scalar import Add
from ...ir.stmt import Block, BlockRealize, For, SeqStmt, Stmt
from ...ir.walk import collect
from ...support.errors import ScheduleError
from ..infra.backend import Machine
from ..schedule import Schedule
from ..tir.analysis.loop_nests import cell_nest, reduced_value
from ..tir.analysis.parallel_cost import FEW, SHARED_WORK, store_work
from .base import Rule, Scheduled, program_of, schedule_of
from .common.choices import choose, part_of

MOST_PIECES = 64
"""Pieces of a long reduction."""
PIECE_WORK = SHARED_WORK // 8
"""Work of a piece, at least."""
SPLITS = 16
"""Ways to split a reduction that are candidates."""
TILE = 64
"""Cells of a tile."""
LINE = 8
"""Pieces of neighbours in memory are a multiple of it: vectors then begin where a line of the cache does, or half of one."""


@dataclass(slots=True, frozen=True)
class Pieces:
    """``count`` pieces of ``size`` steps of the loop at place ``loop`` of a block's nest; ``rest`` steps are left.
    ``is_float_sum``: what is added has float32. ``is_along``: steps are neighbours in memory, and so are the results of pieces."""

    block: str
    loop: int
    count: int
    size: int
    rest: int
    is_float_sum: bool
    is_along: bool


def pieces_of(stmt: Stmt) -> Pieces | str:
    """The pieces of a nest, or why it is not to be split."""
    nest = cell_nest(stmt)
    if nest is None or nest.block.init is None:
        return "no nest over one reduction"
    dtype = nest.store.buffer.dtype
    if reduced_value(nest.store) is None or dtype.lanes != 1 or dtype.is_bool or (dtype.is_float and dtype.bits < 32):
        return "its steps may not be joined in another order"
    extents = {loop: loop.extent.value for loop in nest.loops if type(loop.extent) is IntImm}
    if len(extents) < len(nest.loops):
        return "an extent is a symbol"
    cells = nest.of_kind("S")
    tiles = 1
    for loop in cells:
        along = any([nest.stride(load, loop) == 1 for load in nest.operands])
        tiles *= -(-extents[loop] // TILE) if along else extents[loop]
    steps = math.prod(extents.values())
    work = steps * store_work(nest.store)
    if tiles >= FEW or work < SHARED_WORK:
        return "cells enough for the threads, or little work"
    most = min(MOST_PIECES, work // PIECE_WORK)
    found = []
    for index, loop in enumerate(nest.loops):
        extent, line = extents[loop], 1
        if any([nest.stride(load, loop) == 1 for load in nest.operands]):
            line = LINE
        for count in range(max(FEW, most // 2), most + 1) if loop not in cells else ():
            size = extent // count // line * line
            if size > 1:
                found.append((steps // extent * (extent - count * size), -count, index, size))
    if not found:
        return "no loop is long enough"
    found.sort()
    options = min(len(found), SPLITS)
    taken = choose(nest.block, "pieces", range(options + 1), 0)
    if taken == options:
        return "it was decided that it stays whole"
    _, count, index, size = found[taken]
    rest = extents[nest.loops[index]] + count * size
    is_float_sum = type(nest.store.value) is Add and dtype.is_float and dtype.bits == 32
    is_along = any([nest.stride(load, nest.loops[index]) == 1 for load in nest.operands])
    return Pieces(nest.block.name, index, -count, size, rest, is_float_sum, is_along)


def schedule_split(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Split every long reduction of a program that stands in no other loop."""
    if may_alias(fn):
        return "its arguments may share memory"
    found = [pieces_of(loop) for loop in _outermost(fn.body)]
    splits = [pieces for pieces in found if isinstance(pieces, Pieces)]
    if not splits:
        return next((reason for reason in found if isinstance(reason, str)), "no loops")
    names = [block.name for block in collect(fn.body, Block)]
    if any([names.count(pieces.block) > 1 for pieces in splits]):
        return "two blocks have one name"
    sch = schedule_of(fn)
    try:
        for pieces in splits:
            _split(sch, pieces)
    except ScheduleError as problem:
        return f"a step does not apply: {problem.message}"
    said = [f"{pieces.block} in {pieces.count} pieces of {pieces.size}" for pieces in splits]
    return Scheduled(program_of(sch), ", ".join(said))


def _outermost(stmt: Stmt) -> list[For]:
    """The loops of a program that stand in no other."""
    if type(stmt) is BlockRealize:
        return _outermost(stmt.block.body)
    if type(stmt) is SeqStmt:
        return [loop for part in stmt.stmts for loop in _outermost(part)]
    return [stmt] if type(stmt) is For else []


def _split(sch: Schedule, pieces: Pieces) -> None:
    """Partial results over the pieces outside, then their reduction, then what is left. Sums of float32 are joined in float64, as
    there are many of them."""
    block = sch.get_block(pieces.block)
    whole, loops = sch.get(block), sch.get_loops(block)
    parts = {}
    if pieces.is_float_sum:
        sch.cache_write(block, 0, "global")
    long = loops[pieces.loop]
    if pieces.rest:
        sch.reorder(long, *[loop for loop in loops if loop is not long])
        long, left = sch.loop_partition(long, [pieces.count * pieces.size, None])
        block = sch.get_child_blocks(long)[0]
        parts["left"] = sch.get_child_blocks(left)[0]
        first, *others = sch.get_loops(block)
        loops = [*others[: pieces.loop], first, *others[pieces.loop :]]
    piece, step = sch.split(long, [None, pieces.size])
    loops[pieces.loop] = step
    sch.reorder(piece, *loops)
    name = sch.get(block).name
    parts["pieces"] = sch.rfactor(piece, len(whole.writes[0].buffer.shape) if pieces.is_along else 0)
    parts["joined"] = sch.get_block(name)
    for part, made in parts.items():
        for key, value in part_of(whole, part).items():
            sch.annotate(made, key, value)
    if pieces.is_float_sum:
        sch.unsafe_set_dtype(parts["joined"], 0, "float64")


SPLIT = Rule("split", schedule_split)
