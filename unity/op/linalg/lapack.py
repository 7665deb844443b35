"""Eigenvalues, singular values, orthogonal factors and the exponential of matrices: calls of LAPACK through numpy.

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
from ...ir.expr import Call, StringImm
from ...ir.relation import dims, exceeds, tensor_type, unequal_shapes
from ...ir.stmt import Evaluate, Stmt
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.lowering import cast_tensor
from ..common.matrices import FAMILY, matrices, rank_bound, square_matrices
from ..common.table import attribute, row
from ..common.type_rules import attr, bool_attr, fail, float_tensor, like, same_dtype


def _called(name: str, inputs: Sequence[te.Tensor], shapes: Sequence[Sequence[Expr]]) -> list[te.Tensor]:
    """Results of a registered function, in the dtype of the inputs."""
    given = inputs[0].data_type
    wide = given if given.name == "float64" else DataType("float32")

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        places = [b.data for b in (*ins, *outs)]
        return Evaluate(build.intrinsic("call_packed", StringImm(f"unity.linalg.{name}"), *places, dtype="void"))

    made = te.extern([*shapes], [cast_tensor(t, wide, "wide") for t in inputs], emit, name.split(".")[0], wide)
    return [cast_tensor(t, given, "rounded") for t in made]


def _rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The numpy meaning in the operands' dtype."""

    def ref(*arrays: np.ndarray, **attrs: Any) -> Any:
        given = arrays[0].dtype
        wide = np.float64 if given == np.float64 else np.float32
        made = function(*[a.astype(wide) for a in arrays], **attrs)
        return tuple([t.astype(given) for t in made]) if isinstance(made, tuple) else made.astype(given)

    return ref


def _result(ty: TensorType, shape: Sequence[Expr]) -> TensorType:
    return tensor_type(tuple(shape), ty.dtype, vdevice=ty.vdevice)


def _unknown(ty: TensorType, less: int = 0) -> TensorType:
    """A result of ``ty`` with ``less`` axes fewer, whose sizes nobody knows."""
    return TensorType(None, ty.dtype, ty.ndim - less if ty.ndim >= 0 else -1, ty.vdevice)


def _eigh_type(call: Call) -> Type:
    ty = square_matrices(call, 0, "a")
    if attr(call, "UPLO", "L") not in ("L", "U"):
        raise fail(call, "E214", f"UPLO must be L or U, got {call.attrs['UPLO']!r}")
    known = dims(ty)
    return TupleType((_unknown(ty, 1) if known is None else _result(ty, known[:-1]), like(ty, ty.dtype)))


eigh = row(
    "linalg.eigh",
    ("a", attribute("UPLO", "L")),
    _eigh_type,
    "Eigenvalues of symmetric matrices in rising order and the eigenvectors as columns; only one triangle is read.",
    family=FAMILY,
    lower=lambda call, a: _called(f"eigh.{attr(call, 'UPLO', 'L')}", [a], [a.shape[:-1], a.shape]),
    ref=_rounded(lapack.eigh),
)


def _svd_shapes(call: Call, shape: Sequence[Expr]) -> list[tuple[Expr, ...]]:
    *lead, m, n = shape
    k, full = rank_bound(shape), bool_attr(call, "full_matrices", True)
    return [(*lead, m, m if full else k), (*lead, k), (*lead, n if full else k, n)]


def _svd_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    known, _ = dims(ty), bool_attr(call, "full_matrices", True)
    if known is None:
        return TupleType((_unknown(ty), _unknown(ty, 1), _unknown(ty)))
    return TupleType(tuple([_result(ty, s) for s in _svd_shapes(call, known)]))


def _svd(call: Call, a: te.Tensor) -> list[te.Tensor]:
    name = "svd.full" if bool_attr(call, "full_matrices", True) else "svd.reduced"
    return _called(name, [a], _svd_shapes(call, a.shape))


svd = row(
    "linalg.svd",
    ("a", attribute("full_matrices", True)),
    _svd_type,
    "Singular values in falling order between orthogonal u and vh: a = u diag(s) vh; full_matrices makes both square.",
    family=FAMILY,
    lower=_svd,
    ref=_rounded(lapack.svd),
)


def _geqrf_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    known = dims(ty)
    return TupleType((ty, _unknown(ty, 1) if known is None else _result(ty, (*known[:-2], rank_bound(known)))))


geqrf = row(
    "linalg.geqrf",
    ("a",),
    _geqrf_type,
    "Householder's reflections that make matrices upper triangular: R with the vectors below its diagonal, and the scales tau.",
    family=FAMILY,
    lower=lambda call, a: _called("geqrf", [a], [a.shape, (*a.shape[:-2], rank_bound(a.shape))]),
    grad="no gradient of its own: R.linalg.qr has one",
    ref=_rounded(lapack.geqrf),
)


def _product_type(call: Call) -> Type:
    a, tau = matrices(call, 0, "a"), float_tensor(call, 1, "tau")
    same_dtype(call, a, tau)
    if tau.ndim == 0 or (-1 not in (a.ndim, tau.ndim) and tau.ndim != a.ndim - 1):
        raise fail(call, "E212", f"tau must have one axis less than a, got {tau.ndim} and {a.ndim}", None, call.args[1])
    known, scales = dims(a), dims(tau)
    if known is not None and scales is not None:
        if unequal_shapes(known[:-2], scales[:-1]):
            raise fail(call, "E213", f"tau {tau} does not fit a {a}", None, call.args[1])
        if exceeds(known[-1], known[-2]) or exceeds(scales[-1], known[-1]):
            raise fail(
                call, "E213", f"a {a} needs at least as many rows as columns as reflections ({tau})", None, call.args[0]
            )
    return like(a, a.dtype)


householder_product = row(
    "linalg.householder_product",
    ("a", "tau"),
    _product_type,
    "The first columns (as many as a has) of the product of the reflections that R.linalg.geqrf gives.",
    family=FAMILY,
    grad="no gradient of its own: R.linalg.qr has one",
    lower=lambda call, a, tau: _called("householder_product", [a, tau], [a.shape])[0],
    ref=_rounded(lapack.householder_product),
)


def _qr_shapes(call: Call, shape: Sequence[Expr]) -> list[tuple[Expr, ...]]:
    inner = rank_bound(shape) if attr(call, "mode", "reduced") == "reduced" else shape[-2]
    return [(*shape[:-1], inner), (*shape[:-2], inner, shape[-1])]


def _qr_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    if attr(call, "mode", "reduced") not in ("reduced", "complete"):
        raise fail(call, "E214", f"mode must be reduced or complete, got {call.attrs['mode']!r}")
    known = dims(ty)
    if known is None:
        return TupleType((_unknown(ty),) * 2)
    return TupleType(tuple([_result(ty, s) for s in _qr_shapes(call, known)]))


qr = row(
    "linalg.qr",
    ("a", attribute("mode", "reduced")),
    _qr_type,
    "Orthogonal q and upper triangular r with a = q r; mode complete gives a square q.",
    family=FAMILY,
    lower=lambda call, a: _called(f"qr.{attr(call, 'mode', 'reduced')}", [a], _qr_shapes(call, a.shape)),
    ref=_rounded(lapack.qr),
)


def _exp_type(call: Call) -> Type:
    ty = square_matrices(call, 0, "a")
    return like(ty, ty.dtype)


matrix_exp = row(
    "linalg.matrix_exp",
    ("a",),
    _exp_type,
    "Exponential of square matrices: the sum of the powers a^k / k!.",
    family=FAMILY,
    lower=lambda call, a: _called("matrix_exp", [a], [a.shape])[0],
    ref=_rounded(lapack.matrix_exp),
)
