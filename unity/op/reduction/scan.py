"""Running sums and products along one axis. The loops: scan_loops.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL, INT64, DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, ShapeExpr, Tuple
from ...ir.relation import dims, tensor_type, unequal_shapes
from ...ir.stmt import Stmt
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import SECOND_DERIVATIVE, dtype_of, operand_shape
from ..common.loop_nests import read
from ..common.lowering import SMALL_FLOATS, cast_tensor, compute_dtype, result_dtype, short_name
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axis_attr,
    bool_attr,
    dtype_value,
    fail,
    float_tensor,
    product,
    same_dtype,
    tensor_arg,
)
from ..manipulate.manipulate import reorder
from .scan_loops import LINES, Carried, scan_lines

row = rows("reduce")
Scan = Callable[[Sequence[Buffer], int, Carried], Stmt]
"""(results of one shape, axis, what is carried along it) -> the statements that store them."""


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

            def begin(i: list[Expr]) -> list[Expr]:
                return [build.const(start, carried) if exclusive else term(i)]

            def step(i: list[Expr], old: list[Expr]) -> list[Expr]:
                return [combine(old[0], term(i))]

            def results(i: list[Expr], values: list[Expr]) -> list[Expr]:
                return [build.cast(values[0], acc_dtype)]

            together = LINES if acc_dtype.is_float else 1
            return scan(outs, axis, Carried([carried], begin, step, results, together, combine, term))

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


def _cumprod_grad(call: Call, g: Expr) -> list[Any]:
    """The product before i times r[i], r[i] = g[i] + x[i + 1] r[i + 1]: without division, so zeros are no exception."""
    x = call.args[0]
    shape, whole = operand_shape(call, x), attr(call, "axis") is None
    axis = 0 if whole else axis_attr(call, len(shape))
    values = R.reshape(x, ShapeExpr((product(shape),))) if whole else x
    factor, term = R.flip(values, axis=axis), R.flip(R.astype(g, dtype_of(x)), axis=axis)
    begin = R.zeros_like(R.strided_slice(factor, axes=[axis], begin=[0], end=[1]))

    def following(t: Expr) -> Expr:
        return R.concat(Tuple((begin, R.strided_slice(t, axes=[axis], begin=[0], end=[-1]))), axis=axis)

    if bool_attr(call, "exclusive"):
        behind = following(R.grad.linear_recurrence(factor, term, axis=axis))
    else:
        behind = R.grad.linear_recurrence(following(factor), term, axis=axis)
    result = R.cumprod(values, axis=axis, exclusive=True) * R.flip(behind, axis=axis)
    return [R.reshape(result, ShapeExpr(shape)) if whole else result]


def _recurrence_type(call: Call) -> Type:
    factor, term = float_tensor(call, 0, "factor"), float_tensor(call, 1, "term")
    same_dtype(call, factor, term)
    axis_attr(call, factor.ndim)
    known, given = dims(factor), dims(term)
    if known is not None and given is not None and unequal_shapes(known, given):
        raise fail(call, "E213", f"factor {factor} and term {term} must have one shape", arg=1)
    return factor


def lower_recurrence(call: Call, factor: te.Tensor, term: te.Tensor, scan: Scan = scan_lines) -> te.Tensor:
    """The lowering of R.grad.linear_recurrence by what carries values along a line."""
    acc_dtype, axis = compute_dtype(factor.data_type), axis_attr(call, factor.ndim)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def step(i: list[Expr], old: list[Expr]) -> list[Expr]:
            return [read(ins[0], i) * old[0] + read(ins[1], i)]

        return scan(outs, axis, Carried([acc_dtype], lambda i: [read(ins[1], i)], step, together=LINES))

    inputs = [cast_tensor(t, acc_dtype, "wide") for t in (factor, term)]
    return cast_tensor(te.extern(factor.shape, inputs, emit, short_name(call), acc_dtype), factor.data_type, "cast")


def _recurrence_ref(factor: np.ndarray, term: np.ndarray, axis: int = 0) -> np.ndarray:
    kind = np.result_type(term, np.float32)
    result, factors = np.moveaxis(term.astype(kind), axis, 0).copy(), np.moveaxis(factor.astype(kind), axis, 0)
    for n in range(1, len(result)):
        result[n] += factors[n] * result[n - 1]
    return np.moveaxis(result, 0, axis).astype(term.dtype)


linear_recurrence = row(
    "grad.linear_recurrence",
    ("factor: the factors", "term: the terms, of the same shape", attribute("axis", 0)),
    _recurrence_type,
    "Returns all values of y[n] = factor[n] * y[n - 1] + term[n] along an axis, with y[-1] = 0.",
    family="grad",
    lower=lower_recurrence,
    ref=_recurrence_ref,
    grad=SECOND_DERIVATIVE,
    samples="f32[4,2,3], f32[4,2,3], axis=each(0, -1); f32[0,2], f32[0,2]; f16[3], f16[3]",
)
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
    grad=_cumprod_grad,
    samples="f32[3,4], axis=-1; f32[2,3]; f32[3,4], axis=1, exclusive=True; "
    "i32[3,4], axis=0, exclusive=True; b[5], axis=0, dtype=each('int64', None); f16[6], axis=0",
)
