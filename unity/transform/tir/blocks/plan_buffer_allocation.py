"""plan_buffer_allocation: a buffer is allocated in the innermost block that holds all its uses.

The allocation moves inwards only past blocks, never into a loop: there it would lose what one iteration leaves to the next.
"""

from __future__ import annotations

from ....ir.buffer import Buffer
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import Block, BlockRealize, SeqStmt, Stmt
from ....ir.types import Expr
from ....ir.walk import rewrite, used_vars
from ...infra.passes import prim_func_pass


def _uses(node: Stmt | Expr, buffer: Buffer) -> bool:
    return buffer.data in used_vars(node)


def _push(stmt: Stmt, buffer: Buffer) -> Stmt | None:
    """``stmt`` with the allocation moved into the one block directly inside it that uses the buffer, or None."""
    if type(stmt) is BlockRealize:
        if any([_uses(v, buffer) for v in stmt.iter_values]) or _uses(stmt.predicate, buffer):
            return None
        if any([r.buffer is buffer for r in (stmt.block.reads or ()) + (stmt.block.writes or ())]):
            return None
        return replace(stmt, block=replace(stmt.block, alloc_buffers=(*stmt.block.alloc_buffers, buffer)))
    if type(stmt) is SeqStmt:
        users = [i for i, part in enumerate(stmt.stmts) if _uses(part, buffer)]
        if len(users) != 1:
            return None
        inner = _push(stmt.stmts[users[0]], buffer)
        if inner is None:
            return None
        return SeqStmt((*stmt.stmts[: users[0]], inner, *stmt.stmts[users[0] + 1 :]), stmt.span)
    return None


def _block(block: Block) -> Block:
    kept: list[Buffer] = []
    body = block.body
    for buffer in block.alloc_buffers:
        alone = block.init is None or not _uses(block.init, buffer)
        moved = _push(body, buffer) if alone else None
        if moved is None:
            kept.append(buffer)
        else:
            body = moved
    return replace(block, body=body, alloc_buffers=tuple(kept))


@prim_func_pass()
def plan_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """Move allocations to the innermost block around their uses. For programs with blocks."""
    return rewrite(func, {Block: _block})
