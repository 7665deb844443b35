"""fuse_outer_loops: neighbouring loops over the same rows become one loop, so that rows of intermediate results stay in cache.

Two loops of equal extent that stand behind each other become one where every buffer that either of them writes and both touch is
indexed by the loop variable alone along one axis: then iteration i of the second needs nothing of the first but iteration i. This
is done where an intermediate buffer passes from one to the other (`compact_buffer_allocation` then cuts it to one row). The
result is parallel if one of them was and iterations are independent. Loops that were scheduled stay as they are.

Rewrite: ``for i: E[i, ..] = f(X[i, ..]); for j: Y[j, ..] = g(E[j, ..])`` -> ``for i: { E[i, ..] = ..; Y[i, ..] = .. }``.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import is_int
from ....ir.function import PrimFunc, keeps_loops, may_alias
from ....ir.node import replace
from ....ir.scalar import Add
from ....ir.stmt import AllocBuffer, AssertStmt, Evaluate, For, Return, SeqStmt, Stmt, While, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import StatementRewriter, collect, substitute
from ...infra.passes import prim_func_pass
from ..analysis.touched_regions import Access, AccessWalk


def _plain(loop: For) -> bool:
    return (
        loop.kind in ("serial", "parallel")
        and not loop.annotations
        and loop.counts_up
        and not is_int(loop.extent, 1)
        and not collect(loop, (Evaluate, While, Return, AssertStmt))
    )


def _touched(loop: For) -> dict[Buffer, list[Access]] | None:
    """Accesses by buffer, without the buffers that an iteration has for itself; None where not all can be seen."""
    own = {alloc.buffer.data for alloc in collect(loop, AllocBuffer)}
    found: dict[Buffer, list[Access]] = {}
    walk = AccessWalk(loop.body)
    for buffer in walk.found:
        if buffer.data not in own:
            accesses = walk.accesses(buffer)
            if accesses is None:
                return None
            found[buffer] = accesses
    return found


def _rows(accesses: list[Access], loop: For) -> set[int]:
    """Axes along which every access is at the loop variable."""
    axes: set[int] | None = None
    for access in accesses:
        here = {axis for axis, index in enumerate(access.node.indices) if _plainly(index) is loop.loop_var}
        axes = here if axes is None else axes & here
    return axes or set()


def _plainly(index: Expr) -> Expr:
    """An index without the zeros that loops of one iteration left in it."""
    while type(index) is Add and (is_int(index.a, 0) or is_int(index.b, 0)):
        index = index.b if is_int(index.a, 0) else index.a
    return index


def _independent(touched: dict[Buffer, list[Access]], loop: For) -> bool:
    """True when no iteration touches what another writes."""
    return all([_rows(a, loop) for a in touched.values() if any([access.is_store for access in a])])


def _fused(first: For, second: For, intermediate: set[Buffer]) -> For | None:
    if not (_plain(first) and _plain(second) and structural_equal(first.extent, second.extent)):
        return None
    a, b = _touched(first), _touched(second)
    if a is None or b is None:
        return None
    passed = False
    for buffer in a:
        if buffer not in b:
            continue
        if not any([access.is_store for access in a[buffer] + b[buffer]]):
            continue
        if not _rows(a[buffer], first) & _rows(b[buffer], second):
            return None
        passed = passed or (buffer in intermediate and any([access.is_store for access in a[buffer]]))
    if not passed:
        return None
    shared = "parallel" in (first.kind, second.kind) and _independent(a, first) and _independent(b, second)
    body = seq(first.body, substitute(second.body, {second.loop_var: first.loop_var}))
    return replace(first, body=body, kind="parallel" if shared else "serial")


class _Fuse(StatementRewriter):
    """Fuses the loops of sequences, then those inside."""

    def __init__(self, intermediate: set[Buffer]) -> None:
        super().__init__()
        self.intermediate = intermediate

    def enter(self, node: Any) -> Any | None:
        if type(node) is not SeqStmt:
            return None
        parts: list[Stmt] = []
        for part in node.stmts:
            before = parts[-1] if parts else None
            if type(before) is For and type(part) is For:
                made = _fused(before, part, self.intermediate)
                if made is not None:
                    parts[-1] = made
                    continue
            parts.append(part)
        return seq(*[self.visit(part) for part in parts], old=node)


@prim_func_pass()
def fuse_outer_loops(func: PrimFunc) -> PrimFunc:
    """Fuse neighbouring loops over the same rows where a buffer passes from one to the other.

    For programs without blocks whose buffers have their axes.
    """
    if keeps_loops(func) or may_alias(func):
        return func
    return _Fuse({alloc.buffer for alloc in collect(func.body, AllocBuffer)})(func)
