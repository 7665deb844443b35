"""Factorisations and the solution of linear systems: LU with row exchanges, Cholesky, triangular systems.

All work on the last two axes. Pivots are LAPACK's: row i was exchanged with row pivots[i], counted from 1. Elements are exchanged
and divided in order, so that results repeat; a singular matrix gives infinities or NaN, no error. 16-bit floats are computed
in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.relation import dims, tensor_type, unequal_shapes
from ...ir.stmt import BufferStore, IfThenElse, Stmt, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import field_of, operand_shape
from ..common.loop_nests import loops, read, serial_loop
from ..common.lowering import SMALL_FLOATS, cast_tensor, compute_dtype, short_name
from ..common.matrices import (
    identity_of,
    is_square,
    matrices,
    matrix_transpose,
    range_loop,
    rank_bound,
    square_matrices,
    square_type,
)
from ..common.table import R, attribute, rows
from ..common.type_rules import ZERO, bool_attr, fail, same_dtype
from ..manipulate.index import index_tensor

row = rows("linear algebra")


# ---- LU


def _lu_type(call: Call) -> Type:
    ty = matrices(call, 0, "a")
    known = dims(ty)
    if known is None:
        return TupleType((ty, TensorType(None, DataType("int32"), ty.ndim - 1 if ty.ndim > 0 else -1, ty.vdevice)))
    return TupleType((ty, tensor_type((*known[:-2], rank_bound(known)), "int32", vdevice=ty.vdevice)))


def _lu(call: Call, a: te.Tensor) -> Any:
    *lead, m, n = a.shape
    rank = rank_bound(a.shape)
    acc_dtype = compute_dtype(a.data_type)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        lu, pivots, temp = outs
        zero = ZERO

        def batch(b: list[Var]) -> Stmt:
            def at(i: Expr, j: Expr) -> Expr:
                return read(lu, (*b, i, j))

            def store(i: Expr, j: Expr, value: Expr) -> Stmt:
                return BufferStore(lu, value, (*b, i, j))

            def magnitude(i: Expr, j: Expr) -> Expr:
                return build.intrinsic("abs", at(i, j))

            def column(k: Var) -> Stmt:
                best = build.cast(read(pivots, (*b, k)) - 1, "int64")

                def find_pivot(i: Var) -> Stmt:
                    found = BufferStore(pivots, build.cast(i + 1, "int32"), (*b, k))
                    return IfThenElse(build.gt(magnitude(i, k), magnitude(best, k)), found)

                def exchange(j: Var) -> Stmt:
                    return seq(
                        BufferStore(temp, at(k, j), (zero,)),
                        store(k, j, at(best, j)),
                        store(best, j, read(temp, (zero,))),
                    )

                def eliminate(i: Var) -> Stmt:
                    factor = store(i, k, build.div(at(i, k), at(k, k)))
                    update = range_loop(k + 1, n, lambda j: store(i, j, at(i, j) - at(i, k) * at(k, j)), "j")
                    return seq(factor, update)

                return seq(
                    BufferStore(pivots, build.cast(k + 1, "int32"), (*b, k)),
                    range_loop(k + 1, m, find_pivot, "i"),
                    serial_loop(n, exchange, "j"),
                    range_loop(k + 1, m, eliminate, "i"),
                )

            copy = serial_loop(m, lambda i: serial_loop(n, lambda j: store(i, j, read(ins[0], (*b, i, j))), "j"), "i")
            return seq(copy, serial_loop(rank, column, "k"))

        return loops(lead, batch)

    result = te.extern(
        [a.shape, (*lead, rank), (1,)],
        [cast_tensor(a, acc_dtype, "wide")],
        emit,
        short_name(call),
        [acc_dtype, "int32", acc_dtype],
    )
    return cast_tensor(result[0], a.data_type, "cast"), result[1]


def _lu_ref(a: np.ndarray) -> Any:
    kind = np.float32 if str(a.dtype) in SMALL_FLOATS else a.dtype
    rank = min(a.shape[-2:])
    lu, pivots = a.astype(kind), np.zeros((*a.shape[:-2], rank), np.int32)
    with np.errstate(all="ignore"):
        for b in np.ndindex(*a.shape[:-2]):
            for k in range(rank):
                best = k
                for i in range(k + 1, a.shape[-2]):
                    best = i if abs(lu[b][i, k]) > abs(lu[b][best, k]) else best
                pivots[b][k] = best + 1
                lu[b][[k, best]] = lu[b][[best, k]]
                lu[b][k + 1 :, k] /= lu[b][k, k]
                lu[b][k + 1 :, k + 1 :] -= np.outer(lu[b][k + 1 :, k], lu[b][k, k + 1 :])
    return lu.astype(a.dtype), pivots


def _undo_row_exchanges(call: Call, pivots: Expr, x: Expr, like: Expr) -> Expr:
    """Rows exchanged in the reverse order: p^T x, with p made by solving the system of identity factors."""
    ones = identity_of(call, operand_shape(call, like), like)
    return R.matmul(matrix_transpose(call, R.linalg.lu_solve(ones, pivots, ones)), x)


def _lu_grad(call: Call, g: Expr) -> list[Any]:
    """a' = p^T l^-T (tril(l^T l', -1) + triu(u' u^T)) u^-T (Walter and Lehmann 2010, section 4.1)."""
    if not is_square(operand_shape(call, call.args[0])):
        raise fail(call, "E218", "LU factors of matrices that are not square have no gradient")
    lu, pivots = field_of(call, 0), field_of(call, 1)
    flow = field_of(g, 0)
    across = matrix_transpose(call, lu)
    lower = R.tril(R.matmul(R.triu(across, k=1), R.tril(flow, k=-1)), k=-1)
    lower = lower + R.tril(flow, k=-1)
    middle = lower + R.triu(R.matmul(R.triu(flow), R.tril(across)))
    left = R.linalg.solve_triangular(across, middle, upper=True, unitriangular=True)
    whole = matrix_transpose(call, R.linalg.solve_triangular(R.triu(lu), matrix_transpose(call, left), upper=True))
    return [_undo_row_exchanges(call, pivots, whole, lu)]


lu_factor = row(
    "linalg.lu_factor",
    ("a",),
    _lu_type,
    "Returns L and U in one tensor (the unit diagonal of L is left out) and the row exchanges of partial pivoting, counted from 1.",
    lower=_lu,
    ref=_lu_ref,
    grad=_lu_grad,
    samples="near[4,4]; near[2,3,3]; f32[5,3]; f32[2,3,4]; f32[0,2]; f32[2,0]; f32[1,1]",
)


# ---- triangular systems


def _system(call: Call, index: int) -> tuple[TensorType, TensorType]:
    a, b = square_matrices(call, 0, "a"), matrices(call, index, "b")
    same_dtype(call, a, b)
    known, wanted = dims(a), dims(b)
    if known is not None and wanted is not None and unequal_shapes(known[:-1], wanted[:-1]):
        raise fail(call, "E213", f"a {a} and b {b} must agree in all axes but the last", arg=index)
    return a, b


def _triangular_type(call: Call) -> Type:
    for name in ("upper", "unitriangular"):
        bool_attr(call, name)
    return _system(call, 1)[1]


def _substitution(
    at: Callable[[Expr, Expr], Expr], b: list[Var], out: Buffer, n: Expr, upper: bool, unit: bool
) -> Stmt:
    """Solve a triangular system in place: rows from the first (lower) or from the last (upper)."""
    columns = out.shape[-1]

    def row(step: Var) -> Stmt:
        i: Expr = n - 1 - step if upper else step

        def gather(j: Var) -> Stmt:
            def column(c: Var) -> Stmt:
                less = read(out, (*b, i, c)) - at(i, j) * read(out, (*b, j, c))
                return BufferStore(out, less, (*b, i, c))

            return serial_loop(columns, column, "c")

        begin, end = (i + 1, n) if upper else (ZERO, i)
        parts = [range_loop(begin, end, gather, "j")]
        if not unit:
            parts.append(
                serial_loop(
                    columns, lambda c: BufferStore(out, build.div(read(out, (*b, i, c)), at(i, i)), (*b, i, c)), "c"
                )
            )
        return seq(*parts)

    return serial_loop(n, row, "s")


def _copy_matrix(source: Buffer, out: Buffer, b: list[Var], n: Expr) -> Stmt:
    return serial_loop(
        n,
        lambda i: serial_loop(out.shape[-1], lambda c: BufferStore(out, read(source, (*b, i, c)), (*b, i, c)), "c"),
        "i",
    )


def _triangular(call: Call, a: te.Tensor, b: te.Tensor) -> te.Tensor:
    upper, unit = bool_attr(call, "upper"), bool_attr(call, "unitriangular")
    acc_dtype, n = compute_dtype(a.data_type), a.shape[-1]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def batch(i: list[Var]) -> Stmt:
            solve = _substitution(lambda r, c: read(ins[0], (*i, r, c)), i, outs[0], n, upper, unit)
            return seq(_copy_matrix(ins[1], outs[0], i, n), solve)

        return loops(a.shape[:-2], batch)

    result = te.extern(b.shape, [cast_tensor(t, acc_dtype, "wide") for t in (a, b)], emit, short_name(call), acc_dtype)
    return cast_tensor(result, b.data_type, "cast")


def _solve_rows(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    kind = np.float32 if str(b.dtype) in SMALL_FLOATS else b.dtype
    a, x = a.astype(kind), b.astype(kind)
    count = a.shape[-1]
    with np.errstate(all="ignore"):
        for step in range(count):
            i = count - 1 - step if upper else step
            rest = slice(i + 1, count) if upper else slice(0, i)
            x[..., i, :] -= np.einsum("...j,...jc->...c", a[..., i, rest], x[..., rest, :])
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x.astype(b.dtype)


def _triangular_grad(call: Call, g: Expr) -> list[Any]:
    """b' = a^-T g and a' = -b' x^T in the triangle that is read (Giles 2008, section 2.3.1)."""
    a = call.args[0]
    upper, unit = bool_attr(call, "upper"), bool_attr(call, "unitriangular")
    right = R.linalg.solve_triangular(matrix_transpose(call, a), g, upper=not upper, unitriangular=unit)
    whole = -R.matmul(right, matrix_transpose(call, call))
    left = R.triu(whole, k=1 if unit else 0) if upper else R.tril(whole, k=-1 if unit else 0)
    return [left, right]


solve_triangular = row(
    "linalg.solve_triangular",
    (
        "a",
        "b: (..., n, k)",
        attribute("upper", False, doc="read the upper triangle instead of the lower"),
        attribute("unitriangular", False, doc="take the diagonal as ones"),
    ),
    _triangular_type,
    "Solves a x = b for triangular a; the other triangle is not read.",
    lower=_triangular,
    ref=lambda a, b, upper=False, unitriangular=False: _solve_rows(a, b, bool(upper), bool(unitriangular)),
    grad=_triangular_grad,
    samples="near[2,3,3], f32[2,3,2], upper=each(False, True), unitriangular=each(False, True); near[1,1], f32[1,2]",
)


def _lu_solve_type(call: Call) -> Type:
    pivots = index_tensor(call, 1, "pivots")
    a, b = _system(call, 2)
    known, wanted = dims(a), dims(pivots)
    if known is not None and wanted is not None and unequal_shapes(known[:-1], wanted):
        raise fail(call, "E213", f"pivots {pivots} do not fit a {a}", arg=1)
    return b


def _lu_solve(call: Call, a: te.Tensor, pivots: te.Tensor, b: te.Tensor) -> te.Tensor:
    acc_dtype, n = compute_dtype(a.data_type), a.shape[-1]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        out, temp = outs

        def batch(i: list[Var]) -> Stmt:
            def exchange(k: Var) -> Stmt:
                most = n - 1
                other = build.cast(read(ins[1], (*i, k)), "int64") - 1
                other = build.maximum(build.minimum(other, most), ZERO)

                def column(c: Var) -> Stmt:
                    zero = ZERO
                    return seq(
                        BufferStore(temp, read(out, (*i, k, c)), (zero,)),
                        BufferStore(out, read(out, (*i, other, c)), (*i, k, c)),
                        BufferStore(out, read(temp, (zero,)), (*i, other, c)),
                    )

                return serial_loop(out.shape[-1], column, "c")

            def at(r: Expr, c: Expr) -> Expr:
                return read(ins[0], (*i, r, c))

            return seq(
                _copy_matrix(ins[2], out, i, n),
                serial_loop(n, exchange, "k"),
                _substitution(at, i, out, n, False, True),
                _substitution(at, i, out, n, True, False),
            )

        return loops(a.shape[:-2], batch)

    inputs = [cast_tensor(a, acc_dtype, "wide"), pivots, cast_tensor(b, acc_dtype, "wide")]
    result = te.extern([b.shape, (1,)], inputs, emit, short_name(call), [acc_dtype, acc_dtype])
    return cast_tensor(result[0], b.data_type, "cast")


def _lu_solve_ref(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = b.copy()
    for i in np.ndindex(*lu.shape[:-2]):
        for k in range(lu.shape[-1]):
            other = int(np.clip(pivots[i][k] - 1, 0, lu.shape[-1] - 1))
            x[i][[k, other]] = x[i][[other, k]]
    return _solve_rows(lu, _solve_rows(lu, x, False, True), True, False)


def _lu_solve_grad(call: Call, g: Expr) -> list[Any]:
    """With l c = p b and u x = c: c' = u^-T g, w = l^-T c', b' = p^T w, u' = -triu(c' x^T), l' = -tril(w c^T, -1).

    The two triangular systems one after the other (Giles 2008, section 2.3.1); the pivots are fixed.
    """
    lu, pivots, _ = call.args
    across = matrix_transpose(call, lu)
    middle = R.linalg.solve_triangular(across, g)
    low = R.linalg.solve_triangular(across, middle, upper=True, unitriangular=True)
    upper = R.triu(R.matmul(middle, matrix_transpose(call, call)))
    lower = R.tril(R.matmul(low, matrix_transpose(call, R.matmul(R.triu(lu), call))), k=-1)
    return [-(upper + lower), None, _undo_row_exchanges(call, pivots, low, lu)]


lu_solve = row(
    "linalg.lu_solve",
    ("a: what lu_factor returned", "pivots: its row exchanges", "b: (..., n, k)"),
    _lu_solve_type,
    "Solves a x = b with the factors that lu_factor returns.",
    lower=_lu_solve,
    ref=_lu_solve_ref,
    grad=_lu_solve_grad,
    samples="near[3,3], i32([2,3,3]), f32[3,2]; near[2,3,3], i32([[3,2,3],[1,3,3]]), f32[2,3,1]",
)


# ---- Cholesky


def _cholesky(call: Call, a: te.Tensor) -> te.Tensor:
    acc_dtype, n = compute_dtype(a.data_type), a.shape[-1]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def batch(b: list[Var]) -> Stmt:
            def at(i: Expr, j: Expr) -> Expr:
                return read(outs[0], (*b, i, j))

            def row(i: Var) -> Stmt:
                def element(j: Var) -> Stmt:
                    def less(k: Var) -> Stmt:
                        return BufferStore(outs[0], at(i, j) - at(i, k) * at(j, k), (*b, i, j))

                    root = BufferStore(outs[0], build.intrinsic("sqrt", at(i, j)), (*b, i, j))
                    part = BufferStore(outs[0], build.div(at(i, j), at(j, j)), (*b, i, j))
                    return seq(
                        BufferStore(outs[0], read(ins[0], (*b, i, j)), (*b, i, j)),
                        range_loop(ZERO, j, less, "k"),
                        IfThenElse(build.eq(i, j), root, part),
                    )

                zeros = range_loop(
                    i + 1, n, lambda j: BufferStore(outs[0], build.const(0.0, acc_dtype), (*b, i, j)), "z"
                )
                return seq(range_loop(ZERO, i + 1, element, "j"), zeros)

            return serial_loop(n, row, "i")

        return loops(a.shape[:-2], batch)

    result = te.extern(a.shape, [cast_tensor(a, acc_dtype, "wide")], emit, short_name(call), acc_dtype)
    return cast_tensor(result, a.data_type, "cast")


def _cholesky_ref(a: np.ndarray) -> np.ndarray:
    kind = np.float32 if str(a.dtype) in SMALL_FLOATS else a.dtype
    source, result = a.astype(kind), np.zeros(a.shape, kind)
    with np.errstate(all="ignore"):
        for i in range(a.shape[-1]):
            for j in range(i + 1):
                rest = source[..., i, j] - np.einsum("...k,...k->...", result[..., i, :j], result[..., j, :j])
                result[..., i, j] = np.sqrt(rest) if i == j else rest / result[..., j, j]
    return result.astype(a.dtype)


def _cholesky_grad(call: Call, g: Expr) -> list[Any]:
    """s = l^-T phi(l^T l') l^-1, phi the lower triangle with half of the diagonal (Giles 2008, section 2.4.2, in closed form).

    The gradient of the lower triangle alone is s + s^T below the diagonal and s on it.
    """
    across = matrix_transpose(call, call)
    inner = R.matmul(across, R.tril(g))
    phi = (R.tril(inner) + R.tril(inner, k=-1)) * 0.5
    left = R.linalg.solve_triangular(across, phi, upper=True)
    mirrored = R.linalg.solve_triangular(across, matrix_transpose(call, left), upper=True)
    return [R.tril(matrix_transpose(call, mirrored)) + R.tril(mirrored, k=-1)]


cholesky = row(
    "linalg.cholesky",
    ("a",),
    square_type,
    "Returns the lower triangular l with a = l l^T of positive definite matrices; only the lower triangle of a is read.",
    lower=_cholesky,
    ref=_cholesky_ref,
    grad=_cholesky_grad,
    samples="near[2,3,3]; near[1,1]; f32[0,0]",
)
