"""canonicalize_loop: every loop starts at 0 and steps by 1.

Rewrite: ``for i in T.serial(a, b, step=s): body(i)`` -> ``for i in range(ceildiv(b - a, s)): body(i * s + a)``.
A step that is not a constant is checked to be positive first.
"""

from __future__ import annotations

from ....ir.build import add, ceildiv, const, dtype_of, floordiv, gt, mul, select, sub
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import AssertStmt, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import rewrite, substitute
from ....support.errors import PassError
from ...infra.passes import prim_func_pass


def _trips(extent: Expr, step: Expr) -> Expr:
    """Number of steps: extent / step rounded up. ``extent + step - 1`` could leave the range of a narrow type."""
    dtype = dtype_of(extent)
    constant = type(extent) is IntImm and type(step) is IntImm
    if constant or (dtype.bits >= 32 and dtype.is_int):
        return ceildiv(extent, step)
    one, zero = const(1, dtype), const(0, dtype)
    return select(gt(extent, zero), add(floordiv(sub(extent, one), step), one), zero)


def _loop(loop: For) -> Stmt:
    if loop.kind == "thread_binding" or loop.counts_up:
        return loop if loop.step is None or loop.kind == "thread_binding" else replace(loop, step=None)
    var = Var(loop.loop_var.name, prim_type(dtype_of(loop.loop_var)), loop.loop_var.span)
    step = loop.step
    if step is None:
        body = substitute(loop.body, {loop.loop_var: add(var, loop.min)})
        return replace(loop, loop_var=var, min=const(0, dtype_of(var)), body=body)
    if type(step) is IntImm and step.value <= 0:
        raise PassError("E503", f"loop {var.name} steps by {step.value}", loop.span, help="a step must be positive")
    body = substitute(loop.body, {loop.loop_var: add(mul(var, step), loop.min)})
    made = replace(
        loop, loop_var=var, min=const(0, dtype_of(var)), extent=_trips(loop.extent, step), step=None, body=body
    )
    if type(step) is IntImm:
        return made
    return seq(AssertStmt(gt(step, 0), f"the step of loop {var.name} must be positive", "ValueError", loop.span), made)


@prim_func_pass()
def canonicalize_loop(func: PrimFunc) -> PrimFunc:
    """Start every loop at 0 with step 1."""
    return rewrite(func, {For: _loop})
