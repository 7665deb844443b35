"""Chains of reshapes become one, and a reshape or a broadcast to the shape a value has goes away.

Rewrite: ``R.reshape(R.reshape(x, s), t)`` -> ``R.reshape(x, t)``; ``R.reshape(x, shape of x)`` -> x;
``R.permute_dims(R.permute_dims(x, p), q)`` -> one permutation, none if they cancel.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, ShapeExpr, Var, is_dataflow_var
from ....ir.function import Function
from ....ir.op import row_of
from ....ir.relation import Answer, dims, same_dims
from ....ir.types import Expr, TensorType
from ....op.common.table import R
from ....op.manipulate.manipulate import permutation, permute_dims
from ...infra.passes import function_pass
from ..analysis.mutable_vars import returned_vars
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, rewrite_calls


@function_pass()
def remove_redundant_reshape(fn: Function) -> Function:
    """Join consecutive reshapes and permutations, and remove those without effect."""
    source: dict[Var, Call] = {}
    known = Definitions(fn)
    kept = known.changed | returned_vars(fn)

    def same_value(value: Expr, var: Var) -> bool:
        """True if the variable may replace the value: not where a result would share a parameter's memory."""
        return var not in kept and (var.dataflow or not is_dataflow_var(value))

    def change(value: Call, rewriter: GraphRewriter) -> Any:
        var, name = rewriter.var, value.op_name
        views = row_of(value).view
        if not views and name not in (R.broadcast_to.name, R.permute_dims.name):
            return None
        made = value
        inner = source.get(value.args[0]) if isinstance(value.args[0], Var) else None
        if inner is not None and not known.usable(inner.args[0], var):
            inner = None
        if name != R.permute_dims.name:
            shape = dims(value.ty)
            chain = views and inner is not None and row_of(inner).view
            if inner is not None and chain and shape is not None:
                made = Call(R.reshape.op, (inner.args[0], ShapeExpr(shape)), {}, (), value.ty, value.span)
            given = dims(made.args[0].ty)
            if shape is not None and given is not None and same_dims(shape, given) is Answer.YES:
                if same_value(made.args[0], var):
                    return Replaced(made.args[0])
        elif isinstance(value.args[0].ty, TensorType) and value.args[0].ty.ndim >= 0:
            rank = value.args[0].ty.ndim
            axes = list(permutation(value, rank))
            if inner is not None and inner.op_name == R.permute_dims.name:
                first = list(permutation(inner, rank))
                axes = [first[a] for a in axes]
                made = permute_dims(inner.args[0], axes=axes)
            if axes == list(range(rank)) and same_value(made.args[0], var):
                return Replaced(made.args[0])
        source[var] = made
        return made

    return rewrite_calls(fn, change)
