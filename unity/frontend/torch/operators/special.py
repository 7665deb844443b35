"""Table entries: special functions, and elementwise operators made of several graph operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from .... import op
from ....ir.expr import TupleGetItem
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    dtype_of,
    is_float,
    number,
    rank_of,
    refuse,
)
from .rounding import rounded_once


def _float(c: Context, a: Args, name: str = "self") -> Expr:
    return c.emit(c.cast(getattr(a, name), c.dtype))


def _pick(largest: bool) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        x, y = _float(c, a), _float(c, a, "other")
        made = (op.maximum if largest else op.minimum)(x, y)
        if not is_float(x):
            return made
        return op.where(op.isnan(x), y, op.where(op.isnan(y), x, made))

    return translate


aten("fmax.default")(_pick(True))
aten("fmin.default")(_pick(False))


@aten("ldexp.Tensor")
def _ldexp(c: Context, a: Args) -> Expr:
    two = op.power(2, c.cast(a.other, c.dtype))
    return c.cast(a.self, c.dtype) * two


@aten("hypot.default")
@rounded_once
def _hypot(c: Context, a: Args) -> Expr:
    """The larger times the root of 1 + the quotient squared: no overflow."""
    x, y = c.emit(op.abs(_float(c, a))), c.emit(op.abs(_float(c, a, "other")))
    high, low = c.emit(op.maximum(x, y)), op.minimum(x, y)
    safe = op.where(op.equal(high, 0), 1, high)
    part = c.emit(low / safe)
    made = high * op.sqrt(part * part + 1)
    infinite = op.logical_or(op.isinf(x), op.isinf(y))
    return op.where(infinite, math.inf, made)


@aten("copysign.Tensor", "copysign.Scalar")
def _copysign(c: Context, a: Args) -> Expr:
    x, y = c.emit(op.abs(_float(c, a))), _float(c, a, "other")
    return op.where(_is_negative(c, y), -x, x)


def _is_negative(c: Context, x: Expr) -> Expr:
    """The sign bit of a float: below 0, or the zero whose reciprocal is."""
    below = op.less(x, 0)
    minus_zero = op.logical_and(op.equal(x, 0), op.less(1 / x, 0))
    return op.logical_or(below, minus_zero)


@aten("signbit.default")
def _signbit(c: Context, a: Args) -> Expr:
    x = c.emit(c.cast(a.self, "int32") if dtype_of(a.self) == "bool" else a.self)
    return _is_negative(c, x) if is_float(x) else op.less(x, 0)


@aten("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def _bucketize(c: Context, a: Args) -> Expr:
    edges = getattr(a, "boundaries", None)
    edges = a.sorted_sequence if edges is None else edges
    if getattr(a, "sorter", None) is not None and rank_of(edges):
        edges = op.gather_elements(edges, a.sorter, axis=rank_of(edges) - 1)
    dtype = c.promoted(a.self, edges)
    dtype = "int32" if dtype == "bool" else dtype
    right = a.right if getattr(a, "side", None) is None else a.side == "right"
    values, sequence = c.cast(a.self, dtype), c.cast(edges, dtype)
    return op.searchsorted(sequence, values, right=bool(right), out_int32=bool(a.out_int32))


@aten("angle.default")
def _angle(c: Context, a: Args) -> Expr:
    """Of real numbers: 0 or pi."""
    x = _float(c, a)
    made = op.where(op.less(x, 0), number(math.pi, c.dtype), number(0, c.dtype))
    return op.where(op.isnan(x), x, made)


@aten("round.decimals")
def _round_decimals(c: Context, a: Args) -> Expr:
    x = _float(c, a)
    if not is_float(a.self) or a.decimals == 0:
        refuse(not is_float(a.self) and a.decimals < 0, "integers rounded to tens")
        return op.round(x) if is_float(a.self) else x
    scale = number(10.0 ** abs(a.decimals), c.dtype)
    if a.decimals > 0:
        return op.round(x * scale) / scale
    return op.round(x / scale) * scale


@aten("polygamma.default", "special_polygamma.default")
def _polygamma(c: Context, a: Args) -> Expr:
    x = _float(c, a)
    return op.digamma(x) if a.n == 0 else op.polygamma(x, n=a.n)


@aten("frexp.Tensor")
def _frexp(c: Context, a: Args) -> Result:
    made = c.emit(op.frexp(a.self))
    return [TupleGetItem(made, 0), TupleGetItem(made, 1)]


# ---- random places of a model in evaluation mode


@aten("feature_alpha_dropout.default", "rrelu_with_noise_functional.default", "rrelu.default")
def _inactive(c: Context, a: Args) -> Result:
    """Dropout does nothing; a random slope is its mean."""
    if "rrelu" not in c.node_target:
        refuse(a.train and a.p != 0, "dropout in training mode draws random numbers")
        return c.cast(a.input, c.dtype)
    refuse(bool(a.training), "a random slope")
    x = c.emit(a.self)
    slope = number((a.lower + a.upper) / 2, c.dtype)
    made = op.where(op.greater_equal(x, 0), x, x * slope)
    return [made, None] if isinstance(c.value, (list, tuple)) else made
