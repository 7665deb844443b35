"""Table entries: LU factors taken apart, systems of transposed and triangular matrices, systems of tensors.

Not here: determinants, inverses and systems of plain matrices (``linalg.py``).
"""

from __future__ import annotations

from .... import op
from ....ir.build import minimum
from ....ir.relation import Answer, same_dim
from ....ir.types import Expr
from ..context.context import Args, Context, Result, aten, axis_of, rank_of, refuse, shape_of, to_dim
from .linalg import factors, identity, lead_axes, solution, unit_matrices
from .shape import cut, permute, swap


def _filled(c: Context, pivots: Expr, rows: Expr) -> Expr:
    """Exchanges of all rows: those that nobody exchanged stay."""
    count = shape_of(pivots)[-1]
    if same_dim(count, rows) is Answer.YES:
        return pivots
    rest = op.astype(op.arange(count + 1, rows + 1, 1, dtype="int64"), "int32")
    lead = shape_of(pivots)[:-1]
    return op.concat([pivots, c.broadcast(rest, [*lead, *shape_of(rest)])], axis=-1)


def _permutation(c: Context, lu: Expr, pivots: Expr) -> Expr:
    """The matrix P of A = P L U: a system whose factors are the unit matrix moves the rows alone."""
    rows = shape_of(lu)[-2]
    unit = c.emit(unit_matrices(c, shape_of(lu)[:-2], rows, rows))
    return swap(op.linalg_lu_solve(unit, c.emit(_filled(c, pivots, rows)), unit), -1, -2)


def _parts(c: Context, lu: Expr) -> tuple[Expr, Expr]:
    """L with its unit diagonal, and U."""
    *lead, rows, columns = shape_of(lu)
    least = minimum(rows, columns)
    left, right = cut(lu, len(lead) + 1, 0, least), cut(lu, len(lead), 0, least)
    return op.tril(left, -1) + unit_matrices(c, lead, rows, least), op.triu(right)


@aten("linalg_lu.default")
def _lu(c: Context, a: Args) -> Result:
    refuse(not a.pivot, "no exchange of rows")
    lu, pivots = factors(c, a.A)
    return [_permutation(c, lu, pivots), *_parts(c, lu)]


@aten("lu_unpack.default")
def _lu_unpack(c: Context, a: Args) -> Result:
    lu = c.emit(a.LU_data)
    moved = _permutation(c, lu, a.LU_pivots) if a.unpack_pivots else None
    return [moved, *_parts(c, lu)] if a.unpack_data else [moved, None, None]


@aten("linalg_lu_solve.default")
def _lu_solve(c: Context, a: Args) -> Expr:
    """X A = B is the system of the transposed matrices; A^T = U^T L^T P^T."""
    right = a.B if a.left else swap(a.B, -1, -2)
    if bool(a.left) != bool(a.adjoint):
        shape = c.shape if a.left else (*c.shape[:-2], c.shape[-1], c.shape[-2])
        made = solution(c, a.LU, a.pivots, right, False, shape)
    else:
        lead = lead_axes(c, a.LU, right)
        lu, right = [c.emit(c.broadcast(t, [*lead, *shape_of(t)[-2:]])) for t in (a.LU, right)]
        pivots = c.broadcast(a.pivots, [*lead, shape_of(a.pivots)[-1]])
        turned = c.emit(swap(lu, -1, -2))
        first = op.linalg_solve_triangular(turned, right, upper=False)
        second = op.linalg_solve_triangular(turned, first, upper=True, unitriangular=True)
        made = op.matmul(_permutation(c, lu, pivots), second)
    return made if a.left else swap(made, -1, -2)


@aten("triangular_solve.default")
def _triangular_solve(c: Context, a: Args) -> Result:
    lead = lead_axes(c, a.A, a.self)
    matrix, right = [c.emit(c.broadcast(t, [*lead, *shape_of(t)[-2:]])) for t in (a.A, a.self)]
    left = swap(matrix, -1, -2) if a.transpose else matrix
    upper = bool(a.upper) != bool(a.transpose)
    return [op.linalg_solve_triangular(left, right, upper=upper, unitriangular=bool(a.unitriangular)), matrix]


def _volume(extents: tuple[Expr, ...]) -> Expr:
    made = to_dim(1)
    for extent in extents:
        made = made * extent
    return made


@aten("linalg_tensorinv.default")
def _tensorinv(c: Context, a: Args) -> Expr:
    size = _volume(shape_of(a.self)[: a.ind])
    matrix = c.emit(c.reshape(a.self, [size, size]))
    return c.reshape(op.linalg_lu_solve(*factors(c, matrix), identity(c, matrix)))


@aten("linalg_tensorsolve.default")
def _tensorsolve(c: Context, a: Args) -> Expr:
    rank = rank_of(a.self)
    last = [axis_of(d, rank) for d in a.dims or ()]
    moved = permute(a.self, [*[n for n in range(rank) if n not in last], *last]) if last else a.self
    size = _volume(shape_of(a.other))
    lu, pivots = factors(c, c.emit(c.reshape(moved, [size, size])))
    return c.reshape(op.linalg_lu_solve(lu, pivots, c.reshape(a.other, [size, 1])))
