"""Attention that is written out becomes one operator; heads that were repeated for it are shared.

Rewrite, of tensors (batch, heads, sequence, width) or (batch, sequence, width):
``s = R.matmul(q, R.permute_dims(k, [0, 1, 3, 2])); w = R.nn.softmax(s * scale + bias); R.matmul(w, v)`` ->
``R.nn.attention(q, k, v, bias, scale=scale, layout="BHSD")``. The scale may be a division or missing; instead of a bias there may
be ``R.where`` with minus infinity where a key is not seen, or nothing. Softmax in float32 between narrower products counts too.
``R.nn.attention(q, R.reshape(R.broadcast_to(R.reshape(k)))..)`` with each head of k and v repeated as often ->
``R.nn.attention(q, k, v, ..)``: heads of the query share those of the keys.

Results are those of the chain up to rounding (scores are not stored, nor rounded to a narrow type), rows that see no key included:
NaN where all their scores are minus infinity, equal weights where a finite number hides the keys. Left as they are: chains whose
scores or weights are used elsewhere, shapes that are not known to agree, more than one bias.
"""

from __future__ import annotations

import math

from ....ffi.dtype import DataType
from ....ir.build import int_value
from ....ir.expr import Call, Constant, IntImm, Var
from ....ir.function import Function
from ....ir.node import replace
from ....ir.relation import Answer, dims, same_dim, same_dims
from ....ir.structural import structural_equal
from ....ir.types import Expr, TensorType
from ....op.common.table import R
from ....op.elementwise.unary import logical_not
from ....op.manipulate.manipulate import expand_dims, permutation, squeeze
from ....op.nn.attention import attention, layouts
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

ATTENTION = (R.nn.attention.name, R.nn.attention_bias.name)
_RESHAPES = (R.reshape.name, R.expand_dims.name)


@function_pass()
def fuse_attention(fn: Function) -> Function:
    """Replace a written-out attention by ``R.nn.attention``, and share heads that are repeated.

    Results are the same up to rounding.
    """
    chains = _Chains(fn)

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        if call.op_name in ATTENTION:
            return chains.with_shared_heads(call, rewriter.var)
        made = chains.attention(call, rewriter.var)
        if made is None or not structural_equal(made.ty, call.ty):
            return None
        return chains.with_shared_heads(made, rewriter.var) if made.op_name in ATTENTION else made

    return rewrite_calls(fn, change, *ATTENTION, R.matmul.name)


def _scalar(value: Expr) -> float | None:
    """The number that a constant of one element is."""
    if type(value) is not Constant or math.prod(value.data.shape) != 1:
        return None
    return float(value.data.numpy().reshape(()))


class _Chains:
    """Recognises chains of one function."""

    def __init__(self, fn: Function) -> None:
        self.known = Definitions(fn)

    def attention(self, product: Call, at: Var) -> Call | None:
        """The attention that replaces the second product of a chain; None where there is none."""
        weights, value = product.args
        weights, narrow = self.without_cast(weights)
        softmax = self.known.only_use(weights, R.nn.softmax.name)
        rank = product.ty.ndim if isinstance(product.ty, TensorType) else -1
        if softmax is None or rank not in (3, 4) or softmax.attrs.get("axis", -1) not in (-1, rank - 1):
            return None
        scores, widened = self.without_cast(softmax.args[0])
        bias, seen, scores = self.biased(scores)
        scores, scale = self.scaled(scores)
        inside, widened_inside = self.without_cast(scores)
        first = self.known.only_use(inside, R.matmul.name)
        if first is None or first.attrs.get("out_dtype") or product.attrs.get("out_dtype"):
            return None
        if not self.casts_agree(first, product, narrow, widened or widened_inside):
            return None
        query, turned = first.args
        swap = self.known.call(turned, R.permute_dims.name)
        if swap is None or not isinstance(swap.ty, TensorType) or swap.ty.ndim != rank:
            return None  # a product with a matrix that all rows share
        if tuple(permutation(swap, rank)) != (*range(rank - 2), rank - 1, rank - 2):
            return None
        key = swap.args[0]
        given = [x for x in (query, key, value, bias) if x is not None]
        if not all([self.known.usable(x, at) for x in given]) or not _shapes_agree(query, key, value, softmax, first):
            return None
        if seen is False and bias is not None:
            bias = logical_not(bias)
        tensors = [query, key, value]
        if rank == 3:
            bias = bias and _of_heads(bias)
            tensors = [expand_dims(x, axis=(1,)) for x in tensors]
        made = attention(*tensors, *([] if bias is None else [bias]), scale=scale, layout="BHSD", span=product.span)
        return squeeze(made, axis=(1,)) if rank == 3 else made

    def without_cast(self, value: Expr) -> tuple[Expr, str]:
        """The operand of a cast, and the type it makes ("" where there is no cast)."""
        cast = self.known.only_use(value, R.astype.name)
        return (value, "") if cast is None else (cast.args[0], cast.ty.dtype.name)  # type: ignore[attr-defined]

    @staticmethod
    def casts_agree(first: Call, product: Call, narrow: str, wide: str) -> bool:
        """True if there is no cast, or one to a wider float type before the softmax and one back after it."""
        own = first.ty.dtype if isinstance(first.ty, TensorType) else None
        if own is None or not own.is_float or not isinstance(product.ty, TensorType):
            return False
        if not narrow and not wide:
            return own is product.ty.dtype
        wider = wide == "float32" and own.bits < DataType(wide).bits
        return wider and narrow == own.name and product.ty.dtype is own

    def biased(self, scores: Expr) -> tuple[Expr | None, bool | None, Expr]:
        """(bias or mask, is a mask true where a key is seen, scores without it)."""
        added, chosen = self.known.only_use(scores, R.add.name), self.known.only_use(scores, R.where.name)
        if added is not None:
            for this, other in ((0, 1), (1, 0)):
                if self.is_scores(added.args[this]):
                    return added.args[other], None, added.args[this]
        if chosen is not None:
            for this, other in ((1, 2), (2, 1)):
                if _scalar(chosen.args[other]) == -math.inf and self.is_scores(chosen.args[this]):
                    return chosen.args[0], this == 1, chosen.args[this]
        return None, None, scores

    def is_scores(self, value: Expr) -> bool:
        """True if a value is a product, perhaps scaled or cast."""
        inside = self.without_cast(self.scaled(value)[0])[0]
        return self.known.only_use(inside, R.matmul.name) is not None

    def scaled(self, scores: Expr) -> tuple[Expr, float]:
        """The scores without their factor, and the factor."""
        times, over = self.known.only_use(scores, R.multiply.name), self.known.only_use(scores, R.divide.name)
        if times is not None:
            for this, other in ((0, 1), (1, 0)):
                factor = _scalar(times.args[other])
                if factor is not None:
                    return times.args[this], factor
        divisor = _scalar(over.args[1]) if over is not None else None
        return (over.args[0], 1 / divisor) if over is not None and divisor else (scores, 1.0)

    def with_shared_heads(self, call: Call, at: Var) -> Call:
        """Attention that reads each head of keys and values once, where they are repeated."""
        orders, args = layouts(call), list(call.args)
        found = [self.unrepeated(args[k]) if orders[k] == "BHSD" else None for k in (1, 2)]
        key, value = found
        if key is None or value is None or not (self.known.usable(key, at) and self.known.usable(value, at)):
            return call
        return replace(call, args=(args[0], key, value, *args[3:])) if _heads(key) == _heads(value) else call

    def before_idle(self, value: Expr) -> Expr:
        """The value before reshapes and broadcasts that change nothing."""
        while (idle := self.known.call(value, R.broadcast_to.name, *_RESHAPES)) is not None:
            own, given = dims(idle.ty), dims(idle.args[0].ty)
            if own is None or given is None or same_dims(own, given) is not Answer.YES:
                break
            value = idle.args[0]
        return value

    def unrepeated(self, value: Expr) -> Expr | None:
        """k of (batch, heads, sequence, width) where the value has each of its heads several times, one after the other."""
        joined = self.known.call(self.before_idle(value), *_RESHAPES)
        wide = self.known.call(joined.args[0], R.broadcast_to.name) if joined is not None else None
        apart = self.known.call(wide.args[0], *_RESHAPES) if wide is not None else None
        if joined is None or wide is None or apart is None:
            return None
        own, one, many, all_heads = [dims(x.ty) for x in (apart.args[0], apart, wide, joined)]
        if own is None or one is None or many is None or all_heads is None:
            return None
        if (len(own), len(one), len(many), len(all_heads)) != (4, 5, 5, 4):
            return None
        expected = (*own[:2], one[2], *own[2:])
        times = [int_value(d) for d in (one[2], many[2], own[1], all_heads[1])]
        if times[0] != 1 or None in times[1:] or times[1] * times[2] != times[3]:  # type: ignore[operator]
            return None
        same = [same_dims(one, expected), same_dims((*many[:2], *many[3:]), own)]
        same.append(same_dims((all_heads[0], *all_heads[2:]), (own[0], *own[2:])))
        return apart.args[0] if min(same) is Answer.YES else None


def _heads(value: Expr) -> int:
    """Heads of a tensor that has a known number of them."""
    shape = dims(value.ty)
    assert shape is not None and type(shape[1]) is IntImm
    return shape[1].value


def _shapes_agree(query: Expr, key: Expr, value: Expr, softmax: Call, first: Call) -> bool:
    """True if the tensors have one batch (and heads), and what is added to the scores does not make them larger."""
    q, k, v, made, scores = [dims(x.ty) for x in (query, key, value, softmax, first)]
    if q is None or k is None or v is None or made is None or scores is None:
        return False
    if not len(q) == len(k) == len(v) == len(made) == len(scores):
        return False
    front = min([same_dims(q[:-2], k[:-2]), same_dims(q[:-2], v[:-2]), same_dims(made, scores)])
    return min(front, same_dim(k[-2], v[-2]), same_dim(q[-1], k[-1])) is Answer.YES


def _of_heads(bias: Expr) -> Expr:
    """A bias over (batch, rows, keys) as one over (batch, 1, rows, keys)."""
    return expand_dims(bias, axis=(1,)) if len(dims(bias.ty) or ()) == 3 else bias
