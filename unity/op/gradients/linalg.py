"""Gradients of factorisations and of the solution of linear systems, written with products and triangular systems.

Each is the derivative of what the row reads: the other triangle of a triangular matrix gets zeros, and ``cholesky``, which reads
only the lower triangle, gives a lower triangular gradient (torch spreads it over both triangles; the two agree for a matrix made
symmetric by the program). Singular matrices give infinities or NaN, as the forward rows do.

Sources: M. B. Giles, An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation, 2008 (systems, Cholesky); S. F. Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions
with application in optimum experimental design, 2010 (LU).
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import Call, IntImm
from ...ir.op import OPS
from ...ir.relation import Answer, same_dim
from ...ir.types import Expr
from ..common.table import constant
from ..common.type_rules import attr, bool_attr, fail
from ..elementwise.binary import add, divide, multiply, subtract
from ..elementwise.unary import negative
from ..linalg import lapack
from ..linalg.factor import lu_solve, solve_triangular
from ..linalg.lapack import matrix_exp
from ..linalg.products import matmul
from ..manipulate.create import eye, zeros_like
from ..manipulate.manipulate import broadcast_to, expand_dims, permute_dims, tril, triu
from ..manipulate.slicing import concat, strided_slice
from .parts import field_of, operand_shape
from .rules import GRADIENTS, Rule


def _turned(call: Call, x: Expr) -> Expr:
    """The matrices transposed."""
    axes = list(range(len(operand_shape(call, x))))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return permute_dims(x, axes=axes)


def _identity(call: Call, x: Expr) -> Expr:
    """Identity matrices in the shape of x."""
    return _identity_of(call, operand_shape(call, x), x)


def _identity_of(call: Call, shape: Any, x: Expr) -> Expr:
    """Identity matrices of a shape, in the type of x."""
    size = shape[-1]
    if type(size) is not IntImm:
        raise fail(
            call, "E218", f"the gradient needs matrices of constant size, got {x.ty}", "name it with R.match_cast"
        )
    return broadcast_to(eye(size.value, dtype=x.ty.dtype.name), shape)  # type: ignore[attr-defined]


def _triangular(call: Call, g: Expr) -> list[Any]:
    """b' = a^-T g and a' = -b' x^T in the triangle that is read (Giles 2008, section 2.3.1)."""
    a = call.args[0]
    upper, unit = bool_attr(call, "upper"), bool_attr(call, "unitriangular")
    right = solve_triangular(_turned(call, a), g, upper=not upper, unitriangular=unit)
    whole = negative(matmul(right, _turned(call, call)))
    left = triu(whole, k=1 if unit else 0) if upper else tril(whole, k=-1 if unit else 0)
    return [left, right]


def _cholesky(call: Call, g: Expr) -> list[Any]:
    """s = l^-T phi(l^T l') l^-1, phi the lower triangle with half of the diagonal (Giles 2008, section 2.4.2, in closed form).

    The gradient of the lower triangle alone is s + s^T below the diagonal and s on it.
    """
    turned = _turned(call, call)
    inner = matmul(turned, tril(g))
    half = constant(0.5, g.ty.dtype)  # type: ignore[attr-defined]
    phi = multiply(add(tril(inner), tril(inner, k=-1)), half)
    left = solve_triangular(turned, phi, upper=True)
    mirrored = solve_triangular(turned, _turned(call, left), upper=True)
    return [add(tril(_turned(call, mirrored)), tril(mirrored, k=-1))]


def _exchanged_back(call: Call, pivots: Expr, x: Expr, like: Expr) -> Expr:
    """Rows exchanged in the reverse order: p^T x, with p made by solving the system of identity factors."""
    ones = _identity(call, like)
    return matmul(_turned(call, lu_solve(ones, pivots, ones)), x)


def _lu_factor(call: Call, g: Expr) -> list[Any]:
    """a' = p^T l^-T (tril(l^T l', -1) + triu(u' u^T)) u^-T (Walter and Lehmann 2010, section 4.1)."""
    if not _is_square(operand_shape(call, call.args[0])):
        raise fail(call, "E218", "LU factors of matrices that are not square have no gradient")
    lu, pivots = field_of(call, 0), field_of(call, 1)
    flow = field_of(g, 0)
    turned = _turned(call, lu)
    lower = tril(matmul(triu(turned, k=1), tril(flow, k=-1)), k=-1)
    lower = add(lower, tril(flow, k=-1))
    middle = add(lower, triu(matmul(triu(flow), tril(turned))))
    left = solve_triangular(turned, middle, upper=True, unitriangular=True)
    whole = _turned(call, solve_triangular(triu(lu), _turned(call, left), upper=True))
    return [_exchanged_back(call, pivots, whole, lu)]


def _lu_solve(call: Call, g: Expr) -> list[Any]:
    """With l c = p b and u x = c: c' = u^-T g, w = l^-T c', b' = p^T w, u' = -triu(c' x^T), l' = -tril(w c^T, -1).

    The two triangular systems one after the other (Giles 2008, section 2.3.1); the pivots are fixed.
    """
    lu, pivots, _ = call.args
    turned = _turned(call, lu)
    middle = solve_triangular(turned, g)
    low = solve_triangular(turned, middle, upper=True, unitriangular=True)
    upper = triu(matmul(middle, _turned(call, call)))
    lower = tril(matmul(low, _turned(call, matmul(triu(lu), call))), k=-1)
    return [negative(add(upper, lower)), None, _exchanged_back(call, pivots, low, lu)]


def _symmetric_source(call: Call, flow: Expr) -> Expr:
    """The gradient of the one triangle that is read, from that of a symmetric matrix."""
    both = add(flow, _turned(call, flow))
    upper = attr(call, "UPLO", "L") == "U"
    return add(triu(both, k=1), triu(tril(flow))) if upper else add(tril(both, k=-1), triu(tril(flow)))


def _apart(call: Call, values: Expr) -> Expr:
    """``1 / (values[j] - values[i])``, 0 on the diagonal. Equal values give infinities: there is no derivative."""
    away = subtract(expand_dims(values, axis=[-2]), expand_dims(values, axis=[-1]))
    shape = operand_shape(call, values)
    unit = _identity_of(call, (*shape, shape[-1]), values)
    return divide(subtract(constant(1.0, values.ty.dtype), unit), add(away, unit))  # type: ignore[attr-defined]


def _eigh(call: Call, g: Expr) -> list[Any]:
    """a' = v (diag(w') + f * (v^T v')) v^T, f = 1 / (w_j - w_i) off the diagonal (Giles 2008, section 3.1)."""
    values, vectors = field_of(call, 0), field_of(call, 1)
    spread = multiply(matmul(_turned(call, vectors), field_of(g, 1)), _apart(call, values))
    inner = add(spread, _diagonal(call, field_of(g, 0)))
    whole = matmul(matmul(vectors, inner), _turned(call, vectors))
    half = constant(0.5, g.ty.fields[0].dtype)  # type: ignore[attr-defined]
    return [_symmetric_source(call, multiply(add(whole, _turned(call, whole)), half))]


def _diagonal(call: Call, values: Expr) -> Expr:
    """Diagonal matrices of vectors."""
    shape = operand_shape(call, values)
    return multiply(expand_dims(values, axis=[-1]), _identity_of(call, (*shape, shape[-1]), values))


def _svd(call: Call, g: Expr) -> list[Any]:
    """a' = u ((skew(u^T u') / e) s + s (skew(v^T v') / e) + diag(s')) v^T and what of u' and v' lies outside of u and v.

    skew(x) = x - x^T, e_ij = s_j^2 - s_i^2 (Giles 2008, section 3.2; J. Townsend, Differentiating the singular value decomposition,
    2016).
    """
    u, s, vh = [field_of(call, n) for n in range(3)]
    if bool_attr(call, "full_matrices", True) and not _is_square(operand_shape(call, call.args[0])):
        raise fail(call, "E218", "square factors of other matrices have no gradient", "write full_matrices=False")
    gu, gs, gv = [field_of(g, n) for n in range(3)]
    v, gv = _turned(call, vh), _turned(call, gv)
    factor = divide(_apart(call, s), _sums(s))
    inner = _diagonal(call, gs)
    for x, flow, left in ((u, gu, False), (v, gv, True)):
        mixed = matmul(_turned(call, x), flow)
        turned = multiply(subtract(mixed, _turned(call, mixed)), factor)
        inner = add(inner, multiply(expand_dims(s, axis=[-1 if left else -2]), turned))
    whole = matmul(matmul(u, inner), vh)
    right = divide(gu, expand_dims(s, axis=[-2]))
    whole = add(whole, matmul(subtract(right, matmul(u, matmul(_turned(call, u), right))), vh))
    below = divide(gv, expand_dims(s, axis=[-2]))
    rest = subtract(below, matmul(v, matmul(vh, below)))
    return [add(whole, matmul(u, _turned(call, rest)))]


def _sums(values: Expr) -> Expr:
    return add(expand_dims(values, axis=[-2]), expand_dims(values, axis=[-1]))


def _is_square(shape: Any) -> bool:
    """Are the last two sizes known to be one?"""
    return same_dim(shape[-1], shape[-2]) is Answer.YES


def _qr(call: Call, g: Expr) -> list[Any]:
    """With m = r r'^T - q'^T q: a' = (q' + q (tril(m) + tril(m, -1)^T)) r^-T; columns past the square add y r2'^T to q'.

    (D. Roberts and L. Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020.)
    """
    q, r, gq, gr = field_of(call, 0), field_of(call, 1), field_of(g, 0), field_of(g, 1)
    rows, columns = operand_shape(call, call.args[0])[-2:]
    wide = type(rows) is IntImm and type(columns) is IntImm and rows.value < columns.value
    if wide:
        first = [strided_slice(t, axes=[-1], begin=[0], end=[rows.value]) for t in (r, gr)]  # type: ignore[attr-defined]
        last = strided_slice(call.args[0], axes=[-1], begin=[rows.value], end=[columns.value])  # type: ignore[attr-defined]
        flow = strided_slice(gr, axes=[-1], begin=[rows.value], end=[columns.value])  # type: ignore[attr-defined]
        return [
            concat(
                [_square_qr(call, q, first[0], add(gq, matmul(last, _turned(call, flow))), first[1]), matmul(q, flow)],
                axis=-1,
            )
        ]
    if attr(call, "mode", "reduced") == "complete" and not _is_square((rows, columns)):
        raise fail(call, "E218", "a square q of a matrix with more rows has no gradient", 'write mode="reduced"')
    return [_square_qr(call, q, r, gq, gr)]


def _square_qr(call: Call, q: Expr, r: Expr, gq: Expr, gr: Expr) -> Expr:
    mixed = subtract(matmul(r, _turned(call, gr)), matmul(_turned(call, gq), q))
    both = add(tril(mixed), _turned(call, tril(mixed, k=-1)))
    inner = add(gq, matmul(q, both))
    return _turned(call, solve_triangular(r, _turned(call, inner), upper=True))


def _matrix_exp(call: Call, g: Expr) -> list[Any]:
    """The upper right block of the exponential of [[a^T, g], [0, a^T]] (R. Mathias, A chain rule for matrix functions, 1996)."""
    turned = _turned(call, call.args[0])
    lines = [concat([turned, g], axis=-1), concat([zeros_like(turned), turned], axis=-1)]
    size = operand_shape(call, turned)[-1]
    if type(size) is not IntImm:
        raise fail(
            call, "E218", f"the gradient needs matrices of constant size, got {turned.ty}", "name it with R.match_cast"
        )
    whole = matrix_exp(concat(lines, axis=-2))
    return [strided_slice(whole, axes=[-2, -1], begin=[0, size.value], end=[size.value, 2 * size.value])]


LINALG_GRADIENTS: dict[str, Rule] = {
    "R.linalg.cholesky": _cholesky,
    "R.linalg.solve_triangular": _triangular,
    "R.linalg.lu_factor": _lu_factor,
    "R.linalg.lu_solve": _lu_solve,
    "R.linalg.eigh": _eigh,
    "R.linalg.svd": _svd,
    "R.linalg.qr": _qr,
    "R.linalg.matrix_exp": _matrix_exp,
}
GRADIENTS.update(LINALG_GRADIENTS)
for _name, _rule in LINALG_GRADIENTS.items():
    OPS[_name].grad = _rule

_ROWS_OF = (lapack,)
"""Families whose rows must stand in the table first."""

__all__ = ["LINALG_GRADIENTS"]
