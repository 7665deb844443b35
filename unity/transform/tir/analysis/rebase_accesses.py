"""Accesses of a buffer that was cut to a box: indices become relative to the corner of the box. Not here: which box."""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.buffer import Buffer
from ....ir.build import const, dtype_of, is_int, ramp, sub
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Ramp
from ....ir.stmt import BufferStore
from ....ir.types import Expr
from ....ir.walk import Rewriter
from .vector_index import index_add


class MoveAccesses(Rewriter):
    """Accesses of one buffer become accesses of another, relative to a corner."""

    def __init__(self, old: Buffer, new: Buffer, corner: list[Expr], analyzer: Analyzer) -> None:
        super().__init__({BufferLoad: self.access, BufferStore: self.access}, {old.data: new.data})
        self.old, self.new, self.corner, self.analyzer = old, new, corner, analyzer

    def access(self, node: Any) -> Any:
        """A load or store with its indices moved."""
        if node.buffer is not self.old:
            return node
        indices = [self._index(i, low) for i, low in zip(node.indices, self.corner)]
        return replace(node, buffer=self.new, indices=tuple(indices))

    def _index(self, index: Expr, low: Expr) -> Expr:
        if is_int(low, 0):
            return index
        if dtype_of(index).lanes != 1:
            moved = index_add(index, sub(const(0, dtype_of(low)), low))
            return ramp(self.analyzer.simplify(moved.base), moved.stride, moved.lanes) if type(moved) is Ramp else moved
        return self.analyzer.simplify(sub(index, low))
