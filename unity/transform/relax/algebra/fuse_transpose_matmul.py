"""A product with a transposed matrix reads it as it lies: no copy of the matrix is made.

Rewrite: ``R.matmul(x, R.permute_dims(w, [1, 0]))`` -> ``R.einsum((x, w), "...ik,...jk->...ij")``, for the last two axes of the
right operand, any batch axes on the left.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, Tuple, Var, VarBinding
from ....ir.function import Function
from ....ir.structural import structural_equal
from ....ir.types import Expr, TensorType
from ....op.common.table import R
from ....op.linalg.contraction import einsum
from ....op.manipulate.manipulate import permutation
from ...infra.passes import function_pass
from ..analysis.mutable_vars import Visibility, changed_vars
from ..rewriting.graph_rewriter import GraphRewriter, each_binding


def _transposed(value: Expr, source: dict[Var, Call]) -> Expr | None:
    """The tensor whose last two axes a permute_dims swaps."""
    made = source.get(value) if isinstance(value, Var) else None
    if made is None or not isinstance(made.ty, TensorType) or made.ty.ndim < 2:
        return None
    rank = made.ty.ndim
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return made.args[0] if tuple(permutation(made, rank)) == swapped else None


@function_pass()
def fuse_transpose_matmul(fn: Function) -> Function:
    """Multiply by a transposed matrix without transposing it. Gives ``R.einsum``."""
    fixed, visible = changed_vars(fn), Visibility(fn)
    source: dict[Var, Call] = {
        b.var: b.value
        for _, b in each_binding(fn)
        if isinstance(b, VarBinding)
        and type(b.value) is Call
        and b.value.op_name == R.permute_dims.name
        and b.value.args[0] not in fixed
    }
    if not source:
        return fn

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if type(value) is not Call or value.op_name != R.matmul.name or value.attrs.get("out_dtype"):
            return value
        weight, left = _transposed(value.args[1], source), value.args[0].ty
        if (
            weight is None
            or not visible.allows(weight, rewriter.var)
            or not isinstance(left, TensorType)
            or left.ndim < 1
        ):
            return value
        rows = "i" if left.ndim > 1 else ""
        made = einsum(Tuple((value.args[0], weight)), subscripts=f"...{rows}k,...jk->...{rows}j", span=value.span)
        return made if structural_equal(made.ty, value.ty) else value

    return GraphRewriter(rule).function(fn)
