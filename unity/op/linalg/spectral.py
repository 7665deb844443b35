"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.

Rotations turn pairs of rows until all pairs are orthogonal to the last digits (cyclic Jacobi; for singular values one-sided, after
Hestenes 1958): slower than a reduction to three diagonals, exact also for small values. Signs of vectors are arbitrary. Computed
in float64 and rounded once; NaN in a matrix gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, Var
from ...ir.relation import dims, tensor_type
from ...ir.stmt import AllocBuffer, BufferStore, IfThenElse, Stmt, While, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..lines.ordering import order_along
from ..lines.reduce import cast_tensor
from ..moves.scan import loops
from ..nests import local_buffer, serial_loop
from ..rules import attr, bool_attr, fail, like
from ..table import attribute, row
from .matrices import (
    FAMILY,
    WIDE,
    Matrix,
    Numbers,
    matrices,
    number,
    rank_bound,
    shifted,
    square_matrices,
    widened,
    zero,
)
from .orthogonal import packed, product_of, product_ref, reflections_of

SWEEPS = 60
"""Rounds over all pairs; some ten are enough, NaN never stops."""
CLOSE = 1e-15
"""Two rows are orthogonal where their product is this much smaller than their lengths."""
TINY = 1e-18
"""Nothing this much smaller than the whole matrix is turned any more: it is what rounding left of 0."""
Array = np.ndarray


def _rows_turned(m: Matrix, p: Expr, q: Expr, c: Expr, s: Expr, held: Numbers) -> Stmt:
    """Rows p and q become c p - s q and s p + c q."""

    def element(k: Var) -> Stmt:
        return seq(
            held.put("held", m.at(p, k)),
            m.put(p, k, build.sub(build.mul(c, held["held"]), build.mul(s, m.at(q, k)))),
            m.put(q, k, build.add(build.mul(s, held["held"]), build.mul(c, m.at(q, k)))),
        )

    return serial_loop(m.columns, element, "k")


def _angle(kept: Numbers, first: Expr, second: Expr, mixed: Expr) -> Stmt:
    """Cosine and sine of the rotation that makes the matrix [[first, mixed], [mixed, second]] diagonal."""
    tau, t = kept["tau"], kept["t"]
    one = number(1.0)
    size = build.add(build.intrinsic("abs", tau), build.intrinsic("sqrt", build.add(one, build.mul(tau, tau))))
    return seq(
        kept.put("tau", build.div(build.sub(second, first), build.mul(mixed, number(2.0)))),
        kept.put("t", build.div(build.select(build.ge(tau, zero()), one, number(-1.0)), size)),
        kept.put("c", build.div(one, build.intrinsic("sqrt", build.add(one, build.mul(t, t))))),
        kept.put("s", build.mul(t, kept["c"])),
    )


def _sweeps(size: Expr, kept: Numbers, pair: Callable[[Var, Var], Stmt]) -> Stmt:
    """All pairs of rows, until ``pair`` leaves ``turned`` at 0."""
    both = serial_loop(size, lambda p: shifted(build.add(p, 1), size, lambda q: pair(p, q), "q"), "p")
    more = build.logical_and(build.gt(kept["turned"], zero()), build.lt(kept["sweeps"], number(SWEEPS)))
    return seq(
        kept.put("turned", number(1.0)),
        kept.put("sweeps", zero()),
        While(more, seq(kept.put("turned", zero()), kept.add("sweeps", number(1.0)), both)),
    )


_KEPT = ("tau", "t", "c", "s", "held", "turned", "sweeps", "first", "second", "mixed", "total")


# ---- symmetric matrices


def _eigh_type(call: Call) -> Type:
    ty = square_matrices(call, 0, "a")
    if attr(call, "UPLO", "L") not in ("L", "U"):
        raise fail(call, "E214", f"UPLO must be L or U, got {call.attrs['UPLO']!r}")
    known = dims(ty)
    values = (
        TensorType(None, ty.dtype, ty.ndim - 1 if ty.ndim > 0 else -1, ty.vdevice)
        if known is None
        else tensor_type(known[:-1], ty.dtype, vdevice=ty.vdevice)
    )
    return TupleType((values, like(ty, ty.dtype)))


def _eigen(ins: list[Buffer], outs: list[Buffer], b: list[Var], upper: bool) -> Stmt:
    """Eigenvalues and, as rows, eigenvectors in the order they come out."""
    given, vectors, n = Matrix(ins[0], b), Matrix(outs[1], b), ins[0].shape[-1]
    a = Matrix(local_buffer("turned", WIDE, n, n))
    kept = Numbers(*_KEPT)

    def load(i: Expr, j: Expr) -> Expr:
        order = build.minimum(i, j), build.maximum(i, j)
        return given.at(*(order if upper else order[::-1]))

    def columns_turned(p: Expr, q: Expr) -> Stmt:
        def element(k: Var) -> Stmt:
            c, s = kept["c"], kept["s"]
            return seq(
                kept.put("held", a.at(k, p)),
                a.put(k, p, build.sub(build.mul(c, kept["held"]), build.mul(s, a.at(k, q)))),
                a.put(k, q, build.add(build.mul(s, kept["held"]), build.mul(c, a.at(k, q)))),
            )

        return serial_loop(n, element, "k")

    def pair(p: Var, q: Var) -> Stmt:
        c, s = kept["c"], kept["s"]
        turn = seq(
            kept.put("turned", number(1.0)),
            _angle(kept, a.at(p, p), a.at(q, q), a.at(p, q)),
            columns_turned(p, q),
            _rows_turned(a, p, q, c, s, kept),
            a.put(p, q, zero()),
            a.put(q, p, zero()),
            _rows_turned(vectors, p, q, c, s, kept),
        )
        return IfThenElse(build.gt(build.intrinsic("abs", a.at(p, q)), kept["mixed"]), turn)

    def size(i: Expr) -> Expr:
        return build.intrinsic("abs", a.at(i, i))

    return seq(
        kept.alloc(),
        AllocBuffer(a.buffer),
        a.each(load),
        vectors.unit(),
        kept.put("mixed", zero()),
        serial_loop(
            n,
            lambda i: serial_loop(
                n, lambda j: kept.put("mixed", build.maximum(kept["mixed"], build.intrinsic("abs", a.at(i, j)))), "j"
            ),
            "i",
        ),
        kept.put("mixed", build.mul(kept["mixed"], number(TINY))),
        _sweeps(n, kept, pair),
        serial_loop(n, lambda i: BufferStore(outs[0], a.at(i, i), (*b, i)), "i"),
    )


def _eigh(call: Call, a: te.Tensor) -> Any:
    upper = attr(call, "UPLO", "L") == "U"

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return loops(a.shape[:-2], lambda b: _eigen(ins, outs, b, upper), "b")

    values, vectors = te.extern([a.shape[:-1], a.shape], [widened(a)], emit, "eigh", WIDE)
    order = order_along(values, values.ndim - 1, False)
    return (
        te.compute(values.shape, lambda *i: values[[*i[:-1], order[i]]].astype(a.dtype), "values"),
        te.compute(
            a.shape, lambda *i: vectors[[*i[:-2], order[[*i[:-2], i[-1]]], i[-2]]].astype(a.dtype), "vectors"
        ),
    )  # fmt: skip


def _jacobi(rows: list[Array], count: int, pair: Callable[[int, int], tuple[float, float, float] | None]) -> None:
    """The numpy meaning of the sweeps: ``pair`` gives the matrix to make diagonal, or None; rows of all arrays are turned."""
    for _ in range(SWEEPS):
        turned = False
        for p in range(count):
            for q in range(p + 1, count):
                found = pair(p, q)
                if found is None:
                    continue
                tau = (found[1] - found[0]) / (2 * found[2])
                t = (1 if tau >= 0 else -1) / (abs(tau) + np.sqrt(1 + tau * tau))
                c = 1 / np.sqrt(1 + t * t)
                turn, turned = np.array([[c, -t * c], [t * c, c]]), True
                for x in rows:
                    x[[p, q]] = turn @ x[[p, q]]
        if not turned:
            return


def _eigh_ref(a: Array, UPLO: str = "L") -> Any:
    n = a.shape[-1]
    values, vectors = np.zeros(a.shape[:-1]), np.zeros(a.shape)
    for b in np.ndindex(*a.shape[:-2]):
        half = np.tril(a[b].astype(np.float64)) if UPLO == "L" else np.triu(a[b].astype(np.float64)).T
        whole, unit = half + np.tril(half, -1).T, np.eye(n)
        limit = TINY * np.abs(whole).max(initial=0)

        def pair(p: int, q: int, m: Array = whole, v: Array = unit, limit: float = limit) -> Any:
            made = v @ m @ v.T
            return (made[p, p], made[q, q], made[p, q]) if abs(made[p, q]) > CLOSE * limit / TINY else None

        _jacobi([unit], n, pair)
        found = np.diag(unit @ whole @ unit.T)
        order = np.argsort(found, kind="stable")
        values[b], vectors[b] = found[order], unit[order].T
    return values.astype(a.dtype), vectors.astype(a.dtype)


eigh = row(
    "linalg.eigh",
    ("a", attribute("UPLO", "L")),
    _eigh_type,
    "Eigenvalues of symmetric matrices in rising order and the eigenvectors as columns; only one triangle is read.",
    family=FAMILY,
    lower=_eigh,
    ref=_eigh_ref,
)


# ---- singular values


def _svd_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    full = bool_attr(call, "full_matrices", True)
    known = dims(ty)
    if known is None:
        values = TensorType(None, ty.dtype, ty.ndim - 1 if ty.ndim > 0 else -1, ty.vdevice)
        whole = TensorType(None, ty.dtype, ty.ndim, ty.vdevice)
        return TupleType((whole, values, whole))
    *lead, m, n = known
    k = rank_bound(known)
    shapes = ((*lead, m, m if full else k), (*lead, k), (*lead, n if full else k, n))
    return TupleType(tuple([tensor_type(s, ty.dtype, vdevice=ty.vdevice) for s in shapes]))


def _orthogonal_rows(ins: list[Buffer], outs: list[Buffer], b: list[Var]) -> Stmt:
    """Rows turned until they are orthogonal, the rotations, and the rows' lengths."""
    given, rows, turns = Matrix(ins[0], b), Matrix(outs[0], b), Matrix(outs[1], b)
    kept = Numbers(*_KEPT)

    def dot(name: str, p: Expr, q: Expr) -> Stmt:
        return kept.sum(name, rows.columns, lambda k: build.mul(rows.at(p, k), rows.at(q, k)))

    def pair(p: Var, q: Var) -> Stmt:
        c, s = kept["c"], kept["s"]
        both = build.mul(build.intrinsic("sqrt", kept["first"]), build.intrinsic("sqrt", kept["second"]))
        turn = seq(
            kept.put("turned", number(1.0)),
            _angle(kept, kept["first"], kept["second"], kept["mixed"]),
            _rows_turned(rows, p, q, c, s, kept),
            _rows_turned(turns, p, q, c, s, kept),
        )
        apart = build.logical_and(
            build.gt(build.intrinsic("abs", kept["mixed"]), build.mul(both, number(CLOSE))),
            build.gt(build.minimum(kept["first"], kept["second"]), build.mul(kept["total"], number(TINY * TINY))),
        )
        return seq(dot("first", p, p), dot("second", q, q), dot("mixed", p, q), IfThenElse(apart, turn))

    def length(i: Var) -> Stmt:
        return seq(dot("first", i, i), BufferStore(outs[2], build.intrinsic("sqrt", kept["first"]), (*b, i)))

    return seq(
        kept.alloc(),
        rows.each(given.at),
        turns.unit(),
        kept.put("total", zero()),
        serial_loop(rows.rows, lambda i: seq(dot("first", i, i), kept.add("total", kept["first"])), "i"),
        _sweeps(rows.rows, kept, pair),
        serial_loop(rows.rows, length, "i"),
    )  # fmt: skip


def _factors(a: te.Tensor, full: bool) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """u, s and v of the transpose of ``a``, which equals u s v^T: rows of ``a`` turned, then reflected to unit vectors."""
    *lead, n, m = a.shape
    least = rank_bound(a.shape)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return loops(lead, lambda b: _orthogonal_rows(ins, outs, b), "b")

    rows, turns, lengths = te.extern([a.shape, (*lead, n, n), (*lead, n)], [a], emit, "svd", WIDE)
    order = order_along(lengths, len(lead), True)

    def place(i: Any) -> Any:
        return order[[*i[:-2], i[-1]]]

    values = te.compute((*lead, least), lambda *i: lengths[[*i[:-1], order[i]]], "values")
    columns = te.compute((*lead, m, n), lambda *i: rows[[*i[:-2], place(i), i[-2]]], "columns")
    made, tau = packed(columns)
    whole = product_of(made, tau, m if full else least)

    def signed(*i: te.Value) -> te.Value:
        """Reflections give a row's direction up to its sign, that of the diagonal of R."""
        last = te.minimum(i[-1], te.maximum(te.Value(least) - 1, te.const(0, "int64")))
        turned = te.all(i[-1] < te.Value(least), made[[*i[:-2], last, last]] < te.const(0.0, WIDE))
        return te.select(turned, te.const(0.0, WIDE) - whole[i], whole[i])

    left = te.compute(whole.shape, signed, "left")
    right = te.compute((*lead, n, n if full else least), lambda *i: turns[[*i[:-2], place(i), i[-2]]], "right")
    return left, values, right


def _svd(call: Call, a: te.Tensor) -> Any:
    """The rows that are turned are the columns, or the rows where these are known to be fewer."""
    full, (m, n) = bool_attr(call, "full_matrices", True), a.shape[-2:]
    wide = type(m) is IntImm and type(n) is IntImm and m.value < n.value

    def swapped(x: te.Tensor, dtype: Any) -> te.Tensor:
        shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
        return te.compute(shape, lambda *i: x[[*i[:-2], i[-1], i[-2]]].astype(dtype), "swapped")  # type: ignore[no-any-return]

    left, values, right = _factors(widened(a) if wide else swapped(a, WIDE), full)
    if wide:
        left, right = right, left
    return cast_tensor(left, a.data_type, "u"), cast_tensor(values, a.data_type, "s"), swapped(right, a.dtype)


def _svd_ref(a: Array, full_matrices: bool = True) -> Any:
    m, n = a.shape[-2:]
    wide, least = m < n, min(m, n)
    given = a.astype(np.float64) if wide else np.swapaxes(a, -1, -2).astype(np.float64)
    count, length = given.shape[-2:]
    outer = (length, length if full_matrices else least), (count, count if full_matrices else least)
    made = [np.zeros((*a.shape[:-2], *s)) for s in (outer[0], (least,), outer[1])]
    for b in np.ndindex(*a.shape[:-2]):
        rows, turns = given[b].copy(), np.eye(count)
        total = float(np.sum(rows * rows))

        def pair(p: int, q: int, x: Array = rows, total: float = total) -> Any:
            first, second, mixed = x[p] @ x[p], x[q] @ x[q], x[p] @ x[q]
            apart = abs(mixed) > CLOSE * np.sqrt(first) * np.sqrt(second)
            return (first, second, mixed) if apart and min(first, second) > total * TINY * TINY else None

        _jacobi([rows, turns], count, pair)
        lengths = np.sqrt(np.sum(rows * rows, -1))
        order = count - 1 - np.argsort(lengths[::-1], kind="stable")[::-1]
        packed_rows, tau = reflections_of(rows[order].T)
        signs = np.ones(outer[0][1])
        signs[:least] = np.where(np.diag(packed_rows) < 0, -1, 1)
        made[0][b] = product_ref(packed_rows, tau, outer[0][1]) * signs
        made[1][b], made[2][b] = lengths[order][:least], turns[order].T[:, : outer[1][1]]
    u, v = (made[2], made[0]) if wide else (made[0], made[2])
    return u.astype(a.dtype), made[1].astype(a.dtype), np.swapaxes(v, -1, -2).astype(a.dtype)


svd = row(
    "linalg.svd",
    ("a", attribute("full_matrices", True)),
    _svd_type,
    "Singular values in falling order between orthogonal u and vh: a = u diag(s) vh; full_matrices makes both square.",
    family=FAMILY,
    lower=_svd,
    ref=_svd_ref,
)
