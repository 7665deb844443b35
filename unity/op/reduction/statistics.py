"""Reductions beyond sums and extremes: any, all, logsumexp, median. Axes as in reduce.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL, INT64, sortable
from ...ir.expr import Call
from ...ir.relation import dims, exceeds
from ...ir.types import Expr, TupleType, Type
from ..common.gradients import field_of, operand_shape, reduce_keepdims, sum_backward
from ..common.lowering import cast_tensor, result_dtype, short_name
from ..common.table import Operator, R, attribute, rows
from ..common.type_rules import ONE, axes_attr, bool_attr, fail, product, tensor_arg
from ..elementwise.unary import in_float32
from ..manipulate.manipulate import unravel
from .reduce import (
    accumulate,
    extreme_grad,
    float_reduction,
    highest_number,
    numpy_axis,
    reduce_axes,
    reduce_tensor,
    reduced_type,
)
from .selection import median_index

row = rows("reduce")
_AXES = ("x", attribute("axis", None, "one axis or several; None: all"), attribute("keepdims", False))


def _truth_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    return reduced_type(call, ty, BOOL, axes_attr(call, "axis", ty.ndim))


def _truth(name: str, reducer: Any, ref: Any, doc: str) -> Operator:
    """The greatest or least of numbers, which are reduced in vectors."""

    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes, _ = reduce_axes(call, x)

        def holds(value: te.Value, _: list[Any]) -> te.Value:
            return (value if value.dtype.is_bool else value != 0).astype("uint8")

        found = reduce_tensor(x, axes, bool_attr(call, "keepdims"), reducer, holds, "truth")
        return te.compute(found.shape, lambda *i: found[i] != 0, short_name(call))

    def meaning(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
        return np.asarray(ref(x, axis=numpy_axis(axis), keepdims=bool(keepdims)))

    samples = (
        "b[3,4,5], axis=each(None, 0, [-1], [0,2]), keepdims=each(False, True); i32[3,2](0,2), axis=0; b[0,3], axis=0"
    )
    return row(name, _AXES, _truth_type, doc, lower=lower, ref=meaning, samples=samples)


any_ = _truth("any", te.max, np.any, "Tests whether any element over the axes is nonzero.")
all_ = _truth("all", te.min, np.all, "Tests whether all elements over the axes are nonzero.")


def _logsumexp(call: Call, x: te.Tensor) -> te.Tensor:
    axes, shape = reduce_axes(call, x)
    high = highest_number(x, axes)

    def finite(*i: te.Value) -> te.Value:
        return te.select(te.isinf(high[i]), 0, high[i])

    shift = te.compute(shape, finite, "shift")
    keep = bool_attr(call, "keepdims")

    def exponential(value: te.Value, index: list[Any]) -> te.Value:
        return te.exp(accumulate(value) - shift[[0 if a in axes else v for a, v in enumerate(index)]])

    total = reduce_tensor(x, axes, True, te.sum, exponential, "exponent_sum")
    out = shape if keep else [d for a, d in enumerate(x.shape) if a not in axes]

    def body(*i: te.Value) -> te.Value:
        rest = list(i)
        index = list(i) if keep else [0 if a in axes else rest.pop(0) for a in range(x.ndim)]
        return te.log(total[index]) + shift[index]

    return cast_tensor(te.compute(out, body, "logsumexp"), result_dtype(call), "logsumexp_cast")


def _logsumexp_ref(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    x64 = x.astype(np.float64)
    high = np.max(x64, axis=numpy_axis(axis), keepdims=True, initial=-np.inf)
    high = np.where(np.isinf(high), 0.0, high)
    result = np.log(np.sum(np.exp(x64 - high), axis=numpy_axis(axis), keepdims=True)) + high
    reduced = tuple(range(x.ndim)) if axis is None else numpy_axis(axis)
    return np.asarray(result if keepdims else np.squeeze(result, reduced), x.dtype)


def _logsumexp_grad(call: Call, g: Expr) -> list[Any]:
    return [sum_backward(call, g) * R.exp(call.args[0] - reduce_keepdims(call, R.logsumexp))]


logsumexp = row(
    "logsumexp",
    _AXES,
    float_reduction,
    "Returns the logarithm of the sum of exp(x) over the axes, without overflow.",
    lower=_logsumexp,
    ref=in_float32(_logsumexp_ref),
    grad=_logsumexp_grad,
    samples="f32[3,4,5](-200,200), axis=each(None, 0, [-1], [0,2]), keepdims=each(False, True); "
    "f32[2,0], axis=1; f16[4]; f32[()]",
)


def _median_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    axes = axes_attr(call, "axis", ty.ndim)
    if ty.dtype is not None and ty.dtype.is_bool:
        raise fail(call, "E211", "bool tensors have no median", 'cast first: R.astype(x, "int32")', 0)
    known = dims(ty)
    if known is not None and any([exceeds(ONE, d) for a, d in enumerate(known) if axes is None or a in axes]):
        raise fail(call, "E213", "no element to choose from: an axis has size 0", arg=0)
    values = reduced_type(call, ty, ty.dtype, axes)
    if axes is None or len(axes) != 1:
        return values
    return TupleType((values, reduced_type(call, ty, INT64, axes)))


def lower_median(call: Call, x: te.Tensor, index: Callable[[te.Tensor], te.Tensor] = median_index) -> Any:
    """The lowering of R.median by what finds the place of the median in each line."""
    axes, shape = reduce_axes(call, x)
    keep = bool_attr(call, "keepdims")
    rest = [a for a in range(x.ndim) if a not in axes]
    inner = [x.shape[a] for a in axes]
    size = product(inner)

    def lined(*i: te.Value) -> te.Value:
        index: dict[int, Any] = {**dict(zip(rest, i)), **dict(zip(axes, unravel(i[-1], inner)))}
        return x[[index[a] for a in range(x.ndim)]]

    lines = te.compute([*[x.shape[a] for a in rest], size], lined, "lines")
    positions = index(lines)

    def position(*i: te.Value) -> te.Value:
        return positions[[v for a, v in enumerate(i) if a not in axes] if keep else i]

    def value(*i: te.Value) -> te.Value:
        head = [v for a, v in enumerate(i) if a not in axes] if keep else list(i)
        return lines[[*head, positions[head]]]

    shape = shape if keep else [x.shape[a] for a in rest]
    values = te.compute(shape, value, "median")
    if not isinstance(call.ty, TupleType):
        return values
    return values, te.compute(shape, position, "median_index")


def _median_ref(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else tuple([a % x.ndim for a in np.atleast_1d(axis)])
    lines = np.moveaxis(x, axes, tuple(range(-len(axes), 0)))
    lines = lines.reshape(*lines.shape[: x.ndim - len(axes)], -1)
    order = np.argsort(sortable(lines), axis=-1, kind="stable")
    middle = np.take(order, (lines.shape[-1] - 1) // 2, -1)
    nan = np.isnan(lines.astype(np.float64))
    index = np.where(nan.any(-1), nan.argmax(-1), middle)
    values = np.take_along_axis(lines, index[..., None], -1)[..., 0]
    if keepdims:
        shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
        values, index = values.reshape(shape), index.reshape(shape)
    return (values, index) if axis is not None and len(axes) == 1 else values


def _median_grad(call: Call, g: Expr) -> list[Any]:
    """To the chosen element; over several axes shared between the elements of that value."""
    x = call.args[0]
    axes = axes_attr(call, "axis", len(operand_shape(call, x)))
    if axes is None or len(axes) != 1:
        return extreme_grad(reduce_keepdims(call, R.median), call, g)
    flow, position = field_of(g, 0), field_of(call, 1)
    if not bool_attr(call, "keepdims"):
        flow, position = R.expand_dims(flow, axis=list(axes)), R.expand_dims(position, axis=list(axes))
    return [R.scatter_elements(R.zeros_like(x), position, flow, axis=axes[0])]


median = row(
    "median",
    _AXES,
    _median_type,
    "Returns the median over the axes, the lower of two middle values or the first NaN, and with one axis its int64 index.",
    lower=lower_median,
    ref=_median_ref,
    grad=_median_grad,
    samples="f32[3,4,5], axis=each(None, 0, [-1], [0,2]), keepdims=each(False, True); i32[2,6], axis=0; "
    "f16[2,67], axis=1",
)
