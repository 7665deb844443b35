"""The error function."""

from __future__ import annotations

from .lanes import Value, absolute, copy_sign, fma, polynomial
from .math_coefficients import POLYNOMIALS
from .math_exp import exp

LARGEST = {"f32": 4.0, "f64": 6.0}
"""From here on erf rounds to 1."""


def erf(x: Value) -> Value:
    """Error function: an odd polynomial up to 1, beyond it 1 - exp(-x^2) * P(1 / (1 + |x|))."""
    a = absolute(x).clamp(0.0, LARGEST[x.kind])
    square = a * a
    small = fma(a, polynomial(square, POLYNOMIALS["ERF"][x.kind]), a)
    tail = exp(-square) * polynomial(1.0 / (a + 1.0), POLYNOMIALS["ERFC"][x.kind])
    return copy_sign(a.lt(1.0).select(small, 1.0 - tail), x)
