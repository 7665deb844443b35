"""Special functions of one tensor: exponentials and logarithms near 0 and in other bases, error functions, the gamma function.

As in elementwise.py 16-bit floats are computed in float32. The gamma functions and erfinv are computed in float64 and rounded
once. Meaning at the edges (NaN, infinities, poles) is that of numpy and torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .. import te
from ..ir.expr import Call, Var
from ..ir.scalar import Let
from ..ir.types import TensorType, prim_type
from .elementwise import unary
from .rules import float_tensor

_ERFCX = (
    -0.67179408405669215, 0.67264322397765672, 0.047343306841863752, -0.046895610231160821, -0.0098726893641084612,
    0.0088249385561138294, 0.0017589335075480397, -0.0023458124784660516, -0.00014624628859718251, 0.00067367853713699214,
    -9.3738942091802614e-5, -0.00017430116360991256, 7.1418087672045431e-5, 3.1737328155349395e-5, -3.0237808255729672e-5,
    1.6080205095439504e-7, 8.6624944829869805e-6, -2.9942941183633133e-6, -1.4094127307024206e-6, 1.3137199073509803e-6,
    -4.1484920834124597e-8, -3.0865598204022059e-7, 7.7460013453603127e-8, 3.6758785381838821e-8, -1.2776506237493277e-8,
    -1.1141466421901909e-9,
)  # fmt: skip
"""Polynomial of log(erfc(x) exp(x^2) / t) in 2 t - 1, t = 2 / (2 + x): its Chebyshev series, computed with 40 digits."""
_LANCZOS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Lanczos's approximation of the gamma function, g = 7, 9 terms."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""Terms of the asymptotic series of log(x) - 1 / (2 x) - digamma(x) in 1 / x^2."""


def float_operand(call: Call) -> TensorType:
    """Type rule: one float tensor."""
    return float_tensor(call, 0)


def in_float64(fn: Callable[[te.Value], te.Value]) -> Callable[[te.Value], te.Value]:
    """A function of float64 values for values of any float type, rounded once."""
    return lambda x: fn(x.astype("float64")).astype(x.dtype)


def number(value: float) -> te.Value:
    """A float64 constant."""
    return te.const(value, "float64")


def bound(value: te.Value, body: Callable[[te.Value], te.Value]) -> te.Value:
    """``body`` of a value that is computed once."""
    var = Var("v", prim_type(value.dtype))
    return te.Value(Let(var, te.unwrap(value), te.unwrap(body(te.Value(var)))))


def bound_all(values: Sequence[te.Value], body: Callable[[Sequence[te.Value]], te.Value]) -> te.Value:
    """``body`` of several values that are each computed once."""
    found: list[te.Value] = []

    def rest(n: int) -> te.Value:
        if n == len(values):
            return body(found)

        def taken(value: te.Value) -> te.Value:
            found.append(value)
            return rest(n + 1)

        return bound(values[n], taken)

    return rest(0)


def polynomial(x: te.Value, coefficients: Sequence[float]) -> te.Value:
    """Value of a polynomial, lowest power first, by Horner's rule."""
    made = te.const(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        made = made * x + coefficient
    return made


_EXPM1_TINY = {"float16": 2.0**-12, "bfloat16": 2.0**-9, "float32": 2.0**-25, "float64": 2.0**-54}


def _expm1(x: te.Value) -> te.Value:
    """tanh(x / 2) (exp(x) + 1) near 0, where exp(x) - 1 loses its digits; x itself where the rest is below its last digit."""
    tiny = te.const(_EXPM1_TINY[x.dtype.name], x.dtype)

    def body(grown: te.Value) -> te.Value:
        near = te.tanh(x * te.const(0.5, x.dtype)) * (grown + 1.0)
        near = te.select(te.abs(x) < tiny, x, near)
        return te.select(te.abs(x) < te.const(1.0, x.dtype), near, grown - 1.0)

    return bound(te.exp(x), body)


def erfcx_positive(x: te.Value) -> te.Value:
    """erfc(x) exp(x^2) of a float64 that is not negative."""
    return bound(number(2.0) / (x + 2.0), lambda t: t * te.exp(bound(t * 2.0 - 1.0, lambda y: polynomial(y, _ERFCX))))


def _erfc(x: te.Value) -> te.Value:
    def body(a: te.Value) -> te.Value:
        tail = erfcx_positive(a) * te.exp(number(0.0) - a * a)
        return bound(tail, lambda v: te.select(x < number(0.0), number(2.0) - v, v))

    return te.select(te.any(te.isinf(x), te.isnan(x)), number(1.0) - te.tanh(x), bound(te.abs(x), body))


def _erfinv(x: te.Value) -> te.Value:
    """Giles's approximation, then two steps of Newton's method on erfc, which keeps its digits near 1."""
    near = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
            3.43273939e-07, 2.81022636e-08)  # fmt: skip
    far = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
           0.000100950558, -0.000200214257)  # fmt: skip

    def body(a: te.Value) -> te.Value:
        def first(w: te.Value) -> te.Value:
            low = bound(w - 2.5, lambda v: polynomial(v, near))
            high = bound(te.sqrt(te.maximum(w, number(0.0))) - 3.0, lambda v: polynomial(v, far))
            return te.select(w < number(5.0), low, high) * a

        def step(y: te.Value) -> te.Value:
            away = erfcx_positive(y) - (number(1.0) - a) * te.exp(y * y)
            return y + away * (math.sqrt(math.pi) / 2)

        guess = bound(number(0.0) - te.log((number(1.0) - a) * (a + 1.0)), first)
        y = bound(bound(guess, step), step)
        y = te.select(a < number(1.0), y, te.select(a > number(1.0), number(math.nan), number(math.inf)))
        return bound(y, lambda v: te.select(te.isnan(x), x, te.select(x < number(0.0), number(0.0) - v, v)))

    return bound(te.abs(x), body)


def _lgamma(x: te.Value) -> te.Value:
    mirrored = x < number(0.5)

    def body(z: te.Value) -> te.Value:
        series = number(0.99999999999980993)
        for n, p in enumerate(_LANCZOS):
            series = series + number(p) / (z + (n + 1.0))
        made = (z + 0.5) * te.log(z + 7.5) - (z + 7.5) + te.log(series) + 0.5 * math.log(2 * math.pi)
        turn = te.abs(te.sin((x - te.nearbyint(x)) * math.pi))
        reflected = lambda v: te.select(mirrored, number(math.log(math.pi)) - te.log(turn) - v, v)  # noqa: E731
        return bound(made, reflected)

    pole = te.any(te.isinf(x), te.all(x <= number(0.0), te.floor(x) == x))
    return te.select(pole, number(math.inf), bound(te.select(mirrored, number(1.0) - x, x) - 1.0, body))


def _digamma(x: te.Value) -> te.Value:
    mirrored = x < number(0.0)

    def body(z: te.Value) -> te.Value:
        shift = number(0.0)
        for n in range(7):
            shift = shift + number(1.0) / (z + float(n))
        far = z + 7.0
        series = bound(number(1.0) / (far * far), lambda v: v * polynomial(v, _DIGAMMA))
        made = te.log(far) - number(0.5) / far - series - shift
        part = x - te.nearbyint(x)
        turn = number(math.pi) * te.cos(part * math.pi) / te.sin(part * math.pi)
        return made - te.select(mirrored, turn, number(0.0))

    made = bound(te.select(mirrored, number(1.0) - x, x), body)
    edge = te.select(mirrored, number(math.nan), x)
    made = te.select(te.any(te.isinf(x), te.all(mirrored, te.floor(x) == x)), edge, made)
    return te.select(x == number(0.0), number(-1.0) / x, made)


def in_numpy(fn: Callable[[float], float], poles: float = math.nan) -> Callable[[np.ndarray], np.ndarray]:
    """A function of numbers on arrays; ``poles`` is what it gives where it raises ValueError."""

    def one(value: float) -> float:
        try:
            return fn(value)
        except ValueError:
            return poles

    found = np.vectorize(one, otypes=[np.float64])
    return lambda x: np.asarray(found(x.astype(np.float64)) if x.size else x).astype(x.dtype)


def _erfinv_ref(value: float) -> float:
    if math.isnan(value) or abs(value) >= 1:
        return math.copysign(math.inf, value) if abs(value) == 1 else math.nan
    low, high = 0.0, 7.0
    rest = 1 - abs(value)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle) > rest else (low, middle)
    return math.copysign(low, value)


def _digamma_ref(value: float) -> float:
    if value == 0:
        return math.copysign(math.inf, -value)
    if math.isinf(value) or math.isnan(value) or (value < 0 and value == math.floor(value)):
        return math.nan if value < 0 else value
    if value < 0:
        return _digamma_ref(1 - value) - math.pi / math.tan(math.pi * value)
    total = 0.0
    while value < 20:
        total -= 1 / value
        value += 1
    inverse = 1 / value**2
    return total + math.log(value) - 0.5 / value - sum([t * inverse ** (n + 1) for n, t in enumerate(_DIGAMMA)])


log1p = unary("log1p", float_operand, np.log1p, te.log1p, "Natural logarithm of 1 + x, exact near 0.")
expm1 = unary("expm1", float_operand, np.expm1, _expm1, "exp(x) - 1, exact near 0.")
log2 = unary("log2", float_operand, np.log2, te.log2, "Logarithm to base 2.")
log10 = unary("log10", float_operand, np.log10, te.log10, "Logarithm to base 10.")
exp2 = unary("exp2", float_operand, np.exp2, lambda x: te.intrinsic("exp2", x), "2 to the power x.")
erfc = unary("erfc", float_operand, in_numpy(math.erfc), in_float64(_erfc), "1 - erf(x), exact far from 0.")
erfinv = unary("erfinv", float_operand, in_numpy(_erfinv_ref), in_float64(_erfinv), "Inverse of the error function.")
lgamma = unary(
    "lgamma",
    float_operand,
    in_numpy(math.lgamma, math.inf),
    in_float64(_lgamma),
    "Logarithm of the absolute value of the gamma function.",
)
digamma = unary(
    "digamma",
    float_operand,
    in_numpy(_digamma_ref),
    in_float64(_digamma),
    "Derivative of the logarithm of the gamma function.",
)
