"""The error function from its other end, and its inverse: erfc, erfinv.

Floats of up to 32 bits are computed in float32, within 3 units in the last place; float64 within a few. Meaning at the edges (NaN,
infinities, outside the domain) is that of numpy and torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ... import te
from ..common.gradients import slope
from ..common.table import R
from ..common.type_rules import float_tensor
from .special import bound, bound_all, in_numpy, number, polynomial
from .unary import unary

_ERFCX = (
    -0.67179408405669215, 0.67264322397765672, 0.047343306841863752, -0.046895610231160821, -0.0098726893641084612,
    0.0088249385561138294, 0.0017589335075480397, -0.0023458124784660516, -0.00014624628859718251, 0.00067367853713699214,
    -9.3738942091802614e-5, -0.00017430116360991256, 7.1418087672045431e-5, 3.1737328155349395e-5, -3.0237808255729672e-5,
    1.6080205095439504e-7, 8.6624944829869805e-6, -2.9942941183633133e-6, -1.4094127307024206e-6, 1.3137199073509803e-6,
    -4.1484920834124597e-8, -3.0865598204022059e-7, 7.7460013453603127e-8, 3.6758785381838821e-8, -1.2776506237493277e-8,
    -1.1141466421901909e-9,
)  # fmt: skip
"""Polynomial of log(erfc(x) exp(x^2) / t) in 2 t - 1, t = 2 / (2 + x): its Chebyshev series, computed with 40 digits."""
_ERFCX_F32 = (
    0.276978374, -0.0927638188, -0.166030511, 0.164050981, -0.0542179868, -0.00803045556, 0.00871010404, 0.00125185575,
    -0.00142342993, -0.000400814111, 0.000171788895, 8.060236e-05,
)  # fmt: skip
"""Polynomial of (1 + 2 x) erfc(x) exp(x^2) - 1 in (x - 2) / (x + 2), for 0 <= x <= 10.1: least squares of the relative error."""
_ERF_F32 = (1.12837923, -0.376126319, 0.112834789, -0.0268145688, 0.00487370091)
"""Polynomial of erf(x) / x in x^2 for x^2 < 0.17."""
_ERFINV_NEAR_F32 = (
    1.50140941, 0.246640295, -0.00417733518, -0.00125274749, 0.00021827723, -4.96029361e-06, -3.43212264e-06,
    4.65546066e-07, 1.75729635e-08, -8.74817108e-09, 3.65704383e-10,
)  # fmt: skip
"""Polynomial of erfinv(x) / x in w - 2.5 for w = -log(1 - x^2) < 5, made in the same way."""
_ERFINV_FAR_F32 = (
    2.83297682, 1.00167525, 0.00944527052, -0.00764311198, 0.00568800652, -0.00356519595, 0.00147381565, -0.000123885431,
    -0.000274877792, 0.000163184814, -3.14640274e-05,
)  # fmt: skip
"""The same in sqrt(w) - 3 for w from 5 to 16.7."""


def _of_width(
    small: Callable[[te.Value], te.Value], wide: Callable[[te.Value], te.Value]
) -> Callable[[te.Value], te.Value]:
    """``wide`` of float64, ``small`` of all others."""
    return lambda x: wide(x) if x.dtype.bits == 64 else small(x.astype("float32")).astype(x.dtype)


def _single(value: float) -> te.Value:
    return te.const(value, "float32")


def _fma(a: te.Value, b: te.Value, c: te.Value) -> te.Value:
    return te.intrinsic("fma", a, b, c)


def _fused(x: te.Value, coefficients: tuple[float, ...]) -> te.Value:
    """Value of a polynomial of a float32, lowest power first, with one rounding a step."""
    made = _single(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = _fma(made, x, _single(coefficient))
    return made


def erfcx_positive(x: te.Value) -> te.Value:
    """erfc(x) exp(x^2) of a float64 that is not negative."""
    return bound(2.0 / (x + 2.0), lambda t: t * te.exp(bound(t * 2.0 - 1.0, lambda y: polynomial(y, _ERFCX))))


def _erfc(x: te.Value) -> te.Value:
    def body(a: te.Value) -> te.Value:
        tail = erfcx_positive(a) * te.exp(0.0 - a * a)
        return bound(tail, lambda v: te.select(x < 0.0, 2.0 - v, v))

    return te.select(te.any(te.isinf(x), te.isnan(x)), 1.0 - te.tanh(x), bound(te.abs(x), body))


def _erfinv(x: te.Value) -> te.Value:
    """Giles's approximation, then two steps of Newton's method on erfc, which keeps its digits near 1."""
    near = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
            3.43273939e-07, 2.81022636e-08)  # fmt: skip
    far = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
           0.000100950558, -0.000200214257)  # fmt: skip

    def body(a: te.Value) -> te.Value:
        def first(w: te.Value) -> te.Value:
            low = bound(w - 2.5, lambda v: polynomial(v, near))
            high = bound(te.sqrt(te.maximum(w, 0.0)) - 3.0, lambda v: polynomial(v, far))
            return te.select(w < 5.0, low, high) * a

        def step(y: te.Value) -> te.Value:
            away = erfcx_positive(y) - (1.0 - a) * te.exp(y * y)
            return y + away * (math.sqrt(math.pi) / 2)

        guess = bound(0.0 - te.log((1.0 - a) * (a + 1.0)), first)
        y = bound(bound(guess, step), step)
        y = te.select(a < 1.0, y, te.select(a > 1.0, number(math.nan), number(math.inf)))
        return bound(y, lambda v: te.select(te.isnan(x), x, te.select(x < 0.0, 0.0 - v, v)))

    return bound(te.abs(x), body)


def _erfcx_f32(a: te.Value) -> te.Value:
    """erfc(a) exp(a^2) of a number from 0 to 10.1. Both quotients get back what their rounding lost."""
    one, two = _single(1.0), _single(2.0)

    def argument(values: Sequence[te.Value]) -> te.Value:
        r, q = values
        return _fma(r, _fma(_single(0.0) - a, q, _fma(q + 1.0, _single(-2.0), a)), q)

    def divided(values: Sequence[te.Value]) -> te.Value:
        p, r, s = values
        return _fma((p - s) + _fma(two * s, _single(0.0) - a, one), r, s)

    inverse = one / (a + 2.0)
    q = bound(inverse, lambda r: bound_all([r, _fma(_single(-4.0), r, one)], argument))
    half = _single(0.5) / (a + 0.5)
    p = bound(q, lambda v: _fused(v, _ERFCX_F32))
    return bound_all([p, half], lambda v: bound_all([v[0], v[1], _fma(v[0], v[1], v[1])], divided))


def _erfc_f32(x: te.Value) -> te.Value:
    """Near 0 a polynomial of x; elsewhere erfcx times exp(-x^2), the square in two parts, as the exponential needs both."""

    def far(a: te.Value) -> te.Value:
        low = _fma(a, a, _single(0.0) - a * a)
        tail = bound(te.exp(_single(0.0) - a * a) * _erfcx_f32(a), lambda v: v - v * low)
        return bound(tail, lambda v: te.select(x < _single(0.0), _single(2.0) - v, v))

    near = _single(1.0) - x * bound(x * x, lambda v: _fused(v, _ERF_F32))
    made = bound(bound(te.minimum(te.abs(x), _single(10.1)), far), lambda v: te.select(te.isnan(x), x, v))
    return bound(made, lambda v: te.select(te.abs(x) < _single(0.4), near, v))


def _erfinv_f32(x: te.Value) -> te.Value:
    """Giles's split of the argument, with polynomials fitted for float32."""

    def body(a: te.Value) -> te.Value:
        def scale(w: te.Value) -> te.Value:
            near = bound(w - 2.5, lambda v: _fused(v, _ERFINV_NEAR_F32))
            far = bound(te.sqrt(te.maximum(w, _single(0.0))) - 3.0, lambda v: _fused(v, _ERFINV_FAR_F32))
            return te.select(w < _single(5.0), near, far)

        made = x * bound(_single(0.0) - te.log((_single(1.0) - a) * (a + 1.0)), scale)
        return te.select(a == _single(1.0), x * _single(math.inf), te.select(a < _single(1.0), made, _single(math.nan)))

    return bound(te.abs(x), body)


def _erfinv_ref(value: float) -> float:
    if math.isnan(value) or abs(value) >= 1:
        return math.copysign(math.inf, value) if abs(value) == 1 else math.nan
    low, high = 0.0, 7.0
    rest = 1 - abs(value)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle) > rest else (low, middle)
    return math.copysign(low, value)


# fmt: off
erfc = unary("erfc", float_tensor, in_numpy(math.erfc), _of_width(_erfc_f32, _erfc),
             "Returns 1 - erf(x) without loss of digits for large x.",
             grad=slope(lambda g, x: g * (R.exp(-R.square(x)) * (-2 / math.sqrt(math.pi)))), torch=("erfc", "special_erfc"))
erfinv = unary("erfinv", float_tensor, in_numpy(_erfinv_ref), _of_width(_erfinv_f32, _erfinv),
               "Returns the inverse of erf (Giles 2012, refined); NaN outside [-1, 1].", domain=(-0.99, 0.99),
               grad=slope(lambda g, x: g * (R.exp(R.square(R.erfinv(x))) * (math.sqrt(math.pi) / 2))),
               torch=("erfinv", "special_erfinv"))
# fmt: on
