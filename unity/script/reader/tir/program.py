"""The state of reading a tensor program: the sequence of statements being read, the block around it, what was declared.

What is read is appended to the open sequence. Invariant: a statement that binds for the rest of its sequence (flat ``T.attr``,
``T.launch_thread``) is kept in ``wraps`` and put around the rest when the sequence ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....ir import AttrStmt, Buffer, BufferRegion, Expr, For, IterVar, Stmt, Var, seq
from ...parser import syntax as s
from ...parser.layout import MAX_INDENTS
from ..common.reading import Level, Module, Reading, Text
from ..common.scope import Scope

Wrap = Callable[[Stmt], Stmt]


@dataclass(slots=True, eq=False)
class BlockContext:
    """The facts about a block that its statements give."""

    late: bool
    """Written ``T.sblock``: the era in which ``T.alloc_buffer`` is a statement."""
    iter_vars: list[IterVar] = field(default_factory=list)
    iter_values: list[Expr] = field(default_factory=list)
    predicate: Expr | None = None
    reads: list[BufferRegion] | None = None
    writes: list[BufferRegion] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    alloc_buffers: list[Buffer] = field(default_factory=list)
    match_buffers: list[Any] = field(default_factory=list)
    init: Stmt | None = None


class ProgramReading(Reading):
    """Reading one tensor program."""

    def __init__(self, text: Text, scope: Scope, level: Level, module: Module) -> None:
        super().__init__(text, scope, level, module)
        self.out: list[Stmt] = []
        """The statements of the sequence being read."""
        self.wraps: list[tuple[int, Wrap]] = []
        """Functions that wrap the rest of the sequence, from a place in ``out`` on."""
        self.indents = 0
        """Levels of indentation that what is read now has in print."""
        self.block: BlockContext | None = None
        self.block_scope: Scope | None = None
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.mutable: set[int] = set()
        """Places of the assignments that declare a mutable scalar."""
        self.loops: dict[Var, For] = {}
        self.iters: dict[Var, IterVar] = {}
        self.ended: set[str] = set()
        """Names of blocks that have ended."""

    def deeper(self, levels: int, node: s.Syntax) -> None:
        """More statements around what follows. Raises E105 where they need more levels in print than a text may have."""
        self.indents += levels
        if self.indents >= MAX_INDENTS:  # one is for the class around the function
            raise self.error("E105", f"{MAX_INDENTS} or more statements inside each other", node)


def read_statements(r: ProgramReading, body: list[s.Syntax]) -> None:
    """Read statements into the open sequence; an error ends its own statement only."""
    table = r.level.statements
    for stmt in body:
        r.try_read(table[type(stmt)], stmt)


def read_body(
    r: ProgramReading, body: list[s.Syntax], names: dict[str, Any] | None = None, of_block: bool = False
) -> Stmt:
    """The statements of a suite as one statement, in a scope of their own."""
    outer = r.scope, r.out, r.wraps, r.indents
    r.scope, r.out, r.wraps = Scope(r.scope, names), [], []
    if of_block:
        r.block_scope = r.scope
    try:
        r.deeper(1, body[0])
        read_statements(r, body)
        for at, wrap in reversed(r.wraps):
            r.out[at:] = [wrap(seq(*r.out[at:]))]
        return seq(*r.out)
    finally:
        if not of_block:
            r.ended.update(r.scope.names)
        r.scope, r.out, r.wraps, r.indents = outer


def read_detached(r: ProgramReading, read: Callable[[], Any]) -> tuple[Any, list[Stmt]]:
    """A value, and the statements that reading it makes: they are kept out of the open sequence."""
    outer, r.out = r.out, []
    try:
        return read(), r.out
    finally:
        r.out = outer


def wrap_rest(r: ProgramReading, wrap: Wrap, node: s.Syntax) -> None:
    """Put ``wrap`` around everything that follows in this sequence."""
    r.deeper(1, node)
    r.wraps.append((len(r.out), wrap))


def attr_wrap(r: ProgramReading, node: Any, key: str, value: Any, where: s.Syntax) -> Wrap:
    """A function that puts an AttrStmt around a statement."""
    span = r.span(where)
    return lambda body: AttrStmt(node, key, value, body, span)
