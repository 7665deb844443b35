"""Srefs: stable references to the loops and blocks of a function while it is rewritten.

Not here: rewriting (``state.py``). Invariant: ``sref.node`` is the node that stands in the function now, or None once
the loop or block is gone; ``parent`` is the sref of the nearest enclosing loop or block (None for the root block).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.expr import Var
from ....ir.node import Node
from ....ir.stmt import AttrStmt, Block, BlockRealize, For, IfThenElse, SeqStmt, Stmt, While

Item = For | BlockRealize
"""The statements that an sref stands for: a loop, or a block with the values of its iterators."""


class Sref:
    """Reference to a loop or a block of a function; survives every rewrite that keeps the loop or block."""

    __slots__ = ("func", "gone", "node", "parent")

    def __init__(self, func: str, node: Item | None, parent: Sref | None) -> None:
        self.func = func
        self.node = node
        self.parent = parent
        self.gone = ""

    @property
    def is_block(self) -> bool:
        """A block (False: a loop)."""
        return type(self.node) is BlockRealize

    @property
    def realize(self) -> BlockRealize:
        """The realization of a block."""
        assert type(self.node) is BlockRealize
        return self.node

    @property
    def block(self) -> Block:
        """The block."""
        assert type(self.node) is BlockRealize
        return self.node.block

    @property
    def loop(self) -> For:
        """The loop."""
        assert type(self.node) is For
        return self.node

    @property
    def stmt(self) -> Block | For:
        """The block or the loop, by TVM's name."""
        return self.block if self.is_block else self.loop

    @property
    def key(self) -> Node:
        """The key of the index: the loop variable or the block."""
        return key_of(self.node) if self.node is not None else self.node  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """Name of the block or of the loop variable."""
        if self.node is None:
            return self.gone
        return self.node.loop_var.name if isinstance(self.node, For) else self.node.block.name

    def above(self) -> Iterator[Sref]:
        """Enclosing loops and blocks, the nearest first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def __repr__(self) -> str:
        return f"Sref({self.name})"


LoopRef = Sref
"""An sref that stands for a loop (a primitive's parameter of this type takes a LoopRV)."""
BlockRef = Sref
"""An sref that stands for a block (takes a BlockRV)."""
ItemRef = Sref
"""An sref of either kind (takes a BlockRV or a LoopRV)."""


def key_of(node: Item) -> Var | Block:
    """The loop variable of a loop, the block of a realization: unique in a function."""
    return node.loop_var if isinstance(node, For) else node.block


def loops_of(item: Sref, upto: Sref | None = None) -> list[Sref]:
    """Loops around a loop or block within its enclosing block (strictly inside ``upto``, if given), from the outside in."""
    found: list[Sref] = []
    for above in item.above():
        if above is upto or above.is_block:
            break
        found.append(above)
    return found[::-1]


def inner_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside a statement; those of a block are its initialisation and body."""
    if isinstance(stmt, (For, While)) or type(stmt) is AttrStmt:
        return (stmt.body,)
    if type(stmt) is SeqStmt:
        return stmt.stmts
    if type(stmt) is BlockRealize:
        block = stmt.block
        return (block.body,) if block.init is None else (block.init, block.body)
    if type(stmt) is IfThenElse:
        other = stmt.else_case
        return (stmt.then_case,) if other is None else (stmt.then_case, other)
    return ()


def items_below(stmt: Stmt) -> list[Item]:
    """Loops and blocks directly below a statement (none between), in program order; the statement itself is not looked
    at."""
    if type(stmt) is For and isinstance(stmt.body, (For, BlockRealize)):
        return [stmt.body]
    found: list[Item] = []
    pending = list(reversed(inner_statements(stmt)))
    while pending:
        inner = pending.pop()
        if isinstance(inner, (For, BlockRealize)):
            found.append(inner)
        else:
            pending.extend(reversed(inner_statements(inner)))
    return found


def items_in(stmt: Stmt) -> list[Item]:
    """The topmost loops and blocks of a statement, itself included."""
    return [stmt] if isinstance(stmt, (For, BlockRealize)) else items_below(stmt)


def block_of(nest: Stmt) -> Block:
    """The block inside a nest of loops."""
    while type(nest) is For:
        nest = nest.body
    assert type(nest) is BlockRealize
    return nest.block


def statements_in(stmt: Stmt) -> list[Stmt]:
    """All statements of a statement, itself included; expressions are not looked at."""
    found: list[Stmt] = [stmt]
    for inner in found:  # grows while it is walked
        found += inner_statements(inner)
    return found
