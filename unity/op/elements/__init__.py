"""Elementwise operators: each element of the result from the elements at its place."""

from . import (
    bessel,
    bessel_kinds,
    binary,
    elementwise,
    error_functions,
    float_parts,
    gamma,
    incomplete,
    polynomials,
    powers,
    special,
)
