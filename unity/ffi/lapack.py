"""Factorisations of stacks of matrices by LAPACK, through ``numpy.linalg``, as registered functions ``unity.linalg.*``.

Each function takes arrays and gives one array or a tuple. Registered, it takes the inputs and then memory for the results.
Source: LAPACK's users' guide; the exponential is scaling and squaring of a Taylor series (Moler and Van Loan, 2003, method 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .registry import register_func
from .tensor import Tensor

Array = np.ndarray[Any, Any]
Factorisation = Callable[..., Array | tuple[Array, ...]]

TERMS = 18
"""Of the series of a matrix of norm at most 1/2: the rest is below 1e-22."""


def eigh(a: Array, UPLO: Literal["L", "U"] = "L") -> tuple[Array, Array]:
    """Eigenvalues of symmetric matrices in rising order, and the eigenvectors as columns; one triangle is read."""
    values, vectors = np.linalg.eigh(a, UPLO)
    return values, vectors


def svd(a: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """u, s, vh with ``a = u diag(s) vh``; singular values fall."""
    u, s, vh = np.linalg.svd(a, full_matrices)
    return u, s, vh


def geqrf(a: Array) -> tuple[Array, Array]:
    """R with Householder's vectors below its diagonal, and their scales tau."""
    if 0 in a.shape:
        return a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    packed, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(packed, -1, -2), tau


def householder_product(a: Array, tau: Array) -> Array:
    """The first columns, as many as ``a`` has, of the product of the reflections that ``geqrf`` gives."""
    made = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape).copy()
    for j in reversed(range(tau.shape[-1])):
        v = a[..., j:, j : j + 1].copy()
        v[..., 0, :] = 1
        made[..., j:, :] -= tau[..., j, None, None] * (v @ (np.swapaxes(v, -1, -2) @ made[..., j:, :]))
    return made


def qr(a: Array, mode: Literal["reduced", "complete"] = "reduced") -> tuple[Array, Array]:
    """Orthogonal q and upper triangular r with ``a = q r``; mode ``complete`` gives a square q."""
    q, r = np.linalg.qr(a, mode)
    return q, r


def matrix_exp(a: Array) -> Array:
    """Exponential of square matrices, in float64 and rounded once."""
    wide = a.astype(np.float64)
    norm = np.abs(wide).sum(-1).max(initial=0)
    count = max(0, int(np.ceil(np.log2(norm))) + 1) if 0 < norm < np.inf else 0
    made = np.broadcast_to(np.eye(a.shape[-1]), a.shape).copy()
    for term in range(TERMS, 0, -1):
        made = np.eye(a.shape[-1]) + np.matmul(wide * 0.5**count, made) / term
    for _ in range(count):
        made = np.matmul(made, made)
    return made.astype(a.dtype)


def _register(name: str, outputs: int, function: Factorisation, *options: Any) -> None:
    def call(*tensors: Tensor) -> None:
        arrays = [np.asarray(t) for t in tensors]
        made = function(*arrays[:-outputs], *options)
        for place, value in zip(arrays[-outputs:], made if isinstance(made, tuple) else (made,)):
            place[...] = value

    register_func(f"unity.linalg.{name}", call)


_register("eigh.L", 2, eigh, "L")
_register("eigh.U", 2, eigh, "U")
_register("svd.full", 3, svd, True)
_register("svd.reduced", 3, svd, False)
_register("geqrf", 2, geqrf)
_register("householder_product", 1, householder_product)
_register("qr.reduced", 2, qr, "reduced")
_register("qr.complete", 2, qr, "complete")
_register("matrix_exp", 1, matrix_exp)
