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
from ...ir.types import Expr
from ..binary import add, multiply
from ..create import eye
from ..elementwise import negative
from ..factor import lu_solve, solve_triangular
from ..linalg import matmul
from ..manipulate import broadcast_to, permute_dims, tril, triu
from ..rules import bool_attr, fail
from ..table import constant
from .parts import field_of, operand_shape
from .rules import GRADIENTS, Rule


def _turned(call: Call, x: Expr) -> Expr:
    """The matrices transposed."""
    axes = list(range(len(operand_shape(call, x))))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return permute_dims(x, axes=axes)


def _identity(call: Call, x: Expr) -> Expr:
    """Identity matrices in the shape of x."""
    shape = operand_shape(call, x)
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


LINALG_GRADIENTS: dict[str, Rule] = {
    "R.linalg.cholesky": _cholesky,
    "R.linalg.solve_triangular": _triangular,
    "R.linalg.lu_factor": _lu_factor,
    "R.linalg.lu_solve": _lu_solve,
}
GRADIENTS.update(LINALG_GRADIENTS)
for _name, _rule in LINALG_GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["LINALG_GRADIENTS"]
