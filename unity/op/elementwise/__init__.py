"""Elementwise operators: each element of the result from the elements at the same index."""

from . import binary, powers, unary as elementwise
