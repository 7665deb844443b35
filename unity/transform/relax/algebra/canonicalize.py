"""Simplest form of bindings: aliases, fields of known tuples and checks that always hold disappear.

Rewrite: ``y = x`` -> uses of x. ``t = (a, b); u = t[0]`` -> a. ``y = R.match_cast(x, ty)`` with x of type ty -> x.
A dataflow output that is an alias of an inner variable takes that variable's place.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Constant, GlobalVar, IntImm, MatchCast, Tuple, TupleGetItem, Var, VarBinding, is_dataflow_var
from ....ir.function import Function
from ....ir.node import replace
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import Rewriter
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, each_binding


def _promote_outputs(fn: Function) -> Function:
    """Inner variables that an output aliases become that output."""
    promoted: dict[Var, Var] = {}
    for _, binding in each_binding(fn):
        value = binding.value
        if (
            isinstance(binding, VarBinding)
            and not binding.var.dataflow
            and is_dataflow_var(value)
            and value not in promoted
        ):
            promoted[value] = replace(value, name=binding.var.name, dataflow=False)
    return Rewriter(mapping=promoted)(fn) if promoted else fn


def _may_replace(var: Var, value: Expr) -> bool:
    return var.dataflow or not is_dataflow_var(value)


@function_pass()
def canonicalize(fn: Function) -> Function:
    """Remove alias bindings, fields of known tuples and checks that always hold."""
    made = _simplest(_promote_outputs(fn))
    while (more := _promote_outputs(made)) is not made:  # outputs that became aliases
        made = _simplest(more)
    return made


def _simplest(fn: Function) -> Function:
    """The function without aliases, unpacking of known tuples and trivial checks."""
    tuples: dict[Var, Tuple] = {}

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        var = rewriter.var
        if isinstance(value, (Var, Constant, GlobalVar, IntImm)) and _may_replace(var, value):
            return Replaced(value)
        if type(value) is Tuple:
            tuples[var] = value
        elif type(value) is TupleGetItem:
            known = tuples.get(value.tuple_value) if isinstance(value.tuple_value, Var) else value.tuple_value
            if type(known) is Tuple and value.index < len(known.fields):
                item = known.fields[value.index]
                if type(item) is Tuple:
                    tuples[var] = item
                return Replaced(item) if isinstance(item, (Var, Constant)) and _may_replace(var, item) else item
        return value

    def check(binding: MatchCast, value: Expr, rewriter: GraphRewriter) -> Replaced | None:
        same = (
            structural_equal(value.ty, binding.target) and isinstance(value, Var) and _may_replace(binding.var, value)
        )
        return Replaced(value) if same else None

    return GraphRewriter(rule, check).function(fn)
