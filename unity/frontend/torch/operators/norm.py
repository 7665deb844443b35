"""Table entries: normalisations, with given statistics or those of the data."""

from __future__ import annotations

from typing import Any

from .... import op
from ....ir.expr import TupleGetItem
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    aten,
    dtype_name,
    dtype_of,
    has_none,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
    to_dim,
)


def _weights(c: Context, shape: tuple[Expr, ...], weight: Expr | None, bias: Expr | None) -> tuple[Expr, Expr]:
    result = [number(v, c.dtype) if given is None else given for v, given in ((1, weight), (0, bias))]
    return tuple([c.broadcast(m, shape) if rank_of(m) == 0 else m for m in result])  # type: ignore[return-value]


@aten("layer_norm.default")
def _layer_norm(c: Context, a: Args) -> Expr:
    rank, count = rank_of(a.input), len(a.normalized_shape)
    gamma, beta = _weights(c, shape_of(a.input)[rank - count :], a.weight, a.bias)
    given: dict[str, Any] = {"center": a.bias is not None, "scale": a.weight is not None}
    return op.nn_layer_norm(a.input, gamma, beta, axes=tuple(range(-count, 0)), epsilon=float(a.eps), **given)


def _statistics(c: Context, x: Expr, axes: tuple[int, ...], eps: float) -> list[Expr]:
    """Mean and 1 / sqrt(variance + eps) over axes, these kept with size 1."""
    x = c.emit(x)
    mean = op.mean(x, axis=axes, keepdims=True)
    variance = op.variance(x, axis=axes, keepdims=True)
    return [mean, op.rsqrt(variance + number(float(eps), dtype_of(x)))]


@aten("native_layer_norm.default")
def _native_layer_norm(c: Context, a: Args) -> list[Any]:
    result = [_layer_norm(c, a), None, None]
    if c.uses(1) or c.uses(2):
        result[1:] = _statistics(c, a.input, tuple(range(-len(a.normalized_shape), 0)), a.eps)
    return result


@aten("rms_norm.default")
def _rms_norm(c: Context, a: Args) -> Expr:
    rank, count = rank_of(a.input), len(a.normalized_shape)
    weight, _ = _weights(c, shape_of(a.input)[rank - count :], a.weight, None)
    eps = a.eps if a.eps is not None else c.torch.finfo(getattr(c.torch, c.dtype)).eps
    return op.nn_rms_norm(a.input, weight, axes=tuple(range(-count, 0)), epsilon=float(eps))


@aten("group_norm.default")
def _group_norm(c: Context, a: Args) -> Expr:
    gamma, beta = _weights(c, shape_of(a.input)[1:2], a.weight, a.bias)
    given: dict[str, Any] = {"num_groups": static(to_dim(a.num_groups)), "channel_axis": 1, "epsilon": float(a.eps)}
    return op.nn_group_norm(a.input, gamma, beta, **given)


@aten("native_group_norm.default")
def _native_group_norm(c: Context, a: Args) -> list[Any]:
    a.num_groups = a.group
    if has_none(a.input) and not (c.uses(1) or c.uses(2)):
        return [op.zeros(c.shape, c.dtype), None, None]
    result = [_group_norm(c, a), None, None]
    if c.uses(1) or c.uses(2):
        batch, *rest = shape_of(a.input)
        size = product(rest) // to_dim(a.group)
        lines = op.reshape(a.input, (batch, a.group, size))
        shape = c.symbols.dims(c.value[1].shape)
        result[1:] = [c.reshape(v, shape) for v in _statistics(c, lines, (2,), a.eps)]
    return result


@aten("instance_norm.default")
def _instance_norm(c: Context, a: Args) -> Expr:
    if not a.use_input_stats:
        return batch_norm(c, a.input, a.weight, a.bias, a.running_mean, a.running_var, a.eps)
    gamma, beta = _weights(c, shape_of(a.input)[1:2], a.weight, a.bias)
    channels = static(shape_of(a.input)[1], "the number of channels")
    return op.nn_group_norm(a.input, gamma, beta, num_groups=channels, channel_axis=1, epsilon=float(a.eps))


def batch_norm(c: Context, x: Expr, weight: Expr | None, bias: Expr | None, mean: Expr, var: Expr, eps: float) -> Expr:
    """Batch normalisation with given statistics."""
    gamma, beta = _weights(c, shape_of(x)[1:2], weight, bias)
    return TupleGetItem(c.emit(op.nn_batch_norm(x, gamma, beta, mean, var, axis=1, epsilon=float(eps))), 0)


def _batch_statistics(c: Context, x: Expr, eps: float) -> list[Expr]:
    """Mean, variance and 1 / sqrt(variance + eps) of every channel over the batch."""
    axes = tuple([n for n in range(rank_of(x)) if n != 1])
    x = c.emit(x)
    mean, variance = op.mean(x, axis=axes), c.emit(op.variance(x, axis=axes))
    return [c.emit(mean), variance, c.emit(op.rsqrt(variance + number(float(eps), dtype_of(x))))]


@aten("batch_norm.default")
def _batch_norm(c: Context, a: Args) -> Expr:
    refuse(a.training and a.running_mean is not None, "stored statistics that change")
    if a.running_mean is None:
        mean, variance, _ = _batch_statistics(c, a.input, a.eps)
        return batch_norm(c, a.input, a.weight, a.bias, mean, variance, a.eps)
    return batch_norm(c, a.input, a.weight, a.bias, a.running_mean, a.running_var, a.eps)


@aten("_native_batch_norm_legit_no_training.default", "_native_batch_norm_legit.no_stats", "native_batch_norm.default")
def _native_batch_norm(c: Context, a: Args) -> list[Any]:
    """Normalised with the statistics of the batch where no others are given; stored ones change nothing here."""
    running, trains = getattr(a, "running_mean", None), getattr(a, "training", False)
    refuse(trains and running is not None, "stored statistics that change")
    if running is not None:
        refuse(c.uses(1) or c.uses(2), "saved statistics")
        return [batch_norm(c, a.input, a.weight, a.bias, running, a.running_var, a.eps), None, None]
    mean, variance, inverse = _batch_statistics(c, a.input, a.eps)
    return [batch_norm(c, a.input, a.weight, a.bias, mean, variance, a.eps), mean, inverse]


@aten("_native_batch_norm_legit_functional.default", "_batch_norm_with_update_functional.default")
def _training_batch_norm(c: Context, a: Args) -> list[Any]:
    """Normalised with the statistics of the batch; the new running ones are the last two results."""
    update = "with_update" in c.node_target
    if not getattr(a, "training", True):
        saved = [op.zeros(c.symbols.dims(v.shape), dtype_name(v.dtype)) if 0 in v.shape else None for v in c.value[1:3]]
        known = batch_norm(c, a.input, a.weight, a.bias, a.running_mean, a.running_var, a.eps)
        return [known, *saved, a.running_mean, a.running_var]
    x = c.emit(c.cast(a.input, "float64" if dtype_of(a.input) == "float64" else "float32"))
    count = product([d for n, d in enumerate(shape_of(a.input)) if n != 1])
    mean, variance, inverse = _batch_statistics(c, x, a.eps)
    seen = c.cast(count, dtype_of(x)) / c.cast(count - 1, dtype_of(x))
    old = number(1 - a.momentum, dtype_of(x)), number(a.momentum, dtype_of(x))

    def moved(stored: Expr, new: Expr) -> Expr:
        return c.cast(stored, dtype_of(x)) * old[0] + new * old[1]

    channels = shape_of(a.input)[1:2]
    plain = [c.broadcast(number(v, dtype_of(x)), channels) for v in (1.0, 0.0)]
    weight, bias = [p if w is None else c.cast(w, dtype_of(x)) for w, p in zip((a.weight, a.bias), plain)]
    result = batch_norm(c, x, weight, bias, mean, variance, a.eps)
    reserved = [op.zeros(c.symbols.dims(v.shape), dtype_name(v.dtype)) for v in c.value[3:4] if update]
    after = [moved(a.running_mean, mean), moved(a.running_var, variance * seen)]
    results = [c.emit(result), mean, inverse, *reserved, *after]
    return [c.cast(r, dtype_name(v.dtype)) for r, v in zip(results, c.value)]
