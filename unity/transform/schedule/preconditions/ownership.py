"""Buffers that are allocated inside a loop belong to its iterations: no block outside of the loop may use them.

A step that moves a block could part it from such a buffer; every step is checked at its end where a function has any.
Not here: which buffers may become an iteration's own (``independence.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ir.buffer import Buffer
from ....ir.expr import IntImm, Var
from ....ir.stmt import For
from ....ir.walk import nodes_in
from ..core.refuse import refuse
from ..core.sref import Sref, items_below
from ..core.state import ScheduleState, pointers


def require_owned(state: ScheduleState) -> None:
    """Refuse E448 when a block uses a buffer that another loop's iterations own, or two places allocate one."""
    for func in state.owning:
        pending = [state.roots[func]]
        seen: set[Var] = set()
        while pending:
            at = pending.pop()
            assert at.node is not None
            _, own, inside = pointers(state, at.node)
            if not inside:
                continue
            for data in own:
                _require_inside(state, at, data)
                if data in seen:
                    refuse("E448", f"{data.name} would be allocated twice", "an owner for each buffer", at,
                           "take this step before parallel gives the iterations buffers of their own")  # fmt: skip
                seen.add(data)
            pending += state.children(at)


def allocate(state: ScheduleState, scope: Sref, buffers: Iterable[Buffer], used: Iterable[Var]) -> None:
    """Give a scope more buffers, which stand for what some pointers address. Refuses E448 where each iteration of a loop has that
    for itself."""
    _require_shared(state, scope.func, used)
    state.change(scope, alloc_buffers=(*scope.block.alloc_buffers, *buffers))


def _require_shared(state: ScheduleState, func: str, used: Iterable[Var]) -> None:
    wanted = frozenset(used)
    pending = [state.roots[func]] if func in state.owning else []
    while pending:
        at = pending.pop()
        assert at.node is not None
        _, own, inside = pointers(state, at.node)
        for data in own:
            if data in wanted and not at.is_block:
                refuse("E448", f"iterations of loop {at.name} would share what stands for {data.name}, of which each has its own",
                       "an owner for each buffer", at,
                       "take this step before parallel gives the iterations buffers of their own")  # fmt: skip
        if inside:
            pending += state.children(at)


def _require_inside(state: ScheduleState, owner: Sref, data: Var) -> None:
    """Refuse where something outside of ``owner`` uses a buffer that it allocates."""
    at = owner
    for above in owner.above():
        for other in state.children(above):
            assert other.node is not None
            if other is not at and data in pointers(state, other.node)[0]:
                user = _user(state, other, data)
                refuse(
                    "E448", f"{user.name} would use {data.name} outside of loop {owner.name}, each iteration of which has its own",
                    "an owner for each buffer", [owner, user],
                    f"leave it under loop {owner.name}, or take this step before parallel",
                )  # fmt: skip
        at = above


def used_outside(state: ScheduleState, loop: Sref, scope: Sref) -> set[Var]:
    """Pointers that the body of a scope uses outside of a loop in it."""
    found: set[Var] = set()
    at = loop
    while at is not scope:
        assert at.parent is not None and at.parent.node is not None
        inside, at = at, at.parent
        assert at.node is not None
        if type(at.node) is For and at.node.body is inside.node and type(at.node.min) is type(at.node.extent) is IntImm:
            continue
        others = [item for item in items_below(at.node) if item is not inside.node]
        found = found.union(*[pointers(state, item)[0] for item in others])
        held = at.block.body if at.is_block else at.node
        found |= {n for n in nodes_in(held, {id(item) for item in (*others, inside.node)}) if type(n) is Var}
    return found


def _user(state: ScheduleState, at: Sref, data: Var) -> Sref:
    """The innermost loop or block below that uses a pointer."""
    inner = [s for s in state.children(at) if s.node is not None and data in pointers(state, s.node)[0]]
    return _user(state, inner[0], data) if inner else at
