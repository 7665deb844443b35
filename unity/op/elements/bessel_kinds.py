"""Bessel functions of both kinds and modified ones of the second kind, of order 0 and 1.

Computed in float64 and rounded once. Not here: modified ones of the first kind (``bessel.py``). At the edges as in torch: Y and K
have poles at 0 and are no numbers below.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ... import te
from ..table import Operator
from .bessel import scaled_bessel
from .elementwise import unary
from .special import bound, float_operand, in_float64, in_numpy, number, polynomial

_NEAR_J = (
    (
        0.04582966485981377, 0.9303012472958572, -0.6484692830871837, -0.808088807669687, 1.0383794611437211,
        -0.507468045847102, 0.14598884856759273, -0.028472718610869578, 0.00405807898914049, -0.0004435459224727048,
        3.847319785739127e-05, -2.717749145067618e-06, 1.5956108859013864e-07, -7.915407670542993e-09,
        3.3634718625335544e-10, -1.2384699158898633e-11, 3.9908119662761275e-13, -1.1351274497660975e-14,
        2.878070067455014e-16, -6.51576323437833e-18,
    ),
    (
        -0.05814382795599107, 0.08105866038589796, 0.15151665143806634, -0.2595948652859303, 0.15858376432721938,
        -0.054745818212847276, 0.01245681439225544, -0.0020290394945702453, 0.0002494945813908964,
        -2.4045748660869218e-05, 1.8684525372339904e-06, -1.1967081644348954e-07, 6.431268732310459e-09,
        -2.94303786518451e-10, 1.1610655467503859e-11, -3.990826083415953e-13, 1.2060725733143973e-14,
        -3.230355045979499e-16, 7.738273692780193e-18, -1.660839979420435e-19,
    ),
)  # fmt: skip
"""J(x) / x^n on [0, 8] in x^2 / 32 - 1, for the orders n = 0 and 1: Chebyshev series computed with 40 digits, as powers. The others
likewise."""
_NEAR_Y = (
    (
        -0.382250654459425, -0.8284358903604587, 1.6470964788745466, 0.14412632369302442, -1.0775477338215995,
        0.6721770783431723, -0.2189574709617165, 0.046367047681347105, -0.0070257410572698254, 0.0008061586060550243,
        -7.279541882784653e-05, 5.321318633837185e-06, -3.21850778850227e-07, 1.6391065111231336e-08,
        -7.130516940302427e-10, 2.6818364947988186e-11, -8.810525464319686e-13, 2.5508609608515887e-14,
        -6.574807056314511e-16, 1.5112580087017356e-17,
    ),
    (
        0.07075985882118005, -0.24337743079193114, 0.023367571720993584, 0.23507209206669755, -0.19639839859930425,
        0.07854786922242545, -0.01962875683309943, 0.003422490739918046, -0.00044381734351146775, 4.46743301291431e-05,
        -3.6009998744473813e-06, 2.3804929913922338e-07, -1.3153322399136199e-08, 6.1697425730161e-10,
        -2.4887660224192962e-11, 8.728846995968833e-13, -2.6871218482061387e-14, 7.320630407452781e-16,
        -1.7815800395320226e-17, 3.8801195177284883e-19,
    ),
)  # fmt: skip
"""(Y(x) - (2 / pi) (log(x) J(x) - n / x)) / x^n there."""
_P = (
    (
        0.9994572757882519, -0.0005363673192130031, 6.137416080163085e-06, -2.0527448162501888e-07,
        1.2803760583405539e-08, -1.212117537945456e-09, 1.5501079933860844e-10, -2.4885888653391632e-11,
        4.772297614846628e-12, -1.0558984414729944e-12, 2.668750992381705e-13, -7.436258291563242e-14,
        1.7716435634547776e-14, -5.003512606549662e-15, 4.479453416045804e-15, -1.812404059640581e-15,
    ),
    (
        1.0009070262780821, 0.0008988049416705562, -7.95969469849487e-06, 2.453676622919676e-07, -1.4708512086159542e-08,
        1.3603051003202518e-09, -1.7131617922370612e-10, 2.7207423845067296e-11, -5.1756417352379415e-12,
        1.1380209827646576e-12, -2.861148018572335e-13, 7.938203357852553e-14, -1.8904930097426227e-14,
        5.331817907854801e-15, -4.728767819765722e-15, 1.9088296764557706e-15,
    ),
)  # fmt: skip
"""sqrt(pi x / 2) (J cos + Y sin)(x - pi / 4 - n pi / 2) from 8 on, in 128 / x^2 - 1."""
_Q = (
    (
        -0.015555113879513518, 6.833149099343887e-05, -1.477138832650122e-06, 7.106214859523438e-08,
        -5.668716046704292e-09, 6.432781585673823e-10, -9.4704131236215e-11, 1.7033142359521874e-11,
        -3.5884013838881433e-12, 8.597568595721077e-13, -2.34205092942912e-13, 6.962833501774959e-14,
        -1.642189437353317e-14, 4.687981531507901e-15, -5.071762053003792e-15, 2.1449029578293448e-15,
    ),
    (
        0.04677687402744898, -9.621458822054426e-05, 1.8212018512314264e-06, -8.29196070902235e-08, 6.420132496338991e-09,
        -7.151105285512477e-10, 1.0395096687547827e-10, -1.852470068817663e-11, 3.875456046538219e-12,
        -9.234469565869528e-13, 2.503410968458231e-13, -7.413329287139417e-14, 1.7495330566839966e-14,
        -4.991329339681744e-15, 5.344527277743522e-15, -2.25538400007774e-15,
    ),
)  # fmt: skip
"""x / 8 sqrt(pi x / 2) (Y cos - J sin) of the same."""
_NEAR_K = (
    (
        -0.30362077291575545, 0.3404973210133806, 0.07177701034240512, 0.005053392643196092, 0.00018280555827901256,
        4.054506619948951e-06, 6.093361934166155e-08, 6.623013294285161e-10, 5.452107588016936e-12, 3.518416608769253e-14,
        1.8282990225962873e-16, 7.814803107959231e-19,
    ),
    (
        0.8850882877295894, -0.3322409552403131, -0.24383852886774365, -0.027854235219771848, -0.0013831688466153064,
        -3.891869064369595e-05, -7.081133770184678e-07, -9.032127548326542e-09, -8.53273511404978e-11,
        -6.21380575870121e-13, -3.5962181014457795e-15, -1.6940313758823418e-17,
    ),
)  # fmt: skip
"""K0(x) + log(x / 2) I0(x), and x (K1(x) - log(x / 2) I1(x)), on [0, 2] in x^2 / 2 - 1."""
_FAR_K = (
    (
        1.2185953385133905, -0.03107146182488956, 0.003032891810273794, -0.00047976905676172516, 9.956054749305854e-05,
        -2.473520470025926e-05, 7.002244287487694e-06, -2.1911758052676744e-06, 7.427932208028755e-07,
        -2.6892248671184386e-07, 1.0287980689458582e-07, -4.126078580596855e-08, 1.731622598181986e-08,
        -7.539817679119423e-09, 3.170629957994259e-09, -1.3806246402870368e-09, 1.0573777917720047e-09,
        -6.304229346998433e-10, -2.426111314423373e-10, 2.4099061000287124e-10, 3.883027499295913e-10,
        -2.7839866456683264e-10, -1.5750973144552285e-10, 1.126316337254519e-10, 4.4463261136368365e-11,
        -2.907778759714522e-11,
    ),
    (
        1.363151890371342, 0.10334973775386527, -0.005566729880072931, 0.0007357241549032677, -0.00013959021964175084,
        3.2843865708633974e-05, -8.961205912549711e-06, 2.7300392852920254e-06, -9.067229884830243e-07,
        3.229983779937386e-07, -1.2195093824501613e-07, 4.837695851929297e-08, -2.0109398585523846e-08,
        8.683982534096674e-09, -3.639264909950171e-09, 1.5795148419022103e-09, -1.180097808498307e-09,
        6.970364983934073e-10, 2.560533082941635e-10, -2.5722618233906385e-10, -4.2190635517826636e-10,
        3.015605420609579e-10, 1.704297529665342e-10, -1.216604821004258e-10, -4.829107281627596e-11,
        3.150534991423443e-11,
    ),
)  # fmt: skip
"""sqrt(x) exp(x) K(x) from 2 on, in 4 / x - 1."""


def _wave(order: int, second: bool, a: te.Value) -> te.Value:
    """J, or Y, from 8 on."""
    angle = a - (math.pi / 4 + order * math.pi / 2)
    ratio = number(8.0) / a
    inner = ratio * ratio * 2.0 - 1.0

    def of(p: te.Value, q: te.Value) -> te.Value:
        mixed = p * te.sin(angle) + q * te.cos(angle) if second else p * te.cos(angle) - q * te.sin(angle)
        return mixed * te.sqrt(number(2 / math.pi) / a)

    return bound(
        polynomial(inner, _P[order]), lambda p: bound(polynomial(inner, _Q[order]) * ratio, lambda q: of(p, q))
    )


def _near(x: te.Value, parts: tuple[tuple[float, ...], ...], order: int) -> te.Value:
    made = bound(x * x / 32.0 - 1.0, lambda t: polynomial(t, parts[order]))
    return made * x if order else made


def _first(order: int) -> Callable[[te.Value], te.Value]:
    def of(x: te.Value, a: te.Value) -> te.Value:
        far = _wave(order, False, te.maximum(a, number(8.0)))
        if order:
            far = te.select(x < number(0.0), number(0.0) - far, far)
        made = te.select(a <= number(8.0), _near(x, _NEAR_J, order), far)
        return te.select(te.isinf(a), number(0.0), te.select(te.isnan(x), x, made))

    return in_float64(lambda x: bound(te.abs(x), lambda a: of(x, a)))


def _edges(x: te.Value, made: te.Value, pole: float) -> te.Value:
    """0 at infinity, the pole at 0, no number below."""
    made = te.select(te.isinf(x), number(0.0), te.select(x == number(0.0), number(pole), made))
    return te.select(te.isnan(x), x, te.select(x < number(0.0), number(math.nan), made))


def _second(order: int) -> Callable[[te.Value], te.Value]:
    def of(x: te.Value) -> te.Value:
        low = te.log(x) * _near(x, _NEAR_J, order)
        low = (low - number(1.0) / x if order else low) * (2 / math.pi) + _near(x, _NEAR_Y, order)
        made = te.select(x <= number(8.0), low, _wave(order, True, te.maximum(x, number(8.0))))
        return _edges(x, made, -math.inf)

    return in_float64(of)


def _modified(order: int, scaled: bool) -> Callable[[te.Value], te.Value]:
    def of(x: te.Value) -> te.Value:
        small = te.minimum(te.maximum(x, number(0.0)), number(2.0))
        logarithm = te.log(small * 0.5) * scaled_bessel(order, small, small) * te.exp(small)
        low = bound(small * small * 0.5 - 1.0, lambda t: polynomial(t, _NEAR_K[order]))
        low = low / small + logarithm if order else low - logarithm
        large = te.maximum(x, number(2.0))
        high = bound(number(4.0) / large - 1.0, lambda t: polynomial(t, _FAR_K[order])) / te.sqrt(large)
        if scaled:
            low = low * te.exp(small)
        else:
            high = high * te.exp(number(0.0) - large)
        return _edges(x, te.select(x <= number(2.0), low, high), math.inf)

    return in_float64(of)


# ---- numpy meanings: integrals over angles

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_ANGLES = (np.arange(4096) + 0.5) * np.pi / 4096


def integral(fn: Callable[[np.ndarray], np.ndarray], high: float) -> float:
    """Of a smooth function of arrays from 0 on, by Gauss's rule."""
    return float(np.sum(_WEIGHTS * fn((_NODES + 1) * high / 2)) * high / 2)


def _first_ref(order: int) -> Callable[[float], float]:
    return lambda x: 0.0 if math.isinf(x) else float(np.mean(np.cos(order * _ANGLES - x * np.sin(_ANGLES))))


def _guarded(fn: Callable[[float], float], pole: float) -> Callable[[float], float]:
    def one(x: float) -> float:
        if math.isnan(x) or x < 0:
            return math.nan
        return pole if x == 0 else 0.0 if math.isinf(x) else fn(x)

    return one


def _second_ref(order: int) -> Callable[[float], float]:
    sign = -1.0 if order else 1.0

    def one(x: float) -> float:
        swing = integral(lambda t: np.sin(x * np.sin(t) - order * t), math.pi)
        grown = lambda t: (np.exp(order * t) + sign * np.exp(-order * t)) * np.exp(-x * np.sinh(t))  # noqa: E731
        return (swing - integral(grown, math.asinh(750 / x))) / math.pi

    return _guarded(one, -math.inf)


def _modified_ref(order: int, scaled: bool) -> Callable[[float], float]:
    def one(x: float) -> float:
        made = integral(lambda t: np.exp(-x * (np.cosh(t) - 1)) * np.cosh(order * t), math.acosh(1 + 750 / x))
        return made if scaled else made * math.exp(-x)

    return _guarded(one, math.inf)


def _row(name: str, ref: Callable[[float], float], fn: Callable[[te.Value], te.Value], doc: str) -> Operator:
    return unary(name, float_operand, in_numpy(ref), fn, doc)


bessel_j0 = _row("bessel_j0", _first_ref(0), _first(0), "Bessel function of the first kind of order 0.")
bessel_j1 = _row("bessel_j1", _first_ref(1), _first(1), "Bessel function of the first kind of order 1.")
bessel_y0 = _row("bessel_y0", _second_ref(0), _second(0), "Bessel function of the second kind of order 0.")
bessel_y1 = _row("bessel_y1", _second_ref(1), _second(1), "Bessel function of the second kind of order 1.")
k0 = _row("k0", _modified_ref(0, False), _modified(0, False), "Modified Bessel function of the second kind of order 0.")
k1 = _row("k1", _modified_ref(1, False), _modified(1, False), "Modified Bessel function of the second kind of order 1.")
k0e = _row("k0e", _modified_ref(0, True), _modified(0, True), "exp(x) times R.k0 of x.")
k1e = _row("k1e", _modified_ref(1, True), _modified(1, True), "exp(x) times R.k1 of x.")
