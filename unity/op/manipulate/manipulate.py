"""Operators that change the shape of a tensor or the order of its elements, one tensor in.

Joining, splitting and slicing: slicing.py. Choosing by index: index.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.build import const
from ...ir.expr import Call, IntImm, ShapeExpr
from ...ir.relation import Answer, dims, indivisible, same_dim, tensor_type, unequal
from ...ir.types import Expr, Type
from ..common.gradients import operand_shape, reduce_to, reshape_grad
from ..common.lowering import known_dims, load, result_dims, short_name
from ..common.table import R, attribute, rows
from ..common.type_rules import (
    ONE,
    attr,
    axes_attr,
    axis_attr,
    broadcast_dims,
    fail,
    int_attr,
    ints_attr,
    is_one,
    normal_axis,
    product,
    put_at,
    shape_arg,
    tensor_arg,
    with_rank,
    with_shape,
)  # fmt: skip

row = rows("manipulate")


def ravel(indices: Sequence[Any], shape: Sequence[Expr]) -> Any:
    """Position of an element in row-major order."""
    flat: Any = te.const(0, "int64")
    for index, dim in zip(indices, shape):
        flat = flat * te.Value(dim) + index
    return flat


def unravel(flat: Any, shape: Sequence[Expr]) -> list[Any]:
    """Indices of the element at a row-major position."""
    found: list[Any] = []
    for axis in range(len(shape) - 1, -1, -1):
        dim = te.Value(shape[axis])
        found.append(te.const(0, "int64") if is_one(shape[axis]) else flat % dim if axis else flat)
        flat = flat // dim
    return found[::-1]


def reorder(call: Call, x: te.Tensor) -> te.Tensor:
    """Lowering of every operator that keeps the row-major order of elements."""
    shape = result_dims(call)
    return te.compute(shape, lambda *i: x[unravel(ravel(i, shape), x.shape)], short_name(call))


def _flatten_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    known = dims(ty)
    if known is None:
        return with_rank(ty, 1)
    return with_shape(ty, (product(known),))


flatten = row(
    "flatten",
    ("x",),
    _flatten_type,
    "Reshapes to one axis, in row-major order.",
    view=True,
    lower=reorder,
    ref=lambda x: np.reshape(x, -1),
    grad=reshape_grad,
    mixed_precision="follow",
    samples="f32[2,3,4]; f32[()]",
)


def _reshape_type(call: Call) -> Type:
    ty, target = tensor_arg(call, 0), shape_arg(call, 1)
    if target.values is None:
        return with_shape(ty, call.args[1])
    values = list(target.values)
    holes = [i for i, v in enumerate(values) if type(v) is IntImm and v.value == -1]
    if len(holes) > 1:
        raise fail(call, "E214", "only one dimension may be -1")
    if any([type(v) is IntImm and v.value < -1 for v in values]):
        raise fail(call, "E214", "a dimension of the new shape is negative")
    known = dims(ty)
    if known is None:
        if holes:
            return with_rank(ty, len(values))
        return with_shape(ty, values)
    total = product(known)
    if holes:
        rest = product([v for i, v in enumerate(values) if i != holes[0]])
        if build.is_int(rest, 0) or indivisible(total, rest):
            raise fail(call, "E213", f"{total} elements do not divide into {rest}")
        values[holes[0]] = _quotient(known, [v for i, v in enumerate(values) if i != holes[0]], total, rest)
    elif unequal(total, product(values)):
        raise fail(
            call,
            "E213",
            f"the shapes hold different numbers of elements: {ShapeExpr(known)} and {ShapeExpr(tuple(values))}",
        )
    return with_shape(ty, values)


def _quotient(total_dims: Sequence[Expr], rest_dims: Sequence[Expr], total: Expr, rest: Expr) -> Expr:
    """``total / rest`` with dimensions that stand on both sides cancelled."""
    above, below = list(total_dims), list(rest_dims)
    for dim in rest_dims:
        for other in above:
            if type(dim) is not IntImm and same_dim(dim, other) is Answer.YES:
                above.remove(other)
                below.remove(dim)
                break
    return product(above) // product(below)


def _reshape_ref(x: np.ndarray, shape: Any) -> np.ndarray:
    return np.reshape(x, tuple(shape))


reshape = row(
    "reshape",
    ("x", "shape: the new shape; one dimension may be -1"),
    _reshape_type,
    "Returns the elements in row-major order in another shape.",
    view=True,
    lower=lambda call, x, shape: reorder(call, x),
    ref=_reshape_ref,
    grad=reshape_grad,
    mixed_precision="follow",
    samples="f32[2,6], each((3,-1), (4,3)); f32[0,3], (3,0)",
)


def _expand_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    raw = attr(call, "axis")
    raw = (raw,) if isinstance(raw, int) else raw
    if not isinstance(raw, tuple) or not all([isinstance(a, int) for a in raw]):
        raise fail(call, "E214", f"axis must be integers, got {raw!r}")
    if ty.ndim == -1:
        return with_rank(ty, -1)
    rank = ty.ndim + len(raw)
    axes = [normal_axis(call, a, rank) for a in raw]
    if len(set(axes)) != len(axes):
        raise fail(call, "E214", f"axis {raw} names an axis twice")
    known = dims(ty)
    if known is None:
        return with_rank(ty, rank)
    rest = list(known)
    return with_shape(ty, [ONE if i in axes else rest.pop(0) for i in range(rank)])


expand_dims = row(
    "expand_dims",
    ("x", attribute("axis", doc="positions of the new axes in the result")),
    _expand_type,
    "Inserts axes of size 1.",
    view=True,
    lower=reorder,
    ref=lambda x, axis: np.expand_dims(x, tuple(axis) if isinstance(axis, (list, tuple)) else axis),
    grad=reshape_grad,
    mixed_precision="follow",
    samples="f32[2,3], axis=each([0,-1], 1)",
)


def _squeeze_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    axes = axes_attr(call, "axis", ty.ndim)
    known = dims(ty)
    if known is None:
        rank = -1 if axes is None or ty.ndim == -1 else ty.ndim - len(axes)
        return with_rank(ty, rank)
    if axes is None:
        if any([same_dim(d, ONE) is Answer.MAYBE for d in known]):  # how many axes go is known only at run time
            return with_rank(ty, -1)
        return with_shape(ty, [d for d in known if not is_one(d)])
    for axis in axes:
        if unequal(known[axis], ONE):
            raise fail(call, "E213", f"axis {axis} has size {known[axis]}, not 1", arg=0)
    return with_shape(ty, [d for i, d in enumerate(known) if i not in axes])


squeeze = row(
    "squeeze",
    ("x", attribute("axis", None, doc="the axes to remove; None: all of size 1")),
    _squeeze_type,
    "Removes axes of size 1.",
    view=True,
    lower=reorder,
    ref=lambda x, axis=None: np.squeeze(x, tuple(axis) if isinstance(axis, (list, tuple)) else axis),
    grad=reshape_grad,
    mixed_precision="follow",
    samples="f32[1,3,1]; f32[1,3,1], axis=[-1]",
)


def permutation(call: Call, ndim: int) -> tuple[int, ...]:
    """Axes of permute_dims, None is reversed. Raises E214."""
    axes = axes_attr(call, "axes", ndim)
    if axes is None:
        return tuple(range(ndim))[::-1]
    if len(axes) != ndim:
        raise fail(call, "E214", f"axes {axes} must name each of the {ndim} axes once")
    return axes


def _permute_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    if ty.ndim == -1:
        return with_rank(ty, -1)
    axes = permutation(call, ty.ndim)
    known = dims(ty)
    if known is None:
        return with_rank(ty, ty.ndim)
    return with_shape(ty, [known[a] for a in axes])


def _permute(call: Call, x: te.Tensor) -> te.Tensor:
    axes = permutation(call, x.ndim)
    return te.compute([x.shape[a] for a in axes], lambda *i: x[[i[axes.index(a)] for a in range(x.ndim)]], "transpose")


def _permute_grad(call: Call, g: Expr) -> list[Any]:
    axes = permutation(call, len(operand_shape(call, call.args[0])))
    return [R.permute_dims(g, axes=[axes.index(i) for i in range(len(axes))])]


permute_dims = row(
    "permute_dims",
    ("x", attribute("axes", None, doc="the axis of x for each axis of the result; None: reversed")),
    _permute_type,
    "Permutes the axes.",
    lower=_permute,
    ref=lambda x, axes=None: np.transpose(x, axes),
    grad=_permute_grad,
    mixed_precision="follow",
    samples="f32[2,3,4]; f32[2,3,4], axes=[1,-1,0]",
)


def _broadcast_to_type(call: Call) -> Type:
    ty, target = tensor_arg(call, 0), shape_arg(call, 1)
    known = dims(ty)
    if known is not None and target.values is not None:
        if len(known) > len(target.values):
            raise fail(call, "E212", f"rank {len(known)} does not broadcast to rank {len(target.values)}", arg=0)
        found = broadcast_dims(call, (known, target.values))
        if any([unequal(a, b) for a, b in zip(found, target.values)]):
            raise fail(call, "E213", f"{ShapeExpr(known)} does not broadcast to {ShapeExpr(target.values)}", arg=0)
    shape = target.values if target.values is not None else call.args[1]
    return with_shape(ty, shape)


def _broadcast_to(call: Call, x: te.Tensor, shape: Any) -> te.Tensor:
    target = known_dims(call, call.ty)
    return te.compute(target, lambda *i: load(x, i, target), "broadcast_to")


broadcast_to = row(
    "broadcast_to",
    ("x", "shape"),
    _broadcast_to_type,
    "Repeats x along axes of size 1, and along new leading axes, up to a shape.",
    lower=_broadcast_to,
    ref=lambda x, shape: np.broadcast_to(x, tuple(shape)).copy(),
    grad=lambda call, g: [reduce_to(call, g, call.args[0]), None],
    mixed_precision="follow",
    samples="f32[3,1], (2,3,4)",
)


def _flip_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    axis_attr(call, ty.ndim)
    return ty


def _flip(call: Call, x: te.Tensor) -> te.Tensor:
    axis = axis_attr(call, x.ndim)
    last = te.Value(x.shape[axis] - 1)
    return te.compute(x.shape, lambda *i: x[put_at(i, axis, last - i[axis])], "flip")


flip = row(
    "flip",
    ("data", attribute("axis")),
    _flip_type,
    "Reverses the elements along an axis.",
    lower=_flip,
    ref=lambda x, axis: np.flip(x, axis).copy(),
    grad=lambda call, g: [R.flip(g, axis=attr(call, "axis"))],
    samples="f32[3,4], axis=each(-1, 0)",
)


def _repeat_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    count = int_attr(call, "repeats")
    if count < 0:
        raise fail(call, "E214", f"repeats must not be negative, got {count}")
    known = dims(ty)
    axis = attr(call, "axis")
    if axis is None:
        return tensor_type((product(known) * count,), ty.dtype) if known is not None else with_rank(ty, 1)
    axis = axis_attr(call, ty.ndim)
    if known is None:
        return with_rank(ty, ty.ndim)
    return with_shape(ty, put_at(known, axis, known[axis] * count))


def _repeat(call: Call, x: te.Tensor) -> te.Tensor:
    count = int_attr(call, "repeats")
    shape = result_dims(call)
    if attr(call, "axis") is None:
        return te.compute(shape, lambda i: x[unravel(i // count, x.shape)], "repeat")
    axis = axis_attr(call, x.ndim)
    return te.compute(shape, lambda *i: x[put_at(i, axis, i[axis] // count)], "repeat")


def _repeat_grad(call: Call, g: Expr) -> list[Any]:
    shape, count = operand_shape(call, call.args[0]), int_attr(call, "repeats")
    if attr(call, "axis") is None:
        total = R.sum(R.reshape(g, ShapeExpr((product(shape), const(count, "int64")))), axis=[1])
        return [R.reshape(total, ShapeExpr(shape))]
    axis = axis_attr(call, len(shape))
    apart = (*shape[: axis + 1], const(count, "int64"), *shape[axis + 1 :])
    return [R.sum(R.reshape(g, ShapeExpr(apart)), axis=[axis + 1])]


repeat = row(
    "repeat",
    ("data", attribute("repeats", doc="how often"), attribute("axis", None, doc="the axis; None: flattened first")),
    _repeat_type,
    "Repeats each element along an axis.",
    lower=_repeat,
    ref=lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
    grad=_repeat_grad,
    samples="f32[2,3], repeats=2, axis=1; f32[2,3], repeats=3",
)


def _tile_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    counts = ints_attr(call, "repeats")
    known = dims(ty)
    if known is None:
        return with_rank(ty, -1 if ty.ndim == -1 else max(ty.ndim, len(counts)))
    rank = max(len(known), len(counts))
    padded = [ONE] * (rank - len(known)) + list(known)
    times = (1,) * (rank - len(counts)) + counts
    return with_shape(ty, [d * t for d, t in zip(padded, times)])


def _tile(call: Call, x: te.Tensor) -> te.Tensor:
    shape = result_dims(call)
    offset = len(shape) - x.ndim
    return te.compute(shape, lambda *i: x[[i[offset + a] % te.Value(d) for a, d in enumerate(x.shape)]], "tile")


def _tile_grad(call: Call, g: Expr) -> list[Any]:
    shape, counts = operand_shape(call, call.args[0]), ints_attr(call, "repeats")
    rank = max(len(shape), len(counts))
    sizes = [ONE] * (rank - len(shape)) + list(shape)
    times = [1] * (rank - len(counts)) + list(counts)
    apart = [part for size, count in zip(sizes, times) for part in (const(count, "int64"), size)]
    total = R.sum(R.reshape(g, ShapeExpr(tuple(apart))), axis=list(range(0, 2 * rank, 2))) if rank else g
    return [R.reshape(total, ShapeExpr(shape))]


tile = row(
    "tile",
    ("data", attribute("repeats", doc="number of repetitions along each axis; fewer numbers mean the last axes")),
    _tile_type,
    "Repeats the whole tensor along each axis.",
    lower=_tile,
    ref=lambda x, repeats: np.tile(x, tuple(repeats) if isinstance(repeats, (list, tuple)) else repeats),
    grad=_tile_grad,
    samples="f32[2,3], repeats=each([2,1,2], [2])",
)


def _triangle(name: str, doc: str, upper: bool, ref: Any) -> Any:
    def infer(call: Call) -> Type:
        ty = tensor_arg(call, 0)
        if 0 <= ty.ndim < 2:
            raise fail(call, "E212", f"expected at least two axes, got rank {ty.ndim}", arg=0)
        int_attr(call, "k")
        return ty

    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        k = int_attr(call, "k")

        def body(*i: te.Value) -> te.Value:
            inside = i[-1] - i[-2] >= k if upper else i[-1] - i[-2] <= k
            return te.if_then_else(inside, x[i], te.const(0, x.dtype))

        return te.compute(x.shape, body, name)

    return row(
        name,
        ("x", attribute("k", 0)),
        infer,
        doc,
        lower=lower,
        ref=lambda x, k=0: ref(x, k),
        grad=lambda call, g: [getattr(R, name)(g, k=int_attr(call, "k"))],
        samples="f32[3,4]; b[3,4]; f32[2,3,3], k=each(1, -1)",
    )


tril = _triangle("tril", "Returns the lower triangles of matrices, with zeros above diagonal k.", False, np.tril)
triu = _triangle("triu", "Returns the upper triangles of matrices, with zeros below diagonal k.", True, np.triu)
