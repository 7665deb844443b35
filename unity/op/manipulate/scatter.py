"""Reading and writing by tuples of indices (gather_nd, scatter_nd), writing slices, grids of vectors.

Indices follow index.py: below 0 counts from the end, outside is clamped; the last of several writes to an element wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, ShapeExpr, Tuple, Var
from ...ir.relation import dims, tensor_type, unequal, unequal_shapes
from ...ir.stmt import BufferStore, Stmt
from ...ir.types import Expr, PrimType, TensorType, TupleType, Type
from ..common.gradients import field_of, operand_shape
from ..common.loop_nests import loops, read
from ..common.lowering import result_dims
from ..common.table import R, attribute, optional, rows
from ..common.type_rules import (
    ONE,
    attr,
    axis_attr,
    choice_attr,
    fail,
    int_attr,
    put_at,
    same_dtype,
    same_vdevice,
    tensor_arg,
    tensor_tuple,
    with_rank,
    with_shape,
)  # fmt: skip
from .index import check_indexable, clamp_index, in_range, index_tensor
from .scatter_loops import COMBINE, adds, copy_and_update, update_element

row = rows("index")


def _depth(call: Call, data: TensorType, indices: TensorType, batch: int) -> int | None:
    """The number of axes of the data that an index tuple names; None if the indices' shape is unknown. Raises E212, E214."""
    if indices.ndim == 0:
        raise fail(call, "E212", "indices must have at least one axis", arg=1)
    known = dims(indices)
    if known is None or data.ndim == -1:
        return None
    if type(known[-1]) is not IntImm:
        raise fail(call, "E214", f"the last axis of indices must have a constant size, got {known[-1]}", arg=1)
    depth = known[-1].value
    if depth + batch > data.ndim:
        raise fail(call, "E212", f"indices name {depth} axes of a tensor of rank {data.ndim}", arg=1)
    return depth


def _gather_type(call: Call) -> Type:
    data, indices = tensor_arg(call, 0, "data"), index_tensor(call, 1)
    batch = int_attr(call, "batch_dims")
    if batch < 0 or (indices.ndim != -1 and batch >= indices.ndim):
        raise fail(call, "E214", f"batch_dims must be from 0 below the rank of indices, got {batch}")
    depth = _depth(call, data, indices, batch)
    shape, positions = dims(data), dims(indices)
    if depth is None or shape is None or positions is None:
        return with_rank(data, -1)
    if unequal_shapes(shape[:batch], positions[:batch]):
        raise fail(call, "E213", "the batch axes of data and indices differ", arg=1)
    for axis in range(batch, batch + depth):
        check_indexable(call, axis, shape[axis], positions[:-1])
    return with_shape(data, (*positions[:-1], *shape[batch + depth :]))


def _gather(call: Call, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    batch, depth = int_attr(call, "batch_dims"), int(build.number(indices.shape[-1]))
    lead = indices.ndim - 1

    def body(*i: te.Value) -> te.Value:
        picked = [in_range(indices[[*i[:lead], k]], x.shape[batch + k]) for k in range(depth)]
        return x[[*i[:batch], *picked, *i[lead:]]]

    return te.compute(result_dims(call), body, "gather_nd")


def _gather_ref(data: np.ndarray, indices: np.ndarray, batch_dims: int = 0) -> np.ndarray:
    result = np.empty((*indices.shape[:-1], *data.shape[batch_dims + indices.shape[-1] :]), data.dtype)
    for index in np.ndindex(*indices.shape[:-1]):
        part = data[index[:batch_dims]]
        result[index] = part[tuple([int(clamp_index(v, part.shape[k])) for k, v in enumerate(indices[index])])]
    return result


def _gather_grad(call: Call, g: Expr) -> list[Any]:
    if int_attr(call, "batch_dims"):
        raise fail(call, "E214", "the gradient needs batch_dims=0")
    return [R.scatter_nd(R.zeros_like(call.args[0]), call.args[1], g, reduction="add"), None]


gather_nd = row(
    "gather_nd",
    (
        "data",
        "indices: index tuples in the last axis; negative from the end, clamped outside",
        attribute("batch_dims", 0, doc="leading axes that both share"),
    ),
    _gather_type,
    "Picks the slices of data at the index tuples in the last axis of indices.",
    lower=_gather,
    ref=_gather_ref,
    grad=_gather_grad,
    samples="f32[4,5,2], i32[3,2](0,4); f32[4,5], i64[2,3,1](-6,6); "
    "f32[2,3,4], i32[2,5,1](0,3), batch_dims=1; i32[3], i32[0,1]",
)


def _scatter_type(call: Call) -> Type:
    data, indices, updates = tensor_arg(call, 0, "data"), index_tensor(call, 1), tensor_arg(call, 2, "updates")
    same_dtype(call, data, updates)
    if attr(call, "reduction") not in tuple(COMBINE):
        raise fail(call, "E214", f"reduction must be one of {', '.join(COMBINE)}, got {call.attrs['reduction']!r}")
    depth = _depth(call, data, indices, 0)
    shape, positions, given = dims(data), dims(indices), dims(updates)
    if depth is None or shape is None or positions is None:
        return data
    wanted = (*positions[:-1], *shape[depth:])
    if updates.ndim not in (-1, len(wanted)) or (given is not None and unequal_shapes(given, wanted)):
        raise fail(call, "E213", f"updates must have shape {list(wanted)}, got {updates}", arg=2)
    for axis in range(depth):
        check_indexable(call, axis, shape[axis], positions[:-1])
    return data


def _scatter(call: Call, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    combine = COMBINE[attr(call, "reduction")]
    depth, lead = int(build.number(indices.shape[-1])), indices.ndim - 1

    def write(ins: list[Buffer], out: Buffer) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            indices: list[Expr] = []
            for k in range(depth):
                index = read(ins[1], (*i[:lead], build.const(k, "int64")))
                indices.append(in_range(te.Value(index), out.shape[k]).expr)
            indices += i[lead:]
            return BufferStore(out, combine(read(out, indices), read(ins[2], i)), tuple(indices))

        return loops(ins[2].shape, body)

    return copy_and_update(call, [data, indices, updates], write)


def _scatter_ref(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str = "update") -> np.ndarray:
    result = data.copy()
    for index in np.ndindex(*indices.shape[:-1]):
        at = tuple([int(clamp_index(v, data.shape[k])) for k, v in enumerate(indices[index])])
        update_element(result, at, updates[index], reduction)
    return result


def _scatter_grad(call: Call, g: Expr) -> list[Any]:
    _, indices, updates = call.args
    return [g if adds(call) else R.scatter_nd(g, indices, R.zeros_like(updates)), None, R.gather_nd(g, indices)]


scatter_nd = row(
    "scatter_nd",
    (
        "data",
        "indices: index tuples in the last axis; negative from the end, clamped outside",
        "updates",
        attribute("reduction", "update", doc='"update", "add", "mul", "min" or "max"'),
    ),
    _scatter_type,
    "Returns data with the slices at the index tuples set to updates, or combined by the reduction.",
    lower=_scatter,
    ref=_scatter_ref,
    grad=_scatter_grad,
    samples="f32[4,5], i64([[0,1],[-1,2]]), f32[2]; f32[4,5], i64([[0,1],[-1,2],[0,1]]), f32[3], "
    "reduction=each('add', 'mul', 'min', 'max'); f32[4,3], i64([[0],[2]]), f32[2,3]; i32[4], i32[0,1], i32[0], reduction='add'",
)


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
    known = [b.value for b in bounds if type(b) is IntImm]
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
