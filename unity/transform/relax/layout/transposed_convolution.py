"""A transposed convolution as a convolution with channels last that computes its phases, and their interleaving.

Rewrite, for stride s that divides the kernel of K taps: ``y = R.nn.conv2d_transpose(x, w)`` -> ``p = R.nn.conv2d(x, w1)`` with
s * s times the output channels and K / s taps along each axis, then reshape, permute_dims, reshape, strided_slice. ``w1`` is
computed from the weight by operators that ``fold_constant`` evaluates. Which phase reads what: ``unity/op/nn/conv_transpose.py``,
whose tensor program is faster where s does not divide K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.build import const, int_values, mul
from ....ir.builder import make_call
from ....ir.expr import Call, IntImm, op
from ....ir.relation import dims
from ....ir.types import Expr, TensorType
from ....op.common.channels_last import channels_first_layout, channels_last_layout
from ....op.common.type_rules import int_attr
from ....op.manipulate.manipulate import flip, permute_dims, reshape
from ....op.manipulate.slicing import strided_slice
from ....op.nn.conv_transpose import Phases, phases


def phase_features(call: Call) -> int | None:
    """Output channels times phases that one convolution computes, of a transposed convolution in the standard layouts,
    without groups and of known sizes but for the batch; None for others."""
    if not isinstance(call.ty, TensorType) or call.ty.ndim < 3:
        return None
    rank = call.ty.ndim
    space, shape = channels_first_layout(rank), dims(call.args[1].ty)
    layouts = {call.attrs.get("data_layout", space), call.attrs.get("out_layout") or space}
    plain = layouts == {space} and call.attrs.get("kernel_layout", "IO" + space[2:]) == "IO" + space[2:]
    if not plain or shape is None or dims(call.ty) is None or int_attr(call, "groups", 1) != 1:
        return None
    parts, places = phases(call, shape[2:]), (dims(call.ty) or ())[2:]
    if parts is None or not all([type(n) is IntImm for n in (*shape, *places)]):
        return None
    features: int = shape[1].value  # type: ignore[attr-defined]
    return features * math.prod([p.groups[0].count for p in parts])


def as_convolution(call: Call, form: Expr | None) -> Expr | None:
    """The result of a call that ``phase_features`` takes, with channels last; None where a stride does not divide the kernel.
    ``form``: its data with channels last, where there is such a form already."""
    assert isinstance(call.ty, TensorType)
    rank = call.ty.ndim
    space, shape = channels_first_layout(rank), dims(call.args[1].ty)
    assert shape is not None
    parts = phases(call, shape[2:])
    if parts is None or any([len(p.groups) > 1 for p in parts]):
        return None
    attrs = {
        "strides": (1,) * len(parts),
        "padding": (*[p.reach - p.first for p in parts], *[p.high for p in parts]),
        "dilation": tuple([p.dilation for p in parts]),
        "groups": 1,
        "data_layout": space if form is None else channels_last_layout(rank),
        "kernel_layout": space[2:] + "IO",
        "out_layout": channels_last_layout(rank),
        "out_dtype": call.attrs.get("out_dtype"),
    }
    operands = [call.args[0] if form is None else form, _kernel(call.args[1], shape, parts)]
    made: Expr = make_call(op(f"R.nn.conv{rank - 2}d"), operands, attrs, (), call.span)
    return _cropped(_interleaved(made, shape[1], parts), call, parts)


def _kernel(weight: Expr, shape: Sequence[Expr], parts: Sequence[Phases]) -> Expr:
    """The weight (I, O, spatial...) as (taps..., I, phases * O): taps from the last to the first."""
    taps, axes = [p.groups[0].taps for p in parts], list(range(2, 2 + 2 * len(parts)))
    weight = reshape(weight, [*shape[:2], *[n for t, p in zip(taps, parts) for n in (t, p.stride)]])
    for axis in axes[::2]:
        weight = flip(weight, axis=axis)
    weight = permute_dims(weight, axes=[*axes[::2], 0, *axes[1::2], 1])
    return reshape(weight, [*taps, shape[0], mul(shape[1], const(math.prod([p.stride for p in parts]), "int64"))])


def _interleaved(value: Expr, features: Expr, parts: Sequence[Phases]) -> Expr:
    """(batch, places..., strides * O) as (batch, places * strides..., O)."""
    if all([p.stride == 1 for p in parts]):
        return value
    count = len(parts)
    batch, *places = (dims(value.ty) or ())[: 1 + count]
    value = reshape(value, [batch, *places, *[p.stride for p in parts], features])
    order = [0, *[n for a in range(count) for n in (1 + a, 1 + count + a)], 1 + 2 * count]
    whole = [mul(n, const(p.stride, "int64")) for n, p in zip(places, parts)]
    return reshape(permute_dims(value, axes=order), [batch, *whole, features])


def _cropped(value: Expr, call: Call, parts: Sequence[Phases]) -> Expr:
    """The places that the call keeps."""
    wanted = int_values((dims(call.ty) or ())[2:])
    have = int_values((dims(value.ty) or ())[1:-1])
    begin = [p.offset for p in parts]
    end = [n + first for n, first in zip(wanted, begin)]
    if have == wanted:
        return value
    return strided_slice(value, list(range(1, 1 + len(parts))), begin, end)
