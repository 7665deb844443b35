"""Gradient of attention, decomposed into matrix products and softmax. Needs as many key heads as query heads, constant sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.expr import Call
from ..ir.op import OPS
from ..ir.types import Expr
from . import attention
from .binary import add, multiply, subtract, where
from .gradient_parts import operand_sizes
from .gradients import GRADIENTS
from .linalg import matmul
from .manipulate import permute_dims
from .nn import softmax
from .reduce import collapse_sum_to, sum_
from .rules import attr, fail
from .table import constant

_HEADS_FIRST = [0, 2, 1, 3]
_TURNED = [0, 1, 3, 2]


def _attention(call: Call, g: Expr) -> list[Any]:
    sizes = [operand_sizes(call, a) for a in call.args]
    (_, queries, heads, depth), (_, keys, key_heads, _) = sizes[0], sizes[1]
    if heads != key_heads:
        raise fail(call, "E214", f"the gradient needs equal heads, got {heads} and {key_heads}")
    if attr(call, "window_size") is not None:
        raise fail(call, "E214", "the gradient needs attention without a window")
    q, k, v, flow = [permute_dims(t, axes=_HEADS_FIRST) for t in (*call.args[:3], g)]
    dtype = q.ty.dtype  # type: ignore[attr-defined]
    raw = attr(call, "scale")
    scale = constant(1 / math.sqrt(depth) if raw is None else float(raw), dtype)
    scores: Expr = multiply(matmul(q, permute_dims(k, axes=_TURNED)), scale)
    if len(call.args) > 3:
        scores = add(scores, call.args[3])
    causal = attr(call, "causal_mask")
    if causal:
        mask = np.tri(queries, keys, 0 if causal == "TopLeft" else keys - queries, dtype=bool)
        scores = where(constant(mask), scores, constant(-math.inf, dtype))
    share = softmax(scores, axis=-1)
    through = matmul(flow, permute_dims(v, axes=_TURNED))
    weighted = multiply(share, through)
    inner = subtract(weighted, multiply(share, sum_(weighted, axis=[-1], keepdims=True)))
    made: list[Any] = [
        multiply(matmul(inner, k), scale),
        multiply(matmul(permute_dims(inner, axes=_TURNED), q), scale),
        matmul(permute_dims(share, axes=_TURNED), flow),
    ]
    made = [permute_dims(t, axes=_HEADS_FIRST) for t in made]
    if len(call.args) > 3:
        made.append(collapse_sum_to(inner, tuple(sizes[3])))
    return made


_ROWS_OF = (attention,)
"""Families whose rows must stand in the table first."""
for _name in ("R.nn.attention", "R.nn.attention_bias"):
    GRADIENTS[_name] = OPS[_name].grad = _attention
