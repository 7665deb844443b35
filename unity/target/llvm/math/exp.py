"""exp, exp2, exp10, expm1 and what is made of them: sigmoid, sinh, cosh, tanh, erf.

All share one reduction: x = k * ln(2) + r, |r| <= ln(2)/2, and one polynomial for (exp(r) - 1 - r) / r^2. The power of two
is multiplied in two steps, or by the instruction for it, so that denormal results are rounded once and overflow gives infinity
by itself. The error function is an odd polynomial up to 1; beyond it 1 - exp(x * P(x)), in float64 1 - exp(-x^2) * P(1 / (1 + x)).
"""

from __future__ import annotations

from collections.abc import Callable

from .coefficients import POLYNOMIALS
from .constants import BIAS, LN2, LN10, LOG2_E, LOG10_2, MANTISSA, ROUND_MAGIC, magic_bits, split
from .lanes import Value, absolute, copy_sign, divide, fma, load_exponent, polynomial

# Outside these ranges the result is 0 or infinity; clamping keeps the exponent arithmetic in range.
EXP_RANGE = {"f32": (-104.5, 90.0), "f64": (-746.0, 711.0)}
EXPM1_LARGEST = {"f32": 89.0, "f64": 710.0}
EXP2_RANGE = {"f32": (-151.0, 130.0), "f64": (-1076.0, 1026.0)}
EXP10_RANGE = {"f32": (-45.5, 39.5), "f64": (-324.0, 310.0)}


def nearest_integer(x: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """round(x * factor) = k as a float, and an integer with k + 2 * BIAS in its low bits, for |x * factor| below 2^21; NaN gives
    NaN and some integer."""
    magic = ROUND_MAGIC[x.kind] + 2 * BIAS[x.kind]
    shifted = fma(x, factor, magic) if factor != 1.0 else x + magic
    return shifted - magic, shifted.as_bits()


def power_of_two(biased: Value, kind: str) -> Value:
    """2^k of an integer within the normal exponents; ``biased`` has k + BIAS in its low bits."""
    return (biased << MANTISSA[kind]).as_float()


def times_power_of_two(value: Value, biased: Value) -> Value:
    """value * 2^k for |k| below twice the largest exponent, rounded once; ``biased`` has k + 2 * BIAS in its low bits."""
    half = biased.logical_shift_right(1)
    return value * power_of_two(half, value.kind) * power_of_two(biased - half, value.kind)


def scale(value: Value, k: Value, biased: Value, extra: int = 0) -> Value:
    """value * 2^(k + extra) for the two values of ``nearest_integer``, rounded once."""
    biased = biased + extra if extra else biased
    if value.function.scales:
        whole = biased - (magic_bits(value.kind) + 2 * BIAS[value.kind])
        return load_exponent(value, k + float(extra) if extra else k, whole)
    return times_power_of_two(value, biased)


def limited(x: Value, limits: tuple[float, float]) -> tuple[Value, Callable[[Value], Value]]:
    """x held to the limits, and what makes the result of it. A processor takes a hundred cycles for a product that underflows, and
    masks make many (exp(-inf)): below the limits x becomes 0, and the result 0 in the end."""
    low, high = limits
    if x.function.estimates or x.function.scales:  # neither takes time for it
        return x.clamp(low, high), lambda result: result
    zero = x.lt(low)
    return zero.select(0.0, x.gt(high).select(high, x)), lambda result: zero.select(0.0, result)


def quadratic(r: Value, precision: str = "") -> Value:
    """exp(r) - 1 - r for |r| <= ln(2)/2; precision is that of the value's kind if not given."""
    return r * r * polynomial(r, POLYNOMIALS["EXP"][precision or r.kind])


def exp_scaled(x: Value, extra: int = 0, tail: Value | None = None, precision: str = "") -> Value:
    """exp(x + tail) * 2^extra; the tail is a small correction of x, the precision that of x's kind if not given."""
    x, finish = limited(x, EXP_RANGE[x.kind])
    high, low = split(LN2, x.kind)
    k, k_int = nearest_integer(x, split(LOG2_E, x.kind)[0])
    exact = fma(k, -high, x)  # no rounding: the leading digits cancel
    if tail is None:
        made = polynomial(fma(k, -low, exact), (1.0, 1.0, *POLYNOMIALS["EXP"][precision or x.kind]))
        return finish(scale(made, k, k_int, extra))
    rest = fma(k, -low, tail)
    fraction = exact + (rest + quadratic(exact + rest, precision))
    return finish(scale(fraction + 1.0, k, k_int, extra))


def exp(x: Value) -> Value:
    """e^x."""
    return exp_scaled(x)


def exp2(x: Value) -> Value:
    """2^x."""
    x, finish = limited(x, EXP2_RANGE[x.kind])
    k, k_int = nearest_integer(x)
    r = x - k
    factor, factor_low = split(LN2, x.kind)
    fraction = fma(r, factor, fma(r, factor_low, quadratic(r * factor)))
    return finish(scale(fraction + 1.0, k, k_int))


def exp10(x: Value) -> Value:
    """10^x."""
    x, finish = limited(x, EXP10_RANGE[x.kind])
    high, low = split(LOG10_2, x.kind)
    k, k_int = nearest_integer(x, 1.0 / (high + low))
    exact = fma(k, -high, x)
    r = fma(k, -low, exact)
    factor, factor_low = split(LN10, x.kind)
    rest = fma(k, -low * factor, fma(r, factor_low, quadratic(r * factor)))
    return finish(scale(fma(exact, factor, rest) + 1.0, k, k_int))


def expm1(x: Value) -> Value:
    """e^x - 1, exact in sign and relative accuracy near 0."""
    clamped = x.clamp(-60.0, EXPM1_LARGEST[x.kind])
    high, low = split(LN2, x.kind)
    k, k_int = nearest_integer(clamped, split(LOG2_E, x.kind)[0])
    exact = fma(k, -high, clamped)
    r = fma(k, -low, exact)
    p = exact + fma(k, -low, quadratic(r))
    half = power_of_two(k_int - (BIAS[x.kind] + 1), x.kind)  # 2^(k-1), so that k = 128 or 1024 does not overflow early
    result = fma(p, half, half - 0.5) * 2.0
    return copy_sign(k.eq(0.0).select(p, result), x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), without overflow and with full relative accuracy at the small end."""
    e = exp(-absolute(x))
    return divide(x.lt(0.0).select(e, 1.0), e + 1.0)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    a = absolute(x).clamp(0.0, 22.0)
    if x.kind == "f64":
        e = expm1(a * 2.0)
        return copy_sign(e / (e + 2.0), x)
    z = a * a
    small = fma(a * z, polynomial(z, POLYNOMIALS["TANH"]["f32"]), a)
    large = 1.0 - divide(2.0, exp(a * 2.0) + 1.0)
    return copy_sign(a.lt(0.65).select(small, large), x)


def sinh(x: Value) -> Value:
    """Hyperbolic sine."""
    a = absolute(x)
    e = expm1(a.clamp(0.0, 40.0))
    small = (e + divide(e, e + 1.0)) * 0.5
    return copy_sign(a.gt(30.0).select(exp_scaled(a, extra=-1), small), x)


def cosh(x: Value) -> Value:
    """Hyperbolic cosine."""
    half = exp_scaled(absolute(x), extra=-1)
    return half + divide(0.25, half)


LARGEST = {"f32": 4.0, "f64": 6.0}
"""From here on erf rounds to 1."""


def erf(x: Value) -> Value:
    """Error function."""
    a = absolute(x).clamp(0.0, LARGEST[x.kind])
    square = a * a
    small = fma(a, polynomial(square, POLYNOMIALS["ERF"][x.kind]), a)
    if x.kind == "f64":
        tail = exp(-square) * polynomial(1.0 / (a + 1.0), POLYNOMIALS["ERFC"]["f64"])
    else:
        tail = exp(a * polynomial(a, POLYNOMIALS["ERFC_LOG"]["f32"]))
    return copy_sign(a.lt(1.0).select(small, 1.0 - tail), x)
