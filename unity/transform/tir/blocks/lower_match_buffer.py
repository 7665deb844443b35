"""lower_match_buffer: sub-region views of blocks disappear; accesses go to the buffer they are a view of.

Rewrite: ``B = T.match_buffer(A[i:i+4, j:j+4], (4, 4)); B[x, y]`` -> ``A[i + x, j + y]``. Symbols in the view's shape,
strides and offset get the source's values. A view of fewer dimensions drops leading dimensions of its region.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer, MatchBufferRegion
from ....ir.build import add, cast, const, dtype_of, mul
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import Block, BufferStore
from ....ir.types import Expr
from ....ir.walk import Rewriter, rewrite
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.vector_index import index_add


def strides_of(buffer: Buffer) -> list[Expr]:
    """Strides in elements, computed from the shape where the buffer is compact."""
    if buffer.strides:
        return list(buffer.strides)
    found: list[Expr] = []
    running: Expr = const(1, "int64")
    for extent in reversed(buffer.shape):
        found.insert(0, running)
        running = mul(running, extent)
    return found


class _View(Rewriter):
    def __init__(self, match: MatchBufferRegion) -> None:
        super().__init__()
        self.view, self.source = match.buffer, match.source
        drop = len(self.source.region) - len(self.view.shape)
        if drop < 0:
            raise PassError("E504", f"{self.view.name} has more dimensions than the region it is a view of", match.span)
        self.drop = drop
        target = self.source.buffer
        self._bind(self.view.data, target.data)
        for extent, part in zip(self.view.shape, self.source.region[drop:]):
            self._bind(extent, part.extent)
        steps = strides_of(target)
        for stride, step in zip(self.view.strides, steps[drop:]):
            self._bind(stride, step)
        if type(self.view.elem_offset) is Var:
            offset: Expr = target.elem_offset if target.elem_offset is not None else const(0, "int64")
            for part, step in zip(self.source.region, steps):
                offset = add(offset, mul(part.min, step))
            self._bind(self.view.elem_offset, offset)

    def _bind(self, symbol: Expr, value: Expr) -> None:
        if type(symbol) is Var:
            self.mapping[symbol] = cast(value, dtype_of(symbol))

    def _indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        mins = [part.min for part in self.source.region]
        return tuple(mins[: self.drop] + [index_add(low, i) for low, i in zip(mins[self.drop :], indices, strict=True)])

    def leave(self, node: Any) -> Any:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is self.view:
            return replace(node, buffer=self.source.buffer, indices=self._indices(node.indices))
        return node


def _block(block: Block) -> Block:
    if not block.match_buffers:
        return block
    bare = replace(block, match_buffers=())
    for match in reversed(block.match_buffers):  # a later view may be of an earlier one
        bare = _View(match)(bare)
    return bare


@prim_func_pass()
def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """Replace accesses to views by accesses to their buffers. Gives blocks without ``T.match_buffer``."""
    return rewrite(func, {Block: _block})
