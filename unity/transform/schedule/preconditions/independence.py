"""Independence of the iterations of a loop, which may then run in any order, also at once; buffers that are private to an
iteration.

A buffer all of whose uses are inside a parallel loop, and which every iteration writes before it reads, is allocated anew in
each iteration: then blocks that only write such buffers are no obstacle. Not here: setting the kind
(``transform/schedule/primitives/loop_kinds.py``).
"""

from __future__ import annotations

from ....ir.buffer import Buffer
from ....ir.build import int_value
from ....ir.stmt import AllocBuffer, seq
from ..core.refuse import Refused, refuse
from ..core.sref import Sref
from ..core.state import ScheduleState
from .conditions import (
    iterators_driven,
    require_affine,
    require_blocks_only,
    require_complete_values,
    why_not_complete,
    why_not_update,
)
from .coverage import why_not_independent
from .dependence import block_scope, scope_of
from .distinct import conflict_with_example, distinct_cells, require_distinct
from .enclosing import instance_key
from .ownership import used_outside

_WORDS = {"R": "reduction", "opaque": "opaque", "scan": "scan"}


def require_parallel(state: ScheduleState, loop: Sref, threads: str = "", private: bool = False) -> list[Buffer]:
    """Refuse unless the iterations of a loop may run in any order, also at once.

    Every block inside is complete, or a reduction whose loop drives spatial iterators; bindings are affine; different iterations
    write different cells and read nothing of each other. ``threads`` names the axis of a GPU: threadIdx may drive reduction
    iterators of a block with an initialisation, threads may all write the same values, and memory of which each block or
    thread has its own is no obstacle. With ``private``, blocks that write only buffers an iteration can have for itself are
    exempt; those buffers are the result.
    """
    require_blocks_only(loop)
    own: list[Buffer] = []
    candidates = private_buffers(state, loop, threads) if private or threads else set()
    for block in state.blocks_below(loop):
        written = block_scope(state, block).writes[block]
        if not candidates.issuperset(written):
            _require_block(state, loop, block, threads)
            continue
        if not private and distinct_cells(state, block, loop):
            continue  # nothing of it is refused or assumed
        try:
            with state.without_pictures():
                _require_block(state, loop, block, threads)
        except Refused:
            own += [buffer for buffer in written if buffer not in own]
    require_complete_values(state, state.blocks_below(loop), loop)  # threads reduce together, without sums on the way
    fault = why_not_independent(state, loop)
    if fault is not None:
        refuse(
            "E415",
            fault.reason,
            "independent iterations",
            [loop, fault.block],
            "a loop inside or outside of this one, or compute the shared buffer before the loop",
        )
    return own


def has_own(threads: str, scope: str) -> bool:
    """True if each value of a GPU axis has its own memory of a scope: blocks their shared memory, threads what is local."""
    return scope == "local" or (threads.startswith("blockIdx") and not scope.startswith("global"))


def _require_block(state: ScheduleState, loop: Sref, block: Sref, threads: str) -> None:
    """Refuse unless the instances of a block may run in any order. What was proved once of a block as it stands is cached."""
    key = ("parallel", block.block, loop.loop.loop_var, threads, instance_key(state, block))
    if key not in state.cache:
        assumed = len(state.assumptions)
        _prove_block(state, loop, block, threads)
        if len(state.assumptions) == assumed:
            state.cache[key] = True


def _prove_block(state: ScheduleState, loop: Sref, block: Sref, threads: str) -> None:
    complete = why_not_complete(state, block, dominant=False)
    reason = complete and why_not_update(state, block, False, loop)
    if reason is not None:
        refuse(
            "E411", f"the iterations of loop {loop.name} depend on each other: {reason}",
            "complete or reduction block", [loop, block], clash=conflict_with_example(state, block, over=loop),
            nearest="a loop that drives spatial iterators alone, or rfactor of the reduction first",
        )  # fmt: skip
    require_affine(state, block, loop, repeats=bool(threads))
    driven = iterators_driven(block, loop)
    for kind, value in driven:
        if kind == "S" or (kind == "R" and threads.startswith("threadIdx") and block.block.init is not None):
            continue
        refuse(
            "E414", f"loop {loop.name} drives a {_WORDS.get(kind, kind)} iterator of block {block.name} ({value})",
            "spatial iterators only", [loop, block], clash=conflict_with_example(state, block, over=loop),
            nearest="choose a loop that drives spatial iterators, or rfactor the reduction first",
        )  # fmt: skip
    if not driven and int_value(loop.loop.extent) != 1 and not (threads and complete is None):
        refuse(
            "E414", f"block {block.name} does not use loop {loop.name}: every iteration does the same work",
            "spatial iterators only", [loop, block], clash=conflict_with_example(state, block, over=loop),
            nearest=f"set_scope of what {block.name} writes to shared or local, so that each has its own"
            if threads else f"a loop that block {block.name} uses, or compute it before loop {loop.name}",
        )  # fmt: skip
    require_distinct(state, block, loop)


def private_buffers(state: ScheduleState, loop: Sref, threads: str = "") -> set[Buffer]:
    """Buffers of the scope that are used inside a loop alone, and written there before they are read; with ``threads``, an axis of
    a GPU, those of which each value of the axis has its own."""
    root = scope_of(loop)
    blocks = state.blocks_below(loop)
    if not blocks or loop.node is None:
        return set()
    scope = block_scope(state, blocks[0])
    found = set()
    for buffer in root.block.alloc_buffers:
        if threads and not has_own(threads, buffer.scope):
            continue
        users = [b for b in scope.blocks if buffer in scope.writes[b] or buffer in scope.reads[b]]
        if not users or buffer in scope.reads[users[0]] or not all([b in blocks for b in users]):
            continue
        if "R" in [kind for kind, _ in iterators_driven(users[0], loop)]:
            continue  # a sum that goes on from the iteration before
        found.add(buffer)
    elsewhere = used_outside(state, loop, root) if found else set()
    return {buffer for buffer in found if buffer.data not in elsewhere}


def allocate_inside(state: ScheduleState, loop: Sref, buffers: list[Buffer]) -> None:
    """Move allocations of the scope into the body of a loop."""
    if not buffers:
        return
    state.owning.add(loop.func)
    state.change(loop, body=seq(*[AllocBuffer(b) for b in buffers], loop.loop.body))
    root = scope_of(loop)
    state.change(root, alloc_buffers=tuple([b for b in root.block.alloc_buffers if b not in buffers]))


def require_kinds(state: ScheduleState, loop: Sref) -> None:
    """Refuse unless a loop and those around it may still run as they are marked to, with what now stands inside."""
    for item in (loop, *loop.above()):
        if item.is_block:
            return
        if item.loop.kind == "parallel":
            allocate_inside(state, item, require_parallel(state, item, private=True))
        elif item.loop.kind == "vectorized":
            require_parallel(state, item)
        elif item.loop.thread is not None:
            require_parallel(state, item, item.loop.thread)
