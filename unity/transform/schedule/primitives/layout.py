"""transform_layout: another order of a buffer's cells.

Not here: copies in another layout (``reindex.py``), what it means for callers
(``transform/schedule/rewrites/parameter_layout.py``), the order of iterations (``block_layout.py``). Invariant: every cell has
a place of its own in the new layout; cells that nothing maps to hold ``pad_value`` where one is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ....arith import Analyzer
from ....arith.index_map import IndexMap
from ....ir.analysis import opaque_buffers
from ....ir.buffer import Buffer, BufferRegion, Range
from ....ir.build import buffer_load, cast, const, dtype_of, is_int
from ....ir.constant import wrap_int
from ....ir.expr import FloatImm, IntImm, Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad
from ....ir.stmt import Block, BlockRealize, BufferStore, DeclBuffer, For, Stmt, seq
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import collect, substitute
from ....support.errors import UnityError
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref
from ..core.state import LayoutChange, ScheduleState
from ..preconditions.dependence import regions
from ..rewrites.index_maps import no_less_than_zero, to_index_map
from ..rewrites.inline_blocks import block_of_store
from ..rewrites.parameter_layout import assumption, is_written, parameter_of, require_free_layout, set_parameter
from ..rewrites.rewriting import BlockTracker, analyzer_at, axes_over, nest, point
from .storage import buffer_of, owner_of


def _which(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> Any:
    """A buffer itself, as TVM takes it, by its place among those the block reads or writes."""
    if not isinstance(value, Buffer):
        return value
    for kind, found in zip(("read", "write"), regions(state, args["block"].block)):
        buffers = list(dict.fromkeys([r.buffer for r in found]))
        if value in buffers:
            return (kind, buffers.index(value))
    refuse("E444", f"block {args['block'].name} does not access {value.name}", "a buffer of the block", args["block"],
           "sch.get(block).reads[0].buffer is one that it reads")  # fmt: skip


def _buffer_map(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> IndexMap:
    block: Sref = args["block"]
    return to_index_map(state, block.func, value, buffer_of(state, block, args["buffer"])[1].shape)


def _pad_value(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> Any:
    """A number, or an index map that gives one value for the indices of the new layout."""
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    block: Sref = args["block"]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        dtype = buffer_of(state, block, args["buffer"])[1].dtype
        if not dtype.is_float and not (math.isfinite(value) and wrap_int(int(value), dtype) == value):
            refuse("E444", f"the pad value {value} is not of type {dtype.name}", "a pad value", block, "pad_value=0")
        return value if dtype.is_float else int(value)
    if value is None:
        return None
    if not isinstance(value, IndexMap) and not callable(value):
        refuse("E444", f"the pad value must be a number, or a function of the new indices, got {value!r}", "a pad value",
               block, "pad_value=0")  # fmt: skip
    found = to_index_map(state, block.func, value, args["index_map"].final_indices)
    if len(found.final_indices) != 1:
        refuse("E444", f"the pad value is one expression of the new indices, got {len(found.final_indices)}",
               "a pad value", block, "pad_value=lambda *indices: 0")  # fmt: skip
    return found


def _owner(state: ScheduleState, block: Sref, buffer: Buffer) -> Sref:
    """The block that allocates a buffer, the root block for a parameter. Refuses E444 where it is not accessed by index alone."""
    found = owner_of(state, block, buffer, "E444")
    opaque = [*opaque_buffers(found.block), *[d.buffer for d in collect(found.block, DeclBuffer)]]
    views = [m.source.buffer for b in collect(found.block, Block) for m in b.match_buffers]
    if any([other is buffer or other.data is buffer.data for other in (*opaque, *views)]):
        refuse(
            "E444",
            f"the memory of {buffer.name} is used as a view or by its pointer",
            "accesses by index",
            block,
            "transform the layout before tensorize",
        )
    accesses = [x for x in collect(found.block, (BufferLoad, BufferStore)) if x.buffer is buffer]
    if any([x.predicate is not None or any([dtype_of(i).lanes > 1 for i in x.indices]) for x in accesses]):
        refuse(
            "E444",
            f"{buffer.name} is accessed by vectors",
            "accesses by index",
            block,
            "write the program with loops, and vectorize them after this step",
        )
    return found


@primitive(
    checks=("accesses by index", "a cell for each cell", "no callers in the module", "sizes known from arguments"),
    rewrite="C[i, j]  ->  C[map(i, j)] everywhere",
    example='sch.transform_layout(sch.get_block("C"), ("write", 0), lambda i, j: (j // 4, i, j % 4))',
    normalize={"buffer": _which, "index_map": _buffer_map, "pad_value": _pad_value},
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

    ``buffer``: ``("read", 0)``, ``("write", 0)``, a name, or the buffer. ``index_map``: a function of the buffer's indices. A
    parameter changes its shape in the signature, and no function of the module may call the program.

    ``pad_value``: value of the cells that the map leaves over, a number or a function of the new indices; None leaves them
    undefined, which a parameter that is written allows only with ``assume_injective_transform``. A parameter that is only read must
    hold the pad value there: ``T.assume`` states it in the program, and the interpreter checks it. ``assume_injective_transform``:
    test a map that cannot be proved to keep cells apart. Raises ScheduleError E444.
    """
    _, found = buffer_of(state, block, buffer)
    owner = _owner(state, block, found)
    param = parameter_of(state, block.func, found)
    written = is_written(state, block.func, found)
    if param is not None:
        require_free_layout(state, block, found)
    padding: tuple[IndexMap, Expr] | None = None
    try:
        shape = index_map.map_shape(found.shape)
    except UnityError as problem:
        refuse(
            "E444",
            f"the new layout of {found.name} has no shape: {problem.message}",
            "a cell for each cell",
            block,
            "a map whose indices begin at zero",
        )
    try:
        if pad_value is None:
            index_map.require_injective(found.shape)
        if pad_value is not None or (param is not None and written and not assume_injective_transform):
            padding = index_map.non_surjective_inverse(found.shape)
    except UnityError as problem:
        if not assume_injective_transform or pad_value is not None:
            refuse(
                "E444",
                f"cells of {found.name} have no places of their own, or the cells left over are not known: {problem.message}",
                "a cell for each cell",
                block,
                "a map such as lambda i, j: (i // 4, j, i % 4), in which every index takes part",
            )
        state.assumptions.append(f"the layout keeps the cells of {found.name} apart")
    left_over = padding is not None and not is_int(padding[1], 0)
    if left_over and pad_value is None:
        refuse(
            "E444",
            f"the new layout of {found.name} has cells that nothing maps to: what the caller finds there is not said",
            "a pad value",
            block,
            "pad_value=0, or assume_injective_transform=True to leave them as they come",
        )
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
        assert isinstance(realize, BlockRealize)
        if padding is not None and left_over:
            filled = param is None or written
            body = seq(_padding(made, padding, pad_value, filled), realize.block.body)
            whole = with_fields(realize.block, body=body)
            rewriter.blocks[owner.block] = whole
            realize = with_fields(realize, block=whole)
        if param is not None:
            set_parameter(state, block, param, found, made)
            state.relaid.append(LayoutChange(block.func, param, index_map, pad_value))
        state.replace(owner, realize, rewriter.blocks)


class _Relocate(BlockTracker):
    """Accesses of a buffer go to their new places; indices are simplified with the domains of the iterators around them."""

    def __init__(self, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        rules = {BufferLoad: self._access, BufferStore: self._access, BufferRegion: self._region}
        super().__init__(rules, {old: new, old.data: new.data})
        self.new, self.index_map = new, index_map
        self.ana = Analyzer()

    def visit(self, node: Any) -> Any:
        if not isinstance(node, (For, Block)):
            return super().visit(node)
        with self.ana.scope():
            if isinstance(node, For):
                self.ana.bind(node.loop_var, Range(node.min, node.extent))
            else:
                self.ana.bind_iterators(node.iter_vars)
            return super().visit(node)

    def _moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([self.ana.simplify(e) for e in self.index_map.map_indices(indices)])

    def _access(self, node: BufferLoad | BufferStore) -> BufferLoad | BufferStore:
        return with_fields(node, indices=self._moved(node.indices)) if node.buffer is self.new else node

    def _region(self, node: BufferRegion) -> BufferRegion:
        if node.buffer is not self.new:
            return node
        if all([is_int(r.extent, 1) for r in node.region]):
            return point(self.new, self._moved([r.min for r in node.region]))
        try:
            ranges = self.index_map.map_ranges(node.region)
        except UnityError:  # not a box: all of the buffer holds it
            ranges = tuple([Range(const(0, dtype_of(n)), n) for n in self.new.shape])
        return BufferRegion(
            self.new, tuple([Range(self.ana.simplify(r.min), self.ana.simplify(r.extent)) for r in ranges])
        )


def _padding(buffer: Buffer, padding: tuple[IndexMap, Expr], pad_value: Any, filled: bool) -> Stmt:
    """A block that stores the pad value into the cells that nothing maps to, or assumes that they hold it."""
    inverse, condition = padding
    axes = axes_over(buffer.shape)
    loops = [Var(f"p{k}", axis.var.ty) for k, axis in enumerate(axes)]
    cell = tuple([axis.var for axis in axes])
    if isinstance(pad_value, IndexMap):
        value = cast(pad_value.map_indices(cell)[0], buffer.dtype)
    else:
        value = const(pad_value, buffer.dtype)
    if filled:
        guard = substitute(condition, dict(zip(inverse.initial_indices, loops)))
        block = block_of_store(f"{buffer.name}_pad", axes, BufferStore(buffer, value, cell))
    else:
        guard = const(True)
        here = substitute(condition, dict(zip(inverse.initial_indices, cell)))
        load = buffer_load(buffer, *cell)
        read = (point(buffer, cell),)
        block = Block(axes, read, (), (), (), {}, f"{buffer.name}_assumption", assumption(load, here, value))
    return nest([(v, n, "serial") for v, n in zip(loops, buffer.shape)], BlockRealize(tuple(loops), guard, block))
