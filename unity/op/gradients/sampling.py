"""Gradients of sampling at places, of products by groups, and of operators that make or place tensors.

Sampling (bilinear and nearest) weighs the pixels around a place: the gradient of the image adds with the same weights, that of
the grid follows the derivative of the weights (M. Jaderberg et al., Spatial transformer networks, 2015). At the border and at
folds of the padding the derivative from one side stands.
"""

from __future__ import annotations

import itertools
from typing import Any

from ...ir.build import cast, const
from ...ir.expr import Call, ShapeExpr, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.types import Expr, TensorType
from .. import grad
from ..common.table import constant
from ..common.type_rules import attr, bool_attr, fail, int_attr, is_one, normal_axis, product
from ..core import to_vdevice
from ..elementwise import special
from ..elementwise.binary import (
    add,
    equal,
    floor_mod,
    greater_equal,
    less,
    less_equal,
    logical_and,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from ..elementwise.unary import floor, negative, round_
from ..linalg.products import matmul
from ..manipulate.create import arange, astype, full, ones_like, zeros, zeros_like
from ..manipulate.index import gather_elements
from ..manipulate.manipulate import broadcast_to, expand_dims, permute_dims, reshape
from ..manipulate.scatter_loops import scatter_elements
from ..manipulate.slicing import concat, split, strided_slice
from ..nn import quantization, recurrent_backward, sample
from ..nn.grouped import grouped_matmul
from ..reduction import search
from ..reduction.reduce import sum_
from .parts import operand_shape
from .rules import GRADIENTS, Rule, known_shape, number_like, pick


def _padded(call: Call, at: Expr, size: Expr) -> tuple[Expr, Expr]:
    """A coordinate brought into the image, and the derivative of that."""
    one, zero = number_like(1.0, at), number_like(0.0, at)
    padding = attr(call, "padding_mode", "zeros")
    slope: Expr = ones_like(at)
    if padding == "zeros":
        return at, slope
    last = subtract(size, one)
    if padding == "reflection":
        corners = bool_attr(call, "align_corners", True)
        low, span = (zero, last) if corners else (number_like(-0.5, at), size)
        turn = maximum(multiply(span, number_like(2.0, at)), one)
        phase = floor_mod(subtract(at, low), turn)
        rising = less_equal(phase, span)
        slope = where(rising, one, number_like(-1.0, at))
        at = add(where(rising, phase, subtract(turn, phase)), low)
    inside = logical_and(greater_equal(at, zero), less_equal(at, last))
    return minimum(maximum(at, zero), last), pick(broadcast_to(slope, known_shape(inside)), inside)


def _grid_sample(call: Call, g: Expr) -> list[Any]:
    x, grid = call.args
    method = attr(call, "method", "bilinear")
    if method == "bicubic":
        raise fail(call, "E214", "the gradient needs the method bilinear or nearest")
    batch, channels, *space = known_shape(x).values
    places = known_shape(grid).values[2:]
    rank, pixels, count = len(space), product(space), product(places)
    corners = bool_attr(call, "align_corners", True)
    dtype = x.ty.dtype  # type: ignore[attr-defined]
    one = number_like(1.0, x)
    half = number_like(0.5, x)
    lines = reshape(x, ShapeExpr((batch, channels, pixels)))
    flow = reshape(g, ShapeExpr((batch, channels, count)))
    points = reshape(grid, ShapeExpr((batch, const(rank, "int64"), count)))
    sizes, taps = [astype(sum_(ones_like(arange(s))), dtype) for s in space], []
    parts = split(points, rank, axis=1)
    scales = []
    for n, size in enumerate(sizes):
        scale = multiply(subtract(size, one) if corners else size, half)
        place = multiply(add(TupleGetItem(parts, rank - 1 - n), one), scale)
        at, slope = _padded(call, place if corners else subtract(place, half), size)
        scales.append(multiply(slope, scale))
        if method == "nearest":
            taps.append([(round_(at), ones_like(at), zeros_like(at))])
        else:
            low = floor(at)
            away = subtract(at, low)
            taps.append([(low, subtract(one, away), negative(ones_like(at))), (add(low, one), away, ones_like(at))])
    image: Expr = zeros_like(lines)
    moved: list[Expr | None] = [None] * rank
    for picked in itertools.product(*taps):
        index: Expr = zeros_like(astype(picked[0][0], "int64"))
        inside: Expr | None = None
        for (pixel, _, _), size, extent in zip(picked, sizes, space):
            held = logical_and(greater_equal(pixel, number_like(0.0, x)), less_equal(pixel, subtract(size, one)))
            inside = held if inside is None else logical_and(inside, held)
            step = astype(pick(pixel, held), "int64")
            index = add(multiply(index, sum_(ones_like(arange(extent)))), step)
        assert inside is not None
        wide = broadcast_to(index, ShapeExpr((batch, channels, count)))
        weight: Expr = pick(one, inside)
        for _, factor, _ in picked:
            weight = multiply(weight, factor)
        image = scatter_elements(image, wide, multiply(flow, weight), axis=2, reduction="add")
        value: Expr = sum_(multiply(flow, gather_elements(lines, wide, axis=2)), axis=[1], keepdims=True)
        value = pick(value, inside)
        for n in range(rank):
            part = multiply(value, picked[n][2])
            for k in range(rank):
                part = part if k == n else multiply(part, picked[k][1])
            held_sum = moved[n]
            moved[n] = part if held_sum is None else add(held_sum, part)
    turned = [multiply(part, scale) for part, scale in zip(moved, scales) if part is not None][::-1]
    return [
        reshape(image, known_shape(x)),
        reshape(concat(Tuple(tuple(turned)), axis=1), known_shape(grid)),
    ]


def _grouped(call: Call, g: Expr) -> list[Any]:
    """Of the matrices: the rows of each group, zeros elsewhere, times the gradient; as many products as there are matrices."""
    x, weight, ends = call.args
    rows, _ = known_shape(x).values
    number = ends.ty.dtype  # type: ignore[attr-defined]
    behind = less_equal(expand_dims(ends, axis=[1]), expand_dims(astype(arange(rows), number), axis=[0]))
    group = sum_(astype(behind, "int64"), axis=[0], keepdims=True)
    own = equal(group, expand_dims(arange(known_shape(weight).values[0]), axis=[1]))
    masked = pick(expand_dims(x, axis=[0]), expand_dims(own, axis=[2]))
    return [
        grouped_matmul(g, permute_dims(weight, axes=[0, 2, 1]), ends),
        matmul(permute_dims(masked, axes=[0, 2, 1]), g),
        None,
    ]


def _filled(call: Call, g: Expr) -> list[Any]:
    """Of the value, where it is a float tensor."""
    ty = call.args[1].ty
    if not isinstance(ty, TensorType) or ty.dtype is None or not ty.dtype.is_float:
        return [None, None]
    return [None, astype(reshape(sum_(g), known_shape(call.args[1])), ty.dtype)]


def _moved(call: Call, g: Expr) -> list[Any]:
    device = getattr(call.args[0].ty, "vdevice", None)
    if device is None:
        raise fail(call, "E218", "the gradient needs the device of the argument", "name it in its type")
    return [to_vdevice(g, dst_vdevice=device)]


def _dequantize(call: Call, g: Expr) -> list[Any]:
    """Of the scale: the gradient times how far the integers are from the zero point, summed over what shares it."""
    data, scale, zero = call.args
    shape, dtype = operand_shape(call, data), g.ty.dtype  # type: ignore[attr-defined]
    axis = normal_axis(call, int_attr(call, "axis", -1), len(shape)) if shape else 0

    def spread(param: Expr) -> Expr:
        own = operand_shape(call, param)
        wide = [own[0] if a == axis else const(1, "int64") for a in range(len(shape))] if own else []
        return astype(reshape(param, ShapeExpr(tuple(wide))), dtype)

    def gathered(value: Expr, param: Expr) -> Expr | None:
        if not param.ty.dtype.is_float:  # type: ignore[attr-defined]
            return None
        own = operand_shape(call, param)
        keeps = bool(own) and not is_one(own[0])
        rest = [a for a in range(len(shape)) if not (keeps and a == axis)]
        return astype(reshape(sum_(value, axis=rest) if rest else value, ShapeExpr(own)), param.ty.dtype)  # type: ignore[attr-defined]

    away = subtract(astype(data, dtype), spread(zero))
    return [None, gathered(multiply(g, away), scale), gathered(negative(multiply(g, spread(scale))), zero)]


def _dynamic_slice(call: Call, g: Expr) -> list[Any]:
    """Every gradient goes back to its place, one axis after the other."""
    x, begin, _, strides = call.args
    extents, made = operand_shape(call, x), g
    shape = list(operand_shape(call, g))
    for axis, extent in enumerate(extents):
        first, step = [
            astype(strided_slice(t, axes=[0], begin=[axis], end=[axis + 1], strides=[1]), "int64")
            for t in (begin, strides)
        ]
        size, zero = full(ShapeExpr((const(1, "int64"),)), cast(extent, "int64"), "int64"), constant(0, "int64")
        first = where(less(first, zero), add(first, size), first)
        last = where(less(step, zero), subtract(size, constant(1, "int64")), size)
        first = maximum(minimum(first, last), where(less(step, zero), constant(-1, "int64"), zero))
        line = add(first, multiply(arange(0, shape[axis], 1, dtype="int64"), step))
        row = reshape(line, ShapeExpr(tuple([d if a == axis else const(1, "int64") for a, d in enumerate(shape)])))
        places = broadcast_to(row, ShapeExpr(tuple(shape)))
        shape[axis] = extent
        area = zeros(ShapeExpr(tuple(shape)), dtype=x.ty.dtype)  # type: ignore[attr-defined]
        made = scatter_elements(area, places, made, axis=axis)
    return [made, None, None, None]


def _none(call: Call, g: Expr) -> list[Any]:
    return [None] * len(call.args)


_ROWS_OF = (grad, quantization, recurrent_backward, sample, search, special)
"""Families whose rows must stand in the table first."""

SAMPLING_GRADIENTS: dict[str, Rule] = {
    "R.image.grid_sample": _grid_sample,
    "R.nn.grouped_matmul": _grouped,
    "R.full": _filled,
    "R.full_like": _filled,
    "R.zeros_like": _none,
    "R.ones_like": _none,
    "R.eye_like": _none,
    "R.to_vdevice": _moved,
    "R.dequantize": _dequantize,
    "R.dynamic_strided_slice": _dynamic_slice,
}
GRADIENTS.update(SAMPLING_GRADIENTS)
for _name, _rule in SAMPLING_GRADIENTS.items():
    OPS[_name].grad = _rule

_SECOND = "the second derivative is not written as an operator"
WITHOUT_GRADIENT: dict[str, str] = {
    "R.quantize": "it rounds to integers",
    **{f"R.grad.{n}_pool2d_backward": _SECOND for n in ("max", "avg")},
    **{f"R.grad.{n}_backward": _SECOND for n in ("take", "nll_loss", "recurrent", "lstm")},
    "R.grad.linear_recurrence": _SECOND,
}
"""Operators of differentiable meaning without a rule, and why; the message of the gradient pass says so."""
for _name, _reason in WITHOUT_GRADIENT.items():
    OPS[_name].grad = _reason

__all__ = ["SAMPLING_GRADIENTS", "WITHOUT_GRADIENT"]
