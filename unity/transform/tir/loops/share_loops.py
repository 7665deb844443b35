"""share_loops: outermost loops whose iterations are independent are shared between threads, whatever they do.

Most loops are shared by the passes that order and tile them; this is for what those cannot read, such as a running sum along each
row. Iterations are independent where every buffer that is written is accessed at the loop variable along one axis, or allocated
inside. Loops with symbolic extents are marked too: `chunk_parallel` says when they are shared.

Rewrite: ``for i in 4096: for j: C[i, j] = C[i, j - 1] + A[i, j]`` -> ``for i in T.parallel(4096): ...``.
Functions that were scheduled (attribute ``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import is_int
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, Bind, BufferStore, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.walk import StatementRewriter, children, collect
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import PURE_CALLS
from ..analysis.parallel_cost import SHARED_WORK, store_work
from ..analysis.tiles import extent_of

_UNDERSTOOD = (For, SeqStmt, IfThenElse, BufferStore, AllocBuffer, Bind, While)


def _independent(loop: For) -> bool:
    """True when no iteration touches what another writes."""
    if any([type(stmt) not in _UNDERSTOOD for stmt in collect(loop, Stmt)]):
        return False
    if not all([getattr(call.op, "name", "") in PURE_CALLS for call in collect(loop, Call)]):
        return False
    own = {alloc.buffer.data for alloc in collect(loop, AllocBuffer)}
    accesses: dict[Var, list[BufferLoad | BufferStore]] = {}
    for node in collect(loop, (BufferLoad, BufferStore)):
        accesses.setdefault(node.buffer.data, []).append(node)
    return all(
        [
            _by_rows(nodes, loop.loop_var)
            for data, nodes in accesses.items()
            if data not in own and any([type(node) is BufferStore for node in nodes])
        ]
    )


def _by_rows(nodes: list[BufferLoad | BufferStore], var: Var) -> bool:
    """True if all accesses stand at the variable along one axis of one compact buffer."""
    buffer = nodes[0].buffer
    if buffer.strides or any([node.buffer is not buffer for node in nodes]):
        return False
    return any([all([node.indices[axis] is var for node in nodes]) for axis in range(buffer.ndim)])


def _work(stmt: Any) -> int:
    """Work of a statement; symbolic extents count as `tiles.UNKNOWN`, a while loop as one round."""
    if type(stmt) is BufferStore:
        return store_work(stmt)
    inside = sum([_work(child) for child in children(stmt) if isinstance(child, Stmt)])
    return inside * extent_of(stmt) if type(stmt) is For else inside


class _Share(StatementRewriter):
    def enter(self, node: object) -> object | None:
        if type(node) is not For or node.kind != "serial":
            return node if type(node) is For else None
        plain = not node.annotations and node.step is None and is_int(node.min, 0) and not is_int(node.extent, 1)
        symbolic = any([type(loop.extent) is not IntImm for loop in collect(node, For)])
        if not plain or not (symbolic or _work(node) >= SHARED_WORK) or collect(node.body, For) == []:
            return None
        return replace(node, kind="parallel") if _independent(node) else None


@prim_func_pass()
def share_loops(func: PrimFunc, *, parallel: bool = True) -> PrimFunc:
    """Share outermost independent loops between threads. For programs without blocks whose buffers have their axes."""
    if func.attrs.get("tir.is_scheduled") or func.attrs.get("tir.noalias", True) is False or not parallel:
        return func
    return replace(func, body=_Share()(func.body))
