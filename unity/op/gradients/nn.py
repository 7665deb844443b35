"""Gradients of normalisations, convolutions, pooling, losses and of reading by index. The others: rules.py.

They need shapes known at compile time where a size decides the form of the result (convolution, pooling, slices).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.expr import Call, IntImm, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.types import Expr, TensorType, TupleType
from ..common.table import OPERATORS, Operator, constant
from ..common.type_rules import attr, axes_attr, bool_attr, fail, int_attr, normal_axis
from ..elementwise.binary import add, divide, equal, floor_mod, multiply, not_equal, subtract, where
from ..elementwise.unary import exp, negative, rsqrt, sigmoid, square
from ..linalg.contraction import parse_subscripts
from ..manipulate import index, scatter_loops as scan
from ..manipulate.create import arange, astype, ones, ones_like, zeros, zeros_like
from ..manipulate.manipulate import broadcast_to, expand_dims, flip, permute_dims, reshape
from ..manipulate.scatter import slice_scatter
from ..manipulate.slicing import concat, slice_plan, split, strided_slice
from ..nn import channel, channel_norm, conv_transpose, loss, norm, pool
from ..reduction import statistics
from ..reduction.reduce import mean, sum_
from .parts import operand_shape, operand_sizes
from .rules import GRADIENTS, Rule


def _op(name: str) -> Operator:
    return OPERATORS[name]


def _const(value: float, like: Expr) -> Expr:
    assert isinstance(like.ty, TensorType)
    return constant(value, like.ty.dtype)


def _fields(value: Expr) -> list[Expr]:
    if type(value) is Tuple:
        return list(value.fields)
    assert isinstance(value.ty, TupleType)
    return [TupleGetItem(value, n) for n in range(len(value.ty.fields))]


def _sum_but(x: Expr, kept: Sequence[int], rank: int) -> Expr:
    gone = [a for a in range(rank) if a not in kept]
    return sum_(x, axis=gone) if gone else x


def _moments(x: Expr, axes: Sequence[int], eps: float, centred: bool) -> tuple[Expr, Expr]:
    """The normalised tensor and 1 / deviation."""
    away = subtract(x, mean(x, axis=list(axes), keepdims=True)) if centred else x
    inverse = rsqrt(add(mean(square(away), axis=list(axes), keepdims=True), _const(eps, x)))
    return multiply(away, inverse), inverse


def _through_moments(g: Expr, normal: Expr, inverse: Expr, axes: Sequence[int], centred: bool) -> Expr:
    part = multiply(normal, mean(multiply(g, normal), axis=list(axes), keepdims=True))
    rest = subtract(g, part)
    return multiply(inverse, subtract(rest, mean(g, axis=list(axes), keepdims=True)) if centred else rest)


def _norm(centred: bool) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        x, gamma = call.args[0], call.args[1]
        shape = operand_shape(call, x)
        axes = sorted(axes_attr(call, "axes", len(shape)) or ())
        normal, inverse = _moments(x, axes, float(attr(call, "epsilon", 1e-5)), centred)
        scale = bool_attr(call, "scale", True)
        wide = reshape(gamma, tuple([shape[a] if a in axes else 1 for a in range(len(shape))]))
        made = [_through_moments(multiply(g, wide) if scale else g, normal, inverse, axes, centred)]
        made.append(_sum_but(multiply(g, normal), axes, len(shape)) if scale else zeros_like(gamma))
        if centred:
            made.append(_sum_but(g, axes, len(shape)) if bool_attr(call, "center", True) else zeros_like(call.args[2]))
        return made

    return rule


def _channel_norm(call: Call, g: Expr) -> list[Any]:
    """group_norm and instance_norm: the parameters belong to the channels, the moments to groups or axes."""
    x, gamma, beta = call.args
    shape = operand_shape(call, x)
    rank = len(shape)
    channel = normal_axis(call, int_attr(call, "channel_axis", 1), rank)
    eps, scale = float(attr(call, "epsilon", 1e-5)), bool_attr(call, "scale", True)
    spread = tuple([shape[a] if a == channel else 1 for a in range(rank)])
    weighted = multiply(g, reshape(gamma, spread)) if scale else g
    if call.attrs.get("num_groups") is not None:
        groups, sizes = int_attr(call, "num_groups"), operand_sizes(call, x)
        parts = (*sizes[:channel], groups, sizes[channel] // groups, *sizes[channel + 1 :])
        axes = [a for a in range(1, rank + 1) if a != channel]
        normal, inverse = _moments(reshape(x, parts), axes, eps, True)
        data: Expr = reshape(_through_moments(reshape(weighted, parts), normal, inverse, axes, True), shape)
        normal = reshape(normal, shape)
    else:
        axes = sorted(axes_attr(call, "axes", rank) or ())
        normal, inverse = _moments(x, axes, eps, True)
        data = _through_moments(weighted, normal, inverse, axes, True)
    first = _sum_but(multiply(g, normal), [channel], rank) if scale else zeros_like(gamma)
    return [data, first, _sum_but(g, [channel], rank) if bool_attr(call, "center", True) else zeros_like(beta)]


def _batch_norm(call: Call, g: Expr) -> list[Any]:
    x, gamma, beta, center, spread = call.args
    shape = operand_shape(call, x)
    axis = normal_axis(call, int_attr(call, "axis", 1), len(shape))
    wide = tuple([shape[a] if a == axis else 1 for a in range(len(shape))])
    out, through_mean, through_spread = _fields(g)
    if bool_attr(call, "training", False):
        return _batch_norm_in_training(call, out, through_mean, through_spread, wide)
    inverse = rsqrt(add(spread, _const(float(attr(call, "epsilon", 1e-5)), x)))
    away = subtract(x, reshape(center, wide))
    scale = multiply(gamma, inverse) if bool_attr(call, "scale", True) else inverse
    total = _sum_but(out, [axis], len(shape))
    moved = _sum_but(multiply(out, away), [axis], len(shape))
    return [
        multiply(out, reshape(scale, wide)),
        multiply(moved, inverse) if bool_attr(call, "scale", True) else zeros_like(gamma),
        total if bool_attr(call, "center", True) else zeros_like(beta),
        subtract(through_mean, multiply(total, scale)),
        subtract(through_spread, multiply(multiply(moved, _const(0.5, x)), multiply(scale, square(inverse)))),
    ]


def _batch_norm_in_training(call: Call, g: Expr, through_mean: Expr, through_spread: Expr, wide: Any) -> list[Any]:
    """The moments are those of the data; the given ones reach only the statistics handed on."""
    x, gamma, beta = call.args[:3]
    axes = norm.other_axes(call, len(wide))
    channel, share = [a for a in range(len(wide)) if a not in axes], float(attr(call, "momentum", 0.1))
    eps, scale = float(attr(call, "epsilon", 1e-5)), bool_attr(call, "scale", True)
    normal, inverse = _moments(x, axes, eps, True)
    data = _through_moments(multiply(g, reshape(gamma, wide)) if scale else g, normal, inverse, axes, True)
    each = divide(_const(share, x), _sum_but(ones_like(x), channel, len(wide)))
    away = multiply(divide(normal, inverse), _const(2.0, x))
    moved = add(
        reshape(multiply(through_mean, each), wide), multiply(reshape(multiply(through_spread, each), wide), away)
    )
    return [
        add(data, moved),
        _sum_but(multiply(g, normal), channel, len(wide)) if scale else zeros_like(gamma),
        _sum_but(g, channel, len(wide)) if bool_attr(call, "center", True) else zeros_like(beta),
        multiply(through_mean, _const(1 - share, x)),
        multiply(through_spread, _const(1 - share, x)),
    ]


def _numbers(call: Call, name: str, rank: int) -> list[int]:
    value = attr(call, name)
    value = (value,) if isinstance(value, int) else value
    return list(value) * rank if len(value) == 1 else list(value)


def _plan(call: Call, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilation and full padding; only the standard layouts have a gradient."""
    space = "DHW"[3 - rank :]
    for name in ("data_layout", "layout", "out_layout"):
        if attr(call, name) not in (None, "", "NC" + space):
            raise fail(call, "E214", f"the gradient needs {name} NC{space}, got {attr(call, name)!r}")
    border = _numbers(call, "padding", rank)
    return (
        _numbers(call, "strides", rank),
        _numbers(call, "dilation", rank),
        border * 2 if len(border) == rank else border,
    )


def _left_over(
    size: Sequence[int], out: Sequence[int], taps: Sequence[int], plan: tuple[list[int], list[int], list[int]]
) -> list[int]:
    """The padding that a transposed convolution must add to give the size back."""
    strides, dilation, border = plan
    rank = len(size)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, strides, taps, dilation)]
    return [n + border[i] + border[rank + i] - r for i, (n, r) in enumerate(zip(size, reach))]


def _weight_grad(
    call: Call, x: Expr, g: Expr, taps: list[int], plan: tuple[list[int], list[int], list[int]], groups: int
) -> Expr:
    """Gradient of the (O, I / groups, taps) weight: a convolution of the data by the gradient, batch and channels swapped."""
    strides, dilation, border = plan
    rank = len(taps)
    swap = [1, 0, *range(2, rank + 2)]
    sources, grads = [[t] if groups == 1 else _fields(split(t, groups, axis=1)) for t in (x, g)]
    made = []
    for a, b in zip(sources, grads):
        turned = [permute_dims(t, axes=swap) for t in (a, b)]
        part = _op(f"R.nn.conv{rank}d")(*turned, strides=dilation, dilation=strides, padding=border)
        axes = list(range(2, rank + 2))
        made.append(permute_dims(strided_slice(part, axes=axes, begin=[0] * rank, end=taps), axes=swap))
    return made[0] if groups == 1 else concat(Tuple(tuple(made)), axis=0)


def _conv(rank: int, transposed: bool) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        x, w = call.args
        plan, groups = _plan(call, rank), int_attr(call, "groups", 1)
        wanted = ("IO" if transposed else "OI") + "DHW"[3 - rank :]
        if attr(call, "kernel_layout", wanted) != wanted:
            raise fail(call, "E214", f"the gradient needs kernel_layout {wanted}, got {attr(call, 'kernel_layout')!r}")
        size, out, taps = operand_sizes(call, x)[2:], operand_sizes(call, g)[2:], operand_sizes(call, w)[2:]
        options: dict[str, Any] = {"strides": plan[0], "dilation": plan[1], "padding": plan[2], "groups": groups}
        if not transposed:
            extra = _left_over(size, out, taps, plan)
            data = _op(f"R.nn.conv{rank}d_transpose")(g, w, output_padding=extra, **options)
            return [data, _weight_grad(call, x, g, taps, plan, groups)]
        data = _op(f"R.nn.conv{rank}d")(g, w, **options)
        data = strided_slice(data, axes=list(range(2, rank + 2)), begin=[0] * rank, end=size)
        return [data, _weight_grad(call, g, x, taps, plan, groups)]

    return rule


def _pool(rank: int, largest: bool) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        """The maximum's gradient is shared equally between the places that attain it."""
        x = call.args[0]
        plan = _plan(call, rank)
        strides, dilation, border = plan
        if bool_attr(call, "ceil_mode"):
            raise fail(call, "E214", "the gradient needs ceil_mode=False")
        sizes, out, taps = operand_sizes(call, x), operand_sizes(call, g)[2:], _numbers(call, "pool_size", rank)
        batch, dtype = sizes[0] * sizes[1], x.ty.dtype  # type: ignore[attr-defined]
        options: dict[str, Any] = {"strides": strides, "dilation": dilation, "padding": border}
        extra = _left_over(sizes[2:], out, taps, plan)
        lines, flow = reshape(x, (batch, 1, *sizes[2:])), reshape(g, (batch, 1, *out))
        if largest:
            kernel: Expr = constant(np.eye(math.prod(taps)).reshape(-1, 1, *taps).astype(dtype.numpy))
            widths = [0, 0, 0, 0, *[v for i in range(rank) for v in (border[i], border[rank + i])]]
            padded = _op("R.nn.pad")(lines, pad_width=widths, pad_value=-math.inf)
            best, axes, hits = reshape(call, (batch, 1, *out)), list(range(2, rank + 2)), []
            for tap in itertools.product(*[range(k) for k in taps]):
                begin = [t * d for t, d in zip(tap, dilation)]
                end = [b + (o - 1) * s + 1 for b, o, s in zip(begin, out, strides)]
                hits.append(
                    astype(equal(strided_slice(padded, axes=axes, begin=begin, end=end, strides=strides), best), dtype)
                )
            hit = concat(Tuple(tuple(hits)), axis=1)
            flow = multiply(hit, divide(flow, sum_(hit, axis=[1], keepdims=True)))
        else:
            kernel = ones((1, 1, *taps), dtype=dtype.name)
            if bool_attr(call, "count_include_pad") or not any(border):
                count: Expr = _const(float(math.prod(taps)), x)
            else:
                count = _op(f"R.nn.conv{rank}d")(ones((1, 1, *sizes[2:]), dtype=dtype.name), kernel, **options)
            flow = divide(flow, count)
        made = _op(f"R.nn.conv{rank}d_transpose")(flow, kernel, output_padding=extra, **options)
        return [reshape(made, tuple(sizes))]

    return rule


def _take(call: Call, g: Expr) -> list[Any]:
    x, indices = call.args
    shape = operand_shape(call, x)
    mode = attr(call, "mode", "fast")
    if not isinstance(indices.ty, TensorType) or mode == "nan":
        raise fail(call, "E214", "the gradient needs an index tensor and mode fast, clip or wrap")
    axis = 0 if attr(call, "axis") is None else normal_axis(call, int_attr(call, "axis"), len(shape))
    rank = len(operand_shape(call, indices))
    if mode == "wrap":
        indices = floor_mod(indices, constant(operand_sizes(call, x)[axis], indices.ty.dtype))
    order = [axis, *[a for a in range(len(shape)) if a != axis]]
    values = permute_dims(g, axes=[*range(axis, axis + rank), *range(axis), *range(axis + rank, len(shape) - 1 + rank)])
    base = zeros(tuple([shape[a] for a in order]), dtype=x.ty.dtype.name)  # type: ignore[attr-defined]
    made = _op("R.index_put")(base, Tuple((indices,)), values, accumulate=True)
    return [permute_dims(made, axes=[order.index(a) for a in range(len(shape))]), None]


def _cumsum(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    axis = attr(call, "axis")
    made = _op("R.cumsum")(flip(g, axis=axis or 0), axis=axis or 0, exclusive=bool_attr(call, "exclusive"))
    back = flip(made, axis=axis or 0)
    return [astype(reshape(back, operand_shape(call, x)) if axis is None else back, x.ty.dtype)]  # type: ignore[attr-defined]


def _slice(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    sizes = operand_sizes(call, x)
    made, before = g, [int(v.value) for v in operand_shape(call, g)]  # type: ignore[attr-defined]
    for axis, (start, count, step) in enumerate(slice_plan(call, operand_shape(call, x))):
        if step < 1 or type(start) is not IntImm or type(count) is not IntImm:
            raise fail(call, "E214", "the gradient needs constant bounds and positive strides")
        if count.value == sizes[axis]:
            continue
        before[axis] = sizes[axis]
        end = start.value + (count.value - 1) * step + 1 if count.value else start.value
        made = slice_scatter(zeros(tuple(before), dtype=x.ty.dtype.name), made, start.value, end, step, axis=axis)  # type: ignore[attr-defined]
    return [made]


def _gather(call: Call, g: Expr) -> list[Any]:
    x, indices = call.args
    return [_op("R.scatter_elements")(zeros_like(x), indices, g, axis=int_attr(call, "axis", 0), reduction="add"), None]


def _einsum(call: Call, g: Expr) -> list[Any]:
    source = call.args[0]
    operands = _fields(source)
    count = len(operands)
    labels, output = parse_subscripts(call, [len(operand_shape(call, x)) for x in operands])
    letters = {c: chr(ord("a") + n) for n, c in enumerate(dict.fromkeys([c for names in labels for c in names]))}
    made = []
    for k, x in enumerate(operands):
        shape = operand_shape(call, x)
        if len(set(labels[k])) != len(labels[k]) or any([getattr(d, "value", 0) == 1 for d in shape]):
            raise fail(call, "E214", "the gradient needs different labels within an operand, and no axis of size 1")
        others = [n for n in range(count) if n != k]
        known = {c for n in others for c in labels[n]} | set(output)
        terms = [output, *[labels[n] for n in others]]
        kept = [c for c in labels[k] if c in known]
        text = ",".join(["".join([letters[c] for c in names]) for names in terms])
        part = _op("R.einsum")(
            Tuple((g, *[operands[n] for n in others])), subscripts=f"{text}->{''.join([letters[c] for c in kept])}"
        )
        missing = [a for a, c in enumerate(labels[k]) if c not in known]
        made.append(broadcast_to(expand_dims(part, axis=missing), shape) if missing else part)
    return [Tuple(tuple(made))]


def _nll(call: Call, g: Expr) -> list[Any]:
    """Of the predictions; targets are taken to be in range, the class weights to be fixed."""
    x, targets = call.args[0], call.args[1]
    shape = operand_shape(call, x)
    axis = 0 if len(shape) == 1 else 1
    kind = targets.ty.dtype  # type: ignore[attr-defined]
    spread = tuple([shape[a] if a == axis else 1 for a in range(len(shape))])
    wide = expand_dims(targets, axis=[axis])
    hit = equal(wide, reshape(astype(arange(shape[axis]), kind), spread))
    hit = _op("R.logical_and")(hit, not_equal(wide, constant(int_attr(call, "ignore_index", -100), kind)))
    weight = reshape(call.args[2], spread) if len(call.args) > 2 else _const(1.0, x)
    factor = where(hit, weight, _const(0.0, x))
    reduction = attr(call, "reduction", "mean")
    flow = expand_dims(g, axis=[axis]) if reduction == "none" else g
    made = negative(multiply(factor, flow))
    return [divide(made, sum_(factor)) if reduction == "mean" else made, *[None] * (len(call.args) - 1)]


def _cross_entropy(call: Call, g: Expr) -> list[Any]:
    x, labels = call.args
    scale = negative(divide(g, _const(float(operand_sizes(call, x)[0]), x)) if len(operand_shape(call, x)) > 1 else g)
    return [multiply(labels, scale), multiply(x, scale)]


def _logsumexp(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    rank = len(operand_shape(call, x))
    axes = axes_attr(call, "axis", rank)
    gone = list(range(rank)) if axes is None else sorted(axes)
    total = _op("R.logsumexp")(x, axis=gone, keepdims=True)
    flow = g if bool_attr(call, "keepdims") or not gone else expand_dims(g, axis=gone)
    return [multiply(flow, exp(subtract(x, total)))]


def _softplus(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    return [multiply(g, sigmoid(multiply(x, _const(float(attr(call, "beta", 1.0)), x))))]


def _flip(call: Call, g: Expr) -> list[Any]:
    return [flip(g, axis=attr(call, "axis"))]


def _outer(call: Call, g: Expr) -> list[Any]:
    return [_op("R.matmul")(g, call.args[1]), _op("R.matmul")(call.args[0], g)]


_ROWS_OF = (channel, channel_norm, conv_transpose, index, loss, norm, pool, scan, statistics)
"""Families whose rows must stand in the table before the gradients are put into them."""

NN_GRADIENTS: dict[str, Callable[[Call, Expr], list[Any]]] = {
    "R.nn.layer_norm": _norm(True),
    "R.nn.rms_norm": _norm(False),
    "R.nn.group_norm": _channel_norm,
    "R.nn.instance_norm": _channel_norm,
    "R.nn.batch_norm": _batch_norm,
    **{f"R.nn.conv{n}d": _conv(n, False) for n in (1, 2, 3)},
    **{f"R.nn.conv{n}d_transpose": _conv(n, True) for n in (1, 2, 3)},
    **{f"R.nn.max_pool{n}d": _pool(n, True) for n in (1, 2, 3)},
    **{f"R.nn.avg_pool{n}d": _pool(n, False) for n in (1, 2, 3)},
    "R.take": _take,
    "R.cumsum": _cumsum,
    "R.strided_slice": _slice,
    "R.gather_elements": _gather,
    "R.einsum": _einsum,
    "R.outer": _outer,
    "R.flip": _flip,
    "R.nn.nll_loss": _nll,
    "R.nn.cross_entropy_with_logits": _cross_entropy,
    "R.logsumexp": _logsumexp,
    "R.nn.softplus": _softplus,
}
GRADIENTS.update(NN_GRADIENTS)
for _name, _rule in NN_GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["NN_GRADIENTS"]
