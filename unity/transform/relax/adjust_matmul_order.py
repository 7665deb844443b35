"""Products of three matrices in the cheaper order: ``(x @ a) @ b`` or ``x @ (a @ b)``, by multiply-adds.

Rewrite: ``w = R.matmul(a, b); y = R.matmul(x, w)`` -> ``t = R.matmul(x, a); y = R.matmul(t, b)`` where that is less work for all
sizes of at least 1, and the other way round. ``a`` and ``b`` have rank 2, ``x`` any. What nobody needs any more is left to
``dead_code``. Sums are added in another order: results change by rounding.
"""

from __future__ import annotations

from typing import Any

from ...arith.analyzer import Analyzer
from ...ir.analysis import used_symbols
from ...ir.expr import Call, ShapeExpr, Var, VarBinding
from ...ir.function import Function
from ...ir.relation import dims
from ...ir.types import Expr, TensorType
from ...op.linalg.products import matmul
from ...op.rules import product
from ..base import function_pass
from .liveness import op_called
from .rewriting import GraphRewriter, each_binding
from .sharing import Visibility, changed_vars


def _work(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """Multiply-adds of a product."""
    return product([*left, right[-1]])


def _cheaper(x: Expr, a: Expr, b: Expr, x_first: bool) -> bool:
    """Is ``(x @ a) @ b`` (else ``x @ (a @ b)``) surely less work than the other?"""
    sizes = [dims(v.ty) for v in (x, a, b)]
    if any([s is None for s in sizes]) or len(sizes[1] or ()) != 2 or len(sizes[2] or ()) != 2:
        return False
    of_x, of_a, of_b = [s for s in sizes if s is not None]
    if not of_x:
        return False
    first = _work(of_x, of_a), _work((*of_x[:-1], of_a[1]), of_b)
    last = _work(of_a, of_b), _work(of_x, (of_a[0], of_b[1]))
    analyzer = Analyzer()
    for symbol in used_symbols(ShapeExpr((*of_x, *of_a, *of_b))):
        analyzer.bind_size(symbol, at_least=1)
    costs = [analyzer.simplify(c[0] + c[1]) for c in (first, last)]
    return analyzer.can_prove_less(*(costs if x_first else reversed(costs)))


def is_product(value: Expr) -> bool:
    """A product of matrices in the type of its operands."""
    return type(value) is Call and op_called(value) == "R.matmul" and not value.attrs.get("out_dtype")


@function_pass()
def adjust_matmul_order(fn: Function) -> Function:
    """Multiply three matrices in the cheaper order."""
    fixed, visible = changed_vars(fn), Visibility(fn)
    products = {b.var: b.value for _, b in each_binding(fn) if isinstance(b, VarBinding) and is_product(b.value)}

    def parts(value: Expr, var: Var | None) -> tuple[Expr, Expr] | None:
        """The operands of a product that may be multiplied elsewhere."""
        made = products.get(value) if isinstance(value, Var) else None
        if type(made) is not Call or value in fixed:
            return None
        usable = all([v not in fixed and visible.allows(v, var) for v in made.args])
        return (made.args[0], made.args[1]) if usable and isinstance(made.ty, TensorType) else None

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if not is_product(value):
            return value
        assert type(value) is Call
        left, right = value.args[0], value.args[1]
        inner = parts(right, rewriter.var)
        if inner is not None and _cheaper(left, *inner, x_first=True):
            return matmul(rewriter.emit(matmul(left, inner[0])), inner[1])
        inner = parts(left, rewriter.var)
        if inner is not None and _cheaper(*inner, right, x_first=False):
            return matmul(inner[0], rewriter.emit(matmul(inner[1], right)))
        return value

    made: Function = GraphRewriter(rule).function(fn)
    return made
