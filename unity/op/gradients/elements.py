"""Gradients of activations, two-operand functions, products and deviations, and of resizing. The basic ones: rules.py.

Resizing and adaptive pooling are linear along each axis: their gradient multiplies by the transposed matrix of the axis, made at
compile time, so the sizes must be constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.build import const
from ...ir.expr import Call, ShapeExpr, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.types import Expr
from ..common.table import constant
from ..common.type_rules import attr, axes_attr, bool_attr, int_attr, normal_axis, product
from ..elementwise.binary import (
    add,
    divide,
    floor_divide,
    greater,
    less,
    log_add_exp,
    logical_and,
    multiply,
    subtract,
    where,
)
from ..elementwise.unary import exp, negative, square, tanh, trunc
from ..linalg.products import matmul
from ..manipulate.create import astype, ones_like, zeros_like
from ..manipulate.manipulate import broadcast_to, expand_dims, flip, permute_dims, reshape
from ..manipulate.scatter_loops import scatter_elements
from ..manipulate.slicing import concat, strided_slice
from ..nn import channel, norm, pool, sample
from ..nn.conv import layout_order
from ..nn.recurrent_backward import linear_recurrence
from ..nn.resize import resize1d
from ..reduction import statistics
from ..reduction.reduce import collapse_sum_to, mean, std, sum_
from ..reduction.scan import cumprod
from .parts import field_of, operand_sizes
from .rules import (
    GRADIENTS,
    Rule,
    binary_rule,
    extreme_rule,
    kept_reduction,
    known_shape,
    number_like,
    pick,
    reduce_to,
    spread_back,
    unary_rule,
)

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _gelu_tanh(g: Expr, x: Expr, call: Call) -> Expr:
    def c(value: float) -> Expr:
        return number_like(value, x)

    scale = math.sqrt(2 / math.pi)
    inner = multiply(multiply(x, c(scale)), add(c(1.0), multiply(square(x), c(0.044715))))
    slope = multiply(c(scale), add(c(1.0), multiply(square(x), c(3 * 0.044715))))
    t = tanh(inner)
    rising = multiply(multiply(x, subtract(c(1.0), square(t))), slope)
    return multiply(g, multiply(c(0.5), add(add(c(1.0), t), rising)))


def _relu6(g: Expr, x: Expr, call: Call) -> Expr:
    return pick(g, logical_and(greater(x, number_like(0.0, x)), less(x, number_like(6.0, x))))


def _selu(g: Expr, x: Expr, call: Call) -> Expr:
    below = multiply(exp(x), number_like(_SELU_ALPHA, x))
    slope = where(greater(x, number_like(0.0, x)), number_like(1.0, x), below)
    return multiply(g, multiply(slope, number_like(_SELU_SCALE, x)))


def _prelu(call: Call, g: Expr) -> list[Any]:
    x, alpha = call.args
    shape, (channels,) = known_shape(x).values, known_shape(alpha).values
    axis = normal_axis(call, int_attr(call, "axis", 1), len(shape))
    wide = reshape(alpha, tuple([channels if a == axis else 1 for a in range(len(shape))]))
    positive = greater(x, number_like(0.0, x))
    below = where(positive, number_like(0.0, x), multiply(g, x))
    total = collapse_sum_to(below, ShapeExpr(known_shape(wide).values))
    return [where(positive, g, multiply(g, wide)), reshape(total, ShapeExpr((channels,)))]


def _log_add_exp(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    total = log_add_exp(a, b)
    return multiply(g, exp(subtract(a, total))), multiply(g, exp(subtract(b, total)))


def _atan2(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    share = divide(g, add(square(a), square(b)))
    return multiply(share, b), negative(multiply(share, a))


def _fma(call: Call, g: Expr) -> list[Any]:
    a, b, c = call.args
    return [reduce_to(part, x) for part, x in zip((multiply(g, b), multiply(g, a), g), (a, b, c))]


def _std(call: Call, g: Expr) -> list[Any]:
    """(x - mean) / (n std); NaN where all elements are equal, as in torch."""
    x = call.args[0]
    axes = axes_attr(call, "axis", len(known_shape(x).values))
    count = sum_(ones_like(x), axis=None if axes is None else list(axes), keepdims=True)
    away = divide(subtract(x, kept_reduction(call, mean)), multiply(count, kept_reduction(call, std)))
    return [multiply(spread_back(call, g), away)]


def _others(x: Expr) -> Expr:
    """Product of the other elements along the last axis, exact also where elements are 0."""
    behind = flip(cumprod(flip(x, axis=-1), axis=-1, exclusive=True), axis=-1)
    return multiply(cumprod(x, axis=-1, exclusive=True), behind)


def _prod(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    shape = known_shape(x).values
    axes = axes_attr(call, "axis", len(shape))
    gone = list(range(len(shape))) if axes is None else sorted(axes)
    if not gone:
        return [g]
    kept = [a for a in range(len(shape)) if a not in gone]
    order = [*kept, *gone]
    moved = permute_dims(x, axes=order)
    lines = ShapeExpr((*[shape[a] for a in kept], product([shape[a] for a in gone])))
    back = reshape(_others(reshape(moved, lines)), ShapeExpr(tuple([shape[a] for a in order])))
    return [multiply(spread_back(call, g), permute_dims(back, axes=[order.index(a) for a in range(len(shape))]))]


def _cumprod(call: Call, g: Expr) -> list[Any]:
    """The product before i times r[i], r[i] = g[i] + x[i + 1] r[i + 1]: without division, so zeros are no exception."""
    x = call.args[0]
    shape = known_shape(x).values
    whole = attr(call, "axis") is None
    axis = 0 if whole else normal_axis(call, int_attr(call, "axis"), len(shape))
    order = [0] if whole else [axis, *[a for a in range(len(shape)) if a != axis]]
    sizes = [product(shape)] if whole else [shape[a] for a in order]
    lines = ShapeExpr((sizes[0], const(1, "int64"), product(sizes[1:])))
    flat: Expr = reshape(x, ShapeExpr((sizes[0],))) if whole else permute_dims(x, axes=order)
    values = reshape(flat, lines)
    flow = reshape(permute_dims(astype(g, x.ty.dtype), axes=order), lines)  # type: ignore[attr-defined]
    nothing = zeros_like(strided_slice(values, axes=[0], begin=[0], end=[1]))
    start = reshape(zeros_like(sum_(values, axis=[0])), ShapeExpr((const(1, "int64"), product(sizes[1:]))))

    def following(t: Expr) -> Expr:
        return concat(Tuple((strided_slice(t, axes=[0], begin=[1], end=[2**31 - 1]), nothing)), axis=0)

    if bool_attr(call, "exclusive"):
        behind = following(linear_recurrence(values, flow, start, reverse=True))
    else:
        behind = linear_recurrence(following(values), flow, start, reverse=True)
    made = reshape(multiply(cumprod(values, axis=0, exclusive=True), behind), ShapeExpr(tuple(sizes)))
    if whole:
        return [reshape(made, ShapeExpr(shape))]
    return [permute_dims(made, axes=[order.index(a) for a in range(len(shape))])]


def _median(call: Call, g: Expr) -> list[Any]:
    """To the chosen element; over several axes shared between the elements of that value."""
    x = call.args[0]
    axes = axes_attr(call, "axis", len(known_shape(x).values))
    if axes is None or len(axes) != 1:
        return extreme_rule("R.median")(call, g)
    flow: Expr = field_of(g, 0)
    place: Expr = TupleGetItem(call, 1)
    if not bool_attr(call, "keepdims"):
        flow, place = expand_dims(flow, axis=list(axes)), expand_dims(place, axis=list(axes))
    return [scatter_elements(zeros_like(x), place, flow, axis=axes[0])]


def _along(g: Expr, axis: int, rank: int, matrix: np.ndarray) -> Expr:
    """An axis multiplied by a matrix (size, wanted)."""
    order = [*[a for a in range(rank) if a != axis], axis]
    weights = constant(np.ascontiguousarray(matrix), g.ty.dtype)  # type: ignore[attr-defined]
    return permute_dims(matmul(permute_dims(g, axes=order), weights), axes=[order.index(a) for a in range(rank)])


def _linear(space: str, matrix: Callable[[Call, int, int, int], np.ndarray]) -> Rule:
    """The rule of an operator that multiplies axis n of the space by ``matrix(call, n, size, wanted)`` (wanted, size)."""
    standard = "NC" + space

    def rule(call: Call, g: Expr) -> list[Any]:
        x = call.args[0]
        before, after = operand_sizes(call, x), operand_sizes(call, g)
        flow: Expr = astype(g, x.ty.dtype)  # type: ignore[attr-defined]
        for n, axis in enumerate(layout_order(call, "layout", standard, standard)[2:]):
            flow = _along(flow, axis, len(before), matrix(call, n, before[axis], after[axis]))
        return [flow, *[None] * (len(call.args) - 1)]

    return rule


def _resize_matrix(call: Call, n: int, size: int, wanted: int) -> np.ndarray:
    """The weights of an axis, by resizing the identity."""
    options = {k: v for k, v in call.attrs.items() if k not in ("layout", "out_dtype", "scales")}
    scales: Sequence[float] | None = attr(call, "scales")
    meaning = resize1d.info.ref
    assert callable(meaning)
    return meaning(np.eye(size)[None], (wanted,), scales=None if scales is None else [scales[n]], **options)[0].T  # type: ignore[no-any-return]


def _pool_matrix(call: Call, n: int, size: int, wanted: int) -> np.ndarray:
    """The mean over a window per line."""
    made = np.zeros((wanted, size))
    for place in range(wanted):
        begin, end = place * size // wanted, -(-(place + 1) * size // wanted)
        made[place, begin:end] = 1 / (end - begin)
    return made


def _affine_grid(call: Call, g: Expr) -> list[Any]:
    """The grid is linear in the matrix: the gradient is that of the places times the places of the identity."""
    data, size = call.args
    batch, _, height, width = known_shape(g).values
    pixels, two = product((height, width)), const(2, "int64")
    unit = constant(np.eye(2, 3)[None], data.ty.dtype)  # type: ignore[attr-defined]
    places = sample.affine_grid(unit, size, align_corners=bool_attr(call, "align_corners", True))
    lines = permute_dims(reshape(places, ShapeExpr((two, pixels))), axes=[1, 0])
    lines = concat(Tuple((lines, ones_like(strided_slice(lines, axes=[1], begin=[0], end=[1])))), axis=1)
    return [matmul(reshape(g, ShapeExpr((batch, two, pixels))), lines), None]


def _dropout(call: Call, g: Expr) -> list[Any]:
    return [field_of(g, 0)]


def _repeated(call: Call, g: Expr) -> list[Any]:
    return [broadcast_to(g, known_shape(call.args[0])), *[None] * (len(call.args) - 1)]


def _same(call: Call, g: Expr) -> list[Any]:
    return [g]


_ROWS_OF = (channel, norm, pool, statistics)
"""Families whose rows must stand in the table first."""

ELEMENT_GRADIENTS: dict[str, Rule] = {
    "R.nn.gelu_tanh": unary_rule(_gelu_tanh),
    "R.nn.relu6": unary_rule(_relu6),
    "R.nn.selu": unary_rule(_selu),
    "R.nn.prelu": _prelu,
    "R.nn.dropout": _dropout,
    "R.atan2": binary_rule(_atan2),
    "R.log_add_exp": binary_rule(_log_add_exp),
    "R.mod": binary_rule(lambda g, a, b: (g, negative(multiply(g, trunc(divide(a, b)))))),
    "R.floor_mod": binary_rule(lambda g, a, b: (g, negative(multiply(g, floor_divide(a, b))))),
    "R.floor_divide": lambda call, g: [zeros_like(a) for a in call.args],
    "R.ewise_fma": _fma,
    "R.std": _std,
    "R.prod": _prod,
    "R.cumprod": _cumprod,
    "R.median": _median,
    "R.collapse_sum_to": _repeated,
    "R.collapse_sum_like": _repeated,
    **{f"R.image.resize{n}d": _linear("DHW"[3 - n :], _resize_matrix) for n in (1, 2, 3)},
    **{f"R.nn.adaptive_avg_pool{n}d": _linear("DHW"[3 - n :], _pool_matrix) for n in (1, 2, 3)},
    "R.image.affine_grid": _affine_grid,
    "R.hint_on_device": _same,
    "R.builtin.stop_lift_params": _same,
    "R.wrap_param": GRADIENTS["R.astype"],
}
GRADIENTS.update(ELEMENT_GRADIENTS)
for _name, _rule in ELEMENT_GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["ELEMENT_GRADIENTS"]
