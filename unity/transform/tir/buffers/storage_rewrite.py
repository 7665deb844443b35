"""storage_rewrite: large buffers are allocated once per function or thread, and share memory where their lives do not meet.

Buffers of constant size above ``least_bytes`` leave the loops they were allocated in: one allocation serves all iterations (of one
thread, inside a parallel loop). Of those that the same list of statements uses one after the other, those of one type share
memory. Small buffers stay: they become registers or stack. For programs over flat buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....ir.buffer import Buffer
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import NOTHING, AllocBuffer, DeclBuffer, For, Stmt, seq, statements_of
from ....ir.walk import StatementRewriter, collect, rewrite_outermost, substitute, used_vars
from ...infra.passes import prim_func_pass


@dataclass(slots=True)
class _Slot:
    """Memory that buffers take in turns."""

    buffer: Buffer
    elements: int
    last: int
    members: list[Buffer] = field(default_factory=list)


class _Hoist(StatementRewriter):
    """Takes large allocations out of a statement; parallel loops keep theirs."""

    def __init__(self, least_bytes: int, shared: set[Var]) -> None:
        super().__init__()
        self.least, self.shared = least_bytes, shared
        self.taken: list[AllocBuffer] = []
        self.depth = 0
        self.moved = False

    def enter(self, node: Any) -> Any | None:
        if type(node) is For and node.kind == "parallel":
            return node
        if type(node) is AllocBuffer and self._large(node.buffer) and node.buffer.data not in self.shared:
            self.taken.append(node)
            self.moved = self.moved or self.depth > 0
            return NOTHING
        if type(node) is For:
            self.depth += 1
            body = self.visit(node.body)
            self.depth -= 1
            return replace(node, body=body)
        return None

    def _large(self, buffer: Buffer) -> bool:
        if len(buffer.shape) != 1 or buffer.strides or buffer.elem_offset is not None:
            return False
        extent = buffer.shape[0]
        return type(extent) is IntImm and self.least <= extent.value * buffer.dtype.itemsize < 1 << 40


def _scope(body: Stmt, least_bytes: int) -> Stmt:
    """One function or thread: its parallel loops first, each a scope of its own."""

    def thread(stmt: Any) -> Stmt | None:
        is_parallel = type(stmt) is For and stmt.kind == "parallel"
        return replace(stmt, body=_scope(stmt.body, least_bytes)) if is_parallel else None

    body = rewrite_outermost(body, thread)
    views = {view.buffer.data for view in collect(body, DeclBuffer)}
    take = _Hoist(least_bytes, views)
    rest = take(body)
    if not take.taken:
        return body
    parts = statements_of(rest)
    used = [set(used_vars(part)) for part in parts]
    lives: list[tuple[int, int, AllocBuffer]] = []
    for alloc in take.taken:
        where = [i for i, names in enumerate(used) if alloc.buffer.data in names]
        if where:
            lives.append((where[0], where[-1], alloc))
    lives.sort(key=lambda life: (life[0], life[1]))
    slots: list[_Slot] = []
    for first, last, alloc in lives:
        extent = alloc.buffer.shape[0]
        assert type(extent) is IntImm
        count = extent.value
        free = [s for s in slots if s.last < first and s.buffer.dtype is alloc.buffer.dtype]
        if free:
            slot = min(free, key=lambda s: abs(s.elements - count))
            slot.elements, slot.last = max(slot.elements, count), last
            slot.members.append(alloc.buffer)
        else:
            slots.append(_Slot(alloc.buffer, count, last, [alloc.buffer]))
    if not take.moved and len(slots) == len(take.taken):
        return body
    mapping: dict[Any, Any] = {}
    made: list[Stmt] = []
    for slot in slots:
        buffer = slot.buffer
        extent = buffer.shape[0]
        assert type(extent) is IntImm
        if slot.elements != extent.value:
            buffer = replace(buffer, shape=(replace(extent, value=slot.elements),))
        made.append(AllocBuffer(buffer))
        for member in slot.members:
            if member is not buffer:
                mapping[member], mapping[member.data] = buffer, buffer.data
    return seq(*made, *[substitute(part, mapping) if mapping else part for part in parts])


@prim_func_pass()
def storage_rewrite(func: PrimFunc, *, least_bytes: int = 4096) -> PrimFunc:
    """Allocate large buffers once per function or thread, and let them share memory. For flat buffers.

    ``least_bytes``: smaller buffers stay where they are.
    """
    return replace(func, body=_scope(func.body, least_bytes))
