"""reindex, reindex_cache_read, reindex_cache_write: a copy of a buffer laid out by the iterators of the block that uses it.

Invariant: a cell of the copy belongs to one value of the iterators that select it, so that what is read there (or copied
back) is the element the block would have touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....arith.index_map import IndexMap
from ....arith.intset import of_range
from ....ir.buffer import Buffer, BufferRegion
from ....ir.build import const, dtype_of, ge, is_int, lt
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad, IterVar
from ....ir.stmt import BufferStore, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, free_vars, substitute
from ....support.errors import UnityError
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref
from ..core.state import ScheduleState
from ..preconditions.conditions import require_regular
from ..preconditions.coverage import common_ancestor, covers, relaxed_region, why_not_covered
from ..preconditions.dependence import block_scope, regions
from ..preconditions.domains import nest_of
from ..rewrites.index_maps import no_less_than_zero
from ..rewrites.inline_blocks import block_of_store
from ..rewrites.rewriting import analyzer_at, point, replace_buffer
from .block_layout import iterator_map
from .cache import cache_buffer, chosen, insert, only_writer, require_between, require_only_writer
from .storage import buffer_of, named_buffer, require_scope

_CHECKS = ("one access", "accesses inside the buffer", "one cell for each iteration")


@primitive(
    checks=("a read buffer", "at most one writer", *_CHECKS),
    rewrite="C[...] = f(A[g(v)])  ->  A_global[map(v)] = A[g(v)]; C[...] = f(A_global[map(v)])",
    example='sch.reindex_cache_read(sch.get_block("C"), 1, "global", lambda i, j, k: (j // 4, k, j % 4))',
    normalize={"index_map": iterator_map},
)
def reindex_cache_read(
    state: ScheduleState, block: BlockRef, read_buffer_index: int | str, storage_scope: str, index_map: Any
) -> BlockRef:
    """Copy a buffer that a block reads into ``storage_scope``, laid out by ``index_map`` of the block's iterators. Returns the
    copying block.

    ``lambda i, j, k: (j // 64, k, j % 64)`` packs an operand of a matrix product. ``read_buffer_index``: as in ``cache_read``; the
    block must access the buffer at one place. Raises ScheduleError E438, also if two iterations would share a cell.
    """
    buffer = named_buffer(state, block, "read", read_buffer_index)
    return _through_copy(state, block, "read", buffer, storage_scope, index_map, storage_scope)


@primitive(
    checks=("a written buffer", "only writer", "spatial access", *_CHECKS),
    rewrite="C[g(v)] = f(...)  ->  C_local[map(v)] = f(...); C[g(v)] = C_local[map(v)]",
    example='sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda i, j, k: (j, i))',
    normalize={"index_map": iterator_map},
)
def reindex_cache_write(
    state: ScheduleState, block: BlockRef, write_buffer_index: int | str, storage_scope: str, index_map: Any
) -> BlockRef:
    """Let a block write into a buffer in ``storage_scope``, laid out by ``index_map`` of its iterators, and copy that out
    afterwards. Returns the copying block. Raises ScheduleError E438, E429.
    """
    buffer = named_buffer(state, block, "write", write_buffer_index)
    return _through_copy(state, block, "write", buffer, storage_scope, index_map, storage_scope)


@primitive(
    checks=("a buffer of the block", *_CHECKS),
    rewrite="C[...] = f(A[g(v)])  ->  A_reindex[v] = A[g(v)]; C[...] = f(A_reindex[v])",
    example='sch.reindex(sch.get_block("C"), ("read", 1))',
)
def reindex(state: ScheduleState, block: BlockRef, buffer: Any) -> BlockRef:
    """Copy a buffer of a block into a layout with one axis for each iterator that selects its elements. Returns the copying block.

    ``buffer``: ``("read", 0)``, ``("write", 0)``, or a name. Raises ScheduleError E438.
    """
    verb, found = buffer_of(state, block, buffer)
    axes = block.block.iter_vars
    inside = _access(block, found)
    used = {v for index in inside for v in free_vars(index)}
    own = [axis.var for axis in axes if axis.var in used and not is_int(axis.domain.extent, 1)]
    identity = IndexMap(tuple([axis.var for axis in axes]), tuple(own) or (const(0),))
    return _through_copy(state, block, verb, found, found.scope, identity, "reindex")


def _access(block: Sref, buffer: Buffer) -> tuple[Expr, ...]:
    """The one index tuple at which a block touches a buffer. Refuses E438 where there are several, or a region."""
    found: list[Any] = [x for x in collect(block.block, (BufferLoad, BufferStore)) if x.buffer is buffer]
    whole = [r for r in (*(block.block.reads or ()), *(block.block.writes or ())) if r.buffer is buffer]
    points = all([is_int(r.extent, 1) for region in whole for r in region.region])
    if not found or not points or any([not structural_equal(x.indices, found[0].indices) for x in found]):
        refuse(
            "E438",
            f"block {block.name} does not access {buffer.name} at one place",
            "one access",
            [block, *found],
            "cache_read and cache_write copy a buffer that is accessed at several places",
        )
    indices: tuple[Expr, ...] = found[0].indices
    return indices


def _plan(
    state: ScheduleState, block: Sref, buffer: Buffer, index_map: IndexMap
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], list[IterVar], tuple[Expr, ...]]:
    """(indices in the buffer, indices in the copy, iterators that select them, shape of the copy)."""
    axes = block.block.iter_vars
    require_regular(state, block)
    indices = _access(block, buffer)
    inside = index_map.map_indices([axis.var for axis in axes])
    used = {v for index in (*indices, *inside) for v in free_vars(index)}
    own = [axis for axis in axes if axis.var in used]
    extents = []
    ana = analyzer_at(state, block)
    for axis in axes:
        ana.bind(axis.var, axis.domain)
        if axis in own and not is_int(axis.domain.min, 0):
            refuse(
                "E438",
                f"iterator {axis.var.name} does not begin at zero",
                "one cell for each iteration",
                block,
                "cache_read or cache_write",
            )
        extents.append(axis.domain.extent)
    for index, dim in zip(indices, buffer.shape):
        if not ana.can_prove(ge(index, const(0, dtype_of(index)))) or not ana.can_prove(lt(index, dim)):
            refuse("E438", f"block {block.name} may reach outside of {buffer.name} where a condition keeps it from reading",
                   "accesses inside the buffer", block,
                   "decompose_padding first, or cache_read")  # fmt: skip
    restricted = IndexMap(tuple([axis.var for axis in own]), inside)
    try:
        restricted.require_injective([axis.domain.extent for axis in own])
        shape = index_map.map_shape(extents)
    except UnityError as problem:
        refuse("E438", f"the map gives the iterations of block {block.name} no cells of their own in a copy: {problem.message}",
               "one cell for each iteration", block,
               "a map in which every iterator that selects an element takes part, and that begins at zero")  # fmt: skip
    sizes = analyzer_at(state, state.root(block.func))
    return indices, inside, own, tuple([no_less_than_zero(n, sizes) for n in shape])


def _copy(
    state: ScheduleState,
    at: Sref,
    own: Sequence[IterVar],
    source: BufferLoad,
    target: tuple[Buffer, tuple[Expr, ...]],
    name: str,
) -> Stmt:
    """Loops over iterators that copy one element each."""
    fresh = {axis.var: Var(axis.var.name, axis.var.ty) for axis in own}
    axes = tuple([IterVar(fresh[axis.var], axis.domain, "S") for axis in own])
    load = substitute(source, fresh)
    store = BufferStore(target[0], load, tuple([substitute(e, fresh) for e in target[1]]))
    return nest_of(axes, block_of_store(name, axes, store), {}, analyzer_at(state, at), preserve_unit_loops=True)[0]


def _use(state: ScheduleState, block: Sref, old: Buffer, new: Buffer, inside: tuple[Expr, ...]) -> None:
    """Let a block use the copy at its own indices."""

    def access(node: BufferLoad | BufferStore) -> Any:
        return with_fields(node, indices=inside) if node.buffer is new else node

    def region(node: BufferRegion) -> Any:
        return point(new, inside) if node.buffer is new else node

    replace_buffer(state, block, old, new, {BufferLoad: access, BufferStore: access, BufferRegion: region})


def _covered(state: ScheduleState, copy: Sref) -> Sref:
    """The copying block, if all it copies was written before. Refuses E438 otherwise: it copies the iterators' whole domains."""
    fault = why_not_covered(state, copy)
    if fault is not None:
        refuse("E438", f"the copy would read cells that are not written yet: {fault.reason}", "region cover", copy,
               "reindex before the blocks are moved under one loop")  # fmt: skip
    return copy


def _declared(state: ScheduleState, copy: Sref, scope: Sref, buffer: Buffer) -> None:
    """Refuse E438 unless the block that the copy stands in declares to read all that is copied."""
    ana = analyzer_at(state, scope)
    limits = [[of_range(r) for r in read.region] for read in scope.block.reads or () if read.buffer is buffer]
    if scope.parent is None or not limits:
        return
    boxes = [relaxed_region(state, copy, r, scope) for r in regions(state, copy.block)[0] if r.buffer is buffer]
    if not all([any([covers(ana, limit, box, buffer.shape) for limit in limits]) for box in boxes]):
        refuse(
            "E438",
            f"the copy takes {buffer.name} for all values of the iterators, block {scope.name} declares to read less of it",
            "accesses inside the buffer",
            [scope, copy],
            "reindex before blockize, or use cache_read",
        )


def _through_copy(
    state: ScheduleState, block: Sref, verb: str, buffer: Buffer, storage_scope: str, index_map: IndexMap, suffix: str
) -> Sref:
    """Let a block read, or write, a buffer through a copy; the copying block."""
    require_scope(block, storage_scope)
    scope, reads = block_scope(state, block), verb == "read"
    if reads:
        writers, readers = only_writer(scope, block, buffer), [block]
        chosen(scope, block, buffer, [block], scope.after(writers[0]) if writers else scope.blocks)
    else:
        require_only_writer(scope, block, buffer)
        writers, readers = [block], [r for r in scope.after(block) if buffer in scope.reads[r]]
    at = common_ancestor(*writers, *readers) if writers and readers else scope.root
    indices, inside, own, shape = _plan(state, block, buffer, index_map)
    if not reads and any([axis.kind != "S" for axis in own]):
        refuse(
            "E438",
            f"a reduction iterator of {block.name} selects a cell of the copy",
            "spatial access",
            block,
            "a map of spatial iterators alone",
        )
    copy = cache_buffer(state, block, buffer, storage_scope, shape, suffix.replace(".", "_"))
    (source, cell), target = [(buffer, indices), (copy, inside)][:: 1 if reads else -1]
    made = _copy(state, at, own, BufferLoad(source, cell, prim_type(buffer.dtype)), target, copy.name)
    _use(state, block, buffer, copy, inside)
    block_of_copy = insert(state, scope.root, at, writers, made, copy)
    if reads:
        _declared(state, block_of_copy, scope.root, buffer)
    return _covered(state, require_between(state, writers, block_of_copy, readers))
