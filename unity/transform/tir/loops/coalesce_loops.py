"""coalesce_loops: two nested loops that walk through memory like one become one, so that vectors are not cut at every row.

Rewrite: ``for i in range(256): for j in range(14): Y[i * 14 + j] = f(X[i * 14 + j])`` ->
``for j in range(3584): Y[j] = f(X[j])``.
Holds when in every index one step of the outer loop equals the inner loop's whole extent of steps, and neither variable is used
otherwise. Iterations keep their order. For programs over flat buffers; loops of other kinds and scheduled programs stay.

split_periods: an innermost loop over several periods becomes a loop over periods and one within, so that what repeats is read in
order. Rewrite: ``for i in range(1024): Y[i] = X[i % 512]`` -> ``for o in range(2): for j in range(512): Y[o * 512 + j] = X[j]``.
For loops of constant extent whose variable stands under ``% c`` (and perhaps ``// c``) with one period c that divides the extent.
Periods below ``SHORTEST`` stay: a vector holds several of them.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis.reductions import REDUCTION
from ....ir.analysis.use import size_symbols
from ....ir.build import add, dtype_of, floordiv, int_imm, is_int, mul, scalar_type, sub
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc, keeps_loops
from ....ir.node import replace
from ....ir.scalar import BufferLoad, FloorDiv, FloorMod
from ....ir.stmt import AttrStmt, BufferStore, For, Stmt
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, StatementRewriter, collect, substitute, used_vars
from ...infra.passes import prim_func_pass

VECTORIZE = "vectorize"


def _innermost(stmt: Stmt) -> BufferStore | None:
    """The store that is all of a loop's body."""
    while type(stmt) is AttrStmt and stmt.key == REDUCTION:
        stmt = stmt.body
    return stmt if type(stmt) is BufferStore else None


def _plain(loop: For, *known: str) -> bool:
    """True for a serial loop with no other annotations than those known."""
    return loop.kind == "serial" and loop.counts_up and set(loop.annotations or ()) <= {*known}


class _Coalesce(StatementRewriter):
    def __init__(self, symbols: list[Var]) -> None:
        super().__init__()
        self.analyzer = Analyzer(symbols)

    def leave(self, node: Any) -> Any:
        while type(node) is For and type(node.body) is For:
            made = self.fused(node, node.body)
            if made is None:
                break
            node = made
        return node

    def fused(self, outer: For, inner: For) -> For | None:
        """One loop instead of two, or None."""
        store = _innermost(inner.body)
        if store is None or store.predicate is not None or not _plain(outer) or not _plain(inner, VECTORIZE):
            return None
        pair = (outer.loop_var, inner.loop_var)
        if outer.loop_var in used_vars(inner.extent) or dtype_of(pair[0]) is not dtype_of(pair[1]):
            return None
        accesses: list[BufferLoad | BufferStore] = [store, *collect(store.value, BufferLoad)]
        indices = [index for access in accesses for index in access.indices]
        if any([getattr(a, "predicate", None) is not None for a in accesses]) or self.used_elsewhere(store, pair):
            return None
        if not all([self.is_single_stride(index, pair, inner.extent) for index in indices]):
            return None
        zero = int_imm(0, prim_type(dtype_of(pair[0])))
        body = Rewriter({BufferLoad: self.simpler, BufferStore: self.simpler}, {outer.loop_var: zero})(inner.body)
        extent = self.analyzer.simplify(mul(outer.extent, inner.extent))
        return replace(inner, extent=extent, body=body)

    def simpler(self, access: BufferLoad | BufferStore) -> BufferLoad | BufferStore:
        """An access with its indices in simplest form."""
        indices = tuple([self.analyzer.simplify(i) if dtype_of(i).lanes == 1 else i for i in access.indices])
        return replace(access, indices=indices)

    def used_elsewhere(self, store: BufferStore, pair: tuple[Var, Var]) -> bool:
        """True when a variable occurs outside of the indices, or one index holds another access."""
        stack: list[Any] = [store.value]
        while stack:
            node = stack.pop()
            if type(node) is BufferLoad:
                if any([collect(index, BufferLoad) for index in node.indices]):
                    return True
                continue
            if type(node) is Var:
                if node in pair:
                    return True
                continue
            for name, _ in node.walked:
                value = getattr(node, name)
                stack.extend([v for v in (value if type(value) is tuple else (value,)) if isinstance(v, Expr)])
        return False

    def is_single_stride(self, index: Expr, pair: tuple[Var, Var], extent: Expr) -> bool:
        """True when a step of the outer variable moves an index as far as ``extent`` steps of the inner one."""
        found = used_vars(index)
        if pair[0] not in found and pair[1] not in found:
            return True
        if dtype_of(index) is not dtype_of(pair[0]):
            return False
        far, near = [self.step(index, var) for var in pair]
        if any([v in pair for step in (far, near) for v in used_vars(step)]):
            return False
        return self.analyzer.can_prove_equal(far, mul(near, extent))

    def step(self, index: Expr, var: Var) -> Expr:
        """The distance an index moves when a variable grows by one."""
        one = int_imm(1, prim_type(dtype_of(var)))
        moved: Expr = substitute(index, {var: add(var, one)})
        return self.analyzer.simplify(sub(moved, index))


@prim_func_pass()
def coalesce_loops(func: PrimFunc) -> PrimFunc:
    """Join two nested loops that walk through memory like one. For flat buffers."""
    if keeps_loops(func):
        return func
    return replace(func, body=_Coalesce(size_symbols(func))(func.body))


SHORTEST = 16
"""Least period that is worth a loop of its own."""


def _period(loop: For) -> int | None:
    """The only period of a loop's variable that divides its extent."""
    if loop.kind != "serial" or not loop.counts_up or type(loop.extent) is not IntImm:
        return None
    found = {mod.b.value for mod in collect(loop.body, FloorMod) if mod.a is loop.loop_var and type(mod.b) is IntImm}
    period = found.pop() if len(found) == 1 else 0
    extent = loop.extent.value
    return period if SHORTEST <= period < extent and extent % period == 0 and not collect(loop.body, For) else None


class _Within(Rewriter):
    """Puts a number of periods and a place within one for a loop variable."""

    def __init__(self, var: Var, period: int, outer: Var, inner: Var) -> None:
        super().__init__(None, {var: add(mul(outer, int_imm(period, scalar_type(var))), inner)})
        self.var, self.period, self.outer, self.inner = var, period, outer, inner

    def enter(self, node: Any) -> Any | None:
        if isinstance(node, (FloorMod, FloorDiv)) and node.a is self.var and is_int(node.b, self.period):
            return self.inner if type(node) is FloorMod else self.outer
        return None


class _Split(StatementRewriter):
    def leave(self, node: Any) -> Any:
        period = _period(node) if type(node) is For else None
        if period is None:
            return node
        var = node.loop_var
        outer, inner = Var(f"{var.name}_period", var.ty), Var(var.name, var.ty)
        within = replace(
            node, loop_var=inner, extent=int_imm(period, var.ty), body=_Within(var, period, outer, inner)(node.body)
        )
        return For(outer, node.min, floordiv(node.extent, period), "serial", self.leave(within))


@prim_func_pass()
def split_periods(func: PrimFunc) -> PrimFunc:
    """Split innermost loops at the period of what they read. For flat buffers."""
    if keeps_loops(func):
        return func
    return replace(func, body=_Split()(func.body))
