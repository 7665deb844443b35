"""Types of a function deduced anew, after its parameters, symbols or values changed.

Invariant: what a program wrote itself (result types of call_dps and call_packed, targets of match_cast) is substituted, never
widened; what was deduced follows from the new operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.build import dtype_of
from ....ir.expr import Call, Op, Var
from ....ir.function import Function
from ....ir.infer import infer_call
from ....ir.node import replace
from ....ir.relation import Answer, erase, is_subtype
from ....ir.scalar import Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Select, Sub
from ....ir.structural import structural_equal
from ....ir.walk import Rewriter, free_vars
from .graph_rewriter import GraphRewriter, rewrite_calls

_SCALAR = (Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Select, Sub)


class _Folding(Rewriter):
    """A rewriter that simplifies index arithmetic in which something changed."""

    def visit(self, node: Any) -> Any:
        made = super().visit(node)
        if made is not node and type(node) in _SCALAR and dtype_of(node).is_integral:
            return Analyzer().simplify(made)
        return made


def substitute_folded(node: Any, mapping: Mapping[Any, Any], rules: Mapping[type, Any] | None = None) -> Any:
    """Replace variables, apply ``rules`` to nodes of a type, and simplify the index arithmetic that changes by it."""
    return _Folding(rules, mapping)(node)


def retype(fn: Function) -> Function:
    """The function with the types of its operator calls deduced from their operands, and its result type from its body."""

    def change(call: Call, rewriter: GraphRewriter) -> Call | None:
        if type(call.op) is Op and call.ty_args:
            return None
        ty = infer_call(call)
        return None if structural_equal(ty, call.ty) else replace(call, ty=ty)

    made = rewrite_calls(fn, change)
    known = [v for p in made.params for v in (p, *free_vars(p.ty))]
    ret = erase(made.body.ty, known)
    keeps = is_subtype(ret, made.ret_ty) is Answer.YES and made is fn
    return made if keeps or structural_equal(ret, made.ret_ty) else replace(made, ret_ty=ret)


def with_params(fn: Function, kept: Sequence[Var], mapping: Mapping[Any, Any]) -> Function:
    """The function with those of its parameters that are kept; ``mapping`` says what parameters and symbols become."""
    mapping = dict(mapping)
    for param in kept:
        ty = substitute_folded(param.ty, mapping)
        if param not in mapping and ty is not param.ty:
            mapping[param] = Var(param.name, ty, param.span)
    params = tuple([mapping.get(p, p) for p in kept])
    body = substitute_folded(fn.body, mapping)
    ret = substitute_folded(fn.ret_ty, mapping)
    return retype(Function(params, body, ret, fn.pure, fn.attrs, fn.span))
