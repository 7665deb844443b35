"""Pattern kinds of tensor programs, read off their blocks: what may be fused with what.

Here: ``analyze_pattern``: one kind for a program and one for each of its inputs. Nothing depends on names of operators, and
symbolic shapes count as any number. ``annotate_tir_op_pattern``: the kind as attribute ``op_pattern``, by TVM's numbers; one that
is written in the program stays. Not here: the grouping itself (`transform/relax/fusion/fuse_ops.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ....ir.analysis.reductions import is_cell
from ....ir.analysis.regions import opaque_buffers
from ....ir.buffer import Buffer
from ....ir.build import is_int
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.scalar import EQ, BufferLoad, Select
from ....ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect
from ...infra.passes import prim_func_pass
from ...schedule.rewrites.inline_blocks import definition
from ...tir.analysis.loop_nests import calls_are_pure
from .auto_inline import (
    MANY_READERS,
    Reading,
    each_reads_once,
    inline_all,
    is_expensive,
    plain_blocks,
    readings,
    repeats,
    work,
)


class OpPatternKind(IntEnum):
    """Kinds in the numbers TVM gives them (attribute ``op_pattern``). A larger one fuses with less."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_EWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


@dataclass(slots=True, frozen=True)
class Edge:
    """The reads of one input by a program: ``kind`` says what may be fused into it, ``repeats`` that elements are read
    repeatedly."""

    kind: OpPatternKind
    repeats: bool


@dataclass(slots=True, frozen=True)
class KernelPattern:
    """Kind of a program, one Edge for each input buffer (in order of the parameters), whether it computes expensive values, and
    operations for one result."""

    kind: OpPatternKind
    edges: tuple[Edge, ...]
    expensive: bool
    work: int = 0


OPAQUE_EDGE = Edge(OpPatternKind.OPAQUE, True)


def _is_plain(stmt: Stmt) -> bool:
    """True for loops, sequences, allocations and blocks alone."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if type(node) is SeqStmt:
            stack.extend(node.stmts)
        elif type(node) is For:
            if node.kind == "thread_binding":
                return False
            stack.append(node.body)
        elif not isinstance(node, (AllocBuffer, BlockRealize)):
            return False
    return True


def _outputs(func: PrimFunc, stores: list[BufferStore]) -> list[Buffer]:
    written = {store.buffer.data for store in stores}
    return [buffer for buffer in func.buffer_map.values() if buffer.data in written]


def analyze_pattern(func: PrimFunc) -> KernelPattern:
    """Kind of a tensor program. An attribute ``op_pattern`` decides the kind; what is not understood is opaque, and what has
    a target of its own (attribute ``target``): no program is for two."""
    body = inline_all(func.body)
    stores = collect(body, BufferStore)
    outputs = _outputs(func, stores)
    inputs = [buffer for buffer in func.buffer_map.values() if buffer not in outputs]
    opaque = KernelPattern(OpPatternKind.OPAQUE, tuple([OPAQUE_EDGE for _ in inputs]), True)
    blocks = plain_blocks(body)
    if "target" in func.attrs or not _is_plain(body) or not blocks or not outputs or opaque_buffers(body):
        return opaque
    if any([buffer.strides or not _at_start(buffer) for buffer in func.buffer_map.values()]):
        return opaque
    for realize in blocks:
        if not _is_computation(realize):
            return opaque
    reread = {load.buffer for realize in blocks for load in _foreign_loads(realize)}
    if any([output in reread for output in outputs]):
        return opaque
    read = readings(blocks)
    kind = _kind(blocks, outputs, [(read.get(buffer, []), buffer) for buffer in inputs])
    given = func.attrs.get("op_pattern")
    if isinstance(given, int):
        kind = max(kind, OpPatternKind(given))
    if kind is OpPatternKind.OPAQUE:
        return opaque
    edges = tuple([_edge(read.get(buffer, []), buffer, kind) for buffer in inputs])
    expensive = any([is_expensive(store.value) for store in stores])
    return KernelPattern(kind, edges, expensive, sum([work(store.value) for store in stores]))


def _at_start(buffer: Buffer) -> bool:
    """True for compact memory of the usual kind: such a buffer may be any other one of its shape."""
    return buffer.scope == "global" and (buffer.elem_offset is None or is_int(buffer.elem_offset, 0))


def _foreign_loads(realize: BlockRealize) -> list[BufferLoad]:
    """Loads of a block other than a reduction's of the cell it updates."""
    store = realize.block.body
    assert type(store) is BufferStore
    own = realize.block.init is not None
    return [load for load in collect(store.value, BufferLoad) if not (own and is_cell(load, store))]


def _is_computation(realize: BlockRealize) -> bool:
    """True for a block of one store, one cell for each point of its spatial iterators."""
    block = realize.block
    if block.alloc_buffers or block.match_buffers or type(block.body) is not BufferStore:
        return False
    if block.init is None:
        return not isinstance(definition(realize), str)
    store, init = block.body, block.init
    if (
        type(init) is not BufferStore
        or not structural_equal(init.indices, store.indices)
        or store.predicate is not None
    ):
        return False
    spatial = [i.var for i in block.iter_vars if i.kind == "S"]
    used = [i for i in store.indices if type(i) is Var]
    rest = [i for i in store.indices if type(i) is not Var]
    return (
        len(set(used)) == len(used)
        and set(used) <= set(spatial)
        and all([is_int(i, 0) for i in rest])
        and is_int(realize.predicate, 1)
        and calls_are_pure(store.value)
    )


def _reduces(realize: BlockRealize) -> bool:
    return realize.block.init is not None


def _kind(blocks: list[BlockRealize], outputs: list[Buffer], read: list[tuple[list[Reading], Buffer]]) -> OpPatternKind:
    reductions = [r for r in blocks if _reduces(r)]
    if not reductions and len(blocks) == len(outputs):
        kinds = [k for r in blocks for k in _access_kinds(r)]
        found = max(kinds, default=OpPatternKind.BROADCAST)
        return found if len(blocks) == 1 else max(found, OpPatternKind.INJECTIVE)
    if len(outputs) != 1:
        return OpPatternKind.OPAQUE
    if len(blocks) == 1 and not any([repeats(found, buffer) for found, buffer in read]):
        return OpPatternKind.COMM_REDUCE
    last = blocks[-1].block.body
    assert type(last) is BufferStore
    return OpPatternKind.OUT_EWISE_FUSABLE if last.buffer is outputs[0] else OpPatternKind.OPAQUE


def _access_kinds(realize: BlockRealize) -> list[OpPatternKind]:
    store = realize.block.body
    assert type(store) is BufferStore
    return [access_kind(load, store) for load in collect(store.value, BufferLoad)]


def access_kind(load: BufferLoad, store: BufferStore) -> OpPatternKind:
    """Relation of the element read to the element written."""
    if (
        len(load.indices) == len(store.indices)
        and all([x is y or (_zero(x) and _zero(y)) for x, y in zip(load.indices, store.indices)])
        and all([x is y or structural_equal(x, y) for x, y in zip(load.buffer.shape, store.buffer.shape)])
    ):
        return OpPatternKind.ELEMENTWISE
    position = -1
    for index in load.indices:
        if type(index) is IntImm:
            continue
        var = _broadcast_axis(index)
        at = next((k for k, i in enumerate(store.indices) if i is var), -1) if var is not None else -1
        if at <= position:
            return OpPatternKind.INJECTIVE
        position = at
    return OpPatternKind.BROADCAST


def _zero(index: Expr) -> bool:
    return is_int(index, 0)


def _broadcast_axis(index: Expr) -> Expr | None:
    """The axis behind an index; a dimension that may be one at run time reads ``select(n == 1, 0, i)``."""
    if type(index) is Select and type(index.cond) is EQ and is_int(index.true_value, 0):
        return index.false_value
    return index if type(index) is Var else None


def _edge(found: list[Reading], buffer: Buffer, kind: OpPatternKind) -> Edge:
    if not found:
        return Edge(OpPatternKind.BROADCAST, False)
    again = repeats(found, buffer)
    if any([_reduces(reading.realize) for reading in found]):
        alone = len(found) == 1 and not again
        few = len(found) <= MANY_READERS and each_reads_once(found, buffer)
        indexed = any([_in_indices(reading.realize.block, buffer) for reading in found])
        return Edge(OpPatternKind.COMM_REDUCE if (alone or few) and not indexed else OpPatternKind.OPAQUE, again)
    if kind > OpPatternKind.INJECTIVE and len(found) > 1:
        return Edge(OpPatternKind.OPAQUE, True)
    kinds = []
    for reading in found:
        store = reading.realize.block.body
        assert type(store) is BufferStore
        kinds += [access_kind(load, store) for load in reading.loads]
    return Edge(max(kinds), again)


def _in_indices(block: Block, buffer: Buffer) -> bool:
    """True when elements of a buffer serve as indices."""
    return any([
        inner.buffer is buffer for load in collect(block, BufferLoad) for i in load.indices for inner in collect(i, BufferLoad)
    ])  # fmt: skip


@prim_func_pass()
def annotate_tir_op_pattern(func: PrimFunc) -> PrimFunc:
    """Classify tensor programs for fusion. Gives the attribute ``op_pattern``, in TVM's numbers."""
    if "op_pattern" in func.attrs:
        return func
    return func.with_attr("op_pattern", int(analyze_pattern(func).kind))
