"""Joining and cutting: concat, stack, split, strided_slice.

Bounds of slices follow Python: negative ones count from the end, those outside are clamped. They may be scalar expressions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from ...arith import Analyzer
from ...ir import build
from ...ir.expr import Call, IntImm, Tuple, TupleGetItem
from ...ir.relation import Answer, dims, same_dim, tensor_type, unequal
from ...ir.types import Expr, PrimType, TensorType, TupleType, Type
from ..common import channels_last
from ..common.gradients import dtype_of, fields_of, operand_shape, operand_sizes
from ..common.lowering import result_dims
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    ZERO,
    attr,
    axes_attr,
    axis_attr,
    bool_attr,
    fail,
    put_at,
    same_dtype,
    same_vdevice,
    tensor_arg,
    tensor_tuple,
    with_rank,
    with_shape,
)  # fmt: skip

row = rows("manipulate")


def _concat_type(call: Call) -> Type:
    types = tensor_tuple(call, 0)
    if not types:
        raise fail(call, "E210", "at least one tensor is needed")
    dtype, vdevice = same_dtype(call, *types), same_vdevice(*types)
    ranks = {t.ndim for t in types if t.ndim != -1}
    if len(ranks) > 1:
        raise fail(call, "E212", f"the tensors have different ranks: {sorted(ranks)}")
    if not ranks:
        return TensorType(None, dtype, -1, vdevice)
    rank = ranks.pop()
    if rank == 0:
        raise fail(call, "E212", "tensors of rank 0 cannot be joined", "use R.stack")
    raw = attr(call, "axis")
    axis = 0 if raw is None else axis_attr(call, rank)
    shapes = [s for s in [dims(t) for t in types] if s is not None]
    for other in shapes[1:]:
        for a in range(rank):
            if a != axis and unequal(shapes[0][a], other[a]):
                raise fail(
                    call,
                    "E213",
                    f"axis {a} has sizes {shapes[0][a]} and {other[a]}",
                    "all axes but the joined one must be equal",
                )
    if len(shapes) != len(types):
        return TensorType(None, dtype, rank, vdevice)
    total: Expr = ZERO
    for s in shapes:
        total = total + s[axis]
    total = Analyzer().simplify(total)
    return tensor_type(put_at(shapes[0], axis, total), dtype, vdevice=vdevice)


def _select_piece(
    position: te.Value, starts: list[Any], at: Callable[[int], te.Value], first: int, last: int
) -> te.Value:
    """``at(n)`` of the piece that a position lies in, found by halves among the pieces ``first`` to ``last``."""
    if last - first == 1:
        return at(first)
    middle = (first + last) // 2
    pieces = [_select_piece(position, starts, at, *span) for span in ((first, middle), (middle, last))]
    return te.if_then_else(position < starts[middle], *pieces)


def _concat(call: Call, tensors: list[te.Tensor]) -> te.Tensor:
    shape = result_dims(call)
    axis = axis_attr(call, len(shape)) if attr(call, "axis") is not None else 0
    starts: list[Any] = [te.const(0, "int64")]
    for x in tensors[:-1]:
        starts.append(starts[-1] + te.Value(x.shape[axis]))

    def body(*i: te.Value) -> te.Value:
        def at(n: int) -> te.Value:
            return tensors[n][put_at(i, axis, i[axis] - starts[n])]

        return _select_piece(i[axis], starts, at, 0, len(tensors))

    return te.compute(shape, body, "concat")


def _concat_grad(call: Call, g: Expr) -> list[Any]:
    fields = fields_of(call.args[0])
    axis = axis_attr(call, len(operand_shape(call, fields[0])))
    cuts, index = [], 0
    for item in fields[:-1]:
        size = operand_shape(call, item)[axis]
        if type(size) is not IntImm:
            raise fail(call, "E218", "the gradient of R.concat needs constant sizes along its axis")
        index += size.value
        cuts.append(index)
    return [Tuple(tuple(fields_of(R.split(g, cuts, axis=axis))))]


concat = row(
    "concat",
    ("tensors: tuple of tensors that differ in size along the axis only", attribute("axis", 0)),
    _concat_type,
    "Joins tensors along an existing axis.",
    lower=_concat,
    ref=lambda tensors, axis=0: np.concatenate(tensors, 0 if axis is None else axis),
    variadic=True,
    grad=_concat_grad,
    layout=channels_last.concat,
    mixed_precision="follow",
    samples="[f32[2,3], f32[1,3], f32[0,3]], axis=0; [f32[2,3], f32[2,1]], axis=-1",
)


def _stack_type(call: Call) -> Type:
    types = tensor_tuple(call, 0)
    if not types:
        raise fail(call, "E210", "at least one tensor is needed")
    dtype, vdevice = same_dtype(call, *types), same_vdevice(*types)
    shapes = [dims(t) for t in types]
    first = shapes[0]
    if first is None or any([s is None for s in shapes]):
        return TensorType(None, dtype, types[0].ndim + 1 if types[0].ndim != -1 else -1, vdevice)
    axis = axis_attr(call, len(first) + 1)
    for other in shapes[1:]:
        assert other is not None
        if len(other) != len(first) or any([unequal(a, b) for a, b in zip(first, other)]):
            raise fail(call, "E213", "the tensors have different shapes")
    shape = list(first)
    shape.insert(axis, build.const(len(types), "int64"))
    return tensor_type(shape, dtype, vdevice=vdevice)


def _stack(call: Call, tensors: list[te.Tensor]) -> te.Tensor:
    shape = result_dims(call)
    axis = axis_attr(call, len(shape))

    def body(*i: te.Value) -> te.Value:
        rest = [v for a, v in enumerate(i) if a != axis]
        return _select_piece(i[axis], list(range(len(tensors))), lambda n: tensors[n][rest], 0, len(tensors))

    return te.compute(shape, body, "stack")


def _stack_grad(call: Call, g: Expr) -> list[Any]:
    source = call.args[0].ty
    assert isinstance(source, TupleType)
    axis = axis_attr(call, len(operand_shape(call, g)))
    parts = R.split(g, len(source.fields), axis=axis)
    return [Tuple(tuple([R.squeeze(TupleGetItem(parts, n), axis=[axis]) for n in range(len(source.fields))]))]


stack = row(
    "stack",
    ("tensors", attribute("axis", 0, doc="position of the new axis in the result")),
    _stack_type,
    "Joins tensors of one shape along a new axis.",
    lower=_stack,
    ref=lambda tensors, axis=0: np.stack(tensors, axis),
    variadic=True,
    grad=_stack_grad,
    samples="[f32[2,3], f32[2,3]], axis=each(1, -1); [f32[()]]",
)


_MOST_SECTIONS = 10_000


def _sections(call: Call) -> int | tuple[int, ...]:
    """The form of a split: a number of sections, or rising positions. Raises E214."""
    parts = attr(call, "indices_or_sections")
    if isinstance(parts, int):
        if not 1 <= parts <= _MOST_SECTIONS:
            raise fail(call, "E214", f"the number of sections must be from 1 to {_MOST_SECTIONS}, got {parts}")
        return parts
    known = isinstance(parts, tuple) and all([isinstance(p, int) and 0 <= p < 2**63 for p in parts])
    if not known or list(parts) != sorted(parts):
        raise fail(call, "E214", f"indices_or_sections must be a count or rising positions, got {parts!r}")
    return tuple(parts)


def _split_ranges(call: Call, extent: Expr) -> list[tuple[Expr, Expr]]:
    """(start, size) of each part of a split."""
    parts = _sections(call)
    if isinstance(parts, int):
        count = build.const(parts, "int64")
        size = build.ceildiv(extent, count)
        if build.is_int(extent % count, 0):
            size = extent // count
            return [(size * n, size) for n in range(parts)]
        ends = [size, *[build.minimum(size * n, extent) for n in range(2, parts)], extent]
        return [(a, b - a) for a, b in itertools.pairwise([ZERO, *ends])]
    limit = build.int_value(extent)
    marks: list[Expr] = [ZERO]
    for p in parts:
        index = build.const(p if limit is None else min(p, limit), "int64")
        marks.append(index if limit is not None else build.minimum(index, extent))
    marks.append(extent)
    return [(a, b - a) for a, b in itertools.pairwise(marks)]


def _split_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    if ty.ndim == 0:
        raise fail(call, "E212", "a tensor of rank 0 cannot be split", arg=0)
    axis = axis_attr(call, ty.ndim)
    known = dims(ty)
    if known is None:
        parts = _sections(call)
        count = parts if isinstance(parts, int) else len(parts) + 1
        return TupleType((with_rank(ty, ty.ndim),) * count)
    return TupleType(tuple([with_shape(ty, put_at(known, axis, size)) for _, size in _split_ranges(call, known[axis])]))


def offset_view(x: te.Tensor, axis: int, start: te.Value) -> Callable[..., te.Value]:
    """Elements of ``x`` counted from ``start`` along an axis."""
    return lambda *i: x[put_at(i, axis, i[axis] + start)]


def _split(call: Call, x: te.Tensor) -> tuple[te.Tensor, ...]:
    axis = axis_attr(call, x.ndim)
    result = []
    for start, size in _split_ranges(call, x.shape[axis]):
        shape = put_at(x.shape, axis, size)
        result.append(te.compute(shape, offset_view(x, axis, te.Value(start)), "split"))
    return tuple(result)


def _split_ref(x: np.ndarray, indices_or_sections: Any, axis: int = 0) -> tuple[np.ndarray, ...]:
    if isinstance(indices_or_sections, int):
        size = -(-x.shape[axis] // indices_or_sections)
        indices_or_sections = [min(size * n, x.shape[axis]) for n in range(1, indices_or_sections)]
    return tuple([p.copy() for p in np.split(x, list(indices_or_sections), axis)])


def _split_grad(call: Call, g: Expr) -> list[Any]:
    axis = axis_attr(call, len(operand_shape(call, call.args[0])))
    return [R.concat(g, axis=axis)]


split = row(
    "split",
    (
        "x",
        attribute("indices_or_sections", doc="number of sections (the last may be smaller), or positions of the cuts"),
        attribute("axis", 0),
    ),
    _split_type,
    "Splits a tensor along an axis into sections or at given positions.",
    lower=_split,
    ref=_split_ref,
    grad=_split_grad,
    layout=channels_last.split,
    samples="f32[4,6], indices_or_sections=3, axis=1; f32[7], indices_or_sections=[2,5,9]; "
    "f32[2,7], indices_or_sections=3, axis=-1; "
    "f32[2,5], indices_or_sections=each(4, 1), axis=-1; "
    "f32[2,2], indices_or_sections=3, axis=-1; f32[2,0], indices_or_sections=2, axis=-1",
)


def _bounds(call: Call, extent: Expr, begin: Any, end: Any, step: int) -> tuple[Expr, Expr]:
    """(start, size) of a slice of one axis."""
    if bool_attr(call, "assume_inbound"):
        low, high = [v if isinstance(v, Expr) else build.const(v, "int64") for v in (begin, end)]
        known = build.int_values((low, high, extent))
        if len(known) == 3 and not _inside(known[0], known[1], known[2], step):
            message = f"begin {known[0]} and end {known[1]} are not within an axis of size {known[2]}"
            raise fail(call, "E214", message, "leave assume_inbound out")
    elif isinstance(begin, int) and isinstance(end, int) and type(extent) is IntImm:
        first, last, _ = slice(begin, end, step).indices(extent.value)
        low, high = build.const(first, "int64"), build.const(last, "int64")
    else:
        low, high = [_clamp(v, extent, step) for v in (begin, end)]
    length = high - low if step > 0 else low - high
    if IntImm not in (type(low), type(high)):
        length = Analyzer().simplify(length)
    size = build.ceildiv(length, abs(step))
    whole = low is ZERO or (type(low) is IntImm and low.value == 0)
    if type(size) is IntImm or (whole and same_dim(size, extent) is Answer.YES) or bool_attr(call, "assume_inbound"):
        return low, build.const(max(size.value, 0), "int64") if type(size) is IntImm else size
    return low, build.maximum(size, ZERO)


def _inside(low: int, high: int, extent: int, step: int) -> bool:
    return 0 <= low <= high <= extent if step > 0 else -1 <= high <= low < extent


def _clamp(value: Any, extent: Expr, step: int) -> Expr:
    least, most = (ZERO, extent) if step > 0 else (build.const(-1, "int64"), extent - 1)
    if isinstance(value, int):
        if value >= 0:
            if value == 0 and step > 0:
                return ZERO
            return most if value >= 2**31 - 1 else build.minimum(value, most)
        if value <= -(2**31 - 1):
            return least
        return build.maximum(extent + value, least)
    if same_dim(value, extent) is Answer.YES and step > 0:
        return extent
    shifted = build.select(build.lt(value, ZERO), value + extent, value)
    return build.maximum(build.minimum(shifted, most), least)


def slice_plan(call: Call, shape: tuple[Expr, ...]) -> list[tuple[Expr, Expr, int]]:
    """(start, size, step) per axis of a strided_slice."""
    axes = axes_attr(call, "axes", len(shape))
    if axes is None:
        raise fail(call, "E214", "axes must be integers, got None")
    begin, end, strides = attr(call, "begin"), attr(call, "end"), attr(call, "strides")
    strides = (1,) * len(axes) if strides is None else strides
    for name, values in (("begin", begin), ("end", end), ("strides", strides)):
        if not isinstance(values, tuple) or len(values) != len(axes):
            raise fail(call, "E214", f"{name} must have one entry for each of the {len(axes)} axes")
        for v in values:
            scalar = isinstance(v, Expr) and isinstance(v.ty, PrimType) and v.ty.dtype.is_int
            if not isinstance(v, int) and (not scalar or name == "strides"):
                raise fail(call, "E214", f"{name} must be integers, got {v!r}")
    if any([s == 0 for s in strides]):
        raise fail(call, "E214", "a stride of 0 has no meaning")
    plan = [(ZERO, d, 1) for d in shape]
    for axis, b, e, s in zip(axes, begin, end, strides):
        plan[axis] = (*_bounds(call, shape[axis], b, e, s), s)
    return plan


def _slice_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    known = dims(ty)
    if known is None:
        return with_rank(ty, ty.ndim)
    return with_shape(ty, [size for _, size, _ in slice_plan(call, known)])


def _slice(call: Call, x: te.Tensor) -> te.Tensor:
    plan = slice_plan(call, x.shape)
    return te.compute(
        [n for _, n, _ in plan], lambda *i: x[[te.Value(b) + v * s for v, (b, _, s) in zip(i, plan)]], "strided_slice"
    )


def _slice_ref(
    x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> np.ndarray:
    index = [slice(None)] * x.ndim
    for n, axis in enumerate(axes):
        stop = end[n]
        step = 1 if strides is None else strides[n]
        index[axis] = slice(begin[n], None if step < 0 and stop <= -(2**31 - 1) else stop, step)
    return x[tuple(index)].copy()


def _slice_grad(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    sizes = operand_sizes(call, x)
    result, before = g, operand_sizes(call, g)
    for axis, (start, count, step) in enumerate(slice_plan(call, operand_shape(call, x))):
        if step < 1 or type(start) is not IntImm or type(count) is not IntImm:
            raise fail(call, "E214", "the gradient needs constant bounds and positive strides")
        if count.value == sizes[axis]:
            continue
        before[axis] = sizes[axis]
        end = start.value + (count.value - 1) * step + 1 if count.value else start.value
        result = R.slice_scatter(
            R.zeros(tuple(before), dtype=dtype_of(x).name), result, start.value, end, step, axis=axis
        )
    return [result]


strided_slice = row(
    "strided_slice",
    (
        "x",
        attribute("axes", doc="the axes to slice"),
        attribute("begin", doc="first index along each of them"),
        attribute("end", doc="end along each, exclusive"),
        attribute("strides", None, doc="step along each; None: 1"),
        attribute("assume_inbound", False, doc="promise that bounds are neither negative nor beyond the size"),
    ),
    _slice_type,
    "Slices axes by begin, end and stride, as Python does: negative bounds count from the end, those outside are clamped.",
    lower=_slice,
    ref=_slice_ref,
    grad=_slice_grad,
    mixed_precision="follow",
    samples="f32[5,6], axes=[0,1], begin=[1,-3], end=[-1,100]; "
    "f32[7], axes=[0], begin=[5], end=[-100], strides=[-2]; "
    "f32[7], axes=[-1], begin=[4], end=[2]; "
    "f32[7], axes=[0], begin=[1], end=[6], strides=[2], assume_inbound=True",
)
