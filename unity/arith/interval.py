"""Closed integer intervals with infinite ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

Bound = int | float
"""An int, or minus / plus infinity."""

INF = math.inf


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes twice as long to make
class Interval:
    """All integers ``low <= x <= high``; empty when ``low > high``."""

    low: Bound = -INF
    high: Bound = INF

    @property
    def is_point(self) -> bool:
        """Exactly one integer."""
        return self.low == self.high

    @property
    def is_empty(self) -> bool:
        """No integer."""
        return self.low > self.high

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def within(self, other: Interval) -> bool:
        """True if every member is also in ``other``."""
        return self.is_empty or (other.low <= self.low and self.high <= other.high)

    def union(self, other: Interval) -> Interval:
        """Return the smallest interval that contains this one and ``other``."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def intersect(self, other: Interval) -> Interval:
        """Return the common part with ``other``."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def __add__(self, other: Interval) -> Interval:
        return Interval(plus(self.low, other.low), plus(self.high, other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def scale(self, factor: int) -> Interval:
        """Return the interval of members times ``factor``."""
        if factor == 0:
            return POINT_ZERO
        a, b = times(self.low, factor), times(self.high, factor)
        return Interval(a, b) if factor > 0 else Interval(b, a)

    def __mul__(self, other: Interval) -> Interval:
        ends = [times(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def floordiv(self, other: Interval) -> Interval:
        """Return the interval of quotients by members of ``other``, rounded down; everything if a divisor may be zero."""
        if other.low <= 0 <= other.high or other.is_empty:
            return EVERYTHING
        ends = [_floordiv(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def floormod(self, other: Interval) -> Interval:
        """Return the interval of remainders of floor division by members of ``other``."""
        if other.low > 0:
            if self.low >= 0 and self.high < other.low:
                return self
            return Interval(0, min(other.high - 1, self.high) if self.low >= 0 else other.high - 1)
        if other.high < 0:
            return Interval(other.low + 1, 0)
        return EVERYTHING

    def minimum(self, other: Interval) -> Interval:
        """Return the interval of minima with members of ``other``."""
        return Interval(min(self.low, other.low), min(self.high, other.high))

    def maximum(self, other: Interval) -> Interval:
        """Return the interval of maxima with members of ``other``."""
        return Interval(max(self.low, other.low), max(self.high, other.high))


def plus(a: Bound, b: Bound) -> Bound:
    """Sum of two ends of one side. An integer of any size never meets a float: Python would convert it."""
    return a if isinstance(a, float) else b if isinstance(b, float) else a + b


def times(a: Bound, b: Bound) -> Bound:
    """Product of two ends; zero times infinity is zero."""
    if a == 0 or b == 0:
        return 0
    if isinstance(a, float) or isinstance(b, float):
        return INF if (a > 0) == (b > 0) else -INF
    return a * b


def _floordiv(a: Bound, b: Bound) -> Bound:
    if isinstance(b, float):
        return 0 if (a >= 0) == (b > 0) else -1
    if isinstance(a, float):
        return a if b > 0 else -a
    return a // b


EVERYTHING = Interval()
POINT_ZERO = Interval(0, 0)


def point(value: int) -> Interval:
    """The interval of one integer."""
    return Interval(value, value)
