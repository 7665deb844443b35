"""Linear algebra: products, factorisations, systems, eigenvalues."""

from . import contraction, factor, lapack, products
