"""Elementwise operators: each element of the result from the elements at its place."""

from . import binary, powers, unary as elementwise
