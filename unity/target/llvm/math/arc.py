"""Inverse trigonometric functions: asin, acos, atan, atan2."""

from __future__ import annotations

from math import inf, nan

from .coefficients import POLYNOMIALS
from .constants import HALF_PI, split
from .lanes import Value, absolute, copy_sign, divide, fma, polynomial, square_root

TAN_PI_8 = 0.4142135623730951
TAN_3PI_8 = 2.414213562373095

# atan2: above the first number multiply by the second, below the third by the fourth
SCALING = {"f32": (2.0**120, 2.0**-30, 2.0**-90, 2.0**30), "f64": (2.0**1000, 2.0**-60, 2.0**-900, 2.0**100)}


def _arcsine_tail(x: Value, z: Value) -> Value:
    """asin(x) - x for |x| <= 1/2, z = x * x."""
    return x * z * polynomial(z, POLYNOMIALS["ASIN"][x.kind])


def asin(x: Value) -> Value:
    """Arc sine; NaN outside [-1, 1]."""
    a = absolute(x)
    outer = a.gt(0.5)
    z = outer.select((1.0 - a) * 0.5, a * a)
    s = outer.select(square_root(z), a)
    rest = _arcsine_tail(s, z)
    half_pi, half_pi_low = split(HALF_PI, x.kind)
    # pi/2 - 2 * (s + rest), with the error of the square root put back
    lost = divide(fma(-s, s, z), s + s)
    lost = s.gt(0.0).select(lost, 0.0)
    large = half_pi - (s * 2.0 - (half_pi_low - (rest + lost) * 2.0))
    return copy_sign(outer.select(large, s + rest), x)


def acos(x: Value) -> Value:
    """Arc cosine; NaN outside [-1, 1]."""
    a = absolute(x)
    outer = a.gt(0.5)
    z = outer.select((1.0 - a) * 0.5, a * a)
    s = outer.select(square_root(z), x)
    rest = _arcsine_tail(s, z)
    lost = outer.select(divide(fma(-s, s, z), s + s), 0.0)
    lost = s.ne(0.0).select(lost, 0.0)
    half_pi, half_pi_low = split(HALF_PI, x.kind)
    inner = half_pi - (s - (half_pi_low - rest))
    near_one = (s + (rest + lost)) * 2.0
    near_minus_one = 2.0 * half_pi - (near_one - 2.0 * half_pi_low)
    result = outer.select(x.lt(0.0).select(near_minus_one, near_one), inner)
    return a.le(1.0).select(result, nan)


def _arctangent_of_ratio(numerator: Value, denominator: Value) -> tuple[Value, Value]:
    """(high, low) of atan(numerator / denominator) for two non-negative numbers; NaN for 0/0 and inf/inf."""
    kind = numerator.kind
    half_pi, half_pi_low = split(HALF_PI, kind)
    ratio = numerator / denominator
    middle, large = ratio.gt(TAN_PI_8), ratio.gt(TAN_3PI_8)
    # atan(q) = pi/4 + atan((q - 1) / (q + 1)) = pi/2 + atan(-1 / q)
    top = large.select(-denominator, middle.select(numerator - denominator, numerator))
    bottom = large.select(numerator, middle.select(numerator + denominator, denominator))
    x = top / bottom
    x_low = fma(-x, bottom, top) / bottom
    z = x * x
    rest = fma(x * z, polynomial(z, POLYNOMIALS["ATAN"][kind]), x_low)
    base = large.select(numerator.constant(half_pi), middle.select(numerator.constant(half_pi / 2), 0.0))
    base_low = large.select(numerator.constant(half_pi_low), middle.select(numerator.constant(half_pi_low / 2), 0.0))
    total = base + x
    lost = (base - total) + x
    return total, lost + (base_low + rest)


def atan(x: Value) -> Value:
    """Arc tangent."""
    kind = x.kind
    half_pi, half_pi_low = split(HALF_PI, kind)
    a = absolute(x)
    middle, large = a.gt(TAN_PI_8), a.gt(TAN_3PI_8)
    top = large.select(x.constant(-1.0), middle.select(a - 1.0, a))
    bottom = large.select(a, middle.select(a + 1.0, 1.0))
    t = divide(top, bottom)
    z = t * t
    rest = t * z * polynomial(z, POLYNOMIALS["ATAN"][kind])
    base = large.select(x.constant(half_pi), middle.select(x.constant(half_pi / 2), 0.0))
    base_low = large.select(x.constant(half_pi_low), middle.select(x.constant(half_pi_low / 2), 0.0))
    return copy_sign(base + (t + (rest + base_low)), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y) with the special cases of C's atan2.

    The arc tangent of the smaller over the larger coordinate, put into its octant.
    """
    a, b = absolute(y), absolute(x)
    steep = a.gt(b)
    small, large = steep.select(b, a), steep.select(a, b)
    # keep sums below the largest number, and the ratio of denormals exact
    high, down, low_limit, up = SCALING[x.kind]
    factor = large.gt(high).select(x.constant(down), large.lt(low_limit).select(x.constant(up), 1.0))
    angle, low = _arctangent_of_ratio(small * factor, large * factor)
    # 0/0, inf/inf and finite/inf have no useful ratio
    same, vanishing = a.eq(b), large.eq(0.0)
    half_pi, half_pi_low = split(HALF_PI, x.kind)
    angle, low = same.select(half_pi / 2, angle), same.select(half_pi_low / 2, low)
    vanishing = vanishing | (large.eq(inf) & ~same)
    angle, low = vanishing.select(0.0, angle), vanishing.select(0.0, low)
    angle, low = steep.select(-angle, angle), steep.select(half_pi_low - low, low)
    base = steep.select(x.constant(half_pi), 0.0)
    behind = x.as_bits().lt(0)
    angle, low = behind.select(-angle, angle), behind.select(2.0 * half_pi_low - low, low)
    base = behind.select(2.0 * half_pi - base, base)
    total = base + angle
    lost = (base - total) + angle
    return copy_sign((x.is_nan() | y.is_nan()).select(nan, total + (lost + low)), y)
