"""Running sums and products along one axis. The loops: scan_loops.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL, INT64, DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call
from ...ir.relation import dims, tensor_type
from ...ir.stmt import Stmt
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import dtype_of, operand_shape
from ..common.loop_nests import read
from ..common.lowering import SMALL_FLOATS, cast_tensor, compute_dtype, result_dtype, short_name
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axis_attr,
    bool_attr,
    dtype_value,
    fail,
    product,
    tensor_arg,
)
from ..manipulate.manipulate import reorder
from .scan_loops import LINES, Carried, scan_lines

row = rows("reduce")
Scan = Callable[[Buffer, int, Carried], Stmt]
"""(result, axis, what is carried along it) -> the statements that store it."""


def _scan_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, "data")
    dtype = dtype_value(call, attr(call, "dtype")) or (INT64 if ty.dtype is BOOL else ty.dtype)
    bool_attr(call, "exclusive")
    if dtype is not None and dtype.is_bool:
        raise fail(call, "E211", "a bool result has no sum", 'write dtype="int64"', 0)
    if attr(call, "axis") is None:
        known = dims(ty)
        return (
            tensor_type((product(known),), dtype, vdevice=ty.vdevice)
            if known is not None
            else TensorType(None, dtype, 1, ty.vdevice)
        )
    axis_attr(call, ty.ndim)
    return TensorType(ty.shape, dtype, ty.ndim, ty.vdevice)


def _accumulator_dtype(dtype: DataType) -> DataType:
    """Sums of float32 are carried in float64, as torch does: rounding errors of a long line would add up."""
    return DataType("float64") if dtype.name == "float32" else dtype


def _lowering(combine: Callable[[Any, Any], Expr], start: int) -> Callable[..., te.Tensor]:
    def lower(call: Call, x: te.Tensor, scan: Scan = scan_lines) -> te.Tensor:
        dtype, exclusive = result_dtype(call), bool_attr(call, "exclusive")
        if attr(call, "axis") is None:
            x, axis = (reorder(call, x) if x.ndim != 1 else x), 0
        else:
            axis = axis_attr(call, x.ndim)
        acc_dtype = compute_dtype(dtype)
        carried = _accumulator_dtype(acc_dtype)

        def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            def term(i: list[Expr]) -> Expr:
                return build.cast(
                    read(ins[0], [v - 1 if a == axis and exclusive else v for a, v in enumerate(i)]), carried
                )

            def begin(i: list[Expr]) -> Expr:
                return build.const(start, carried) if exclusive else term(i)

            together = LINES if acc_dtype.is_float else 1
            return scan(outs[0], axis, Carried(carried, begin, term, combine, acc_dtype, together))

        result: te.Tensor = te.extern(x.shape, [cast_tensor(x, acc_dtype, "wide")], emit, short_name(call), acc_dtype)
        return cast_tensor(result, dtype, "cast")

    return lower


lower_cumsum, lower_cumprod = _lowering(build.add, 0), _lowering(build.mul, 1)


def _scan_ref(fn: Any, start: int) -> Any:
    def ref(x: np.ndarray, axis: int | None = None, dtype: str | None = None, exclusive: bool = False) -> np.ndarray:
        kind = DataType(str(dtype)).numpy if dtype else np.dtype("int64") if x.dtype == bool else x.dtype
        acc_dtype = np.float64 if str(kind) in (*SMALL_FLOATS, "float32") else kind
        result = fn(x.astype(kind).astype(acc_dtype), axis=axis, dtype=acc_dtype)
        if exclusive:
            position = 0 if axis is None else axis
            result = np.roll(result, 1, position)
            np.moveaxis(result, position, 0)[:1] = start
        return np.asarray(result, kind)

    return ref


_SCAN = ("data", attribute("axis", None, "the axis; None: flattened first"),
         attribute("dtype", None, "the data type of the result; None: that of data, int64 of bool"),
         attribute("exclusive", False))  # fmt: skip


def _cumsum_grad(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    axis = attr(call, "axis")
    result = R.cumsum(R.flip(g, axis=axis or 0), axis=axis or 0, exclusive=bool_attr(call, "exclusive"))
    grad = R.flip(result, axis=axis or 0)
    return [R.astype(R.reshape(grad, operand_shape(call, x)) if axis is None else grad, dtype_of(x))]


cumsum = row(
    "cumsum",
    _SCAN,
    _scan_type,
    "Returns the cumulative sum along an axis.",
    family="reduce",
    lower=lower_cumsum,
    ref=_scan_ref(np.cumsum, 0),
    grad=_cumsum_grad,
    samples="f32[3,4], axis=-1; f32[2,3]; f32[3,4], axis=1, exclusive=True; "
    "i32[3,4], axis=0, exclusive=True; b[5], axis=0, dtype=each('int64', None); f16[6], axis=0",
)
cumprod = row(
    "cumprod",
    _SCAN,
    _scan_type,
    "Returns the cumulative product along an axis.",
    family="reduce",
    lower=lower_cumprod,
    ref=_scan_ref(np.cumprod, 1),
    grad="products of what stands before are differentiated in torch: torch.compile runs their backward graphs there",
    samples="f32[3,4], axis=-1; f32[2,3]; f32[3,4], axis=1, exclusive=True; "
    "i32[3,4], axis=0, exclusive=True; b[5], axis=0, dtype=each('int64', None); f16[6], axis=0",
)
