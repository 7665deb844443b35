"""hoist_if_then_else: conditions that a loop does not change move out of it.

Rewrite: ``for i: if c and d(i): s`` -> ``if c: for i: if d(i): s``; with an else branch both branches get the loop, where the
loop's content is small. Conditions that read memory or call anything stay. With the option ``marked`` only loops with the
annotation ``pragma_hoist_conditions`` are looked at; they lose it.
"""

from __future__ import annotations

from functools import reduce

from ....ir.build import conjuncts, int_value, logical_and
from ....ir.expr import Call
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Div, FloorDiv, FloorMod, Mod
from ....ir.stmt import For, IfThenElse, Stmt
from ....ir.types import Expr
from ....ir.walk import collect, fresh_copy, rewrite, used_vars
from ...infra.passes import prim_func_pass
from ..blocks.lower_opaque_block import leaves_loop
from .unroll_loop import statement_count

MARK = "pragma_hoist_conditions"
"""Annotation of loops."""
_SMALL = 64
"""Statements up to which a loop is written for each branch."""


def is_plain(cond: Expr) -> bool:
    """A condition that may be evaluated at any time: it reads nothing, calls nothing, divides by nothing."""
    divisions = collect(cond, (Div, FloorDiv, FloorMod, Mod))
    return not collect(cond, (BufferLoad, Call)) and all([int_value(d.b, 0) != 0 for d in divisions])


def _loop(loop: For) -> Stmt:
    inner = loop.body
    if type(inner) is not IfThenElse or loop.kind == "thread_binding" or leaves_loop(inner):
        return loop
    atoms = conjuncts(inner.cond)
    fixed = [a for a in atoms if is_plain(a) and loop.loop_var not in used_vars(a)]
    if inner.else_case is not None:
        if len(fixed) != len(atoms) or statement_count(inner) > _SMALL:
            return loop
        other = fresh_copy(replace(loop, body=inner.else_case))
        return IfThenElse(inner.cond, replace(loop, body=inner.then_case), other, inner.span)
    if not fixed or not all([is_plain(a) for a in atoms]):
        return loop  # a condition that may fail is asked only where those before it hold
    rest = [a for a in atoms if a not in fixed]
    body: Stmt = IfThenElse(reduce(logical_and, rest), inner.then_case, None, inner.span) if rest else inner.then_case
    return IfThenElse(reduce(logical_and, fixed), replace(loop, body=body), None, inner.span)


@prim_func_pass()
def hoist_if_then_else(func: PrimFunc, *, marked: bool = False) -> PrimFunc:
    """Move conditions out of loops that do not change them. For programs without blocks.

    ``marked``: only out of loops that are annotated.
    """
    if not marked:
        return rewrite(func, {For: _loop})
    return rewrite(func, {For: lambda loop: loop if loop.note(MARK) is None else _loop(loop.without_notes(MARK))})
