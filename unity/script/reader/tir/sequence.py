"""Sequences of statements: what is read is appended to the open one, and wrapped when it ends.

Invariant: a statement that binds for the rest of its sequence (flat ``T.attr``, ``T.launch_thread``) is kept in ``wraps`` and put
around the rest when the sequence ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir import AttrStmt, Stmt, seq
from ...parser import syntax as s
from ..common.scope import Scope
from .program import ProgramReading, Wrap


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
