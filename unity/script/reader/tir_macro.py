"""Macros of tensor programs: a call is replaced by the body, and has the value that the body returns.

Not here: what a macro is (``scope.py``), macros of graph functions (``relax.py``). Invariant: a body is read in the scope
of its definition (hygienic) or of its call, with the parameters standing for the arguments; ``return`` ends the body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..parser import syntax as s
from .base import Reading, Silent
from .mutable import mutable_names
from .plain import is_number
from .scope import Macro, Scope
from .tir_assign import AssignReader
from .tir_expr import TensorExprReader

_MAX_EXPANSION = 60
_MAX_EXPANSIONS = 10_000


class MacroReader(AssignReader):
    """Reads the bodies of macros into the open sequence."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self.expansions = 0
        self.expansion_depth = 0

    def call_value(self, callee: Any, node: s.Call) -> Any:
        if type(callee) is not Macro:
            return super().call_value(callee, node)
        known = len(self.reading.errors)
        ended, value = self.expand(callee, node)
        if len(self.reading.errors) > known:
            raise Silent
        if not ended or value is None:
            raise self.error(
                "E113", f"the macro {callee.definition.name} returns no value", node,
                "end it with `return value`, or call it on a line of its own",
            )  # fmt: skip
        return value

    def expand(self, macro: Macro, node: s.Call) -> tuple[bool, Any]:
        """Read a macro's body in place of its call. Returns whether it ended in a return, and the value."""
        if macro.level != "T":
            raise self.error("E113", "this macro is for graph functions", node)
        hint, naming = self.hint, self.naming is node
        args, keywords = self.arguments(node)
        self.expansions += 1
        if self.expansion_depth >= _MAX_EXPANSION or self.expansions > _MAX_EXPANSIONS:
            raise self.error("E105", "macros expand without end", node)
        names = macro_names(self, macro, node, args, keywords)
        with self._inside(macro, names):
            return self._body(macro.definition.body, hint, naming)

    @contextmanager
    def _inside(self, macro: Macro, names: dict[str, Any]) -> Iterator[None]:
        outer, mutable, source = self.scope, self.mutable, self.reading.source
        self.expansion_depth += 1
        self.reading.source = macro.source or source
        self.mutable = mutable_names(macro.definition.body, list(names))
        self.scope = Scope(macro.scope if macro.hygienic else outer, names)
        try:
            yield
        finally:
            self.scope, self.mutable, self.reading.source = outer, mutable, source
            self.expansion_depth -= 1

    def _body(self, body: list[s.Syntax], hint: str, naming: bool) -> tuple[bool, Any]:
        """Statements up to the first ``return`` that is reached while reading."""
        for stmt in body:
            if type(stmt) is s.Return:
                if stmt.value is None:
                    return True, None
                self.hint, self.naming = hint, stmt.value if naming else None
                return True, self.evaluate(stmt.value)
            branch = self._known_branch(stmt) if type(stmt) is s.If and _returns(stmt) else None
            if branch is None:
                self.statements([stmt])
                continue
            ended, value = self._body(branch, hint, naming)
            if ended:
                return True, value
        return False, None

    def _known_branch(self, node: s.If) -> list[s.Syntax]:
        """The branch of an ``if`` with a ``return`` in it: its conditions must be known while reading."""
        for condition_node, body in node.clauses:
            value = self.evaluate(condition_node)
            if not is_number(value):
                raise self.error(
                    "E107", "a macro returns where running decides", condition_node,
                    "return T.if_then_else(condition, a, b), or decide by a constant",
                )  # fmt: skip
            if value:
                return body
        return node.otherwise or []

    def statements(self, body: list[s.Syntax]) -> None:
        """Read statements into the open sequence."""
        raise NotImplementedError


def _returns(node: s.If) -> bool:
    """Whether a ``return`` stands in a branch, not counting loops and ``with`` inside."""
    pending: list[s.Syntax] = [node]
    while pending:
        at = pending.pop()
        if type(at) is s.Return:
            return True
        if type(at) is s.If:
            for _, body in at.clauses:
                pending += body
            pending += at.otherwise or []
    return False


def macro_names(
    reader: TensorExprReader | Any, macro: Macro, node: s.Call, args: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Arguments of a macro by parameter name."""
    params = macro.definition.params
    names: dict[str, Any] = {}
    for index, param in enumerate(params):
        if param.star:
            raise reader.error("E114", "a macro has plain parameters only", node)
        if index < len(args):
            names[param.name] = args[index]
        elif param.name in keywords:
            names[param.name] = keywords.pop(param.name)
        elif param.default is not None:
            names[param.name] = reader.evaluate(param.default)
        else:
            raise reader.error("E112", f"macro {macro.definition.name} needs the argument {param.name!r}", node)
    if len(args) > len(params) or keywords:
        raise reader.error("E112", f"macro {macro.definition.name} takes {len(params)} arguments", node)
    return names
