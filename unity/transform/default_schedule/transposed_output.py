"""A contraction whose columns are not the last axis of its output, as one where they are, and a transposition behind it.

Rewrite: ``Y[n, f, h, w] += X[..] * W[f, ..]; Z[n, f, h, w] = g(Y[n, f, h, w])`` -> the sum into ``Y_last[n, h, w, f]``, and
``Z[n, f, h, w] = g(Y_last[n, h, w, f])``; without a consumer a copy into ``Y`` takes its place. A convolution with channels
first is such a contraction: its tiles are transposed while they are in cache.
"""

from __future__ import annotations

from typing import Any

from ...ir.buffer import make_buffer
from ...ir.build import buffer_load
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad
from ...ir.stmt import AllocBuffer, BufferStore, Stmt, seq, statements_of
from ...ir.walk import rewrite
from .contraction import Contraction, is_parameter
from .nest_building import nest_over
from .packing import block_name


def columns_last(fn: PrimFunc, contraction: Contraction, after: str | None) -> tuple[PrimFunc, str]:
    """The program with the columns last, and the name of the block that transposes; ``after`` names the block that consumes
    the output."""
    store = contraction.block.body
    assert type(store) is BufferStore
    order = sorted(range(len(store.indices)), key=lambda k: store.indices[k] is contraction.columns.var)
    output = contraction.output
    last = make_buffer(f"{output.name}_last", output.dtype, [output.shape[k] for k in order], "global")

    def moved(node: Any) -> Any:
        if node.buffer is not output:
            return node
        return replace(node, buffer=last, indices=tuple([node.indices[k] for k in order]))

    statements = statements_of(fn.body)
    made: list[Stmt] = [AllocBuffer(last)]
    name = after or f"{output.name}_transposed"
    for stmt in statements:
        if type(stmt) is AllocBuffer and stmt.buffer is output:
            continue
        mine = block_name(stmt) in (contraction.block.name, after)
        made.append(rewrite(stmt, {BufferLoad: moved, BufferStore: moved}) if mine else stmt)
        if block_name(stmt) == contraction.block.name and after is None:
            made.append(nest_over(name, output, lambda cell: buffer_load(last, *[cell[k] for k in order])))
    assert after is None or is_parameter(fn, output) is None
    return replace(fn, body=seq(*made)), name
