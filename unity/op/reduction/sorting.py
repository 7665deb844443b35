"""Sorting along an axis: sort, argsort, topk. Stable; NaN counts as the largest value.

The programs are those of `sort_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType, sortable
from ...ir import build
from ...ir.expr import Call, IntImm, TupleGetItem
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, TupleType, Type
from ..common.gradients import field_of
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    attr,
    axis_attr,
    bool_attr,
    choice_attr,
    dtype_value,
    fail,
    int_attr,
    put_at,
    tensor_arg,
    with_dtype,
    with_rank,
)
from .selection import first_sorted
from .sort_loops import MOST_INSERTED, RUN, argsort_axis, topk_axis

row = rows("index")


def gather_axis(x: te.Tensor, order: te.Tensor, axis: int, shape: Any, name: str) -> te.Tensor:
    return te.compute(shape, lambda *i: x[put_at(i, axis, order[i])], name)


def _sort_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, "data")
    bool_attr(call, "descending")
    axis_attr(call, ty.ndim)
    return ty


def _argsort_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, "data")
    _sort_type(call)
    return with_dtype(ty, dtype_value(call, attr(call, "dtype")) or DataType("int32"))


Order = Callable[[te.Tensor, int, bool], te.Tensor]
"""(tensor, axis, descending) -> the places of its elements in sorted order."""
First = Callable[[te.Tensor, int, bool, int, Expr], tuple[te.Tensor, te.Tensor]]
"""(tensor, axis, descending, most, count) -> the first elements in sorted order, ``most`` or all of a shorter line, and their
places."""


def lower_sort(call: Call, x: te.Tensor, order: Order = argsort_axis) -> te.Tensor:
    """The lowering of R.sort by what finds the order."""
    axis = axis_attr(call, x.ndim)
    return gather_axis(x, order(x, axis, bool_attr(call, "descending")), axis, x.shape, "sort")


def lower_argsort(call: Call, x: te.Tensor, order: Order = argsort_axis) -> te.Tensor:
    """The lowering of R.argsort by what finds the order."""
    found = order(x, axis_attr(call, x.ndim), bool_attr(call, "descending"))
    dtype = dtype_value(call, attr(call, "dtype")) or DataType("int32")
    return te.compute(x.shape, lambda *i: found[i].astype(dtype), "argsort")


def _argsort_ref(x: np.ndarray, axis: int = -1, descending: bool = False, dtype: str = "int32") -> np.ndarray:
    x = sortable(x)
    order = np.argsort(x, axis=axis, kind="stable")
    if descending:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return np.asarray(order.astype(dtype))


def _sort_ref(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    return np.take_along_axis(x, _argsort_ref(x, axis, descending, "int64"), axis)


def _sort_grad(call: Call, g: Expr) -> list[Any]:
    x, axis = call.args[0], int_attr(call, "axis")
    order = R.argsort(x, axis=axis, descending=bool_attr(call, "descending"), dtype="int64")
    return [R.scatter_elements(R.zeros_like(x), order, g, axis=axis)]


sort = row(
    "sort",
    ("x", attribute("axis", -1), attribute("descending", False)),
    _sort_type,
    "Sorts along an axis; equal elements keep their order, and NaN counts as largest.",
    lower=lower_sort,
    ref=_sort_ref,
    grad=_sort_grad,
    samples="f32[3,4], axis=0, descending=each(False, True); f32[33]; "
    "i32[3,17,2](0,4), axis=1, descending=each(False, True); f32[0,3], axis=0; u8[8]; "
    "f16[9], descending=True",
)
argsort = row(
    "argsort",
    (
        "data",
        attribute("axis", -1),
        attribute("descending", False),
        attribute("dtype", "int32", doc="the data type of the indices"),
    ),
    _argsort_type,
    "Returns the indices that sort along an axis; equal elements keep their order, and NaN counts as largest.",
    lower=lower_argsort,
    ref=_argsort_ref,
    samples="f32[3,4], axis=0, descending=each(False, True); "
    "i32[2,65](0,9), dtype='int64', descending=each(False, True); f32[0,3], axis=0; u8[8]; "
    "f16[9], descending=True",
)


def _topk_size(count: int, extent: Expr) -> Expr:
    """Elements that are left of an axis: ``count``, or all of a symbolic axis that turns out to be shorter."""
    wanted = build.const(count, "int64")
    return wanted if type(extent) is IntImm else build.minimum(wanted, extent)


def _topk_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, "data")
    axis, count = axis_attr(call, ty.ndim), int_attr(call, "k")
    known = dims(ty)
    extent = known[axis] if known is not None else None
    if type(extent) is IntImm and not 0 <= count <= extent.value:
        raise fail(call, "E214", f"k is {count}, axis {axis} has {extent} elements")
    if count < 0:
        raise fail(call, "E214", f"k must not be negative, got {count}")
    choice_attr(call, "ret_type", ("both", "values", "indices"))
    kind = dtype_value(call, attr(call, "dtype")) or DataType("int32")
    values = (
        with_rank(ty, ty.ndim)
        if known is None
        else tensor_type(put_at(known, axis, _topk_size(count, known[axis])), ty.dtype)
    )
    chosen = {
        "values": values,
        "indices": with_dtype(values, kind),
        "both": TupleType((values, with_dtype(values, kind))),
    }
    return chosen[attr(call, "ret_type")]


def first_axis(x: te.Tensor, axis: int, descending: bool, most: int, count: Expr) -> tuple[te.Tensor, te.Tensor]:
    """By insertion where they are few, else by selection; by counting where the line is short."""
    length = x.shape[axis]
    counted = type(length) is IntImm and length.value <= min(RUN, 2 * most)
    if most <= MOST_INSERTED and not counted:
        return topk_axis(x, axis, descending, count)
    order = argsort_axis(x, axis, descending) if counted else first_sorted(x, axis, descending, count)
    return gather_axis(x, order, axis, put_at(x.shape, axis, count), "topk"), order


def lower_topk(call: Call, x: te.Tensor, first: First = first_axis) -> Any:
    """The lowering of R.topk by what finds the first elements."""
    axis, count = axis_attr(call, x.ndim), int_attr(call, "k")
    shape = put_at(x.shape, axis, _topk_size(count, x.shape[axis]))
    kind = dtype_value(call, attr(call, "dtype")) or DataType("int32")
    if count:
        values, order = first(x, axis, bool_attr(call, "largest"), count, shape[axis])
    else:
        values = order = te.compute(shape, lambda *i: x[i], "topk")
    indices = te.compute(shape, lambda *i: order[i].astype(kind), "topk_indices")
    return {"values": values, "indices": indices, "both": (values, indices)}[attr(call, "ret_type")]


def _topk_ref(
    x: np.ndarray, k: int = 1, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: str = "int32"
) -> Any:
    order = np.take(_argsort_ref(x, axis, largest, "int64"), range(min(k, x.shape[axis])), axis)
    values, indices = np.take_along_axis(x, order, axis), order.astype(dtype)
    return {"values": values, "indices": indices, "both": (values, indices)}[ret_type]


def _topk_grad(call: Call, g: Expr) -> list[Any]:
    x, axis, kind = call.args[0], int_attr(call, "axis"), attr(call, "ret_type")
    if kind == "indices":
        return [None]
    chosen = call if kind == "both" else R.topk(x, **{**call.attrs, "ret_type": "both"})
    flow = field_of(g, 0) if kind == "both" else g
    return [R.scatter_elements(R.zeros_like(x), TupleGetItem(chosen, 1), flow, axis=axis)]


topk = row(
    "topk",
    (
        "data",
        attribute("k", 1, doc="number of elements; a shorter symbolic axis gives all of its own"),
        attribute("axis", -1),
        attribute("ret_type", "both", doc='"both", "values" or "indices"'),
        attribute("largest", True, doc="take the largest; else the smallest"),
        attribute("dtype", "int32", doc="the data type of the indices"),
    ),
    _topk_type,
    "Returns the k largest or smallest elements along an axis in order, and their indices; NaN counts as largest.",
    lower=lower_topk,
    ref=_topk_ref,
    grad=_topk_grad,
    samples="f32[3,5], k=2, axis=1, largest=each(True, False); "
    "f32[4,2], k=3, axis=0, ret_type=each('indices', 'values'), largest=False; "
    "f32[4], k=0, ret_type='values'; i64[2,67](-9,9), k=35; b[2,50], k=40; "
    "f16[2,67], k=34, largest=False; f32[40,3], k=33, axis=0",
)
