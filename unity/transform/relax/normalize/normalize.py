"""A-normal form: every call, conditional and field access is bound to a variable; arguments are leaves; types are filled in."""

from __future__ import annotations

from ....ir.builder import is_nested, is_unknown, join_branches
from ....ir.expr import BindingBlock, If, SeqExpr, Tuple, Var, VarBinding
from ....ir.function import Function
from ....ir.node import replace
from ....ir.types import Expr
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter


class _Normalizer(GraphRewriter):
    """Binds what is nested in conditionals and sequences as well."""

    def flat(self, value: Expr) -> Expr:
        if type(value) is If:
            cond, first, second = self.leaf(value.cond), self.closed(value.then_branch), self.closed(value.else_branch)
            made = replace(value, cond=cond, then_branch=first, else_branch=second)
            return replace(made, ty=join_branches(first, second)) if made is not value or is_unknown(value.ty) else made
        if type(value) is SeqExpr:
            for binding in value.bindings:
                self.append(binding)
            return self.flat(value.body)
        return super().flat(value)

    def closed(self, value: Expr) -> SeqExpr:
        """A branch or body as a sequence that ends in a leaf."""
        seq = value if type(value) is SeqExpr else SeqExpr((), value)
        if not _holds_nested(seq.body):
            return seq
        var = Var(self.names.fresh("gv"), seq.body.ty)
        block = self.block(BindingBlock((VarBinding(var, seq.body),)))
        return SeqExpr((*seq.blocks, block), block.bindings[-1].var, seq.span)


def _holds_nested(value: Expr) -> bool:
    return is_nested(value) or (type(value) is Tuple and any([_holds_nested(f) for f in value.fields]))


@function_pass()
def normalize(fn: Function) -> Function:
    """Bind nested expressions to variables, and deduce missing types. Gives A-normal form."""
    rewriter = _Normalizer(lambda value, rewriter: rewriter.flat(value))
    made = rewriter.function(fn)
    return replace(made, body=rewriter.closed(made.body))
