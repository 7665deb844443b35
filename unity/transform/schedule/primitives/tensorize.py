"""tensorize: a block that computes what an intrinsic's description says becomes the intrinsic's implementation.

Not here: the comparison (``transform/schedule/preconditions/matching.py``), the intrinsics
(``transform/schedule/core/tensor_intrin.py``, ``target/tensor_intrin``). Invariant: the implementation sees views of boxes of
the program's buffers whose shape, strides and offset are what it declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....arith import Analyzer
from ....ir.analysis import opaque_buffers
from ....ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from ....ir.build import add, const, dtype_of, eq, floormod, is_int, mul
from ....ir.expr import Call, IntImm, Op, Var
from ....ir.function import PrimFunc
from ....ir.node import replace as with_fields
from ....ir.stmt import AllocBuffer, Block, BlockRealize, DeclBuffer, Stmt, statements_of
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, collect, fresh_copy
from ....support.errors import suggest
from ....support.recursion import deep_recursion
from ...tir.blocks.lower_match_buffer import strides_of
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import ItemRef, Sref
from ..core.state import ScheduleState
from ..core.tensor_intrin import TensorIntrin
from ..preconditions.matching import MatchedBuffer, as_width, match_block
from ..rewrites.rewriting import analyzer_at
from .blockize import blockize_one


@primitive(
    checks=("a registered intrinsic", "the description's structure", "strides and offset of the implementation"),
    rewrite="block C_o: loops over C  ->  block C_o: views of the tiles (match_buffer), the intrinsic's statements",
    example='block = sch.get_block("C")\ni, j, k = sch.get_loops(block)\nj0, j1 = sch.split(j, factors=[None, 16])\n'
    'sch.reorder(i, j0, k, j1)\nsch.decompose_reduction(block, i)\nsch.tensorize(j1, "axpy_16_f32_avx512")',
)
def tensorize(
    state: ScheduleState, block_or_loop: ItemRef, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """Replace a block, or the subtree of a loop (which is blockized first), by the tensor intrinsic named ``tensor_intrin``.

    The block must compute what the intrinsic's description says: same loops, iterators and accesses, up to names, loops of one
    iteration, and the order of operands of ``+`` and ``*``. Buffers may have more leading axes than the description's, and any
    strides and offset that the implementation declares as symbols. Raises ScheduleError E441, with the first difference, if the
    block differs or no such intrinsic is registered; E442 for wrong strides or offset.
    """
    found = TensorIntrin.get(tensor_intrin, allow_missing=True)
    if found is None:
        refuse(
            "E441",
            f"no tensor intrinsic is registered as {tensor_intrin!r}",
            "a registered intrinsic",
            block_or_loop,
            suggest(tensor_intrin, TensorIntrin.names())
            or "import unity.target.tensor_intrin for those that are shipped, or "
            "TensorIntrin.register(name, desc, impl)",
        )
    with deep_recursion():
        block = block_or_loop
        if not block.is_block or (block.parent is not None and block.block.iter_vars and not state.children(block)):
            block = blockize_one(state, block, preserve_unit_iters)
        formal = [found.desc.buffer_map[p] for p in found.desc.params]
        ana = analyzer_at(state, block)
        desc = _root(found.desc.body)
        matches = match_block(desc, formal, block, ana, tensor_intrin, block_or_loop)
        bound = [matches[b] for b in formal]
        _require_disjoint(block_or_loop, desc, formal, matches, tensor_intrin)
        impl = _with_offsets(fresh_copy(found.impl), block_or_loop, tensor_intrin)
        actual = [impl.buffer_map[p] for p in impl.params]
        body = _root(impl.body)
        for declared, whole in ((formal, None), (actual, body)):
            views = [_view(b, matched) for b, matched in zip(declared, bound)]
            for view in views:
                _require_layout(view, block_or_loop, whole, ana, tensor_intrin)
        _insert(state, block, body, views)


def _root(body: Stmt) -> Block:
    """The block of a program of an intrinsic, with what is allocated in front of it."""
    parts = statements_of(body)
    own = tuple([s.buffer for s in parts if type(s) is AllocBuffer])
    block = parts[-1]
    assert type(block) is BlockRealize
    return with_fields(block.block, alloc_buffers=(*own, *block.block.alloc_buffers)) if own else block.block


def _insert(state: ScheduleState, block: Sref, body: Block, views: list[MatchBufferRegion]) -> None:
    """Let the implementation's block stand where the block stands."""
    old = block.block
    by_buffer = {view.buffer: view.source for view in views}
    state.change(
        block,
        reads=tuple([_shifted(r, by_buffer[r.buffer]) for r in body.reads or ()]),
        writes=tuple([_shifted(r, by_buffer[r.buffer]) for r in body.writes or ()]),
        alloc_buffers=body.alloc_buffers,
        match_buffers=(*views, *body.match_buffers),
        annotations={**old.annotations, **body.annotations},
        body=body.body,
        init=body.init,
    )


def _shifted(region: BufferRegion, source: BufferRegion) -> BufferRegion:
    """A region of a view as a region of what it is a view of."""
    ana = Analyzer()
    drop = len(source.region) - len(region.region)
    parts = [
        Range(ana.simplify(add(s.min, as_width(r.min, s.min))), as_width(r.extent, s.min))
        for r, s in zip(region.region, source.region[drop:])
    ]
    return BufferRegion(source.buffer, (*source.region[:drop], *parts))


def _view(formal: Buffer, matched: MatchedBuffer) -> MatchBufferRegion:
    """A buffer of an intrinsic as a view of the box where it lies."""
    drop = len(matched.base) - formal.ndim
    one = [const(1, dtype_of(low)) for low in matched.base[:drop]]
    extents = [*one, *[as_width(n, low) for n, low in zip(formal.shape, matched.base[drop:])]]
    region = tuple([Range(low, extent) for low, extent in zip(matched.base, extents)])
    return MatchBufferRegion(formal, BufferRegion(matched.buffer, region))


def _require_disjoint(
    block: Sref, desc: Block, formal: list[Buffer], matches: Mapping[Buffer, MatchedBuffer], name: str
) -> None:
    """Refuse an intrinsic that writes what another of its operands reads."""
    written = {r.buffer for r in desc.writes or ()}
    for buffer in formal:
        for other in formal:
            if buffer is not other and buffer in written and matches[buffer].buffer is matches[other].buffer:
                refuse(
                    "E442",
                    f"{name} writes {buffer.name} and uses {other.name}, which are both {matches[buffer].buffer.name} here",
                    "operands of their own",
                    block,
                    "cache_read or cache_write one of them",
                )


# ---- layout


def _require_layout(view: MatchBufferRegion, block: Sref, body: Block | None, ana: Analyzer, name: str) -> None:
    """Refuse E442 unless strides and offset of the box are those the intrinsic's buffer declares (``body``: the implementation)."""
    formal, source = view.buffer, view.source
    drop = len(source.region) - formal.ndim
    all_strides = strides_of(source.buffer)
    strides = all_strides[drop:]
    known: dict[Var, Expr] = {}
    if formal.strides:
        for axis, (wanted, stride) in enumerate(zip(formal.strides, strides)):
            if isinstance(wanted, Var):
                wanted = known.setdefault(wanted, stride)
            if not ana.can_prove_equal(as_width(wanted, stride), stride) and not is_int(formal.shape[axis], 1):
                refuse(
                    "E442",
                    f"{name} needs stride {wanted} along axis {axis} of {formal.name}, that of {source.buffer.name} is {stride}",
                    "strides of the implementation",
                    block,
                    "cache_read or transform_layout gives a layout",
                )
    elif body is not None and _passes_pointer(body, formal):
        running: Expr = const(1, dtype_of(source.region[-1].min))
        for axis in range(formal.ndim - 1, -1, -1):
            if not is_int(formal.shape[axis], 1) and not ana.can_prove_equal(strides[axis], running):
                refuse(
                    "E442",
                    f"{name} takes {formal.name} as compact memory, the stride of "
                    f"{source.buffer.name} along its axis {axis} is {ana.simplify(strides[axis])}, not {ana.simplify(running)}",
                    "strides of the implementation",
                    block,
                    "declare strides in the implementation, or pack the tile with cache_read or transform_layout",
                )
            running = mul(running, as_width(formal.shape[axis], running))
    offset: Expr = (
        source.buffer.elem_offset if source.buffer.elem_offset is not None else const(0, dtype_of(all_strides[0]))
    )
    for part, stride in zip(source.region, all_strides):
        offset = add(offset, mul(part.min, stride))
    factor = const(formal.offset_factor, dtype_of(offset))
    if not ana.can_prove(eq(floormod(offset, factor), const(0, dtype_of(offset)))):
        refuse(
            "E442",
            f"{name} needs {formal.name} at a multiple of {formal.offset_factor} elements, it lies at "
            f"{ana.simplify(offset)} of {source.buffer.name}",
            "offset factor of the implementation",
            block,
            f"tile so that {formal.name} begins at such multiples, or copy the tile with cache_read first",
        )
    if isinstance(formal.elem_offset, IntImm) and not ana.can_prove_equal(as_width(formal.elem_offset, offset), offset):
        refuse(
            "E442",
            f"{name} needs {formal.name} at offset {formal.elem_offset}, it lies at "
            f"{ana.simplify(offset)} of {source.buffer.name}",
            "offset of the implementation",
            block,
            "declare elem_offset as a symbol in the implementation",
        )


def _passes_pointer(body: Block, buffer: Buffer) -> bool:
    """True if a program uses the memory of a buffer other than by its elements."""
    if buffer in opaque_buffers(body):
        return True
    return any([other is not buffer and other.data is buffer.data for other in collect(body, Buffer)])


class _Offsets(Rewriter):
    """Adds a buffer's offset to pointers made of its memory."""

    def __init__(self, offsets: Mapping[Var, Expr], mapping: Mapping[Any, Any]) -> None:
        super().__init__(mapping=mapping)
        self.offsets = offsets
        self.bare: list[Var] = []

    def leave(self, node: Any) -> Any:
        if type(node) is DeclBuffer and node.buffer.elem_offset is None and node.buffer.data in self.offsets:
            made = with_fields(node.buffer, elem_offset=self.offsets[node.buffer.data])
            self.mapping[node.buffer] = made
            return DeclBuffer(made, node.span)
        if type(node) is not Call or type(node.op) is not Op:
            return node
        if node.op.name == "T.tvm_access_ptr" and node.args[1] in self.offsets:
            offset = self.offsets[node.args[1]]  # type: ignore[index]
            args = (*node.args[:2], add(as_width(node.args[2], offset), offset), *node.args[3:])
            return with_fields(node, args=args)
        self.bare += [a for a in node.args if isinstance(a, Var) and a in self.offsets]
        return node


def _with_offsets(impl: PrimFunc, block: Sref, name: str) -> PrimFunc:
    """An implementation whose buffers all have an offset: those that declare none get a symbol, and pointers to them that are given
    on move by it. Refuses E442 where a bare pointer is given on."""
    offsets: dict[Var, Expr] = {}
    table: dict[Buffer, Buffer] = {}
    for buffer in impl.buffer_map.values():
        if buffer.elem_offset is None:
            symbol = Var(f"{buffer.name}_offset", buffer.shape[0].ty if buffer.shape else prim_type("int64"))
            table[buffer] = with_fields(buffer, elem_offset=symbol)
            offsets[buffer.data] = symbol
    if not table:
        return impl
    rewriter = _Offsets(offsets, table)
    body = rewriter(impl.body)
    if rewriter.bare:
        refuse(
            "E442",
            f"the implementation of {name} gives {rewriter.bare[0].name}.data on without an offset: it is the first element of "
            "the whole buffer, not of the tile",
            "offset of the implementation",
            block,
            "use access_ptr, T.address_of, or declare elem_offset in match_buffer and add it",
        )
    return with_fields(impl, body=body, buffer_map={p: table.get(b, b) for p, b in impl.buffer_map.items()})
