"""Elementwise operators: each element of the result from the elements at its place."""

from . import (
    bessel,
    binary,
    divisors,
    error_functions,
    float_parts,
    gamma,
    powers,
    special,
    unary as elementwise,
)
