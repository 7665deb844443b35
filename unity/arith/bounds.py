"""The known facts, and the intervals and modular sets of polynomials that follow from them."""

from __future__ import annotations

from copy import copy
from typing import Any

from ..ffi.dtype import DataType
from ..ir.build import dtype_of
from ..ir.types import Expr
from .interval import EVERYTHING, Bound, Interval, plus, point, times
from .modular import EVERY, ModularSet
from .poly import ONE, Atom, AtomTable, Mono, Poly


class Knowledge:
    """Domains of atoms, polynomials known to be >= 0, and atoms known to equal a polynomial."""

    def __init__(self) -> None:
        self.table = AtomTable()
        self.domain: dict[int, Interval] = {}
        self.modular: dict[int, ModularSet] = {}
        self.nonnegative: list[Poly] = []
        self.value: dict[int, Poly] = {}
        self.ends: dict[int, tuple[Poly, Poly]] = {}
        """Least and greatest value of variables that were new when they were bound to a range with other variables in its ends."""
        self._bound_memo: dict[int, Interval] = {}
        self.atom_memo: dict[Expr, Poly] = {}
        """Polynomials of operations that are not linear, under the present knowledge."""
        self.undecided: set[Expr] = set()
        """Conditions of which it is not known, under the present knowledge, whether they hold."""
        self.quotients: dict[int, Poly] = {}
        """``a // b`` of atoms ``a % b``, under the present knowledge."""
        self.points: dict[int, dict[int, int]] | None = None
        """Values of atoms at points that satisfy all that is known, as far as asked (`refute.py`)."""

    def changed(self) -> None:
        """Forget what was derived from older knowledge."""
        self._bound_memo, self.atom_memo, self.undecided, self.quotients, self.points = {}, {}, set(), {}, None

    def snapshot(self) -> tuple[Any, ...]:
        """State to go back to with ``restore``: what is known, and what was derived from it."""
        state = self._state()
        self._set(state[0], *[copy(old) for old in state[1:]])
        return state

    def restore(self, state: tuple[Any, ...]) -> None:
        """Forget what was learned since the snapshot."""
        self._set(*state)

    def _state(self) -> tuple[Any, ...]:
        return (
            len(self.nonnegative), self.domain, self.modular, self.value, self.ends,
            self._bound_memo, self.atom_memo, self.undecided, self.quotients, self.points,
        )  # fmt: skip

    def _set(self, count: int, *rest: Any) -> None:
        del self.nonnegative[count:]
        self.domain, self.modular, self.value, self.ends, *derived = rest
        self._bound_memo, self.atom_memo, self.undecided, self.quotients, self.points = derived

    # ---- intervals

    def bound(self, p: Poly) -> Interval:
        """Interval of a polynomial."""
        low: Bound
        high: Bound
        low = high = p.get(ONE, 0)
        for mono, coefficient in p.items():
            if mono:
                factor = self.mono_bound(mono)
                ends = times(factor.low, coefficient), times(factor.high, coefficient)
                low, high = plus(low, ends[coefficient < 0]), plus(high, ends[coefficient > 0])
        return Interval(low, high)

    def mono_bound(self, mono: Mono) -> Interval:
        """Interval of a product of atoms; even powers are not negative."""
        if len(mono) == 1:
            return self.atom_bound(mono[0])
        result = point(1)
        index = 0
        while index < len(mono):
            number = mono[index]
            factor = self.atom_bound(number)
            if index + 1 < len(mono) and mono[index + 1] == number:
                square = factor * factor
                factor = Interval(max(0, square.low), square.high)
                index += 1
            result = result * factor
            index += 1
        return result

    def atom_bound(self, number: int) -> Interval:
        """Interval of an atom."""
        known = self._bound_memo.get(number)
        if known is None:
            atom = self.table[number]
            known = self._derived_bound(atom).intersect(self.domain.get(number, EVERYTHING))
            self._bound_memo[number] = known
        return known

    def _derived_bound(self, atom: Atom) -> Interval:
        if atom.expr is not None:
            return dtype_interval(dtype_of(atom.expr))
        assert atom.a is not None and atom.b is not None
        a, b = self.bound(atom.a), self.bound(atom.b)
        match atom.kind:
            case "floordiv":
                return a.floordiv(b)
            case "floormod":
                return a.floormod(b)
            case "min":
                return a.minimum(b)
            case _:
                return a.maximum(b)

    # ---- modular sets

    def modular_set(self, p: Poly) -> ModularSet:
        """Modular set of a polynomial."""
        total = ModularSet(0, p.get(ONE, 0))
        for mono, coefficient in p.items():
            if mono:
                factor = ModularSet(0, 1)
                for number in mono:
                    factor = factor * self.atom_modular(number)
                total = total + factor.scale(coefficient)
        return total

    def atom_modular(self, number: int) -> ModularSet:
        """Modular set of an atom."""
        known = self.modular.get(number)
        if known is not None:
            return known
        atom = self.table[number]
        if atom.a is None or atom.b is None:
            return EVERY
        match atom.kind:
            case "floordiv" if atom.divisor:
                return self.modular_set(atom.a).floordiv(atom.divisor)
            case "floormod" if atom.divisor:
                return self.modular_set(atom.a).floormod(atom.divisor)
            case "min" | "max":
                return self.modular_set(atom.a).union(self.modular_set(atom.b))
        return EVERY


def dtype_interval(dtype: DataType) -> Interval:
    """Range of the values of a data type; index types count as unbounded (the overflow rule)."""
    if dtype.is_bool:
        return Interval(0, 1)
    if dtype.is_uint:
        return Interval(0, (1 << dtype.bits) - 1) if dtype.bits < 64 else Interval(0)
    if dtype.is_int and dtype.bits < 32:
        return Interval(-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return EVERYTHING
