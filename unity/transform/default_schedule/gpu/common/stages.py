"""Stages: the nests of a program that rules can bind, and how a loop over cells is distributed over blocks and threads.

Not here: which stages belong together (the rules).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .....arith import Analyzer
from .....arith.index_map import IndexMap
from .....ir.build import add, const, dtype_of, floormod, is_int, mul
from .....ir.expr import IntImm, Var
from .....ir.scalar import IterVar
from .....ir.stmt import Block, BufferStore, For
from .....ir.types import Expr
from .....ir.walk import collect, free_vars
from .....support.errors import ScheduleError
from ....infra.backend import GpuMachine
from ....schedule import BlockRV, LoopRV, Schedule
from ....schedule.core.tree import ROOT

THREADS = 256
"""Threads of a block by default."""
UNKNOWN = 1 << 20
"""The size that is assumed for a symbolic extent when sizes are compared."""


@dataclass(slots=True, frozen=True)
class Stage:
    """A nest of serial loops around one block that is not bound to threads. For each loop: the iterator that is bound to it
    alone, if there is one, and the kinds of the iterators that it drives: "S", "R", "SR", or "" for none."""

    rv: BlockRV
    block: Block
    loops: tuple[LoopRV, ...]
    extents: tuple[Expr, ...]
    kinds: tuple[str, ...]
    iterators: tuple[IterVar | None, ...]
    predicate: Expr

    @property
    def name(self) -> str:
        """The name of its block."""
        return self.block.name

    @property
    def store(self) -> BufferStore | None:
        """The only store of the block."""
        return self.block.body if type(self.block.body) is BufferStore else None

    def of_kind(self, kind: str) -> list[LoopRV]:
        """The loops that drive only iterators of one kind; for "S" also those that drive none."""
        return [loop for loop, found in zip(self.loops, self.kinds) if (found or "S") == kind]


def stages_of(sch: Schedule) -> list[Stage]:
    """The stages of a program that are not bound yet, in order."""
    found = [stage_of(sch, block) for block in sch.get_child_blocks(sch.get_block(ROOT))]
    return [stage for stage in found if stage is not None]


def stage_of(sch: Schedule, rv: BlockRV) -> Stage | None:
    """The stage of a block; None if its nest is not a chain of serial loops."""
    loops = sch.get_loops(rv)
    nodes: list[For] = [sch.get(loop) for loop in loops]
    realize = sch.get_sref(rv).realize
    if any([node.kind != "serial" or node.annotations or not is_int(node.min, 0) or node.step for node in nodes]):
        return None
    if any([a.body is not b for a, b in zip(nodes, [*nodes[1:], realize])]) or collect(
        realize.block.body, (Block, For)
    ):
        return None
    kinds, iterators = [], []
    pairs = realize.bindings
    for node in nodes:
        driven = [(axis, value) for axis, value in pairs if node.loop_var in free_vars(value)]
        kinds.append("".join(sorted({axis.kind for axis, _ in driven}, reverse=True)))
        iterators.append(driven[0][0] if len(driven) == 1 and driven[0][1] is node.loop_var else None)
    return Stage(
        rv,
        realize.block,
        tuple(loops),
        tuple([node.extent for node in nodes]),
        tuple(kinds),
        tuple(iterators),
        realize.predicate,
    )


def own_producers(sch: Schedule, reader: BlockRV) -> list[BlockRV]:
    """The blocks that compute element by element what nothing but ``reader`` reads, and that are not bound yet: what a kernel
    has computed it cannot compute again."""
    single = [rv for rv in sch.get_producers(reader) if len(sch.get_consumers(rv)) == 1]
    stages = [stage_of(sch, rv) for rv in single]
    return [s.rv for s in stages if s is not None and s.block.init is None and s.store is not None]


def size_of(extents: Sequence[Expr]) -> int:
    """The product of extents; a symbol counts as UNKNOWN."""
    return math.prod([e.value if type(e) is IntImm else UNKNOWN for e in extents])


def is_multiple(extent: Expr, width: Expr | int) -> bool:
    """True if an extent is known to be a multiple of a width, whatever the symbols in it are."""
    return Analyzer().can_prove_equal(floormod(extent, width), const(0, dtype_of(extent)))


def threads_for(cells: int, gpu: GpuMachine) -> int:
    """Threads of a block for a number of independent cells: fewer if there would be fewer blocks than multiprocessors."""
    threads = min(THREADS, gpu.threads)
    while threads > gpu.warp and cells < threads * gpu.processors:
        threads //= 2
    return threads


def one_loop_each(sch: Schedule, stage: Stage, *groups: Sequence[LoopRV], count: bool = True) -> list[LoopRV]:
    """Fuse each group of loops of a stage, in this order; an empty first group becomes a new loop of one iteration.

    If each loop is an iterator, new iterators ``count`` through the groups, whose values stay simple when loops are split."""
    made: list[LoopRV] = []
    wanted = [loop for group in groups for loop in group]
    if count and len(wanted) > sum([bool(group) for group in groups]):
        made = _by_iterators(sch, stage, [group for group in groups if group])
    if not made:
        if wanted != list(stage.loops):
            sch.reorder(*wanted)
        made = [
            sch.fuse(*group, preserve_unit_iters=False) if len(group) > 1 else group[0] for group in groups if group
        ]
    return made if groups[0] else [sch.add_unit_loop(made[0] if made else stage.rv), *made]


def _by_iterators(sch: Schedule, stage: Stage, groups: Sequence[Sequence[LoopRV]]) -> list[LoopRV]:
    """The loops of new iterators that count through each group; none if the block cannot have them."""
    axes = [axis.var for axis in stage.block.iter_vars]
    extents = {var: e for var, e in zip(variables(stage), stage.extents) if var is not None}
    if len(axes) != len(stage.loops) or set(axes) != extents.keys():
        return []
    of_loop = dict(zip(stage.loops, variables(stage)))
    places: list[Expr] = []
    for group in groups:
        inside = [var for var in [of_loop[loop] for loop in group] if var is not None]
        first, *others = [var for var in inside if not is_int(extents[var], 1)] or inside[:1]
        place: Expr = first
        for var in others:
            place = add(mul(place, extents[var]), var)
        places.append(place)
    try:
        sch.transform_block_layout(stage.rv, IndexMap(tuple(axes), tuple(places)))
    except ScheduleError:
        return []
    return sch.get_loops(stage.rv)


def distribute_loop(sch: Schedule, loop: LoopRV, threads: int, lanes: int = 1) -> None:
    """Distribute a loop over independent cells over blocks of threads; each thread has a vector of cells."""
    if lanes > 1:
        block, thread, lane = sch.split(loop, [None, threads, lanes])
        sch.vectorize(lane)
    else:
        block, thread = sch.split(loop, [None, threads])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")


def variables(stage: Stage) -> list[Var | None]:
    """The iterator that is bound to each loop."""
    return [None if axis is None else axis.var for axis in stage.iterators]


def is_simple(stage: Stage) -> bool:
    """True if each loop of a stage is an iterator, and its block is one store without a condition."""
    store = stage.store
    plain = [axis is not None or is_int(extent, 1) for axis, extent in zip(stage.iterators, stage.extents)]
    kinds = [axis.kind for axis in stage.block.iter_vars]
    if store is None or store.predicate is not None or not all(plain) or not all([kind in "SR" for kind in kinds]):
        return False
    return is_int(stage.predicate, 1) and ("R" in kinds) == (stage.block.init is not None)
