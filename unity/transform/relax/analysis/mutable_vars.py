"""Variables that may be changed after they are bound: memory handed to a call that writes into it.

Merging or reusing such a value would show the change elsewhere. Views, tuples and aliases of it count as well.
"""

from __future__ import annotations

from ....ir.expr import Call, If, SeqExpr, Tuple, TupleGetItem, Var
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.op import shares_memory
from ....ir.types import Expr
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
