"""Parts that factorisations of stacks of matrices share: operand types, shifted loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import build
from ...ir.expr import Call, Var
from ...ir.relation import dims, unequal
from ...ir.stmt import For, Stmt
from ...ir.types import Expr, TensorType, prim_type
from .type_rules import ZERO, fail, float_tensor

FAMILY = "linear algebra"


def matrices(call: Call, index: int, what: str) -> TensorType:
    """Type of an argument that is a stack of matrices of floats. Raises E210 to E212."""
    ty = float_tensor(call, index, what)
    if ty.ndim in (0, 1):
        raise fail(call, "E212", f"{what} must have at least two axes, got {ty.ndim}", None, call.args[index])
    return ty


def square_matrices(call: Call, index: int, what: str) -> TensorType:
    """As ``matrices``, of square ones. Raises E213."""
    ty = matrices(call, index, what)
    known = dims(ty)
    if known is not None and unequal(known[-1], known[-2]):
        raise fail(call, "E213", f"{what} must be square, got {ty}", None, call.args[index])
    return ty


def rank_bound(shape: Sequence[Expr]) -> Expr:
    """The smaller side of matrices of a shape."""
    return build.minimum(shape[-2], shape[-1])


def shifted(begin: Expr, end: Expr, body: Callable[[Var], Stmt], name: str) -> Stmt:
    """A loop from ``begin`` up to ``end``; never, where that is not above it."""
    index = Var(name, prim_type("int64"))
    return For(index, begin, build.maximum(build.sub(end, begin), ZERO), "serial", body(index))
