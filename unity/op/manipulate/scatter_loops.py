"""Scatters: results that are written in order, as loops over buffers. Running sums and their like: ``op/reduction/scan.py``.

Writes with indices follow index.py: below 0 counts from the end, outside is clamped; the last of several writes to an element wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, ShapeExpr, Var
from ...ir.relation import dims, unequal
from ...ir.stmt import BufferStore, Stmt, seq
from ...ir.types import Expr, Type
from ..common.gradients import operand_shape
from ..common.loop_nests import loops, read
from ..common.lowering import load, result_dims, short_name
from ..common.table import Operator, R, attribute, row
from ..common.type_rules import (
    ZERO,
    attr,
    axis_attr,
    bool_attr,
    broadcast_dims,
    fail,
    int_attr,
    is_one,
    same_dtype,
    tensor_arg,
    tensor_tuple,
    with_rank,
    with_shape,
)  # fmt: skip
from .index import check_indexable, check_not_larger, clamp_index, in_range, index_tensor


def _for_bool(
    arithmetic: Callable[[Expr, Expr], Expr], logical: Callable[[Expr, Expr], Expr]
) -> Callable[[Expr, Expr], Expr]:
    """A combination of numbers; of bool what numpy makes of it: or for sums and the largest, and for the others."""
    return lambda old, new: (logical if build.dtype_of(old).is_bool else arithmetic)(old, new)


COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "update": lambda old, new: new,
    "add": _for_bool(build.add, build.logical_or),
    "mul": _for_bool(build.mul, build.logical_and),
    "min": _for_bool(build.minimum, build.logical_and),
    "max": _for_bool(build.maximum, build.logical_or),
}
_NUMPY_COMBINE: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _scatter_type(call: Call) -> Type:
    data, indices, updates = tensor_arg(call, 0, "data"), index_tensor(call, 1), tensor_arg(call, 2, "updates")
    same_dtype(call, data, updates)
    ranks = {t.ndim for t in (data, indices, updates) if t.ndim != -1}
    if len(ranks) > 1:
        raise fail(call, "E212", f"data, indices and updates must have one rank, got {sorted(ranks)}")
    axis = axis_attr(call, data.ndim)
    known, positions, given = dims(data), dims(indices), dims(updates)
    if known is not None and positions is not None and given is not None:
        check_indexable(call, axis, known[axis], positions)
        for a, (whole, position, update) in enumerate(zip(known, positions, given)):
            check_not_larger(call, a, position, update, ("indices", "updates"))
            if a != axis:
                check_not_larger(call, a, position, whole, ("indices", "data"))
    if attr(call, "reduction") not in tuple(COMBINE):
        raise fail(call, "E214", f"reduction must be one of {', '.join(COMBINE)}, got {call.attrs['reduction']!r}")
    return data


def copy_and_update(call: Call, inputs: list[te.Tensor], write: Callable[[list[Buffer], Buffer], Stmt]) -> te.Tensor:
    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        copied = loops(ins[0].shape, lambda i: BufferStore(outs[0], read(ins[0], i), tuple(i)), "c")
        return seq(copied, write(ins, outs[0]))

    return te.extern(inputs[0].shape, inputs, emit, short_name(call), inputs[0].data_type)


def _scatter(call: Call, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    axis = axis_attr(call, data.ndim)
    combine = COMBINE[attr(call, "reduction")]

    def write(ins: list[Buffer], out: Buffer) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            index: list[Expr] = list(i)
            index[axis] = in_range(te.Value(read(ins[1], i)), out.shape[axis]).expr
            return BufferStore(out, combine(read(out, index), read(ins[2], i)), tuple(index))

        return loops(ins[1].shape, body)

    return copy_and_update(call, [data, indices, updates], write)


def update_element(out: np.ndarray, index: tuple[Any, ...], value: Any, reduction: str) -> None:
    out[index] = value if reduction == "update" else _NUMPY_COMBINE[reduction](out[index], value)


def _scatter_ref(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int = 0, reduction: str = "update"
) -> np.ndarray:
    result = data.copy()
    index = clamp_index(indices, data.shape[axis])
    for position in np.ndindex(*indices.shape):
        at = list(position)
        at[axis] = int(index[position])
        update_element(result, tuple(at), updates[position], reduction)
    return result


def adds(call: Call) -> bool:
    """True if updates are added, False if they are set."""
    how = attr(call, "reduction")
    if how not in ("update", "add"):
        raise fail(call, "E214", f"the gradient needs the reduction update or add, got {how}")
    return bool(how == "add")


def _scatter_grad(call: Call, g: Expr) -> list[Any]:
    _, indices, updates = call.args
    axis = int_attr(call, "axis")
    data_grad = g if adds(call) else R.scatter_elements(g, indices, R.zeros_like(updates), axis=axis)
    return [data_grad, None, R.gather_elements(g, indices, axis=axis)]


scatter_elements = row(
    "scatter_elements",
    (
        "data",
        "indices",
        "updates",
        attribute("axis", 0),
        attribute("reduction", "update", doc='"update", "add", "mul", "min" or "max"'),
    ),
    _scatter_type,
    "Returns data with data[indices[i, j], j] = updates[i, j] for axis 0, or combined by the reduction.",
    family="index",
    lower=_scatter,
    ref=_scatter_ref,
    grad=_scatter_grad,
    samples="f32[4,3], i32[2,3](-4,4), f32[2,3], axis=0, reduction=each('update', 'add', 'mul', 'min', 'max')",
)


def _index_type(call: Call) -> Type:
    data = tensor_arg(call, 0, "data")
    indices = tensor_tuple(call, 1, "indices")
    for ty in indices:
        if ty.dtype is not None and not ty.dtype.is_integral:
            raise fail(
                call, "E211", f"indices must be integers, got {ty.dtype.name}", 'cast first: R.astype(x, "int64")', 1
            )
    if data.ndim != -1 and len(indices) > data.ndim:
        raise fail(call, "E212", f"{len(indices)} index tensors for a tensor of rank {data.ndim}", arg=1)
    known, shapes = dims(data), [dims(t) for t in indices]
    picked = broadcast_dims(call, [s for s in shapes if s is not None])
    if known is None or any([s is None for s in shapes]):
        return with_rank(data, -1)
    for axis, extent in enumerate(known[: len(indices)]):
        check_indexable(call, axis, extent, picked)
    return with_shape(data, (*picked, *known[len(indices) :]))


def _index(call: Call, data: te.Tensor, indices: list[te.Tensor]) -> te.Tensor:
    shape = result_dims(call)
    rank = max([t.ndim for t in indices])

    def body(*i: te.Value) -> te.Value:
        index = [in_range(load(t, i[:rank], shape[:rank]), data.shape[a]) for a, t in enumerate(indices)]
        return data[[*index, *i[rank:]]]

    return te.compute(shape, body, "index_tensor")


def _index_ref(data: np.ndarray, indices: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.asarray(data[tuple([clamp_index(t, data.shape[a]) for a, t in enumerate(indices)])])


index_tensor_op: Operator = row(
    "index_tensor",
    ("data", "indices: tuple of integer tensors, broadcast; negative from the end, clamped outside"),
    _index_type,
    "Picks elements at index tensors, one for each leading axis, as numpy's data[i, j] does.",
    family="index",
    lower=_index,
    ref=_index_ref,
    grad=lambda call, g: [R.index_put(R.zeros_like(call.args[0]), call.args[1], g, accumulate=True), None],
    samples="f32[4,5,2], [i32[3,1](-4,4), i32[2](0,5)]; f32[4,5], [i32[3](-4,4)]",
)


def _put_type(call: Call) -> Type:
    data, values = tensor_arg(call, 0, "data"), tensor_arg(call, 2, "values")
    indices = tensor_tuple(call, 1, "indices")
    same_dtype(call, data, values)
    if data.ndim != -1 and len(indices) > data.ndim:
        raise fail(call, "E212", f"{len(indices)} index tensors for a tensor of rank {data.ndim}", arg=1)
    known, given, shapes = dims(data), dims(values), [dims(t) for t in indices]
    picked = broadcast_dims(call, [s for s in shapes if s is not None])
    if known is None or given is None or any([s is None for s in shapes]):
        return data
    for axis, extent in enumerate(known[: len(indices)]):
        check_indexable(call, axis, extent, picked)
    area = (*picked, *known[len(indices) :])
    if len(given) > len(area):
        raise fail(call, "E212", f"values of rank {len(given)} for {len(area)} axes to set", arg=2)
    for size, wanted in zip(reversed(given), reversed(area)):
        if not is_one(size) and unequal(size, wanted):
            raise fail(call, "E213", f"values of shape {values} do not fit {list(area)}", arg=2)
    return data


def _put(call: Call, data: te.Tensor, indices: list[te.Tensor], values: te.Tensor) -> te.Tensor:
    combine = COMBINE["add" if bool_attr(call, "accumulate") else "update"]
    picked = broadcast_dims(call, [t.shape for t in indices])
    rank, count = len(picked), len(indices)
    area = (*picked, *data.shape[count:])

    def write(ins: list[Buffer], out: Buffer) -> Stmt:
        def pick(buffer: Buffer, i: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
            offset = len(shape) - buffer.ndim
            return read(
                buffer,
                [
                    ZERO if is_one(d) and not is_one(shape[offset + a]) else i[offset + a]
                    for a, d in enumerate(buffer.shape)
                ],
            )

        def body(i: list[Var]) -> Stmt:
            index = [in_range(te.Value(pick(ins[1 + a], i[:rank], picked)), out.shape[a]).expr for a in range(count)]
            index += i[rank:]
            return BufferStore(out, combine(read(out, index), pick(ins[1 + count], i, area)), tuple(index))

        return loops(area, body)

    return copy_and_update(call, [data, *indices, values], write)


def _put_ref(
    data: np.ndarray, indices: tuple[np.ndarray, ...], values: np.ndarray, accumulate: bool = False
) -> np.ndarray:
    result = data.copy()
    index = tuple([clamp_index(t, data.shape[a]) for a, t in enumerate(indices)])
    if accumulate:
        np.add.at(result, index, values)
    else:
        result[index] = values
    return result


def _put_grad(call: Call, g: Expr) -> list[Any]:
    _, indices, values = call.args
    data_grad = g if bool_attr(call, "accumulate") else R.index_put(g, indices, R.zeros_like(values))
    return [data_grad, None, R.collapse_sum_to(R.index_tensor(g, indices), ShapeExpr(operand_shape(call, values)))]


index_put = row(
    "index_put",
    (
        "data",
        "indices: tuple of integer tensors, broadcast; negative from the end, clamped outside",
        "values: the values written, broadcast",
        attribute("accumulate", False, doc="add to the elements instead of replacing them"),
    ),
    _put_type,
    "Returns data with the elements at the index tensors replaced by values; of several writes to one place the last wins.",
    family="index",
    lower=_put,
    ref=_put_ref,
    grad=_put_grad,
    samples="f32[4,5], [i64([0,2,3]), i64([1,-1,1])], f32[3]; "
    "f32[4,5], [i32[3](0,2)], f32[3,5], accumulate=True; "
    "f32[3,4], [i64([0,2,2])], f32[1,4], accumulate=True",
)
