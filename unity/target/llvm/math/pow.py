"""pow, with the logarithm carried in two floats, and hypot."""

from __future__ import annotations

from math import inf, nan

from .coefficients import POLYNOMIALS
from .constants import LN2, THIRD, split
from .exp import exp_scaled
from .lanes import Value, absolute, copy_sign, fma, intrinsic, polynomial, square_root
from .log import split_exponent


def _add(large: Value, small: Value) -> tuple[Value, Value]:
    """large + small as rounded sum and exact error, for |large| >= |small| or large = 0."""
    total = large + small
    return total, (large - total) + small


def _multiply(a: Value, b: Value | float) -> tuple[Value, Value]:
    """a * b as rounded product and exact error."""
    product = a * b
    return product, fma(a, b, -product)


def _long_log(x: Value) -> tuple[Value, Value]:
    """log(x) as high + low with about 70 correct bits, for finite x > 0 (float64)."""
    exponent, m = split_exponent(x)
    f = m - 1.0
    d = m + 1.0
    d_low = m - (d - 1.0)
    s = f / d
    s_low = (fma(-s, d, f) - s * d_low) / d
    z, z_low = _multiply(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    third, third_low = split(THIRD, "f64")
    t, t_low = _multiply(z, third)
    t_low = fma(z, third_low, fma(z_low, third, t_low))
    u, u_low = _add(t, z * z * polynomial(z, POLYNOMIALS["LOG_TAIL"]["f64"]))
    u_low = u_low + t_low
    v, v_low = _multiply(s, u)
    v_low = fma(s, u_low, fma(s_low, u, v_low))
    high, low = _add(s, v)
    low = low + (v_low + s_low)
    two_high, two_low = split(LN2, "f64")
    whole, whole_low = _multiply(exponent, two_high)
    whole_low = fma(exponent, two_low, whole_low)
    total, lost = _add(whole, high * 2.0)
    return _add(total, lost + fma(low, 2.0, whole_low))


def _power_of_positive(a: Value, y: Value) -> Value:
    """a^y for finite a > 0 and finite y (float64)."""
    log_high, log_low = _long_log(a)
    product, error = _multiply(y, log_high)
    tail = fma(y, log_low, error)
    in_range = absolute(product).lt(800.0)
    return exp_scaled(product, tail=in_range.select(tail, 0.0))


def _short_power_of_positive(a: Value, y: Value) -> Value:
    """a^y in float64 arithmetic, exact enough to be rounded to float32."""
    exponent, m = split_exponent(a)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    log = s * fma(z, polynomial(z, POLYNOMIALS["LOG_RATIO_SHORT"]["f64"]), 2.0)
    return exp_scaled(y * fma(exponent, split(LN2, "f64")[0], log), precision="f32")


def _with_special_cases(x: Value, y: Value, result: Value) -> Value:
    """C's pow(x, y), given |x|^y for the ordinary numbers."""
    a = absolute(x)
    truncated = intrinsic("trunc", y)
    integral = truncated.eq(y)
    half = y * 0.5
    odd = integral & intrinsic("trunc", half).ne(half)
    y_infinite, y_negative = absolute(y).eq(inf), y.lt(0.0)
    edge = a.eq(0.0) | a.eq(inf)
    grows = a.gt(1.0) ^ y_negative  # the limit is infinity, not zero
    result = (edge | y_infinite).select(grows.select(y.constant(inf), 0.0), result)
    result = (y_infinite & a.eq(1.0)).select(1.0, result)
    result = odd.select(copy_sign(result, x), result)
    undefined = x.lt(0.0) & ~integral & a.ne(inf)
    result = (undefined | x.is_nan() | y.is_nan()).select(nan, result)
    return (x.eq(1.0) | y.eq(0.0)).select(1.0, result)


def power(x: Value, y: Value) -> Value:
    """x^y; float32 is computed in float64 with short polynomials."""
    if x.kind == "f32":
        result = _short_power_of_positive(absolute(x).widened(), y.widened()).narrowed()
    else:
        result = _power_of_positive(absolute(x), y)
    return _with_special_cases(x, y, result)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without overflow; infinite where either is, even next to NaN."""
    if x.kind == "f32":
        wide_x, wide_y = x.widened(), y.widened()
        root = square_root(fma(wide_x, wide_x, wide_y * wide_y)).narrowed()
        infinite = absolute(x).eq(inf) | absolute(y).eq(inf)
        return infinite.select(inf, root)
    a, b = absolute(x), absolute(y)
    swap = a.lt(b)
    large, small = swap.select(b, a), swap.select(a, b)
    # scale where squares would overflow, or where both numbers are small enough for squares to lose digits
    huge, tiny = large.gt(2.0**500), large.lt(2.0**-400)
    factor = huge.select(x.constant(2.0**-600), tiny.select(x.constant(2.0**600), 1.0))
    back = huge.select(x.constant(2.0**600), tiny.select(x.constant(2.0**-600), 1.0))
    large, small = large * factor, small * factor
    square, lost = _multiply(large, large)
    total, error = _add(square, small * small)
    root = square_root(total)
    # one Newton step with the rounding errors of the sum
    correction = (fma(-root, root, total) + (error + lost)) / (root * 2.0)
    refined = total.gt(0.0).select(root + correction, root)
    return (a.eq(inf) | b.eq(inf)).select(inf, refined * back)
