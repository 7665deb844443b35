"""Table entries: orthogonal factors, eigenvalues of symmetric matrices, singular values and what is made of them.

Not here: LU, Cholesky and linear systems (``linalg.py``, ``factors.py``); eigenvalues of other matrices, which are complex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import op
from ....ir.build import maximum
from ....ir.expr import TupleGetItem
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    dtype_of,
    number,
    rank_of,
    refuse,
    shape_of,
    to_dim,
)
from .index import has_none
from .linalg import unit_matrices
from .shape import cut, swap


def _fields(c: Context, made: Expr, count: int) -> list[Expr]:
    found = c.emit(made)
    return [c.emit(TupleGetItem(found, n)) for n in range(count)]


# ---- orthogonal factors


@aten("linalg_qr.default", "qr.default")
def _qr(c: Context, a: Args) -> Result:
    """Mode r gives no q: an empty tensor."""
    x = a.A if hasattr(a, "A") else a.self
    mode = a.mode if hasattr(a, "mode") else ("reduced" if a.some else "complete")
    q, r = _fields(c, op.linalg_qr(x, mode="complete" if mode == "complete" else "reduced"), 2)
    return [op.zeros([0], c.dtype) if mode == "r" else q, r]


@aten("geqrf.default")
def _geqrf(c: Context, a: Args) -> Result:
    made: Result = _fields(c, op.linalg_geqrf(a.self), 2)
    return made


@aten("ormqr.default")
def _ormqr(c: Context, a: Args) -> Expr:
    """Products with the square matrix of the reflections, whose vectors get columns of zeros up to it."""
    *lead, rows, columns = shape_of(a.self)
    wide = c.emit(op.matmul(a.self, unit_matrices(c, lead, columns, rows)))
    q = c.emit(op.linalg_householder_product(wide, a.input2))
    turned = swap(q, -1, -2) if a.transpose else q
    return op.matmul(turned, a.input3) if a.left else op.matmul(a.input3, turned)


# ---- eigenvalues and singular values


@aten("linalg_eigh.default", "_linalg_eigh.default", "linalg_eigvalsh.default")
def _eigh(c: Context, a: Args) -> Result:
    made = _fields(c, op.linalg_eigh(a.A if hasattr(a, "A") else a.self, UPLO=str(a.UPLO).upper()), 2)
    return made if isinstance(c.value, (list, tuple)) else made[0]


@aten("linalg_svd.default", "_linalg_svd.default", "svd.default", "linalg_svdvals.default")
def _svd(c: Context, a: Args) -> Result:
    """The older form gives v instead of its transpose."""
    x = a.A if hasattr(a, "A") else a.self
    full = a.full_matrices if hasattr(a, "full_matrices") else not getattr(a, "some", True)
    refuse(not getattr(a, "compute_uv", True) and c.uses(0), "factors nobody asked for")
    u, s, vh = _fields(c, op.linalg_svd(x, full_matrices=bool(full)), 3)
    if not isinstance(c.value, (list, tuple)):
        return s
    return [u, s, swap(vh, -1, -2) if hasattr(a, "some") else vh]


def _limit(c: Context, a: Args, largest: Expr, sizes: tuple[Expr, Expr]) -> Expr:
    """Values up to it count as 0: the larger of ``atol`` and ``rtol`` times the largest; by default rounding errors."""
    kind = dtype_of(largest)
    atol, rtol = getattr(a, "atol", None), getattr(a, "rtol", None)
    rtol = getattr(a, "rcond", None) if rtol is None else rtol
    atol = getattr(a, "tol", None) if atol is None else atol

    def column(value: Any) -> Expr:
        made = c.cast(value, kind)
        return c.reshape(made, [*shape_of(made), 1]) if rank_of(made) else made

    if rtol is None:
        eps = float(np.finfo(kind if kind != "bfloat16" else "float32").eps)
        whole: Expr = c.cast(maximum(*sizes), kind) * number(eps, kind)
        if atol is not None:
            given = column(atol)
            whole = op.where(op.greater(given, 0), 0, whole)
    else:
        whole = column(rtol)
    made = whole * largest
    return made if atol is None else op.maximum(column(atol), made)


def _values(c: Context, x: Expr, hermitian: bool) -> tuple[list[Expr], Expr, Expr]:
    """Factors, the values between them, and their sizes."""
    if hermitian:
        values, vectors = _fields(c, op.linalg_eigh(x), 2)
        return [vectors], values, c.emit(op.abs(values))
    u, values, vh = _fields(c, op.linalg_svd(x, full_matrices=False), 3)
    return [u, vh], values, values


@aten("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float", "linalg_pinv.default", "linalg_pinv.rcond_tensor",
      "pinverse.default")  # fmt: skip
def _pinv(c: Context, a: Args) -> Expr:
    if has_none(a.self):
        return op.zeros(c.shape, c.dtype)
    factors, values, sizes = _values(c, c.emit(a.self), bool(getattr(a, "hermitian", False)))
    largest = op.max(sizes, axis=(-1,), keepdims=True)
    kept = op.greater(sizes, _limit(c, a, largest, shape_of(a.self)[-2:]))  # type: ignore[arg-type]
    inverse = op.where(kept, 1 / values, 0)
    line = op.expand_dims(inverse, axis=[-2])
    left, right = (factors[0], factors[0]) if len(factors) == 1 else (swap(factors[1], -1, -2), factors[0])
    return op.matmul(left * line, swap(right, -1, -2))


@aten("linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.default",
      "linalg_matrix_rank.tol_tensor")  # fmt: skip
def _rank(c: Context, a: Args) -> Expr:
    x = a.input if hasattr(a, "input") else a.self
    if has_none(x):
        return op.zeros(c.shape, "int64")
    _, _, sizes = _values(c, c.emit(x), bool(a.hermitian))
    largest = op.max(sizes, axis=(-1,), keepdims=True)
    kept = op.greater(sizes, _limit(c, a, largest, shape_of(x)[-2:]))  # type: ignore[arg-type]
    return op.sum(op.astype(kept, "int64"), axis=(-1,))


@aten("linalg_cond.default")
def _cond(c: Context, a: Args) -> Expr:
    """The quotient of the largest and the smallest singular value, or the other way round for p = -2."""
    refuse(a.p not in (None, 2, -2), "a condition in another norm than 2")
    refuse(has_none(a.self), "an empty matrix")
    values = c.emit(TupleGetItem(c.emit(op.linalg_svd(a.self, full_matrices=False)), 1))
    axis = rank_of(values) - 1
    first, last = [cut(values, axis, place, 1) for place in (to_dim(0), shape_of(values)[-1] - 1)]
    return c.reshape(last / first if a.p == -2 else first / last)
