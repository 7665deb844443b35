"""Factorisations of stacks of matrices by LAPACK, through ``numpy.linalg``, as registered functions ``unity.linalg.*``.

Each function takes arrays and gives one array or a tuple. Registered, it takes the inputs and then memory for the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .registry import register_func
from .tensor import Tensor

Array = np.ndarray[Any, Any]
Factorisation = Callable[..., Array | tuple[Array, ...]]


def eigh(a: Array, UPLO: Literal["L", "U"] = "L") -> tuple[Array, Array]:
    """Eigenvalues of symmetric matrices in rising order, and the eigenvectors as columns; one triangle is read."""
    values, vectors = np.linalg.eigh(a, UPLO)
    return values, vectors


def svd(a: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """u, s, vh with ``a = u diag(s) vh``; singular values fall."""
    u, s, vh = np.linalg.svd(a, full_matrices)
    return u, s, vh


def qr(a: Array, mode: Literal["reduced", "complete"] = "reduced") -> tuple[Array, Array]:
    """Orthogonal q and upper triangular r with ``a = q r``; mode ``complete`` gives a square q."""
    q, r = np.linalg.qr(a, mode)
    return q, r


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
_register("qr.reduced", 2, qr, "reduced")
_register("qr.complete", 2, qr, "complete")
