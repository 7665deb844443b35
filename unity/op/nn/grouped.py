"""Products of groups of rows with a matrix each: the experts of a mixture.

Rows of ``x`` stand one group after the other; ``ends`` says where each group ends. Rows after the last group give zeros.
Sums of narrow floats are taken in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir.expr import Call
from ...ir.relation import dims, tensor_type, unequal
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import dtype_of, mask_grad, operand_shape
from ..common.lowering import cast_tensor, result_dims
from ..common.table import R, rows
from ..common.type_rules import fail, float_tensor, same_dtype
from ..manipulate.index import index_tensor
from ..reduction.reduce import accumulate

row = rows("linalg")


def _type(call: Call) -> Type:
    x, w, ends = float_tensor(call, 0, "x", 2), float_tensor(call, 1, "weight", 3), index_tensor(call, 2, "ends", 1)
    dtype = same_dtype(call, x, w)
    rows, matrices, groups = dims(x), dims(w), dims(ends)
    if rows is None or matrices is None:
        return TensorType(None, dtype, 2, x.vdevice)
    if unequal(rows[1], matrices[1]):
        raise fail(call, "E213", f"x has {rows[1]} columns, the matrices {matrices[1]} rows", arg=1)
    if groups is not None and unequal(groups[0], matrices[0]):
        raise fail(call, "E213", f"{groups[0]} ends for {matrices[0]} matrices", arg=2)
    return tensor_type((rows[0], matrices[2]), dtype, vdevice=x.vdevice)


def _lower(call: Call, x: te.Tensor, w: te.Tensor, ends: te.Tensor) -> te.Tensor:
    count, inner = te.Value(w.shape[0]), x.shape[1]
    g = te.reduce_axis((0, w.shape[0]), "g")

    def behind(i: te.Value) -> te.Value:
        return te.sum(te.select(ends[g].astype("int64") <= i, te.const(1, "int64"), te.const(0, "int64")), axis=g)

    group = te.compute((x.shape[0],), behind, "group")
    k = te.reduce_axis((0, inner), "k")

    def product(i: te.Value, j: te.Value) -> te.Value:
        matrix = te.maximum(te.minimum(group[i], count - 1), 0)
        return te.sum(accumulate(x[i, k]) * accumulate(w[matrix, k, j]), axis=k)

    result = te.compute(result_dims(call), product, "product")
    masked = te.compute(result.shape, lambda i, j: te.select(group[i] < count, result[i, j], 0), "grouped_matmul")
    return cast_tensor(masked, x.data_type, "cast")


def _ref(x: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> np.ndarray:
    result = np.zeros((len(x), weight.shape[2]))
    begin = 0
    for matrix, end in zip(weight.astype(np.float64), ends):
        result[begin:end] = x[begin:end].astype(np.float64) @ matrix
        begin = max(begin, int(end))
    return result.astype(x.dtype)


def _grad(call: Call, g: Expr) -> list[Any]:
    """Of the matrices: the rows of each group, zeros elsewhere, times the gradient; as many products as there are matrices."""
    x, weight, ends = call.args
    rows, _ = operand_shape(call, x)
    number = dtype_of(ends)
    behind = R.less_equal(R.expand_dims(ends, axis=[1]), R.expand_dims(R.astype(R.arange(rows), number), axis=[0]))
    group = R.sum(R.astype(behind, "int64"), axis=[0], keepdims=True)
    in_group = R.equal(group, R.expand_dims(R.arange(operand_shape(call, weight)[0]), axis=[1]))
    masked = mask_grad(R.expand_dims(x, axis=[0]), R.expand_dims(in_group, axis=[2]))
    return [
        R.nn.grouped_matmul(g, R.permute_dims(weight, axes=[0, 2, 1]), ends),
        R.matmul(R.permute_dims(masked, axes=[0, 2, 1]), g),
        None,
    ]


grouped_matmul = row(
    "nn.grouped_matmul",
    ("x: (rows, inner)", "weight: (groups, inner, columns)", "ends: (groups,): end of each group's rows"),
    _type,
    "Multiplies consecutive groups of rows of x by a matrix each; rows after the last group give zeros.",
    lower=_lower,
    ref=_ref,
    grad=_grad,
    samples="f32[6,3], f32[3,3,4], i32([2,2,5]); f16[2,3], f16[1,3,2], i64([2]); f32[0,3], f32[2,3,2], i64([0,0])",
)
