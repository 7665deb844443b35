"""Three-way proofs: proved, refuted with a counter-example, or unknown.

Points that satisfy all that is known are asked first: where a polynomial is negative at one of them, no search can prove that it is
not. Invariant: a point gives variables and opaque atoms values inside of their bounds, from which the other atoms follow, and
fulfils every fact; the points are chosen without chance.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from ..ir.expr import IntImm, Var
from ..ir.types import Expr
from ..ir.walk import collect
from .bounds import Knowledge
from .canonical import Canonical
from .evaluate import evaluate
from .interval import Interval
from .poly import Poly, PolyKey, common_factor, constant, constant_value, divide_mono, plus, poly_key, scaled, times


class Verdict(Enum):
    """Answer of a proof."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(slots=True, frozen=True)
class Proof:
    """A verdict; ``counterexample`` assigns the free variables when refuted, and ``why`` says it in words."""

    verdict: Verdict
    counterexample: dict[Var, int] | None = None
    why: str = ""

    def __bool__(self) -> bool:
        return self.verdict is Verdict.PROVED


def nonnegative(canonical: Canonical, p: Poly, depth: int = 6, seen: set[PolyKey] | None = None) -> bool:
    """True if ``p >= 0`` follows from intervals and inequalities (cancelling terms against them, step by step).

    The inequalities are those known and those that define the divisions, minima and maxima in ``p``. ``seen`` holds what was
    tried already: a search over one polynomial meets each other one once.
    """
    known = canonical.known
    if known.bound(p).low >= 0:
        return True
    if depth == 0 or negative_somewhere(known, p):
        return False
    seen = set() if seen is None else seen
    key = poly_key(p)
    if key in seen:
        return False
    seen.add(key)
    factor = common_factor(p)
    if factor:
        quotient = {rest: c for mono, c in p.items() if (rest := divide_mono(mono, factor)) is not None}
        if known.mono_bound(factor).low >= 0 and nonnegative(canonical, quotient, depth - 1, seen):
            return True
    for multiplied in _multiplied(canonical, p):
        if nonnegative(canonical, multiplied, depth - 1, seen):
            return True
    for fact in (*known.nonnegative, *_defining(canonical, p)):
        reduced = _cancel(p, fact)
        if reduced is not None and nonnegative(canonical, reduced, depth - 1, seen):
            return True
    return False


def _multiplied(canonical: Canonical, p: Poly) -> Iterator[Poly]:
    """Polynomials that are >= 0 where p is, without one of its divisions by a symbol: ``a // b >= r`` is ``a >= b r``."""
    for mono, coefficient in p.items():
        atom = canonical.table[mono[0]] if len(mono) == 1 and abs(coefficient) == 1 else None
        if atom is None or atom.kind != "floordiv" or atom.a is None or atom.b is None:
            continue
        if constant_value(atom.b) is None and canonical.known.bound(atom.b).low > 0:
            rest = {m: -c * coefficient for m, c in p.items() if m != mono}  # p is a // b - rest, or rest - a // b
            if coefficient > 0:
                yield plus(atom.a, times(rest, atom.b), -1)
            else:
                yield plus(plus(times(plus(rest, constant(1)), atom.b), atom.a, -1), constant(-1))


def _defining(canonical: Canonical, p: Poly) -> Iterator[Poly]:
    """Polynomials that are >= 0 by definition of the atoms of ``p``: a division by a constant or its rest, a minimum, a maximum."""
    for mono in p:
        for number in mono:
            atom = canonical.table[number]
            if atom.a is None or atom.b is None:
                continue
            me: Poly = {(number,): 1}
            if atom.kind == "floordiv":
                divisor = atom.divisor
                if divisor:  # a - divisor * (a // divisor) lies in [0, divisor - 1]
                    rest = plus(atom.a, scaled(me, divisor), -1)
                    yield rest
                    yield plus(constant(divisor - 1), rest, -1)
            elif atom.kind == "floormod":
                divisor = atom.divisor
                if divisor:  # a % divisor = a - divisor * (a // divisor)
                    whole = plus(atom.a, scaled(canonical.quotient(number), divisor), -1)
                    yield plus(me, whole, -1)
                    yield plus(whole, me, -1)
                elif constant_value(atom.b) is None and canonical.known.bound(atom.b).low > 0:
                    yield plus(plus(atom.b, me, -1), constant(-1))
            elif atom.kind == "min":
                yield plus(atom.a, me, -1)
                yield plus(atom.b, me, -1)
            elif atom.kind == "max":
                yield plus(me, atom.a, -1)
                yield plus(me, atom.b, -1)


def _cancel(p: Poly, fact: Poly) -> Poly | None:
    """A polynomial whose being >= 0 implies ``p >= 0``, given ``fact >= 0``, with one term of p cancelled; None if none is."""
    for mono, coefficient in fact.items():
        if not mono:
            continue
        for target, value in p.items():
            if not target or value * coefficient <= 0:
                continue
            quotient = divide_mono(target, mono)
            if quotient != ():
                continue
            reduced = plus(scaled(p, abs(coefficient)), scaled(fact, abs(value)), -1)
            if len(reduced) <= len(p) + 1:
                return reduced
    return None


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
"""Largest distance of a value from the end of a range that has no other: odd, so that products of such are no whole tiles."""


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
