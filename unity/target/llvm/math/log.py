"""log, log2, log10, log1p and what is made of them: asinh, acosh, atanh.

x = 2^e * m with m within [sqrt(1/2), sqrt(2)), and log(m) as a sum of two floats, so that every base and every combination
rounds once at the end.
"""

from __future__ import annotations

from math import inf, nan

from .coefficients import POLYNOMIALS
from .constants import LN2, LOG2_E, LOG10_2, LOG10_E, MANTISSA, ROUND_MAGIC, SMALLEST_NORMAL, magic_bits, split
from .lanes import Value, absolute, copy_sign, divide, fma, polynomial, square_root

SQRT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}


def split_exponent(x: Value) -> tuple[Value, Value]:
    """(e as a float, m) with x = 2^e * m, for finite x > 0, denormals included."""
    kind, shift = x.kind, MANTISSA[x.kind] + 1
    denormal = x.lt(SMALLEST_NORMAL[kind])
    bits = denormal.select(x * 2.0**shift, x).as_bits()
    exponent = (bits - SQRT_HALF_BITS[kind]) >> MANTISSA[kind]
    m = (bits - (exponent << MANTISSA[kind])).as_float()
    exponent = denormal.select(exponent - shift, exponent)
    return (exponent + magic_bits(kind)).as_float() - ROUND_MAGIC[kind], m


def log_fraction(m: Value) -> tuple[Value, Value]:
    """log(m) as high + low for m within [sqrt(1/2), sqrt(2))."""
    f = m - 1.0
    if m.kind == "f32":
        return f, f * f * polynomial(f, POLYNOMIALS["LOG"]["f32"])
    half_square = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    high = f - half_square
    lost = (f - high) - half_square - fma(f * 0.5, f, -half_square)
    low = fma(s, half_square + z * polynomial(z, POLYNOMIALS["LOG_RATIO"]["f64"]), lost)
    return high, low


def with_special_cases(x: Value, result: Value) -> Value:
    """The logarithm's values outside the finite positive numbers: 0 -> -inf, inf -> inf, negative and NaN -> NaN."""
    other = x.eq(0.0).select(x.constant(-inf), nan)
    return x.gt(0.0).select(x.eq(inf).select(x, result), other)


def _log(x: Value, of_e: str | None, of_two: str) -> Value:
    """Logarithm to a base, given the base's logarithms of e (None: 1) and of two."""
    exponent, m = split_exponent(x)
    high, low = log_fraction(m)
    if of_e is not None:
        factor, factor_low = split(of_e, x.kind)
        low = fma(high, factor_low, low * factor)
        two_high, two_low = split(of_two, x.kind)
        scaled = high * factor
        low = low + fma(high, factor, -scaled)
        high = scaled
    else:
        two_high, two_low = split(of_two, x.kind)
    if two_low:
        low = fma(exponent, two_low, low)
    # high + low is rounded only where the exponent is zero or the sum is small against exponent * log(2)
    whole = exponent * two_high
    total = whole + high
    lost = fma(exponent, two_high, -whole) + ((whole - total) + high)
    return with_special_cases(x, total + (low + lost))


def log(x: Value) -> Value:
    """Natural logarithm."""
    return _log(x, None, LN2)


def log2(x: Value) -> Value:
    """Logarithm to base 2."""
    return _log(x, LOG2_E, "1")


def log10(x: Value) -> Value:
    """Logarithm to base 10."""
    return _log(x, LOG10_E, LOG10_2)


def log1p(x: Value) -> Value:
    """log(1 + x) with full relative accuracy near 0."""
    u = x + 1.0
    lost = u.ge(2.0).select(1.0 - (u - x), x - (u - 1.0))
    exponent, m = split_exponent(u)
    high, low = log_fraction(m)
    two_high, two_low = split(LN2, x.kind)
    low = fma(exponent, two_low, low + divide(lost, u))
    result = with_special_cases(u, fma(exponent, two_high, high + low))
    return x.eq(0.0).select(x, result)


def asinh(x: Value) -> Value:
    """Inverse hyperbolic sine."""
    a = absolute(x)
    large = a.gt(2.0**28)
    square = a * a
    argument = a + divide(square, square_root(square + 1.0) + 1.0)
    result = log1p(large.select(a - 1.0, argument))
    return copy_sign(large.select(result + split(LN2, x.kind)[0], result), x)


def acosh(x: Value) -> Value:
    """Inverse hyperbolic cosine; NaN below 1."""
    t = x - 1.0
    large = x.gt(2.0**28)
    result = log1p(large.select(t, t + square_root(t * 2.0 + t * t)))
    result = large.select(result + split(LN2, x.kind)[0], result)
    return x.lt(1.0).select(nan, result)


def atanh(x: Value) -> Value:
    """Inverse hyperbolic tangent; infinite at +-1, NaN outside."""
    a = absolute(x)
    return copy_sign(log1p(divide(a * 2.0, 1.0 - a)) * 0.5, x)
