"""Choosing slices by index: take, one_hot; what index tensors mean. Elements by index tensors: gather.py.

An index below 0 counts from the end; one outside is clamped to the nearest element, so that no index reads other memory.
That needs an element: the type rules ask for one (``check_indexable``), and what they cannot prove is checked at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call, IntImm, Tuple
from ...ir.relation import dims, exceeds, tensor_type
from ...ir.types import Expr, PrimType, TensorType, Type
from ..common.gradients import dtype_of, operand_shape, operand_sizes
from ..common.lowering import result_dims
from ..common.table import R, attribute, constant, rows
from ..common.type_rules import (
    ONE,
    argument,
    attr,
    axis_attr,
    choice_attr,
    fail,
    int_attr,
    product,
    tensor_arg,
    with_rank,
    with_shape,
)

row = rows("index")
_MODES = ("fast", "clip", "wrap", "nan")


def index_tensor(call: Call, position: int, name: str = "indices", rank: int | None = None) -> TensorType:
    """Type of an integer tensor argument. Raises E210 to E212."""
    ty = tensor_arg(call, position, name, rank)
    if ty.dtype is not None and not ty.dtype.is_integral:
        raise fail(
            call, "E211", f"{name} must be integers, got {ty.dtype.name}", 'cast first: R.astype(x, "int64")', position
        )
    return ty


def in_range(index: te.Value, extent: Expr, wrap: bool = False) -> te.Value:
    """An index made to fall into [0, extent)."""
    size = te.Value(extent)
    index = index.astype("int64")
    if wrap:
        return index % size
    index = te.select(index < 0, index + size, index)
    return te.maximum(te.minimum(index, size - 1), 0)


def clamp_index(index: np.ndarray, size: int) -> np.ndarray:
    """As ``in_range``, in numpy."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + size, index), 0, max(size - 1, 0))


def check_indexable(call: Call, axis: int, extent: Expr, indices: Sequence[Expr]) -> None:
    """Check that there is an element along an axis wherever an index asks for one. Raises E213; unknown: a requirement."""
    empty = extent.value == 0 if type(extent) is IntImm else exceeds(build.minimum(product(indices), ONE), extent)
    if empty:
        raise fail(call, "E213", f"axis {axis} has no element to take", arg=0)


def check_not_larger(call: Call, axis: int, size: Expr, limit: Expr, names: tuple[str, str]) -> None:
    """True if a size is at most another. Raises E213; unknown: a requirement."""
    if exceeds(size, limit):
        message = f"axis {axis} of {names[0]} is larger than that of {names[1]}: {size} and {limit}"
        raise fail(call, "E213", message)


def _take_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    arg = call.args[1] if len(call.args) > 1 else None
    indices = (
        tensor_type((), arg.ty.dtype) if arg is not None and isinstance(arg.ty, PrimType) else index_tensor(call, 1)
    )
    choice_attr(call, "mode", _MODES)
    axis = attr(call, "axis")
    if axis is None:
        if ty.ndim not in (1, -1):
            raise fail(call, "E214", f"axis is needed for a tensor of rank {ty.ndim}")
        axis = 0
    else:
        axis = axis_attr(call, ty.ndim)
    known, picked = dims(ty), dims(indices)
    if known is None or picked is None:
        rank = -1 if ty.ndim == -1 or indices.ndim == -1 else ty.ndim - 1 + indices.ndim
        return with_rank(ty, rank)
    check_indexable(call, axis, known[axis], picked)
    return with_shape(ty, (*known[:axis], *picked, *known[axis + 1 :]))


def _take(call: Call, x: te.Tensor, indices: Any) -> te.Tensor:
    axis = 0 if attr(call, "axis") is None else axis_attr(call, x.ndim)
    rank = indices.ndim if isinstance(indices, te.Tensor) else 0
    mode = attr(call, "mode")
    extent = x.shape[axis]

    def body(*i: te.Value) -> te.Value:
        index = indices[i[axis : axis + rank]] if isinstance(indices, te.Tensor) else indices
        value = x[[*i[:axis], in_range(index, extent, mode == "wrap"), *i[axis + rank :]]]
        if mode == "nan" and x.data_type.is_float:
            index64 = index.astype("int64")
            inside = te.all(index64 >= te.Value(-extent), index64 < te.Value(extent))
            value = te.if_then_else(inside, value, te.const(float("nan"), x.dtype))
        return value

    return te.compute(result_dims(call), body, "take")


def _take_ref(x: np.ndarray, indices: Any, axis: int | None = None, mode: str = "fast") -> np.ndarray:
    axis = 0 if axis is None else axis
    size = x.shape[axis]
    index = np.asarray(indices).astype(np.int64)
    safe = index % size if mode == "wrap" else clamp_index(index, size)
    result = np.take(x, safe, axis)
    if mode == "nan" and x.dtype.kind not in "iub":
        axis %= x.ndim
        outside = ((index < -size) | (index >= size)).reshape(index.shape + (1,) * (x.ndim - axis - 1))
        result = np.where(outside, np.asarray(np.nan, x.dtype), result)
    return np.asarray(result)


def _take_grad(call: Call, g: Expr) -> list[Any]:
    x, indices = call.args
    shape = operand_shape(call, x)
    mode = attr(call, "mode")
    if not isinstance(indices.ty, TensorType) or mode == "nan":
        raise fail(call, "E214", "the gradient needs an index tensor and mode fast, clip or wrap")
    axis = 0 if attr(call, "axis") is None else axis_attr(call, len(shape))
    rank = len(operand_shape(call, indices))
    if mode == "wrap":
        indices = R.floor_mod(indices, constant(operand_sizes(call, x)[axis], dtype_of(indices)))
    order = [axis, *[a for a in range(len(shape)) if a != axis]]
    values = R.permute_dims(
        g, axes=[*range(axis, axis + rank), *range(axis), *range(axis + rank, len(shape) - 1 + rank)]
    )
    base = R.zeros(tuple([shape[a] for a in order]), dtype=dtype_of(x).name)
    result = R.index_put(base, Tuple((indices,)), values, accumulate=True)
    return [R.permute_dims(result, axes=[order.index(a) for a in range(len(shape))]), None]


take = row(
    "take",
    (
        "x",
        "indices",
        attribute("axis", None, doc="the axis; None: the only axis of a vector"),
        attribute(
            "mode",
            "fast",
            doc='indices outside: "fast" and "clip" clamp them, "wrap" takes them modulo the size, "nan" gives NaN',
        ),
    ),
    _take_type,
    "Picks slices along an axis by index.",
    lower=_take,
    ref=_take_ref,
    grad=_take_grad,
    samples="f32[5,3], i32[4](-5,5), axis=0; f32[5,3], i32[2,2](0,3), axis=-1; f32[5], i32[3](0,5); "
    "f32[5,3], i32[4](-9,9), axis=0, mode=each('nan', 'wrap')",
)


def _one_hot_type(call: Call) -> Type:
    indices = index_tensor(call, 0)
    values = [argument(call, 1, "on_value").ty, argument(call, 2, "off_value").ty]
    if not isinstance(values[0], PrimType) or values[0] is not values[1]:
        raise fail(
            call, "E211", f"on_value and off_value must be scalars of one data type, got {values[0]} and {values[1]}"
        )
    depth = int_attr(call, "depth")
    if depth < 1:
        raise fail(call, "E214", f"depth must be positive, got {depth}")
    known = dims(indices)
    if known is None:
        return TensorType(None, values[0].dtype, indices.ndim + 1 if indices.ndim >= 0 else -1)
    axis = axis_attr(call, len(known) + 1)
    shape = list(known)
    shape.insert(axis, build.const(depth, "int64"))
    return tensor_type(shape, values[0].dtype)


def _one_hot(call: Call, indices: te.Tensor, on: te.Value, off: te.Value) -> te.Tensor:
    axis = axis_attr(call, indices.ndim + 1)

    def body(*i: te.Value) -> te.Value:
        index = indices[[v for a, v in enumerate(i) if a != axis]].astype("int64")
        return te.select(index == i[axis], on, off)

    return te.compute(result_dims(call), body, "one_hot")


def _one_hot_ref(indices: np.ndarray, on_value: Any, off_value: Any, depth: int, axis: int = -1) -> np.ndarray:
    axis = axis % (indices.ndim + 1)
    ladder = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - axis))
    return np.asarray(np.where(np.expand_dims(indices, axis) == ladder, on_value, off_value))


one_hot = row(
    "one_hot",
    (
        "indices: integers; those outside 0 to depth - 1 match no position",
        "on_value: scalar at the index",
        "off_value: scalar elsewhere",
        attribute("depth", doc="size of the new axis"),
        attribute("axis", -1, doc="position of the new axis in the result"),
    ),
    _one_hot_type,
    "Returns on_value where the position along a new axis equals the index, else off_value.",
    lower=_one_hot,
    ref=_one_hot_ref,
    typed_scalars=True,  # the result has the type of the numbers
    samples="i32[3](0,4), 1, 0, depth=4; i32[3](0,4), 1.5, -1.0, depth=4, axis=0",
)
