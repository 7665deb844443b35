"""``with``: ``T.block(...)``, ``T.init()``, ``T.attr(...)`` and the other forms that hold a body. ``FRAMES`` is the table.

Invariant: a frame reads its body through the function it is given, so that several frames of one ``with`` nest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....ir import Bind, IfThenElse, Stmt, Var, While, seq
from ....support.errors import suggest
from ...parser import syntax as s
from ..common.calls import bound_arguments
from ..common.names import path_of
from ..common.scope import Scope
from ..common.values import read_expr, read_scalar
from .assign import bind
from .blocks import open_block, read_block
from .expr import as_condition
from .program import ProgramReading, read_body, read_detached
from .statement_forms import assert_form, attr_wraps, launch


@dataclass(slots=True, frozen=True)
class Frame:
    """One item of a ``with``: the form called, its name after ``as`` or the empty text, and what reads the rest."""

    path: str
    call: s.Call
    name: str
    body: Callable[[], Stmt]
    node: s.With


def read_with(r: ProgramReading, node: s.With) -> None:
    """``with frame, frame as name: ...``."""
    outer = r.indents
    r.deeper(len(node.items) - 1, node)
    r.out.append(_nested(r, node.items, node))
    r.indents = outer


def _nested(r: ProgramReading, items: list[s.WithItem], node: s.With) -> Stmt:
    outer = r.scope
    if not items:
        result = read_body(r, node.body, of_block=r.block is not None and r.block_scope is None)
        r.scope = outer
        return result
    item, rest = items[0], items[1:]
    call = item.value
    path = path_of(r, call.func) if type(call) is s.Call else None
    if type(call) is not s.Call or path not in FRAMES:
        raise r.error(
            "E113", "`with` takes T.block, T.init, T.attr, T.launch_thread and the like", item.value,
            suggest(path, FRAMES),
        )  # fmt: skip
    assert path is not None
    r.hint = item.target.name if type(item.target) is s.Name else ""
    return FRAMES[path](r, Frame(path, call, r.hint, lambda: _nested(r, rest, node), node))


def _body(r: ProgramReading, frame: Frame, value: Any) -> Stmt:
    """The body of a frame, its name standing for a value."""
    outer = r.scope
    r.scope = Scope(outer, {frame.name: value} if frame.name else {})
    try:
        return frame.body()
    finally:
        r.scope = outer


def _block(r: ProgramReading, frame: Frame) -> Stmt:
    return read_block(r, frame.path, frame.call, frame.body)


def _init(r: ProgramReading, frame: Frame) -> Stmt:
    block = open_block(r, frame.path, frame.call)
    if block.init is not None:
        raise r.error("E115", "a block has one T.init()", frame.call)
    outer, r.block_scope = r.block_scope, r.scope
    try:
        block.init = frame.body()
    finally:
        r.block_scope = outer
    return seq()


def _attr(r: ProgramReading, frame: Frame) -> Stmt:
    wraps = attr_wraps(r, frame.path, frame.call)
    result = frame.body()
    for wrap in reversed(wraps):
        result = wrap(result)
    return result


def _launch(r: ProgramReading, frame: Frame) -> Stmt:
    var, wrap = launch(r, frame.call, frame.name)
    return wrap(_body(r, frame, var))


def _bind(r: ProgramReading, frame: Frame) -> Stmt:
    call = frame.call
    known = [keyword.value for keyword in call.keywords if keyword.name == "var"]
    if not 1 <= len(call.args) <= 2 or len(known) != len(call.keywords) or len(known) + len(call.args) > 2:
        raise r.error("E112", f"{frame.path} takes a value", call)
    value = read_scalar(r, call.args[-1])
    if not known:
        var, made = read_detached(r, lambda: bind(r, frame.name or "v", value, call))
        return seq(*made, _body(r, frame, var))
    var = read_expr(r, known[0])  # T.LetStmt(value, var=p) binds a variable declared before
    if type(var) is not Var or var in r.params or var in r.let_bound:
        raise r.error("E113", "var= is a variable declared before, which has no value yet", known[0])
    r.let_bound.add(var)
    return seq(Bind(var, value, r.span(call)), _body(r, frame, var))


def _buffer(r: ProgramReading, frame: Frame) -> Stmt:
    buffer, made = read_detached(r, lambda: r.level.forms[frame.path](r, frame.path, frame.call))
    return seq(*made, _body(r, frame, buffer))


def _assert(r: ProgramReading, frame: Frame) -> Stmt:
    assert_form(r, frame.path, frame.call)
    return frame.body()


def _while(r: ProgramReading, frame: Frame) -> Stmt:
    condition = bound_arguments(r, frame.path, frame.call, ("condition",), 1)["condition"]
    return While(as_condition(r, condition, frame.call), frame.body(), r.span(frame.call))


def _if(r: ProgramReading, frame: Frame) -> Stmt:
    call = frame.call
    condition = as_condition(r, bound_arguments(r, frame.path, call, ("condition",), 1)["condition"], call)
    branches: dict[str, Stmt] = {}
    for stmt in frame.node.body:
        inner = stmt.items[0].value if type(stmt) is s.With and len(stmt.items) == 1 else None
        part = path_of(r, inner.func) if type(inner) is s.Call else None
        if type(stmt) is not s.With or part not in ("T.Then", "T.Else") or part in branches:
            message = "with T.If(...) holds one `with T.Then()` and perhaps one `with T.Else()`"
            raise r.error("E116", message, stmt)
        branches[part] = read_body(r, stmt.body)
    if "T.Then" not in branches:
        raise r.error("E116", "with T.If(...) needs `with T.Then()`", call)
    return IfThenElse(condition, branches["T.Then"], branches.get("T.Else"), r.span(call))


FRAMES: dict[str, Callable[[ProgramReading, Frame], Stmt]] = {
    "T.block": _block, "T.init": _init, "T.attr": _attr, "T.hint": _attr, "T.launch_thread": _launch,
    "T.LetStmt": _bind, "T.Let": _bind, "T.allocate": _buffer, "T.allocate_const": _buffer,
    "T.decl_buffer": _buffer, "T.alloc_buffer": _buffer, "T.Assert": _assert, "T.While": _while, "T.If": _if,
}  # fmt: skip
"""Forms that hold a body; ``T.Then`` and ``T.Else`` stand in ``T.If`` only."""
