"""``unity.relax.expr_functor``: visitors and mutators of graph functions, TVM's ``tvm.relax.expr_functor``."""

from .mutator import PyExprMutator, mutator
from .visitor import ExprFunctor, PyExprVisitor, visitor

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]
