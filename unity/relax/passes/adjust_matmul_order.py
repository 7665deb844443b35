"""Products of three matrices in the cheaper order: ``(x @ a) @ b`` or ``x @ (a @ b)``, by multiply-adds.

Rewrite: ``w = R.matmul(a, b); y = R.matmul(x, w)`` -> ``t = R.matmul(x, a); y = R.matmul(t, b)`` where that is less work for all
sizes of at least 1, and the other way round. ``a`` and ``b`` have rank 2, ``x`` any. What nobody needs any more is left to
``dead_code``. Sums are added in another order: results change by rounding.
"""

from __future__ import annotations

from ...arith.analyzer import Analyzer
from ...ir.analysis import used_symbols
from ...ir.expr import Call, ShapeExpr
from ...ir.function import Function
from ...ir.relation import dims
from ...ir.types import Expr
from ...op.common.table import R
from ...op.common.type_rules import product
from ...op.linalg.products import matmul
from ...transform.infra.passes import function_pass
from ...transform.relax.analysis.use_def import Definitions
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls


def _work(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """Multiply-adds of a product."""
    return product([*left, right[-1]])


def _cheaper(x: Expr, a: Expr, b: Expr, x_first: bool) -> bool:
    """True if ``(x @ a) @ b`` (else ``x @ (a @ b)``) is certainly less work than the other."""
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
    return type(value) is Call and value.op_name == R.matmul.name and not value.attrs.get("out_dtype")


@function_pass()
def adjust_matmul_order(fn: Function) -> Function:
    """Multiply three matrices in the cheaper order. Changes rounding. Requires matrices of rank 2 after the first operand."""

    known = Definitions(fn)

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        if not is_product(call):
            return None
        left, right = call.args[0], call.args[1]
        inner = known.source(right, rewriter.var, R.matmul.name)
        if inner is not None and is_product(inner):
            a, b = inner.args[0], inner.args[1]
            if _cheaper(left, a, b, x_first=True):
                return matmul(matmul(left, a), b)
        inner = known.source(left, rewriter.var, R.matmul.name)
        if inner is not None and is_product(inner):
            x, a = inner.args[0], inner.args[1]
            if _cheaper(x, a, right, x_first=False):
                return matmul(x, matmul(a, right))
        return None

    return rewrite_calls(fn, change, R.matmul.name)
