"""Gradients of operators that move, repeat or choose elements: the gradient goes back where the element came from.

Writing at indices: of indices named twice the gradient of ``update`` goes to every update (the last one alone would be right), as
in torch. Reductions other than ``update`` and ``add`` have no gradient here (E214).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.build import const
from ...ir.expr import Call, IntImm, ShapeExpr, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.relation import dims
from ...ir.types import Expr, TupleType
from ..common.table import constant
from ..common.type_rules import attr, bool_attr, fail, int_attr, ints_attr, normal_axis, product
from ..manipulate import scatter
from ..manipulate.create import zeros_like
from ..manipulate.index import gather_elements
from ..manipulate.manipulate import permute_dims, reshape, squeeze, tril, triu
from ..manipulate.scatter import gather_nd, reverse_sequence, scatter_nd, slice_scatter
from ..manipulate.scatter_loops import index_put, index_tensor_op, scatter_elements
from ..manipulate.slicing import split, strided_slice
from ..nn import attention, channel
from ..reduction import sorting
from ..reduction.reduce import collapse_sum_to, sum_
from ..reduction.sorting import argsort, topk
from .parts import field_of, operand_shape
from .rules import GRADIENTS, Rule

_END = 2**31 - 1


def _stack(call: Call, g: Expr) -> list[Any]:
    source = call.args[0].ty
    assert isinstance(source, TupleType)
    axis = normal_axis(call, int_attr(call, "axis", 0), len(operand_shape(call, g)))
    parts = split(g, len(source.fields), axis=axis)
    return [Tuple(tuple([squeeze(TupleGetItem(parts, n), axis=[axis]) for n in range(len(source.fields))]))]


def _repeat(call: Call, g: Expr) -> list[Any]:
    shape, count = operand_shape(call, call.args[0]), int_attr(call, "repeats")
    if attr(call, "axis") is None:
        total = sum_(reshape(g, ShapeExpr((product(shape), const(count, "int64")))), axis=[1])
        return [reshape(total, ShapeExpr(shape))]
    axis = normal_axis(call, int_attr(call, "axis"), len(shape))
    apart = (*shape[: axis + 1], const(count, "int64"), *shape[axis + 1 :])
    return [sum_(reshape(g, ShapeExpr(apart)), axis=[axis + 1])]


def _tile(call: Call, g: Expr) -> list[Any]:
    shape, counts = operand_shape(call, call.args[0]), ints_attr(call, "repeats")
    rank = max(len(shape), len(counts))
    sizes = [const(1, "int64")] * (rank - len(shape)) + list(shape)
    times = [1] * (rank - len(counts)) + list(counts)
    apart = [part for size, count in zip(sizes, times) for part in (const(count, "int64"), size)]
    total = sum_(reshape(g, ShapeExpr(tuple(apart))), axis=list(range(0, 2 * rank, 2))) if rank else g
    return [reshape(total, ShapeExpr(shape))]


def _pad(call: Call, g: Expr) -> list[Any]:
    """A constant border is cut off; of the others every element goes back to the one it repeats, axis after axis."""
    shape, widths = operand_shape(call, call.args[0]), ints_attr(call, "pad_width")
    mode = attr(call, "pad_mode", "constant")
    rank = len(shape)
    axes = [a for a in range(rank) if widths[2 * a] or widths[2 * a + 1]]
    if mode == "constant":
        ends = [-widths[2 * a + 1] or _END for a in axes]
        return [strided_slice(g, axes=axes, begin=[widths[2 * a] for a in axes], end=ends) if axes else g]
    for axis in axes:
        size = shape[axis]
        if type(size) is not IntImm:
            raise fail(call, "E218", f"the gradient needs constant sizes, got {call.args[0].ty}")
        how: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        source = np.pad(np.arange(size.value), widths[2 * axis : 2 * axis + 2], mode=how)
        order = [axis, *[a for a in range(rank) if a != axis]]
        flow = permute_dims(g, axes=order)
        base = zeros_like(strided_slice(flow, axes=[0], begin=[0], end=[size.value]))
        flow = index_put(base, Tuple((constant(source),)), flow, accumulate=True)
        g = permute_dims(flow, axes=[order.index(a) for a in range(rank)])
    return [g]


def _meshgrid(call: Call, g: Expr) -> list[Any]:
    source = call.args[0].ty
    assert isinstance(source, TupleType)
    count = len(source.fields)
    places = list(range(count))
    if attr(call, "indexing", "ij") == "xy" and count > 1:
        places[0], places[1] = 1, 0
    made = []
    for n, place in enumerate(places):
        flow, gone = field_of(g, n), [a for a in range(count) if a != place]
        flow = sum_(flow, axis=gone) if gone else flow
        wanted = dims(source.fields[n])
        made.append(reshape(flow, ShapeExpr(wanted)) if wanted is not None else flow)
    return [Tuple(tuple(made))]


def _pixel_shuffle(call: Call, g: Expr) -> list[Any]:
    shape, factor = operand_shape(call, call.args[0]), int_attr(call, "upscale_factor")
    lead, (height, width) = len(shape) - 3, shape[-2:]
    channels = operand_shape(call, g)[-3]
    apart = (*shape[:lead], channels, height, const(factor, "int64"), width, const(factor, "int64"))
    order = [*range(lead + 1), lead + 2, lead + 4, lead + 1, lead + 3]
    return [reshape(permute_dims(reshape(g, ShapeExpr(apart)), axes=order), ShapeExpr(shape))]


def _reduction(call: Call) -> bool:
    """Whether updates are added; false where they are set."""
    how = attr(call, "reduction", "update")
    if how not in ("update", "add"):
        raise fail(call, "E214", f"the gradient needs the reduction update or add, got {how}")
    return bool(how == "add")


def _scatter_elements(call: Call, g: Expr) -> list[Any]:
    _, indices, updates = call.args
    axis = int_attr(call, "axis", 0)
    kept = g if _reduction(call) else scatter_elements(g, indices, zeros_like(updates), axis=axis)
    return [kept, None, gather_elements(g, indices, axis=axis)]


def _scatter_nd(call: Call, g: Expr) -> list[Any]:
    _, indices, updates = call.args
    return [g if _reduction(call) else scatter_nd(g, indices, zeros_like(updates)), None, gather_nd(g, indices)]


def _index_put(call: Call, g: Expr) -> list[Any]:
    _, indices, values = call.args
    kept = g if bool_attr(call, "accumulate") else index_put(g, indices, zeros_like(values))
    return [kept, None, collapse_sum_to(index_tensor_op(g, indices), ShapeExpr(operand_shape(call, values)))]


def _index_tensor(call: Call, g: Expr) -> list[Any]:
    return [index_put(zeros_like(call.args[0]), call.args[1], g, accumulate=True), None]


def _gather_nd(call: Call, g: Expr) -> list[Any]:
    if int_attr(call, "batch_dims", 0):
        raise fail(call, "E214", "the gradient needs batch_dims=0")
    return [scatter_nd(zeros_like(call.args[0]), call.args[1], g, reduction="add"), None]


def _slice_scatter(call: Call, g: Expr) -> list[Any]:
    _, source, *bounds = call.args
    if any([type(b) is not IntImm for b in bounds]):
        raise fail(call, "E218", "the gradient needs constant bounds")
    start, end, step = [*[b.value for b in bounds], 1][:3]  # type: ignore[attr-defined]
    axis = normal_axis(call, int_attr(call, "axis", 0), len(operand_shape(call, g)))
    cut = strided_slice(g, axes=[axis], begin=[start], end=[end], strides=[step])
    return [slice_scatter(g, zeros_like(source), *bounds, axis=axis), cut, *[None] * len(bounds)]


def _sort(call: Call, g: Expr) -> list[Any]:
    x, axis = call.args[0], int_attr(call, "axis", -1)
    order = argsort(x, axis=axis, descending=bool_attr(call, "descending"), dtype="int64")
    return [scatter_elements(zeros_like(x), order, g, axis=axis)]


def _topk(call: Call, g: Expr) -> list[Any]:
    x, axis, kind = call.args[0], int_attr(call, "axis", -1), attr(call, "ret_type", "both")
    if kind == "indices":
        return [None]
    chosen = call if kind == "both" else topk(x, **{**call.attrs, "ret_type": "both"})
    flow = field_of(g, 0) if kind == "both" else g
    return [scatter_elements(zeros_like(x), TupleGetItem(chosen, 1), flow, axis=axis)]


_ROWS_OF = (attention, channel, scatter, sorting)
"""Families whose rows must stand in the table first."""

MOVE_GRADIENTS: dict[str, Rule] = {
    "R.stack": _stack,
    "R.repeat": _repeat,
    "R.tile": _tile,
    "R.nn.pad": _pad,
    "R.tril": lambda call, g: [tril(g, k=int_attr(call, "k", 0))],
    "R.triu": lambda call, g: [triu(g, k=int_attr(call, "k", 0))],
    "R.meshgrid": _meshgrid,
    "R.nn.pixel_shuffle": _pixel_shuffle,
    "R.scatter_elements": _scatter_elements,
    "R.scatter_nd": _scatter_nd,
    "R.index_put": _index_put,
    "R.index_tensor": _index_tensor,
    "R.gather_nd": _gather_nd,
    "R.slice_scatter": _slice_scatter,
    "R.reverse_sequence": lambda call, g: [reverse_sequence(g, call.args[1], **call.attrs), None],
    "R.sort": _sort,
    "R.topk": _topk,
}
GRADIENTS.update(MOVE_GRADIENTS)
for _name, _rule in MOVE_GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["MOVE_GRADIENTS"]
