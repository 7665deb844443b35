"""The statement tree around loops and blocks: a function's body as one root block, and one statement put in the place of another.

Not here: the index of loops and blocks (``state.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import const
from ....ir.stmt import (
    AllocBuffer,
    Bind,
    Block,
    BlockRealize,
    For,
    SeqStmt,
    Stmt,
    seq,
    statements_of,
)
from ....ir.walk import StatementRewriter, used_vars
from ....support.errors import InternalError

TRUE = const(True)
ROOT = "root"
"""Name of the block that holds a function's body."""


def as_root(body: Stmt) -> tuple[BlockRealize, bool]:
    """A function's body as one root block that holds its allocations, and whether it had to be made (False: it stood there).

    Allocations whose shape needs a scalar bound in the body stay where they are.
    """
    if type(body) is BlockRealize and not body.block.iter_vars and body.block.name == ROOT:
        return body, False
    stmts: Iterable[Stmt] = statements_of(body)
    bound = {s.var for s in stmts if type(s) is Bind}
    allocations: list[Buffer] = []
    rest: list[Stmt] = []
    for stmt in stmts:
        if type(stmt) is AllocBuffer and not stmt.annotations and bound.isdisjoint(used_vars(stmt.buffer)):
            allocations.append(stmt.buffer)
        else:
            rest.append(stmt)
    inner = rest[0] if len(rest) == 1 else SeqStmt(tuple(rest))
    return BlockRealize((), TRUE, Block((), (), (), tuple(allocations), (), {}, ROOT, inner)), True


def outer_form(root: BlockRealize) -> Stmt:
    """The body as it stands in the function: allocations as statements, without the root block unless that says more."""
    block = root.block
    if block.annotations or block.match_buffers or block.init is not None:
        return root
    return seq(*[AllocBuffer(b) for b in block.alloc_buffers], block.body)


class _Swap(StatementRewriter):
    """Puts ``new`` in the place of ``old`` inside ``top``; other loops and blocks are not looked into."""

    def __init__(self, top: Stmt, old: Stmt, new: Stmt) -> None:
        super().__init__()
        self.top, self.old, self.new = top, old, new

    def enter(self, node: Any) -> Any | None:
        if node is self.old:
            return self.new
        return node if isinstance(node, (For, BlockRealize)) and node is not self.top else None

    def leave(self, node: Any) -> Any:
        return node.stmts[0] if type(node) is SeqStmt and len(node.stmts) == 1 else node


def swap(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """``stmt`` with the statement ``old`` inside it replaced (not looking into loops and blocks other than
    ``stmt``)."""
    made = _Swap(stmt, old, new)(stmt)
    if made is stmt:
        raise InternalError("E901", "schedule: a statement to replace is not where the index says")
    return made
