"""A-normal form: every call, conditional and field access is bound to a variable; arguments are leaves; types are filled in."""

from __future__ import annotations

from ....ir.builder import is_graph_call, is_unknown, join_branches
from ....ir.expr import BindingBlock, Call, If, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function
from ....ir.infer import infer_call
from ....ir.node import replace
from ....ir.types import Expr
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter


def _leaf(value: Expr, rewriter: GraphRewriter) -> Expr:
    if type(value) is Tuple:
        return normal_form(value, rewriter)
    if isinstance(value, (TupleGetItem, If, SeqExpr, Function)) or is_graph_call(value):
        return rewriter.emit(normal_form(value, rewriter))
    return value


def normal_form(value: Expr, rewriter: GraphRewriter) -> Expr:
    """A value with nested calls bound before the current binding, its type inferred."""
    if type(value) is Call:
        made = replace(value, args=tuple([_leaf(a, rewriter) for a in value.args]))
        return replace(made, ty=infer_call(made)) if made is not value or is_unknown(made.ty) else made
    if type(value) is Tuple:
        return replace(value, fields=tuple([_leaf(f, rewriter) for f in value.fields]))
    if type(value) is TupleGetItem:
        return replace(value, tuple_value=_leaf(value.tuple_value, rewriter))
    if type(value) is If:
        cond = _leaf(value.cond, rewriter)
        first, second = _closed(value.then_branch, rewriter), _closed(value.else_branch, rewriter)
        chosen = replace(value, cond=cond, then_branch=first, else_branch=second)
        return (
            replace(chosen, ty=join_branches(first, second)) if chosen is not value or is_unknown(value.ty) else chosen
        )
    if type(value) is SeqExpr:
        return rewriter.inline(value, normal_form)
    return value


def _closed(value: Expr, rewriter: GraphRewriter) -> SeqExpr:
    """A branch or body as a sequence that ends in a leaf."""
    seq = value if type(value) is SeqExpr else SeqExpr((), value)
    body = seq.body
    if not (isinstance(body, (TupleGetItem, If, SeqExpr, Function)) or is_graph_call(body) or _nested(body)):
        return seq
    var = Var(rewriter.names.fresh("gv"), body.ty)
    block = rewriter.block(BindingBlock((VarBinding(var, body),)))
    last = block.bindings[-1].var
    return SeqExpr((*seq.blocks, block), last, seq.span)


def _nested(value: Expr) -> bool:
    return type(value) is Tuple and any(
        [is_graph_call(f) or isinstance(f, (If, SeqExpr, TupleGetItem)) or _nested(f) for f in value.fields]
    )


@function_pass()
def normalize(fn: Function) -> Function:
    """Bind nested expressions to variables, and deduce missing types. Gives A-normal form."""
    rewriter = GraphRewriter(normal_form)
    made = rewriter.function(fn)
    return replace(made, body=_closed(made.body, rewriter))
