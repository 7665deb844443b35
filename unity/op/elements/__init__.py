"""Elementwise operators: each element of the result from the elements at its place."""

from . import (
    airy,
    bessel,
    bessel_kinds,
    binary,
    divisors,
    elementwise,
    error_functions,
    float_parts,
    gamma,
    incomplete,
    polynomials,
    powers,
    special,
)
