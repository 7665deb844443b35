"""Frames of tensor programs: ``with T.block(...)``, ``T.init()``, ``T.attr(...)`` and the forms that hold a body.

Not here: forms written as calls (``tir_forms.py``). Invariant: a frame reads its body through the function it is given, so
that several frames of one ``with`` nest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import Bind, IfThenElse, Stmt, Var, While, build as b, seq
from ..parser import syntax as s
from .tir_forms import FormReader


class FrameReader(FormReader):
    """Reads ``with``."""

    def _with(self, node: s.With) -> None:
        outer = self.blocks
        self.deeper(len(node.items) - 1, node)
        self.out.append(self._frames(node.items, node))
        self.blocks = outer

    def _frames(self, items: list[s.WithItem], node: s.With) -> Stmt:
        if not items:
            outer = self.scope
            made = self._suite(node)
            self.scope = outer
            return made
        item, rest = items[0], items[1:]
        call = item.value
        path = self.path(call.func) if type(call) is s.Call else None
        frame = _FRAMES.get(path or "")
        if frame is None or type(call) is not s.Call:
            raise self.error(
                "E113", "`with` takes T.block, T.init, T.attr, T.launch_thread and the like", item.value,
                f"unknown frame {path}" if path else None,
            )  # fmt: skip
        name = item.target.name if type(item.target) is s.Name else ""
        self.hint = name
        return frame(self, path, call, name, lambda: self._frames(rest, node), node)

    def _suite(self, node: s.With) -> Stmt:
        fresh = self.block is not None and self.block_scope is None
        if not fresh:
            return self.sequence_of(node.body)
        outer_scope, outer_out, outer_wraps, outer_blocks = self.scope, self.out, self.wraps, self.blocks
        self.scope = self.block_scope = type(outer_scope)(outer_scope)
        self.out, self.wraps = [], []
        try:
            self.deeper(1, node)
            self.statements(node.body)
            return self._finish()
        finally:
            self.scope, self.out, self.wraps, self.blocks = outer_scope, outer_out, outer_wraps, outer_blocks

    def _named(self, names: dict[str, Any], body: Callable[[], Stmt]) -> Stmt:
        """Read a body with extra names."""
        outer = self.scope
        self.scope = type(outer)(outer, names)
        try:
            return body()
        finally:
            self.scope = outer

    def _frame_block(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        return self._read_block(call, path, body)

    def _frame_init(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        block = self.open_block(path, call)
        if block.init is not None:
            raise self.error("E115", "a block has one T.init()", call)
        outer = self.block_scope
        self.block_scope = self.scope
        try:
            block.init = body()
        finally:
            self.block_scope = outer
        return seq()

    def _frame_attr(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        wraps = [self._hint_wrap(call)] if path == "T.hint" else self._attr_wraps(path, call)
        made = body()
        for wrap in reversed(wraps):
            made = wrap(made)
        return made

    def _frame_launch(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        var, wrap = self._launch(call, name)
        return wrap(self._named({name: var} if name else {}, body))

    def _frame_bind(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        known = [keyword.value for keyword in call.keywords if keyword.name == "var"]
        if not 1 <= len(call.args) <= 2 or len(known) != len(call.keywords) or len(known) + len(call.args) > 2:
            raise self.error("E112", f"{path} takes a value", call)
        value = self.read(call.args[-1])
        if known:  # T.LetStmt(value, var=p) binds a variable declared before
            var = self.evaluate(known[0])
            if type(var) is not Var or var in self.params or var in self.let_bound:
                raise self.error("E113", "var= is a variable declared before, which has no value yet", known[0])
            self.let_bound.add(var)
            return seq(Bind(var, value, self.reading.span(call)), self._named({name: var} if name else {}, body))
        outer = self.out
        self.out = []
        try:
            var = self.bind(name or "v", value, call)
            bind = self.out[0]
        finally:
            self.out = outer
        return seq(bind, self._named({name: var} if name else {}, body))

    def _frame_buffer(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        outer = self.out
        self.out = []
        try:
            buffer = self.call_path(path, call)
            made = self.out
        finally:
            self.out = outer
        return seq(*made, self._named({name: buffer} if name else {}, body))

    def _frame_assert(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        self._assert_call(path, call)
        return body()

    def _frame_while(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        condition = b.as_bool(self.operand(self.bound(path, call, ("condition",), 1)["condition"], call))
        return While(condition, body(), self.reading.span(call))

    def _frame_if(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        condition = b.as_bool(self.operand(self.bound(path, call, ("condition",), 1)["condition"], call))
        branches: dict[str, Stmt] = {}
        for stmt in node.body:
            frame = stmt.items[0].value if type(stmt) is s.With and len(stmt.items) == 1 else None
            part = self.path(frame.func) if type(frame) is s.Call else None
            if part not in ("T.Then", "T.Else") or part in branches:
                raise self.error(
                    "E116", "with T.If(...) holds one `with T.Then()` and perhaps one `with T.Else()`", stmt
                )
            assert isinstance(stmt, s.With)
            branches[part] = self.sequence_of(stmt.body)
        if "T.Then" not in branches:
            raise self.error("E116", "with T.If(...) needs `with T.Then()`", call)
        return IfThenElse(condition, branches["T.Then"], branches.get("T.Else"), self.reading.span(call))


_FRAMES: dict[str, Callable[..., Stmt]] = {
    "T.block": FrameReader._frame_block,
    "T.init": FrameReader._frame_init,
    "T.attr": FrameReader._frame_attr,
    "T.hint": FrameReader._frame_attr,
    "T.launch_thread": FrameReader._frame_launch,
    "T.LetStmt": FrameReader._frame_bind,
    "T.Let": FrameReader._frame_bind,
    "T.allocate": FrameReader._frame_buffer,
    "T.allocate_const": FrameReader._frame_buffer,
    "T.decl_buffer": FrameReader._frame_buffer,
    "T.alloc_buffer": FrameReader._frame_buffer,
    "T.Assert": FrameReader._frame_assert,
    "T.While": FrameReader._frame_while,
    "T.If": FrameReader._frame_if,
}

FRAME_NAMES = (*_FRAMES, "T.Then", "T.Else")
"""Spellings of frames."""
