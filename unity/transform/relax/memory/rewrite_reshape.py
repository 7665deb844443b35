"""Operators that keep the order of elements become views: ``R.reshape(x, s)`` -> ``R.memory.view(x, s)``, no copy.

Tensors are contiguous, so a view has the right elements. A view of a function's parameter, of a constant, or of a
value of unknown origin is made only where it cannot leave the function: a caller must never receive memory that
it, or the program, still owns. Such a reshape stays an operator and copies.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, If, MatchCast, Op, SeqExpr, ShapeExpr, Tuple, Var
from ....ir.function import Function
from ....ir.op import OPS
from ....ir.relation import dims
from ....ir.types import Expr, TensorType
from ....op.common.table import R
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter, each_binding

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
        self._leave(fn.body)
        for _, binding in each_binding(fn):
            value: Expr = binding.value
            self.source[binding.var] = value
            if isinstance(binding, MatchCast):
                self.leaving.update(_vars(value))
            elif type(value) is Call:
                if not _is_kernel(value):
                    for arg in value.args:
                        self.leaving.update(_vars(arg))
            elif not isinstance(value, ShapeExpr):
                self._leave(value)

    def _leave(self, value: Expr) -> None:
        stack = [value]
        while stack:
            item = stack.pop()
            if type(item) is SeqExpr or isinstance(item, Function):
                stack.append(item.body)
            elif type(item) is If:
                stack += [item.then_branch, item.else_branch]
            elif hasattr(item, "tuple_value"):
                stack.append(item.tuple_value)
            else:
                self.leaving.update(_vars(item))

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


def _vars(value: Expr) -> list[Var]:
    if isinstance(value, Var):
        return [value]
    return [v for f in value.fields for v in _vars(f)] if type(value) is Tuple else []


@function_pass()
def rewrite_reshape(fn: Function) -> Function:
    """Replace reshapes by views where no memory is shared with the caller. Gives ``R.memory.view``."""
    origins = _Origins(fn)

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if not _is_view(value):
            return value
        assert type(value) is Call and type(value.op) is Op
        ty = value.ty
        known = dims(ty) if isinstance(ty, TensorType) else None
        if known is None or rewriter.var is None:
            return value
        if rewriter.var in origins.leaving and not origins.is_local(value.args[0]):
            return value
        return Call(R.memory.view.op, (value.args[0], ShapeExpr(known)), {}, (), ty, value.span)

    return GraphRewriter(rule).function(fn)
