"""Table entries: determinants, inverses and linear systems, through LU and Cholesky factors; bags of embeddings.

torch raises where a matrix is singular; here the result holds infinities or NaN, and the ``info`` outputs say where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    axis_of,
    dtype_of,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
)
from .index import has_none
from .reduce import matrix_norm, norm
from .rounding import widened
from .shape import cut, swap, unit_matrix
from .view import diagonal_places, strided


def factors(c: Context, a: Expr) -> tuple[Expr, Expr]:
    """LU factors of square matrices, and which rows were exchanged."""
    made = c.emit(op.linalg_lu_factor(a))
    return c.emit(TupleGetItem(made, 0)), c.emit(TupleGetItem(made, 1))


def diagonal(c: Context, x: Expr) -> Expr:
    """The diagonal of the last two axes."""
    return strided(c, x, *diagonal_places(c, x, 0, -2, -1))


def _determinant(c: Context, lu: Expr, pivots: Expr) -> Expr:
    """The product of the diagonal, turned once for each exchange."""
    n = shape_of(pivots)[-1]
    moved = op.not_equal(pivots, op.astype(op.arange(1, n + 1, 1, dtype="int64"), "int32"))
    swaps = op.sum(c.cast(moved, "int32"), axis=(-1,))
    odd = op.not_equal(op.bitwise_and(swaps, number(1, "int32")), 0)
    made = c.emit(op.prod(diagonal(c, lu), axis=(-1,)))
    return op.where(odd, -made, made)


@aten("linalg_det.default", "det.default")
def _det(c: Context, a: Args) -> Expr:
    return _determinant(c, *factors(c, a.A if hasattr(a, "A") else a.self))


@aten("_linalg_det.default")
def _det_with_factors(c: Context, a: Args) -> Result:
    refuse(c.uses(1), "the factors of the transposed matrix")
    lu, pivots = factors(c, a.A)
    return [_determinant(c, lu, pivots), None, pivots]


@aten("linalg_slogdet.default", "slogdet.default", "_linalg_slogdet.default", "logdet.default")
def _slogdet(c: Context, a: Args) -> Result:
    lu, pivots = factors(c, a.A if hasattr(a, "A") else a.self)
    made = c.emit(_determinant(c, lu, pivots))
    size = op.sum(op.log(op.abs(diagonal(c, lu))), axis=(-1,))
    if not isinstance(c.value, (list, tuple)):
        return op.where(op.less(made, 0), math.nan, size)
    refuse(len(c.value) > 2 and c.uses(2), "the factors of the transposed matrix")
    signs = c.emit(op.sign(op.prod(op.sign(diagonal(c, lu)), axis=(-1,))))
    turned = op.less(made * signs, 0)
    return [op.where(turned, -signs, signs), size, None, pivots][: len(c.value)]


def _first_bad(c: Context, bad: Expr) -> Expr:
    """Place, counted from 1, of the first element of the last axis that is bad; 0 where none is."""
    if has_none(bad):
        return op.zeros(shape_of(bad)[:-1], "int32")
    place = op.astype(op.argmax(c.cast(bad, "int32"), axis=rank_of(bad) - 1), "int32")
    some = op.any(bad, axis=(-1,))
    return op.where(some, place + 1, 0)


def _info(c: Context, lu: Expr) -> Expr:
    pivot = c.emit(diagonal(c, lu))
    return _first_bad(c, c.emit(op.equal(pivot, 0)))


def identity(c: Context, a: Expr) -> Expr:
    """Unit matrices of the shape of a stack."""
    *lead, rows, columns = shape_of(a)
    return unit_matrices(c, lead, rows, columns)


def unit_matrices(c: Context, lead: Sequence[Expr], rows: Expr, columns: Expr) -> Expr:
    """A stack of matrices with ones on the diagonal."""
    return c.broadcast(unit_matrix(c, rows, columns), [*lead, rows, columns])


@aten("linalg_inv.default", "inverse.default")
def _inv(c: Context, a: Args) -> Expr:
    x = a.A if hasattr(a, "A") else a.self
    return op.linalg_lu_solve(*factors(c, x), identity(c, x))


@aten("linalg_inv_ex.default")
def _inv_ex(c: Context, a: Args) -> Result:
    lu, pivots = factors(c, a.A)
    return [op.linalg_lu_solve(lu, pivots, identity(c, a.A)), _info(c, lu)]


def solution(c: Context, lu: Expr, pivots: Expr, b: Expr, vector: bool, shape: Sequence[Expr]) -> Expr:
    """Solve for one vector or for columns; batches of both sides are brought to one shape."""
    right = c.reshape(b, [*shape_of(b), 1]) if vector else b
    lead = lead_axes(c, lu, right)
    left = c.broadcast(lu, [*lead, *shape_of(lu)[-2:]])
    places = c.broadcast(pivots, [*lead, shape_of(pivots)[-1]])
    made = op.linalg_lu_solve(left, places, c.broadcast(right, [*lead, *shape_of(right)[-2:]]))
    return c.reshape(made, shape)


def lead_axes(c: Context, a: Expr, b: Expr) -> list[Expr]:
    """Leading axes two stacks of matrices are broadcast to."""
    lines = [op.zeros(shape_of(t)[:-2], "bool") for t in (a, b)]
    return list(shape_of(op.logical_or(*lines)))


@aten("linalg_solve.default", "linalg_solve_ex.default", "_linalg_solve_ex.default")
def _solve(c: Context, a: Args) -> Result:
    if not a.left:
        refuse(isinstance(c.value, (list, tuple)) and len(c.value) > 2, "factors of the transposed matrix")
        a.A, a.B = swap(a.A, -1, -2), swap(a.B, -1, -2)
    lu, pivots = factors(c, a.A)
    rank, shape = rank_of(a.B), c.shape
    vector = rank == 1 or same_dims(shape_of(a.B), shape_of(a.A)[:-1]) is Answer.YES
    if not a.left:
        shape = (*shape[:-2], shape[-1], shape[-2])
    made = solution(c, lu, pivots, a.B, vector, shape)
    made = made if a.left else swap(made, -1, -2)
    if not isinstance(c.value, (list, tuple)):
        return made
    rest = [_info(c, lu)] if len(c.value) == 2 else [lu, pivots, _info(c, lu)]
    refuse(len(c.value) > 2 and c.uses(1), "the factors of the transposed matrix")
    return [made, *rest]


@aten("linalg_lu_factor_ex.default", "linalg_lu_factor.default")
def _lu_factor(c: Context, a: Args) -> Result:
    lu, pivots = factors(c, a.A)
    return [lu, pivots, _info(c, lu)][: len(c.value)]


@aten("linalg_cholesky.default", "linalg_cholesky_ex.default", "cholesky.default")
def _cholesky(c: Context, a: Args) -> Result:
    x = getattr(a, "A", None)
    x = a.self if x is None else x
    lower = c.emit(op.linalg_cholesky(swap(x, -1, -2) if a.upper else x))
    made = swap(lower, -1, -2) if a.upper else lower
    if not isinstance(c.value, (list, tuple)):
        return made
    root = c.emit(diagonal(c, lower))
    bad = op.logical_not(op.greater(root, 0))
    return [made, _first_bad(c, c.emit(bad))]


@aten("linalg_solve_triangular.default")
def _triangular(c: Context, a: Args) -> Expr:
    """A system from the right is the transposed one from the left."""
    lead = lead_axes(c, a.self, a.B)
    left, right = [c.broadcast(t, [*lead, *shape_of(t)[-2:]]) for t in (a.self, a.B)]
    if a.left:
        return op.linalg_solve_triangular(left, right, upper=bool(a.upper), unitriangular=bool(a.unitriangular))
    left, right = swap(left, -1, -2), swap(right, -1, -2)
    made = op.linalg_solve_triangular(left, right, upper=not a.upper, unitriangular=bool(a.unitriangular))
    return swap(made, -1, -2)


@aten("cholesky_solve.default")
def _cholesky_solve(c: Context, a: Args) -> Expr:
    lead = lead_axes(c, a.input2, a.self)
    factor, right = [c.broadcast(t, [*lead, *shape_of(t)[-2:]]) for t in (a.input2, a.self)]
    lower = c.emit(swap(factor, -1, -2) if a.upper else factor)
    first = op.linalg_solve_triangular(lower, right, upper=False)
    return op.linalg_solve_triangular(swap(lower, -1, -2), first, upper=True)


@aten("cholesky_inverse.default")
def _cholesky_inverse(c: Context, a: Args) -> Expr:
    lower = c.emit(swap(a.self, -1, -2) if a.upper else a.self)
    first = op.linalg_solve_triangular(lower, identity(c, lower), upper=False)
    return op.linalg_solve_triangular(swap(lower, -1, -2), first, upper=True)


@aten("linalg_matrix_power.default", "matrix_power.default")
def _matrix_power(c: Context, a: Args) -> Expr:
    """By squaring; a negative power is that of the inverse."""
    x = c.emit(a.self)
    if a.n < 0:
        x = c.emit(op.linalg_lu_solve(*factors(c, x), identity(c, x)))
    made, rest = None, abs(a.n)
    while rest:
        if rest & 1:
            made = x if made is None else c.emit(op.matmul(made, x))
        rest >>= 1
        x = c.emit(op.matmul(x, x)) if rest else x
    return identity(c, x) if made is None else made


@aten("linalg_cross.default", "cross.default")
def _cross(c: Context, a: Args) -> Expr:
    """x y' - y x' of the axes turned by one and by two places."""
    x, y = [c.emit(c.broadcast(c.cast(t, c.dtype))) for t in (a.self, a.other)]
    first = next((n for n, d in enumerate(c.shape) if build.is_int(d, 3)), 0)
    axis = first if a.dim is None else axis_of(a.dim, len(c.shape))

    def turned(t: Expr, by: int) -> Expr:
        parts = [cut(t, axis, (n + by) % 3, 1) for n in range(3)]
        return c.emit(op.concat(parts, axis=axis))

    return turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1)


@aten("_grouped_mm.default")
def _grouped_mm(c: Context, a: Args) -> Expr:
    x, weight = a.self, a.mat2
    refuse(rank_of(x) != 2 or rank_of(weight) != 3 or a.offs is None or a.bias is not None, "groups of columns")
    return c.cast(op.nn_grouped_matmul(x, weight, a.offs), c.dtype)


def _experts(c: Context, a: Args) -> Expr:
    """The operator of the package transformers for mixtures of experts."""
    return c.cast(op.nn_grouped_matmul(a.input, c.cast(a.weight, dtype_of(a.input)), a.offs), c.dtype)


ATEN["transformers.grouped_mm_fallback.default"] = _experts


@aten("linalg_norm.default", "linalg_norm.ord_str")
def _norm(c: Context, a: Args) -> Expr:
    """A vector norm of all elements or along one axis, a matrix norm along two."""
    rank = rank_of(a.self)
    if a.dim is None and a.ord is not None:
        a.dim = list(range(rank))
    if a.ord is None or (len(a.dim) == 1 and not isinstance(a.ord, str)):
        return norm(c, c.cast(a.self, c.dtype), a.ord, a.dim, a.keepdim)
    made: Expr = matrix_norm(c, a)
    return made


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
    made = _even_bags(c, a, bags, size) if size else _uneven_bags(c, a, bags, width)
    return [c.cast(made, c.dtype), None, None, None]


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
    rows: Expr = widened(c, op.take(a.weight, c.reshape(a.indices, [bags, size]), axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [bags, size, 1]), kind)
    if padding is None:
        return c.emit((op.sum, op.mean, op.max)[a.mode](rows, axis=1))
    kept = c.emit(op.not_equal(c.reshape(c.cast(a.indices, "int64"), [bags, size, 1]), number(padding, "int64")))
    rows = op.where(kept, rows, -math.inf if a.mode == 2 else 0)
    made = c.emit((op.max if a.mode == 2 else op.sum)(rows, axis=1))
    counted = c.emit(op.sum(c.cast(kept, kind), axis=1))
    if a.mode == 1:
        return made / op.maximum(counted, 1)
    return made if a.mode == 0 else op.where(op.equal(counted, 0), 0, made)


def _uneven_bags(c: Context, a: Args, bags: Expr, width: Expr) -> Expr:
    """Bags that begin where the offsets say: each row is added to its bag."""
    count = shape_of(a.indices)[0]
    offsets = cut(a.offsets, 0, 0, bags) if a.include_last_offset else a.offsets
    begins = op.scatter_elements(
        op.zeros((count + 1,), "int64"), c.cast(offsets, "int64"), op.ones((bags,), "int64"),
        reduction="add",
    )  # fmt: skip
    begun = cut(c.emit(op.cumsum(begins, axis=0)), 0, 0, count)
    bag = c.emit(begun - 1)
    rows: Expr = widened(c, op.take(a.weight, a.indices, axis=0))
    padding, kind = _padding(c, a), dtype_of(rows)
    if a.per_sample_weights is not None:
        rows = rows * c.cast(c.reshape(a.per_sample_weights, [count, 1]), kind)
    valid: Expr = op.ones((count,), "bool")
    if padding is not None:
        valid = op.not_equal(c.cast(a.indices, "int64"), number(padding, "int64"))
    kept = c.emit(valid)
    column = c.reshape(kept, [count, 1])
    low = number(-math.inf if a.mode == 2 else 0, kind)
    rows = rows if padding is None else op.where(column, rows, low)
    area = c.broadcast(low, [bags, width])
    made: Expr = op.scatter_nd(area, c.reshape(bag, [count, 1]), rows, reduction="max" if a.mode == 2 else "add")
    zeros = op.zeros((bags,), "int64")
    counted = op.scatter_elements(zeros, bag, c.cast(kept, "int64"), axis=0, reduction="add")
    sizes = c.reshape(op.maximum(counted, 1), [bags, 1])
    if a.mode == 1:
        made = made / c.cast(sizes, kind)
    elif a.mode == 2:
        made = op.where(op.equal(made, low), 0, made)
    return made
