"""Airy's function Ai, computed in float64 and rounded once. Not here: the other Bessel functions (``bessel_kinds.py``).

As in torch it is no number at the infinities.
"""

from __future__ import annotations

import math

import numpy as np

from ... import te
from .bessel_kinds import integral
from .elementwise import unary
from .special import bound, float_operand, in_float64, in_numpy, number, polynomial

_NEAR = (
    0.4642565777488694, 1.0821543852084365, -4.265357308067737, 0.0034023237962866647, 10.397775816796367,
    -9.146985614157694, -6.363775200028948, 14.61620235249671, -4.915047123329306, -7.519716387726105,
    7.966485186152071, -0.6596168816475372, -3.551454586435171, 2.2672020160462822, 0.20316980298607454,
    -0.9234688842665284, 0.3894710074111743, 0.09441069719721529, -0.15277862786744706, 0.043753076531187464,
    0.018039926045373758, -0.01750900694796146, 0.0033428916254144353, 0.0021622997613910937, -0.0014711977920055317,
    0.00017514449773794956, 0.0001841731657505356, -9.661630877612378e-05, 5.492549532968761e-06,
    1.3288515160134922e-05, -4.898113030611925e-06, -6.105794935607495e-07, 6.731558269283445e-07,
    -2.171673257057226e-08, -3.6279115000354646e-08,
)  # fmt: skip
"""Ai(x) on [-5, 2] in (x + 1.5) / 3.5: the Chebyshev series to 5e-18, computed with 40 digits, as powers. The others likewise."""
_FAR = (
    0.2774908024616546, -0.004122380595849492, 0.00039865677489458394, -6.427592277639402e-05, 1.3671255956557227e-05,
    -3.48510926832708e-06, 1.0121089942839848e-06, -3.2469847170697346e-07, 1.1275577071064085e-07,
    -4.1784065501727926e-08, 1.6367236117824575e-08, -6.719726003246205e-09, 2.8166320000272914e-09,
    -1.222777570196559e-09, 6.818549500561053e-10, -3.6072835750548884e-10, -2.1434131696095418e-11,
    5.675664435142866e-11, 1.749196885799203e-10, -1.2269533339116626e-10, -7.049891461629668e-11,
    5.0803583637066e-11, 2.375331300539151e-11, -1.5345958367818006e-11,
)  # fmt: skip
"""exp(z) x^(1/4) Ai(x) from 2 on, for z = 2/3 x^(3/2), in 2 z(2) / z - 1."""
_P = (
    0.9996702731603566, -0.0003254319872640143, 4.128666158294696e-06, -1.542112034842239e-07, 1.067342663285596e-08,
    -1.1119337986572293e-09, 1.5522262548635303e-10, -2.7051883478257475e-11, 5.602889049196218e-12,
    -1.2552086884253272e-12, 3.1998747979878037e-13, -1.5179090444882385e-13, 5.2727784242470915e-14,
)  # fmt: skip
"""sqrt(pi) y^(1/4) (Ai cos - Bi sin)(z - pi / 4) at x = -y from y = 5 on, for z = 2/3 y^(3/2), in 2 (z(5) / z)^2 - 1."""
_Q = (
    0.06911133919898425, -0.0003247868744479707, 7.854002446768118e-06, -4.215741963300471e-07,
    3.7225333587107475e-08, -4.636455901462674e-09, 7.433199807395925e-10, -1.445847358438312e-10,
    3.2767003613592377e-11, -8.379906510740823e-12, 2.3719134216913487e-12, -7.791454007942917e-13,
    2.709967900042959e-13, -4.8598113545860894e-14, 1.1055394480472707e-14, -3.147397232889125e-14,
    1.4826797408973906e-14,
)  # fmt: skip
"""z sqrt(pi) y^(1/4) (Ai sin + Bi cos)(z - pi / 4) of the same."""
_FIRST, _WAVES = 2 / 3 * 2**1.5, 2 / 3 * 5**1.5
"""z at the ends of the middle part."""


def _power(a: te.Value) -> te.Value:
    """2/3 a^(3/2)."""
    return a * te.sqrt(a) * (2 / 3)


def _decaying(x: te.Value) -> te.Value:
    """From 2 on."""
    root = te.sqrt(te.sqrt(x))
    return bound(_power(x), lambda z: te.exp(number(0.0) - z) * polynomial(number(2 * _FIRST) / z - 1.0, _FAR) / root)


def _waves(y: te.Value) -> te.Value:
    """At -y, from y = 5 on: a cosine and a sine, each with an amplitude of its own."""

    def of(z: te.Value) -> te.Value:
        angle, ratio = z - math.pi / 4, number(_WAVES) / z
        place = ratio * ratio * 2.0 - 1.0
        return te.cos(angle) * polynomial(place, _P) + te.sin(angle) * polynomial(place, _Q) / z

    return bound(_power(y), of) / te.sqrt(te.sqrt(y) * math.pi)


def _airy(x: te.Value) -> te.Value:
    inside = te.minimum(te.maximum(x, number(-5.0)), number(2.0))
    near = bound((inside + 1.5) / 3.5, lambda t: polynomial(t, _NEAR))
    far = te.select(
        x > number(0.0), _decaying(te.maximum(x, number(2.0))), _waves(te.maximum(number(0.0) - x, number(5.0)))
    )
    made = te.select(te.abs(x) == number(math.inf), number(math.nan), te.select(x == inside, near, far))
    return te.select(te.isnan(x), x, made)


def _bessel(order: float, z: float) -> float:
    """The Bessel function of the first kind, by Schlaefli's integrals."""
    swing = integral(lambda t: np.cos(order * t - z * np.sin(t)), math.pi)
    grown = integral(lambda t: np.exp(-z * np.sinh(t) - order * t), math.asinh(750 / z))
    return (swing - math.sin(order * math.pi) * grown) / math.pi


def _airy_ref(x: float) -> float:
    """By Bessel functions of order 1/3, these as integrals."""
    if math.isnan(x) or math.isinf(x):
        return math.nan
    if x == 0:
        return 1 / (3 ** (2 / 3) * math.gamma(2 / 3))
    a, third = abs(x), 1 / 3
    z = 2 / 3 * a**1.5
    if x > 0:
        made = integral(lambda t: np.exp(-z * (np.cosh(t) - 1)) * np.cosh(t / 3), math.acosh(1 + 750 / z))
        return math.sqrt(a / 3) / math.pi * made * math.exp(-z)
    return math.sqrt(a) / 3 * (_bessel(third, z) + _bessel(-third, z))


airy_ai = unary(
    "airy_ai",
    float_operand,
    in_numpy(_airy_ref),
    in_float64(_airy),
    "Airy's function Ai, the solution of y'' = x y that vanishes for large x.",
    grad="no gradient, as in torch",
)
