"""Special functions of one tensor: exponentials and logarithms near 0 and in other bases, the gamma function.

As in unary.py 16-bit floats are computed in float32. The gamma functions are computed in float64 and rounded once. Meaning at
the edges (NaN, infinities, poles) is that of numpy and torch. The error functions: error_functions.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ... import te
from ...ir.expr import Var
from ...ir.scalar import Let
from ...ir.types import prim_type
from ..common.gradients import slope
from ..common.table import R
from ..common.type_rules import float_tensor
from .unary import unary

_LANCZOS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Lanczos's approximation of the gamma function, g = 7, 9 terms."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""Terms of the asymptotic series of log(x) - 1 / (2 x) - digamma(x) in 1 / x^2."""


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
        near = te.tanh(x * 0.5) * (grown + 1.0)
        near = te.select(te.abs(x) < tiny, x, near)
        return te.select(te.abs(x) < 1.0, near, grown - 1.0)

    return bound(te.exp(x), body)


def log_gamma(x: te.Value) -> te.Value:
    """Logarithm of the absolute value of the gamma function of a float64."""
    mirrored = x < 0.5

    def body(z: te.Value) -> te.Value:
        series = number(0.99999999999980993)
        for n, p in enumerate(_LANCZOS):
            series = series + number(p) / (z + (n + 1.0))
        made = (z + 0.5) * te.log(z + 7.5) - (z + 7.5) + te.log(series) + 0.5 * math.log(2 * math.pi)
        turn = te.abs(te.sin((x - te.nearbyint(x)) * math.pi))
        reflected = lambda v: te.select(mirrored, math.log(math.pi) - te.log(turn) - v, v)  # noqa: E731
        return bound(made, reflected)

    pole = te.any(te.isinf(x), te.all(x <= 0.0, te.floor(x) == x))
    return te.select(pole, math.inf, bound(te.select(mirrored, 1.0 - x, x) - 1.0, body))


def _digamma(x: te.Value) -> te.Value:
    mirrored = x < 0.0

    def body(z: te.Value) -> te.Value:
        shift = number(0.0)
        for n in range(7):
            shift = shift + 1.0 / (z + float(n))
        far = z + 7.0
        series = bound(1.0 / (far * far), lambda v: v * polynomial(v, _DIGAMMA))
        made = te.log(far) - 0.5 / far - series - shift
        part = x - te.nearbyint(x)
        turn = math.pi * te.cos(part * math.pi) / te.sin(part * math.pi)
        return made - te.select(mirrored, turn, 0.0)

    made = bound(te.select(mirrored, 1.0 - x, x), body)
    edge = te.select(mirrored, math.nan, x)
    made = te.select(te.any(te.isinf(x), te.all(mirrored, te.floor(x) == x)), edge, made)
    return te.select(x == 0.0, -1.0 / x, made)


def in_numpy(fn: Callable[[float], float], poles: float = math.nan) -> Callable[[np.ndarray], np.ndarray]:
    """A function of numbers on arrays; ``poles`` is what it gives where it raises ValueError."""

    def one(value: float) -> float:
        try:
            return fn(value)
        except ValueError:
            return poles

    found = np.vectorize(one, otypes=[np.float64])
    return lambda x: np.asarray(found(x.astype(np.float64)) if x.size else x).astype(x.dtype)


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


# fmt: off
log1p = unary("log1p", float_tensor, np.log1p, te.log1p,
              "Returns log(1 + x) without loss of digits near 0; -infinity at -1, NaN below.",
              grad=slope(lambda g, x: g / (x + 1.0)), domain=(-0.9, 3), torch=("log1p", "special_log1p"))
expm1 = unary("expm1", float_tensor, np.expm1, _expm1, "Returns exp(x) - 1 without loss of digits near 0.",
              grad=slope(lambda g, x: g * R.exp(x)), torch=("expm1", "special_expm1"))
log2 = unary("log2", float_tensor, np.log2, te.log2, "Returns the logarithm to base 2; -infinity at 0, NaN below.",
             grad=slope(lambda g, x: g / (x * math.log(2))), domain=(0.1, 3), torch=("log2",))
log10 = unary("log10", float_tensor, np.log10, te.log10, "Returns the logarithm to base 10; -infinity at 0, NaN below.",
              grad=slope(lambda g, x: g / (x * math.log(10))), domain=(0.1, 3), torch=("log10",))
exp2 = unary("exp2", float_tensor, np.exp2, lambda x: te.intrinsic("exp2", x), "Returns 2 to the power x.",
             grad=slope(lambda g, x: g * (R.exp2(x) * math.log(2))), torch=("exp2", "special_exp2"))
lgamma = unary("lgamma", float_tensor, in_numpy(math.lgamma, math.inf), in_float64(log_gamma),
               "Returns log(|gamma(x)|), by Lanczos's approximation; infinity at 0 and negative integers.", domain=(0.1, 3),
               grad=slope(lambda g, x: g * R.digamma(x)), torch=("lgamma", "special_gammaln"))
digamma = unary("digamma", float_tensor, in_numpy(_digamma_ref), in_float64(_digamma),
                "Returns the derivative of log(gamma(x)), by recurrence and asymptotic series; NaN at negative integers.",
                domain=(0.1, 3), grad=slope(lambda g, x: g * R.polygamma(x, n=1)),
                torch=("digamma", "special_digamma", "special_psi"))
# fmt: on
