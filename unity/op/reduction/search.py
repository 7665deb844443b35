"""Search in sorted sequences (searchsorted, bucketize), and operators whose result size depends on the data.

The latter (nonzero, unique, dynamic_strided_slice) have an unknown shape and run as builtins of the VM: name the shape with
R.match_cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import INT64, DataType, sortable
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.build import cast
from ...ir.expr import Call, ShapeExpr, Var
from ...ir.relation import dims, unequal_shapes
from ...ir.stmt import BufferStore, IfThenElse, Stmt, While, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import dtype_of, operand_shape
from ..common.loop_nests import loops, read
from ..common.table import R, attribute, constant, rows
from ..common.type_rules import (
    ONE,
    ZERO,
    attr,
    axis_attr,
    bool_attr,
    fail,
    same_dtype,
    tensor_arg,
    with_dtype,
    with_rank,
)
from ..manipulate.index import index_tensor

row = rows("index")


def bisect(
    shape: Sequence[Expr], length: Expr, given: list[te.Tensor], before: Callable[[list[Buffer], list[Var], Expr], Expr]
) -> te.Tensor:
    """For each index of ``shape`` the first of ``length`` places that is not before what is looked for, int64."""

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        found, low, high = outs
        first, last = [read(end, (ZERO,)) for end in (low, high)]

        def body(i: list[Var]) -> Stmt:
            middle = (first + last) // 2
            return seq(
                BufferStore(low, ZERO, (ZERO,)),
                BufferStore(high, length, (ZERO,)),
                While(
                    build.lt(first, last),
                    IfThenElse(
                        before(ins, i, middle),
                        BufferStore(low, middle + 1, (ZERO,)),
                        BufferStore(high, middle, (ZERO,)),
                    ),
                ),
                BufferStore(found, first, tuple(i)),
            )

        return loops(shape, body)

    return te.extern([shape, (1,), (1,)], given, emit, "place", "int64")[0]


def _search(call: Call, sequence: te.Tensor, values: te.Tensor) -> te.Tensor:
    """First position in the last axis of the sequence that is not before the value (or after it, with ``right``): by bisection,
    as in torch, for which NaN is neither."""
    lead, after = sequence.ndim - 1, build.gt if bool_attr(call, "right") else build.ge

    def before(ins: list[Buffer], i: list[Var], middle: Expr) -> Expr:
        return build.logical_not(after(read(ins[0], (*i[:lead], middle)), read(ins[1], i)))

    position = bisect(values.shape, sequence.shape[-1], [sequence, values], before)
    if not bool_attr(call, "out_int32"):
        return position
    return te.compute(values.shape, lambda *i: position[i].astype("int32"), "place_cast")


def _result(call: Call, values: TensorType) -> TensorType:
    bool_attr(call, "right")
    return with_dtype(values, DataType("int32" if bool_attr(call, "out_int32") else "int64"))


def _search_ref(sequence: np.ndarray, values: np.ndarray, right: bool = False, out_int32: bool = False) -> np.ndarray:
    sequence, values = sortable(sequence), sortable(values)
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, sequence.shape[-1])
    while (low < high).any():
        middle = (low + high) // 2
        place = np.minimum(middle, sequence.shape[-1] - 1)
        element = sequence[place] if sequence.ndim == 1 else np.take_along_axis(sequence, place, -1)
        after = (low == high) | (element > values if right else element >= values)
        low, high = np.where(after, low, middle + 1), np.where(after, middle, high)
    return low.astype(np.int32 if out_int32 else np.int64)


def _search_type(call: Call) -> Type:
    sequence, values = tensor_arg(call, 0, "sorted_sequence"), tensor_arg(call, 1, "values")
    same_dtype(call, sequence, values)
    if sequence.ndim == 0:
        raise fail(call, "E212", "sorted_sequence must have an axis", arg=0)
    if sequence.ndim > 1:
        lines, wanted = dims(sequence), dims(values)
        if values.ndim not in (-1, sequence.ndim) or (
            lines is not None and wanted is not None and unequal_shapes(lines[:-1], wanted[:-1])
        ):
            raise fail(call, "E213", "values must have the leading axes of sorted_sequence", arg=1)
    return _result(call, values)


searchsorted = row(
    "searchsorted",
    (
        "sorted_sequence: tensor in rising order along its last axis",
        "values: the values to look up, with the same leading axes",
        attribute("right", False, doc="equal elements count as below"),
        attribute("out_int32", False, doc="return int32 instead of int64"),
    ),
    _search_type,
    "Returns for each value the index that keeps the last axis of the sequence sorted when it is inserted there.",
    lower=_search,
    ref=_search_ref,
    samples="f32([[-1,0,0.5,1,2],[0,0,0,1,1]]), f32[2,4], right=each(False, True); f32[0], f32[3], out_int32=True",
)

_RUN_TIME = "its size depends on the data: runs as a builtin of the VM"


def _nonzero_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    return TensorType(None, INT64, 2, ty.vdevice)


nonzero = row(
    "nonzero",
    ("x",),
    _nonzero_type,
    "Returns the int64 indices of nonzero elements: one row per axis, one column per element.",
    lower=_RUN_TIME,
    ref=lambda x: np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)[: x.ndim],
    samples="f32[3,4]; i32[5](0,2); b[2,3]",
)


def _unique_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    axes = None if attr(call, "axis") is None else (axis_attr(call, ty.ndim),)
    bool_attr(call, "sorted")
    values = with_rank(ty, 1 if axes is None else ty.ndim)
    index = TensorType(None, INT64, 1, ty.vdevice)
    extra = [bool_attr(call, n) for n in ("return_index", "return_inverse", "return_counts")]
    return TupleType((values, *[index for wanted in extra if wanted])) if any(extra) else values


def _unique_ref(
    x: np.ndarray,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> Any:
    find: Any = np.unique
    result = find(sortable(x), bool(return_index), bool(return_inverse), bool(return_counts), axis)
    if not isinstance(result, tuple):
        return result.astype(x.dtype)
    return (result[0].astype(x.dtype), *[part.reshape(-1).astype(np.int64) for part in result[1:]])


unique = row(
    "unique",
    (
        "x",
        attribute("sorted", True, doc="accepted for TVM; the result is always sorted"),
        attribute("return_index", False, doc="also return the index of the first of each"),
        attribute("return_inverse", False, doc="also return the indices that restore x"),
        attribute("return_counts", False, doc="also return how often each occurs"),
        attribute("axis", None, doc="the axis of the slices; None: elements"),
    ),
    _unique_type,
    "Returns the distinct elements or slices in rising order.",
    lower=_RUN_TIME,
    ref=_unique_ref,
    samples="i32[9](0,4); i32[9](0,4), sorted=False; "
    "i32[4,3](0,2), axis=0, return_index=True, return_inverse=True, return_counts=True",
)


def _dynamic_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    for n, name in enumerate(("begin", "end", "strides")):
        known = dims(index_tensor(call, n + 1, name, 1))
        if known is not None and ty.ndim != -1 and not build.is_int(known[0], ty.ndim):
            raise fail(call, "E213", f"{name} must have one element for each of the {ty.ndim} axes", arg=n + 1)
    return with_rank(ty, ty.ndim)


def _dynamic_ref(x: np.ndarray, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> np.ndarray:
    bounds = [(int(b), int(e), int(s)) for b, e, s in zip(begin, end, strides)]
    return x[tuple([slice(b, None if s < 0 and e < -n else e, s) for (b, e, s), n in zip(bounds, x.shape)])].copy()


def _dynamic_grad(call: Call, g: Expr) -> list[Any]:
    """Every gradient goes to the element it was read from, one axis after the other."""
    x, begin, _, strides = call.args
    extents, result = operand_shape(call, x), g
    shape = list(operand_shape(call, g))
    for axis, extent in enumerate(extents):
        first, step = [
            R.astype(R.strided_slice(t, axes=[0], begin=[axis], end=[axis + 1], strides=[1]), "int64")
            for t in (begin, strides)
        ]
        size, zero = R.full(ShapeExpr((ONE,)), cast(extent, "int64"), "int64"), constant(0, "int64")
        first = R.where(R.less(first, zero), first + size, first)
        last = R.where(R.less(step, zero), size - 1, size)
        first = R.maximum(R.minimum(first, last), R.where(R.less(step, zero), -1, zero))
        line = first + R.arange(0, shape[axis], 1, dtype="int64") * step
        row = R.reshape(line, ShapeExpr(tuple([d if a == axis else ONE for a, d in enumerate(shape)])))
        positions = R.broadcast_to(row, ShapeExpr(tuple(shape)))
        shape[axis] = extent
        area = R.zeros(ShapeExpr(tuple(shape)), dtype=dtype_of(x))
        result = R.scatter_elements(area, positions, result, axis=axis)
    return [result, None, None, None]


dynamic_strided_slice = row(
    "dynamic_strided_slice",
    (
        "x",
        "begin: int64 tensor (rank,): first index along each axis",
        "end: int64 tensor (rank,): end along each axis, exclusive",
        "strides: int64 tensor (rank,): step along each axis",
    ),
    _dynamic_type,
    "Slices every axis by begin, end and stride given as tensors, as strided_slice does.",
    lower=_RUN_TIME,
    ref=_dynamic_ref,
    grad=_dynamic_grad,
    samples="f32[4,5], i64([1,0]), i64([4,5]), i64([2,1]); "
    "f32[4,5], i64([-3,4]), i64([9,-6]), i64([1,-2]); "
    "f32[4,5], i64([3,-1]), i64([-9,1]), i64([-1,-1]); "
    "f32[4,5], i64([2,0]), i64([2,5]), i64([1,3])",
)
