"""Orthogonal polynomials by their three-term recurrences, degree and place both tensors.

Computed in float64 and rounded once. As in torch the degree is cut to an integer, and the value is 0 for degrees below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call
from ...ir.stmt import Stmt, While, seq
from ...ir.types import Expr, Type
from ..linalg.matrices import Numbers, number
from ..rules import attr, fail
from ..table import attribute, row
from .iterative import computed, iterated, two_floats


class Recurrence(NamedTuple):
    """p(0) = 1, p(1) = slope x + shift, p(k + 1) = next(x, k, p(k), p(k - 1)) of numbers or of te.Values."""

    slope: float
    shift: float
    next: Callable[[Any, Any, Any, Any], Any]


def _chebyshev(x: Any, k: Any, p: Any, q: Any) -> Any:
    return x * p * 2.0 - q


KINDS = {
    "chebyshev_t": Recurrence(1, 0, _chebyshev),
    "chebyshev_u": Recurrence(2, 0, _chebyshev),
    "chebyshev_v": Recurrence(2, -1, _chebyshev),
    "chebyshev_w": Recurrence(2, 1, _chebyshev),
    "hermite_h": Recurrence(2, 0, lambda x, k, p, q: x * p * 2.0 - k * q * 2.0),
    "hermite_he": Recurrence(1, 0, lambda x, k, p, q: x * p - k * q),
    "laguerre_l": Recurrence(-1, 1, lambda x, k, p, q: ((k * 2.0 + 1.0 - x) * p - k * q) / (k + 1.0)),
    "legendre_p": Recurrence(1, 0, lambda x, k, p, q: ((k * 2.0 + 1.0) * x * p - k * q) / (k + 1.0)),
}
"""What ``kind`` may be. Shifted polynomials are these of 2 x - 1."""


def _type(call: Call) -> Type:
    if str(attr(call, "kind")) not in KINDS:
        raise fail(call, "E214", f"kind must be one of {', '.join(KINDS)}, got {attr(call, 'kind')!r}")
    return two_floats(call)


def _lower(call: Call, x: te.Tensor, n: te.Tensor) -> te.Tensor:
    kind = KINDS[str(attr(call, "kind"))]

    def program(kept: Numbers, given: list[Expr]) -> Stmt:
        place, degree = given
        parts = [kept[name] for name in ("k", "value", "before")]
        first = build.add(build.mul(place, number(kind.slope)), number(kind.shift))
        step = seq(
            kept.put("held", computed(kind.next, place, *parts)),
            kept.put("before", kept["value"]),
            kept.put("value", kept["held"]),
            kept.add("k", number(1.0)),
        )
        return seq(
            kept.put("degree", build.intrinsic("trunc", degree)),
            kept.put("k", number(1.0)),
            kept.put("before", number(1.0)),
            kept.put("value", build.select(build.lt(kept["degree"], number(1.0)), number(1.0), first)),
            While(build.lt(kept["k"], kept["degree"]), step),
            kept.put("value", build.select(build.ge(kept["degree"], number(0.0)), kept["value"], number(0.0))),
        )

    return iterated(call, [x, n], ("k", "before", "held", "degree"), program)


def _ref(x1: np.ndarray, x2: np.ndarray, kind: str) -> np.ndarray:
    rule = KINDS[kind]

    def one(place: float, degree: float) -> float:
        if not degree > -1:
            return 0.0
        before, value = 1.0, rule.slope * place + rule.shift
        for k in range(1, int(degree)):
            before, value = value, rule.next(place, float(k), value, before)
        return value if degree >= 1 else 1.0

    with np.errstate(all="ignore"):
        made = np.vectorize(one, otypes=[np.float64])(x1.astype(np.float64), x2.astype(np.float64))
    return np.asarray(made).astype(x1.dtype)


orthogonal_polynomial = row(
    "orthogonal_polynomial",
    ("x1", "x2", attribute("kind")),
    _type,
    f"The orthogonal polynomial of degree x2 at x1, of a kind: {', '.join(KINDS)}.",
    family="binary",
    lower=_lower,
    grad="no gradient, as in torch",
    ref=_ref,
)
