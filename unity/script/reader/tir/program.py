"""The state of reading a tensor program: the sequence being read, the block around it, what was declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....ir import Buffer, BufferRegion, Expr, For, IterVar, Stmt, Var
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
