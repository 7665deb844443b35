"""transform_layout, set_axis_separator, transform_block_layout: another order of a buffer's cells, or of a block's iterations.

Not here: copies in another layout (``reindex.py``). Invariant: every cell (every iteration) has a place of its own in the new
layout; cells that nothing maps to hold ``pad_value`` where one is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...arith import Analyzer
from ...arith.index_map import IndexMap
from ...ir.analysis import opaque_buffers
from ...ir.buffer import Buffer, BufferRegion, Range
from ...ir.build import const, dtype_of, is_int
from ...ir.expr import Var
from ...ir.node import replace as with_fields
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import Block, BlockRealize, BufferStore, DeclBuffer, For, Stmt, seq
from ...ir.types import Expr, PointerType, prim_type
from ...ir.walk import collect, free_vars, substitute
from ...support.deep import deep_recursion
from ...support.errors import UnityError
from .cache import read_buffer
from .conditions import loops_of, require_blocks_only, require_own_cells, require_regular
from .dependence import regions
from .distinct import require_distinct
from .index_maps import no_less_than_zero, to_index_map
from .reducers import assume_free_steps
from .refuse import refuse
from .registry import primitive
from .rewriting import BlockTracker, allocating_block, analyzer_at, nest
from .sref import BlockRef, Sref
from .state import ScheduleState
from .storage import written_buffer
from .tree import TRUE


def buffer_of(state: ScheduleState, block: Sref, which: Any) -> Buffer:
    """A buffer of a block: ``("read", 0)``, ``("write", "C")``, a name, or its place among those read and then those written."""
    kind, name = which if isinstance(which, (tuple, list)) and len(which) == 2 else ("", which)
    if kind == "read":
        return read_buffer(state, block, name)
    reads, writes = regions(state, block.block)
    if kind == "" and isinstance(name, int) and not isinstance(name, bool) and name < len(reads):
        return read_buffer(state, block, name)
    if kind == "" and isinstance(name, int) and not isinstance(name, bool):
        return written_buffer(state, block, name - len(reads))
    if kind == "write" or (isinstance(name, str) and name in [w.buffer.name for w in writes]):
        return written_buffer(state, block, name)
    return read_buffer(state, block, name)


def _buffer_map(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> IndexMap:
    buffer = buffer_of(state, args["block"], args["buffer"])
    return to_index_map(value, buffer.ndim, dtype_of(buffer.shape[0]).name if buffer.shape else "int64")


def _iterator_map(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> IndexMap:
    axes = args["block"].block.iter_vars
    return to_index_map(value, len(axes), dtype_of(axes[0].var).name if axes else "int64")


def _owner(block: Sref, buffer: Buffer) -> Sref:
    """The block that allocates a buffer. Refuses E444 for a parameter: callers give it in its layout."""
    found = allocating_block(block, buffer)
    if found is None:
        refuse(
            "E444",
            f"{buffer.name} is a parameter of the function, or allocated inside a loop: callers rely on its layout",
            condition="a buffer of the function's own",
            at=block,
            nearest="cache_read or cache_write gives a buffer of its own, reindex_cache_read one in another layout",
        )
    opaque = [*opaque_buffers(found.block), *[d.buffer for d in collect(found.block, DeclBuffer)]]
    views = [m.source.buffer for b in collect(found.block, Block) for m in b.match_buffers]
    if any([other is buffer or other.data is buffer.data for other in (*opaque, *views)]):
        refuse(
            "E444",
            f"the memory of {buffer.name} is used as a view or by its pointer",
            condition="accesses by index",
            at=block,
            nearest="transform the layout before tensorize",
        )
    accesses = [x for x in collect(found.block, (BufferLoad, BufferStore)) if x.buffer is buffer]
    if any([x.predicate is not None or any([dtype_of(i).lanes > 1 for i in x.indices]) for x in accesses]):
        refuse("E444", f"{buffer.name} is accessed by vectors", condition="accesses by index", at=block)
    return found


@primitive(
    checks=("a buffer of the function's own", "accesses by index", "a cell for each cell"),
    rewrite="C[i, j]  ->  C[map(i, j)] everywhere",
    example='sch.transform_layout(sch.get_block("C"), ("write", 0), lambda i, j: (j // 4, i, j % 4))',
    normalize={"index_map": _buffer_map},
)
def transform_layout(
    state: ScheduleState,
    block: BlockRef,
    buffer: Any,
    index_map: Any,
    pad_value: Any = None,
    assume_injective_transform: bool = False,
) -> None:
    """Change the layout of a buffer that a block reads or writes; every access in the function follows.

    ``buffer`` is ``("read", 0)``, ``("write", 0)`` or a name; ``index_map`` a function of the buffer's indices. Where the map does
    not fill the new shape, the cells that are left over hold ``pad_value`` (a number; None leaves them as they are).
    With ``assume_injective_transform`` a map that is not proved to keep cells apart is tested. Raises ScheduleError E444.
    """
    found = buffer_of(state, block, buffer)
    owner = _owner(block, found)
    if pad_value is not None and (isinstance(pad_value, bool) or not isinstance(pad_value, (int, float))):
        refuse("E444", f"the pad value must be a number, got {pad_value!r}", condition="a pad value", at=block)
    padding: tuple[IndexMap, Expr] | None = None
    try:
        shape = index_map.map_shape(found.shape)
    except UnityError as problem:
        refuse(
            "E444",
            f"the new layout of {found.name} has no shape: {problem.message}",
            condition="a cell for each cell",
            at=block,
            nearest="a map whose indices begin at zero",
        )
    try:
        if pad_value is None:
            index_map.require_injective(found.shape)
        else:
            padding = index_map.non_surjective_inverse(found.shape)
    except UnityError as problem:
        if not assume_injective_transform or pad_value is not None:
            refuse(
                "E444",
                f"cells of {found.name} have no places of their own, or the cells left over are not known: {problem.message}",
                condition="a cell for each cell",
                at=block,
                nearest="a map such as lambda i, j: (i // 4, j, i % 4), in which every index takes part",
            )
        state.assumptions.append(f"the layout keeps the cells of {found.name} apart")
    sizes = analyzer_at(state, owner)
    made = with_fields(
        found,
        data=Var(found.data.name, PointerType(prim_type(found.dtype), found.scope)),
        strides=(),
        axis_separators=(),
        shape=tuple([no_less_than_zero(n, sizes) for n in shape]),
    )
    with deep_recursion():
        rewriter = _Relocate(found, made, index_map)
        realize = rewriter(owner.realize)
        if pad_value is not None and padding is not None and not is_int(padding[1], 0):
            body = seq(_fill(made, padding, pad_value), realize.block.body)
            whole = with_fields(realize.block, body=body)
            rewriter.blocks[owner.block] = whole
            realize = with_fields(realize, block=whole)
        state.replace(owner, realize, rewriter.blocks)


class _Relocate(BlockTracker):
    """Accesses of a buffer go to their new places; indices are simplified with the domains of the iterators around them."""

    def __init__(self, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        rules = {BufferLoad: self._load, BufferStore: self._store, BufferRegion: self._region}
        super().__init__(rules, {old: new, old.data: new.data})
        self.new, self.index_map = new, index_map
        self.ana = Analyzer()

    def enter(self, node: Any) -> Any | None:
        if type(node) is For:
            self.ana.bind(node.loop_var, Range(node.min, node.extent))
        elif type(node) is Block:
            for axis in node.iter_vars:
                if axis.dom is not None:
                    self.ana.bind(axis.var, axis.dom)
        return super().enter(node)

    def _moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([self.ana.simplify(e) for e in self.index_map.map_indices(indices)])

    def _load(self, node: BufferLoad) -> BufferLoad:
        return with_fields(node, indices=self._moved(node.indices)) if node.buffer is self.new else node

    def _store(self, node: BufferStore) -> BufferStore:
        return with_fields(node, indices=self._moved(node.indices)) if node.buffer is self.new else node

    def _region(self, node: BufferRegion) -> BufferRegion:
        if node.buffer is not self.new:
            return node
        if all([is_int(r.extent, 1) for r in node.region]):
            return _points(self.new, self._moved([r.min for r in node.region]))
        try:
            ranges = self.index_map.map_ranges(node.region)
        except UnityError:  # not a box: all of the buffer holds it
            ranges = tuple([Range(const(0, dtype_of(n)), n) for n in self.new.shape])
        return BufferRegion(
            self.new, tuple([Range(self.ana.simplify(r.min), self.ana.simplify(r.extent)) for r in ranges])
        )


def _points(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range(e, const(1, dtype_of(e))) for e in indices]))


def _fill(buffer: Buffer, padding: tuple[IndexMap, Expr], pad_value: float) -> Stmt:
    """A block that stores the pad value into the cells that nothing maps to."""
    inverse, condition = padding
    axes = [IterVar(Var(f"v{k}", v.ty), Range(const(0, dtype_of(n)), n), "S") for k, (v, n) in
            enumerate(zip(inverse.initial_indices, buffer.shape))]  # fmt: skip
    loops = [Var(f"p{k}", axis.var.ty) for k, axis in enumerate(axes)]
    cell = tuple([axis.var for axis in axes])
    store = BufferStore(buffer, const(pad_value, buffer.dtype), cell)
    block = Block(tuple(axes), (), (_points(buffer, cell),), (), (), {}, f"{buffer.name}_pad", store)
    guard = substitute(condition, dict(zip(inverse.initial_indices, loops)))
    return nest([(v, n, "serial") for v, n in zip(loops, buffer.shape)], BlockRealize(tuple(loops), guard, block))


@primitive(
    checks=("a buffer of the function's own", "separators in order"),
    rewrite="T.alloc_buffer(..., axis_separators=[1])",
    example='sch.set_axis_separator(sch.get_block("C"), ("write", 0), [1])',
)
def set_axis_separator(state: ScheduleState, block: BlockRef, buffer: Any, axis_separators: list[int]) -> None:
    """Divide the axes of a buffer into groups, each a dimension of the memory it lies in. Raises ScheduleError E444."""
    found = buffer_of(state, block, buffer)
    owner = _owner(block, found)
    if list(axis_separators) != sorted(set(axis_separators)) or any(
        [not 0 <= n <= found.ndim for n in axis_separators]
    ):
        refuse(
            "E444",
            f"separators must rise from 0 to {found.ndim}, got {list(axis_separators)}",
            condition="separators in order",
            at=block,
        )
    made = with_fields(found, data=Var(found.data.name, found.data.ty), axis_separators=tuple(axis_separators))
    tracker = BlockTracker(mapping={found: made, found.data: made.data})
    with deep_recursion():
        realize = tracker(owner.realize)
    state.replace(owner, realize, tracker.blocks)


@primitive(
    checks=("loops of its own", "trivial binding", "a bijective map", "iterators of one kind"),
    rewrite="for i, j: block D (vi = i, vj = j)  ->  for a, b: block D (va = a, vb = b), vi and vj from the inverse map",
    example='sch.transform_block_layout(sch.get_block("D"), lambda i, j: (j, i))',
    normalize={"index_map": _iterator_map},
)
def transform_block_layout(state: ScheduleState, block: BlockRef, index_map: Any) -> None:
    """Let a block iterate over the results of ``index_map`` of its iterators, with one loop for each.

    Each iterator must be bound to a loop of its own that holds this block alone; the map must be bijective and keep spatial and
    reduction iterators apart. Raises ScheduleError E445.
    """
    axes, loops = block.block.iter_vars, loops_of(block)
    require_regular(state, block)
    if not loops:
        refuse("E445", f"block {block.name} has no loops", condition="loops of its own", at=block)
    chain = [s for s in loops if len(state.blocks_below(s)) == 1]
    if chain:
        require_blocks_only(chain[0])
    own = {s.loop.loop_var: s for s in chain}
    require_own_cells(state, block)
    if chain:
        require_distinct(state, block, chain[0])
    if any([axis.kind == "R" for axis in axes]):
        assume_free_steps(state, block)
    seen: set[Expr] = set()
    for axis, value in zip(axes, block.realize.iter_values):
        item = own.get(value) if isinstance(value, Var) else None
        ana = analyzer_at(state, block, inside=False)
        if item is None or value in seen or axis.dom is None or not is_int(axis.dom.min, 0) or not is_int(item.loop.min, 0) or (
            not ana.can_prove_equal(item.loop.extent, axis.dom.extent)
        ):  # fmt: skip
            refuse(
                "E445",
                f"iterator {axis.var.name} of block {block.name} is not bound to a loop of its own",
                condition="trivial binding",
                at=block,
                nearest="transform the block before its loops are split or shared",
            )
        seen.add(value)
    busy = [
        s for s in chain if s.loop.kind != "serial" or (s.loop.loop_var not in seen and not is_int(s.loop.extent, 1))
    ]
    if busy or len(chain) != len(loops) or not is_int(block.realize.predicate, 1):
        refuse(
            "E445",
            f"block {block.name} shares its loops, or they are not plain",
            condition="loops of its own",
            at=[block, *busy],
        )
    extents = [axis.dom.extent for axis in axes if axis.dom is not None]
    try:
        inverse, shape = index_map.inverse(extents), index_map.map_shape(extents)
    except UnityError as problem:
        refuse(
            "E445",
            f"the map is not bijective on the iterators of {block.name} ({problem.message})",
            condition="a bijective map",
            at=block,
        )
    kinds = {var: axis.kind for var, axis in zip(index_map.initial_indices, axes)}
    made: list[IterVar] = []
    variables: list[Var] = []
    for k, (expr, extent) in enumerate(zip(index_map.final_indices, shape)):
        used = {kinds[v] for v in free_vars(expr)} or {"S"}
        if len(used) > 1:
            refuse(
                "E445",
                f"{expr} mixes spatial and reduction iterators of {block.name}",
                condition="iterators of one kind",
                at=block,
            )
        dtype = dtype_of(extent)
        variables.append(Var(f"ax{k}", prim_type(dtype)))
        made.append(
            IterVar(Var(f"v{k}", prim_type(dtype)), Range(const(0, dtype), Analyzer().simplify(extent)), used.pop())
        )
    fresh = dict(zip(inverse.initial_indices, [axis.var for axis in made]))
    mapping = {axis.var: substitute(e, fresh) for axis, e in zip(axes, inverse.final_indices)}
    ana = Analyzer()
    for axis in made:
        assert axis.dom is not None
        ana.bind(axis.var, axis.dom)
    with deep_recursion():
        bare = substitute(with_fields(block.block, iter_vars=()), {v: ana.simplify(e) for v, e in mapping.items()})
    new = with_fields(bare, iter_vars=tuple(made))
    realize = BlockRealize(tuple(variables), TRUE, new, block.realize.span)
    stmt = nest([(v, axis.dom.extent, "serial") for v, axis in zip(variables, made) if axis.dom is not None], realize)
    state.replace(chain[0], stmt, {block.block: new})


__all__ = ["buffer_of", "set_axis_separator", "transform_block_layout", "transform_layout"]
