"""Table entries: matrix products, activations, softmax and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import op
from ..ffi.dtype import DataType
from ..ir.build import const
from ..ir.expr import IntImm
from ..ir.types import Expr
from .aten_shape import cut, swap
from .context import (
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
    to_dim,
)  # fmt: skip

# ---- products


@aten("matmul.default", "bmm.default", "mm.default", "mv.default", "dot.default")
def _matmul(c: Context, a: Args) -> Expr:
    other = next(v for v in (getattr(a, n, None) for n in ("other", "mat2", "vec", "tensor")) if v is not None)
    return op.matmul(a.self, other)


@aten("_int_mm.default")
def _int_mm(c: Context, a: Args) -> Expr:
    return op.matmul(a.self, a.mat2, out_dtype="int32")


@aten("linear.default")
def _linear(c: Context, a: Args) -> Expr:
    made = op.matmul(a.input, swap(a.weight, 0, 1) if rank_of(a.weight) == 2 else a.weight)
    return made if a.bias is None else op.add(made, a.bias)


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(c: Context, a: Args) -> Expr:
    left = next(v for v in (getattr(a, n, None) for n in ("mat1", "batch1", "mat")) if v is not None)
    right = next(v for v in (getattr(a, n, None) for n in ("mat2", "batch2", "vec")) if v is not None)
    product = op.matmul(left, right)
    if a.alpha != 1:
        product = op.multiply(product, number(a.alpha, c.dtype))
    if a.beta == 0:
        return product
    return op.add(product, a.self if a.beta == 1 else op.multiply(a.self, number(a.beta, c.dtype)))


@aten("addbmm.default")
def _addbmm(c: Context, a: Args) -> Expr:
    product: Expr = op.sum(op.matmul(a.batch1, a.batch2), axis=(0,), keepdims=False)
    product = product if a.alpha == 1 else op.multiply(product, number(a.alpha, c.dtype))
    if a.beta == 0:
        return product
    return op.add(product, a.self if a.beta == 1 else op.multiply(a.self, number(a.beta, c.dtype)))


@aten("outer.default")
def _outer(c: Context, a: Args) -> Expr:
    return op.multiply(c.cast(c.reshape(a.self, [*shape_of(a.self), 1]), c.dtype), c.cast(a.vec2, c.dtype))


# ---- activations

aten("silu.default")(lambda c, a: op.nn_silu(a.self))
aten("relu6.default")(lambda c, a: op.nn_relu6(a.self))
aten("selu.default")(lambda c, a: op.nn_selu(a.self))


@aten("gelu.default")
def _gelu(c: Context, a: Args) -> Expr:
    return op.nn_gelu_tanh(a.self) if a.approximate == "tanh" else op.nn_gelu(a.self)


@aten("leaky_relu.default")
def _leaky_relu(c: Context, a: Args) -> Expr:
    return op.nn_leakyrelu(a.self, alpha=float(a.negative_slope))


@aten("prelu.default")
def _prelu(c: Context, a: Args) -> Expr:
    rank = rank_of(a.self)
    weight = a.weight
    if rank >= 2 and rank_of(weight) == 1:
        weight = c.reshape(weight, [shape_of(weight)[0], *([1] * (rank - 2))])
    x = a.self
    return op.where(op.greater(x, number(0, c.dtype)), x, op.multiply(x, weight))


@aten("softplus.default")
def _softplus(c: Context, a: Args) -> Expr:
    return op.nn_softplus(a.self, beta=float(a.beta), threshold=float(a.threshold))


@aten("mish.default")
def _mish(c: Context, a: Args) -> Expr:
    return op.multiply(a.self, op.tanh(op.nn_softplus(a.self)))


@aten("log_sigmoid.default")
def _log_sigmoid(c: Context, a: Args) -> Expr:
    return op.negative(op.nn_softplus(op.negative(a.self), beta=1.0, threshold=1000.0))


def _hard_gate(c: Context, x: Expr) -> Expr:
    return op.divide(op.nn_relu6(op.add(x, number(3, c.dtype))), number(6, c.dtype))


aten("hardsigmoid.default")(lambda c, a: _hard_gate(c, a.self))
aten("hardswish.default")(lambda c, a: op.multiply(a.self, _hard_gate(c, a.self)))


def _exponential(c: Context, x: Expr, alpha: float, scale: float, inner: float) -> Expr:
    """scale * (x above 0, alpha * (exp(inner * x) - 1) below)."""
    below = op.minimum(x, number(0, c.dtype))
    grown = op.exp(below if inner == 1 else op.multiply(below, number(inner, c.dtype)))
    low = op.multiply(op.subtract(grown, number(1, c.dtype)), number(alpha, c.dtype))
    made = op.where(op.greater(x, number(0, c.dtype)), x, low)
    return made if scale == 1 else op.multiply(made, number(scale, c.dtype))


aten("elu.default")(lambda c, a: _exponential(c, a.self, a.alpha, a.scale, a.input_scale))
aten("celu.default")(lambda c, a: _exponential(c, a.self, a.alpha, 1, 1 / a.alpha))


@aten("glu.default")
def _glu(c: Context, a: Args) -> Expr:
    axis = axis_of(a.dim, rank_of(a.self))
    half = c.shape[axis]
    first, second = cut(a.self, axis, to_dim(0), half), cut(a.self, axis, half, half)
    return op.multiply(first, op.sigmoid(second))


@aten("threshold.default")
def _threshold(c: Context, a: Args) -> Expr:
    return op.where(op.greater(a.self, number(a.threshold, c.dtype)), a.self, number(a.value, c.dtype))


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
        none = op.subtract(x, x)
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
    length: Expr = op.sqrt(op.sum(op.multiply(v, v), axis=tuple(axes), keepdims=True))
    size = c.emit(length if a.dim != -1 or rank_of(a.g) == rank else c.reshape(length, shape_of(a.g)))
    made = op.multiply(v, op.divide(a.g, size))
    return [made, size] if isinstance(c.value, (list, tuple)) else made


@aten("bilinear.default")
def _bilinear(c: Context, a: Args) -> Expr:
    made = op.einsum((a.input1, a.weight, a.input2), subscripts="...i,oij,...j->...o")
    return made if a.bias is None else op.add(made, a.bias)


@aten("_trilinear.default")
def _trilinear(c: Context, a: Args) -> Expr:
    """A product of three tensors with new axes, summed over some."""
    operands = []
    for tensor, places in ((a.i1, a.expand1), (a.i2, a.expand2), (a.i3, a.expand3)):
        dims: list[Any] = list(shape_of(tensor))
        for place in sorted(places):
            dims.insert(place, 1)
        operands.append(c.reshape(tensor, dims))
    product = op.multiply(op.multiply(operands[0], operands[1]), operands[2])
    return product if not a.sumdim else op.sum(product, axis=tuple(a.sumdim), keepdims=False)


@aten("cosine_similarity.default")
def _cosine(c: Context, a: Args) -> Expr:
    """The product of both over their lengths, each at least eps; both are brought to one shape before."""
    x, y = c.cast(a.x1, c.dtype), c.cast(a.x2, c.dtype)
    shape = shape_of(op.add(x, y))
    refuse(not shape, "scalars")
    axis = axis_of(a.dim, len(shape))
    parts = []
    for v in (c.emit(c.broadcast(x, shape)), c.emit(c.broadcast(y, shape))):
        size = op.sqrt(op.sum(op.multiply(v, v), axis=(axis,), keepdims=True))
        parts.append(op.divide(v, op.maximum(size, number(a.eps, c.dtype))))
    return op.sum(op.multiply(*parts), axis=(axis,), keepdims=False)


# ---- attention


@aten("scaled_dot_product_attention.default")
def _attention(c: Context, a: Args) -> Expr:
    """Scores, their softmax and the weighted sum; of 16-bit floats in float32, rounded once."""
    refuse(bool(a.dropout_p), "dropout draws random numbers")
    dtype = "float32" if c.dtype in ("float16", "bfloat16") else c.dtype
    query, key, value = [c.cast(t, dtype) for t in (a.query, a.key, a.value)]
    if a.enable_gqa:
        heads = static(shape_of(query)[-3], "the number of heads")
        query, key, value = [_grouped(t, heads) for t in (query, key, value)]
    width = shape_of(query)[-1]
    scale = a.scale if a.scale is not None else 1 / math.sqrt(static(width, "the width of a head"))
    query, key, value = c.emit(op.multiply(query, number(scale, dtype))), c.emit(swap(key, -1, -2)), c.emit(value)
    step = _rows_at_once(query, key)
    if step is None:
        return c.cast(_attention_of(c, a, query, key, value, None), c.dtype)
    rows, columns = [static(shape_of(t)[-2]) for t in (query, value)]
    parts = []
    for first in range(0, rows, step):
        piece = _cut(c, query, -2, first, min(step, rows - first))
        seen = min(first + step, rows, columns) if a.is_causal else columns
        keys, values = _cut(c, key, -1, 0, seen), _cut(c, value, -2, 0, seen)
        parts.append(c.emit(_attention_of(c, a, piece, keys, values, first)))
    return c.cast(op.concat(parts, axis=rank_of(query) - 2), c.dtype)


LARGE_SCORES, PIECES = 1 << 25, 8
"""Bytes of scores from which on attention runs over pieces of the rows, and how many pieces at most."""


def _rows_at_once(query: Expr, key: Expr) -> int | None:
    """Rows of a piece; None where all scores fit into memory well, or a size is a symbol."""
    sizes = [n.value for n in (*shape_of(query)[:-1], shape_of(key)[-1]) if type(n) is IntImm]
    if len(sizes) < rank_of(query) or math.prod(sizes) * DataType(dtype_of(query)).itemsize < LARGE_SCORES:
        return None
    step = -(-sizes[-2] // (64 * PIECES)) * 64
    return step if step < sizes[-2] else None


def _cut(c: Context, x: Expr, axis: int, first: int, size: int) -> Expr:
    """Elements along an axis counted from the last."""
    made = cut(x, rank_of(x) + axis, const(first, "int64"), const(size, "int64"))
    return x if made is x else c.emit(made)


def _attention_of(c: Context, a: Args, query: Expr, key: Expr, value: Expr, first: int | None) -> Expr:
    """Attention of the rows from ``first`` on (None: of all): ``query`` scaled, ``key`` with its last axes swapped."""
    scores: Expr = op.matmul(query, key)
    dtype = dtype_of(query)
    rows, columns = shape_of(query)[-2], shape_of(key)[-1]
    low = number(-math.inf, dtype)
    if a.is_causal:
        begin, end = (0, rows) if first is None else (first, first + static(rows))
        i = c.reshape(op.arange(begin, end, 1, dtype="int64"), [rows, 1])
        scores = op.where(op.less_equal(op.arange(0, columns, 1, dtype="int64"), i), scores, low)
    if a.attn_mask is None:
        return op.matmul(op.nn_softmax(scores, axis=-1), value)
    mask = a.attn_mask
    if first is not None and rank_of(mask) > 1 and static(shape_of(mask)[-2]) > 1:
        mask = _cut(c, mask, -2, first, static(rows))
    masked = op.where(mask, scores, low) if dtype_of(mask) == "bool" else op.add(scores, c.cast(mask, dtype))
    scores = c.emit(masked)
    # torch: a row whose every place is masked gives zeros, not NaN
    empty = op.equal(op.max(scores, axis=-1, keepdims=True), low)
    weights = op.where(empty, number(0, dtype), op.nn_softmax(scores, axis=-1))
    return op.matmul(weights, value)


def _grouped(x: Expr, heads: int) -> Expr:
    own = static(shape_of(x)[-3], "the number of heads")
    return x if own == heads else op.repeat(x, heads // own, axis=rank_of(x) - 3)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(c: Context, a: Args) -> list[Any]:
    a.enable_gqa = False
    return [_attention(c, a), None]
