"""``unity.tir.analysis``: what can be asked of tensor programs, by TVM's names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from ..arith import Analyzer
from ..arith.cost import operations_of
from ..arith.evaluate import evaluate
from ..ir.analysis.regions import block_regions as get_block_access_region
from ..ir.buffer import Buffer
from ..ir.build import const, int_value, mul
from ..ir.expr import Call, Op, Var
from ..ir.function import PrimFunc
from ..ir.intrinsic import INTRINSICS
from ..ir.module import IRModule
from ..ir.node import Node
from ..ir.scalar import BufferLoad
from ..ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, Stmt
from ..ir.verifier.verifier import is_well_formed as verify_well_formed
from ..ir.walk import children, collect, free_vars, rewrite
from ..support.arguments import make_public
from ..support.errors import ArgumentError

get_sblock_access_region = get_block_access_region


def undefined_vars(root: Node, defined: Iterable[Var] = ()) -> list[Var]:
    """Variables used inside and bound neither there nor in ``defined``."""
    known = set(defined)
    return [v for v in free_vars(root) if v not in known]


def estimate_tir_flops(stmt: PrimFunc | Stmt | IRModule, default_extent: int = 1) -> int:
    """Floating-point operations of a run; the dearer branch of a conditional counts. Sizes that are not known count as
    ``default_extent``. Raises ArgumentError E717 where these divide by zero."""
    if isinstance(stmt, IRModule):
        return sum([estimate_tir_flops(program, default_extent) for program in stmt.prim_funcs().values()])
    flops = operations_of(stmt.body if isinstance(stmt, PrimFunc) else stmt)
    unknown: dict[type, Any] = dict.fromkeys((BufferLoad, Call), lambda node: const(default_extent, node.ty.dtype))
    flops = rewrite(flops, unknown)
    found = evaluate(flops, dict.fromkeys(free_vars(flops), default_extent))
    if found is None:
        raise ArgumentError(
            "E717", f"with sizes of {default_extent} the program divides by zero", help="another default_extent"
        )
    return found


def calculate_allocated_bytes(fn: PrimFunc) -> dict[str, int | None]:
    """Bytes allocated per storage scope (None where a size is not constant); allocations are counted once each."""
    totals: dict[str, int | None] = {}
    buffers = [s.buffer for s in collect(fn.body, AllocBuffer)]
    buffers += [b for block in collect(fn.body, Block) for b in block.alloc_buffers]
    for buffer in buffers:
        size = int_value(Analyzer().simplify(reduce(mul, buffer.shape, const(buffer.dtype.itemsize, "int64"))))
        before = totals.get(buffer.scope, 0)
        totals[buffer.scope] = None if size is None or before is None else before + size
    return totals


def is_pure_function(func: PrimFunc) -> bool:
    """True for a tensor program that writes only its own allocations and calls nothing with effects."""
    own = set(func.buffer_map.values())
    for store in collect(func.body, BufferStore):
        if store.buffer in own:
            return False
    pointers = {b.data for b in own}
    for call in collect(func.body, Call):
        row = INTRINSICS.get(call.op.name) if type(call.op) is Op else None
        if row is None or (row.effect == "effect" and row.name != "T.ret"):
            return False
        if row.name == "T.address_of" and type(call.args[0]) is BufferLoad and call.args[0].buffer in own:
            return False
        if any([a in pointers for a in call.args]):
            return False
    return True


def detect_buffer_access_lca(fn: PrimFunc) -> dict[Buffer, Node]:
    """For each buffer the lowest loop, block or function that encloses all its accesses (pointers passed on count)."""
    found: dict[Buffer, tuple[Node, ...]] = {}
    pointers: dict[Var, list[Buffer]] = {}
    for buffer in collect(fn, Buffer):
        pointers.setdefault(buffer.data, []).append(buffer)

    def touch(buffer: Buffer, path: tuple[Node, ...]) -> None:
        known = found.get(buffer)
        if known is None:
            found[buffer] = path
            return
        length = 0
        while length < min(len(known), len(path)) and known[length] is path[length]:
            length += 1
        found[buffer] = path[:length]

    stack: list[tuple[Any, tuple[Node, ...]]] = [(fn.body, (fn,))]
    while stack:
        node, path = stack.pop()
        if isinstance(node, (BufferLoad, BufferStore)):
            touch(node.buffer, path)
        elif isinstance(node, Call):
            for arg in node.args:
                if isinstance(arg, Var):
                    for buffer in pointers.get(arg, []):
                        touch(buffer, path)
        elif isinstance(node, BlockRealize):
            stack.extend([(v, path) for v in (*node.iter_values, node.predicate)])
            inside = (*path, node.block)
            for match in node.block.match_buffers:
                touch(match.source.buffer, inside)
            stack.extend([(s, inside) for s in (node.block.init, node.block.body) if s is not None])
            continue
        elif isinstance(node, For):
            stack.extend([(node.min, path), (node.extent, path), (node.body, (*path, node))])
            continue
        stack.extend([(c, path) for c in children(node) if not c.is_reference])
    return {buffer: path[-1] for buffer, path in found.items()}


__all__ = [
    "calculate_allocated_bytes", "detect_buffer_access_lca", "estimate_tir_flops", "get_block_access_region",
    "get_sblock_access_region", "is_pure_function", "undefined_vars", "verify_well_formed",
]  # fmt: skip

make_public(globals(), __all__)
