"""Points that satisfy all that is known. Where a polynomial is negative at one of them, no search can prove that it is not:
asking them first keeps the prover from searching in vain, which takes most of its time.

Invariant: a point gives variables and opaque atoms values inside of their bounds, from which the other atoms follow, and fulfils
every fact; the points are chosen without chance.
"""

from __future__ import annotations

from math import inf

from .bounds import Knowledge
from .interval import Interval
from .poly import Poly

Point = dict[int, int]

COUNT = 8
"""Points that are tried."""
FAR = 1000
"""Largest distance of a value from the end of a range that has no other."""


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
        return _chosen(known.atom_bound(atom), number, atom)
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
