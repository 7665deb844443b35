"""``flex_attention``: attention whose scores one function changes and whose pairs another chooses.

Both functions take one score and its position; ``torch.vmap`` makes them operators on all positions, traced again into ATen.
A mask alone becomes the mask of the fused attention, of size 1 along axes it does not depend on; a function of scores is applied
to their matrix. Not here: attention itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ....support.optional import require
from ..context.context import ATEN, Args, Context, shape_of
from ..context.report import Gap
from .control import Parts


def flex_attention(parts: Parts) -> list[Any]:
    """The result, and where they are used, the logarithm of the sum and the largest score of each row. Raises Gap."""
    c, node = parts.c, parts.node
    flex = _Flex(c, node)
    operands = parts.value_of([*node.args[:3], *node.args[7], *node.args[8]])
    used = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    if flex.changes or used - {0}:
        return parts.results(flex.traced(flex.full_attention), operands)
    arguments = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": node.args[5], "enable_gqa": True}
    if flex.is_causal:
        arguments["is_causal"] = True
    elif flex.chooses:
        arguments["attn_mask"] = parts.results(flex.traced(flex.visible), operands)[0]
    query, key, value = operands[:3]
    key, value = [c.broadcast(t, [shape_of(query)[0], *shape_of(t)[1:]]) for t in (key, value)]
    c.value = node.meta["val"][0]
    made = ATEN["aten.scaled_dot_product_attention.default"](c, Args(query=query, key=key, value=value, **arguments))
    return [c.emit(made), None, None]


class _Flex:
    """One node, and what its two functions do."""

    def __init__(self, c: Context, node: Any) -> None:
        root = node.graph.owning_module
        self.torch = c.torch
        self.scale = node.args[5]
        self.score, self.mask = [getattr(root, part.target) for part in (node.args[3], node.args[4][-1])]
        self.inputs = [getattr(n, "meta", {"val": n})["val"] for n in [*node.args[:3], *node.args[7], *node.args[8]]]
        self.split = 3 + len(node.args[7])
        given, result = _inputs_and_result(self.score)
        self.changes = result is not given[0]
        """True if the score changes."""
        params, chosen = _inputs_and_result(self.mask)
        self.chooses = str(chosen.target) != "aten.new_ones.default"
        self.is_causal = (str(chosen.target), *chosen.args) in (
            ("aten.ge.Tensor", *params[2:4]),
            ("aten.le.Tensor", params[3], params[2]),
        )
        self.used = [bool(n.users) for n in params]
        """Those of batch, head, row and column that decide who sees whom."""

    def traced(self, fn: Callable[..., Any]) -> Any:
        """A function of query, key, value and the buffers as a graph of ATen operators. Raises Gap."""
        trace = require("torch.fx.experimental.proxy_tensor").make_fx
        try:
            with self.inputs[0].fake_mode:
                return trace(fn)(*self.inputs).graph
        except Exception as error:  # torch raises errors of many unrelated classes
            first = (str(error).strip().splitlines() or [""])[0]
            raise Gap(f"torch cannot vectorise its functions: {type(error).__name__}: {first}") from error

    def _evaluate_everywhere(self, fn: Callable[..., Any], indices: Sequence[Any], scores: Any = None) -> Any:
        """A function of (score,) batch, head, row and column at all positions."""
        for axis in reversed(range(4)):
            ends = [0 if n == axis else None for n in range(4)]
            fn = self.torch.vmap(fn, in_dims=tuple(ends if scores is None else [0, *ends]))
        return fn(*indices) if scores is None else fn(scores, *indices)

    def _indices(self, query: Any, key: Any, all_of: bool) -> list[Any]:
        sizes = [query.size(0), query.size(1), query.size(2), key.size(2)]
        return [self.torch.arange(n if all_of or used else 1) for n, used in zip(sizes, self.used)]

    def visible(self, query: Any, key: Any, value: Any, *buffers: Any) -> Any:
        """The pairs that are chosen."""
        indices = self._indices(query, key, False)
        return self._evaluate_everywhere(lambda *i: self.mask(*i, *buffers[self.split - 3 :]), indices)

    def full_attention(self, query: Any, key: Any, value: Any, *buffers: Any) -> Any:
        """Attention with the matrix of scores, computed in float32 as torch does."""
        torch = self.torch
        compute_dtype = torch.promote_types(query.dtype, torch.float32)
        heads = query.size(1) // key.size(1)
        key, value = [t.repeat_interleave(heads, 1).expand(query.size(0), -1, -1, -1) for t in (key, value)]
        scores = query.to(compute_dtype) @ key.to(compute_dtype).transpose(-2, -1) * self.scale
        indices = self._indices(query, key, True)
        scores = self._evaluate_everywhere(
            lambda s, *i: self.score(s, *i, *buffers[: self.split - 3]), indices, scores
        ).to(compute_dtype)
        if self.chooses:
            visible = self._evaluate_everywhere(lambda *i: self.mask(*i, *buffers[self.split - 3 :]), indices)
            scores = torch.where(visible, scores, -math.inf)
        highest = scores.amax(-1, keepdim=True)
        weights = torch.exp(scores - torch.where(torch.isinf(highest), 0.0, highest))
        total = weights.sum(-1, keepdim=True)
        made = (weights / torch.where(total == 0, 1.0, total)).to(query.dtype) @ value
        total = scores.logsumexp(-1)
        return made, total / math.log(2), highest.squeeze(-1) / math.log(2)


def _inputs_and_result(module: Any) -> tuple[list[Any], Any]:
    """Inputs and result of a function."""
    nodes = list(module.graph.nodes)
    result = nodes[-1].args[0]
    return [n for n in nodes if n.op == "placeholder"], result[0] if isinstance(result, (list, tuple)) else result
