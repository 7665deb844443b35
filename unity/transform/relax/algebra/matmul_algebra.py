"""Products and what stands at their right operand, rewritten as weights of low-rank updates (LoRA) need it.

- ``expand_matmul_of_sum``: ``R.matmul(x, R.add(a, b))`` -> ``R.add(R.matmul(x, a), R.matmul(x, b))`` for matrices of one shape.
- ``reorder_take_after_matmul``: ``R.matmul(x, R.take(w, i, axis=1))`` -> ``R.take(R.matmul(x, w), i, axis=-1)``.
- ``reorder_permute_dims_after_concat``: ``R.concat((R.permute_dims(a), R.permute_dims(b)))`` -> one ``R.permute_dims`` of one
  ``R.concat``.

What nobody needs any more is left to ``dead_code``; the order of sums, and with it rounding, changes in the first.
"""

from __future__ import annotations

from ....ir.expr import Call, Tuple
from ....ir.function import Function
from ....ir.relation import Answer, dims, same_dims
from ....ir.types import Expr
from ....op.common.channels_last import rank_of
from ....op.common.table import R
from ....op.common.type_rules import axis_attr
from ....op.elementwise.binary import add
from ....op.linalg.products import matmul
from ....op.manipulate.index import take
from ....op.manipulate.manipulate import permutation, permute_dims
from ....op.manipulate.slicing import concat
from ...infra.passes import function_pass
from ..analysis.use_def import Source, calls_of, rewrite_with_sources
from ..rewriting.graph_rewriter import GraphRewriter
from .adjust_matmul_order import is_product


def _same_shape(a: Expr, b: Expr) -> bool:
    x, y = dims(a.ty), dims(b.ty)
    return x is not None and y is not None and same_dims(x, y) is Answer.YES


@function_pass()
def expand_matmul_of_sum(fn: Function) -> Function:
    """Rewrite a product with a sum of matrices as a sum of products. Changes rounding."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        total = source(call.args[1]) if is_product(call) else None
        if total is None or rank_of(total) < 2 or not _same_shape(*total.args):
            return None
        parts = [rewriter.emit(matmul(call.args[0], part)) for part in total.args]
        return add(*parts)

    return rewrite_with_sources(fn, calls_of(R.add.name), change)


@function_pass()
def reorder_take_after_matmul(fn: Function) -> Function:
    """Take columns of a product instead of columns of its right operand."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        taken = source(call.args[1]) if is_product(call) else None
        if taken is None or rank_of(taken) != 2 or rank_of(taken.args[0]) != 2 or taken.attrs.get("axis") is None:
            return None
        if axis_attr(taken, 2, "axis", 0) != 1 or rank_of(call.args[0]) < 1:
            return None
        whole = rewriter.emit(matmul(call.args[0], taken.args[0]))
        return take(whole, taken.args[1], axis=rank_of(whole) - 1, mode=taken.attrs.get("mode", "fast"))

    return rewrite_with_sources(fn, calls_of(R.take.name), change)


@function_pass()
def reorder_permute_dims_after_concat(fn: Function) -> Function:
    """Concatenate before transposing: tensors that are transposed alike are joined first."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        if call.op_name != R.concat.name or type(call.args[0]) is not Tuple or not call.args[0].fields:
            return None
        turned = [source(field) for field in call.args[0].fields]
        found = [t for t in turned if t is not None]
        rank = rank_of(call)
        if len(found) != len(turned) or rank < 0 or call.attrs.get("axis") is None:
            return None
        orders = {tuple(permutation(t, rank)) for t in found}
        if len(orders) != 1:
            return None
        (order,) = orders
        axis = axis_attr(call, rank, "axis", 0)
        joined = rewriter.emit(concat([t.args[0] for t in found], axis=order[axis]))
        return permute_dims(joined, axes=list(order))

    return rewrite_with_sources(fn, calls_of(R.permute_dims.name), change)
