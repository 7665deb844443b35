"""Macros of tensor programs: the body is read into the open sequence, and has the value that it returns."""

from __future__ import annotations

from typing import Any

from ...parser import syntax as s
from ..common.macros import expansion
from ..common.plain import is_number
from ..common.reading import Reading, Silent
from ..common.scope import Macro
from ..common.values import read_expr
from . import calls
from .mutable import mutable_names
from .program import ProgramReading
from .sequence import read_statements


def call_value(r: Reading, callee: Any, node: s.Call) -> Any:
    """A call of a macro, or of a function of the module."""
    if type(callee) is not Macro:
        return calls.call_value(r, callee, node)
    assert isinstance(r, ProgramReading)
    known = len(r.errors)
    ended, value = expand(r, callee, node)
    if len(r.errors) > known:
        raise Silent
    if not ended or value is None:
        raise r.error(
            "E113", f"the macro {callee.definition.name} returns no value", node,
            "end it with `return value`, or call it on a line of its own",
        )  # fmt: skip
    return value


def expand(r: ProgramReading, macro: Macro, node: s.Call) -> tuple[bool, Any]:
    """Read a macro's body in place of its call. Returns whether it ended in a return, and the value."""
    hint, naming, mutable = r.hint, r.naming is node, r.mutable
    body = macro.definition.body
    with expansion(r, macro, node) as names:
        r.mutable = mutable_names(body, names)
        try:
            return _read_until_return(r, body, hint, naming)
        finally:
            r.mutable = mutable


def _read_until_return(r: ProgramReading, body: list[s.Syntax], hint: str, naming: bool) -> tuple[bool, Any]:
    """Statements up to the first ``return`` that is reached while reading."""
    for stmt in body:
        if type(stmt) is s.Return:
            if stmt.value is None:
                return True, None
            r.hint, r.naming = hint, stmt.value if naming else None
            return True, read_expr(r, stmt.value)
        if type(stmt) is not s.If or not _returns(stmt):
            read_statements(r, [stmt])
            continue
        ended, value = _read_until_return(r, _known_branch(r, stmt), hint, naming)
        if ended:
            return True, value
    return False, None


def _known_branch(r: ProgramReading, node: s.If) -> list[s.Syntax]:
    """The branch of an ``if`` with a ``return`` in it: its conditions must be known while reading."""
    for condition_node, body in node.clauses:
        value = read_expr(r, condition_node)
        if not is_number(value):
            raise r.error(
                "E107", "a macro returns where running decides", condition_node,
                "return T.if_then_else(condition, a, b), or decide by a constant",
            )  # fmt: skip
        if value:
            return body
    return node.otherwise or []


def _returns(node: s.If) -> bool:
    """True if a ``return`` is inside a branch, not counting loops and ``with`` inside."""
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
