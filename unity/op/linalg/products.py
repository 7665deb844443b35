"""Linear algebra: matmul and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import from_numpy
from ...ir import build
from ...ir.expr import Call, ShapeExpr
from ...ir.relation import Answer, dims, same_dim, tensor_type, unequal
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import operand_shape, reduce_to
from ..common.lowering import compute_dtype, result_dims, result_dtype
from ..common.table import R, attribute, row
from ..common.type_rules import (
    attr,
    broadcast_dims,
    dtype_value,
    fail,
    is_one,
    same_dtype,
    same_vdevice,
    tensor_arg,
)


def _matmul_type(call: Call) -> Type:
    a, b = tensor_arg(call, 0, "x1"), tensor_arg(call, 1, "x2")
    out = dtype_value(call, attr(call, "out_dtype"), "out_dtype")
    dtype = out or same_dtype(call, a, b)
    vdevice = same_vdevice(a, b)
    if dtype is not None and dtype.is_bool:
        raise fail(call, "E211", "bool tensors have no products", 'cast first: R.astype(x, "int32")', 0)
    for index, ty in enumerate((a, b)):
        if ty.ndim == 0:
            raise fail(
                call, "E212", "the operands must have at least one axis", "multiply by a scalar with R.multiply", index
            )
    if a.ndim == -1 or b.ndim == -1:
        return TensorType(None, dtype, -1, vdevice)
    rank = max(a.ndim, b.ndim, 2) - (a.ndim == 1) - (b.ndim == 1)
    left, right = dims(a), dims(b)
    if left is None or right is None:
        return TensorType(None, dtype, rank, vdevice)
    inner, other = left[-1], right[-2] if b.ndim > 1 else right[0]
    if unequal(inner, other):
        raise fail(
            call,
            "E213",
            f"the inner dimensions differ: {inner} and {other}",
            "x1 has shape (..., m, k), x2 (..., k, n)",
            1,
        )
    batch = broadcast_dims(call, (left[:-2], right[:-2]))
    tail = (() if a.ndim == 1 else (left[-2],)) + (() if b.ndim == 1 else (right[-1],))
    return tensor_type((*batch, *tail), dtype, vdevice=vdevice)


def _matmul_ref(x1: np.ndarray, x2: np.ndarray, out_dtype: str | None = None) -> np.ndarray:
    dtype = x1.dtype if not out_dtype else np.dtype(out_dtype)
    if from_numpy(x1.dtype).is_narrow:
        return np.asarray(np.matmul(x1.astype(np.float32), x2.astype(np.float32)), dtype)
    return np.asarray(np.matmul(x1.astype(dtype), x2.astype(dtype)))


def _matmul(call: Call, a: te.Tensor, b: te.Tensor) -> te.Tensor:
    shape, dtype = result_dims(call), result_dtype(call)
    acc_dtype = compute_dtype(dtype).name
    batch = shape[: len(shape) - (a.ndim > 1) - (b.ndim > 1)]
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def body(*indices: te.Value) -> te.Value:
        rest = list(indices[len(batch) :])
        left: list[te.Value] = [rest.pop(0), k] if a.ndim > 1 else [k]
        right: list[te.Value] = [k, rest.pop(0)] if b.ndim > 1 else [k]
        x = load_batch(a, indices[: len(batch)], batch, left)
        y = load_batch(b, indices[: len(batch)], batch, right)
        return te.sum(x.astype(acc_dtype) * y.astype(acc_dtype), axis=k)

    result: te.Tensor = te.compute(shape, body, "matmul")
    if acc_dtype == dtype.name:
        return result
    return te.compute(shape, lambda *i: result[i].astype(dtype), "matmul_cast")


def load_batch(x: te.Tensor, indices: Sequence[te.Value], batch: Sequence[Expr], tail: list[te.Value]) -> te.Value:
    """Element of a stack of matrices whose batch axes are broadcast to ``batch``."""
    count = x.ndim - len(tail)
    offset = len(batch) - count
    picked: list[Any] = []
    for axis in range(count):
        dim = x.shape[axis]
        if is_one(dim) and not is_one(batch[offset + axis]):
            picked.append(0)
        elif same_dim(dim, batch[offset + axis]) is Answer.YES:
            picked.append(indices[offset + axis])
        else:
            picked.append(te.select(build.eq(dim, 1), 0, indices[offset + axis]))
    return x[[*picked, *tail]]


def matrix_transpose(call: Call, x: Expr) -> Expr:
    """The matrices transposed."""
    axes = list(range(len(operand_shape(call, x))))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return R.permute_dims(x, axes=axes)


def _matmul_grad(call: Call, g: Expr) -> list[Any]:
    a, b = call.args
    rank_a, rank_b = len(operand_shape(call, a)), len(operand_shape(call, b))
    wide_a = R.expand_dims(a, [0]) if rank_a == 1 else a
    wide_b = R.expand_dims(b, [1]) if rank_b == 1 else b
    if rank_b == 1:
        g = R.expand_dims(g, [-1])
    if rank_a == 1:
        g = R.expand_dims(g, [-2])
    flows = [
        reduce_to(call, R.matmul(g, matrix_transpose(call, wide_b)), wide_a),
        reduce_to(call, R.matmul(matrix_transpose(call, wide_a), g), wide_b),
    ]
    return [
        R.reshape(flow, ShapeExpr(operand_shape(call, x))) if rank == 1 else flow
        for flow, x, rank in zip(flows, call.args, (rank_a, rank_b))
    ]


matmul = row(
    "matmul",
    ("x1", "x2", attribute("out_dtype", None)),
    _matmul_type,
    "Multiplies matrices; leading axes are broadcast, and a vector counts as a row on the left and as a column on the right.",
    family="linalg",
    ref=_matmul_ref,
    lower=_matmul,
    grad=_matmul_grad,
    mixed_precision="always",
    torch=("matmul", "bmm", "mm", "mv", "dot"),
    samples="f32[3,4], f32[4,5]; f32[2,3,4], f32[4,5]; f32[4], each(f32[4], f32[4,5], f32[2,4,3]); "
    "each(f32[3,4], f32[2,3,4]), f32[4]; f32[2,1,3,4], f32[3,4,2]; f32[0,4], f32[4,2]; "
    "f32[3,0], f32[0,2]; i32[3,4], i32[4,5]; f16[3,8], f16[8,5]; "
    "i8[3,4], i8[4,5], out_dtype='int32'",
)
