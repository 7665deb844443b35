"""Orthogonal factorisations by Householder's reflections: geqrf, householder_product, qr.

Signs and scales are LAPACK's (dgeqr2, dorg2r): reflection j is 1 - tau[j] v v^T, v has 1 at place j and the column below the
diagonal after it; a column that is 0 there already is left as it is. Computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.relation import dims, exceeds, tensor_type, unequal_shapes
from ...ir.stmt import AllocBuffer, BufferStore, IfThenElse, Stmt, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..lines.reduce import cast_tensor
from ..lowering import short_name
from ..moves.scan import loops, read
from ..nests import local_buffer, serial_loop
from ..rules import attr, fail, float_tensor, like, same_dtype
from ..table import attribute, row
from .matrices import FAMILY, WIDE, Matrix, Numbers, matrices, rank_bound, reflect, shifted, widened, zero

Array = np.ndarray


def _geqrf_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    known = dims(ty)
    if known is None:
        return TupleType((ty, TensorType(None, ty.dtype, ty.ndim - 1 if ty.ndim > 0 else -1, ty.vdevice)))
    return TupleType((ty, tensor_type((*known[:-2], rank_bound(known)), ty.dtype, vdevice=ty.vdevice)))


def _column(a: Matrix, tau: Buffer, lead: list[Var], dots: Buffer, j: Var) -> Stmt:
    """Make a column 0 below the diagonal; what it held becomes v."""
    kept = Numbers("norm", "alpha", "beta")
    below = build.add(j, 1)
    alpha, beta = kept["alpha"], kept["beta"]
    here = (*lead, j)
    root = build.intrinsic("sqrt", build.add(build.mul(alpha, alpha), kept["norm"]))
    reflection = seq(
        kept.put("alpha", a.at(j, j)),
        kept.put("beta", root),
        kept.put("beta", build.select(build.ge(alpha, zero()), build.sub(zero(), beta), beta)),
        BufferStore(tau, build.div(build.sub(beta, alpha), beta), here),
        shifted(below, a.rows, lambda i: a.put(i, j, build.div(a.at(i, j), build.sub(alpha, beta))), "i"),
        a.put(j, j, beta),
        reflect(a, j, read(tau, here), a, below, dots),
    )
    return seq(
        kept.alloc(),
        kept.put("norm", zero()),
        shifted(below, a.rows, lambda i: kept.add("norm", build.mul(a.at(i, j), a.at(i, j))), "i"),
        IfThenElse(build.eq(kept["norm"], zero()), BufferStore(tau, zero(), here), reflection),
    )


def packed(a: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """R above and the reflections below the diagonal, and their scales, in the wide type."""
    least = rank_bound(a.shape)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def batch(b: list[Var]) -> Stmt:
            made, given = Matrix(outs[0], b), Matrix(ins[0], b)
            dots = local_buffer("dots", WIDE, made.columns)
            return seq(
                AllocBuffer(dots),
                made.each(given.at),
                serial_loop(least, lambda j: _column(made, outs[1], b, dots, j), "j"),
            )

        return loops(a.shape[:-2], batch, "b")

    return te.extern([a.shape, (*a.shape[:-2], least)], [widened(a)], emit, "geqrf", WIDE)  # type: ignore[no-any-return]


def product_of(a: te.Tensor, tau: te.Tensor, columns: Expr) -> te.Tensor:
    """The first columns of the product of the reflections."""

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def batch(b: list[Var]) -> Stmt:
            source, made = Matrix(ins[0], b), Matrix(outs[0], b)
            dots = local_buffer("dots", WIDE, columns)
            count = tau.shape[-1]

            def step(n: Var) -> Stmt:
                j = build.sub(build.sub(count, 1), n)
                return reflect(source, j, read(ins[1], (*b, j)), made, build.const(0, "int64"), dots)

            return seq(
                AllocBuffer(dots),
                made.unit(),
                serial_loop(count, step, "n"),
            )

        return loops(a.shape[:-2], batch, "b")

    shape = (*a.shape[:-1], columns)
    return te.extern(shape, [widened(a), widened(tau)], emit, "reflections", WIDE)  # type: ignore[no-any-return]


def _geqrf(call: Call, a: te.Tensor) -> Any:
    made, tau = packed(a)
    return cast_tensor(made, a.data_type, "cast"), cast_tensor(tau, a.data_type, "cast")


def reflections_of(a: Array) -> tuple[Array, Array]:
    """The numpy meaning of ``packed``."""
    made = a.astype(np.float64)
    m, n = a.shape[-2:]
    tau = np.zeros((*a.shape[:-2], min(m, n)))
    with np.errstate(all="ignore"):
        for b in np.ndindex(*a.shape[:-2]):
            for j in range(min(m, n)):
                rest, alpha = made[b][j + 1 :, j].copy(), made[b][j, j]
                if rest @ rest == 0:
                    continue
                beta = -np.copysign(np.sqrt(alpha * alpha + rest @ rest), alpha)
                tau[b][j] = (beta - alpha) / beta
                v = np.concatenate([[1.0], rest / (alpha - beta)])
                made[b][j:, j:] -= tau[b][j] * np.outer(v, v @ made[b][j:, j:])
                made[b][j + 1 :, j] = v[1:]
    return made, tau


def product_ref(a: Array, tau: Array, columns: int) -> Array:
    """The numpy meaning of ``product_of``."""
    m = a.shape[-2]
    made = np.broadcast_to(np.eye(m, columns), (*a.shape[:-2], m, columns)).copy()
    for b in np.ndindex(*a.shape[:-2]):
        for j in reversed(range(tau.shape[-1])):
            v = np.concatenate([[1.0], a[b][j + 1 :, j].astype(np.float64)])
            made[b][j:] -= float(tau[b][j]) * np.outer(v, v @ made[b][j:])
    return made


geqrf = row(
    "linalg.geqrf",
    ("a",),
    _geqrf_type,
    "Householder's reflections that make matrices upper triangular: R with the vectors below its diagonal, and the scales tau.",
    family=FAMILY,
    lower=_geqrf,
    grad="no gradient of its own: R.linalg.qr has one",
    ref=lambda a: tuple([t.astype(a.dtype) for t in reflections_of(a)]),
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
    lower=lambda call, a, tau: cast_tensor(product_of(a, tau, a.shape[-1]), a.data_type, "cast"),
    ref=lambda a, tau: product_ref(a, tau, a.shape[-1]).astype(a.dtype),
)


def _qr_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    if attr(call, "mode", "reduced") not in ("reduced", "complete"):
        raise fail(call, "E214", f"mode must be reduced or complete, got {call.attrs['mode']!r}")
    known = dims(ty)
    if known is None:
        return TupleType((TensorType(None, ty.dtype, ty.ndim, ty.vdevice),) * 2)
    inner = rank_bound(known) if attr(call, "mode", "reduced") == "reduced" else known[-2]
    shapes = (*known[:-1], inner), (*known[:-2], inner, known[-1])
    return TupleType(tuple([tensor_type(s, ty.dtype, vdevice=ty.vdevice) for s in shapes]))


def _qr(call: Call, a: te.Tensor) -> Any:
    inner = rank_bound(a.shape) if attr(call, "mode", "reduced") == "reduced" else a.shape[-2]
    made, tau = packed(a)

    def upper(*i: te.Value) -> te.Value:
        return te.select(i[-2] <= i[-1], made[i], te.const(0.0, WIDE)).astype(a.dtype)

    r = te.compute((*a.shape[:-2], inner, a.shape[-1]), upper, "upper")
    return cast_tensor(product_of(made, tau, inner), a.data_type, short_name(call)), r


def _qr_ref(a: Array, mode: str = "reduced") -> Any:
    made, tau = reflections_of(a)
    inner = min(a.shape[-2:]) if mode == "reduced" else a.shape[-2]
    return product_ref(made, tau, inner).astype(a.dtype), np.triu(made)[..., :inner, :].astype(a.dtype)


qr = row(
    "linalg.qr",
    ("a", attribute("mode", "reduced")),
    _qr_type,
    "Orthogonal q and upper triangular r with a = q r; mode complete gives a square q.",
    family=FAMILY,
    lower=_qr,
    ref=_qr_ref,
)
