"""Sums and products of indices of which some are vectors: a run of neighbours stays a ramp, so that it is read as one vector.

Rewrite: ``i + T.Ramp(b, s, 16)`` -> ``T.Ramp(i + b, s, 16)``, ``T.Ramp(b, s, 16) * n`` -> ``T.Ramp(b * n, s * n, 16)``; other
vectors meet a broadcast.
"""

from __future__ import annotations

from ....ir.build import add, broadcast, dtype_of, mul, ramp
from ....ir.scalar import Broadcast, Ramp
from ....ir.types import Expr


def index_add(a: Expr, b: Expr) -> Expr:
    """``a + b``, either of them a vector or both."""
    x, y = _scalar(a), _scalar(b)
    if type(x) is Ramp and dtype_of(y).lanes == 1:
        return ramp(add(x.base, y), x.stride, x.lanes)
    if type(y) is Ramp and dtype_of(x).lanes == 1:
        return ramp(add(x, y.base), y.stride, y.lanes)
    lanes = max(dtype_of(a).lanes, dtype_of(b).lanes)
    return add(_widened(a, lanes), _widened(b, lanes))


def index_mul(a: Expr, b: Expr) -> Expr:
    """``a * b``, either of them a vector or both."""
    x, y = _scalar(a), _scalar(b)
    if type(x) is Ramp and dtype_of(y).lanes == 1:
        return ramp(mul(x.base, y), mul(x.stride, y), x.lanes)
    if type(y) is Ramp and dtype_of(x).lanes == 1:
        return ramp(mul(x, y.base), mul(x, y.stride), y.lanes)
    lanes = max(dtype_of(a).lanes, dtype_of(b).lanes)
    return mul(_widened(a, lanes), _widened(b, lanes))


def _scalar(expr: Expr) -> Expr:
    return expr.value if type(expr) is Broadcast else expr


def _widened(expr: Expr, lanes: int) -> Expr:
    return expr if dtype_of(expr).lanes == lanes else broadcast(expr, lanes)
