"""Derivatives of digamma: ``R.polygamma``.

For positive x nine terms of the sum of 1 / (x + k)^(n + 1), then Euler's and Maclaurin's series of the rest; for others the
reflection formula, whose other side is a polynomial in the cotangent. Computed in float64 and rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from ... import te
from ...ir.expr import Call
from ...ir.types import Type
from ..common.lowering import elementwise
from ..common.table import R, attribute, row
from ..common.type_rules import fail, float_tensor, int_attr
from .special import bound, in_float64, in_numpy, number, polynomial
from .unary import in_float32

TERMS = 9
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""B2, B4, ..."""

LARGEST = 60
"""The largest order: the terms of the series give all digits of float64 up to here."""


def _order(call: Call) -> int:
    return int_attr(call, "n")


def _type(call: Call) -> Type:
    if not 1 <= _order(call) <= LARGEST:
        said = f"n must be from 1 to {LARGEST}, got {_order(call)}"
        raise fail(call, "E214", said, "R.digamma is the function of order 0")
    return float_tensor(call)


def _rest(n: int) -> list[float]:
    """Coefficients of w^-(n + 2 j), j >= 1, of the Euler-Maclaurin series of zeta(n + 1, w)."""
    return [b * math.prod(range(n + 1, n + 2 * j)) / math.factorial(2 * j) for j, b in enumerate(BERNOULLI, 1)]


def cotangent_polynomial(n: int) -> list[float]:
    """The n-th derivative of pi cot(pi x) as a polynomial in cot(pi x), lowest power first."""
    made = [0.0, math.pi]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(made)][1:]
        made = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            made[k] -= math.pi * c
            made[k + 2] -= math.pi * c
    return made


def _power(x: te.Value, n: int) -> te.Value:
    made = x
    for _ in range(n - 1):
        made = made * x
    return made


def _zeta(z: te.Value, n: int) -> te.Value:
    """The sum of 1 / (z + k)^(n + 1) over all k >= 0 for z > 0."""
    total = _power(1.0 / z, n + 1)
    for k in range(1, TERMS):
        total = total + bound(1.0 / (z + float(k)), lambda v: _power(v, n + 1))

    def tail(w: te.Value) -> te.Value:
        series = bound(w * w, lambda s: s * polynomial(s, _rest(n)))
        return bound(_power(w, n), lambda p: p * ((1.0 / n) + w * 0.5 + series))

    return total + bound(1.0 / (z + float(TERMS)), tail)


def _value(n: int, x: te.Value) -> te.Value:
    sign, turned = -1.0 if n % 2 == 0 else 1.0, cotangent_polynomial(n)

    def body(z: te.Value) -> te.Value:
        made = _zeta(z, n) * math.factorial(n)
        part = x - te.nearbyint(x)
        other = bound(te.cos(part * math.pi) / te.sin(part * math.pi), lambda c: polynomial(c, turned))
        return te.select(x < 0.0, 0.0 - made - other, made * sign)

    found = bound(te.select(x < 0.0, 1.0 - x, x), body)
    pole = te.all(x <= 0.0, te.floor(x) == x)
    found = te.select(pole, math.inf if n % 2 else -math.inf, found)
    return te.select(te.isinf(x), te.select(x > 0.0, number(0.0), number(math.nan)), found)


def _one(n: int, x: float) -> float:
    if math.isnan(x) or math.isinf(x):
        return 0.0 if x == math.inf else math.nan
    if x <= 0 and x == math.floor(x):
        return math.inf if n % 2 else -math.inf
    if x < 0:
        cotangent = 1 / math.tan(math.pi * (x - round(x)))
        turned = sum([c * cotangent**k for k, c in enumerate(cotangent_polynomial(n))])
        return float((-1) ** n * _one(n, 1 - x) - turned)
    total = 0.0
    while x < 30:
        total += x ** -(n + 1)
        x += 1
    total += x**-n / n + 0.5 * x ** -(n + 1)
    total += sum([c * x ** -(n + 2 * j) for j, c in enumerate(_rest(n), 1)])
    return float((-1) ** (n + 1) * math.factorial(n) * total)


def _ref(x: np.ndarray, n: int) -> np.ndarray:
    found: np.ndarray = in_numpy(lambda value: _one(n, value))(x)
    return found


def _lower(call: Call, x: te.Tensor) -> te.Tensor:
    n = _order(call)
    return elementwise(call, in_float64(lambda value: _value(n, value)), x)


polygamma = row(
    "polygamma",
    ("x", attribute("n", doc="order of the derivative, from 1 to 60")),
    _type,
    "Returns the n-th derivative of digamma, by Euler-Maclaurin series and reflection.",
    family="unary",
    ref=in_float32(_ref),
    lower=_lower,
    grad=lambda call, g: [g * R.polygamma(call.args[0], n=_order(call) + 1)],
    pointwise=True,
    samples="f32[3,5](2,9), n=each(1, 2, 3, 7); f64[4](0.1,3), n=each(1, 2); f32[0,2], n=1",
)
