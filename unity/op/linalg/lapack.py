"""Eigenvalues, singular values and orthogonal factors of matrices: calls of LAPACK through numpy.

Each lowering is a tensor program with one call of a registered function of ``ffi/lapack.py``, which is the row's numpy meaning too.
float64 is computed in float64, all other floats in float32. Matrices with NaN or infinities raise LinAlgError, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi import lapack
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, StringImm
from ...ir.relation import dims
from ...ir.stmt import Evaluate, Stmt
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import field_of, operand_shape
from ..common.lowering import cast_tensor
from ..common.matrices import identity_of, is_square, matrices, matrix_transpose, rank_bound, square_matrices
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    bool_attr,
    choice_attr,
    fail,
    with_dtype,
    with_rank,
    with_shape,
)

row = rows("linear algebra")


def _call_lapack(name: str, inputs: Sequence[te.Tensor], shapes: Sequence[Sequence[Expr]]) -> list[te.Tensor]:
    """Results of a registered function, in the dtype of the inputs."""
    dtype = inputs[0].data_type
    acc_dtype = dtype if dtype.name == "float64" else DataType("float32")

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        pointers = [b.data for b in (*ins, *outs)]
        return Evaluate(build.intrinsic("call_packed", StringImm(f"unity.linalg.{name}"), *pointers, dtype="void"))

    results = te.extern(
        [*shapes], [cast_tensor(t, acc_dtype, "wide") for t in inputs], emit, name.split(".")[0], acc_dtype
    )
    return [cast_tensor(t, dtype, "rounded") for t in results]


def _in_operand_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """The numpy meaning in the operands' dtype."""

    def ref(*arrays: np.ndarray, **attrs: Any) -> Any:
        dtype = arrays[0].dtype
        acc_dtype = np.float64 if dtype == np.float64 else np.float32
        result = function(*[a.astype(acc_dtype) for a in arrays], **attrs)
        return tuple([t.astype(dtype) for t in result]) if isinstance(result, tuple) else result.astype(dtype)

    return ref


def _result(ty: TensorType, shape: Sequence[Expr]) -> TensorType:
    return with_shape(ty, tuple(shape))


def _unknown_shape(ty: TensorType, dropped: int = 0) -> TensorType:
    """A result of ``ty`` with ``dropped`` axes fewer, whose sizes nobody knows."""
    return with_rank(ty, ty.ndim - dropped if ty.ndim >= 0 else -1)


def _eigh_type(call: Call) -> Type:
    ty = square_matrices(call, 0, "a")
    choice_attr(call, "UPLO", ("L", "U"))
    known = dims(ty)
    return TupleType((_unknown_shape(ty, 1) if known is None else _result(ty, known[:-1]), with_dtype(ty, ty.dtype)))


def _triangle_grad(call: Call, flow: Expr) -> Expr:
    """The gradient of the one triangle that is read, from that of a symmetric matrix."""
    both = flow + matrix_transpose(call, flow)
    upper = attr(call, "UPLO") == "U"
    return R.triu(both, k=1) + R.triu(R.tril(flow)) if upper else R.tril(both, k=-1) + R.triu(R.tril(flow))


def _reciprocal_gaps(call: Call, values: Expr) -> Expr:
    """``1 / (values[j] - values[i])``, 0 on the diagonal. Equal values give infinities: there is no derivative."""
    gaps = R.expand_dims(values, axis=[-2]) - R.expand_dims(values, axis=[-1])
    shape = operand_shape(call, values)
    unit = identity_of(call, (*shape, shape[-1]), values)
    return (1.0 - unit) / (gaps + unit)


def _diagonal(call: Call, values: Expr) -> Expr:
    """Diagonal matrices of vectors."""
    shape = operand_shape(call, values)
    return R.expand_dims(values, axis=[-1]) * identity_of(call, (*shape, shape[-1]), values)


def _eigh_grad(call: Call, g: Expr) -> list[Any]:
    """a' = v (diag(w') + f * (v^T v')) v^T, f = 1 / (w_j - w_i) off the diagonal (Giles 2008, section 3.1)."""
    values, vectors = field_of(call, 0), field_of(call, 1)
    rotation = R.matmul(matrix_transpose(call, vectors), field_of(g, 1)) * _reciprocal_gaps(call, values)
    inner = rotation + _diagonal(call, field_of(g, 0))
    full = R.matmul(R.matmul(vectors, inner), matrix_transpose(call, vectors))
    return [_triangle_grad(call, (full + matrix_transpose(call, full)) * 0.5)]


eigh = row(
    "linalg.eigh",
    ("a", attribute("UPLO", "L", doc='"L" or "U": the triangle that is read')),
    _eigh_type,
    "Returns the eigenvalues of symmetric matrices in rising order and their eigenvectors as columns (LAPACK).",
    lower=lambda call, a: _call_lapack(f"eigh.{attr(call, 'UPLO', 'L')}", [a], [a.shape[:-1], a.shape]),
    ref=_in_operand_dtype(lapack.eigh),
    grad=_eigh_grad,
    samples="f32[2,3,3]; f32[2,4,4], UPLO='U'; f64[3,3]; f32[0,0]",
)


def _svd_shapes(call: Call, shape: Sequence[Expr]) -> list[tuple[Expr, ...]]:
    *lead, m, n = shape
    k, full = rank_bound(shape), bool_attr(call, "full_matrices")
    return [(*lead, m, m if full else k), (*lead, k), (*lead, n if full else k, n)]


def _svd_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    known, _ = dims(ty), bool_attr(call, "full_matrices")
    if known is None:
        return TupleType((_unknown_shape(ty), _unknown_shape(ty, 1), _unknown_shape(ty)))
    return TupleType(tuple([_result(ty, s) for s in _svd_shapes(call, known)]))


def _svd(call: Call, a: te.Tensor) -> list[te.Tensor]:
    name = "svd.full" if bool_attr(call, "full_matrices") else "svd.reduced"
    return _call_lapack(name, [a], _svd_shapes(call, a.shape))


def _svd_grad(call: Call, g: Expr) -> list[Any]:
    """a' = u ((skew(u^T u') / e) s + s (skew(v^T v') / e) + diag(s')) v^T and what of u' and v' lies outside of u and v.

    skew(x) = x - x^T, e_ij = s_j^2 - s_i^2 (Giles 2008, section 3.2; J. Townsend, Differentiating the singular value decomposition,
    2016).
    """
    u, s, vh = [field_of(call, n) for n in range(3)]
    if bool_attr(call, "full_matrices") and not is_square(operand_shape(call, call.args[0])):
        raise fail(call, "E218", "square factors of other matrices have no gradient", "write full_matrices=False")
    gu, gs, gv = [field_of(g, n) for n in range(3)]
    v, gv = matrix_transpose(call, vh), matrix_transpose(call, gv)
    factor = _reciprocal_gaps(call, s) / (R.expand_dims(s, axis=[-2]) + R.expand_dims(s, axis=[-1]))
    inner = _diagonal(call, gs)
    for x, flow, left in ((u, gu, False), (v, gv, True)):
        mixed = R.matmul(matrix_transpose(call, x), flow)
        across = (mixed - matrix_transpose(call, mixed)) * factor
        inner = inner + R.expand_dims(s, axis=[-1 if left else -2]) * across
    whole = R.matmul(R.matmul(u, inner), vh)
    right = gu / R.expand_dims(s, axis=[-2])
    whole = whole + R.matmul(right - R.matmul(u, R.matmul(matrix_transpose(call, u), right)), vh)
    below = gv / R.expand_dims(s, axis=[-2])
    rest = below - R.matmul(v, R.matmul(vh, below))
    return [whole + R.matmul(u, matrix_transpose(call, rest))]


svd = row(
    "linalg.svd",
    ("a", attribute("full_matrices", True, doc="make u and vh square")),
    _svd_type,
    "Returns u, the singular values s in falling order and vh with a = u diag(s) vh (LAPACK).",
    lower=_svd,
    ref=_in_operand_dtype(lapack.svd),
    grad=_svd_grad,
    samples="each(f32[3,3], f32[5,3], f32[2,3,4], f32[1,1], f32[0,2], f32[2,0]), "
    "full_matrices=each(True, False); f64[3,2]",
)


def _qr_shapes(call: Call, shape: Sequence[Expr]) -> list[tuple[Expr, ...]]:
    inner = rank_bound(shape) if attr(call, "mode") == "reduced" else shape[-2]
    return [(*shape[:-1], inner), (*shape[:-2], inner, shape[-1])]


def _qr_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    choice_attr(call, "mode", ("reduced", "complete"))
    known = dims(ty)
    if known is None:
        return TupleType((_unknown_shape(ty),) * 2)
    return TupleType(tuple([_result(ty, s) for s in _qr_shapes(call, known)]))


def _qr_grad(call: Call, g: Expr) -> list[Any]:
    """With m = r r'^T - q'^T q: a' = (q' + q (tril(m) + tril(m, -1)^T)) r^-T; columns past the square add y r2'^T to q'.

    (D. Roberts and L. Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020.)
    """
    q, r, gq, gr = field_of(call, 0), field_of(call, 1), field_of(g, 0), field_of(g, 1)
    rows, columns = operand_shape(call, call.args[0])[-2:]
    if type(rows) is IntImm and type(columns) is IntImm and rows.value < columns.value:

        def columns_of(t: Expr, begin: int, end: int) -> Expr:
            return R.strided_slice(t, axes=[-1], begin=[begin], end=[end])

        first = [columns_of(t, 0, rows.value) for t in (r, gr)]
        last, flow = [columns_of(t, rows.value, columns.value) for t in (call.args[0], gr)]
        square = _square_qr(call, q, first[0], gq + R.matmul(last, matrix_transpose(call, flow)), first[1])
        return [R.concat([square, R.matmul(q, flow)], axis=-1)]
    if attr(call, "mode") == "complete" and not is_square((rows, columns)):
        raise fail(call, "E218", "a square q of a matrix with more rows has no gradient", 'write mode="reduced"')
    return [_square_qr(call, q, r, gq, gr)]


def _square_qr(call: Call, q: Expr, r: Expr, gq: Expr, gr: Expr) -> Expr:
    mixed = R.matmul(r, matrix_transpose(call, gr)) - R.matmul(matrix_transpose(call, gq), q)
    both = R.tril(mixed) + matrix_transpose(call, R.tril(mixed, k=-1))
    inner = gq + R.matmul(q, both)
    return matrix_transpose(call, R.linalg.solve_triangular(r, matrix_transpose(call, inner), upper=True))


qr = row(
    "linalg.qr",
    ("a", attribute("mode", "reduced", doc='"reduced", or "complete" for a square q')),
    _qr_type,
    "Returns orthogonal q and upper triangular r with a = q r (LAPACK).",
    lower=lambda call, a: _call_lapack(f"qr.{attr(call, 'mode', 'reduced')}", [a], _qr_shapes(call, a.shape)),
    ref=_in_operand_dtype(lapack.qr),
    grad=_qr_grad,
    samples="each(f32[3,3], f32[5,3], f32[2,3,4], f32[1,1], f32[0,2], f32[2,0]), mode=each('reduced', "
    "'complete'); f16[2,2]",
)
