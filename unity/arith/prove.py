"""Three-way proofs: proved, refuted with a counter-example (`refute.py`), or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..ir.expr import Var
from .canonical import Canonical
from .poly import Poly, PolyKey, common_factor, constant, constant_value, divide_mono, plus, poly_key, scaled, times
from .refute import negative_somewhere


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
        value = p.get(mono, 0) if mono else 0
        if value * coefficient > 0:
            reduced = plus(scaled(p, abs(coefficient)), scaled(fact, abs(value)), -1)
            if len(reduced) <= len(p) + 1:
                return reduced
    return None
