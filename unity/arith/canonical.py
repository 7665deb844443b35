"""From expressions to polynomials, with division and remainder split and merged on the way."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ..ir.build import dtype_of
from ..ir.expr import IntImm, Var
from ..ir.scalar import Add, Cast, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub
from ..ir.types import Expr, PrimType
from ..ir.walk import free_vars
from .bounds import Knowledge
from .poly import (
    ONE,
    Poly,
    add_into,
    add_term,
    constant,
    constant_value,
    divide_exactly,
    divide_mono,
    plus,
    scaled,
    times,
)


def is_index(expr: Expr) -> bool:
    """True for scalar signed integers of 32 or 64 bits, the types whose arithmetic may be reordered."""
    ty = expr.ty
    if type(ty) is not PrimType:
        return False
    dtype = ty.dtype
    return dtype.code == "int" and dtype.bits >= 32 and dtype.lanes == 1 and not dtype.scalable


class Canonical:
    """Converter bound to a state of knowledge. ``inner`` simplifies the inside of expressions it does not understand."""

    def __init__(self, known: Knowledge, inner: Callable[[Expr], Expr]) -> None:
        self.known = known
        self.table = known.table
        self.inner = inner
        self.merged = False
        """A division was merged with another one, which can open the next."""

    def poly(self, expr: Expr) -> Poly:
        """Polynomial of an integer expression."""
        result: Poly = {}
        self._accumulate(expr, 1, result)
        return self.merge_divisions(result)

    def _accumulate(self, expr: Expr, scale: int, result: Poly) -> None:
        if type(expr) is IntImm:
            add_term(result, ONE, expr.value * scale)
        elif type(expr) is Add:
            self._accumulate(expr.a, scale, result)
            self._accumulate(expr.b, scale, result)
        elif type(expr) is Sub:
            self._accumulate(expr.a, scale, result)
            self._accumulate(expr.b, -scale, result)
        elif type(expr) is Mul:
            a, b = expr.a, expr.b
            if type(b) is IntImm:
                self._accumulate(a, scale * b.value, result)
            elif type(a) is IntImm:
                self._accumulate(b, scale * a.value, result)
            else:
                add_into(result, self.table.product(self.poly(a), self.poly(b)), scale)
        elif type(expr) is Var and (number := self.table.variable(expr)) not in self.known.value:
            add_term(result, (number,), scale)
        else:
            add_into(result, self._atom(expr), scale)

    def _atom(self, expr: Expr) -> Poly:
        if isinstance(expr, Var):
            return self._number(self.table.variable(expr))
        known = self.known.atom_memo.get(expr)
        if known is None:
            known = self.known.atom_memo[expr] = self._operation_atom(expr)
        return known

    def _operation_atom(self, expr: Expr) -> Poly:
        if type(expr) is FloorDiv:
            return self.floordiv(self.poly(expr.a), self.poly(expr.b))
        if type(expr) is FloorMod:
            return self.floormod(self.poly(expr.a), self.poly(expr.b))
        if isinstance(expr, (Div, Mod)):
            a, b = self.poly(expr.a), self.poly(expr.b)
            if self.known.bound(a).low >= 0 and self.known.bound(b).low > 0:
                return self.floordiv(a, b) if type(expr) is Div else self.floormod(a, b)
        if type(expr) is Min:
            return self.extremum("min", self.poly(expr.a), self.poly(expr.b))
        if type(expr) is Max:
            return self.extremum("max", self.poly(expr.a), self.poly(expr.b))
        if type(expr) is Cast and is_index(expr.value):
            inner = expr.value
            if dtype_of(inner).bits <= dtype_of(expr).bits:
                return self.poly(inner)
        made = self.inner(expr)
        if type(made) is not type(expr) and is_index(made):
            return self.poly(made)
        return self._number(self.table.opaque(made, frozenset(free_vars(made))))

    def _number(self, number: int) -> Poly:
        value = self.known.value.get(number)
        return {(number,): 1} if value is None else dict(value)

    # ---- division

    def floordiv(self, a: Poly, b: Poly) -> Poly:
        """Canonical ``a // b``."""
        divisor = constant_value(b)
        if divisor is not None:
            if divisor == 0:
                return self._operation("floordiv", a, b)
            if divisor < 0:
                return self.floordiv(scaled(a, -1), constant(-divisor))
            return self._floordiv_constant(a, divisor)
        whole, rest = self._split_multiples(a, b)
        if whole:
            return plus(whole, self.floordiv(rest, b)) if rest else whole
        if self._is_rest(a, b):
            return {}
        return self._operation("floordiv", a, b)

    def floormod(self, a: Poly, b: Poly) -> Poly:
        """Canonical ``a % b``."""
        value, divisor = constant_value(a), constant_value(b)
        if divisor is not None and divisor > 0:
            return self._floormod_constant(a, divisor)
        if value is not None and divisor:
            return constant(value % divisor)
        whole, rest = self._split_multiples(a, b)
        if whole:
            return self.floormod(rest, b) if rest else {}
        if self._is_rest(a, b):
            return dict(a)
        return self._operation("floormod", a, b)

    def _is_rest(self, a: Poly, b: Poly) -> bool:
        """``0 <= a < b``."""
        lows = self.known.bound(b).low > 0 and self.known.bound(a).low >= 0
        return lows and self._nonnegative(plus(plus(b, a, -1), constant(-1)))

    def quotient(self, number: int) -> Poly:
        """Canonical ``a // b`` of an atom ``a % b``."""
        found = self.known.quotients.get(number)
        if found is None:
            atom = self.table[number]
            assert atom.a is not None and atom.b is not None
            found = self.known.quotients[number] = self.floordiv(atom.a, atom.b)
        return found

    def _nonnegative(self, gap: Poly) -> bool:
        """``gap >= 0`` by its interval, or by that of its difference from a known fact."""
        if self.known.bound(gap).low >= 0:
            return True
        return any([self.known.bound(plus(gap, fact, -1)).low >= 0 for fact in self.known.nonnegative])

    def _split_multiples(self, a: Poly, b: Poly) -> tuple[Poly, Poly]:
        """``a = whole * b + rest`` for a divisor of one symbolic term; with others there is a rest or a whole."""
        if len(b) != 1:
            exact = divide_exactly(a, b) if b else None
            return ({}, a) if exact is None else (exact, {})
        ((by, factor),) = b.items()
        whole: Poly = {}
        rest: Poly = {}
        for mono, coefficient in a.items():
            quotient = divide_mono(mono, by)
            if quotient is not None and coefficient % factor == 0:
                whole[quotient] = coefficient // factor
            else:
                rest[mono] = coefficient
        return whole, rest

    def _floordiv_constant(self, a: Poly, divisor: int) -> Poly:
        if divisor == 1:
            return dict(a)
        whole: Poly = {}
        rest: Poly = {}
        for mono, coefficient in a.items():
            quotient, remainder = divmod(coefficient, divisor)
            if mono and remainder and coefficient < 0:  # keep small coefficients small: -1 stays -1
                quotient, remainder = 0, coefficient
            if quotient:
                whole[mono] = quotient
            if remainder:
                rest[mono] = remainder
        bound = self.known.bound(rest)
        if bound.low >= 0 and bound.high < divisor:
            return whole
        if -divisor <= bound.low and bound.high < 0:
            return plus(whole, constant(-1))
        common = gcd(divisor, *[coefficient for mono, coefficient in rest.items() if mono])
        if common > 1:  # (c x + k) // (c d) = (x + k // c) // d
            inner = {m: c // common for m, c in rest.items() if c // common}
            return plus(whole, self._floordiv_constant(inner, divisor // common))
        single = self._single(rest)
        if single is not None:
            atom = self.table[single]
            if atom.kind == "floordiv" and atom.divisor and atom.a is not None:
                return plus(whole, self._floordiv_constant(atom.a, atom.divisor * divisor))
            if atom.kind == "floormod" and atom.divisor and atom.divisor % divisor == 0 and atom.a is not None:
                outer = self._floordiv_constant(atom.a, divisor)
                return plus(whole, self._floormod_constant(outer, atom.divisor // divisor))
        parts = self._coarse_and_fine(rest, divisor)
        if parts is not None:  # (16 x + y) // 64 = x // 4 for y in [0, 16)
            step, coarse, _ = parts
            return plus(whole, self._floordiv_constant(coarse, divisor // step))
        return plus(whole, self._operation("floordiv", rest, constant(divisor)))

    def _coarse_and_fine(self, p: Poly, divisor: int) -> tuple[int, Poly, Poly] | None:
        """``p = step * coarse + fine`` with ``fine`` in [0, step) and a step that divides the divisor; None where there is none."""
        for step in sorted({c for mono, c in p.items() if mono and 1 < c < divisor and divisor % c == 0}, reverse=True):
            fine = {mono: c for mono, c in p.items() if c % step}
            if not fine:
                continue
            bound = self.known.bound(fine)
            if bound.low >= 0 and bound.high < step:
                return step, {mono: c // step for mono, c in p.items() if mono not in fine}, fine
        return None

    def _floormod_constant(self, a: Poly, divisor: int) -> Poly:
        if divisor == 1:
            return {}
        rest: Poly = {}
        for mono, coefficient in a.items():
            remainder = coefficient % divisor
            if mono and coefficient < 0 and remainder:
                remainder = -((-coefficient) % divisor)
            if remainder:
                rest[mono] = remainder
        bound = self.known.bound(rest)
        if bound.low >= 0 and bound.high < divisor:
            return rest
        if -divisor <= bound.low and bound.high < 0:
            return plus(rest, constant(divisor))
        modular = self.known.modular_set(rest)
        if modular.coeff % divisor == 0:
            return constant(modular.base % divisor)
        common = gcd(divisor, *rest.values())
        if common > 1:
            inner = {m: c // common for m, c in rest.items()}
            return scaled(self._floormod_constant(inner, divisor // common), common)
        peeled: Poly = {}
        changed = False
        for mono, coefficient in rest.items():
            atom = self.table[mono[0]] if len(mono) == 1 else None
            within = atom.divisor if atom is not None and atom.kind == "floormod" else 0
            if atom is not None and atom.a is not None and within and within % divisor == 0:
                # (x % 12 + y) % 4 = (x + y) % 4
                add_into(peeled, atom.a, coefficient)
                changed = True
                continue
            add_into(peeled, {mono: coefficient})
        if changed:
            self.merged = True
            return self._floormod_constant(peeled, divisor)
        parts = self._coarse_and_fine(rest, divisor)
        if parts is not None:  # (16 x + y) % 64 = x % 4 * 16 + y for y in [0, 16)
            step, coarse, fine = parts
            return plus(scaled(self._floormod_constant(coarse, divisor // step), step), fine)
        return self._operation("floormod", rest, constant(divisor))

    def _single(self, p: Poly) -> int | None:
        """The atom when a polynomial is one atom plus at most nothing."""
        if len(p) == 1:
            ((mono, coefficient),) = p.items()
            if len(mono) == 1 and coefficient == 1:
                return mono[0]
        return None

    def extremum(self, kind: str, a: Poly, b: Poly) -> Poly:
        """Canonical min or max: decided by the sign of the difference where possible."""
        gap = plus(a, b, -1)
        if self._nonnegative(gap):
            return b if kind == "min" else a
        if self._nonnegative(scaled(gap, -1)):
            return a if kind == "min" else b
        shift = min(a.get(ONE, 0), b.get(ONE, 0)) if ONE in a and ONE in b else 0
        if shift:
            a, b = plus(a, constant(-shift)), plus(b, constant(-shift))
        return plus(self._operation(kind, a, b), constant(shift))

    def _operation(self, kind: str, a: Poly, b: Poly) -> Poly:
        return self._number(self.table.operation(kind, a, b))

    def _exact_quotients(self, p: Poly) -> Poly:
        """``(x // c) * c`` becomes ``x - r`` where ``x % c`` is known to be r."""
        for mono, coefficient in p.items():
            for position, number in enumerate(mono):
                atom = self.table[number]
                divisor = atom.divisor
                if atom.kind != "floordiv" or divisor <= 1 or coefficient % divisor or atom.a is None:
                    continue
                modular = self.known.modular_set(atom.a)
                if modular.coeff % divisor == 0:
                    others = {mono[:position] + mono[position + 1 :]: coefficient // divisor}
                    rest = {m: v for m, v in p.items() if m != mono}
                    exact = plus(atom.a, constant(-(modular.base % divisor)))
                    self.merged = True
                    return self._exact_quotients(plus(rest, times(exact, others)))
        return p

    def merge_divisions(self, p: Poly) -> Poly:
        """``(x // c) * c * k + (x % c) * k`` becomes ``x * k``."""
        atoms = self.table.atoms
        kinds = {atoms[number].kind for mono in p for number in mono}
        if "floordiv" in kinds:
            p = self._exact_quotients(p)
        if "floormod" not in kinds and "floordiv" not in kinds:
            return p
        divisions = [m for m in p if any([atoms[n].kind == "floormod" for n in m])]
        for mono in divisions:
            if mono not in p:
                continue
            for position, number in enumerate(mono):
                atom = self.table[number]
                if atom.kind != "floormod" or atom.a is None or atom.b is None:
                    continue
                quotient = self.quotient(number)
                if len(quotient) != 1:
                    continue
                ((quotient_mono, one),) = quotient.items()
                if one != 1 or not quotient_mono:
                    continue
                others = mono[:position] + mono[position + 1 :]
                coefficient = p[mono]
                multiple = scaled(times({tuple(sorted(quotient_mono + others)): 1}, atom.b), coefficient)
                if all([p.get(m, 0) == c for m, c in multiple.items()]):
                    self.merged = True
                    merged = plus(p, multiple, -1)
                    merged.pop(mono, None)
                    add_into(merged, times(atom.a, {others: 1}), coefficient)
                    return self.merge_divisions(merged)
        return p
