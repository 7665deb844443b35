"""Operators ``torch.compile`` hands out whole, as graphs of ordinary ones.

They are those torch decomposes by itself, and layers of transformer encoders, which torch fuses for its own kernels (source:
torch/csrc ``transformer.cpp``); ``torch.export`` does not meet the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ....support.optional import require
from .torch_table import ATEN


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Decompositions by operator, as AOT autograd takes them: of those without translation that torch can express by others.

    Not of what computes gradients, which runs in torch, nor of what draws random numbers: they would be others.
    """
    torch = require("torch")
    known = require("torch._decomp").core_aten_decompositions()
    kept = (torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view)
    found = {
        target: fn
        for target, fn in known.items()
        if str(target) not in ATEN
        and "backward" not in str(target)
        and not target._schema.is_mutable
        and not any([tag in target.tags for tag in kept])
    }
    return {**found, torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer}


def encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, use_gelu: bool,
    norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any,
    ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """One layer: attention and feed-forward part, each with a residual and a normalisation before or after."""
    nn = require("torch.nn.functional")

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return nn.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: Any) -> Any:
        made = _attention(x, num_heads, nn.linear(x, qkv_weight, qkv_bias), mask, mask_type)
        return nn.linear(made, proj_weight, proj_bias)

    def feed(x: Any) -> Any:
        hidden = nn.linear(x, ffn_weight_1, ffn_bias_1)
        return nn.linear(nn.gelu(hidden) if use_gelu else nn.relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed(x), norm_weight_2, norm_bias_2)


def _attention(x: Any, heads: int, qkv: Any, mask: Any, mask_type: int | None) -> Any:
    """Attention over (batch, length, 3 * width); a mask is true where nothing is seen."""
    torch = require("torch")
    batch, length, width = x.shape
    q, k, v = qkv.reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    scores = q @ k.transpose(-1, -2) * (width // heads) ** -0.5
    if mask is not None:
        if mask_type == 0:  # (length, length)
            hidden = mask[None, None]
        elif mask_type == 1:  # (batch, length): padding
            hidden = mask[:, None, None, :]
        else:  # (batch, heads, length, length)
            hidden = mask
        scores = torch.where(hidden, float("-inf"), scores) if mask.dtype == torch.bool else scores + hidden
    made = torch.softmax(scores, -1) @ v
    return made.transpose(1, 2).reshape(batch, length, width)
