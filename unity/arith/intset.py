"""Sets of values an expression takes while iterators run: symbolic intervals and the regions of buffers built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ir.buffer import Range
from ..ir.build import add, const, dtype_of, floordiv, floormod, maximum, minimum, mul, sub
from ..ir.expr import Var
from ..ir.scalar import Add, Broadcast, Cast, FloorDiv, FloorMod, Max, Min, Mul, Ramp, Select, Sub
from ..ir.types import Expr
from ..ir.walk import uses_any
from .analyzer import Analyzer
from .canonical import is_index


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes twice as long to make
class IntSet:
    """All integers between two expressions, both included; None is unbounded on that side."""

    low: Expr | None
    high: Expr | None

    @property
    def is_point(self) -> bool:
        """Certainly one value (both ends the same object)."""
        return self.low is not None and self.low is self.high

    def as_range(self, ana: Analyzer | None = None) -> Range | None:
        """The set as (min, extent), if bounded."""
        if self.low is None or self.high is None:
            return None
        extent = add(sub(self.high, self.low), const(1, dtype_of(self.low)))
        return Range(self.low, (ana or Analyzer()).simplify(extent))


EVERYTHING = IntSet(None, None)


def of_point(value: Expr) -> IntSet:
    """The set of one value."""
    return IntSet(value, value)


def of_range(r: Range) -> IntSet:
    """The values of a range."""
    return IntSet(r.min, sub(add(r.min, r.extent), const(1, dtype_of(r.min))))


def union(sets: Sequence[IntSet], ana: Analyzer) -> IntSet:
    """Smallest interval holding all."""
    result = sets[0]
    for s in sets[1:]:
        low = None if result.low is None or s.low is None else ana.simplify(minimum(result.low, s.low))
        high = None if result.high is None or s.high is None else ana.simplify(maximum(result.high, s.high))
        result = IntSet(low, high)
    return result


def intersect(a: IntSet, b: IntSet, ana: Analyzer) -> IntSet:
    """Common part."""
    low = b.low if a.low is None else a.low if b.low is None else ana.simplify(maximum(a.low, b.low))
    high = b.high if a.high is None else a.high if b.high is None else ana.simplify(minimum(a.high, b.high))
    return IntSet(low, high)


def eval_set(expr: Expr, domains: Mapping[Var, IntSet], ana: Analyzer | None = None) -> IntSet:
    """Values of ``expr`` while each variable of ``domains`` runs through its set (an over-approximation)."""
    analyzer = ana or Analyzer()
    found = _Evaluator(domains, analyzer).visit(expr)
    if found.low is expr:
        return found
    low = None if found.low is None else analyzer.simplify(found.low)
    return IntSet(low, low if found.is_point else None if found.high is None else analyzer.simplify(found.high))


class _Evaluator:
    def __init__(self, domains: Mapping[Var, IntSet], ana: Analyzer) -> None:
        self.domains = domains
        self.ana = ana

    def visit(self, expr: Expr) -> IntSet:
        if isinstance(expr, Var):
            return self.domains.get(expr, of_point(expr))
        if not uses_any(expr, self.domains):
            return of_point(expr)
        match expr:
            case Add(a, b):
                return self.joined(self.visit(a), self.visit(b), add)
            case Sub(a, b):
                return self.joined(self.visit(a), self.negated(self.visit(b)), add)
            case Mul(a, b):
                x, y = self.visit(a), self.visit(b)
                if x.is_point:
                    x, y = y, x
                return self.scaled(x, y.low) if y.is_point and y.low is not None else EVERYTHING
            case FloorDiv(a, b):
                return self.divided(self.visit(a), self.visit(b))
            case FloorMod(a, b):
                return self.remainder(self.visit(a), self.visit(b))
            case Min(a, b):
                return self.joined(self.visit(a), self.visit(b), minimum)
            case Max(a, b):
                return self.joined(self.visit(a), self.visit(b), maximum)
            case Select(_, yes, no):
                return union([self.visit(yes), self.visit(no)], self.ana)
            case Cast(value) if is_index(value):
                return self.visit(value)
            case Ramp(base, stride, lanes):
                places = IntSet(const(0, dtype_of(base)), const(lanes - 1, dtype_of(base)))
                return self.joined(self.visit(base), self.scaled(places, stride), add)
            case Broadcast(value):
                return self.visit(value)
        interval = self.ana.const_int_bound(expr) if is_index(expr) else None
        if interval is None:
            return EVERYTHING
        low = const(interval.low, dtype_of(expr)) if isinstance(interval.low, int) else None
        high = const(interval.high, dtype_of(expr)) if isinstance(interval.high, int) else None
        return IntSet(low, high)

    def negated(self, a: IntSet) -> IntSet:
        low = None if a.high is None else sub(const(0, dtype_of(a.high)), a.high)
        high = None if a.low is None else sub(const(0, dtype_of(a.low)), a.low)
        return IntSet(low, low if a.is_point else high)

    def scaled(self, a: IntSet, factor: Expr) -> IntSet:
        low = None if a.low is None else mul(a.low, factor)
        high = None if a.high is None else mul(a.high, factor)
        if a.is_point or self.ana.can_prove_greater_equal(factor, 0):
            return IntSet(low, low if a.is_point else high)
        if self.ana.can_prove_greater_equal(sub(const(0, dtype_of(factor)), factor), 0):
            return IntSet(high, low)
        return EVERYTHING

    def divided(self, a: IntSet, b: IntSet) -> IntSet:
        if b.low is None or not b.is_point or not self.ana.can_prove_greater_equal(b.low, 1):
            return EVERYTHING
        low = None if a.low is None else floordiv(a.low, b.low)
        high = None if a.high is None else floordiv(a.high, b.low)
        return IntSet(low, low if a.is_point else high)

    def remainder(self, a: IntSet, b: IntSet) -> IntSet:
        if b.low is None or not b.is_point or not self.ana.can_prove_greater_equal(b.low, 1):
            return EVERYTHING
        if a.is_point and a.low is not None:
            return of_point(floormod(a.low, b.low))
        if a.low is not None and a.high is not None:
            block_low, block_high = floordiv(a.low, b.low), floordiv(a.high, b.low)
            if self.ana.can_prove_equal(block_low, block_high):
                start = mul(block_low, b.low)
                return IntSet(sub(a.low, start), sub(a.high, start))
        return IntSet(const(0, dtype_of(b.low)), sub(b.low, const(1, dtype_of(b.low))))

    def joined(self, a: IntSet, b: IntSet, pick: Callable[[Expr, Expr], Expr]) -> IntSet:
        low = None if a.low is None or b.low is None else pick(a.low, b.low)
        high = None if a.high is None or b.high is None else pick(a.high, b.high)
        return IntSet(low, low if a.is_point and b.is_point else high)
