"""Inlining of blocks into their producers: a block that only changes, point by point, what another one has computed disappears,
and the other one computes its value at once.

The counterpart of ``compute_inline`` (`inline_blocks.py`), for producers that cannot be inlined forwards.
"""

from __future__ import annotations

from ....ir.analysis.regions import block_regions, opaque_among
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
    definition,
    has_aliases,
    in_order,
    inline_value,
    realizes,
    remove_block,
)


def reverse_inline_problem(body: Stmt, block: Block) -> str | None:
    """The reason why ``reverse_compute_inline`` of a block would be wrong, or None."""
    realize = next((r for r in realizes(body) if r.block is block), None)
    if realize is None:
        return f"there is no block {block.name}"
    found = definition(realize)
    if isinstance(found, str):
        return found
    sources = _sources(body, found)
    if len(sources) != 1:
        return f"block {block.name} must read exactly one buffer that another block computes, it reads {len(sources)}"
    source = sources[0]
    nodes = nodes_in(body)
    loads = [load for load in nodes if type(load) is BufferLoad and load.buffer is source]
    inside = collect(found.value, BufferLoad)
    if any([load not in inside for load in loads]):
        return f"{source.name} is read elsewhere too"
    variables = [i.var for i in block.iter_vars]
    for load in loads:
        if not _covers(load.indices, source.shape, variables) or not structural_equal(load.indices, loads[0].indices):
            return f"block {block.name} does not read each element of {source.name} once"
    writers = [r for r in realizes(body) if type(r.block.body) is BufferStore and r.block.body.buffer is source]
    if len(writers) != 1 or sum([s.buffer.data is source.data for s in in_order(body, BufferStore)]) != 1:
        return f"{source.name} is not written by one block with one store"
    if isinstance(reason := definition(writers[0]), str):
        return reason
    if source in opaque_among(nodes) or has_aliases(nodes, source):
        return f"{source.name} is reached through a pointer or a view"
    return _why_not_earlier(body, found, writers[0], realize)


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


def _covers(indices: tuple[Expr, ...], shape: tuple[Expr, ...], variables: list[Var]) -> bool:
    """True when the indices are all the variables once, apart from zeros along axes of one element."""
    used = [i for i in indices if type(i) is Var and i in variables]
    rest = [(i, n) for i, n in zip(indices, shape) if not (type(i) is Var and i in variables)]
    return len(set(used)) == len(used) == len(variables) and all([is_int(i, 0) and is_int(n, 1) for i, n in rest])


def _sources(body: Stmt, found: Definition) -> list[Buffer]:
    """Allocated buffers that a definition reads."""
    own = allocations(body)
    return [b for b in dict.fromkeys([x.buffer for x in collect(found.value, BufferLoad)]) if b in own]


def reverse_compute_inline(body: Stmt, block: Block) -> Stmt:
    """The body without ``block``: the producer of what it reads computes its value at once. Raises PassError E552."""
    problem = reverse_inline_problem(body, block)
    if problem is not None:
        raise PassError("E552", f"cannot inline: {problem}", block.span)
    realize = next(r for r in realizes(body) if r.block is block)
    consumer = definition(realize)
    assert isinstance(consumer, Definition)
    source = _sources(body, consumer)[0]
    writer = next(r for r in realizes(body) if type(r.block.body) is BufferStore and r.block.body.buffer is source)
    store = writer.block.body
    assert type(store) is BufferStore
    load = next(x for x in collect(consumer.value, BufferLoad) if x.buffer is source)
    points = {formal: given for formal, given in zip(load.indices, store.indices) if type(formal) is Var}
    produced = Definition(source, store.indices, store.value)
    value = inline_value(substitute(consumer.value, points), produced)
    target = tuple([substitute(i, points) for i in consumer.indices])
    merged: Block = replace(writer.block, body=BufferStore(consumer.buffer, value, target, None, store.span))
    if merged.reads is not None or merged.writes is not None:
        bare = replace(merged, reads=None, writes=None)
        reads, writes = block_regions(bare, derive=True)
        merged = replace(bare, reads=reads, writes=writes)
    left = remove_block(body, realize, source)
    return rewrite(left, {Block: lambda b: merged if b.body is store else b})
