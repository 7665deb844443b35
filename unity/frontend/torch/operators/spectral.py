"""Table entries: orthogonal factors, eigenvalues of symmetric matrices, singular values.

Not here: LU, Cholesky and linear systems (``linalg.py``); eigenvalues of other matrices, which are complex.
"""

from __future__ import annotations

from .... import op
from ....ir.expr import TupleGetItem
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    refuse,
)
from .shape import swap


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
