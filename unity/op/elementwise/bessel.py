"""Modified Bessel functions of order 0 and 1, times exp(-|x|) and without, and the scaled complementary error function.

Computed in float64 and rounded once, as the other functions of ``special.py``. Invariant: the scaled forms never overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ... import te
from ...ir.types import Expr
from ..common.gradients import slope
from ..common.table import R
from ..common.type_rules import float_tensor
from .error_functions import erfcx_positive
from .special import bound, in_float64, in_numpy, polynomial
from .unary import unary

_NEAR_0 = (
    0.2070019212239867, -0.11300432688620536, 0.094515628539951033, -0.089043441360777548, 0.087343416175523131,
    -0.084963380915417316, 0.079275225907163474, -0.069541195631682345, 0.056777032019916948, -0.042985949295422203,
    0.030177912022978357, -0.019682655791721182, 0.011960077907026221, -0.0067923947909400506, 0.0036171264488970428,
    -0.0018119030567637056, 0.0008563152748272306, -0.00038286526498299526, 0.00016240542162878106, -6.5568059644017908e-05,
    2.5202327271076921e-05, -9.1837425869362034e-06, 3.2293390826404927e-06, -1.142045323881917e-06, 3.675842926555429e-07,
    -8.5914064442646678e-08, 2.6265363151970112e-08, -1.6316042856792757e-08, 4.4705167275117399e-09,
)  # fmt: skip
"""exp(-x) I0(x) on [0, 8] in x / 4 - 1: the Chebyshev series to 1e-17, computed with 50 digits, as powers. The others likewise."""
_FAR_0 = (
    0.4021765094450081, 0.0033605519836677504, 0.00013621607438984735, 1.114303380070898e-05, 1.4838476651250266e-06,
    2.9735960465627118e-07, 8.8720343833141438e-08, 3.9328893751146339e-08, 2.1566251453104354e-08, 7.5343558438033418e-09,
    -6.8493381882867694e-09, -1.3326094405766387e-08, -5.0381064879032845e-09, 7.3359687108161536e-09, 6.5601387469170574e-09,
    -3.1346276429240787e-09, -4.5755534245349734e-09, 1.1050558794424345e-09, 2.1968921378829006e-09, -2.8033819978869995e-10,
    -6.6332871125470836e-10, 3.6293552297187331e-11, 9.3650868928181903e-11,
)  # fmt: skip
"""sqrt(x) exp(-x) I0(x) from 8 on in 16 / x - 1."""
_NEAR_1 = (
    0.044687709875608828, -0.061124338029666284, 0.068057599909512684, -0.068482606205826912, 0.063767403713336432,
    -0.055280039226991644, 0.04467457262306667, -0.033671355521085362, 0.023686016933526389, -0.015571309243980052,
    0.0095839623443567251, -0.0055345678475636779, 0.0030057614164472209, -0.0015388745620303901, 0.0007445158727006064,
    -0.00034117602890733313, 0.00014841259927108295, -6.1423602990997938e-05, 2.4248668418883101e-05, -9.1365439227890929e-06,
    3.2758438130588964e-06, -1.1327072698408053e-06, 3.9094375480236725e-07, -1.2424759932738304e-07, 2.9873856459015757e-08,
    -8.9844209604245889e-09, 5.2131237878886215e-09, -1.4169507912107701e-09,
)  # fmt: skip
"""exp(-x) I1(x) / x on [0, 8]."""
_FAR_1 = (
    0.38939845902587233, -0.0097495771932356347, -0.0002192357638317243, -1.5038547209501858e-05, -1.8349102358955385e-06,
    -3.4838534380376333e-07, -1.000109565963654e-07, -4.3131964899777332e-08, -2.3392503748018581e-08,
    -8.4091820404429177e-09, 6.8401389977069586e-09, 1.3958551001385955e-08, 5.59337010179061e-09, -7.4444414771972705e-09,
    -6.9838396248958659e-09, 3.0868867367227251e-09, 4.8105974050899441e-09, -1.0594544160443166e-09, -2.297004161885201e-09,
    2.6340771095136483e-10, 6.917089294193807e-10, -3.3654318531801763e-11, -9.7523972041381954e-11,
)  # fmt: skip
"""sqrt(x) exp(-x) I1(x) from 8 on."""


def scaled_bessel(order: int, x: te.Value, a: te.Value) -> te.Value:
    """exp(-a) I(x) for a = |x|."""
    low, high = ((_NEAR_0, _FAR_0), (_NEAR_1, _FAR_1))[order]
    near = bound(te.minimum(a, 8.0) * 0.25 - 1.0, lambda t: polynomial(t, low))
    far = bound(16.0 / te.maximum(a, 8.0) - 1.0, lambda t: polynomial(t, high)) / te.sqrt(a)
    if order == 0:
        return te.select(a <= 8.0, near, far)
    return te.select(a <= 8.0, near * x, te.select(x < 0.0, 0.0 - far, far))


def _bessel(order: int, whole: bool) -> Callable[[te.Value], te.Value]:
    def body(x: te.Value) -> te.Value:
        def of(a: te.Value) -> te.Value:
            made = scaled_bessel(order, x, a)
            if whole:
                half = te.exp(a * 0.5)
                made = made * half * half
                made = te.select(te.isinf(a), x if order else a, made)
            return te.select(te.isnan(x), x, made)

        return bound(te.abs(x), of)

    return in_float64(body)


def _erfcx(x: te.Value) -> te.Value:
    def body(a: te.Value) -> te.Value:
        grown = te.exp(te.minimum(a, 27.0) * te.minimum(a, 27.0)) * 2.0
        mirrored = te.select(a > 27.0, math.inf, grown - erfcx_positive(a))
        return te.select(te.isnan(x), x, te.select(x < 0.0, mirrored, erfcx_positive(a)))

    return bound(te.abs(x), body)


_ANGLES = (np.arange(4096) + 0.5) * np.pi / 4096


def _bessel_ref(order: int, whole: bool) -> Callable[[float], float]:
    """The mean of exp(x (cos t - 1)) cos(order t) over half a turn; far out the asymptotic series."""

    def one(value: float) -> float:
        a = abs(value)
        if math.isnan(value):
            return value
        if math.isinf(a):
            made = math.inf if whole else 0.0
        elif a < 1e4:
            made = float(np.mean(np.exp(a * (np.cos(_ANGLES) - 1)) * np.cos(order * _ANGLES)))
        else:
            m = 4.0 * order * order
            made = (1 - (m - 1) / (8 * a) + (m - 1) * (m - 9) / (128 * a * a)) / math.sqrt(2 * math.pi * a)
        if whole and not math.isinf(a):
            made = made * math.exp(a) if a < 700 else math.inf
        return math.copysign(made, value) if order else made

    return one


def _erfcx_ref(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan if math.isnan(x) else math.inf
    if x < 20:
        return math.exp(x * x) * math.erfc(x) if x > -26 else math.inf
    inverse = 0.5 / (x * x)
    return (1 - inverse + 3 * inverse**2 - 15 * inverse**3) / (x * math.sqrt(math.pi))


def _over(value: Expr, x: Expr) -> Expr:
    """I1(x) / x, scaled or not: one half at 0."""
    zero = R.equal(x, 0.0)
    return R.where(zero, 0.5, value / R.where(zero, 1.0, x))


# fmt: off
i0 = unary("i0", float_tensor, in_numpy(_bessel_ref(0, True)), _bessel(0, True),
           "Returns the modified Bessel function of the first kind of order 0, by Chebyshev series.",
           grad=slope(lambda g, x: g * R.i1(x)), torch=("i0", "special_i0", "special_modified_bessel_i0"))
i0e = unary("i0e", float_tensor, in_numpy(_bessel_ref(0, False)), _bessel(0, False),
            "Returns exp(-|x|) * i0(x), which does not overflow.",
            grad=slope(lambda g, x: g * (R.i1e(x) - R.sign(x) * R.i0e(x))), torch=("special_i0e",))
i1 = unary("i1", float_tensor, in_numpy(_bessel_ref(1, True)), _bessel(1, True),
           "Returns the modified Bessel function of the first kind of order 1, by Chebyshev series.",
           grad=slope(lambda g, x: g * (R.i0(x) - _over(R.i1(x), x))), torch=("special_i1", "special_modified_bessel_i1"))
i1e = unary("i1e", float_tensor, in_numpy(_bessel_ref(1, False)), _bessel(1, False),
            "Returns exp(-|x|) * i1(x), which does not overflow.",
            grad=slope(lambda g, x: g * (R.i0e(x) - _over(R.i1e(x), x) - R.sign(x) * R.i1e(x))), torch=("special_i1e",))
erfcx = unary("erfcx", float_tensor, in_numpy(_erfcx_ref), in_float64(_erfcx),
              "Returns exp(x^2) * erfc(x), which does not underflow for large x.",
              grad=slope(lambda g, x: g * (x * R.erfcx(x) * 2.0 - 2 / math.sqrt(math.pi))),
              torch=("special_erfcx",))
# fmt: on
