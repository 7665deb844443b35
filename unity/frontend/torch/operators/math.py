"""Table entries: elementwise arithmetic, comparisons and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from .... import op
from ....ir.types import Expr
from ..context.context import Args, Context, Result, aten, is_float, number, refuse
from .rounding import exact_numbers, rounded_once


@aten("sign.default", "sgn.default")
def _sign(c: Context, a: Args) -> Expr:
    if not is_float(a.self):
        return a.self if c.dtype == "bool" else op.sign(a.self)
    return op.where(op.isnan(a.self), 0, op.sign(a.self))  # torch: the sign of NaN is 0


@aten("angle.default")
def _angle(c: Context, a: Args) -> Expr:
    x = c.cast(a.self, c.dtype)
    return op.where(op.isnan(x), x, op.where(op.less(x, 0), number(math.pi, c.dtype), 0))


@aten("round.default")
def _round(c: Context, a: Args) -> Expr:
    decimals = getattr(a, "decimals", 0)
    refuse(not is_float(a.self) and decimals < 0, "integers rounded to tens")
    if decimals == 0 or not is_float(a.self):
        return op.round(a.self) if is_float(a.self) else a.self
    scale = number(10.0 ** abs(decimals), c.dtype)
    return op.round(a.self * scale) / scale if decimals > 0 else op.round(a.self / scale) * scale


aten("round.decimals")(rounded_once(_round))


@aten("reciprocal.default")
def _reciprocal(c: Context, a: Args) -> Expr:
    return 1 / c.cast(a.self, c.dtype)


# ---- two operands


def _scaled(c: Context, value: Any, alpha: Any) -> Expr:
    result = c.cast(value, c.dtype)
    return result if alpha == 1 else result * c.cast(alpha, c.dtype)


@aten("add.Tensor", "add.Scalar")
@exact_numbers
def _add(c: Context, a: Args) -> Expr:
    if c.dtype == "bool":
        return op.logical_or(c.cast(a.self, "bool"), c.cast(a.other if a.alpha else False, "bool"))
    return c.cast(a.self, c.dtype) + _scaled(c, a.other, a.alpha)


@aten("sub.Tensor", "sub.Scalar")
@exact_numbers
def _sub(c: Context, a: Args) -> Expr:
    return c.cast(a.self, c.dtype) - _scaled(c, a.other, a.alpha)


@aten("rsub.Scalar", "rsub.Tensor")
@exact_numbers
def _rsub(c: Context, a: Args) -> Expr:
    return c.cast(a.other, c.dtype) - _scaled(c, a.self, a.alpha)


@aten("mul.Tensor", "mul.Scalar", "multiply.Tensor")
@exact_numbers
def _mul(c: Context, a: Args) -> Expr:
    if c.dtype == "bool":
        return op.logical_and(c.cast(a.self, "bool"), c.cast(a.other, "bool"))
    return c.cast(a.self, c.dtype) * c.cast(a.other, c.dtype)


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
@exact_numbers
def _div(c: Context, a: Args) -> Expr:
    return c.cast(a.self, c.dtype) / c.cast(a.other, c.dtype)


@aten("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(c: Context, a: Args) -> Expr:
    x, y = c.cast(a.self, c.dtype), c.cast(a.other, c.dtype)
    if a.rounding_mode == "floor":
        return x // y
    if a.rounding_mode == "trunc":
        return op.trunc(x / y) if is_float(x) else truncated_quotient(c.emit(x), c.emit(y))
    return x / y


def truncated_quotient(x: Expr, y: Expr) -> Expr:
    """The quotient of integers towards zero: without the remainder, of the sign of ``x``, it is exact."""
    return (x - op.mod(x, y)) // y


@aten("pow.Tensor_Scalar", "pow.Scalar", "pow.Tensor_Tensor")
def _pow(c: Context, a: Args) -> Result:
    has_roots = c.dtype != "float16"  # torch has powers there: that of 0.5 is inf for -inf, where the root is NaN
    return rounded_once(partial(_power, has_roots))(c, a)


def _power(has_roots: bool, c: Context, a: Args) -> Expr:
    exponent = a.exponent
    if isinstance(a.self, Expr) and isinstance(exponent, (int, float)):
        x = c.cast(a.self, c.dtype)
        if exponent in (1, 2, 3):
            x = c.emit(x)
            result = x
            for _ in range(int(exponent) - 1):
                result = result * x
            return result
        if has_roots and exponent in (0.5, -0.5) and is_float(x):
            return op.sqrt(x) if exponent == 0.5 else op.rsqrt(x)
    return op.power(c.cast(a.self, c.dtype), c.cast(exponent, c.dtype))


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(c: Context, a: Args) -> Expr:
    return op.where(c.cast(a.condition, "bool"), c.cast(a.self, c.dtype), c.cast(a.other, c.dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c: Context, a: Args) -> Expr:
    return op.where(a.mask, c.cast(a.value, c.dtype), a.self)


@aten("clamp.default", "clamp.Tensor", "clip.default", "clamp_min.default", "clamp_max.default", "hardtanh.default",
      "clamp_min.Tensor", "clamp_max.Tensor")  # fmt: skip
def _clamp(c: Context, a: Args) -> Expr:
    low = getattr(a, "min", getattr(a, "min_val", None))
    high = getattr(a, "max", getattr(a, "max_val", None))
    result = c.cast(a.self, c.dtype)
    if low is not None:
        result = op.maximum(result, c.cast(low, c.dtype))
    return result if high is None else op.minimum(result, c.cast(high, c.dtype))


def _addc(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        result = fn(c.cast(a.tensor1, c.dtype), c.cast(a.tensor2, c.dtype))
        return c.cast(a.self, c.dtype) + (result if a.value == 1 else result * number(a.value, c.dtype))

    return translate


aten("addcmul.default")(rounded_once(_addc(op.multiply)))
aten("addcdiv.default")(rounded_once(_addc(op.divide)))


# ---- conversions and copies


@aten("to.dtype", "to.dtype_layout", "to.device", "to.other", "_to_copy.default", "type_as.default",
      "contiguous.default", "clone.default", "alias.default", "detach.default", "lift_fresh_copy.default",
      "lift_fresh.default", "detach_.default", "real.default", "positive.default", "lift.default",
      "alias_copy.default", "detach_copy.default", "resolve_conj.default", "resolve_neg.default", "conj.default",
      "conj_physical.default", "_conj.default", "prims.convert_element_type.default", "prims.copy_strided.default")  # fmt: skip
def _convert(c: Context, a: Args) -> Expr:
    return c.cast(next(iter(vars(a).values())), c.dtype)


@aten("copy.default", "fill.Tensor", "fill.Scalar")
def _copy(c: Context, a: Args) -> Expr:
    source = a.src if hasattr(a, "src") else a.value
    return c.broadcast(c.cast(source, c.dtype))
