"""Reductions that choose: several results at once, those of the element that a comparison prefers (argmax, argmin).

Invariant: the comparison orders the elements, so that the choice among choices is the choice among all (without NaN; of equal
elements another one may be taken).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....ir.analysis.reductions import is_cell
from ....ir.build import logical_and, logical_or
from ....ir.node import replace as with_fields
from ....ir.scalar import EQ, GE, GT, LE, LT, And, BufferLoad, Compare, Or, Select
from ....ir.stmt import Bind, BufferStore, SeqStmt, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, substitute

_Combine = Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]]


@dataclass(slots=True, frozen=True)
class Chosen:
    """The stores of a step, the element that it brings, and the choice between two elements."""

    stores: tuple[BufferStore, ...]
    values: tuple[Expr, ...]
    combine: _Combine


def chosen(body: Stmt) -> Chosen | None:
    """The choice that the body of a reduction block makes, None for another body."""
    known: dict[object, Expr] = {}
    stores: list[BufferStore] = []
    for stmt in body.stmts if type(body) is SeqStmt else ():
        if type(stmt) is Bind and not stores:
            known[stmt.var] = substitute(stmt.value, known)
        elif type(stmt) is BufferStore and stmt.predicate is None:
            stores.append(with_fields(stmt, value=substitute(stmt.value, known)))
        else:
            return None
    picks = [store.value for store in stores if type(store.value) is Select]
    if len(stores) < 2 or len(picks) < len(stores) or len({store.buffer for store in stores}) < len(stores):
        return None
    values = tuple([pick.false_value for pick in picks])
    written = {store.buffer for store in stores}
    disjoint = all([load.buffer not in written for value in values for load in collect(value, BufferLoad)])
    keeps_cell = all([is_cell(pick.true_value, store) for pick, store in zip(picks, stores)])
    same = all([structural_equal(pick.cond, picks[0].cond) for pick in picks])
    prefers = _order(picks[0].cond, stores, values) if disjoint and keeps_cell and same and _at_once(body) else None
    if prefers is None:
        return None

    def combine(cells: Sequence[Expr], news: Sequence[Expr]) -> list[Expr]:
        cond = prefers(cells, news)
        return [
            with_fields(pick, cond=cond, true_value=cell, false_value=new)
            for pick, cell, new in zip(picks, cells, news)
        ]

    return Chosen(tuple(stores), values, combine)


def _at_once(body: Stmt) -> bool:
    """True if no store reads a cell that one before it has written: the cells are read by what is bound."""
    stores = [stmt for stmt in body.stmts if type(stmt) is BufferStore] if type(body) is SeqStmt else []
    before = [{store.buffer for store in stores[:index]} for index in range(len(stores))]
    return not [
        load for store, done in zip(stores, before) for load in collect(store.value, BufferLoad) if load.buffer in done
    ]


_Prefers = Callable[[Sequence[Expr], Sequence[Expr]], Expr]


def _order(cond: Expr, stores: Sequence[BufferStore], values: Sequence[Expr]) -> _Prefers | None:
    """The condition under which the old element stays, of two elements: one comparison, or another one among equals."""
    if isinstance(cond, Compare):
        return _comparison(cond, (GE, GT, LE, LT), stores, values)
    if type(cond) is not Or or not isinstance(cond.a, Compare) or type(cond.b) is not And:
        return None
    tie, last = cond.b.a, cond.b.b
    if (
        not isinstance(tie, Compare)
        or not isinstance(last, Compare)
        or not structural_equal((tie.a, tie.b), (cond.a.a, cond.a.b))
    ):
        return None
    first = _comparison(cond.a, (GT, LT), stores, values)
    equal, then = _comparison(tie, (EQ,), stores, values), _comparison(last, (GE, GT, LE, LT), stores, values)
    if first is None or equal is None or then is None:
        return None
    return lambda cells, news: logical_or(first(cells, news), logical_and(equal(cells, news), then(cells, news)))


def _comparison(
    cond: Compare, kinds: tuple[type, ...], stores: Sequence[BufferStore], values: Sequence[Expr]
) -> _Prefers | None:
    """A comparison of the old and the new value of one result."""
    for index, (store, value) in enumerate(zip(stores, values)):
        if type(cond) in kinds and is_cell(cond.a, store) and structural_equal(cond.b, value):
            return lambda cells, news: with_fields(cond, a=cells[index], b=news[index])
        if type(cond) in kinds and is_cell(cond.b, store) and structural_equal(cond.a, value):
            return lambda cells, news: with_fields(cond, a=news[index], b=cells[index])
    return None
