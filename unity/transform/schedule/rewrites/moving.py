"""Moving blocks: take statements out of a scope and put others in, in one rewrite; places inside a loop body.

Not here: what moves and why. Invariant: blocks and loops that are moved as they are keep their srefs; a loop that
becomes empty disappears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....ir.buffer import Buffer
from ....ir.stmt import (
    NOTHING,
    AllocBuffer,
    Block,
    BlockRealize,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    flat_statements,
    is_nothing,
)
from ....ir.walk import StatementRewriter
from ....support.recursion import deep_recursion
from ..core.sref import Sref, items_below, items_in
from ..core.state import ScheduleState


class Mover(StatementRewriter):
    """Replaces statements by identity, takes the allocation of a ``dropped`` buffer away, and records which block became which in
    ``blocks``."""

    def __init__(self, moves: Mapping[int, Stmt], dropped: Buffer | None = None) -> None:
        super().__init__()
        self.moves = moves
        self.dropped = dropped
        self.blocks: dict[Block, Block] = {}

    def visit(self, node: Any) -> Any:
        made = super().visit(node)
        if type(node) is Block and made is not node:
            self.blocks[node] = made
        return made

    def enter(self, node: Any) -> Any | None:
        is_dropped = type(node) is AllocBuffer and node.buffer is self.dropped
        return NOTHING if is_dropped else self.moves.get(id(node))

    def leave(self, node: Any) -> Any:
        if type(node) is Block and self.dropped in node.alloc_buffers:
            return replace(node, alloc_buffers=tuple([b for b in node.alloc_buffers if b is not self.dropped]))
        if type(node) is For and is_nothing(node.body):
            return NOTHING
        if type(node) is IfThenElse and is_nothing(node.then_case) and is_nothing(node.else_case):
            return NOTHING
        if type(node) is SeqStmt:
            flat = flat_statements(node.stmts)
            return flat[0] if len(flat) == 1 else node if len(flat) == len(node.stmts) else SeqStmt(flat, node.span)
        return node


def move(
    state: ScheduleState, scope: Sref, moves: Sequence[tuple[Stmt, Stmt]], fields: Mapping[str, Any] | None = None
) -> None:
    """Replace statements inside the block ``scope``, each ``(old, new)`` found by identity; ``new`` is not looked into,
    so it may hold what another pair removes. ``fields`` are new fields of the scope's block (its allocations)."""
    mover = Mover({id(old): new for old, new in moves})
    with deep_recursion():
        body = mover(scope.block.body)
    state.change(scope, mover.blocks, body=body, **(fields or {}))


def position_of(stmts: Sequence[Stmt], block: Block) -> int | None:
    """Place of the statement that contains a block."""
    return next((k for k, stmt in enumerate(stmts) if contains(stmt, block)), None)


def contains(stmt: Stmt, block: Block) -> bool:
    """True if a statement contains a block, at any depth of loops."""
    pending = items_in(stmt)
    for item in pending:  # grows while it is walked
        pending += items_below(item) if type(item) is For else []
    return any([type(item) is BlockRealize and item.block is block for item in pending])


def body_of(at: Sref) -> Stmt:
    """Body of a loop or block."""
    return at.block.body if at.is_block else at.loop.body
