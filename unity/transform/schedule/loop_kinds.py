"""parallel, vectorize, unroll, bind: how the iterations of a loop run."""

from __future__ import annotations

import re

from ...ir.node import replace as with_fields
from .clash import clash
from .conditions import iterators_driven, require_affine, require_blocks_only, why_not_complete, why_not_update
from .coverage import why_not_independent
from .distinct import require_distinct
from .refuse import refuse
from .registry import primitive
from .rewriting import int_value
from .sref import LoopRef, Sref
from .state import ScheduleState

_THREAD = re.compile(r"(blockIdx|threadIdx|vthread)\.[xyz]|vthread")
CHECKS = (
    "complete or reduction block",
    "affine binding",
    "spatial iterators only",
    "distinct cells",
    "independent iterations",
)


def require_parallel(state: ScheduleState, loop: Sref, threads: str = "") -> None:
    """Refuse unless the iterations of a loop may run in any order, also at once.

    Every block inside is complete, or a reduction whose loop drives spatial iterators; bindings are affine; different
    iterations write different cells and read nothing of each other. ``threads`` names the axis of a GPU: threadIdx may
    drive reduction iterators of a block with an initialisation, and threads may all write the same values.
    """
    require_blocks_only(loop)
    for block in state.blocks_below(loop):
        complete = why_not_complete(state, block, dominant=False)
        reason = complete and why_not_update(state, block, dominant=False)
        if reason is not None:
            refuse(
                "E411", f"the iterations of loop {loop.name} depend on each other: {reason}",
                condition="complete or reduction block", at=[loop, block], clash=clash(state, block, over=loop),
            )  # fmt: skip
        require_affine(state, block)
        driven = iterators_driven(block, loop)
        for kind, value in driven:
            if kind == "S" or (kind == "R" and threads.startswith("threadIdx") and block.block.init is not None):
                continue
            refuse(
                "E414", f"loop {loop.name} drives a {_WORDS.get(kind, kind)} iterator of block {block.name} ({value})",
                condition="spatial iterators only", at=[loop, block], clash=clash(state, block, over=loop),
                nearest="choose a loop that drives spatial iterators, or rfactor the reduction first",
            )  # fmt: skip
        if not driven and int_value(loop.loop.extent) != 1 and not (threads and complete is None):
            refuse(
                "E414", f"block {block.name} does not use loop {loop.name}: every iteration does the same work",
                condition="spatial iterators only", at=[loop, block], clash=clash(state, block, over=loop),
            )  # fmt: skip
        require_distinct(state, block, loop)
    fault = why_not_independent(state, loop)
    if fault is not None:
        refuse("E415", fault.reason, condition="independent iterations", at=[loop, fault.block])


def require_kinds(state: ScheduleState, loop: Sref) -> None:
    """Refuse unless a loop and those around it may still run as they are marked to, with what now stands inside."""
    for item in (loop, *loop.above()):
        if item.is_block:
            return
        if item.loop.kind in ("parallel", "vectorized"):
            require_parallel(state, item)
        elif item.loop.thread is not None:
            require_parallel(state, item, item.loop.thread)


_WORDS = {"R": "reduction", "opaque": "opaque", "scan": "scan"}


def _set_kind(state: ScheduleState, loop: Sref, kind: str, thread: str | None = None) -> None:
    stmt = loop.loop
    if stmt.thread is not None and thread is None:
        refuse(
            "E421", f"loop {loop.name} is bound to {stmt.thread}", condition="not bound to a thread", at=loop,
            nearest="bind it last, or choose another loop",
        )  # fmt: skip
    state.replace(loop, with_fields(stmt, kind=kind, thread=thread))


@primitive(checks=CHECKS, rewrite="for i in n  ->  for i in T.parallel(n)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nsch.parallel(i)')  # fmt: skip
def parallel(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop on several threads. Raises ScheduleError E411 to E417 naming why they are not
    independent."""
    require_parallel(state, loop)
    _set_kind(state, loop, "parallel")


@primitive(checks=CHECKS, rewrite="for j in 8  ->  for j in T.vectorized(8)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nj0, j1 = sch.split(j, [None, 8])\nsch.vectorize(j1)')  # fmt: skip
def vectorize(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop as lanes of vector instructions. Raises ScheduleError E411 to E417 as
    ``parallel``."""
    require_parallel(state, loop)
    _set_kind(state, loop, "vectorized")


@primitive(rewrite="for k in 4  ->  for k in T.unroll(4)",
           example='i, j, k = sch.get_loops(sch.get_block("C"))\nk0, k1 = sch.split(k, [None, 4])\nsch.unroll(k1)')  # fmt: skip
def unroll(state: ScheduleState, loop: LoopRef) -> None:
    """Write the iterations of a loop out one after the other. Needs no condition: the order stays."""
    _set_kind(state, loop, "unrolled")


@primitive(checks=(*CHECKS, "known thread axis"),
           rewrite='for i in n  ->  for i in T.thread_binding(n, thread="blockIdx.x")',
           example='i, j, k = sch.get_loops(sch.get_block("C"))\n'
                   'sch.bind(i, "blockIdx.x")\nsch.bind(j, "threadIdx.x")')  # fmt: skip
def bind(state: ScheduleState, loop: LoopRef, thread_axis: str) -> None:
    """Bind a loop to a thread axis: blockIdx.x to z, threadIdx.x to z, or vthread.

    A loop bound to threadIdx may drive reduction iterators of a block with an initialisation (a reduction across
    threads). Raises ScheduleError E425 for an axis that is not known, E411 to E417 as ``parallel``.
    """
    if not _THREAD.fullmatch(thread_axis):
        refuse(
            "E425", f"there is no thread axis {thread_axis!r}", condition="known thread axis", at=loop,
            nearest='use "blockIdx.x", "threadIdx.x" (or y, z) or "vthread"',
        )  # fmt: skip
    require_parallel(state, loop, thread_axis)
    _set_kind(state, loop, "thread_binding", thread_axis)
