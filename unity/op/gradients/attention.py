"""Gradient of attention, decomposed into matrix products and softmax. Heads are constant numbers; lengths may be symbolic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...ir import build
from ...ir.expr import Call, IntImm, ShapeExpr
from ...ir.op import OPS
from ...ir.types import Expr
from ..common.table import constant
from ..common.type_rules import attr, fail
from ..elementwise.binary import add, divide, less_equal, multiply, subtract, where
from ..elementwise.unary import sqrt
from ..linalg.products import matmul
from ..manipulate.create import arange, full
from ..manipulate.manipulate import expand_dims, permute_dims, repeat, reshape
from ..nn import attention
from ..nn.activations import softmax
from ..nn.attention import layouts
from ..reduction.reduce import collapse_sum_to, max_, sum_
from .parts import operand_shape
from .rules import GRADIENTS

_HEADS_SECOND = [0, 2, 1, 3]
_TURNED = [0, 1, 3, 2]


def _heads(call: Call, sizes: Sequence[Expr]) -> int:
    if type(sizes[1]) is not IntImm:
        raise fail(call, "E218", f"the gradient needs a constant number of heads, got {sizes[1]}")
    return sizes[1].value


def _attention(call: Call, g: Expr) -> list[Any]:
    if attr(call, "window_size") is not None:
        raise fail(call, "E214", "the gradient needs attention without a window")
    orders = layouts(call)
    q, k, v, flow = [_heads_first(t, order) for t, order in zip((*call.args[:3], g), orders)]
    kept = [operand_shape(call, t) for t in (q, k, v)]
    dtype = q.ty.dtype  # type: ignore[attr-defined]
    group = _heads(call, kept[0]) // max(1, _heads(call, kept[1]))
    if group != 1:
        k, v = [repeat(t, group, axis=1) for t in (k, v)]
    raw = attr(call, "scale")
    scale = _scale(kept[0][3], dtype) if raw is None else constant(float(raw), dtype)
    low = constant(-math.inf, dtype)
    scores: Expr = multiply(matmul(q, permute_dims(k, axes=_TURNED)), scale)
    bias = call.args[3] if len(call.args) > 3 else None
    seen = bias is not None and bias.ty.dtype.is_bool  # type: ignore[attr-defined]
    if bias is not None:
        scores = where(bias, scores, low) if seen else add(scores, bias)
    causal = attr(call, "causal_mask")
    if causal:
        scores = where(_visible(kept[0][2], kept[1][2], causal), scores, low)
    share = softmax(scores, axis=-1)
    if attr(call, "empty") is not None:
        nothing = less_equal(max_(scores, axis=[-1], keepdims=True), low)
        share = where(nothing, constant(0.0, dtype), share)
    through = matmul(flow, permute_dims(v, axes=_TURNED))
    weighted = multiply(share, through)
    inner = subtract(weighted, multiply(share, sum_(weighted, axis=[-1], keepdims=True)))
    made: list[Expr] = [
        multiply(matmul(inner, k), scale),
        multiply(matmul(permute_dims(inner, axes=_TURNED), q), scale),
        matmul(permute_dims(share, axes=_TURNED), flow),
    ]
    if group != 1:
        made[1:] = [_summed(t, sizes, group) for t, sizes in zip(made[1:], kept[1:])]
    found: list[Any] = [_heads_first(t, order) for t, order in zip(made, orders)]
    if bias is not None:
        found.append(None if seen else collapse_sum_to(inner, ShapeExpr(operand_shape(call, bias))))
    return found


def _heads_first(x: Expr, order: str) -> Expr:
    """(batch, heads, sequence, width) of a tensor in some order, or back."""
    return x if order == "BHSD" else permute_dims(x, axes=_HEADS_SECOND)


def _scale(width: Expr, dtype: Any) -> Expr:
    if type(width) is IntImm:
        return constant(1 / math.sqrt(width.value) if width.value else 1.0, dtype)
    return divide(constant(1.0, dtype), sqrt(full(ShapeExpr(()), build.cast(width, dtype), dtype)))


def _visible(rows: Expr, keys: Expr, causal: str) -> Expr:
    """Which keys (columns) a row sees."""
    first = build.sub(keys, rows) if causal == "BottomRight" else build.const(0, "int64")
    last = arange(first, build.add(first, rows), 1, dtype="int64")
    return less_equal(arange(0, keys, 1, dtype="int64"), expand_dims(last, axis=[1]))


def _summed(x: Expr, sizes: Sequence[Expr], group: int) -> Expr:
    """The sum over the heads that share a key."""
    batch, heads, *rest = sizes
    return sum_(reshape(x, ShapeExpr((batch, heads, build.const(group, "int64"), *rest))), axis=[2], keepdims=False)


_ROWS_OF = (attention,)
"""Families whose rows must stand in the table first."""
for _name in ("R.nn.attention", "R.nn.attention_bias"):
    GRADIENTS[_name] = OPS[_name].grad = _attention
