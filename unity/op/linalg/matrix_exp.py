"""The exponential of square matrices: a Taylor series of a / 2^k, squared k times (scaling and squaring).

Computed in float64 and rounded once. Invariant: k is chosen for each matrix so that the series is exact to float64.
"""

from __future__ import annotations

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.stmt import AllocBuffer, Stmt, While, seq
from ...ir.types import Expr, Type
from ..lines.reduce import cast_tensor
from ..moves.scan import loops
from ..nests import local_buffer, serial_loop
from ..rules import like
from ..table import row
from .matrices import FAMILY, WIDE, Matrix, Numbers, number, square_matrices, widened, zero

Array = np.ndarray
TERMS = 18
"""Of the series of a matrix of norm at most 1/2: the rest is below 1e-22."""


def _exponential(ins: list[Buffer], outs: list[Buffer], b: list[Var]) -> Stmt:
    """The series of a / 2^k, squared k times."""
    given, made, n = Matrix(ins[0], b), Matrix(outs[0], b), ins[0].shape[-1]
    a, held = [Matrix(local_buffer(name, WIDE, n, n)) for name in ("scaled", "held")]
    kept = Numbers("norm", "line", "scale", "count", "term")

    def line(i: Var) -> Stmt:
        return seq(
            kept.sum("line", n, lambda j: build.intrinsic("abs", given.at(i, j))),
            kept.put("norm", build.maximum(kept["norm"], kept["line"])),
        )

    def times(x: Matrix, factor: Expr) -> Stmt:
        """``made = x made factor``."""

        def cell(i: Var) -> Stmt:
            def gather(k: Var) -> Stmt:
                return serial_loop(
                    n, lambda j: held.put(i, j, build.add(held.at(i, j), build.mul(x.at(i, k), made.at(k, j)))), "j"
                )

            return serial_loop(n, gather, "k")

        return seq(
            held.each(lambda i, j: zero()),
            serial_loop(n, cell, "i"),
            made.each(lambda i, j: build.mul(held.at(i, j), factor)),
        )

    halve = seq(
        kept.put("norm", build.mul(kept["norm"], number(0.5))),
        kept.put("scale", build.mul(kept["scale"], number(0.5))),
        kept.add("count", number(1.0)),
    )
    too_large = build.logical_and(
        build.gt(kept["norm"], number(0.5)), build.logical_not(build.intrinsic("isinf", kept["norm"]))
    )
    horner = seq(
        times(a, build.div(number(1.0), kept["term"])),
        serial_loop(n, lambda i: made.put(i, i, build.add(made.at(i, i), number(1.0))), "i"),
        kept.add("term", number(-1.0)),
    )
    return seq(
        kept.alloc(),
        AllocBuffer(a.buffer),
        AllocBuffer(held.buffer),
        kept.put("norm", zero()),
        kept.put("scale", number(1.0)),
        kept.put("count", zero()),
        serial_loop(n, line, "i"),
        While(too_large, halve),
        a.each(lambda i, j: build.mul(given.at(i, j), kept["scale"])),
        made.unit(),
        kept.put("term", number(TERMS)),
        While(build.gt(kept["term"], zero()), horner),
        While(
            build.gt(kept["count"], zero()),
            seq(kept.add("count", number(-1.0)), a.each(made.at), times(a, number(1.0))),
        ),
    )


def _matrix_exp(call: Call, a: te.Tensor) -> te.Tensor:
    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return loops(a.shape[:-2], lambda b: _exponential(ins, outs, b), "b")

    made = te.extern(a.shape, [widened(a)], emit, "matrix_exp", WIDE)
    return cast_tensor(made, a.data_type, "cast")


def _matrix_exp_ref(a: Array) -> Array:
    wide = a.astype(np.float64)
    norm = np.abs(wide).sum(-1).max(initial=0)
    count = max(0, int(np.ceil(np.log2(norm))) + 1) if 0 < norm < np.inf else 0
    made = np.broadcast_to(np.eye(a.shape[-1]), a.shape).copy()
    for term in range(TERMS, 0, -1):
        made = np.eye(a.shape[-1]) + np.matmul(wide * 0.5**count, made) / term
    for _ in range(count):
        made = np.matmul(made, made)
    return made.astype(a.dtype)


def _exp_type(call: Call) -> Type:
    ty = square_matrices(call, 0, "a")
    return like(ty, ty.dtype)


matrix_exp = row(
    "linalg.matrix_exp",
    ("a",),
    _exp_type,
    "Exponential of square matrices: the sum of the powers a^k / k!.",
    family=FAMILY,
    lower=_matrix_exp,
    ref=_matrix_exp_ref,
)
