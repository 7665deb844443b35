"""Variables that may be changed after they are bound: memory handed to a call that writes into it.

Merging or reusing such a value would show the change elsewhere. Views, tuples and aliases of it count as well.
"""

from __future__ import annotations

from ....ir.expr import Call, Constant, If, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.op import shares_memory
from ....ir.types import Expr, TensorType
from ....ir.verifier.in_place import IN_PLACE
from ..rewriting.graph_rewriter import each_binding


def leaf_vars(value: Expr) -> list[Var]:
    """Variables a leaf, tuple, field or branch result stands for."""
    if isinstance(value, Var):
        return [value]
    if type(value) is Tuple:
        return [v for f in value.fields for v in leaf_vars(f)]
    if type(value) is TupleGetItem:
        return leaf_vars(value.tuple_value)
    if type(value) is SeqExpr:
        return leaf_vars(value.body)
    if type(value) is If:
        return [*leaf_vars(value.then_branch), *leaf_vars(value.else_branch)]
    return []


def _passed_on(value: Expr) -> list[Var]:
    """Variables whose memory the bound value is, or may be."""
    if type(value) is not Call:
        return leaf_vars(value)
    return leaf_vars(value.args[0]) if shares_memory(value) else []


def _written(value: Expr) -> list[Var]:
    """Variables whose memory a call may change."""
    if type(value) is not Call:
        return []
    name = value.op_name
    if name not in IN_PLACE and is_pure_call(value):
        return []
    return [v for a in value.args for v in leaf_vars(a)]


def origins(fn: Function) -> dict[Var, list[Var]]:
    """For each variable those whose memory it shares."""
    return {b.var: _passed_on(b.value) for _, b in each_binding(fn)}


def closure(start: set[Var], shared: dict[Var, list[Var]]) -> set[Var]:
    """The variables and all whose memory they may be."""
    found, work = set(start), list(start)
    while work:
        for var in shared.get(work.pop(), ()):
            if var not in found:
                found.add(var)
                work.append(var)
    return found


def changed_vars(fn: Function) -> set[Var]:
    """Variables whose memory may be written by a call."""
    start = {v for _, b in each_binding(fn) for v in _written(b.value)}
    return closure(start, origins(fn))


def returned_vars(fn: Function) -> set[Var]:
    """Variables whose memory may leave through the result."""
    return closure(set(leaf_vars(fn.body)), origins(fn))


class Sources:
    """The sources of a function's variables: what they are bound to, but for those whose memory a call may change."""

    def __init__(self, fn: Function) -> None:
        self.fixed = changed_vars(fn)
        self.value: dict[Var, Expr] = {
            b.var: b.value for _, b in each_binding(fn) if isinstance(b, VarBinding) and b.var not in self.fixed
        }

    def call(self, value: Expr, *names: str) -> Call | None:
        """The call of one of some operators that a variable is bound to."""
        found = self.value.get(value) if isinstance(value, Var) else None
        return found if type(found) is Call and found.op_name in names else None

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


class Visibility:
    """Places where variables may be used: those inside a dataflow block only there."""

    def __init__(self, fn: Function) -> None:
        self.home = {binding.var: block for block, binding in each_binding(fn)}

    def allows(self, value: Expr, at: Var | None) -> bool:
        """True if the value may stand in the binding of ``at``."""
        if at is None:
            return False
        here = self.home.get(at)
        return all([not v.dataflow or self.home.get(v) is here for v in leaf_vars(value)])
