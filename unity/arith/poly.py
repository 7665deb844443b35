"""Integer expressions as polynomials over atoms: the canonical form under the simplifier and the prover.

A polynomial is a dict from monomial to integer coefficient; a monomial is a sorted tuple of atom numbers (``()`` is the
constant). An atom is a variable or an operation that is not linear (floordiv, floormod, min, max, a load, ...). Atoms are
numbered per table in order of first sight, so equal expressions get equal polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir.build import BY_NAME, add, cast, dtype_of, int_imm, mul, sub, wrap_int
from ..ir.expr import Var
from ..ir.structural import structural_equal, structural_hash
from ..ir.types import Expr, PrimType, prim_type

Mono = tuple[int, ...]
Poly = dict[Mono, int]
PolyKey = tuple[tuple[Mono, int], ...]

ONE: Mono = ()


@dataclass(slots=True)
class Atom:
    """One atom. ``kind`` is ``var``, ``floordiv``, ``floormod``, ``min``, ``max`` or ``opaque``; operands are polynomials.
    ``expr`` is that of a variable or an opaque atom, None of an operation; ``bits`` the width of the widest of these inside."""

    number: int
    kind: str
    expr: Expr | None
    bits: int
    a: Poly | None = None
    b: Poly | None = None
    depends: frozenset[Var] = frozenset()

    @property
    def divisor(self) -> int:
        """The positive constant by which a quotient or remainder divides, else 0."""
        if self.b is None or self.kind not in ("floordiv", "floormod"):
            return 0
        return max(0, constant_value(self.b) or 0)


def poly_key(p: Poly) -> PolyKey:
    """Hashable form of a polynomial."""
    return tuple(sorted(p.items())) if len(p) > 1 else tuple(p.items())


def constant(value: int) -> Poly:
    """The polynomial of an integer."""
    return {ONE: value} if value else {}


def constant_value(p: Poly) -> int | None:
    """The integer a polynomial is, or None."""
    if not p:
        return 0
    return p[ONE] if len(p) == 1 and ONE in p else None


def add_into(target: Poly, p: Poly, scale: int = 1) -> None:
    """``target += scale * p`` in place."""
    for mono, coefficient in p.items():
        add_term(target, mono, coefficient * scale)


def add_term(target: Poly, mono: Mono, coefficient: int) -> None:
    """``target += coefficient * mono`` in place."""
    value = target.get(mono, 0) + coefficient
    if value:
        target[mono] = value
    else:
        target.pop(mono, None)


def plus(a: Poly, b: Poly, scale: int = 1) -> Poly:
    """``a + scale * b``."""
    result = dict(a)
    add_into(result, b, scale)
    return result


def times(a: Poly, b: Poly) -> Poly:
    """Product."""
    result: Poly = {}
    for mono_a, ca in a.items():
        for mono_b, cb in b.items():
            mono = tuple(sorted(mono_a + mono_b)) if mono_a and mono_b else mono_a or mono_b
            add_term(result, mono, ca * cb)
    return result


def scaled(p: Poly, factor: int) -> Poly:
    """Product with an integer."""
    return {m: c * factor for m, c in p.items()} if factor else {}


def divide_mono(mono: Mono, by: Mono) -> Mono | None:
    """``mono / by`` when it divides, else None."""
    rest = list(mono)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def divide_exactly(p: Poly, by: Poly) -> Poly | None:
    """``p / by`` where it is a polynomial with integer coefficients, else None: long division by the term of highest degree."""
    lead = max(by, key=_degree)
    quotient: Poly = {}
    rest = dict(p)
    while rest:
        first = max(rest, key=_degree)
        mono = divide_mono(first, lead)
        if mono is None or rest[first] % by[lead]:
            return None
        quotient[mono] = rest[first] // by[lead]
        add_into(rest, times({mono: quotient[mono]}, by), -1)
    return quotient


def _degree(mono: Mono) -> tuple[int, Mono]:
    return len(mono), mono


def common_factor(p: Poly) -> Mono:
    """Greatest monomial (without coefficient) that divides every term."""
    monos = list(p)
    if not monos or ONE in p:
        return ONE
    factor = list(monos[0])
    for mono in monos[1:]:
        rest = list(mono)
        kept = []
        for atom in factor:
            if atom in rest:
                rest.remove(atom)
                kept.append(atom)
        factor = kept
        if not factor:
            return ONE
    return tuple(factor)


def _number(value: int, ty: PrimType) -> Expr:
    if wrap_int(value, ty.dtype) != value:
        raise OverflowError(f"{ty.dtype} has no {value}")
    return int_imm(value, ty)


class AtomTable:
    """Numbers atoms and turns polynomials back into expressions."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._by_key: dict[Any, int] = {}
        self._opaque: dict[int, list[int]] = {}
        self._made: dict[tuple[int, PrimType], Expr] = {}
        self.order: dict[Mono, Mono] = {}

    def __getitem__(self, number: int) -> Atom:
        return self.atoms[number]

    def _add(self, kind: str, expr: Expr | None, bits: int, depends: frozenset[Var], *operands: Poly) -> int:
        a, b = operands or (None, None)
        self.atoms.append(Atom(len(self.atoms), kind, expr, bits, a, b, depends))
        return len(self.atoms) - 1

    def variable(self, var: Var) -> int:
        """Atom of a variable."""
        found = self._by_key.get(var)
        if found is None:
            found = self._by_key[var] = self._add("var", var, dtype_of(var).bits, frozenset((var,)))
        return found

    def operation(self, kind: str, a: Poly, b: Poly) -> int:
        """Atom of a non-linear operation on polynomials."""
        key = (kind, poly_key(a), poly_key(b))
        found = self._by_key.get(key)
        if found is None and kind in ("min", "max"):
            found = self._by_key.get((kind, key[2], key[1]))
        if found is None:
            bits = max([self.atoms[number].bits for p in (a, b) for mono in p for number in mono], default=0)
            depends = self.dependencies(a) | self.dependencies(b)
            found = self._by_key[key] = self._add(kind, None, bits, depends, a, b)
        return found

    def opaque(self, expr: Expr, depends: frozenset[Var]) -> int:
        """Atom of any other expression; structurally equal ones share it."""
        code = structural_hash(expr)
        bucket = self._opaque.setdefault(code, [])
        for number in bucket:
            known = self.atoms[number].expr
            if known is not None and structural_equal(known, expr):
                return number
        number = self._add("opaque", expr, dtype_of(expr).bits, depends)
        bucket.append(number)
        return number

    def dependencies(self, p: Poly) -> frozenset[Var]:
        """Variables a polynomial depends on."""
        found: set[Var] = set()
        for mono in p:
            for number in mono:
                found |= self.atoms[number].depends
        return frozenset(found)

    def product(self, a: Poly, b: Poly) -> Poly:
        """Product as written: the order of factors is remembered for printing."""
        for mono_a in a:
            for mono_b in b:
                if mono_a and mono_b:
                    shown = self.order.get(mono_a, mono_a) + self.order.get(mono_b, mono_b)
                    self.order.setdefault(tuple(sorted(shown)), shown)
        return times(a, b)

    def atom_expr(self, number: int, ty: PrimType) -> Expr:
        """An atom as an expression of a type; an operation on wider ones is computed in 64 bits."""
        atom = self.atoms[number]
        if atom.expr is not None:
            return cast(atom.expr, ty.dtype)
        found = self._made.get((number, ty))
        if found is None:
            assert atom.a is not None and atom.b is not None
            wide = ty if atom.bits <= ty.dtype.bits else prim_type("int64")
            made = BY_NAME[atom.kind](self.expr(atom.a, wide), self.expr(atom.b, wide))
            found = self._made[number, ty] = cast(made, ty.dtype)
        return found

    def mono_expr(self, mono: Mono, ty: PrimType) -> Expr:
        """Product of atoms as an expression of a type."""
        result: Expr | None = None
        for number in self.order.get(mono, mono):
            factor = self.atom_expr(number, ty)
            result = factor if result is None else mul(result, factor)
        return int_imm(1, ty) if result is None else result

    def expr(self, p: Poly, ty: PrimType | None = None) -> Expr:
        """The expression of a polynomial: positive terms in order of first sight, then negative ones, the constant last.

        Raises OverflowError where the type lacks a coefficient, as it can although all values of the polynomial are in it.
        """
        ty = ty or prim_type("int64")
        result: Expr | None = None
        for mono, coefficient in [item for item in p.items() if item[0] and item[1] > 0]:
            term = self.mono_expr(mono, ty)
            term = term if coefficient == 1 else mul(term, _number(coefficient, ty))
            result = term if result is None else add(result, term)
        rest = p.get(ONE, 0)
        negatives = [item for item in p.items() if item[0] and item[1] < 0]
        if result is None and negatives and rest > 0:
            result, rest = _number(rest, ty), 0
        for mono, coefficient in negatives:
            if result is None:
                result = mul(self.mono_expr(mono, ty), _number(coefficient, ty))
            else:
                result = sub(result, mul(self.mono_expr(mono, ty), _number(-coefficient, ty)))
        if result is None:
            return _number(rest, ty)
        if rest > 0:
            return add(result, _number(rest, ty))
        return sub(result, _number(-rest, ty)) if rest < 0 else result
