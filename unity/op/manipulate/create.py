"""Operators that make tensors from shapes and numbers, and conversion of data types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call, ShapeExpr
from ...ir.interpret.common.arrays import caster
from ...ir.relation import tensor_type
from ...ir.types import Expr, PrimType, TensorType, Type
from ..common.gradients import cast_grad, not_differentiable, operand_shape
from ..common.lowering import result_dims, result_dtype, short_name
from ..common.table import Operator, R, attribute, optional, rows
from ..common.type_rules import (
    argument,
    attr,
    dtype_value,
    element,
    fail,
    int_attr,
    python_value,
    shape_arg,
    tensor_arg,
    with_dtype,
)

row = rows("create")


def _shaped(call: Call, dtype: DataType | None) -> Type:
    shape = shape_arg(call, 0)
    return tensor_type(shape.values if shape.values is not None else call.args[0], dtype)


def _fill_dtype(call: Call) -> DataType | None:
    ty = argument(call, 1, "fill_value").ty
    if isinstance(ty, PrimType):
        return ty.dtype
    if isinstance(ty, TensorType) and ty.ndim in (0, -1):
        return ty.dtype
    raise fail(call, "E210", f"fill_value must be a scalar, got {ty}", arg=1)


def _filled(call: Call, dtype: DataType | None) -> DataType | None:
    """The data type of the result, which must have the whole part of a number that is known."""
    value = python_value(call.args[1])
    if dtype is not None and dtype.is_integral and isinstance(value, (int, float)):
        element(call, math.trunc(value) if abs(value) < math.inf else value, dtype, "fill_value")
    return dtype


def _full_type(call: Call) -> Type:
    found = _fill_dtype(call)
    return _shaped(call, _filled(call, dtype_value(call, attr(call, "dtype")) or found))


def _fill(call: Call, value: Any) -> te.Tensor:
    dtype = result_dtype(call)
    scalar = value[()] if isinstance(value, te.Tensor) else value
    return te.compute(result_dims(call), lambda *i: te.Value(te.unwrap(scalar)).astype(dtype), short_name(call))


def _np(dtype: Any, default: str = "float32") -> np.dtype:
    return DataType(str(dtype or default)).numpy


def _converted(x: Any, dtype: Any) -> np.ndarray:
    """As ``Cast`` does, the same on every processor, where numpy leaves it to the processor what no number of the type is."""
    value, target = np.asarray(x), DataType(dtype)
    with np.errstate(all="ignore"):
        return np.asarray(caster(DataType(str(value.dtype)), target)(value), target.numpy)


def _filled_grad(call: Call, g: Expr) -> list[Any]:
    """Of the value, where it is a float tensor."""
    ty = call.args[1].ty
    if not isinstance(ty, TensorType) or ty.dtype is None or not ty.dtype.is_float:
        return [None, None]
    return [None, R.astype(R.reshape(R.sum(g), ShapeExpr(operand_shape(call, call.args[1]))), ty.dtype)]


full = row(
    "full",
    (
        "shape",
        "fill_value: a scalar",
        attribute("dtype", None, doc="the data type of the result; None: that of fill_value"),
    ),
    _full_type,
    "Returns a tensor filled with one value.",
    lower=lambda call, shape, value: _fill(call, value),
    scalars_from=0,
    ref=lambda shape, fill_value, dtype=None: np.full(
        tuple(shape), _converted(fill_value, dtype or str(np.asarray(fill_value).dtype))
    ),
    grad=_filled_grad,
    samples="(2,3), 2.5, dtype='float32'; (2,3), f32[()]",
)


def _full_like_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    _fill_dtype(call)
    return with_dtype(ty, _filled(call, dtype_value(call, attr(call, "dtype")) or ty.dtype))


full_like = row(
    "full_like",
    ("x", "fill_value: a scalar", attribute("dtype", None, doc="the data type of the result; None: that of x")),
    _full_like_type,
    "Returns a tensor in the shape of x filled with one value.",
    lower=lambda call, x, value: _fill(call, value),
    scalars_from=0,
    ref=lambda x, fill_value, dtype=None: np.full(x.shape, _converted(fill_value, dtype or str(x.dtype))),
    grad=_filled_grad,
    samples="f32[2,3], each(1, f32[()])",
)


def _constant(name: str, value: int, doc: str) -> tuple[Operator, Operator]:
    def shaped(call: Call) -> Type:
        dtype = dtype_value(call, attr(call, "dtype"))
        if dtype is None:
            raise fail(call, "E214", "dtype is missing", 'write dtype="float32"')
        return _shaped(call, dtype)

    def same(call: Call) -> Type:
        ty = tensor_arg(call, 0)
        return with_dtype(ty, dtype_value(call, attr(call, "dtype")) or ty.dtype)

    def lower(call: Call, *inputs: Any) -> te.Tensor:
        dtype = result_dtype(call)
        return te.compute(result_dims(call), lambda *i: te.const(value, dtype), short_name(call))

    result = row(
        name,
        ("shape", attribute("dtype")),
        shaped,
        f"Returns a tensor of {doc}.",
        lower=lower,
        ref=lambda shape, dtype: np.full(tuple(shape), value, _np(dtype)),
        samples="(2,0), dtype='int32'; (), dtype='bool'; (2,3), dtype='float32'",
    )
    alike = row(
        f"{name}_like",
        ("x", attribute("dtype", None)),
        same,
        f"Returns a tensor of {doc} in the shape of x.",
        lower=lower,
        ref=lambda x, dtype=None: np.full(x.shape, value, _np(dtype, str(x.dtype))),
        grad=not_differentiable,
        samples="f32[3,2]; f32[3], dtype='int8'",
    )
    return result, alike


zeros, zeros_like = _constant("zeros", 0, "zeros")
ones, ones_like = _constant("ones", 1, "ones")


def _range_of(call: Call) -> tuple[Any, Any, Any]:
    """(start, end, step) as Python numbers or scalar expressions."""
    values = [python_value(a) for a in call.args]
    for value, arg in zip(values, call.args):
        if not isinstance(value, (int, float)) and not isinstance(arg.ty, PrimType):
            raise fail(call, "E210", f"the bounds must be scalars, got {arg.ty}", arg=arg)
        if isinstance(value, float) and not math.isfinite(value):
            raise fail(call, "E214", f"the bounds must be finite, got {value}", arg=arg)
    if len(values) == 1:
        return 0, values[0], 1
    return values[0], values[1], values[2] if len(values) > 2 else 1


def _any_float(*values: Any) -> bool:
    return any([isinstance(v, float) or (isinstance(v, Expr) and build.dtype_of(v).is_float) for v in values])


def _arange_type(call: Call) -> Type:
    start, end, step = _range_of(call)
    floats = _any_float(start, end, step)
    dtype = dtype_value(call, attr(call, "dtype")) or DataType("float32" if floats else "int64")
    if isinstance(step, (int, float)) and step == 0:
        raise fail(call, "E214", "a step of 0 has no meaning")
    if all([isinstance(v, (int, float)) for v in (start, end, step)]):
        return tensor_type((build.const(max(0, math.ceil((end - start) / step)), "int64"),), dtype)
    if floats or not isinstance(step, int):
        return TensorType(None, dtype, 1)
    low, high = [build.cast(v, "int64") if isinstance(v, Expr) else build.const(v, "int64") for v in (start, end)]
    distance = high - low if step > 0 else low - high
    count = build.ceildiv(distance, abs(step))
    return tensor_type(
        (count if start == 0 and isinstance(step, int) and step > 0 else build.maximum(count, 0),), dtype
    )


def _arange(call: Call, *inputs: Any) -> te.Tensor:
    start, _, step = _range_of(call)
    dtype = result_dtype(call)
    acc_dtype = "float64" if dtype.is_float or _any_float(start, step) else "int64"

    def body(i: te.Value) -> te.Value:
        first, stride = [
            te.Value(build.cast(v, acc_dtype)) if isinstance(v, Expr) else te.const(v, acc_dtype) for v in (start, step)
        ]
        return (first + i.astype(acc_dtype) * stride).astype(dtype)

    return te.compute(result_dims(call), body, "arange")


def _arange_ref(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> np.ndarray:
    if end is None:
        start, end = 0, start
    floats = any([isinstance(v, float) for v in (start, end, step)])
    count = max(0, math.ceil((end - start) / step))
    acc_dtype = np.float64 if floats or (dtype and _np(dtype).kind not in "iu") else np.int64
    result = np.asarray(start, acc_dtype) + np.arange(count, dtype=acc_dtype) * np.asarray(step, acc_dtype)
    return np.asarray(result, _np(dtype, "float32" if floats else "int64"))


arange = row(
    "arange",
    (
        "start: the first element; given alone, it is the end and 0 the first element",
        optional("end", doc="the end, exclusive"),
        optional("step", None, doc="difference of neighbours; None: 1"),
        attribute("dtype", None, doc="the data type of the result; None: int64 of integers, else float32"),
    ),
    _arange_type,
    "Returns start, start + step, ... up to but not including end.",
    lower=_arange,
    ref=_arange_ref,
    samples="5; 2, 9, 3, dtype='float32'; 5, -2, -2; 0.0, 1.0, 0.3; 0.0, 4.5, 1.5, dtype='int32'",
)


def _eye_type(call: Call) -> Type:
    n, k = int_attr(call, "n"), int_attr(call, "k")
    m = n if attr(call, "m") is None else int_attr(call, "m")
    for name, value, least in (("n", n, 0), ("m", m, 0), ("k", k, -(2**31))):
        if not least <= value < 2**31:
            raise fail(call, "E214", f"{name}={value} is out of range")
    dtype = dtype_value(call, attr(call, "dtype")) or DataType("float32")
    return tensor_type([build.const(v, "int64") for v in (n, m)], dtype)


def _eye(call: Call) -> te.Tensor:
    k, dtype = int_attr(call, "k"), result_dtype(call)
    return te.compute(
        result_dims(call), lambda i, j: te.select(j - i == k, te.const(1, dtype), te.const(0, dtype)), "eye"
    )


eye = row(
    "eye",
    (
        attribute("n", doc="number of rows"),
        attribute("m", None, doc="number of columns; None: n"),
        attribute("k", 0),
        attribute("dtype", "float32"),
    ),
    _eye_type,
    "Returns a matrix with ones on diagonal k and zeros elsewhere.",
    lower=_eye,
    ref=lambda n, m=None, k=0, dtype="float32": np.eye(n, m, k, _np(dtype)),
    samples="n=3, m=4, k=-1",
)


def _astype_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    dtype = dtype_value(call, attr(call, "dtype"))
    if dtype is None:
        raise fail(call, "E214", "dtype is missing", 'write R.astype(x, "float32")')
    return with_dtype(ty, dtype)


def _astype(call: Call, x: te.Tensor) -> te.Tensor:
    dtype = result_dtype(call)
    if x.data_type is dtype:
        return x
    return te.compute(x.shape, lambda *i: x[i].astype(dtype), "cast")


astype = row(
    "astype",
    ("x", attribute("dtype")),
    _astype_type,
    "Converts the elements to another data type; floats to integers truncate.",
    family="dtype",
    lower=_astype,
    ref=_converted,
    grad=cast_grad,
    pointwise=True,
    samples="f32[9](-100,100), dtype=each('float64', 'float16', 'bfloat16', 'int32', 'int8', 'bool', "
    "'float32'); i32[5], dtype='float32'; b[5], dtype='int64'",
)
