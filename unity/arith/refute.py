"""Refutations: values at which a condition is false, or a polynomial negative, while all that is known holds.

A search for a proof asks first: where a polynomial is negative at a point, no search can prove that it is not. Invariant: a
point gives variables and opaque atoms values inside of their bounds, from which the other atoms follow, and fulfils every fact;
the points are chosen without chance.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from math import inf

from ..ir.expr import IntImm, Var
from ..ir.types import Expr
from ..ir.walk import collect
from .bounds import Knowledge
from .evaluate import evaluate
from .interval import Interval
from .poly import Poly

TRIES = 600
"""Points that are tried in search of a counter-example."""


def find_counterexample(
    known: Knowledge, condition: Expr, variables: list[Var], premises: list[Expr]
) -> dict[Var, int] | None:
    """An assignment within the known domains that satisfies the premises and makes ``condition`` false."""
    choices: list[tuple[int, int]] = []
    reach = max(
        [17] + [abs(c.value) + 2 for e in [condition, *premises] for c in collect(e, IntImm) if abs(c.value) < 2**40]
    )
    for var in variables:
        interval = known.atom_bound(known.table.variable(var))
        low = int(interval.low) if interval.low != -float("inf") else -9
        high = int(interval.high) if interval.high != float("inf") else max(low, 0) + reach
        choices.append((low, high))
    if any([low > high for low, high in choices]):
        return None
    for values in _samples(choices):
        assignment = dict(zip(variables, values))
        if all([evaluate(p, assignment) not in (None, 0) for p in premises]):
            if evaluate(condition, assignment) == 0:
                return assignment
    return None


def _samples(choices: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """All points of a box that has few, else some of its corners and points at random."""
    if math.prod([high - low + 1 for low, high in choices]) <= TRIES:
        yield from itertools.product(*[range(low, high + 1) for low, high in choices])
        return
    corners = itertools.product(*[(low, high, min(low + 1, high)) for low, high in choices])
    yield from itertools.islice(corners, 200)
    rng = random.Random(0)
    for _ in range(TRIES):
        yield tuple([rng.randint(low, high if rng.random() < 0.5 else min(high, low + 17)) for low, high in choices])


Point = dict[int, int]

COUNT = 8
"""Points that are tried."""
FAR = 997
"""Largest distance of a value from the end of a range that has no other: odd, so that products of such are not whole tiles."""


class _Undefined(Exception):
    """A division by zero."""


def negative_somewhere(known: Knowledge, p: Poly) -> bool:
    """True if a polynomial is below zero at one of the points."""
    if known.points is None:
        known.points = {}
        for number in range(COUNT):
            point: Point = {}
            if _holds(known, number, point):
                known.points[number] = point
    for number, point in known.points.items():
        try:
            if _at(known, number, point, p) < 0:
                return True
        except _Undefined:
            continue
    return False


def _holds(known: Knowledge, number: int, point: Point) -> bool:
    """True if all that is known is so at a point, whose values are filled in."""
    try:
        for atom, domain in known.domain.items():
            if _value(known, number, point, atom) not in domain:
                return False
        for atom, modular in known.modular.items():
            value = _value(known, number, point, atom)
            if (value - modular.base) % modular.coeff if modular.coeff else value != modular.base:
                return False
        return all([_at(known, number, point, fact) >= 0 for fact in known.nonnegative])
    except _Undefined:
        return False


def _at(known: Knowledge, number: int, point: Point, p: Poly) -> int:
    total = 0
    for mono, coefficient in p.items():
        for atom in mono:
            value = point.get(atom)
            coefficient *= _value(known, number, point, atom) if value is None else value
        total += coefficient
    return total


def _value(known: Knowledge, number: int, point: Point, atom: int) -> int:
    found = point.get(atom)
    if found is None:
        found = point[atom] = _computed(known, number, point, atom)
    return found


def _computed(known: Knowledge, number: int, point: Point, atom: int) -> int:
    given = known.value.get(atom)
    if given is not None:
        return _at(known, number, point, given)
    row = known.table[atom]
    if row.a is None or row.b is None:
        ends = [_at(known, number, point, end) for end in known.ends.get(atom, ())]
        return _chosen(Interval(*ends) if ends else known.atom_bound(atom), number, atom)
    a, b = _at(known, number, point, row.a), _at(known, number, point, row.b)
    if row.kind == "min":
        return min(a, b)
    if row.kind == "max":
        return max(a, b)
    if b == 0:
        raise _Undefined
    return a // b if row.kind == "floordiv" else a % b


def _chosen(bound: Interval, number: int, atom: int) -> int:
    """A value inside a range: its ends at the first two points, others spread over it at the rest."""
    low = bound.low if bound.low != -inf else (0 if bound.high == inf else bound.high) - FAR
    high = bound.high if bound.high != inf else low + FAR
    span = int(high - low)
    if number < 2 or span <= 0:
        return int(high if number else low)
    return int(low) + (atom * 7919 + number * 104729) % (span + 1)
