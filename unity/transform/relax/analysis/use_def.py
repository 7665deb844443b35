"""Definitions: what the variables of a function are bound to, where they may be used, and what of them stays as it is."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ....ir.analysis import use_counts
from ....ir.expr import BindingBlock, Call, Constant, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function
from ....ir.types import Expr, TensorType
from ..rewriting.graph_rewriter import each_binding
from .mutable_vars import changed_vars, leaf_vars


class Definitions:
    """The variables of one function. ``changed``: those whose memory a call may change; ``value``: what the others are bound to;
    ``home``: the block of each."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.changed = changed_vars(fn)
        self.home: dict[Var, BindingBlock] = {}
        self.value: dict[Var, Expr] = {}
        for block, binding in each_binding(fn):
            self.home[binding.var] = block
            if isinstance(binding, VarBinding) and binding.var not in self.changed:
                self.value[binding.var] = binding.value

    @cached_property
    def uses(self) -> dict[Any, int]:
        """The number of uses of each variable."""
        return use_counts(self.fn)

    def call(self, value: Expr, *names: str) -> Call | None:
        """The call of one of some operators that a variable is bound to."""
        found = self.value.get(value) if isinstance(value, Var) else None
        return found if type(found) is Call and found.op_name in names else None

    def only_use(self, value: Expr, *names: str) -> Call | None:
        """The same of a variable that is used in one place."""
        return self.call(value, *names) if isinstance(value, Var) and self.uses.get(value, 0) == 1 else None

    def source(self, value: Expr, at: Var, *names: str) -> Call | None:
        """The same where the operands of the call may be used in the binding of ``at``."""
        found = self.call(value, *names)
        return found if found is not None and all([self.usable(v, at) for v in found.args]) else None

    def usable(self, value: Expr, at: Var) -> bool:
        """True if a value has the same elements in the binding of ``at``, and may stand there: inner variables of a dataflow block
        only in this block."""
        if value in self.changed:
            return False
        here = self.home.get(at)
        return all([not v.dataflow or self.home.get(v) is here for v in leaf_vars(value)])

    def is_constant(self, value: Expr) -> bool:
        """True if the value is computed from constants alone."""
        stack, seen = [value], set[Var]()
        while stack:
            item = stack.pop()
            if isinstance(item, Var):
                if item in seen:
                    continue
                seen.add(item)
                if item not in self.value:
                    return False
                stack.append(self.value[item])
            elif type(item) is Call:
                stack += item.args
            elif type(item) is TupleGetItem:
                stack.append(item.tuple_value)
            elif type(item) is Tuple:
                stack += item.fields
            elif type(item) is not Constant and isinstance(item.ty, TensorType):
                return False
        return True
