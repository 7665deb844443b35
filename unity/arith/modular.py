"""Modular sets: every value of an expression is ``coeff * k + base`` for some integer k."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes twice as long to make
class ModularSet:
    """``{coeff * k + base}``; coeff 0 is one value, coeff 1 is everything. 0 <= base < coeff when coeff > 0."""

    coeff: int = 1
    base: int = 0

    @staticmethod
    def make(coeff: int, base: int) -> ModularSet:
        """Normalised set."""
        coeff = abs(coeff)
        return ModularSet(coeff, base % coeff if coeff else base)

    def __add__(self, other: ModularSet) -> ModularSet:
        return ModularSet.make(gcd(self.coeff, other.coeff), self.base + other.base)

    def scale(self, factor: int) -> ModularSet:
        """Return the set of members times ``factor``."""
        return ModularSet.make(self.coeff * factor, self.base * factor)

    def __mul__(self, other: ModularSet) -> ModularSet:
        # (p x + q)(r y + s) = pr xy + ps x + qr y + qs
        coeff = gcd(gcd(self.coeff * other.coeff, self.coeff * other.base), self.base * other.coeff)
        return ModularSet.make(coeff, self.base * other.base)

    def union(self, other: ModularSet) -> ModularSet:
        """Return the smallest set that contains this one and ``other``."""
        return ModularSet.make(gcd(gcd(self.coeff, other.coeff), self.base - other.base), self.base)

    def intersect(self, other: ModularSet) -> ModularSet:
        """Return the members that ``other`` has as well; this set where there are none, or it is one value."""
        if not self.coeff or not other.coeff:
            return other if self.coeff else self
        common = gcd(self.coeff, other.coeff)
        steps, rest = divmod(other.base - self.base, common)
        if rest:
            return self
        steps *= pow(self.coeff // common, -1, other.coeff // common)
        return ModularSet.make(self.coeff * other.coeff // common, self.base + self.coeff * steps)

    def floordiv(self, divisor: int) -> ModularSet:
        """Flooring division by a positive constant: known when the divisor divides the coefficient."""
        if self.coeff % divisor == 0:
            return ModularSet.make(self.coeff // divisor, self.base // divisor)
        return EVERY

    def floormod(self, divisor: int) -> ModularSet:
        """Return the set of remainders by the positive constant ``divisor``."""
        return (
            ModularSet.make(gcd(self.coeff, divisor), self.base % divisor)
            if self.coeff
            else ModularSet(0, self.base % divisor)
        )


EVERY = ModularSet(1, 0)
