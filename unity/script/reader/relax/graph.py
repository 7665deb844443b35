"""The state of reading a graph function: the sequence being built, the dataflow block around it, the result; and of the
statements of a sequence."""

from __future__ import annotations

from typing import Any

from ....ir import BlockBuilder, Expr, Type, Var
from ...parser import syntax as s
from ..common.reading import Level, Module, Reading, Text
from ..common.scope import Scope


class GraphReading(Reading):
    """Reading one graph function."""

    def __init__(
        self, text: Text, scope: Scope, level: Level, module: Module, node: s.FunctionDef, options: dict[str, bool]
    ) -> None:
        super().__init__(text, scope, level, module)
        self.node = node
        self.options = options
        self.builder = BlockBuilder()
        self.params: list[Var] = []
        self.ret_ty: Type | None = None
        self.attrs: dict[str, Any] = {}
        self.outer_symbols: list[Var] = []
        """Symbols of the function around a nested one."""
        self.dataflow = False
        self.outputs: set[str] = set()
        """Names that the dataflow block being read gives out."""
        self.hidden: dict[str, Var] = {}
        """Names of dataflow blocks that have ended."""
        self.result: Expr | None = None
        self.return_node: s.Syntax | None = None

    def is_dataflow_local(self, name: str) -> bool:
        """A variable of this name is visible only inside the dataflow block being read."""
        return self.dataflow and name not in self.outputs


NOTHING = (s.Pass, s.Skipped)
"""Statements that do nothing."""


def read_statements(r: GraphReading, body: list[s.Syntax], top: bool = False) -> None:
    """Read statements into the open sequence; an error ends its own statement only."""
    for stmt in body:
        r.try_read(_read_statement if top else _read_inner, stmt)


def _read_inner(r: GraphReading, stmt: s.Syntax) -> None:
    if type(stmt) is s.Return:
        raise r.error("E116", "return stands only at the end of the function", stmt)
    _read_statement(r, stmt)


def _read_statement(r: GraphReading, stmt: s.Syntax) -> None:
    if r.result is not None and type(stmt) not in NOTHING:
        raise r.error("E116", "a statement after return", stmt)
    r.level.statements[type(stmt)](r, stmt)
