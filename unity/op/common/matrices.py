"""Parts that factorisations of stacks of matrices share: operand types, shifted loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import build
from ...ir.expr import Call, IntImm, Var
from ...ir.relation import Answer, dims, same_dim, unequal
from ...ir.stmt import For, Stmt
from ...ir.types import Expr, TensorType, Type, prim_type
from .gradients import dtype_of, operand_shape
from .table import R
from .type_rules import ZERO, fail, float_tensor, with_dtype


def matrices(call: Call, index: int, what: str) -> TensorType:
    """Type of an argument that is a stack of matrices of floats. Raises E210 to E212."""
    ty = float_tensor(call, index, what)
    if ty.ndim in (0, 1):
        raise fail(call, "E212", f"{what} must have at least two axes, got {ty.ndim}", arg=index)
    return ty


def square_matrices(call: Call, index: int, what: str) -> TensorType:
    """As ``matrices``, of square ones. Raises E213."""
    ty = matrices(call, index, what)
    known = dims(ty)
    if known is not None and unequal(known[-1], known[-2]):
        raise fail(call, "E213", f"{what} must be square, got {ty}", arg=index)
    return ty


def square_type(call: Call) -> Type:
    """Type rule of a function from square matrices to square matrices."""
    ty = square_matrices(call, 0, "a")
    return with_dtype(ty, ty.dtype)


def rank_bound(shape: Sequence[Expr]) -> Expr:
    """The smaller side of matrices of a shape."""
    return build.minimum(shape[-2], shape[-1])


def range_loop(begin: Expr, end: Expr, body: Callable[[Var], Stmt], name: str) -> Stmt:
    """A loop from ``begin`` up to ``end``; never, where that is not above it."""
    index = Var(name, prim_type("int64"))
    return For(index, begin, build.maximum(end - begin, ZERO), "serial", body(index))


# ---- gradients


def matrix_transpose(call: Call, x: Expr) -> Expr:
    """The matrices transposed."""
    axes = list(range(len(operand_shape(call, x))))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return R.permute_dims(x, axes=axes)


def identity_of(call: Call, shape: Any, like: Expr) -> Expr:
    """Identity matrices of a shape, in the type of x."""
    size = shape[-1]
    if type(size) is not IntImm:
        raise fail(
            call, "E218", f"the gradient needs matrices of constant size, got {like.ty}", "name it with R.match_cast"
        )
    return R.broadcast_to(R.eye(size.value, dtype=dtype_of(like).name), shape)


def is_square(shape: Any) -> bool:
    """True if the last two sizes are known to be one."""
    return same_dim(shape[-1], shape[-2]) is Answer.YES
