"""split_periods: an innermost loop over several periods becomes a loop over periods and one within, so that what repeats is read in
order.

Rewrite: ``for i in range(1024): Y[i] = X[i % 512]`` ->
``for o in range(2): for j in range(512): Y[o * 512 + j] = X[j]``.
For loops of constant extent whose variable stands under ``% c`` (and perhaps ``// c``) with one period c that divides the extent.
Iterations keep their order. Periods below ``SHORTEST`` stay: a vector holds several of them. Scheduled programs stay as they are.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import add, floordiv, int_imm, is_int, mul, scalar_type
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import FloorDiv, FloorMod
from ....ir.stmt import For
from ....ir.walk import Rewriter, StatementRewriter, collect
from ...infra.passes import prim_func_pass

SHORTEST = 16
"""Least period that is worth a loop of its own."""


def _period(loop: For) -> int | None:
    """The only period of a loop's variable that divides its extent."""
    if loop.kind != "serial" or loop.step is not None or not is_int(loop.min, 0) or type(loop.extent) is not IntImm:
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
    if func.attrs.get("tir.is_scheduled"):
        return func
    return replace(func, body=_Split()(func.body))
