"""The statement tree around loops and blocks: a function's body as one root block, and one statement put in the place of another.

Not here: the index of loops and blocks (``state.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ir.buffer import Buffer
from ....ir.build import const
from ....ir.node import replace as with_fields
from ....ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    BlockRealize,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    flat_statements,
    seq,
    statements_of,
)
from ....ir.walk import used_vars
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


def swap(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """``stmt`` with the statement ``old`` inside it replaced (not looking into loops and blocks other than
    ``stmt``)."""
    found = _swap(stmt, old, new, True)
    if found is None:
        raise InternalError("E901", "schedule: a statement to replace is not where the index says")
    return found


def _swap(stmt: Stmt, old: Stmt, new: Stmt, top: bool) -> Stmt | None:
    if stmt is old:
        return new
    kind = type(stmt)
    if not top and (isinstance(stmt, (For, BlockRealize))):
        return None
    if type(stmt) is SeqStmt:
        for number, inner in enumerate(stmt.stmts):
            made = _swap(inner, old, new, False)
            if made is not None:
                stmts = (*stmt.stmts[:number], made, *stmt.stmts[number + 1 :])
                flat = flat_statements(stmts)
                return flat[0] if len(flat) == 1 else SeqStmt(flat, getattr(stmt, "span", None))
        return None
    if type(stmt) is BlockRealize:
        block: Block = stmt.block
        if block.init is not None:
            init = _swap(block.init, old, new, False)
            if init is not None:
                return with_fields(stmt, block=with_fields(block, init=init))
        body = _swap(block.body, old, new, False)
        return None if body is None else with_fields(stmt, block=with_fields(block, body=body))
    names = {For: ("body",), While: ("body",), AttrStmt: ("body",), IfThenElse: ("then_case", "else_case")}.get(
        kind, ()
    )
    for name in names:
        inner_stmt = getattr(stmt, name)
        made = _swap(inner_stmt, old, new, False) if inner_stmt is not None else None
        if made is not None:
            return with_fields(stmt, **{name: made})
    return None
