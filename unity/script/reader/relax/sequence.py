"""Sequences of statements of graph functions."""

from __future__ import annotations

from ...parser import syntax as s
from .graph import GraphReading

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
