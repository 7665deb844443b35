"""share_loops: outermost loops whose iterations are independent are shared between threads, whatever they do.

Most loops are shared by the passes that order and tile them; this is for what those cannot read, such as a running sum along each
row. Loops with symbolic extents are marked too: `chunk_parallel` says when they are shared.

Rewrite: ``for i in 4096: for j: C[i, j] = C[i, j - 1] + A[i, j]`` -> ``for i in T.parallel(4096): ...``.
Functions that were scheduled (attribute ``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import is_int
from ....ir.expr import IntImm
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import BufferStore, For, Stmt
from ....ir.walk import StatementRewriter, children, collect
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import is_shareable
from ..analysis.parallel_cost import SHARED_WORK, store_work
from ..analysis.tiles import extent_of


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
        return replace(node, kind="parallel") if is_shareable(node) else None


@prim_func_pass()
def share_loops(func: PrimFunc, *, parallel: bool = True) -> PrimFunc:
    """Share outermost independent loops between threads. For programs without blocks whose buffers have their axes."""
    if func.attrs.get("tir.is_scheduled") or func.attrs.get("tir.noalias", True) is False or not parallel:
        return func
    return replace(func, body=_Share()(func.body))
