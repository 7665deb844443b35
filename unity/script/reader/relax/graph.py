"""The state of reading a graph function: the sequence being built, the dataflow block around it, the result."""

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

    def made_inside(self, name: str) -> bool:
        """A variable of this name is visible only inside the dataflow block being read."""
        return self.dataflow and name not in self.outputs
