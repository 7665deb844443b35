"""Linear algebra: products of matrices."""

from . import contraction, products
