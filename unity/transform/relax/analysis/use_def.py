"""Calls rewritten by what their operands were computed by: ``R.matmul(x, w)`` with ``w = R.take(...)`` bound before it.

Invariant: operands of the earlier call are used at the later one only where they are visible there and nothing changed them.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.expr import Call, Var, VarBinding
from ....ir.function import Function
from ....ir.types import Expr
from ..rewriting.graph_rewriter import GraphRewriter, each_binding, rewrite_calls
from .mutable_vars import Visibility, changed_vars

Source = Callable[[Expr], Call | None]
"""The call that a variable is bound to, where its operands may be used at the place in question; None otherwise."""


def calls_of(name: str) -> Callable[[Expr], bool]:
    """True if a value is a call of an operator."""
    return lambda value: value.op_name == name


def rewrite_with_sources(
    fn: Function, is_source: Callable[[Expr], bool], change: Callable[[Call, Source, GraphRewriter], Expr | None]
) -> Function:
    """The function with calls changed by what they and the calls behind their operands are; None leaves a call as it is."""
    calls = {b.var: b.value for _, b in each_binding(fn) if isinstance(b, VarBinding) and is_source(b.value)}
    if not calls:
        return fn
    fixed, visible = changed_vars(fn), Visibility(fn)

    def rule(value: Call, rewriter: GraphRewriter) -> Expr | None:
        def source(operand: Expr) -> Call | None:
            found = calls.get(operand) if isinstance(operand, Var) and operand not in fixed else None
            if type(found) is not Call:
                return None
            usable = all([v not in fixed and visible.allows(v, rewriter.var) for v in found.args])
            return found if usable else None

        return change(value, source, rewriter)

    return rewrite_calls(fn, rule)
