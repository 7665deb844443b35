"""Linear algebra: matmul and its kin."""

from __future__ import annotations

import numpy as np

from ..ir.expr import Call
from ..ir.relation import Answer, dims, same_dim, tensor_type
from ..ir.types import TensorType, Type
from .rules import attr, broadcast_dims, dtype_value, fail, same_dtype, same_vdevice, tensor_arg
from .table import attribute, row


def _matmul_type(call: Call) -> Type:
    a, b = tensor_arg(call, 0, "x1"), tensor_arg(call, 1, "x2")
    out = dtype_value(call, attr(call, "out_dtype"), "out_dtype")
    dtype = out or same_dtype(call, a, b)
    vdevice = same_vdevice(a, b)
    for index, ty in enumerate((a, b)):
        if ty.ndim == 0:
            raise fail(call, "E212", "the operands must have at least one axis", "multiply by a scalar with R.multiply", call.args[index])
    if a.ndim == -1 or b.ndim == -1:
        return TensorType(None, dtype, -1, vdevice)
    rank = max(a.ndim, b.ndim, 2) - (a.ndim == 1) - (b.ndim == 1)
    left, right = dims(a), dims(b)
    if left is None or right is None:
        return TensorType(None, dtype, rank, vdevice)
    inner, other = left[-1], right[-2] if b.ndim > 1 else right[0]
    if same_dim(inner, other) is Answer.NO:
        raise fail(call, "E213", f"the inner dimensions differ: {inner} and {other}", "x1 has shape (..., m, k), x2 (..., k, n)", call.args[1])
    batch = broadcast_dims(call, (left[:-2], right[:-2]))
    if batch is None:
        return TensorType(None, dtype, rank, vdevice)
    tail = (() if a.ndim == 1 else (left[-2],)) + (() if b.ndim == 1 else (right[-1],))
    return tensor_type((*batch, *tail), dtype, vdevice=vdevice)


def _matmul_ref(x1: np.ndarray, x2: np.ndarray, out_dtype: str | None = None) -> np.ndarray:
    dtype = x1.dtype if not out_dtype else np.dtype(out_dtype)
    if str(x1.dtype) in ("float16", "bfloat16"):
        return np.matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(dtype)
    return np.matmul(x1.astype(dtype), x2.astype(dtype))


matmul = row("matmul", ("x1", "x2", attribute("out_dtype", None)), _matmul_type, "Matrix product with numpy's rules for batches and vectors.",
             family="linalg", ref=_matmul_ref)  # fmt: skip
