"""``unity.relax``: the names with which programs build graph functions in Python, as TVM's ``tvm.relax`` has them.

``relax.Var("x", relax.TensorType((n, 4), "float32"))``, ``relax.op.add(x, y)``, ``relax.const(1.0)``, ``relax.BlockBuilder()``.
"""

from __future__ import annotations

from typing import Any

from ... import te
from ...ir.expr import ExternFunc, GlobalVar, MatchCast, StringImm, VarBinding
from ...ir.module import IRModule
from ...ir.op import similar_ops
from ...ir.types import Expr, Type, prim_type
from .. import OPERATORS
from ..common.table import constant as const
from ..composite import COMPOSITES
from ..te_gradients import register_te_gradient
from .block_builder import BlockBuilder
from .expr_functor import ExprFunctor, PyExprVisitor
from .expr_mutator import PyExprMutator
from .relax_calls import *  # noqa: F403
from .relax_calls import CALLS, __all__ as _CALLS
from .relax_nodes import *  # noqa: F403
from .relax_nodes import __all__ as _NODES

extern = ExternFunc


def PrimValue(value: Any) -> Expr:
    """A scalar as a value of the graph."""
    return te.value.to_scalar(value, "int64" if isinstance(value, int) and not isinstance(value, bool) else None)


prim_value = PrimValue


class _Operators:
    """Operators whose names begin with a prefix: ``relax.op.nn.relu``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}.{name}"
        if self._prefix == "R" and name in CALLS:
            return CALLS[name]
        if full in OPERATORS or full in COMPOSITES:
            return OPERATORS.get(full) or COMPOSITES[full]
        if any([n.startswith(f"{full}.") for n in OPERATORS]):
            return _Operators(full)
        close = similar_ops(full)
        raise AttributeError(f"there is no operator {full}" + (f"; did you mean {', '.join(close)}?" if close else ""))

    def __dir__(self) -> list[str]:
        return sorted({n[len(self._prefix) + 1 :].partition(".")[0] for n in OPERATORS if n.startswith(self._prefix)})


op = _Operators("R")

__all__ = [
    *_CALLS, *_NODES, "BlockBuilder", "Expr", "ExprFunctor", "ExternFunc", "GlobalVar", "IRModule", "MatchCast", "PrimValue",
    "PyExprMutator", "PyExprVisitor", "StringImm", "Type", "VarBinding", "const", "extern", "op", "prim_type", "prim_value",
    "register_te_gradient",
]  # fmt: skip
