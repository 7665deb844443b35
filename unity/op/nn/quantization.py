"""Quantisation to integers and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call, ShapeExpr
from ...ir.relation import dims, unequal
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import dtype_of, operand_shape
from ..common.lowering import result_dtype
from ..common.table import R, attribute, row
from ..common.type_rules import (
    ONE,
    attr,
    dtype_value,
    fail,
    float_tensor,
    int_attr,
    is_one,
    normal_axis,
    tensor_arg,
    with_dtype,
)
from ..manipulate.index import index_tensor


def _parameters(call: Call, ty: TensorType) -> None:
    axis = normal_axis(call, int_attr(call, "axis"), ty.ndim) if ty.ndim else 0
    float_tensor(call, 1, "scale")
    known = dims(ty)
    for n, name in ((1, "scale"), (2, "zero_point")):
        param = tensor_arg(call, n, name)
        if param.ndim not in (-1, 0, 1):
            raise fail(call, "E212", f"{name} must be a scalar or a vector, got rank {param.ndim}", arg=n)
        shape = dims(param)
        if known and shape and not is_one(shape[0]) and unequal(known[axis], shape[0]):
            raise fail(call, "E213", f"axis {axis} has size {known[axis]}, {name} {shape[0]}", arg=n)


def _out(call: Call, default: str) -> DataType:
    return dtype_value(call, attr(call, "out_dtype", default), "out_dtype") or DataType(default)


def _quantize_type(call: Call) -> Type:
    ty, dtype = float_tensor(call, 0, "data"), _out(call, "int8")
    _parameters(call, ty)
    if not dtype.is_integral or dtype.is_bool:
        raise fail(call, "E214", f"out_dtype must be an integer type, got {dtype.name}")
    return with_dtype(ty, dtype)


def _dequantize_type(call: Call) -> Type:
    ty, dtype = index_tensor(call, 0, "data"), _out(call, "float32")
    _parameters(call, ty)
    if not dtype.is_float:
        raise fail(call, "E214", f"out_dtype must be a float type, got {dtype.name}")
    return with_dtype(ty, dtype)


def _parameter(call: Call, x: te.Tensor, param: te.Tensor, i: tuple[te.Value, ...]) -> te.Value:
    if param.ndim == 0:
        return param[()]
    return param[0 if is_one(param.shape[0]) else i[normal_axis(call, int_attr(call, "axis"), x.ndim)]]


def _quantize(call: Call, x: te.Tensor, scale: te.Tensor, zero: te.Tensor) -> te.Tensor:
    dtype = result_dtype(call)
    low, high = [float(build.number(v)) for v in (build.min_value(dtype), build.max_value(dtype))]

    def body(*i: te.Value) -> te.Value:
        step, offset = [_parameter(call, x, p, i).astype("float64") for p in (scale, zero)]
        value = te.nearbyint(x[i].astype("float64") / step) + offset
        value = te.select(te.isnan(value), offset, value)
        return te.maximum(te.minimum(value, te.const(high, "float64")), te.const(low, "float64")).astype(dtype)

    return te.compute(x.shape, body, "quantize")


def _dequantize(call: Call, x: te.Tensor, scale: te.Tensor, zero: te.Tensor) -> te.Tensor:
    dtype = result_dtype(call)

    def body(*i: te.Value) -> te.Value:
        step, offset = [_parameter(call, x, p, i).astype("float64") for p in (scale, zero)]
        return ((x[i].astype("float64") - offset) * step).astype(dtype)

    return te.compute(x.shape, body, "dequantize")


def _broadcast_param(param: np.ndarray, rank: int, axis: int) -> np.ndarray:
    x64 = param.astype(np.float64)
    return x64.reshape([-1 if a == axis % rank else 1 for a in range(rank)]) if x64.ndim and rank else x64.reshape(())


def _quantize_ref(x: Any, scale: Any, zero_point: Any, axis: int = -1, out_dtype: str = "int8") -> np.ndarray:
    step, offset = _broadcast_param(scale, x.ndim, axis), _broadcast_param(zero_point, x.ndim, axis)
    info = np.iinfo(str(out_dtype))
    with np.errstate(all="ignore"):
        value = np.round(x.astype(np.float64) / step) + offset
    value = np.where(np.isnan(value), offset, value)
    return np.clip(value, info.min, info.max).astype(str(out_dtype))


def _dequantize_ref(x: Any, scale: Any, zero_point: Any, axis: int = -1, out_dtype: str = "float32") -> np.ndarray:
    step, offset = _broadcast_param(scale, x.ndim, axis), _broadcast_param(zero_point, x.ndim, axis)
    return np.asarray((x.astype(np.float64) - offset) * step, DataType(str(out_dtype)).numpy)


quantize = row(
    "quantize",
    (
        "data",
        "scale: size of a step, one for each channel or one for all",
        "zero_point",
        attribute("axis", -1),
        attribute("out_dtype", "int8", "the integer data type of the result"),
    ),
    _quantize_type,
    "Returns round(data / scale) + zero_point, clipped to the range of out_dtype; NaN gives zero_point.",
    family="dtype",
    lower=_quantize,
    ref=_quantize_ref,
    grad="it rounds to integers",
    samples="f32[2,3,4](-90,90), f32[3](0.1,2), i8[3], axis=1, out_dtype='uint8'; f16[4], f32([0.25]), i8([0])",
)


def _dequantize_grad(call: Call, g: Expr) -> list[Any]:
    """Of the scale: the gradient times how far the integers are from the zero point, summed over what shares it."""
    data, scale, zero = call.args
    shape, dtype = operand_shape(call, data), dtype_of(g)
    axis = normal_axis(call, int_attr(call, "axis"), len(shape)) if shape else 0

    def expand(param: Expr) -> Expr:
        own = operand_shape(call, param)
        param_shape = [own[0] if a == axis else ONE for a in range(len(shape))] if own else []
        return R.astype(R.reshape(param, ShapeExpr(tuple(param_shape))), dtype)

    def reduce_to_param(value: Expr, param: Expr) -> Expr | None:
        if not dtype_of(param).is_float:
            return None
        own = operand_shape(call, param)
        keeps = bool(own) and not is_one(own[0])
        rest = [a for a in range(len(shape)) if not (keeps and a == axis)]
        return R.astype(R.reshape(R.sum(value, axis=rest) if rest else value, ShapeExpr(own)), dtype_of(param))

    distance = R.astype(data, dtype) - expand(zero)
    return [None, reduce_to_param(g * distance, scale), reduce_to_param(-(g * expand(scale)), zero)]


dequantize = row(
    "dequantize",
    (
        "data",
        "scale: size of a step, one for each channel or one for all",
        "zero_point",
        attribute("axis", -1),
        attribute("out_dtype", "float32", "the data type of the result"),
    ),
    _dequantize_type,
    "Returns (data - zero_point) * scale.",
    family="dtype",
    lower=_dequantize,
    ref=_dequantize_ref,
    grad=_dequantize_grad,
    samples="i8[2,3], f32[3], i8[3]; i8[3,4], f32[3], f32[3], axis=0; u8[4], f32(0.5), u8(100), "
    "out_dtype='float16'; i8[3,4], f32[4], f32[4], out_dtype='float64'",
)
