"""Incomplete gamma functions, Hurwitz's zeta function and the inverse of the normal distribution, in float64 and rounded once.

Sources: DLMF 8.11.4 (series) and 8.9.2 (continued fraction, summed by Lentz's method) for the gamma functions, 25.11.28 (Euler and
Maclaurin) for zeta; M. J. Wichura, Algorithm AS 241, 1988, for ``ndtri``. Edges (0, infinities) are torch's.
"""

from __future__ import annotations

import math

import numpy as np

from ... import te
from ...ir import build
from ...ir.stmt import IfThenElse, Stmt, While, seq
from ...ir.types import Expr
from ..linalg.matrices import Numbers, number, zero
from ..table import Operator, row
from .elementwise import unary
from .gamma import BERNOULLI
from .iterative import chosen, computed, iterated, two_floats
from .special import bound, float_operand, in_float64, in_numpy, log_gamma, polynomial

_NAN, _INF = math.nan, math.inf
_STEPS = 1_000_000.0
"""A sum that has not settled by then stays as it is."""


# ---- incomplete gamma functions


def _series(kept: Numbers, a: Expr, x: Expr) -> Stmt:
    """1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + .. times x^a exp(-x) / gamma(a + 1): the lower function."""
    step = seq(
        kept.add("k", number(1.0)),
        kept.put("term", build.div(build.mul(kept["term"], x), build.add(a, kept["k"]))),
        kept.add("value", kept["term"]),
    )
    going = build.gt(kept["term"], build.mul(kept["value"], number(1e-17)))
    return seq(
        kept.put("term", number(1.0)),
        kept.put("value", number(1.0)),
        While(build.logical_and(going, build.lt(kept["k"], number(_STEPS))), step),
        kept.put("value", build.div(build.mul(kept["value"], kept["scale"]), a)),
    )


def _fraction(kept: Numbers, a: Expr, x: Expr) -> Stmt:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ..)) times x^a exp(-x) / gamma(a): the upper function."""
    tiny, one = number(1e-300), number(1.0)
    k, b = kept["k"], kept["b"]
    part = build.mul(build.sub(zero(), k), build.sub(k, a))
    step = seq(
        kept.add("k", one),
        kept.add("b", number(2.0)),
        kept.put("d", build.add(build.mul(part, kept["d"]), b)),
        kept.put("d", build.div(one, build.select(build.eq(kept["d"], zero()), tiny, kept["d"]))),
        kept.put("c", build.add(b, build.div(part, kept["c"]))),
        kept.put("c", build.select(build.eq(kept["c"], zero()), tiny, kept["c"])),
        kept.put("term", build.mul(kept["c"], kept["d"])),
        kept.put("value", build.mul(kept["value"], kept["term"])),
    )
    away = build.intrinsic("abs", build.sub(kept["term"], one))
    going = build.logical_and(build.gt(away, number(1e-16)), build.lt(k, number(_STEPS)))
    return seq(
        kept.put("b", build.add(build.sub(x, a), one)),
        kept.put("c", build.div(one, tiny)),
        kept.put("d", build.div(one, build.select(build.eq(b, zero()), tiny, b))),
        kept.put("value", kept["d"]),
        kept.put("term", number(2.0)),
        While(going, step),
        kept.put("value", build.mul(kept["value"], kept["scale"])),
    )


def _gamma_row(name: str, lower: bool, doc: str) -> Operator:
    def program(kept: Numbers, given: list[Expr]) -> Stmt:
        a, x = given
        isinf = [build.intrinsic("isinf", v) for v in given]
        edges = [
            (build.logical_or(build.lt(a, zero()), build.lt(x, zero())), number(_NAN)),
            (build.eq(a, zero()), build.select(build.gt(x, zero()), number(1.0), number(_NAN))),
            (build.eq(x, zero()), zero()),
            (isinf[0], build.select(isinf[1], number(_NAN), zero())),
            (isinf[1], number(1.0)),
        ]
        inside = build.logical_and(
            build.logical_and(build.gt(a, zero()), build.gt(x, zero())),
            build.logical_not(build.logical_or(isinf[0], isinf[1])),
        )
        scale = computed(lambda a, x: te.exp(a * te.log(x) - x - log_gamma(a)), a, x)
        far = build.gt(x, build.add(a, number(1.0)))
        complement = kept.put("value", build.sub(number(1.0), kept["value"]))
        sums = [_series(kept, a, x), _fraction(kept, a, x)]
        sums[1 if lower else 0] = seq(sums[1 if lower else 0], complement)
        edge = chosen(edges, number(_NAN))
        if not lower:  # NaN stays NaN
            edge = build.sub(number(1.0), edge)
        return seq(
            kept.put("k", zero()),
            IfThenElse(
                inside,
                seq(kept.put("scale", scale), IfThenElse(far, sums[1], sums[0])),
                kept.put("value", edge),
            ),
        )

    names = ("k", "term", "scale", "b", "c", "d")
    return row(
        name,
        ("x1", "x2"),
        two_floats,
        doc,
        family="binary",
        lower=lambda call, a, x: iterated(call, [a, x], names, program),
        ref=lambda x1, x2: _gamma_ref(x1, x2, lower),
    )


def _lower_part(a: float, x: float) -> float:
    """By Gauss and Legendre: the integral of t^(a-1) exp(-t) with t = x u^(1/a), which has no pole at 0."""
    if math.isnan(a) or math.isnan(x) or a < 0 or x < 0 or (a == 0 and not x > 0) or (math.isinf(a) and math.isinf(x)):
        return _NAN
    if a == 0 or math.isinf(x):
        return 1.0
    if x == 0 or math.isinf(a):
        return 0.0
    if x > a + 60 + 12 * math.sqrt(a):
        return 1.0
    nodes, weights = np.polynomial.legendre.leggauss(400)
    if a < 1:
        t = x * ((nodes + 1) / 2) ** (1 / a)
        return float(np.sum(weights / 2 * np.exp(-t)) * math.exp(a * math.log(x) - math.lgamma(a + 1)))
    low = max(0.0, min(x, a) - 12 * math.sqrt(a) - 60)
    t = low + (x - low) * (nodes + 1) / 2
    return float(np.sum(weights * np.exp((a - 1) * np.log(t) - t - math.lgamma(a))) * (x - low) / 2)


def _gamma_ref(x1: np.ndarray, x2: np.ndarray, lower: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        made = np.vectorize(_lower_part, otypes=[np.float64])(x1.astype(np.float64), x2.astype(np.float64))
    return np.asarray(made if lower else 1 - made).astype(x1.dtype)


igamma = _gamma_row("igamma", True, "Regularised lower incomplete gamma function of shape x1 at x2.")
igammac = _gamma_row("igammac", False, "Regularised upper incomplete gamma function of shape x1 at x2: 1 - R.igamma.")


# ---- zeta


def _zeta_program(kept: Numbers, given: list[Expr]) -> Stmt:
    """The terms up to 9 behind the start one by one, then the series of the rest."""
    x, q = given
    one, w = number(1.0), kept["w"]

    def power(base: Expr) -> Expr:
        return build.intrinsic("pow", base, build.sub(zero(), x))

    add = seq(kept.add("value", power(w)), kept.add("w", one), kept.add("k", one))
    more = build.logical_or(build.lt(kept["k"], number(9.0)), build.le(w, number(9.0)))
    rest = seq(
        kept.add("value", build.div(build.mul(kept["term"], w), build.sub(x, one))),
        kept.add("value", build.mul(kept["term"], number(0.5))),
        kept.put("rise", x),
        *[_bernoulli_term(kept, x, n, b) for n, b in enumerate(BERNOULLI, 1)],
    )
    whole = build.eq(q, build.intrinsic("floor", q))
    edges = [
        (build.eq(x, one), number(_INF)),
        (build.logical_not(build.gt(x, one)), number(_NAN)),
        (build.logical_and(build.le(q, zero()), whole), number(_INF)),
    ]
    broken = build.logical_and(build.le(q, zero()), build.ne(x, build.intrinsic("floor", x)))
    edge = chosen([*edges, (broken, number(_NAN))], kept["value"])
    going = build.logical_and(more, build.lt(kept["k"], number(_STEPS)))
    return seq(
        kept.put("k", zero()),
        kept.put("w", q),
        kept.put("value", zero()),
        While(going, add),
        kept.put("term", power(w)),
        IfThenElse(build.ne(kept["term"], zero()), rest),
        kept.put("value", edge),
    )


def _bernoulli_term(kept: Numbers, x: Expr, n: int, bernoulli: float) -> Stmt:
    """B(2n) / (2n)! x (x + 1) .. (x + 2n - 2) w^(-x - 2n + 1); ``rise`` is the product so far."""
    w, rise = kept["w"], kept["rise"]
    scale = number(bernoulli / math.factorial(2 * n))
    kept_term = seq(
        kept.put("term", build.div(kept["term"], w)), kept.add("value", build.mul(build.mul(kept["term"], rise), scale))
    )
    both = build.mul(build.add(x, number(2.0 * n - 1)), build.add(x, number(2.0 * n)))
    return seq(kept_term, kept.put("term", build.div(kept["term"], w)), kept.put("rise", build.mul(rise, both)))


def _zeta_one(x: float, q: float) -> float:
    if math.isnan(x) or math.isnan(q) or x < 1:
        return _NAN
    if x == 1 or (q <= 0 and q == math.floor(q)):
        return _INF
    if q <= 0 and x != math.floor(x):
        return _NAN
    total: float = 0.0
    while q < 40:
        total += q**-x
        q += 1
    if q**-x == 0:
        return total
    total += q ** (1 - x) / (x - 1) + 0.5 * q**-x
    rise = x
    for n, b in enumerate(BERNOULLI[:6], 1):
        total += b / math.factorial(2 * n) * rise * q ** (-x - 2 * n + 1)
        rise *= (x + 2 * n - 1) * (x + 2 * n)
    return float(total)


def _zeta_ref(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    def one(x: float, q: float) -> float:
        try:
            return _zeta_one(x, q)
        except OverflowError:
            return _INF

    made = np.vectorize(one, otypes=[np.float64])(x1.astype(np.float64), x2.astype(np.float64))
    return np.asarray(made).astype(x1.dtype)


zeta = row(
    "zeta",
    ("x1", "x2"),
    two_floats,
    "Hurwitz's zeta function: the sum of (x2 + k)^-x1 over all k >= 0, for x1 above 1.",
    family="binary",
    lower=lambda call, x, q: iterated(call, [x, q], ("k", "w", "term", "rise"), _zeta_program),
    grad="no gradient, as in torch",
    ref=_zeta_ref,
)


# ---- the inverse of the normal distribution

_MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
     3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_SIDE = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip
"""Numerators and denominators of AS 241: near 1/2, to the side, in the tails."""


def _quotient(parts: tuple[tuple[float, ...], tuple[float, ...]], x: te.Value) -> te.Value:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def _ndtri(p: te.Value) -> te.Value:
    def body(q: te.Value) -> te.Value:
        middle = bound(te.const(0.180625, "float64") - q * q, lambda r: _quotient(_MIDDLE, r)) * q
        rest = te.select(q < te.const(0.0, "float64"), p, te.const(1.0, "float64") - p)

        def tails(r: te.Value) -> te.Value:
            near, far = _quotient(_SIDE, r - 1.6), _quotient(_TAIL, r - 5.0)
            size = te.select(r <= te.const(5.0, "float64"), near, far)
            return te.select(q < te.const(0.0, "float64"), te.const(0.0, "float64") - size, size)

        outer = bound(te.sqrt(te.const(0.0, "float64") - te.log(rest)), tails)
        return te.select(te.abs(q) <= te.const(0.425, "float64"), middle, outer)

    made = bound(p - 0.5, body)
    zero_, one = te.const(0.0, "float64"), te.const(1.0, "float64")
    made = te.select(p == zero_, te.const(-_INF, "float64"), te.select(p == one, te.const(_INF, "float64"), made))
    return te.select(te.all(p >= zero_, p <= one), made, te.const(_NAN, "float64"))


def _ndtri_one(p: float) -> float:
    """By bisection of the distribution."""
    if not 0 <= p <= 1:
        return _NAN
    if p in (0.0, 1.0):
        return math.copysign(_INF, p - 0.5)
    low, high = -40.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        below = 0.5 * math.erfc(-middle / math.sqrt(2)) < p
        low, high = (middle, high) if below else (low, middle)
    return low


ndtri = unary(
    "ndtri",
    float_operand,
    in_numpy(_ndtri_one),
    in_float64(_ndtri),
    "Inverse of the standard normal distribution function.",
)
