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
    static,
    to_dim,
)
from .rounding import rounded_once


def _float(c: Context, a: Args, name: str = "self") -> Expr:
    return c.emit(c.cast(getattr(a, name), c.dtype))


@aten("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other", "special_xlog1py.default", "special_xlogy.default",
      "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")  # fmt: skip
@rounded_once
def _xlogy(c: Context, a: Args) -> Expr:
    """x log y; 0 where x is 0 and y no NaN."""
    x, y = _float(c, a), _float(c, a, "other")
    grown = x * (op.log1p if "1p" in c.node_target else op.log)(y)
    return op.where(op.logical_and(op.equal(x, 0), op.equal(y, y)), 0, grown)


@aten("special_entr.default")
@rounded_once
def _entr(c: Context, a: Args) -> Expr:
    x = _float(c, a)
    zero = number(0, c.dtype)
    inner = op.where(op.equal(x, zero), zero, -math.inf)
    made = op.where(op.greater(x, zero), -(x * op.log(x)), inner)
    return op.where(op.isnan(x), x, made)


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


@aten("lerp.Scalar", "lerp.Tensor")
@rounded_once
def _lerp(c: Context, a: Args) -> Expr:
    """From the nearer end, as torch: exact at both."""
    x, y, w = _float(c, a), _float(c, a, "end"), c.emit(c.cast(a.weight, c.dtype))
    way = c.emit(y - x)
    near = x + w * way
    far = y - way * (1 - w)
    return op.where(op.less(op.abs(w), 0.5), near, far)


@aten("logit.default", "special_logit.default")
@rounded_once
def _logit(c: Context, a: Args) -> Expr:
    x = _float(c, a)
    if a.eps is not None:
        low, high = number(a.eps, c.dtype), number(1 - a.eps, c.dtype)
        x = c.emit(op.minimum(op.maximum(x, low), high))
    return op.log(x / (1 - x))


@aten("heaviside.default")
def _heaviside(c: Context, a: Args) -> Expr:
    x = _float(c, a)
    values = c.cast(a.values, c.dtype)
    made = op.where(op.equal(x, 0), values, c.cast(op.greater(x, 0), c.dtype))
    return op.where(op.isnan(x), 0, made) if is_float(x) else made


@aten("sinc.default", "special_sinc.default")
@rounded_once
def _sinc(c: Context, a: Args) -> Expr:
    x = c.emit(_float(c, a) * math.pi)
    return op.where(op.equal(x, 0), 1, op.sin(x) / x)


@aten("deg2rad.default")
@rounded_once
def _deg2rad(c: Context, a: Args) -> Expr:
    return c.cast(a.self, c.dtype) * (math.pi / 180)


@aten("rad2deg.default")
@rounded_once
def _rad2deg(c: Context, a: Args) -> Expr:
    return c.cast(a.self, c.dtype) * (180 / math.pi)


@aten("logaddexp2.default")
@rounded_once
def _logaddexp2(c: Context, a: Args) -> Expr:
    x, y = _float(c, a), _float(c, a, "other")
    high, low = c.emit(op.maximum(x, y)), op.minimum(x, y)
    more = op.log1p(op.exp2(low - high)) * (1 / math.log(2))
    return op.where(op.isinf(high), high, high + more)


@aten("special_ndtr.default")
@rounded_once
def _ndtr(c: Context, a: Args) -> Expr:
    """Normal distribution: half of erfc of -x / sqrt 2."""
    x = c.cast(a.self, c.dtype) * -math.sqrt(0.5)
    return op.erfc(x) * 0.5


def _sign_test(sign: int) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        if not is_float(a.self):
            return op.zeros_like(a.self, "bool")
        return op.equal(a.self, sign * math.inf)

    return translate


aten("isposinf.default")(_sign_test(1))
aten("isneginf.default")(_sign_test(-1))


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


@aten("special_spherical_bessel_j0.default")
def _spherical(c: Context, a: Args) -> Expr:
    """sin(x) / x: 1 at 0 and 0 at infinity."""
    x = _float(c, a, "x")
    made = op.where(op.equal(x, 0), 1, op.sin(x) / x)
    return op.where(op.isinf(x), 0, made)


@aten("frexp.Tensor")
def _frexp(c: Context, a: Args) -> Result:
    made = c.emit(op.frexp(a.self))
    return [TupleGetItem(made, 0), TupleGetItem(made, 1)]


@aten("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def _linspace_between(c: Context, a: Args) -> Expr:
    """Steps from the start in the first half, back from the end in the second, as torch takes them."""
    refuse(not c.torch.empty(0, dtype=getattr(c.torch, c.dtype)).is_floating_point(), "integers")
    steps = static(to_dim(a.steps), "the number of steps")
    start, end = c.emit(c.cast(a.start, c.dtype)), c.emit(c.cast(a.end, c.dtype))
    step = c.emit((end - start) / number(max(steps - 1, 1), c.dtype))
    line = c.torch.arange(steps, dtype=getattr(c.torch, c.dtype))
    first, back = c.constant(line), c.constant(line.flip(0).contiguous())
    ahead = start + first * step
    behind = end - back * step
    return op.where(c.constant(line < steps / 2), ahead, behind)


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
