"""Table entries: losses and distances."""

from __future__ import annotations

from .... import op
from ....ir.types import Expr
from ..context.context import (
    Args,
    Context,
    Result,
    aten,
    dtype_of,
    has_none,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
    to_dim,
)
from .reduce import norm
from .rounding import rounded_once


def _reduced(x: Expr, reduction: int) -> Expr:
    return x if reduction == 0 else (op.mean if reduction == 1 else op.sum)(x)


_REDUCTIONS = ("none", "mean", "sum")


@aten("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def _nll(c: Context, a: Args) -> Expr:
    weights = [] if a.weight is None else [a.weight]
    ignored = static(to_dim(a.ignore_index), "the ignored class")
    refuse(rank_of(a.self) == 0, "a scalar")
    refuse(has_none(a.self), "a loss without elements")
    return op.nn_nll_loss(
        a.self, c.cast(a.target, "int64"), *weights, reduction=_REDUCTIONS[a.reduction], ignore_index=ignored
    )


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def _nll_forward(c: Context, a: Args) -> Result:
    return [_nll(c, a), None]


@aten("cross_entropy_loss.default")
@rounded_once
def _cross_entropy(c: Context, a: Args) -> Expr:
    """Targets are classes or, as floats, probabilities; a part of each, ``label_smoothing``, is spread over all classes.

    torch's own decomposition asks how many rows there are, which a selection of rows does not know.
    """
    shape = shape_of(a.self)
    axis = min(1, len(shape) - 1)
    logs = c.emit(op.nn_log_softmax(c.cast(a.self, c.dtype), axis=axis))
    smoothing = a.label_smoothing
    weight = None if a.weight is None else c.reshape(a.weight, [shape[axis], *[1] * (len(shape) - axis - 1)])
    weighted = logs if weight is None else logs * weight
    share = number(smoothing / static(shape[axis], "the number of classes"), c.dtype) if smoothing else None
    if dtype_of(a.target) == c.dtype:
        target = a.target
        if share is not None:
            target = target * number(1 - smoothing, c.dtype) + share
        lost = -op.sum(weighted * target, axis=(axis,))
        return _reduced(lost, a.reduction)
    a.self, a.target = logs, c.emit(c.cast(a.target, "int64"))
    exact: Expr = _nll(c, a)
    if share is None:
        return exact
    ignored = op.equal(a.target, number(a.ignore_index, "int64"))
    smoothed: Expr = op.where(ignored, 0, -op.sum(weighted, axis=(axis,)))
    if a.reduction == 1:
        picked = number(1, c.dtype) if weight is None else op.take(a.weight, op.where(ignored, 0, a.target), axis=0)
        counted = op.sum(op.where(ignored, 0, picked))
        smoothed = op.sum(smoothed) / counted
    elif a.reduction == 2:
        smoothed = op.sum(smoothed)
    return exact * number(1 - smoothing, c.dtype) + smoothed * share


# ---- distances


@aten("cdist.default", "_cdist_forward.default", "_euclidean_dist.default")
def _cdist(c: Context, a: Args) -> Expr:
    """Distances of all pairs of rows."""
    p = getattr(a, "p", 2.0)
    (*left, rows, width), (*right, columns, _) = shape_of(a.x1), shape_of(a.x2)
    if has_none([width]):
        return op.zeros(c.shape, c.dtype)
    x = c.reshape(a.x1, [*left, rows, 1, width])
    y = c.reshape(a.x2, [*right, 1, columns, width])
    away = c.cast(x, c.dtype) - c.cast(y, c.dtype)
    return norm(c, away, p, [rank_of(away) - 1], False)
