"""Blocks of tensor programs: axes, predicates, regions, annotations.

Not here: buffers and frames (``tir_forms.py``). Invariant: what a block says about itself is collected in the
``BlockContext`` that is open while its body is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import (
    Block,
    BlockRealize,
    Expr,
    IterVar,
    Range,
    Stmt,
    Var,
    build as b,
    prim_type,
    substitute,
)  # fmt: skip
from ..parser import syntax as s
from ..spelling.ranges import extent_of
from ..spelling.spelling import AXIS_LETTERS
from .base import bind_arguments
from .constants import attribute_value
from .plain import is_number
from .tir_assign import BlockContext
from .tir_stmt import StatementReader

_INT64 = prim_type("int64")
_TRUE = b.const(True)


class BlockReader(StatementReader):
    """Reads blocks."""

    def bound(self, path: str, node: s.Call, fields: tuple[str, ...], required: int) -> dict[str, Any]:
        """Evaluated arguments by name."""
        args, keywords = self.arguments(node)
        return bind_arguments(self.reading, node, path, fields, args, keywords, required)

    # ------------------------------------------------------------------------------------------------------------ blocks

    def open_block(self, path: str, node: s.Syntax) -> BlockContext:
        """The block being read. Raises E116 outside of one."""
        if self.block is None:
            raise self.error("E116", f"{path} stands only inside `with T.block(...)`", node)
        return self.block

    def _axis(self, path: str, node: s.Call, kind: str) -> Var:
        block = self.open_block(path, node)
        bound = self.bound(path, node, ("dom", "binding", "dtype"), 1)
        value = bound.get("binding")
        dom = self._domain(bound["dom"], value, node)
        if value is None:
            return self._add_axis(block, kind, self.hint, dom, None, node)
        value = self.index(value, node)
        if (
            dom is not None and dom.min.ty is not value.ty
        ):  # a size of int32 beside literal loops: both are as wide as one
            wide = b.dtype_of(b.unify(dom.extent, value)[1])
            dom, value = Range(b.cast(dom.min, wide), b.cast(dom.extent, wide)), b.cast(value, wide)
        return self._add_axis(block, kind, self.hint, dom, value, node)

    def _domain(self, dom: Any, value: Any, node: s.Syntax) -> Range | None:
        if dom is None or type(dom) is Range:
            return dom
        if isinstance(dom, (tuple, list)):
            if len(dom) != 2:
                raise self.error("E113", "a domain is an extent or (start, stop)", node)
            low, high = self.index(dom[0], node), self.index(dom[1], node)
            if is_number(dom[0]) != is_number(dom[1]):
                low, high = b.unify(dom[0], high) if is_number(dom[0]) else b.unify(low, dom[1])
            return Range(low, extent_of(low, high))
        if isinstance(value, Expr) and type(dom) is int and b.dtype_of(value).is_integral:
            extent: Expr = b.const(dom, b.dtype_of(value))
        else:
            extent = self.index(dom, node)
        return Range(b.const(0, b.dtype_of(extent)), extent)

    def _add_axis(
        self, block: BlockContext, kind: str, name: str, dom: Range | None, value: Expr | None, node: s.Syntax
    ) -> Var:
        ty = dom.min.ty if dom is not None else value.ty if value is not None else _INT64
        span = self.reading.span(node)
        var = Var(name or "v", ty, span)
        axis = IterVar(var, dom, kind, "", span)
        self.iters[var] = axis
        self.declared.add(var)
        block.iter_vars.append(axis)
        if value is not None:
            block.iter_values.append(value)
        return var

    def _remap(self, path: str, node: s.Call) -> list[Var] | Var:
        block = self.open_block(path, node)
        bound = self.bound(path, node, ("kinds", "bindings", "dtype"), 2)
        letters, values = self.text(bound["kinds"], node), bound["bindings"]
        if not isinstance(values, (tuple, list)) or len(letters) != len(values):
            raise self.error("E112", f"{path}: {len(letters)} letters for {len(values)} loops", node)
        hints = self.hint.split(",") if self.hint else []
        made: list[Var] = []
        for place, (letter, value) in enumerate(zip(letters, values)):
            kind = AXIS_LETTERS.get(letter)
            if kind is None:
                raise self.error("E113", f"{letter!r} is no kind of axis", node, f"one of: {', '.join(AXIS_LETTERS)}")
            loop = self.loops.get(value) if isinstance(value, Var) else None
            if loop is None:
                raise self.error(
                    "E113", "T.axis.remap takes loop variables", node, "write T.axis.spatial(extent, value)"
                )
            name = hints[place] if place < len(hints) else f"v{value.name}"
            made.append(self._add_axis(block, kind, name, Range(loop.min, loop.extent), value, node))
        return made[0] if len(made) == 1 and len(hints) <= 1 else made

    def _where(self, path: str, node: s.Call) -> None:
        block = self.open_block(path, node)
        condition = b.as_bool(self.operand(self.bound(path, node, ("predicate",), 1)["predicate"], node))
        block.predicate = condition if block.predicate is None else b.logical_and(block.predicate, condition)

    def _regions(self, path: str, node: s.Call) -> None:
        block = self.open_block(path, node)
        nodes: list[s.Syntax] = []
        for arg in node.args:
            nodes += arg.items if isinstance(arg, (s.ListLit, s.TupleLit)) else [arg]
        regions = [self.region(arg) for arg in nodes]
        if path == "T.reads":
            block.reads = (block.reads or []) + regions
        else:
            block.writes = (block.writes or []) + regions

    def _block_attr(self, path: str, node: s.Call) -> None:
        value = self.bound(path, node, ("attrs",), 1)["attrs"]
        if not isinstance(value, dict):
            raise self.error("E113", f"{path} takes a dict", node)
        self.open_block(path, node).annotations.update(attribute_value(value))

    def _read_block(self, node: s.Call, path: str, body: Callable[[], Stmt]) -> Stmt:
        bound = self.bound(path, node, ("name", "no_realize", "exec_scope"), 0)
        name = self.text(bound.get("name", ""), node)
        outer, outer_scope = self.block, self.block_scope
        self.block = block = BlockContext()
        block.late = isinstance(node.func, s.Attribute) and node.func.name == "sblock"
        self.block_scope = None
        try:
            inner = body()
        finally:
            self.block, self.block_scope = outer, outer_scope
        span = self.reading.span(node)
        made = Block(
            tuple(block.iter_vars), None if block.reads is None else tuple(block.reads),
            None if block.writes is None else tuple(block.writes), tuple(block.alloc_buffers),
            tuple(block.match_buffers), block.annotations, name, inner, block.init, span,
        )  # fmt: skip
        bare = bool(bound.get("no_realize")) or (bool(block.iter_vars) and not block.iter_values)
        if bare:
            return made
        if len(block.iter_values) != len(block.iter_vars):
            raise self.error("E112", "every axis of a block needs a value", node)
        predicate = block.predicate or _TRUE  # stands outside the block: an axis means what it is bound to
        values = {axis.var: value for axis, value in zip(block.iter_vars, block.iter_values)}
        return BlockRealize(tuple(block.iter_values), substitute(predicate, values), made, span)
