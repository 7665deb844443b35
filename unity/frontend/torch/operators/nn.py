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
    ATEN,
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
from .shape import swap

# ---- products


@aten("_int_mm.default")
def _int_mm(c: Context, a: Args) -> Expr:
    return op.matmul(a.self, a.mat2, out_dtype="int32")


@aten("_grouped_mm.default")
def _grouped_mm(c: Context, a: Args) -> Expr:
    x, weight = a.self, a.mat2
    refuse(rank_of(x) != 2 or rank_of(weight) != 3 or a.offs is None or a.bias is not None, "groups of columns")
    return c.cast(op.nn_grouped_matmul(x, weight, a.offs), c.dtype)


def _experts(c: Context, a: Args) -> Expr:
    """The operator of the package transformers for mixtures of experts."""
    return c.cast(op.nn_grouped_matmul(a.input, c.cast(a.weight, dtype_of(a.input)), a.offs), c.dtype)


ATEN["transformers.grouped_mm_fallback.default"] = _experts


@aten("linear.default")
def _linear(c: Context, a: Args) -> Expr:
    weight = swap(a.weight, 0, 1) if rank_of(a.weight) == 2 else a.weight
    return op.matmul(a.input, weight) if a.bias is None else _scale_and_add(c, _product(c, a.input, weight), a.bias)


def _product(c: Context, left: Expr, right: Expr) -> Expr:
    """A matrix product to which something is added: of 16-bit floats in float32, as it was summed."""
    return op.matmul(left, right, out_dtype=sum_dtype(c))


def _scale_and_add(c: Context, product: Expr, added: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    """``alpha`` times a product plus ``beta`` times a tensor, rounded to the result's type."""
    kind = dtype_of(product)
    scaled = product if alpha == 1 else product * number(alpha, kind)
    if beta == 0:
        return c.cast(scaled, c.dtype)
    bias = c.cast(added, kind)
    return c.cast(scaled + (bias if beta == 1 else bias * number(beta, kind)), c.dtype)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(c: Context, a: Args) -> Expr:
    left = next(v for v in (getattr(a, n, None) for n in ("mat1", "batch1", "mat")) if v is not None)
    right = next(v for v in (getattr(a, n, None) for n in ("mat2", "batch2", "vec")) if v is not None)
    return _scale_and_add(c, _product(c, left, right), a.self, a.beta, a.alpha)


# ---- activations


@aten("gelu.default")
def _gelu(c: Context, a: Args) -> Expr:
    return op.nn_gelu_tanh(a.self) if a.approximate == "tanh" else op.nn_gelu(a.self)


@aten("mish.default")
@rounded_once
def _mish(c: Context, a: Args) -> Any:
    return a.self * op.tanh(op.nn_softplus(a.self))


def _hard_gate(x: Expr) -> Expr:
    return op.nn_relu6(x + 3) / 6


aten("hardsigmoid.default")(rounded_once(lambda c, a: _hard_gate(a.self)))
aten("hardswish.default")(rounded_once(lambda c, a: a.self * _hard_gate(a.self)))


def _exponential(c: Context, x: Expr, alpha: float, scale: float, inner: float) -> Expr:
    """scale * (x above 0, alpha * (exp(inner * x) - 1) below)."""
    below = op.minimum(x, 0)
    grown = op.exp(below if inner == 1 else below * number(inner, c.dtype))
    low = (grown - 1) * number(alpha, c.dtype)
    result = op.where(op.greater(x, 0), x, low)
    return result if scale == 1 else result * number(scale, c.dtype)


aten("elu.default")(rounded_once(lambda c, a: _exponential(c, a.self, a.alpha, a.scale, a.input_scale)))
aten("celu.default")(rounded_once(lambda c, a: _exponential(c, a.self, a.alpha, 1, 1 / a.alpha)))


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default", "feature_alpha_dropout.default",
      "native_dropout.default")  # fmt: skip
def _dropout(c: Context, a: Args) -> Any:
    active = a.train and a.p != 0
    refuse(active, "dropout in training mode draws random numbers")
    return [a.input, None] if isinstance(c.value, (list, tuple)) else a.input


@aten("rrelu.default", "rrelu_with_noise_functional.default")
def _random_slope(c: Context, a: Args) -> Any:
    """The mean of the slopes."""
    refuse(bool(a.training), "a random slope")
    result = op.where(op.greater_equal(a.self, 0), a.self, a.self * number((a.lower + a.upper) / 2, c.dtype))
    return [result, None] if isinstance(c.value, (list, tuple)) else result


# ---- softmax


def _softmax(fn: Callable[..., Expr]) -> Callable[[Context, Args], Expr]:
    def translate(c: Context, a: Args) -> Expr:
        x = c.cast(a.self, c.dtype)
        if rank_of(x):
            return fn(x, axis=axis_of(a.dim, x))
        x = c.emit(x)  # a scalar is the only one of its kind
        none = x - x
        return none if "log" in c.node_target else op.exp(none)

    return translate


aten("softmax.int", "_softmax.default")(_softmax(op.nn_softmax))
aten("log_softmax.int", "_log_softmax.default")(_softmax(op.nn_log_softmax))


# ---- normalisations


@aten("bilinear.default")
def _bilinear(c: Context, a: Args) -> Expr:
    result = op.einsum((a.input1, a.weight, a.input2), subscripts="...i,oij,...j->...o")
    return result if a.bias is None else result + a.bias


# ---- attention


@aten("scaled_dot_product_attention.default")
def _attention(c: Context, a: Args) -> Expr:
    """torch has (.., heads, sequence, width) with any axes in front; a row that sees no key is zeros."""
    refuse(bool(a.dropout_p), "dropout draws random numbers")
    front = c.shape[:-2]
    batch, heads = product(front[:-1]), front[-1] if front else const(1, "int64")
    tensors = []
    for x in (a.query, a.key, a.value):
        count, last = (shape_of(x)[-3] if a.enable_gqa else heads), shape_of(x)[-2:]
        expanded = c.broadcast(c.cast(x, c.dtype), [*front[:-1], *([count] if front else []), *last])
        tensors.append(c.reshape(expanded, [batch, count, *last]))
    if a.enable_gqa and same_dim(shape_of(tensors[1])[1], shape_of(tensors[2])[1]) is not Answer.YES:
        number_of = static(heads, "the number of heads")
        tensors[1:] = [_grouped(t, number_of) for t in tensors[1:]]
    mask = [] if a.attn_mask is None else [_scores_mask(c, a.attn_mask, front, batch)]
    causal = "TopLeft" if a.is_causal else None
    result = op.nn_attention(
        *tensors, *mask, scale=a.scale, causal_mask=causal, layout="BHSD,BHSD,BHSD,BSHD", empty=0.0
    )
    heads_first = swap(c.emit(result), 1, 2)
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
