"""``unity.relax.expr_functor``: visitors and mutators of graph functions, TVM's ``tvm.relax.expr_functor``."""

from ..op.building.expr_functor import ExprFunctor, PyExprVisitor, visitor
from ..op.building.expr_mutator import PyExprMutator, mutator

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]
