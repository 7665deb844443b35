"""Linear algebra: products, factorisations, systems, eigenvalues."""

from . import contraction, factor, matrix_exp, orthogonal, products, spectral
