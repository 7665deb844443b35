"""Domains of a block's iterators from the cells that must be (or may be) computed, and the nest that runs them.

Not here: which cells those are (``transform/schedule/primitives/compute_location.py``). Invariant: every instance whose cell
lies in the box is run; an iterator that no index of the box determines keeps its whole domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith import Analyzer
from ....arith.intset import IntSet, intersect
from ....arith.solve import detect_linear_equation
from ....ir.buffer import BufferRegion, Range
from ....ir.build import add, const, dtype_of, floordiv, floormod, ge, int_value, is_int, logical_and, lt, mul, sub
from ....ir.expr import IntImm, Var
from ....ir.scalar import FloorDiv, IterVar
from ....ir.stmt import Block, BlockRealize, For, Stmt
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import free_vars
from ..core.tree import TRUE

Domains = dict[Var, IntSet]


def solve(axes: Sequence[IterVar], region: BufferRegion, box: Sequence[IntSet], ana: Analyzer) -> Domains:
    """Values of iterators whose instances touch a box of ``region.buffer``, ``region`` being what one instance
    touches."""
    known = {axis.var for axis in axes}
    found: Domains = {}
    for r, axis in zip(region.region, box):
        inside = [v for v in dict.fromkeys(free_vars(r.min)) if v in known]
        if len(inside) != 1 or any([v in known for v in free_vars(r.extent)]):
            continue
        var = inside[0]
        start, wanted = _dividend(r, axis, region, box, ana)
        form = detect_linear_equation(start, [var], ana)
        factor = int_value(form.coefficients[0]) if form is not None else None
        if form is None or factor is None or factor < 1:
            continue
        dtype = dtype_of(var)
        scale, one = const(factor, dtype), const(1, dtype)
        low = high = None
        if wanted.low is not None:  # factor * v + rest + extent - 1 >= low
            reach = add(form.rest, sub(r.extent, one))
            low = ana.simplify(floordiv(add(sub(wanted.low, reach), const(factor - 1, dtype)), scale))
        if wanted.high is not None:
            high = ana.simplify(floordiv(sub(wanted.high, form.rest), scale))
        own = IntSet(low, high)
        found[var] = intersect(found[var], own, ana) if var in found else own
    return found


def _dividend(
    r: Range, wanted: IntSet, region: BufferRegion, box: Sequence[IntSet], ana: Analyzer
) -> tuple[Expr, IntSet]:
    """``x`` and its values where ``x // c`` lies in a set; where ``x % c`` is another index of the region, no more of them."""
    if type(r.min) is not FloorDiv or not is_int(r.extent, 1) or wanted.low is None or wanted.high is None:
        return r.min, wanted
    divisor = int_value(r.min.b)
    if divisor is None or divisor < 1:
        return r.min, wanted
    dtype = dtype_of(r.min)
    rest = IntSet(const(0, dtype), const(divisor - 1, dtype))
    if ana.can_prove_equal(wanted.low, wanted.high):
        for other, part in zip(region.region, box):
            if is_int(other.extent, 1) and structural_equal(other.min, floormod(r.min.a, r.min.b)):
                rest = intersect(rest, part, ana)
    assert rest.low is not None and rest.high is not None
    return r.min.a, IntSet(add(mul(wanted.low, r.min.b), rest.low), add(mul(wanted.high, r.min.b), rest.high))


def nest_of(
    axes: Sequence[IterVar], block: Block, domains: Domains, ana: Analyzer, preserve_unit_loops: bool
) -> tuple[Stmt, BlockRealize]:
    """Loops ``ax0``, ``ax1``, ... over the domains around a realization of ``block``, guarded where a domain may reach
    over the iterator's own."""
    values: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    guard: Expr = TRUE
    for index, axis in enumerate(axes):
        low, extent = _span(axis, axis.domain, domains.get(axis.var), ana)
        if is_int(extent, 1) and not preserve_unit_loops:
            value = low
        else:
            loop = Var(f"ax{index}", axis.var.ty)
            loops.append((loop, extent))
            ana.bind(loop, Range(const(0, dtype_of(loop)), extent))
            value = ana.simplify(add(low, loop))
        values.append(value)
        for condition in (ge(value, axis.domain.min), lt(value, add(axis.domain.min, axis.domain.extent))):
            if not ana.can_prove(condition):
                guard = logical_and(guard, condition)
    realize = BlockRealize(tuple(values), guard, block)
    stmt: Stmt = realize
    for loop, extent in reversed(loops):
        stmt = For(loop, const(0, dtype_of(loop)), extent, "serial", stmt)
    return stmt, realize


def _span(axis: IterVar, whole: Range, wanted: IntSet | None, ana: Analyzer) -> tuple[Expr, Expr]:
    """First value and number of values of an iterator: the part that is wanted, no more than the whole."""
    if wanted is None or wanted.low is None or wanted.high is None:
        return whole.min, whole.extent
    extent = ana.simplify(add(sub(wanted.high, wanted.low), const(1, dtype_of(axis.var))))
    if type(extent) is not IntImm:
        most = ana.const_int_bound(extent).high
        if isinstance(most, int):
            extent = const(most, dtype_of(axis.var))
    full = int_value(whole.extent)
    if full is not None and type(extent) is IntImm and extent.value >= full:
        return whole.min, whole.extent
    if ana.can_prove_equal(extent, whole.extent) and ana.can_prove_equal(wanted.low, whole.min):
        return whole.min, whole.extent
    return wanted.low, extent
