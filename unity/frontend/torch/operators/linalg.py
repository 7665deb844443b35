"""Table entries: determinants, inverses and linear systems, through LU and Cholesky factors; orthogonal factors, eigenvalues of
symmetric matrices, singular values; bags of embeddings.

torch raises where a matrix is singular; here the result holds infinities or NaN, and the ``info`` outputs say where.
"""

from __future__ import annotations

import math

from .... import op
from ....ir import build
from ....ir.expr import TupleGetItem
from ....ir.relation import Answer, same_dims
from ....ir.types import Expr
from ..context.context import (
    ATEN,
    Args,
    Context,
    Result,
    aten,
    dtype_of,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
)
from .index import has_none
from .rounding import upcast
from .shape import slice_axis, swap, unit_matrix
from .view import diagonal_view, strided


def factors(c: Context, a: Expr) -> tuple[Expr, Expr]:
    """LU factors of square matrices, and which rows were exchanged."""
    result = c.emit(op.linalg_lu_factor(a))
    return c.emit(TupleGetItem(result, 0)), c.emit(TupleGetItem(result, 1))


def diagonal(c: Context, x: Expr) -> Expr:
    """The diagonal of the last two axes."""
    return strided(c, x, *diagonal_view(c, x, 0, -2, -1))


def _determinant(c: Context, lu: Expr, pivots: Expr) -> Expr:
    """The product of the diagonal, turned once for each exchange."""
    n = shape_of(pivots)[-1]
    moved = op.not_equal(pivots, op.astype(op.arange(1, n + 1, 1, dtype="int64"), "int32"))
    swaps = op.sum(c.cast(moved, "int32"), axis=(-1,))
    odd = op.not_equal(op.bitwise_and(swaps, number(1, "int32")), 0)
    result = c.emit(op.prod(diagonal(c, lu), axis=(-1,)))
    return op.where(odd, -result, result)


@aten("_linalg_det.default")
def _det(c: Context, a: Args) -> Result:
    refuse(c.uses(1), "the factors of the transposed matrix")
    lu, pivots = factors(c, a.A)
    return [_determinant(c, lu, pivots), None, pivots]


@aten("_linalg_slogdet.default")
def _slogdet(c: Context, a: Args) -> Result:
    refuse(c.uses(2), "the factors of the transposed matrix")
    lu, pivots = factors(c, a.A)
    result = c.emit(_determinant(c, lu, pivots))
    size = op.sum(op.log(op.abs(diagonal(c, lu))), axis=(-1,))
    signs = c.emit(op.sign(op.prod(op.sign(diagonal(c, lu)), axis=(-1,))))
    negative = op.less(result * signs, 0)
    return [op.where(negative, -signs, signs), size, None, pivots]


def _first_bad(c: Context, bad: Expr) -> Expr:
    """Place, counted from 1, of the first element of the last axis that is bad; 0 where none is."""
    if has_none(bad):
        return op.zeros(shape_of(bad)[:-1], "int32")
    position = op.astype(op.argmax(c.cast(bad, "int32"), axis=rank_of(bad) - 1), "int32")
    some = op.any(bad, axis=(-1,))
    return op.where(some, position + 1, 0)


def _info(c: Context, lu: Expr) -> Expr:
    pivot = c.emit(diagonal(c, lu))
    return _first_bad(c, c.emit(op.equal(pivot, 0)))


@aten("linalg_inv.default", "inverse.default", "linalg_inv_ex.default")
def _inv(c: Context, a: Args) -> Result:
    x = a.A if hasattr(a, "A") else a.self
    lu, pivots = factors(c, x)
    result = op.linalg_lu_solve(lu, pivots, c.broadcast(unit_matrix(c, *shape_of(x)[-2:]), shape_of(x)))
    return [result, _info(c, lu)] if isinstance(c.value, (list, tuple)) else result


def lead_axes(c: Context, a: Expr, b: Expr) -> list[Expr]:
    """Leading axes two stacks of matrices are broadcast to."""
    lines = [op.zeros(shape_of(t)[:-2], "bool") for t in (a, b)]
    return list(shape_of(op.logical_or(*lines)))


@aten("linalg_solve.default", "linalg_solve_ex.default", "_linalg_solve_ex.default")
def _solve(c: Context, a: Args) -> Result:
    """One vector or columns; batches of both sides are brought to one shape."""
    if not a.left:
        refuse(isinstance(c.value, (list, tuple)) and len(c.value) > 2, "factors of the transposed matrix")
        a.A, a.B = swap(a.A, -1, -2), swap(a.B, -1, -2)
    lu, pivots = factors(c, a.A)
    rank, shape = rank_of(a.B), c.shape
    vector = rank == 1 or same_dims(shape_of(a.B), shape_of(a.A)[:-1]) is Answer.YES
    if not a.left:
        shape = (*shape[:-2], shape[-1], shape[-2])
    right = c.reshape(a.B, [*shape_of(a.B), 1]) if vector else a.B
    lead = lead_axes(c, lu, right)
    left, right = [c.broadcast(t, [*lead, *shape_of(t)[-2:]]) for t in (lu, right)]
    positions = c.broadcast(pivots, [*lead, shape_of(pivots)[-1]])
    result = c.reshape(op.linalg_lu_solve(left, positions, right), shape)
    result = result if a.left else swap(result, -1, -2)
    if not isinstance(c.value, (list, tuple)):
        return result
    refuse(len(c.value) > 2 and c.uses(1), "the factors of the transposed matrix")
    return [result, _info(c, lu)] if len(c.value) == 2 else [result, lu, pivots, _info(c, lu)]


@aten("linalg_cholesky.default", "linalg_cholesky_ex.default", "cholesky.default")
def _cholesky(c: Context, a: Args) -> Result:
    x = getattr(a, "A", None)
    x = a.self if x is None else x
    lower = c.emit(op.linalg_cholesky(swap(x, -1, -2) if a.upper else x))
    result = swap(lower, -1, -2) if a.upper else lower
    if not isinstance(c.value, (list, tuple)):
        return result
    root = c.emit(diagonal(c, lower))
    bad = op.logical_not(op.greater(root, 0))
    return [result, _first_bad(c, c.emit(bad))]


@aten("linalg_solve_triangular.default")
def _triangular(c: Context, a: Args) -> Expr:
    """A system from the right is the transposed one from the left."""
    lead = lead_axes(c, a.self, a.B)
    left, right = [c.broadcast(t, [*lead, *shape_of(t)[-2:]]) for t in (a.self, a.B)]
    if a.left:
        return op.linalg_solve_triangular(left, right, upper=bool(a.upper), unitriangular=bool(a.unitriangular))
    left, right = swap(left, -1, -2), swap(right, -1, -2)
    result = op.linalg_solve_triangular(left, right, upper=not a.upper, unitriangular=bool(a.unitriangular))
    return swap(result, -1, -2)


@aten("_grouped_mm.default")
def _grouped_mm(c: Context, a: Args) -> Expr:
    x, weight = a.self, a.mat2
    refuse(rank_of(x) != 2 or rank_of(weight) != 3 or a.offs is None or a.bias is not None, "groups of columns")
    return c.cast(op.nn_grouped_matmul(x, weight, a.offs), c.dtype)


def _experts(c: Context, a: Args) -> Expr:
    """The operator of the package transformers for mixtures of experts."""
    return c.cast(op.nn_grouped_matmul(a.input, c.cast(a.weight, dtype_of(a.input)), a.offs), c.dtype)


ATEN["transformers.grouped_mm_fallback.default"] = _experts


# ---- factors, eigenvalues and singular values


def _fields(c: Context, result: Expr, count: int) -> list[Expr]:
    found = c.emit(result)
    return [c.emit(TupleGetItem(found, n)) for n in range(count)]


@aten("linalg_qr.default", "qr.default")
def _qr(c: Context, a: Args) -> Result:
    """Mode r gives no q: an empty tensor."""
    x = a.A if hasattr(a, "A") else a.self
    mode = a.mode if hasattr(a, "mode") else ("reduced" if a.some else "complete")
    q, r = _fields(c, op.linalg_qr(x, mode="complete" if mode == "complete" else "reduced"), 2)
    return [op.zeros([0], c.dtype) if mode == "r" else q, r]


@aten("linalg_eigh.default", "_linalg_eigh.default", "linalg_eigvalsh.default")
def _eigh(c: Context, a: Args) -> Result:
    result = _fields(c, op.linalg_eigh(a.A if hasattr(a, "A") else a.self, UPLO=str(a.UPLO).upper()), 2)
    return result if isinstance(c.value, (list, tuple)) else result[0]


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


# ---- bags of embeddings


@aten(
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
    "embedding_bag.padding_idx",
    "embedding_bag.default",
)
def _embedding_bag(c: Context, a: Args) -> Result:
    """Rows of each bag summed, averaged, or the largest taken; a bag is where the offsets say it begins."""
    bags, width = c.symbols.dims(c.value[0].shape)
    if build.is_int(bags, 0) or has_none(a.indices):
        return [op.zeros((bags, width), c.dtype), None, None, None]
    refuse(has_none(a.weight), "no row to take")
    count = shape_of(a.indices)[0]
    size = _bag_size(c, bags, count)
    result = _even_bags(c, a, bags, size) if size else _uneven_bags(c, a, bags, width)
    return [c.cast(result, c.dtype), None, None, None]


def _bag_size(c: Context, bags: Expr, count: Expr) -> int:
    """Indices of each bag where the offsets are a range that gives all of them as many (what two axes of indices become), or 0."""
    offsets = c.node.args[2]
    if str(offsets.target) != "aten.arange.start_step" or offsets.args[0] != 0 or type(offsets.args[2]) is not int:
        return 0
    step: int = offsets.args[2]
    return step if step > 0 and build.is_int(bags * step - count, 0) else 0


def _padding(c: Context, a: Args) -> int | None:
    """The row that counts as missing."""
    padding: int | None = a.padding_idx
    if padding is not None and padding < 0:
        return padding + static(shape_of(a.weight)[0], "the number of rows") if "padding_idx" in c.node_target else None
    return padding


def _even_bags(c: Context, a: Args, bags: Expr, size: int) -> Expr:
    """Bags of one size: reductions along an axis."""
    rows: Expr = upcast(c, op.take(a.weight, c.reshape(a.indices, [bags, size]), axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [bags, size, 1]), kind)
    if padding is None:
        return c.emit((op.sum, op.mean, op.max)[a.mode](rows, axis=1))
    valid = c.emit(op.not_equal(c.reshape(c.cast(a.indices, "int64"), [bags, size, 1]), number(padding, "int64")))
    rows = op.where(valid, rows, -math.inf if a.mode == 2 else 0)
    result = c.emit((op.max if a.mode == 2 else op.sum)(rows, axis=1))
    counted = c.emit(op.sum(c.cast(valid, kind), axis=1))
    if a.mode == 1:
        return result / op.maximum(counted, 1)
    return result if a.mode == 0 else op.where(op.equal(counted, 0), 0, result)


def _uneven_bags(c: Context, a: Args, bags: Expr, width: Expr) -> Expr:
    """Bags that begin where the offsets say: each row is added to its bag."""
    count = shape_of(a.indices)[0]
    offsets = slice_axis(a.offsets, 0, 0, bags) if a.include_last_offset else a.offsets
    begins = op.scatter_elements(
        op.zeros((count + 1,), "int64"), c.cast(offsets, "int64"), op.ones((bags,), "int64"),
        reduction="add",
    )  # fmt: skip
    begun = slice_axis(c.emit(op.cumsum(begins, axis=0)), 0, 0, count)
    bag = c.emit(begun - 1)
    rows: Expr = upcast(c, op.take(a.weight, a.indices, axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [count, 1]), kind)
    valid: Expr = op.ones((count,), "bool")
    if padding is not None:
        valid = op.not_equal(c.cast(a.indices, "int64"), number(padding, "int64"))
    mask = c.emit(valid)
    column = c.reshape(mask, [count, 1])
    low = number(-math.inf if a.mode == 2 else 0, kind)
    rows = rows if padding is None else op.where(column, rows, low)
    area = c.broadcast(low, [bags, width])
    result: Expr = op.scatter_nd(area, c.reshape(bag, [count, 1]), rows, reduction="max" if a.mode == 2 else "add")
    zeros = op.zeros((bags,), "int64")
    counted = op.scatter_elements(zeros, bag, c.cast(mask, "int64"), axis=0, reduction="add")
    sizes = c.reshape(op.maximum(counted, 1), [bags, 1])
    if a.mode == 1:
        result = result / c.cast(sizes, kind)
    elif a.mode == 2:
        result = op.where(op.equal(result, low), 0, result)
    return result
