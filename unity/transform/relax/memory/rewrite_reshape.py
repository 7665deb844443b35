"""Operators that keep the order of elements become views: ``R.reshape(x, s)`` -> ``R.memory.view(x, s)``, no copy.

Tensors are contiguous, so a view has the right elements. A view of a function's parameter, of a constant, or of a
value of unknown origin is made only where it cannot leave the function: a caller must never receive memory that
it, or the program, still owns. Such a reshape stays an operator and copies.
"""

from __future__ import annotations

from ....ir.expr import Call, MatchCast, ShapeExpr, Var
from ....ir.function import Function
from ....ir.op import OPS
from ....ir.relation import dims
from ....ir.types import Expr
from ....op.common.table import R
from ...infra.passes import function_pass
from ..analysis.mutable_vars import leaf_vars
from ..rewriting.graph_rewriter import GraphRewriter, each_binding, rewrite_calls

_CALLS = {R.call_dps.name, R.call_dps_with_grad.name}


def _is_kernel(value: Expr) -> bool:
    """True if a call only reads its arguments and makes new memory for its results."""
    name = value.op_name
    info = OPS.get(name)
    return name in _CALLS or name == R.memory.view.name or (info is not None and callable(info.lower))


def _is_view(value: Expr) -> bool:
    info = OPS.get(value.op_name)
    return info is not None and info.view


class _Origins:
    """The variables that leave the function, and those computed in it."""

    def __init__(self, fn: Function) -> None:
        self.leaving: set[Var] = set()
        self.source: dict[Var, Expr] = {}
        self.leaving.update(leaf_vars(fn.body))
        for _, binding in each_binding(fn):
            value: Expr = binding.value
            self.source[binding.var] = value
            if isinstance(binding, MatchCast):
                self.leaving.update(leaf_vars(value))
            elif type(value) is Call:
                if not _is_kernel(value):
                    self.leaving.update([var for arg in value.args for var in leaf_vars(arg)])
            else:
                self.leaving.update(leaf_vars(value.body if type(value) is Function else value))

    def is_local(self, value: Expr) -> bool:
        """True if a kernel made the memory in this function (seen through views)."""
        seen = 0
        while isinstance(value, Var) and value in self.source and seen < 100_000:
            made = self.source[value]
            if made.op_name == R.memory.view.name or _is_view(made):
                assert type(made) is Call
                value, seen = made.args[0], seen + 1
                continue
            return _is_kernel(made)
        return False


@function_pass()
def rewrite_reshape(fn: Function) -> Function:
    """Replace reshapes by views where no memory is shared with the caller. Gives ``R.memory.view``."""
    origins = _Origins(fn)

    def change(call: Call, rewriter: GraphRewriter) -> Call | None:
        known = dims(call.ty) if _is_view(call) else None
        if known is None or (rewriter.var in origins.leaving and not origins.is_local(call.args[0])):
            return None
        return Call(R.memory.view.op, (call.args[0], ShapeExpr(known)), {}, (), call.ty, call.span)

    return rewrite_calls(fn, change)
