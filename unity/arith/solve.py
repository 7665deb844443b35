"""Linear forms: coefficients of variables, bounds of variables from conditions, cells of a buffer touched by loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.buffer import Buffer, Range
from ..ir.build import const, dtype_of, floordiv, sub
from ..ir.expr import Var
from ..ir.node import Node
from ..ir.scalar import GE, GT, LE, LT, And, BufferLoad
from ..ir.stmt import BufferStore, For
from ..ir.types import Expr
from ..ir.walk import children, free_vars
from ..support.recursion import deep_recursion
from .analyzer import Analyzer
from .intset import IntSet, eval_set, intersect, of_range, region_of, union
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
    ty = expr.ty
    return LinearForm(tuple([table.expr(part, ty) for part in parts]), table.expr(rest, ty))  # type: ignore[arg-type]


def deduce_bound(var: Var, condition: Expr, ana: Analyzer | None = None) -> IntSet | None:
    """Values of ``var`` for which a comparison, linear in it with a constant-sign coefficient, holds; None if not deducible.

    The result is exact: ``var`` in the set if and only if the condition holds.
    """
    analyzer = ana or Analyzer()
    if type(condition) not in (LT, LE, GT, GE):
        return None
    a, b = condition.a, condition.b  # type: ignore[attr-defined]
    if type(condition) in (GT, GE):
        a, b = b, a
    strict = type(condition) in (LT, GT)
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


def detect_clip_bound(
    condition: Expr, variables: Sequence[Var], ana: Analyzer | None = None
) -> dict[Var, IntSet] | None:
    """Bounds that a conjunction of comparisons, each linear in one of ``variables``, puts on them; None if it is no such."""
    analyzer = ana or Analyzer()
    result: dict[Var, IntSet] = {}
    pending = [condition]
    while pending:
        part = pending.pop()
        if type(part) is And:
            pending += [part.b, part.a]
            continue
        used = [v for v in variables if v in free_vars(part)]
        found = deduce_bound(used[0], part, analyzer) if len(used) == 1 else None
        if found is None:
            return None
        result[used[0]] = intersect(result[used[0]], found, analyzer) if used[0] in result else found
    return result


def domain_touched(
    statement: Node, buffer: Buffer, loads: bool = True, stores: bool = True
) -> tuple[IntSet, ...] | None:
    """Box of the cells of ``buffer`` that a statement reads and / or writes, over all its loops; None when it touches none."""
    analyzer = Analyzer()
    domains: dict[Var, IntSet] = {}
    boxes: list[list[IntSet]] = []

    def visit(node: Any) -> None:
        if type(node) is not For:
            inside(node)
            return
        with analyzer.scope():
            domain = Range(node.min, node.extent)
            analyzer.bind(node.loop_var, domain)
            domains[node.loop_var] = IntSet(
                eval_set(node.min, domains, analyzer).low,
                eval_set(of_range(domain).high or node.min, domains, analyzer).high,
            )
            inside(node)

    def inside(node: Any) -> None:
        for child in children(node):
            if not child.is_reference:
                visit(child)
        reads = type(node) is BufferLoad and loads
        writes = type(node) is BufferStore and stores
        if (reads or writes) and node.buffer is buffer:
            boxes.append(region_of(node.indices, domains, analyzer))

    with deep_recursion():
        visit(statement)
    if not boxes:
        return None
    return tuple([union(list(axis), analyzer) for axis in zip(*boxes)])
