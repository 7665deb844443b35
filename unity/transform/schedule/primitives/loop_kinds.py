"""parallel, vectorize, unroll, bind: how the iterations of a loop run."""

from __future__ import annotations

import re

from ....ir.walk import free_vars
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import LoopRef, Sref, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import require_not_empty
from ..preconditions.independence import allocate_inside, require_parallel

_THREAD = re.compile(r"(blockIdx|threadIdx|vthread)\.[xyz]|vthread")
CHECKS = (
    "complete or reduction block",
    "affine binding",
    "spatial iterators only",
    "distinct cells",
    "independent iterations",
)


def _set_kind(state: ScheduleState, loop: Sref, kind: str, thread: str | None = None) -> None:
    stmt = loop.loop
    if stmt.thread is not None and thread is None:
        refuse(
            "E421", f"loop {loop.name} is bound to {stmt.thread}", "not bound to a thread", loop,
            "bind it last, or choose another loop",
        )  # fmt: skip
    state.change(loop, kind=kind, thread=thread)


@primitive(checks=CHECKS, rewrite="for i in n  ->  for i in T.parallel(n)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nsch.parallel(i)')  # fmt: skip
def parallel(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop on several threads.

    Buffers used inside one iteration only (caches, packed panels) are allocated inside the loop from then on, so that each thread
    has its own. Raises ScheduleError E411 to E418 if the iterations are not independent.
    """
    private = require_parallel(state, loop, private=True)
    _set_kind(state, loop, "parallel")
    allocate_inside(state, loop, private)


@primitive(checks=CHECKS, rewrite="for j in 8  ->  for j in T.vectorized(8)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nj0, j1 = sch.split(j, [None, 8])\nsch.vectorize(j1)')  # fmt: skip
def vectorize(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop as lanes of vector instructions. Raises ScheduleError E411 to E417 as ``parallel`` does."""
    require_parallel(state, loop)
    _set_kind(state, loop, "vectorized")


@primitive(rewrite="for k in 4  ->  for k in T.unroll(4)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nk0, k1 = sch.split(k, [None, 4])\nsch.unroll(k1)')  # fmt: skip
def unroll(state: ScheduleState, loop: LoopRef) -> None:
    """Unroll a loop. It needs no condition: the order of iterations stays."""
    _set_kind(state, loop, "unrolled")


def _require_own_axis(state: ScheduleState, loop: Sref, axis: str) -> None:
    """Refuse E425 where a block depends on two loops of one axis: a thread has one number, which both would take.

    A nest that does not depend on the outer loop is work that its threads share, as in TVM.
    """
    above = [s for s in loop.above() if not s.is_block and s.loop.thread == axis]
    pending, below = [loop], []
    while pending:
        found = state.children(pending.pop())
        pending += found
        below += [s for s in found if not s.is_block and s.loop.thread == axis]
    for outer, inner in [*[(s, loop) for s in above], *[(loop, s) for s in below]]:
        pending = [inner]
        while pending:
            item = pending.pop()
            pending += state.children(item)
            if item.is_block and _depends(item, outer) and _depends(item, inner):
                refuse(
                    "E425", f"block {item.name} runs over loop {outer.name} and loop {inner.name}, which would be the same {axis}",
                    "an axis for each loop", [outer, inner],
                    "fuse the two loops and bind the result, or bind one of them to another axis",
                )  # fmt: skip


def _depends(block: Sref, loop: Sref) -> bool:
    """True if a block uses the variable of a loop around it, also through iterators and bounds of what stands between them."""
    around = list(block.above())
    carried = {loop.loop.loop_var}
    for item in reversed(around[: around.index(loop)]):
        if item.is_block:
            bound = item.realize.bindings
            carried.update([axis.var for axis, value in bound if carried.intersection(free_vars(value))])
        elif carried.intersection([*free_vars(item.loop.min), *free_vars(item.loop.extent)]):
            carried.add(item.loop.loop_var)
    return bool(carried.intersection(free_vars(block.realize)))


@primitive(checks=(*CHECKS, "known thread axis", "an axis for each loop"),
           rewrite='for i in n  ->  for i in T.thread_binding(n, thread="blockIdx.x")',
           example='i, j, k = sch.get_loops(sch.get_block("C"))\n'
                   'sch.bind(i, "blockIdx.x")\nsch.bind(j, "threadIdx.x")')  # fmt: skip
def bind(state: ScheduleState, loop: LoopRef, thread_axis: str) -> None:
    """Bind a loop to a thread axis: "blockIdx.x" to z, "threadIdx.x" to z, or "vthread".

    A loop bound to threadIdx may drive reduction iterators of a block with an initialisation: each thread reduces its part, and
    lowering combines the parts (``lower_cross_thread_reduction``). Raises ScheduleError E425 for an unknown axis, or one that is
    bound around the block already; E411 to E417 as ``parallel`` does.
    """
    if not _THREAD.fullmatch(thread_axis):
        refuse(
            "E425", f"there is no thread axis {thread_axis!r}", "known thread axis", loop,
            'use "blockIdx.x", "threadIdx.x" (or y, z) or "vthread"',
        )  # fmt: skip
    require_parallel(state, loop, thread_axis)
    _require_own_axis(state, loop, thread_axis)
    require_not_empty(state, loop, [loop, *[s for s in loops_of(loop) if s.loop.thread is None]])
    _set_kind(state, loop, "thread_binding", thread_axis)
