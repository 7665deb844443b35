"""cache_read and cache_write: a copy of a buffer in another storage scope, filled or emptied by a block of its own.

Not here: caches in another layout (``reindex.py``). Invariant: the copy covers every cell its readers use; a write cache is
copied out for exactly the cells the block writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....arith import Analyzer
from ....arith.intset import IntSet, of_range
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import buffer_load
from ....ir.expr import Var
from ....ir.stmt import Block, BufferStore, SeqStmt, Stmt, statements_of
from ....ir.types import Expr
from ....ir.walk import nodes_in
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref, block_of
from ..core.state import ScheduleState
from ..preconditions.conditions import require_regular
from ..preconditions.coverage import (
    bound_region,
    box_read,
    common_ancestor,
    covers,
    exact_box,
    exact_region,
    why_not_covered,
)
from ..preconditions.dependence import Scope, block_scope, regions
from ..preconditions.domains import nest_of
from ..preconditions.ownership import allocate
from ..rewrites.inline_blocks import block_of_store
from ..rewrites.moving import body_of, position_of
from ..rewrites.parameter_layout import parameter_of
from ..rewrites.rewriting import BlockTracker, analyzer_at, axes_over
from .storage import named_buffer, require_scope


@primitive(
    checks=("a read buffer", "at most one writer", "known scope"),
    rewrite="C[...] = f(A[...])  ->  A_shared[v0, v1] = A[v0, v1]; C[...] = f(A_shared[...])",
    example='sch.cache_read(sch.get_block("C"), 0, "shared")',
)
def cache_read(
    state: ScheduleState, block: BlockRef, read_buffer_index: int | str, storage_scope: str, consumer_blocks: Any = None
) -> BlockRef:
    """Copy a buffer that a block reads into ``storage_scope``, and let the block read the copy. Returns the copying block.

    ``read_buffer_index``: number of the buffer among those the block reads, or its name. ``consumer_blocks``: blocks that read the
    copy; default: all that read the buffer after it is written. Raises ScheduleError E438.
    """
    buffer = named_buffer(state, block, "read", read_buffer_index)
    require_scope(block, storage_scope)
    scope = block_scope(state, block)
    writers = only_writer(scope, block, buffer)
    readers = chosen(scope, block, buffer, consumer_blocks, scope.after(writers[0]) if writers else scope.blocks)
    at = common_ancestor(*writers, *readers) if writers else scope.root
    cache = cache_buffer(state, block, buffer, storage_scope, buffer.shape)
    ana = analyzer_at(state, at)
    box = _declared(scope.root, buffer, box_read(state, readers, buffer, at) or [], ana)
    inside = scope.root.parent is not None and parameter_of(state, block.func, buffer) is None
    if inside and not writers and not all([_reads_all(state, reader, buffer, at) for reader in readers]):
        state.assumptions.append(
            f"every cell of {buffer.name} that is copied was written before block {scope.root.name}"
        )
    made = copy_nest(state, at, buffer, cache, box, cache.name)
    use_buffer(state, readers, buffer, cache)
    copy = insert(state, scope.root, at, writers, made, cache)
    require_between(state, writers, copy, readers)
    if why_not_covered(state, copy) is not None:
        state.assumptions.append(f"block {writers[0].name} writes every cell of {buffer.name} that is copied")
    return copy


def _reads_all(state: ScheduleState, reader: Sref, buffer: Buffer, at: Sref) -> bool:
    """True if a block reads every cell of the box around what it reads of a buffer inside ``at``."""
    reads = [r for r in regions(state, reader.block)[0] if r.buffer is buffer]
    return all([exact_box(state, reader, bound_region(reader, r), buffer.shape, at) is not None for r in reads])


@primitive(
    checks=("a written buffer", "only writer", "known scope", "cells known exactly"),
    rewrite="C[...] = f(...)  ->  C_local[...] = f(...); C[v0, v1] = C_local[v0, v1]",
    example='sch.cache_write(sch.get_block("C"), 0, "local")',
)
def cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: int | str,
    storage_scope: str,
    consumer_blocks: Any = None,
) -> BlockRef:
    """Let a block write into a buffer in ``storage_scope``, and copy that to the old buffer afterwards. Returns the copying block.

    ``write_buffer_index``: number of the buffer among those the block writes, or its name. ``consumer_blocks``: blocks that read
    the new buffer instead of the old one. Raises ScheduleError E438, E429.
    """
    buffer = named_buffer(state, block, "write", write_buffer_index)
    require_scope(block, storage_scope)
    scope = block_scope(state, block)
    require_only_writer(scope, block, buffer)
    direct = chosen(scope, block, buffer, consumer_blocks, scope.after(block)) if consumer_blocks else []
    readers = [r for r in scope.after(block) if buffer in scope.reads[r] and r not in direct]
    at = common_ancestor(block, *readers) if readers else scope.root
    written = [w for w in regions(state, block.block)[1] if w.buffer is buffer]
    box = exact_region(state, block, written[0], at) if len(written) == 1 else None
    if box is None:
        refuse("E438", f"it is not known exactly which cells of {buffer.name} block {block.name} writes",
               "cells known exactly", block,
               "take this step before blockize, or declare the region with T.writes")  # fmt: skip
    cache = cache_buffer(state, block, buffer, storage_scope, buffer.shape)
    made = copy_nest(state, at, cache, buffer, box, cache.name)
    use_buffer(state, [block, *direct], buffer, cache)
    copy = insert(state, scope.root, at, [block], made, cache)
    return require_between(state, [block], copy, readers)


# ---- parts shared with reindex


def only_writer(scope: Scope, block: Sref, buffer: Buffer) -> list[Sref]:
    """The block that writes a buffer that ``block`` reads, if there is one. Refuses E438 for several, and for the block itself."""
    writers = scope.writers(buffer)
    if len(writers) > 1 or block in writers:
        refuse("E438", f"{buffer.name} is written by block {' and '.join([w.name for w in writers])}",
               "at most one writer", writers,
               "cache_write of each writer, or take this step before decompose_reduction")  # fmt: skip
    return writers


def require_only_writer(scope: Scope, block: Sref, buffer: Buffer) -> None:
    """Refuse E438 for a buffer that another block writes too, or that the block reads as well."""
    if buffer in scope.reads[block]:
        refuse("E438", f"block {block.name} goes on from what {buffer.name} holds, a copy would start empty",
               "does not read what it writes", block,
               "take this step before decompose_reduction or blockize")  # fmt: skip
    others = [w for w in scope.writers(buffer) if w is not block]
    if others:
        refuse(
            "E438",
            f"{buffer.name} is written by block {others[0].name} too",
            "only writer",
            [block, *others],
            "take this step before decompose_reduction",
        )


def chosen(scope: Scope, block: Sref, buffer: Buffer, given: Any, possible: Sequence[Sref]) -> list[Sref]:
    """The consumers asked for; all possible ones by default. Refuses E438 for one that does not read the buffer there."""
    readers = [b for b in possible if buffer in scope.reads[b]]
    if not given:
        return readers
    wanted = list(given) if isinstance(given, (list, tuple)) else [given]
    for consumer in wanted:
        if consumer not in readers:
            name = consumer.name if isinstance(consumer, Sref) else repr(consumer)
            refuse(
                "E438",
                f"block {name} does not read {buffer.name} after it is written",
                "a consumer",
                block,
                f"one of: {', '.join([b.name for b in readers]) or 'none reads it'}",
            )
    return wanted


def cache_buffer(
    state: ScheduleState, block: Sref, buffer: Buffer, scope: str, shape: Sequence[Expr], suffix: str = ""
) -> Buffer:
    """A new compact buffer of another scope, with a name no block of the function has."""
    base = f"{buffer.name}_{suffix or scope.replace('.', '_')}"
    taken = {key.name for key in state.index[block.func] if isinstance(key, Block)}
    name, number = base, 1
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return make_buffer(name, buffer.dtype, shape, scope)


def _declared(scope: Sref, buffer: Buffer, box: Sequence[IntSet], ana: Analyzer) -> list[IntSet]:
    """A box that is read, no larger than the region the scope's block declares to read."""
    declared = [r for r in (scope.block.reads or ()) if r.buffer is buffer]
    if scope.parent is None or len(declared) != 1:
        return list(box)
    limits = [of_range(r) for r in declared[0].region]
    within = [covers(ana, [limit], [part], [dim]) for limit, part, dim in zip(limits, box, buffer.shape)]
    return [part if known else limit for part, limit, known in zip(box, limits, within)]


def copy_nest(state: ScheduleState, at: Sref, source: Buffer, target: Buffer, box: Sequence[IntSet], name: str) -> Stmt:
    """Loops inside ``at`` that copy a box of a buffer, as a block ``name``."""
    axes = axes_over(source.shape)
    cell = tuple([axis.var for axis in axes])
    load = buffer_load(source, *cell)
    block = block_of_store(name, axes, BufferStore(target, load, cell))
    domains = {axis.var: part for axis, part in zip(axes, box)}
    nest, _ = nest_of(axes, block, domains, analyzer_at(state, at), preserve_unit_loops=True)
    return nest


def use_buffer(state: ScheduleState, blocks: Sequence[Sref], old: Buffer, new: Buffer) -> None:
    """Let blocks use ``new`` for ``old``."""
    for block in blocks:
        require_regular(state, block)
        tracker = BlockTracker(mapping={old: new, old.data: new.data})
        with deep_recursion():
            made = tracker(block.realize)
        state.replace(block, made, tracker.blocks)


def require_between(state: ScheduleState, writers: Sequence[Sref], copy: Sref, readers: Sequence[Sref]) -> Sref:
    """The copying block, if it stands after the writers and before the readers. Refuses E438 otherwise: a reader shares a loop with
    the writer, while another one is outside of it."""
    order = block_scope(state, copy).blocks
    position = order.index(copy)
    wrong = [b for b in writers if order.index(b) > position] + [b for b in readers if order.index(b) < position]
    if wrong:
        refuse("E438", f"no place is after the block that writes and before block {wrong[0].name} as well as the others that read",
               "copy between writer and readers", [wrong[0], *writers],
               "take this step before the blocks are moved under one loop")  # fmt: skip
    return copy


def insert(state: ScheduleState, scope: Sref, at: Sref, writers: Sequence[Sref], made: Stmt, buffer: Buffer) -> Sref:
    """Put a nest into the body of ``at``, after the first of the writers, and its buffer among the scope's; the nest's block."""
    allocate(state, scope, [buffer], [n for n in nodes_in(made) if type(n) is Var])
    stmts = statements_of(body_of(at))
    behind = position_of(stmts, writers[0].block) if writers else None
    position = 0 if behind is None else behind + 1
    state.change(at, body=SeqStmt((*stmts[:position], made, *stmts[position:])))
    return state.sref(scope.func, block_of(made))
