"""Writing slices, grids of vectors. Writing by index tensors: gather.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call, IntImm, ShapeExpr, Tuple
from ...ir.relation import dims, tensor_type, unequal
from ...ir.types import Expr, PrimType, TensorType, TupleType, Type
from ..common.gradients import field_of, operand_shape
from ..common.table import R, attribute, optional, rows
from ..common.type_rules import (
    ONE,
    attr,
    axis_attr,
    choice_attr,
    fail,
    put_at,
    same_dtype,
    same_vdevice,
    tensor_arg,
    tensor_tuple,
)  # fmt: skip

row = rows("index")


def _slice_type(call: Call) -> Type:
    data, src = tensor_arg(call, 0, "input_tensor"), tensor_arg(call, 1, "src")
    same_dtype(call, data, src)
    for n, name in ((2, "start"), (3, "end"), (4, "step")):
        ty = call.args[n].ty
        if not isinstance(ty, PrimType) or not ty.dtype.is_int:
            raise fail(call, "E210", f"{name} must be an integer scalar, got {ty}", arg=n)
    step = call.args[4]
    if type(step) is not IntImm or step.value < 1:
        raise fail(call, "E214", "step must be a positive constant", arg=step)
    axis = axis_attr(call, data.ndim)
    if data.ndim != -1 and src.ndim not in (-1, data.ndim):
        raise fail(call, "E212", f"src must have rank {data.ndim}, got {src.ndim}", arg=1)
    whole, part = dims(data), dims(src)
    if whole is None or part is None:
        return data
    for a, (d, p) in enumerate(zip(whole, part)):
        if a != axis and unequal(d, p):
            raise fail(call, "E213", f"axis {a} has sizes {d} and {p}", arg=1)
    start, end, size = call.args[2], call.args[3], whole[axis]
    if type(start) is IntImm and type(end) is IntImm and type(size) is IntImm:
        count = len(range(*slice(start.value, end.value, step.value).indices(size.value)))
        if unequal(part[axis], build.const(count, "int64")):
            raise fail(call, "E213", f"the slice has {count} elements along axis {axis}, src {part[axis]}", arg=1)
    return data


def _slice(call: Call, x: te.Tensor, src: te.Tensor, start: te.Value, end: te.Value, step: te.Value) -> te.Tensor:
    axis = axis_attr(call, x.ndim)
    size = te.Value(x.shape[axis])

    def bound(value: te.Value) -> te.Value:
        value = value.astype("int64")
        return te.maximum(te.minimum(te.select(value < 0, value + size, value), size), 0)

    low, high, stride = bound(start), bound(end), step.astype("int64")

    def body(*i: te.Value) -> te.Value:
        distance = i[axis] - low
        position = distance // stride
        inside = te.all(distance >= 0, i[axis] < high, distance % stride == 0, position < te.Value(src.shape[axis]))
        return te.if_then_else(inside, src[put_at(i, axis, position)], x[i])

    return te.compute(x.shape, body, "slice_scatter")


def _slice_ref(x: np.ndarray, src: np.ndarray, start: int, end: int, step: int = 1, axis: int = 0) -> np.ndarray:
    result = x.copy()
    cut = result[(slice(None),) * (axis % x.ndim) + (slice(int(start), int(end), int(step)),)]
    if cut.shape != src.shape:
        raise ValueError(f"the slice has shape {cut.shape}, src {src.shape}")
    cut[...] = src
    return result


def _slice_grad(call: Call, g: Expr) -> list[Any]:
    _, source, *bounds = call.args
    known = build.int_values(bounds)
    if len(known) != len(bounds):
        raise fail(call, "E218", "the gradient needs constant bounds")
    start, end, step = [*known, 1][:3]
    axis = axis_attr(call, len(operand_shape(call, g)))
    cut = R.strided_slice(g, axes=[axis], begin=[start], end=[end], strides=[step])
    return [R.slice_scatter(g, R.zeros_like(source), *bounds, axis=axis), cut, *[None] * len(bounds)]


slice_scatter = row(
    "slice_scatter",
    (
        "input_tensor: the tensor",
        "src: the values written",
        "start: first index of the slice",
        "end: end of the slice, exclusive",
        optional("step", 1, doc="step of the slice"),
        attribute("axis", 0),
    ),
    _slice_type,
    "Returns input_tensor with the slice start:end:step of an axis replaced by src.",
    lower=_slice,
    ref=_slice_ref,
    grad=_slice_grad,
    samples="f32[6,3], f32[2,3], 1, 5, 2; f32[3,6], f32[3,2], -2, 100, axis=-1; i32[4], i32[0], 3, 1",
)


def _grid_type(call: Call) -> Type:
    types = tensor_tuple(call, 0)
    choice_attr(call, "indexing", ("ij", "xy"))
    if not types or any([t.ndim not in (-1, 0, 1) for t in types]):
        raise fail(call, "E212", "meshgrid takes vectors and scalars, at least one", arg=0)
    dtype, vdevice = same_dtype(call, *types), same_vdevice(*types)
    known = [dims(t) for t in types]
    shape = [k[0] if k else ONE for k in known if k is not None]
    if len(shape) != len(types):
        return TupleType((TensorType(None, dtype, len(types), vdevice),) * len(types))
    if attr(call, "indexing") == "xy" and len(shape) > 1:
        shape[0], shape[1] = shape[1], shape[0]
    return TupleType((tensor_type(shape, dtype, vdevice=vdevice),) * len(types))


def _grid(call: Call, tensors: list[te.Tensor]) -> tuple[te.Tensor, ...]:
    count, swapped = len(tensors), attr(call, "indexing") == "xy" and len(tensors) > 1
    axes = [1, 0, *range(2, count)] if swapped else list(range(count))
    extents = [x.shape[0] if x.ndim else ONE for x in tensors]

    def expand(x: te.Tensor, axis: int) -> te.Tensor:
        return te.compute([extents[a] for a in axes], lambda *i: x[i[axis]] if x.ndim else x[()], "meshgrid")

    return tuple([expand(x, axes[n]) for n, x in enumerate(tensors)])


def _grid_grad(call: Call, g: Expr) -> list[Any]:
    source = call.args[0].ty
    assert isinstance(source, TupleType)
    count = len(source.fields)
    positions = list(range(count))
    if attr(call, "indexing") == "xy" and count > 1:
        positions[0], positions[1] = 1, 0
    result = []
    for n, position in enumerate(positions):
        flow, reduced = field_of(g, n), [a for a in range(count) if a != position]
        flow = R.sum(flow, axis=reduced) if reduced else flow
        wanted = dims(source.fields[n])
        result.append(R.reshape(flow, ShapeExpr(wanted)) if wanted is not None else flow)
    return [Tuple(tuple(result))]


meshgrid = row(
    "meshgrid",
    ("tensors", attribute("indexing", "ij", doc='"ij", or "xy", which swaps the first two axes')),
    _grid_type,
    "Repeats each of n vectors over a grid with one axis per vector.",
    family="manipulate",
    lower=_grid,
    ref=lambda tensors, indexing="ij": tuple([g.copy() for g in np.meshgrid(*tensors, indexing=indexing)]),
    variadic=True,
    grad=_grid_grad,
    samples="[f32[2], f32[3]]; [f32[2], f32[3], f32[4]], indexing='xy'; [i32[2], i32[0]]; [f32[3]], indexing='xy'",
)
