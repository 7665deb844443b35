"""Thread axes of tensor programs: loops and attributes that bind a variable to blocks, threads or virtual threads of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...support.source import Span
from ..build import const, dtype_of
from ..expr import Var
from ..function import PrimFunc
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
    """True if a statement binds a thread axis."""
    if type(stmt) is For:
        return stmt.kind == "thread_binding"
    return type(stmt) is AttrStmt and stmt.key in ("thread_extent", "virtual_thread") and type(stmt.node) is IterVar


OWN_BARRIERS = "own_barriers"
"""Attribute of statements of a kernel that has all the barriers it needs: no pass inserts any."""
MIN_BLOCKS_PER_SM = "pragma_blocks_together"
"""Attribute of statements of a kernel, annotation of a ``T.block``: of its blocks of threads a multiprocessor is to have so many at
a time, which bounds registers."""
DEVICE_KERNEL_LAUNCH = 2
"""``calling_conv`` of a kernel that is a function of its own: only a launch calls it."""


def is_device_function(func: Any) -> bool:
    """True if a function of a module is a kernel, which its host functions launch."""
    return isinstance(func, PrimFunc) and func.attrs.get("calling_conv") == DEVICE_KERNEL_LAUNCH


def is_virtual(tag: str) -> bool:
    """True if a tag names an axis of virtual threads, which each thread runs itself."""
    return tag.startswith(("vthread", "cthread"))


def axis_of(stmt: For | AttrStmt, outer: tuple[str, ...] = ()) -> ThreadAxis:
    """The axis that a statement binds, under axes of the tags ``outer``."""
    if type(stmt) is For:
        var, tag, extent = stmt.loop_var, stmt.thread or "", stmt.extent
    else:
        assert type(stmt) is AttrStmt
        var, tag, extent = stmt.node.var, stmt.node.thread_tag, stmt.value
    return ThreadAxis(var, tag, (tag, outer.count(tag)), extent, stmt.span)


def as_loop(stmt: For | AttrStmt) -> For:
    """The loop over the threads of an axis that a statement binds."""
    if type(stmt) is For:
        return stmt
    axis, body = axis_of(stmt), stmt.body
    return For(axis.var, const(0, dtype_of(axis.var)), axis.extent, "thread_binding", body, axis.tag, span=stmt.span)


def thread_axes(stmt: Stmt) -> list[ThreadAxis]:
    """All thread axes bound in a statement, in order."""
    found: list[ThreadAxis] = []

    def visit(node: Any, tags: tuple[str, ...]) -> None:
        if is_thread_axis(node):
            found.append(axis_of(node, tags))
            tags = (*tags, found[-1].tag)
        for child in children(node):
            if not isinstance(child, Expr):
                visit(child, tags)

    visit(stmt, ())
    return found
