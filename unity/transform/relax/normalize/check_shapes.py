"""Relations of shapes that nobody could prove become a check at run time: a match_cast in the program itself.

Rewrite: ``y: R.Tensor((m,), "float32") = R.exp(x)`` with x of n elements -> ``lv = R.exp(x)``,
``y = R.match_cast(lv, R.Tensor((m,), "float32"))``; the declared type of a result likewise. A call of an operator whose type
rule needs equal dimensions (the inner ones of a matrix product, say) gets
``R.match_cast(R.shape([k]), R.Shape([j]))`` before it. What is proved needs no check; what is refuted was an error before.
"""

from __future__ import annotations

from typing import Any

from ....ir.binders import bound_symbols
from ....ir.builder import is_unknown
from ....ir.expr import BindingBlock, Call, IntImm, MatchCast, Op, SeqExpr, ShapeExpr, Tuple, Var
from ....ir.function import Function
from ....ir.infer import infer_call
from ....ir.node import replace
from ....ir.relation import Answer, dims, is_subtype, requirements, shape_type
from ....ir.structural import structural_equal
from ....ir.types import Expr, ShapeType, TensorType, TupleType, Type
from ....ir.walk import free_vars
from ....op.common.lowering import short_name
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter


def _symbolic(ty: Type) -> bool:
    """True if a type has dimensions that are not constants."""
    if isinstance(ty, TupleType):
        return any([_symbolic(field) for field in ty.fields])
    return any([type(dim) is not IntImm for dim in dims(ty) or ()])


def _checkable(ty: Type) -> bool:
    """Types whose values a match_cast looks at."""
    if isinstance(ty, TupleType):
        return any([_checkable(field) for field in ty.fields])
    return isinstance(ty, (TensorType, ShapeType))


def _require(call: Call, rewriter: GraphRewriter) -> None:
    """Checks of the dimensions the type rule of an operator needs to be equal."""
    if not any([_symbolic(arg.ty) for arg in call.args]):
        return
    with requirements() as found:
        infer_call(call)
    done: list[tuple[Expr, Expr]] = []
    for given, wanted in found:
        if any([structural_equal(given, a) and structural_equal(wanted, b) for a, b in done]):
            continue
        done.append((given, wanted))
        rewriter.emit_match(ShapeExpr((given,), call.span), shape_type((wanted,)), f"{short_name(call)}_size")


@function_pass()
def check_shapes(fn: Function) -> Function:
    """Check at run time what annotations and operators require of shapes and the compiler could not prove.

    Requires normal form. Gives ``R.match_cast``.
    """

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        var = rewriter.var
        if type(value) is Call and type(value.op) is Op:
            _require(value, rewriter)
        if _checkable(var.ty) and not is_unknown(value.ty) and is_subtype(value.ty, var.ty) is Answer.MAYBE:
            rewriter.append(MatchCast(var, rewriter.emit(value), var.ty, var.span))
            return None
        return value

    rewriter = GraphRewriter(rule)
    made: Function = rewriter.function(fn)
    body = made.body
    known = {s for param in made.params for s in bound_symbols(param.ty)}
    if (
        type(body) is SeqExpr
        and isinstance(body.body, (Var, Tuple, ShapeExpr))
        and _checkable(made.ret_ty)
        and is_subtype(body.body.ty, made.ret_ty) is Answer.MAYBE
        and all([s in known for s in free_vars(made.ret_ty)])
    ):
        var = Var(rewriter.names.fresh("gv"), made.ret_ty)
        check = BindingBlock((MatchCast(var, body.body, made.ret_ty, body.body.span),))
        made = replace(made, body=SeqExpr((*body.blocks, check), var, body.span))
    return made
