"""Inlining of blocks into their producers: a block that only changes, point by point, what another one has computed disappears,
and the other one computes its value at once.

The counterpart of ``compute_inline`` (`inline_blocks.py`), for producers that cannot be inlined forwards.
"""

from __future__ import annotations

from ....arith import Analyzer
from ....ir.analysis.regions import opaque_in
from ....ir.buffer import Buffer
from ....ir.build import is_int
from ....ir.expr import Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import Block, BlockRealize, BufferStore, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, nodes_in, rewrite, substitute
from ....support.errors import PassError
from .inline_blocks import (
    Definition,
    allocations,
    covers,
    defined_in,
    definition,
    has_aliases,
    inline_value,
    inverse_of,
    realizes,
    remove_block,
    statements_of_kind,
    variables_in,
    with_regions,
)


def _producer(body: Stmt, realize: BlockRealize, found: Definition) -> tuple[Buffer, BlockRealize] | str:
    """The buffer that a block reads, and the block that computes it; or why ``reverse_compute_inline`` would be wrong."""
    block = realize.block
    sources = _sources(body, found)
    if len(sources) != 1:
        return f"block {block.name} must read exactly one buffer that another block computes, it reads {len(sources)}"
    source = sources[0]
    nodes = nodes_in(body)
    loads = [load for load in nodes if type(load) is BufferLoad and load.buffer is source]
    inside = collect(found.value, BufferLoad)
    if any([load not in inside for load in loads]):
        return f"{source.name} is read elsewhere too"
    for load in loads:
        if _points(block, load, load.indices) is None or not structural_equal(load.indices, loads[0].indices):
            return f"block {block.name} does not read each element of {source.name} once"
    writers = [r for r in realizes(body) if type(r.block.body) is BufferStore and r.block.body.buffer is source]
    if len(writers) != 1 or sum([s.buffer.data is source.data for s in statements_of_kind(body, BufferStore)]) != 1:
        return f"{source.name} is not written by one block with one store"
    if isinstance(reason := definition(writers[0]), str):
        return reason
    if source in opaque_in(nodes) or has_aliases(nodes, source):
        return f"{source.name} is reached through a pointer or a view"
    return _why_not_earlier(body, found, writers[0], realize) or (source, writers[0])


def _why_not_earlier(body: Stmt, found: Definition, writer: BlockRealize, realize: BlockRealize) -> str | None:
    """The reason why the consumer's store may not run where its producer runs: a block between writes what it reads, or uses what
    it writes."""
    order = realizes(body)
    between = order[order.index(writer) + 1 : order.index(realize)]
    reads = {load.buffer.data for load in collect(found.value, BufferLoad)} - {writer.block.body.buffer.data}  # type: ignore[attr-defined]
    for other in between:
        inside = [x for x in (writer, realize) if any([x is r for r in realizes(other.block.body)])]
        if inside:
            continue  # an enclosing block
        for access in collect(other, (BufferStore, BufferLoad)):
            data = access.buffer.data
            if (type(access) is BufferStore and data in reads) or data is found.buffer.data:
                return f"block {other.block.name} between it and its producer uses {access.buffer.name}"
    return None


def _points(block: Block, load: BufferLoad, cell: tuple[Expr, ...]) -> dict[Var, Expr] | None:
    """The variables of a block that reads each element of a buffer once, at the point that reads ``cell``; else None."""
    others = [axis for axis in block.iter_vars if axis.var not in variables_in(load.indices)]
    if not all([is_int(axis.domain.extent, 1) for axis in others]):
        return None
    points = {axis.var: axis.domain.min for axis in others}
    if covers(load.indices, load.buffer.shape, block):
        ana, domains = Analyzer(), {axis.var: axis.domain for axis in block.iter_vars}
        for index, dim in zip(load.indices, load.buffer.shape):
            domain = domains.get(index) if type(index) is Var else None
            if domain and not (is_int(domain.min, 0) and ana.can_prove_equal(domain.extent, dim)):
                return None  # the producer computes more
        return points | {formal: given for formal, given in zip(load.indices, cell) if type(formal) is Var}
    inverse = inverse_of(block, load.indices, load.buffer.shape)
    return None if inverse is None else points | inverse.at(cell)


def _sources(body: Stmt, found: Definition) -> list[Buffer]:
    """Allocated buffers that a definition reads."""
    own = allocations(body)
    return [b for b in dict.fromkeys([x.buffer for x in collect(found.value, BufferLoad)]) if b in own]


def reverse_compute_inline(body: Stmt, block: Block) -> Stmt:
    """The body without ``block``: the producer of what it reads computes its value at once. Raises PassError E552."""
    realize, consumer = defined_in(body, block)
    producer = _producer(body, realize, consumer)
    if isinstance(producer, str):
        raise PassError("E552", f"cannot inline: {producer}", block.span)
    source, writer = producer
    store = writer.block.body
    assert type(store) is BufferStore
    load = next(x for x in collect(consumer.value, BufferLoad) if x.buffer is source)
    points = _points(block, load, store.indices)
    assert points is not None
    here = rewrite(
        consumer.value, {BufferLoad: lambda x: replace(x, indices=store.indices) if x.buffer is source else x}
    )
    value = inline_value(substitute(here, points), Definition(source, store.indices, store.value))
    target = tuple([substitute(i, points) for i in consumer.indices])
    merged: Block = replace(writer.block, body=BufferStore(consumer.buffer, value, target, None, store.span))
    if merged.reads is not None or merged.writes is not None:
        merged = with_regions(merged)
    left = remove_block(body, realize, source)
    return rewrite(left, {Block: lambda b: merged if b.body is store else b})
