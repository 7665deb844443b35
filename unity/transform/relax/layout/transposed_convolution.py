"""A transposed convolution as convolutions with channels last that compute its phases, and their interleaving.

Rewrite, for stride s that divides the kernel of K taps: ``y = R.nn.conv2d_transpose(x, w)`` -> ``p = R.nn.conv2d(x, w1)`` with
s * s times the output channels and K / s taps along each axis, then reshape, permute_dims, reshape, strided_slice. Where s does
not divide K, some phases have a tap more: a convolution for each number of taps along each axis, and R.concat of the phases.
``w1`` is computed from the weight by operators that ``fold_constant`` evaluates. Which phase reads what:
``unity/op/nn/conv_transpose.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.build import const, mul
from ....ir.builder import make_call
from ....ir.expr import Call, IntImm, Tuple, op
from ....ir.relation import dims
from ....ir.types import Expr, TensorType
from ....op.common.channels_last import channels_first_layout, channels_last_layout
from ....op.common.type_rules import int_attr
from ....op.manipulate.manipulate import flip, permute_dims, reshape
from ....op.manipulate.slicing import concat, strided_slice
from ....op.nn.attention import pad
from ....op.nn.conv_transpose import Group, Phases, phases


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


def as_convolution(call: Call, form: Expr | None) -> Expr:
    """The result of a call that ``phase_features`` takes, with channels last. ``form``: its data with channels last, where there
    is such a form already."""
    assert isinstance(call.ty, TensorType)
    rank = call.ty.ndim
    space, shape = channels_first_layout(rank), dims(call.args[1].ty)
    assert shape is not None
    parts = phases(call, shape[2:])
    assert parts is not None
    attrs = {
        "strides": (1,) * len(parts),
        "dilation": tuple([p.dilation for p in parts]),
        "groups": 1,
        "data_layout": space if form is None else channels_last_layout(rank),
        "kernel_layout": space[2:] + "IO",
        "out_layout": channels_last_layout(rank),
        "out_dtype": call.attrs.get("out_dtype"),
    }

    def conv(*groups: Group) -> Expr:
        """The phases of these groups."""
        kernel = _kernel(call.args[1], shape, parts, groups)
        border = (*[p.low(g.taps) for p, g in zip(parts, groups)], *[p.high for p in parts])
        source = call.args[0] if form is None else form
        made: Expr = make_call(
            op(f"R.nn.conv{rank - 2}d"), [source, kernel], {**attrs, "padding": border}, (), call.span
        )
        if all([p.stride == 1 for p in parts]):
            return made
        batch, *places, _ = dims(made.ty) or ()
        return reshape(made, [batch, *places, *[g.count for g in groups], shape[1]])

    def chosen(groups: tuple[Group, ...]) -> Expr:
        """The phases along the axes after those whose group is chosen: joined, zeros where there are no taps."""
        n = len(groups)
        if n == len(parts):
            return conv(*groups)
        made = [chosen((*groups, g)) for g in parts[n].groups if g.taps]
        if not parts[n].groups[-1].taps:
            widths = [0, 0] * (2 * rank - 2)  # batch, places, phases, channels
            widths[2 * (rank - 1 + n) + 1] = parts[n].groups[-1].count
            return pad(made[0], widths)
        return made[0] if len(made) == 1 else concat(Tuple(tuple(made)), axis=rank - 1 + n)

    return _cropped(_interleaved(chosen(()), shape[1], parts), call, parts)


def _kernel(weight: Expr, shape: Sequence[Expr], parts: Sequence[Phases], groups: Sequence[Group]) -> Expr:
    """The weight (I, O, spatial...) as (taps..., I, phases * O), of some groups of phases: taps from the last to the first."""
    count, sizes = len(parts), [n.value for n in shape if type(n) is IntImm]
    lacking = [n for p, k in zip(parts, sizes[2:]) for n in (0, -k % p.stride)]
    if any(lacking):
        weight = pad(weight, (0, 0, 0, 0, *lacking))
    rows = [n for p, k in zip(parts, sizes[2:]) for n in (-(-k // p.stride), p.stride)]
    weight = reshape(weight, [*sizes[:2], *rows])
    end = [n for g in groups for n in (g.taps, g.start + g.count)]
    axes, begin = list(range(2, 2 + 2 * count)), [n for g in groups for n in (0, g.start)]
    weight = strided_slice(weight, axes, begin, end)
    for axis in axes[::2]:
        weight = flip(weight, axis=axis)
    weight = permute_dims(weight, axes=[*axes[::2], 0, *axes[1::2], 1])
    features = sizes[1] * math.prod([g.count for g in groups])
    return reshape(weight, [*[g.taps for g in groups], sizes[0], features])


def _interleaved(value: Expr, features: Expr, parts: Sequence[Phases]) -> Expr:
    """(batch, places..., strides..., O) as (batch, places * strides..., O)."""
    if all([p.stride == 1 for p in parts]):
        return value
    count = len(parts)
    batch, *places = (dims(value.ty) or ())[: 1 + count]
    order = [0, *[n for a in range(count) for n in (1 + a, 1 + count + a)], 1 + 2 * count]
    whole = [mul(n, const(p.stride, "int64")) for n, p in zip(places, parts)]
    return reshape(permute_dims(value, axes=order), [batch, *whole, features])


def _cropped(value: Expr, call: Call, parts: Sequence[Phases]) -> Expr:
    """The places that the call keeps."""
    wanted = [n.value for n in (dims(call.ty) or ())[2:] if type(n) is IntImm]
    have = [n.value for n in (dims(value.ty) or ())[1:-1] if type(n) is IntImm]
    begin = [p.offset for p in parts]
    end = [n + first for n, first in zip(wanted, begin)]
    if have == wanted:
        return value
    return strided_slice(value, list(range(1, 1 + len(parts))), begin, end)
