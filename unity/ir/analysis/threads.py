"""Thread axes of tensor programs: loops and attributes that bind a variable to blocks, threads or virtual threads of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...support.source import Span
from ..expr import Var
from ..node import Node
from ..scalar import IterVar
from ..stmt import AttrStmt, For, Stmt
from ..types import Expr
from ..walk import children


@dataclass(slots=True)
class ThreadAxis:
    """A thread axis as the program binds it; ``key`` tells virtual axes of one tag apart by their nesting."""

    var: Var
    tag: str
    key: tuple[str, int]
    extent: Expr
    span: Span | None


def is_thread_axis(stmt: Any) -> bool:
    """Does a statement bind a thread axis."""
    if type(stmt) is For:
        return stmt.kind == "thread_binding"
    return type(stmt) is AttrStmt and stmt.key in ("thread_extent", "virtual_thread") and type(stmt.node) is IterVar


def thread_axes(stmt: Stmt) -> list[ThreadAxis]:
    """All thread axes bound in a statement, in order."""
    found: list[ThreadAxis] = []

    def visit(node: Node, tags: tuple[str, ...]) -> None:
        if is_thread_axis(node):
            if type(node) is For:
                var, tag, extent = node.loop_var, node.thread or "", node.extent
            else:
                assert type(node) is AttrStmt
                var, tag, extent = node.node.var, node.node.thread_tag, node.value
            found.append(ThreadAxis(var, tag, (tag, tags.count(tag)), extent, getattr(node, "span", None)))
            tags = (*tags, tag)
        for child in children(node):
            visit(child, tags)

    visit(stmt, ())
    return found
