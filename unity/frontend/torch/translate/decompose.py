"""An operator without a translation, as the graph of others by which torch expresses it.

``torch.compile`` hands out layers of transformer encoders whole, which torch fuses for its own kernels (source: torch/csrc
``transformer.cpp``): their expression stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ....support.optional import require
from ..context.context import Context
from ..context.report import Gap
from .control import READS
from .in_place import is_mutable

_KEPT = (
    "aten.lstm.", "aten.gru.", "aten.rnn_tanh.", "aten.rnn_relu.", "aten.linalg_eig", "aten.linalg_ldl",
    "aten.linalg_tensor", "aten.linalg_cond", "aten.linalg_inv", "aten.inverse.", "aten.linalg_solve", "aten.linalg_chol",
    "aten.linspace.", "aten.logspace.", "aten.multilabel_margin_loss.", *READS,
    "aten.sym_", "aten._assert_",
)  # fmt: skip
"""Operators torch could only express by unrolling a loop, by checks with effects, or with other results; numbers read out of
tensors; questions about sizes, which need no translation."""


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    known = dict(require("torch._decomp").core_aten_decompositions().items())
    return {**known, require("torch").ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer}


def _decomposition(torch: Any, target: Any, trains: bool) -> Callable[..., Any] | None:
    """The function by which torch expresses an operator in others, if there is one.

    Where a model trains (``trains``), what computes gradients and what draws random numbers is left to torch.
    """
    random = torch.Tag.nondeterministic_seeded in target.tags
    name = str(target)
    backward = "backward" in name and name != "aten.unfold_backward.default"  # overlapping sums, which istft takes
    if name.startswith(_KEPT) or is_mutable(target) or (trains and (random or backward)):
        return None
    if target.namespace == "quantized_decomposed" and target._overloadname == "default":
        own: Callable[..., Any] | None = getattr(require("torch.ao.quantization.fx._decomposed"), target._opname, None)
        return own  # quantised programs: torch's own function computes by element
    if name in _OF_FOUND_RANGES:
        return _OF_FOUND_RANGES[name]
    return target if target._can_decompose() else _table().get(target)  # a composite operator calls others itself


def traced(c: Context, target: Any, args: Sequence[Any], kwargs: dict[str, Any], trains: bool) -> tuple[Any, list[Any]]:
    """The graph that expresses a call of an operator by others, and its inputs among the arguments. Raises Gap."""
    torch = c.torch
    fn = _decomposition(torch, target, trains)
    if fn is None:
        raise Gap("no graph operator expresses it")
    leaves, spec = torch.utils._pytree.tree_flatten((args, kwargs))
    positions = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
    inputs = [leaves[position] for position in positions]
    values = [n.meta["val"] for n in inputs]

    def run(*given: Any) -> Any:
        for position, value in zip(positions, given):
            leaves[position] = value
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, spec)
        made = fn(*args, **kwargs)
        return list(made) if isinstance(made, tuple) else made  # named tuples would be nodes

    trace = require("torch.fx.experimental.proxy_tensor").make_fx
    functional = require("torch._subclasses.functional_tensor").dispatch_functionalize
    mode = require("torch._guards").detect_fake_mode(values)
    symbolic = require("torch._dispatch.python").enable_python_dispatcher  # else operators ask for numbers
    try:
        with mode, symbolic(), torch.no_grad():
            graph = trace(functional(run))(*values).graph
    except Exception as error:  # torch raises errors of many unrelated classes
        first = (str(error).strip().splitlines() or [""])[0]
        raise Gap(f"torch cannot express it by others: {type(error).__name__}: {first}") from error
    if any([node.op == "get_attr" or is_mutable(node.target) for node in graph.nodes]):
        raise Gap("torch expresses it by operators that write")
    return graph, inputs


def _encoder_layer(
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


def _found_range(x: Any, low: int, high: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    """Scale and zero point of the range of the elements, widened to hold 0; torch asks for the numbers themselves."""
    torch = require("torch")
    least, most = [end.float() for end in torch.aminmax(x)]
    least, most = least.clamp(max=0), most.clamp(min=0)
    scale = ((most - least) / float(high - low)).clamp(min=eps)
    zero = (low - torch.round(least / scale).to(torch.int32)).clamp(low, high)
    return scale.to(torch.float64).reshape(1), zero.to(torch.int64).reshape(1)


def _quantised(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any) -> Any:
    torch = require("torch")
    codes = torch.round(x.float() * (1.0 / scale.double()).float()) + zero.float()
    return codes.clamp(low, high).to(dtype)


def _restored(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any, *, out_dtype: Any = None) -> Any:
    kind = out_dtype or require("torch").float32
    return (x.to(kind) - zero.to(kind)) * scale.to(kind)


_OF_FOUND_RANGES: dict[str, Callable[..., Any]] = {
    "quantized_decomposed.choose_qparams.tensor": _found_range,
    "quantized_decomposed.quantize_per_tensor.tensor": _quantised,
    "quantized_decomposed.dequantize_per_tensor.tensor": _restored,
}
"""Quantised programs whose scales are found while they run."""
