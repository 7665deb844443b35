"""Linear forms: coefficients of variables, bounds of variables from conditions, cells of a buffer touched by loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.build import const, dtype_of, floordiv, scalar_type, sub
from ..ir.expr import Var
from ..ir.scalar import GE, GT, LE, LT
from ..ir.types import Expr
from .analyzer import Analyzer
from .intset import IntSet
from .poly import Poly


@dataclass(slots=True, frozen=True)
class LinearForm:
    """``sum(coefficients[k] * variables[k]) + rest``."""

    coefficients: tuple[Expr, ...]
    rest: Expr


def detect_linear_equation(expr: Expr, variables: Sequence[Var], ana: Analyzer | None = None) -> LinearForm | None:
    """Coefficients of ``variables`` in ``expr`` when it is linear in them, else None."""
    analyzer = ana or Analyzer()
    p = analyzer.poly(expr)
    table = analyzer.known.table
    numbers = [table.variable(v) for v in variables]
    wanted = set(variables)
    parts: list[Poly] = [{} for _ in variables]
    rest: Poly = {}
    for mono, coefficient in p.items():
        inside = [n for n in mono if table[n].depends & wanted]
        if not inside:
            rest[mono] = coefficient
        elif len(inside) == 1 and inside[0] in numbers:
            without = list(mono)
            without.remove(inside[0])
            parts[numbers.index(inside[0])][tuple(without)] = coefficient
        else:
            return None
    ty = scalar_type(expr)
    try:
        return LinearForm(tuple([table.expr(part, ty) for part in parts]), table.expr(rest, ty))
    except OverflowError:  # a coefficient that the type lacks
        return None


def deduce_bound(var: Var, condition: Expr, ana: Analyzer | None = None) -> IntSet | None:
    """Values of ``var`` for which a comparison, linear in it with a constant-sign coefficient, holds; None if not deducible.

    The result is exact: ``var`` in the set if and only if the condition holds.
    """
    analyzer = ana or Analyzer()
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    a, b = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        a, b = b, a
    strict = isinstance(condition, (LT, GT))
    form = detect_linear_equation(sub(a, b), [var], analyzer)  # form <= 0 (or < 0)
    if form is None:
        return None
    coefficient = form.coefficients[0]
    dtype = dtype_of(var)
    limit = sub(const(-1 if strict else 0, dtype), form.rest)  # coefficient * var <= limit
    if analyzer.can_prove_greater_equal(coefficient, 1):
        return IntSet(None, analyzer.simplify(floordiv(limit, coefficient)))
    minus = sub(const(0, dtype), coefficient)
    if analyzer.can_prove_greater_equal(minus, 1):
        # -m * var <= limit  <=>  var >= ceil(-limit / m) = -(limit // m)
        return IntSet(analyzer.simplify(sub(const(0, dtype), floordiv(limit, minus))), None)
    return None
