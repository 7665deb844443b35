"""Table entries: matrix products, activations, softmax and attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....ir.build import const
from ....ir.relation import Answer, same_dim
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    aten,
    axis_of,
    dtype_of,
    number,
    rank_of,
    refuse,
    shape_of,
    static,
)  # fmt: skip
from .rounding import rounded_once, sum_dtype
from .shape import cut, swap

# ---- products


@aten("_int_mm.default")
def _int_mm(c: Context, a: Args) -> Expr:
    return op.matmul(a.self, a.mat2, out_dtype="int32")


@aten("linear.default")
def _linear(c: Context, a: Args) -> Expr:
    weight = swap(a.weight, 0, 1) if rank_of(a.weight) == 2 else a.weight
    return op.matmul(a.input, weight) if a.bias is None else _plus(c, _product(c, a.input, weight), a.bias)


def _product(c: Context, left: Expr, right: Expr) -> Expr:
    """A matrix product to which something is added: of 16-bit floats in float32, as it was summed."""
    return op.matmul(left, right, out_dtype=sum_dtype(c))


def _plus(c: Context, product: Expr, added: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """``alpha`` times a product plus ``beta`` times a tensor, rounded to the result's type."""
    kind = dtype_of(product)
    scaled = product if alpha == 1 else product * number(alpha, kind)
    if beta == 0:
        return c.cast(scaled, c.dtype)
    wide = c.cast(added, kind)
    return c.cast(scaled + (wide if beta == 1 else wide * number(beta, kind)), c.dtype)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(c: Context, a: Args) -> Expr:
    left = next(v for v in (getattr(a, n, None) for n in ("mat1", "batch1", "mat")) if v is not None)
    right = next(v for v in (getattr(a, n, None) for n in ("mat2", "batch2", "vec")) if v is not None)
    return _plus(c, _product(c, left, right), a.self, a.beta, a.alpha)


@aten("addbmm.default")
def _addbmm(c: Context, a: Args) -> Expr:
    product = op.sum(_product(c, a.batch1, a.batch2), axis=(0,))
    return _plus(c, product, a.self, a.beta, a.alpha)


@aten("outer.default")
def _outer(c: Context, a: Args) -> Expr:
    columns = c.cast(c.reshape(a.self, [*shape_of(a.self), 1]), c.dtype)
    return (op.logical_and if c.dtype == "bool" else op.multiply)(columns, c.cast(a.vec2, c.dtype))


# ---- activations


@aten("gelu.default")
def _gelu(c: Context, a: Args) -> Expr:
    return op.nn_gelu_tanh(a.self) if a.approximate == "tanh" else op.nn_gelu(a.self)


@aten("prelu.default")
def _prelu(c: Context, a: Args) -> Expr:
    rank = rank_of(a.self)
    weight = a.weight
    if rank >= 2 and rank_of(weight) == 1:
        weight = c.reshape(weight, [shape_of(weight)[0], *([1] * (rank - 2))])
    elif rank == 0:
        weight = c.reshape(weight, [])
    x = a.self
    return op.where(op.greater(x, 0), x, x * weight)


@aten("mish.default")
@rounded_once
def _mish(c: Context, a: Args) -> Any:
    return a.self * op.tanh(op.nn_softplus(a.self))


@aten("log_sigmoid.default")
def _log_sigmoid(c: Context, a: Args) -> Expr:
    return -op.nn_softplus(-a.self, beta=1.0, threshold=1000.0)


def _hard_gate(c: Context, x: Expr) -> Expr:
    return op.nn_relu6(x + 3) / 6


aten("hardsigmoid.default")(rounded_once(lambda c, a: _hard_gate(c, a.self)))
aten("hardswish.default")(rounded_once(lambda c, a: a.self * _hard_gate(c, a.self)))


def _exponential(c: Context, x: Expr, alpha: float, scale: float, inner: float) -> Expr:
    """scale * (x above 0, alpha * (exp(inner * x) - 1) below)."""
    below = op.minimum(x, 0)
    grown = op.exp(below if inner == 1 else below * number(inner, c.dtype))
    low = (grown - 1) * number(alpha, c.dtype)
    made = op.where(op.greater(x, 0), x, low)
    return made if scale == 1 else made * number(scale, c.dtype)


aten("elu.default")(rounded_once(lambda c, a: _exponential(c, a.self, a.alpha, a.scale, a.input_scale)))
aten("celu.default")(rounded_once(lambda c, a: _exponential(c, a.self, a.alpha, 1, 1 / a.alpha)))


@aten("glu.default")
@rounded_once
def _glu(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, rank_of(a.self))
    half = c.shape[axis]
    first, second = cut(a.self, axis, 0, half), cut(a.self, axis, half, half)
    return first * op.sigmoid(second)


@aten("threshold.default")
def _threshold(c: Context, a: Args) -> Expr:
    return op.where(op.less_equal(a.self, number(a.threshold, c.dtype)), number(a.value, c.dtype), a.self)  # NaN stays


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default", "native_dropout.default")
def _dropout(c: Context, a: Args) -> Any:
    active = a.train and a.p != 0
    refuse(active, "dropout in training mode draws random numbers")
    return [a.input, None] if isinstance(c.value, (list, tuple)) else a.input


# ---- softmax


def _softmax(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        x = c.cast(a.self, c.dtype)
        if rank_of(x):
            return fn(x, axis=axis_of(a.dim, rank_of(x)))
        x = c.emit(x)  # a scalar is the only one of its kind
        none = x - x
        return none if "log" in c.node_target else op.exp(none)

    return translate


aten("softmax.int", "_softmax.default")(_softmax(op.nn_softmax))
aten("log_softmax.int", "_log_softmax.default")(_softmax(op.nn_log_softmax))


# ---- normalisations


@aten("_weight_norm.default", "_weight_norm_interface.default")
def _weight_norm(c: Context, a: Args) -> Any:
    """v times g over the norm of v along all axes but one (-1: along all)."""
    v, rank = c.emit(a.v), rank_of(a.v)
    axes = [n for n in range(rank) if a.dim == -1 or n != axis_of(a.dim, rank)]
    length: Expr = op.sqrt(op.sum(v * v, axis=tuple(axes), keepdims=True))
    size = c.emit(length if a.dim != -1 or rank_of(a.g) == rank else c.reshape(length, shape_of(a.g)))
    made = v * (a.g / size)
    return [made, size] if isinstance(c.value, (list, tuple)) else made


@aten("bilinear.default")
def _bilinear(c: Context, a: Args) -> Expr:
    made = op.einsum((a.input1, a.weight, a.input2), subscripts="...i,oij,...j->...o")
    return made if a.bias is None else made + a.bias


# ---- attention


@aten("scaled_dot_product_attention.default")
def _attention(c: Context, a: Args) -> Expr:
    """torch has (.., heads, sequence, width) with any axes in front; a row that sees no key is zeros."""
    refuse(bool(a.dropout_p), "dropout draws random numbers")
    front = c.shape[:-2]
    batch, heads = product(front[:-1]), front[-1] if front else const(1, "int64")
    tensors = []
    for x in (a.query, a.key, a.value):
        own, last = (shape_of(x)[-3] if a.enable_gqa else heads), shape_of(x)[-2:]
        whole = c.broadcast(c.cast(x, c.dtype), [*front[:-1], *([own] if front else []), *last])
        tensors.append(c.reshape(whole, [batch, own, *last]))
    if a.enable_gqa and same_dim(shape_of(tensors[1])[1], shape_of(tensors[2])[1]) is not Answer.YES:
        number_of = static(heads, "the number of heads")
        tensors[1:] = [_grouped(t, number_of) for t in tensors[1:]]
    mask = [] if a.attn_mask is None else [_scores_mask(c, a.attn_mask, front, batch)]
    causal = "TopLeft" if a.is_causal else None
    made = op.nn_attention(*tensors, *mask, scale=a.scale, causal_mask=causal, layout="BHSD,BHSD,BHSD,BSHD", empty=0.0)
    heads_first = swap(c.emit(made), 1, 2)
    return heads_first if len(front) == 2 else c.reshape(heads_first)


def _scores_mask(c: Context, mask: Expr, front: Sequence[Expr], batch: Expr) -> Expr:
    """A mask over (.., rows, keys) as one over (batch, heads, rows, keys)."""
    shape = shape_of(mask)
    if len(shape) > 2 and len(front) != 2:
        return c.reshape(c.broadcast(mask, [*front, *shape[-2:]]), [batch, front[-1], *shape[-2:]])
    return mask


def _grouped(x: Expr, heads: int) -> Expr:
    own = static(shape_of(x)[1], "the number of heads")
    return x if own == heads else op.repeat(x, heads // own, axis=1)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(c: Context, a: Args) -> list[Any]:
    """Keys and values of fewer heads serve groups of queries, without being asked to."""
    a.enable_gqa = True
    return [_attention(c, a), None]
