"""Quantisation to integers and back, sampling from probabilities, window functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import INT64, DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, ShapeExpr, Var
from ...ir.relation import dims, exceeds, tensor_type, unequal
from ...ir.stmt import BufferStore, IfThenElse, Stmt, seq
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import dtype_of, not_differentiable, operand_shape
from ..common.loop_nests import loops, read
from ..common.lowering import result_dims, result_dtype
from ..common.table import R, attribute, row
from ..common.type_rules import (
    ONE,
    ZERO,
    attr,
    bool_attr,
    dtype_value,
    fail,
    float_tensor,
    int_attr,
    is_one,
    normal_axis,
    tensor_arg,
    with_dtype,
)
from ..manipulate.index import check_indexable, in_range, index_tensor
from .activations import float_attr


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


def _multinomial_type(call: Call) -> Type:
    prob, uniform = float_tensor(call, 0, "prob", 2), float_tensor(call, 1, "uniform_sample", 2)
    chosen = index_tensor(call, 2, "sample_indices", 2)
    lines, samples, rows = dims(prob), dims(uniform), dims(chosen)
    if lines is not None and exceeds(ONE, lines[1]):
        raise fail(call, "E213", "there is no class to choose", arg=0)
    for n, shape in ((1, samples), (2, rows)):
        if shape is not None and unequal(shape[1], ONE):
            raise fail(call, "E213", f"expected shape (n, 1), got {call.args[n].ty}", arg=n)
    if samples is not None and rows is not None and unequal(samples[0], rows[0]):
        raise fail(call, "E213", f"{samples[0]} samples and {rows[0]} rows", arg=2)
    if lines is not None and rows is not None:
        check_indexable(call, 0, lines[0], rows)
    dtype = dtype_value(call, attr(call, "dtype")) or INT64
    return TensorType(uniform.shape, dtype, uniform.ndim, prob.vdevice)


def _multinomial(call: Call, prob: te.Tensor, uniform: te.Tensor, chosen: te.Tensor) -> te.Tensor:
    dtype, classes = result_dtype(call), prob.shape[1]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def running(i: list[Var]) -> Stmt:
            value = build.cast(read(ins[0], i), "float64")
            before = read(outs[0], (i[0], i[1] - 1))
            first = BufferStore(outs[0], value, tuple(i))
            return IfThenElse(build.eq(i[1], ZERO), first, BufferStore(outs[0], before + value, tuple(i)))

        return seq(loops(prob.shape, running))

    total = te.extern(prob.shape, [prob], emit, "running_sum", "float64")
    k = te.reduce_axis((0, classes), "k")

    def below(n: te.Value, one: te.Value) -> te.Value:
        line = in_range(chosen[n, one], prob.shape[0])
        return te.sum((total[line, k] <= uniform[n, one].astype("float64")).astype("int64"), axis=k)

    count = te.compute(uniform.shape, below, "classes_below")
    last = te.Value(classes - 1)
    return te.compute(uniform.shape, lambda *i: te.minimum(count[i], last).astype(dtype), "multinomial")


def _multinomial_ref(prob: Any, uniform: Any, chosen: Any, dtype: str = "int64") -> np.ndarray:
    total = np.cumsum(prob.astype(np.float64), 1)[chosen[:, 0]]
    return np.asarray(np.minimum((total <= uniform).sum(1, keepdims=True), prob.shape[1] - 1), str(dtype))


multinomial_from_uniform = row(
    "multinomial_from_uniform",
    (
        "prob: probabilities (batch, classes)",
        "uniform_sample: (n, 1): numbers from 0 to 1",
        "sample_indices: (n, 1): the row of prob for each sample",
        attribute("dtype", "int64"),
    ),
    _multinomial_type,
    "Samples classes: the first class of a row whose cumulative probability exceeds the uniform sample.",
    family="random",
    lower=_multinomial,
    ref=_multinomial_ref,
    samples="f32([[0.1,0.2,0.7],[0.5,0,0.5]]), f32[4,1](0,1), i64([[0],[0],[1],[1]]); "
    "f32([[1.0]]), f32[2,1](0,1), i64([[0],[0]]), dtype='int32'",
)


def _window_type(call: Call) -> Type:
    size, dtype = (
        int_attr(call, "window_size"),
        dtype_value(call, attr(call, "dtype")) or DataType("float32"),
    )
    bool_attr(call, "periodic")
    float_attr(call, "alpha")
    float_attr(call, "beta")
    if size < 0:
        raise fail(call, "E214", f"window_size must not be negative, got {size}")
    if not dtype.is_float:
        raise fail(call, "E214", f"dtype must be a float type, got {dtype.name}")
    return tensor_type((build.const(size, "int64"),), dtype)


def _window(call: Call) -> te.Tensor:
    size, alpha, beta = int_attr(call, "window_size"), float_attr(call, "alpha"), float_attr(call, "beta")
    dtype, turns = result_dtype(call), size if bool_attr(call, "periodic") else size - 1

    def body(i: te.Value) -> te.Value:
        if turns == 0 or size == 1:
            return te.const(1, dtype)
        return (te.cos(i.astype("float64") * (2 * math.pi / turns)) * -beta + alpha).astype(dtype)

    return te.compute(result_dims(call), body, "hamming_window")


def _window_ref(
    window_size: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: str = "float32"
) -> np.ndarray:
    turns = max(window_size if periodic else window_size - 1, 1)
    result = alpha - beta * np.cos(2 * np.pi * np.arange(window_size) / turns)
    return (np.ones(1) if window_size == 1 else result).astype(DataType(str(dtype)).numpy)


hamming_window = row(
    "hamming_window",
    (
        attribute("window_size", doc="number of elements"),
        attribute("periodic", True, doc="make the period window_size instead of window_size - 1"),
        attribute("alpha", 0.54, doc="constant term"),
        attribute("beta", 0.46, doc="factor of the cosine"),
        attribute("dtype", "float32"),
    ),
    _window_type,
    "Returns alpha - beta * cos(2 pi i / n) for i < window_size; n is window_size if periodic, else window_size - 1.",
    family="create",
    lower=_window,
    ref=_window_ref,
    samples="window_size=each(0, 1, 2, 7), periodic=each(True, False); "
    "window_size=4, alpha=0.5, beta=0.5, dtype='float64'",
)


def _eye_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, rank=2)
    int_attr(call, "k")
    return with_dtype(ty, dtype_value(call, attr(call, "dtype")) or ty.dtype)


def _eye(call: Call, x: te.Tensor) -> te.Tensor:
    dtype, k = result_dtype(call), int_attr(call, "k")
    return te.compute(x.shape, lambda i, j: te.select(j - i == k, te.const(1, dtype), te.const(0, dtype)), "eye")


def _eye_ref(x: np.ndarray, k: int = 0, dtype: Any = None) -> np.ndarray:
    return np.eye(x.shape[0], x.shape[1], k, DataType(str(dtype or x.dtype)).numpy)


eye_like = row(
    "eye_like",
    ("x", attribute("k", 0), attribute("dtype", None, doc="the data type of the result; None: that of x")),
    _eye_type,
    "Returns a matrix in the shape of x with ones on diagonal k and zeros elsewhere.",
    family="create",
    lower=_eye,
    ref=_eye_ref,
    grad=not_differentiable,
    samples="f32[3,4], k=1; f32[2,2], dtype='int32', k=-1",
)
