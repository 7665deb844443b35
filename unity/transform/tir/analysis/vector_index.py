"""Sums and products of indices of which some are vectors: a run of neighbours stays a ramp, so that it is read as one vector.

Rewrite: ``i + T.Ramp(b, s, 16)`` -> ``T.Ramp(i + b, s, 16)``, ``T.Ramp(b, s, 16) * n`` -> ``T.Ramp(b * n, s * n, 16)``; other
vectors meet a broadcast.
"""

from __future__ import annotations

from ....ir.build import add, broadcast, const, dtype_of, mul, ramp, sub
from ....ir.scalar import Add, Broadcast, Mul, Ramp
from ....ir.types import Expr


def index_add(a: Expr, b: Expr) -> Expr:
    """``a + b``, either of them a vector or both."""
    lanes = max(dtype_of(a).lanes, dtype_of(b).lanes)
    return ramp_with_scalar(Add, _scalar(a), _scalar(b)) or add(_widened(a, lanes), _widened(b, lanes))


def index_mul(a: Expr, b: Expr) -> Expr:
    """``a * b``, either of them a vector or both."""
    lanes = max(dtype_of(a).lanes, dtype_of(b).lanes)
    return ramp_with_scalar(Mul, _scalar(a), _scalar(b)) or mul(_widened(a, lanes), _widened(b, lanes))


def ramp_with_scalar(kind: type, a: Expr, b: Expr) -> Expr | None:
    """Ramps stay ramps under adding, subtracting and scaling by a scalar; None where not one side is a ramp, the other a scalar."""
    if type(a) is Ramp and dtype_of(b).lanes == 1:
        if kind is Mul:
            return ramp(mul(a.base, b), mul(a.stride, b), a.lanes)
        return ramp(add(a.base, b) if kind is Add else sub(a.base, b), a.stride, a.lanes)
    if type(b) is Ramp and dtype_of(a).lanes == 1:
        if kind is Mul:
            return ramp(mul(a, b.base), mul(a, b.stride), b.lanes)
        if kind is Add:
            return ramp(add(a, b.base), b.stride, b.lanes)
        return ramp(sub(a, b.base), mul(b.stride, const(-1, dtype_of(b.stride))), b.lanes)
    return None


def _scalar(expr: Expr) -> Expr:
    return expr.value if type(expr) is Broadcast else expr


def _widened(expr: Expr, lanes: int) -> Expr:
    return expr if dtype_of(expr).lanes == lanes else broadcast(expr, lanes)
