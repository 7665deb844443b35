"""The condition under which the first step of a reduction runs: there the initialisation runs, wherever it is moved.

Invariant: a part of the predicate disappears only where it holds in the first step of every reduction that has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce

from ....arith import Analyzer
from ....ir.build import conjuncts, const, dtype_of, ge, is_int, logical_and
from ....ir.expr import Var
from ....ir.stmt import For
from ....ir.types import Expr
from ....ir.walk import free_vars, substitute
from ..core.tree import TRUE


def conditions(predicate: Expr) -> list[Expr]:
    """The parts of a predicate; none of what always holds."""
    return [part for part in conjuncts(predicate) if not is_int(part, 1)]


def all_of(parts: Sequence[Expr]) -> Expr:
    """The predicate that all parts hold."""
    return reduce(logical_and, parts, TRUE)


def holds_at_first(ana: Analyzer, part: Expr, loops: Sequence[For]) -> bool:
    """True if a condition holds in the first iteration of all ``loops`` wherever they have one: sizes without which they have none
    are at least one."""
    moved = substitute(part, {loop.loop_var: loop.min for loop in loops})
    if ana.can_prove(moved):
        return True
    needed = [v for v in free_vars(part) if any([_empty_without(ana, loop, v) for loop in loops])]
    if not needed:
        return False
    with ExitStack() as known:
        for var in needed:
            known.enter_context(ana.constraint(ge(var, const(1, dtype_of(var)))))
        return ana.can_prove(moved)


def _empty_without(ana: Analyzer, loop: For, size: Var) -> bool:
    """True if a loop has no iteration where a size is zero."""
    if size not in free_vars(loop.extent):
        return False
    return is_int(ana.simplify(substitute(loop.extent, {size: const(0, dtype_of(size))})), 0)


def init_predicate(ana: Analyzer, predicate: Expr, mapping: Mapping[Var, Expr], gone: Sequence[For]) -> Expr:
    """The condition of an initialisation, ``mapping`` giving the loops' values there; it does not run over the loops ``gone``."""
    variables = {loop.loop_var for loop in gone}
    return ana.simplify(all_of([
        substitute(part, mapping)
        for part in conditions(predicate)
        if variables.isdisjoint(free_vars(part)) or not holds_at_first(ana, part, gone)
    ]))  # fmt: skip
