"""Operators that gradients are made of: marks for the gradient pass, and backward steps of pooling, take and the log likelihood.

A mark is the identity. ``no_grad`` stops the gradient; between ``start_checkpoint`` and ``end_checkpoint`` values are computed
again in the backward pass instead of being kept. Windows and indices mean what they mean in the forward operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import te
from ..ir import build
from ..ir.buffer import Buffer
from ..ir.expr import Call, Var
from ..ir.op import Param
from ..ir.relation import dims, unequal_shapes
from ..ir.stmt import BufferStore, IfThenElse, Stmt, seq
from ..ir.types import Expr, Type
from .common.gradients import SECOND_DERIVATIVE, Rule, identity_grad, not_differentiable
from .common.loop_nests import loops, read
from .common.lowering import cast_tensor, compute_dtype, short_name
from .common.table import Operator, attribute, optional, rows
from .common.type_rules import (
    ONE,
    attr,
    bool_attr,
    choice_attr,
    fail,
    float_tensor,
    int_attr,
    normal_axis,
    same_dtype,
    tensor_arg,
)
from .manipulate.index import check_indexable, clamp_index, in_range, index_tensor
from .manipulate.manipulate import unravel
from .nn.conv import pad_widths, pads, spatial
from .nn.loss import check_targets
from .nn.pool import elements_within, pool_type, window_indices
from .nn.pool_indices import window_argmax
from .reduction.reduce import reduce_tensor

row = rows("grad")


def _mark(name: str, doc: str, grad: Rule = identity_grad) -> Operator:
    return row(
        f"grad.{name}",
        ("input",),
        lambda call: tensor_arg(call, 0, "input"),
        doc,
        lower=lambda call, x: te.compute(x.shape, lambda *i: x[i], name),
        ref=lambda x: x.copy(),
        grad=grad,
        samples="f32[2,3]",
    )


no_grad = _mark("no_grad", "Returns input and lets no gradient flow through it.", not_differentiable)
start_checkpoint = _mark(
    "start_checkpoint", "Returns input and begins a segment that the backward pass computes again."
)
end_checkpoint = _mark("end_checkpoint", "Returns input and ends a segment that the backward pass computes again.")


def _scatter_add(
    call: Call, like: te.Tensor, inputs: list[te.Tensor], add: Callable[[list[Buffer], Buffer], Stmt]
) -> te.Tensor:
    """A tensor like another that begins with zeros and is added to."""
    acc_dtype = compute_dtype(like.data_type)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        zero = loops(outs[0].shape, lambda i: BufferStore(outs[0], build.const(0.0, acc_dtype), tuple(i)), "z")
        return seq(zero, add(ins, outs[0]))

    result = te.extern(like.shape, inputs, emit, short_name(call), acc_dtype)
    return cast_tensor(result, like.data_type, "cast")


def _upcast_tensor(x: te.Tensor) -> te.Tensor:
    return cast_tensor(x, compute_dtype(x.data_type), "wide") if x.data_type.is_float else x


# ---- take


def _take_type(call: Call) -> Type:
    grad, x = float_tensor(call, 0, "output_grad"), float_tensor(call, 1, "x")
    indices = index_tensor(call, 2)
    same_dtype(call, grad, x)
    axis = normal_axis(call, int_attr(call, "axis"), x.ndim)
    known, flow, picked = dims(x), dims(grad), dims(indices)
    if known is not None and flow is not None and picked is not None:
        wanted = (*known[:axis], *picked, *known[axis + 1 :])
        if unequal_shapes(flow, wanted):
            raise fail(call, "E213", f"output_grad {grad} does not fit x {x} at indices {indices}", arg=0)
        check_indexable(call, axis, known[axis], picked, 1)
    return x


def _take(call: Call, grad: te.Tensor, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    axis, rank = normal_axis(call, int_attr(call, "axis"), x.ndim), indices.ndim

    def add(ins: list[Buffer], out: Buffer) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            position = in_range(te.Value(read(ins[1], i[axis : axis + rank])), out.shape[axis]).expr
            index: list[Expr] = [*i[:axis], position, *i[axis + rank :]]
            return BufferStore(out, read(out, index) + read(ins[0], i), tuple(index))

        return loops(ins[0].shape, body)

    return _scatter_add(call, x, [_upcast_tensor(grad), indices], add)


def _take_ref(grad: np.ndarray, x: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
    result = np.zeros(x.shape, np.float64)
    axis %= x.ndim
    index = clamp_index(indices, x.shape[axis])
    for position in np.ndindex(*grad.shape):
        target = (*position[:axis], int(index[position[axis : axis + indices.ndim]]), *position[axis + indices.ndim :])
        result[target] += grad[position]
    return result.astype(x.dtype)


take_backward = row(
    "grad.take_backward",
    ("output_grad", "x", "indices", attribute("axis", 0)),
    _take_type,
    "Returns the gradient of take with respect to x.",
    lower=_take,
    ref=_take_ref,
    grad=SECOND_DERIVATIVE,
    samples="f32[2,2,3], f32[4,3], i64([[0,2],[2,-1]]); f32[2,3], f32[2,4], i64([1,9,1]), axis=-1",
)


# ---- pooling


def _pool_backward_type(call: Call) -> Type:
    grad, x = float_tensor(call, 0, "output_grad"), float_tensor(call, 1, "data")
    same_dtype(call, grad, x)
    if attr(call, "layout") != "NCHW":
        raise fail(call, "E214", f"layout must be NCHW, got {attr(call, 'layout')!r}", "use R.permute_dims before")
    forward = pool_type(2)(Call(call.op, (call.args[1],), call.attrs, (), x, call.span))
    flow, wanted = dims(grad), dims(forward)
    if flow is not None and wanted is not None and unequal_shapes(flow, wanted):
        raise fail(call, "E213", f"output_grad {grad} is not of the type of the output, {forward}", arg=0)
    return x


def _max_pool_backward(call: Call, grad: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Each gradient goes to the element its window chose."""
    positions = window_argmax(call, x, grad.shape)[1]

    def add(ins: list[Buffer], out: Buffer) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            position = te.Value(read(ins[1], i))
            height, width = unravel(position, out.shape[2:])
            index = [i[0], i[1], te.unwrap(height), te.unwrap(width)]
            more = BufferStore(out, read(out, index) + read(ins[0], i), tuple(index))
            return IfThenElse(te.unwrap(position >= 0), more)

        return loops(ins[0].shape, body)

    return _scatter_add(call, x, [_upcast_tensor(grad), positions], add)


def _avg_pool_backward(call: Call, grad: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Each gradient is shared out over its window."""
    kernel, strides, dilation = [spatial(call, n, 2) for n in ("pool_size", "strides", "dilation")]
    before, after = pads(call, 2)
    counted = bool_attr(call, "count_include_pad")
    acc_dtype = compute_dtype(x.data_type)

    def add(ins: list[Buffer], out: Buffer) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            *index, r, s = i
            count: Expr = ONE
            window_index, inside = [], []
            for n, k in enumerate((r, s)):
                start = index[2 + n] * strides[n] - before[n]
                position = start + k * dilation[n]
                window_index.append(position)
                inside += [build.ge(position, 0), build.lt(position, out.shape[2 + n])]
                size = out.shape[2 + n]
                low, high = (-before[n], size + after[n]) if counted else (0, size)
                count = count * elements_within(te.Value(start), kernel[n], dilation[n], low, high).expr
            share = build.div(read(ins[0], index), build.cast(build.maximum(count, 1), acc_dtype))
            target = (index[0], index[1], *window_index)
            in_window = build.logical_and(
                build.logical_and(inside[0], inside[1]), build.logical_and(inside[2], inside[3])
            )
            return IfThenElse(in_window, BufferStore(out, read(out, target) + share, target))

        return loops((*ins[0].shape, *[build.const(k, "int64") for k in kernel]), body)

    return _scatter_add(call, x, [_upcast_tensor(grad)], add)


def _pool_ref(largest: bool) -> Callable[..., np.ndarray]:
    def ref(
        grad: np.ndarray,
        x: np.ndarray,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = "NCHW",
        out_layout: str | None = None,
    ) -> np.ndarray:
        result, spans, border = np.zeros(x.shape, np.float64), x.shape[2:], pad_widths(padding, 2)
        positions = window_indices(spans, pool_size, strides, dilation, border, ceil_mode)
        for index in np.ndindex(*grad.shape):
            lines = [axis[o].tolist() for axis, o in zip(positions, index[2:])]
            window = [p for p in itertools.product(*lines) if all([0 <= v < m for v, m in zip(p, spans)])]
            if largest:
                values = [x[(*index[:2], *p)] for p in window]
                nan = [n for n, v in enumerate(values) if v != v]
                if window:
                    result[(*index[:2], *window[nan[-1] if nan else int(np.argmax(values))])] += grad[index]
                continue
            bounds = [(-border[n], spans[n] + border[2 + n]) if count_include_pad else (0, spans[n]) for n in range(2)]
            sizes = [sum([a <= v < b for v in line]) for line, (a, b) in zip(lines, bounds)]
            for p in window:
                result[(*index[:2], *p)] += grad[index] / max(sizes[0] * sizes[1], 1)
        return result.astype(x.dtype)

    return ref


def _pool_row(largest: bool) -> Operator:
    params: list[Param | str] = ["output_grad", "data", attribute("pool_size", (1, 1)), attribute("strides", (1, 1))]
    params += [attribute("padding", (0, 0)), attribute("dilation", (1, 1)), attribute("ceil_mode", False)]
    params += [attribute("count_include_pad", False), attribute("layout", "NCHW"), attribute("out_layout", None)]
    name = "max" if largest else "avg"
    return row(
        f"grad.{name}_pool2d_backward",
        params,
        _pool_backward_type,
        f"Returns the gradient of nn.{name}_pool2d with respect to data, for layout NCHW.",
        lower=_max_pool_backward if largest else _avg_pool_backward,
        ref=_pool_ref(largest),
        grad=SECOND_DERIVATIVE,
        samples="f32[1,2,3,3], f32[1,2,5,4], pool_size=2, strides=2, padding=1; "
        "f32[1,1,3,4], f32[1,1,4,5], pool_size=2, count_include_pad=True; "
        "f32[1,1,4,5], f32[1,1,4,5], pool_size=2, dilation=2, padding=1",
    )


max_pool2d_backward, avg_pool2d_backward = [_pool_row(largest) for largest in (True, False)]


# ---- negative log likelihood


def _nll_type(call: Call) -> Type:
    grad, x = float_tensor(call, 0, "output_grad"), float_tensor(call, 1, "predictions")
    same_dtype(call, grad, x)
    check_targets(
        call, x, index_tensor(call, 2, "targets"), float_tensor(call, 3, "weights", 1) if len(call.args) > 3 else None
    )
    choice_attr(call, "reduction", ("mean", "sum", "none"))
    return x


def _nll(call: Call, grad: te.Tensor, x: te.Tensor, targets: te.Tensor, weights: te.Tensor | None = None) -> te.Tensor:
    axis = 0 if x.ndim == 1 else 1
    ignored, reduction = int_attr(call, "ignore_index"), attr(call, "reduction")
    acc_dtype = compute_dtype(x.data_type)

    def weight(*i: te.Value) -> te.Value:
        target = targets[i]
        value = (
            te.const(1, acc_dtype) if weights is None else weights[in_range(target, x.shape[axis])].astype(acc_dtype)
        )
        return te.select(target.astype("int64") == ignored, 0, value)

    factor = te.compute(targets.shape, weight, "target_weight")
    axes = list(range(targets.ndim))
    total = reduce_tensor(factor, axes, False, te.sum, lambda v, _: v, "weight_sum") if reduction == "mean" else None

    def body(*i: te.Value) -> te.Value:
        index = [v for n, v in enumerate(i) if n != axis]
        hit = in_range(targets[index], x.shape[axis]) == i[axis]
        flow = grad[index] if reduction == "none" else grad[()]
        flow = flow.astype(acc_dtype) * factor[index]
        flow = flow if total is None else flow / total[()]
        return te.select(hit, 0 - flow, 0).astype(x.dtype)

    return te.compute(x.shape, body, short_name(call))


def _nll_ref(
    grad: np.ndarray,
    x: np.ndarray,
    targets: np.ndarray,
    weights: Any = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> np.ndarray:
    axis = 0 if x.ndim == 1 else 1
    count = x.shape[axis]
    safe = clamp_index(targets, count)
    factor = (np.ones(count) if weights is None else weights.astype(np.float64))[safe]
    factor = np.where(targets == ignore_index, 0.0, factor)
    with np.errstate(all="ignore"):
        flow = grad.astype(np.float64) * factor / (factor.sum() if reduction == "mean" else 1)
    result = np.zeros(x.shape)
    np.put_along_axis(result, np.expand_dims(safe, axis), -np.expand_dims(flow, axis), axis)
    return result.astype(x.dtype)


nll_loss_backward = row(
    "grad.nll_loss_backward",
    (
        "output_grad",
        "predictions: log probabilities (batch, classes, ...) or (classes,)",
        "targets",
        optional("weights"),
        attribute("reduction", "mean", doc='"mean", "sum" or "none"'),
        attribute("ignore_index", -100),
    ),
    _nll_type,
    "Returns the gradient of nn.nll_loss with respect to predictions.",
    lower=_nll,
    ref=_nll_ref,
    grad=SECOND_DERIVATIVE,
    samples="f32[()], f32[4,3], i64([0,2,-100,1]); "
    "f32[2,2], f32[2,3,2], i64([[0,2],[1,1]]), f32[3](0.2,2), reduction='none', ignore_index=1",
)
