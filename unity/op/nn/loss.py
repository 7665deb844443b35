"""Losses: negative log likelihood. Sums of narrow floats are taken in float32.

A target below 0 counts from the end and one outside is clamped, as everywhere (``op/manipulate/index.py``); the ignored one
counts nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir.expr import Call
from ...ir.relation import dims, tensor_type, unequal, unequal_shapes
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import dtype_of, number_like, operand_shape
from ..common.lowering import cast_tensor, compute_dtype, result_dtype, upcast
from ..common.table import R, attribute, constant, optional, rows
from ..common.type_rules import attr, choice_attr, fail, float_tensor, int_attr, same_dtype
from ..manipulate.index import check_indexable, clamp_index, in_range, index_tensor
from ..reduction.reduce import reduce_tensor

row = rows("nn")
_REDUCTIONS = ("mean", "sum", "none")


def _nll_type(call: Call) -> Type:
    x, targets = float_tensor(call, 0, "predictions"), index_tensor(call, 1, "targets")
    weights = float_tensor(call, 2, "weights", 1) if len(call.args) > 2 else None
    dtype = same_dtype(call, x, weights) if weights is not None else x.dtype
    choice_attr(call, "reduction", _REDUCTIONS)
    int_attr(call, "ignore_index")
    if x.ndim == 0 or (x.ndim != -1 and targets.ndim != -1 and targets.ndim != x.ndim - 1):
        raise fail(
            call, "E212", f"targets must have one axis less than predictions, got ranks {targets.ndim} and {x.ndim}"
        )
    check_targets(call, x, targets, weights)
    if attr(call, "reduction") == "none":
        return TensorType(targets.shape, dtype, targets.ndim, x.vdevice)
    return tensor_type((), dtype, vdevice=x.vdevice)


def check_targets(call: Call, x: TensorType, targets: TensorType, weights: TensorType | None) -> None:
    """Check that targets are class indices, and that each class has a weight. Raises E213; unknown: a requirement."""
    known, wanted = dims(x), dims(targets)
    if known is not None:
        axis = 0 if len(known) == 1 else 1
        rest = known[:axis] + known[axis + 1 :]
        if wanted is not None:
            check_indexable(call, axis, known[axis], wanted)
        if wanted is not None and unequal_shapes(rest, wanted):
            raise fail(
                call,
                "E213",
                f"targets of shape {targets.shape} do not fit predictions {x.shape}",
            )
        classes = dims(weights) if weights is not None else None
        if classes is not None and unequal(classes[0], known[axis]):
            raise fail(call, "E213", f"{classes[0]} weights for {known[axis]} classes")


def _nll(call: Call, x: te.Tensor, targets: te.Tensor, weights: te.Tensor | None = None) -> te.Tensor:
    axis = 0 if x.ndim == 1 else 1
    ignored = int_attr(call, "ignore_index")
    acc_dtype = compute_dtype(result_dtype(call)).name

    def weight(*i: te.Value) -> te.Value:
        target = targets[i]
        value = te.const(1, acc_dtype) if weights is None else upcast(weights[in_range(target, x.shape[axis])])
        return te.select(target.astype("int64") == ignored, 0, value)

    def loss(*i: te.Value) -> te.Value:
        index = [*i[:axis], in_range(targets[i], x.shape[axis]), *i[axis:]]
        counted = targets[i].astype("int64") == ignored
        return te.select(counted, 0, 0 - upcast(x[index]) * factor[i])

    factor = te.compute(targets.shape, weight, "target_weight")
    result = te.compute(targets.shape, loss, "nll_loss")
    axes = list(range(targets.ndim))
    reduction = attr(call, "reduction")
    if reduction != "none":
        result = reduce_tensor(result, axes, False, te.sum, lambda v, _: v, "nll_sum")
    if reduction == "mean":
        total, count = result, reduce_tensor(factor, axes, False, te.sum, lambda v, _: v, "weight_sum")
        result = te.compute((), lambda: total[()] / count[()], "nll_mean")
    return cast_tensor(result, result_dtype(call), "nll_cast")


def _nll_ref(
    x: np.ndarray, targets: np.ndarray, weights: Any = None, reduction: str = "mean", ignore_index: int = -100
) -> np.ndarray:
    axis = 0 if x.ndim == 1 else 1
    count = x.shape[axis]
    x64, index = x.astype(np.float64), targets.astype(np.int64)
    safe = clamp_index(index, count)
    factor = np.ones(count) if weights is None else weights.astype(np.float64)
    used = np.where(index == ignore_index, 0.0, factor[safe])
    picked = np.squeeze(np.take_along_axis(x64, np.expand_dims(safe, axis), axis), axis)
    with np.errstate(all="ignore"):
        loss = np.where(index == ignore_index, 0.0, -picked * used)
        result = {"none": loss, "sum": loss.sum(), "mean": loss.sum() / used.sum()}[reduction]
    return np.asarray(result).astype(x.dtype)


def _nll_grad(call: Call, g: Expr) -> list[Any]:
    """Of the predictions; targets are taken to be in range, the class weights to be fixed."""
    x, targets = call.args[0], call.args[1]
    shape = operand_shape(call, x)
    axis = 0 if len(shape) == 1 else 1
    kind = dtype_of(targets)
    spread = tuple([shape[a] if a == axis else 1 for a in range(len(shape))])
    expanded = R.expand_dims(targets, axis=[axis])
    hit = R.equal(expanded, R.reshape(R.astype(R.arange(shape[axis]), kind), spread))
    hit = R.logical_and(hit, R.not_equal(expanded, constant(int_attr(call, "ignore_index"), kind)))
    weight = R.reshape(call.args[2], spread) if len(call.args) > 2 else number_like(1.0, x)
    factor = R.where(hit, weight, 0.0)
    reduction = attr(call, "reduction")
    flow = R.expand_dims(g, axis=[axis]) if reduction == "none" else g
    result = -(factor * flow)
    return [result / R.sum(factor) if reduction == "mean" else result, *[None] * (len(call.args) - 1)]


nll_loss = row(
    "nn.nll_loss",
    (
        "predictions: log probabilities (batch, classes, ...) or (classes,)",
        "targets: class of each element, integers (batch, ...)",
        optional("weights", doc="weight of each class (classes,); None: ones"),
        attribute("reduction", "mean", doc='"mean", "sum" or "none"'),
        attribute("ignore_index", -100, doc="the target that is left out"),
    ),
    _nll_type,
    "Returns minus the log probability of each target class, weighted; the mean divides by the sum of the weights.",
    lower=_nll,
    ref=_nll_ref,
    grad=_nll_grad,
    samples="f32[4,3], i64([0,2,-100,1]), f32[3](0.2,2), reduction=each('mean', 'sum', 'none'); "
    "f32[2,3,2,2], i32[2,2,2](0,3), reduction=each('mean', 'none'), ignore_index=1; "
    "f32[3], i32(2); f32[2,3], i64([-100,-100])",
)
