"""The error function: an odd polynomial up to 1; beyond it 1 - exp(x * P(x)), in float64 1 - exp(-x^2) * P(1 / (1 + x))."""

from __future__ import annotations

from .coefficients import POLYNOMIALS
from .exp import exp
from .lanes import Value, absolute, copy_sign, fma, polynomial

LARGEST = 6.0
"""From here on erf rounds to 1 in float64."""


def erf(x: Value) -> Value:
    """Error function."""
    a = absolute(x)
    if x.kind == "f64":
        a = a.clamp(0.0, LARGEST)
    square = a * a
    small = fma(a, polynomial(square, POLYNOMIALS["ERF"][x.kind]), a)
    if x.kind == "f64":
        tail = exp(-square) * polynomial(1.0 / (a + 1.0), POLYNOMIALS["ERFC"]["f64"])
    else:
        tail = exp(a * polynomial(a, POLYNOMIALS["ERFC_LOG"]["f32"]))
    return copy_sign(a.lt(1.0).select(small, 1.0 - tail), x)
