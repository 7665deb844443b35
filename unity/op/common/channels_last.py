"""Rules for operators on tensors whose channels come last: rules that rows name, attributes with axes moved along.

A rule gets a call on tensors (batch, channels, spatial axes...) and gives the same call on tensors (batch, spatial axes...,
channels), or None where it has none. Not here: where such calls are worth it (``convert_layout``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...ir.builder import make_call
from ...ir.expr import Call, Op, Tuple
from ...ir.op import row_of
from ...ir.types import Expr, TensorType
from .type_rules import axes_attr, axis_attr, int_attr, ints_attr, normal_axis


class Forms(Protocol):
    """The questions that a rule may ask the pass."""

    def known(self, value: Expr) -> Expr | None:
        """The form of a value with channels last, where there is one already."""

    def operand(self, value: Expr, rank: int) -> Expr | None:
        """An operand that broadcasts to ``rank`` axes with channels last, brought there where needed; None where its rank is
        not known."""


class Unconverted:
    """A result that has no channels-last form: the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value


Converted = Expr | Unconverted | None
LayoutRule = Callable[[Call, Forms], Converted]


def rank_of(value: Expr) -> int:
    """Axes of a tensor, -1 where they are not known (or it is not a tensor)."""
    return value.ty.ndim if isinstance(value.ty, TensorType) else -1


def channels_last_axis(axis: int, rank: int) -> int:
    """The position of an axis of (batch, channels, spatial...) in (batch, spatial..., channels)."""
    return axis if axis == 0 else rank - 1 if axis == 1 else axis - 1


def channels_first_layout(rank: int) -> str:
    """``NCHW`` and its likes."""
    return "NC" + "DHW"[5 - rank :]


def channels_last_layout(rank: int) -> str:
    """``NHWC`` and its likes."""
    return "N" + "DHW"[5 - rank :] + "C"


def _with_operands(call: Call, args: list[Expr], **attrs: Any) -> Call:
    assert type(call.op) is Op
    return make_call(call.op, args, {**call.attrs, **attrs}, call.ty_args, call.span)


def elementwise(call: Call, forms: Forms) -> Converted:
    """Operands and results alike."""
    rank = rank_of(call)
    args: list[Expr] = []
    for value in call.args:
        result = forms.operand(value, rank) if isinstance(value.ty, TensorType) else value
        if result is None:
            return None
        args.append(result)
    return _with_operands(call, args)


def pool(call: Call, forms: Forms) -> Converted:
    """Windows: the layout is an attribute."""
    rank, data = rank_of(call.args[0]), forms.known(call.args[0])
    layouts = {call.attrs.get(name) for name in ("layout", "out_layout")} - {None, channels_first_layout(rank)}
    if data is None or layouts:
        return None
    attrs = {"layout": channels_last_layout(rank), **({"out_layout": None} if "out_layout" in call.attrs else {})}
    return _with_operands(call, [data, *call.args[1:]], **attrs)


def concat(call: Call, forms: Forms) -> Converted:
    """Joined along the axis where it went."""
    parts, rank = call.args[0], rank_of(call)
    axis = call.attrs.get("axis")
    if type(parts) is not Tuple or not isinstance(axis, int):
        return None
    fields = [forms.operand(f, rank) if rank_of(f) == rank else None for f in parts.fields]
    if any([f is None for f in fields]):
        return None
    result = Tuple(tuple([f for f in fields if f is not None]))
    return _with_operands(call, [result], axis=channels_last_axis(normal_axis(call, axis, rank), rank))


def split(call: Call, forms: Forms) -> Converted:
    """Cut along the axis where it went."""
    rank, data = rank_of(call.args[0]), forms.known(call.args[0])
    if data is None:
        return None
    axis = axis_attr(call, rank)
    return _with_operands(call, [data, *call.args[1:]], axis=channels_last_axis(axis, rank))


def along_axis(default: int) -> LayoutRule:
    """Operators along one axis of their first operand."""

    def rule(call: Call, forms: Forms) -> Converted:
        rank, data = rank_of(call.args[0]), forms.known(call.args[0])
        if data is None:
            return None
        axis = normal_axis(call, int_attr(call, "axis", default), rank)
        return _with_operands(call, [data, *call.args[1:]], axis=channels_last_axis(axis, rank))

    return rule


def reduce(call: Call, forms: Forms) -> Converted:
    """Reduced over the axes where they went; without them, if the others keep their order."""
    rank, data = rank_of(call.args[0]), forms.known(call.args[0])
    axes = axes_attr(call, "axis", rank)
    if data is None or axes is None:
        return None
    result = _with_operands(call, [data], axis=tuple(sorted([channels_last_axis(a, rank) for a in axes])))
    if call.attrs.get("keepdims"):
        return result
    left = [channels_last_axis(a, rank) for a in range(rank) if a not in axes]
    return Unconverted(result) if left == sorted(left) else None


def pad(call: Call, forms: Forms) -> Converted:
    """Borders of the axes where they went."""
    rank, data = rank_of(call.args[0]), forms.known(call.args[0])
    widths = ints_attr(call, "pad_width")
    if data is None or len(widths) != 2 * rank:
        return None
    pairs = {channels_last_axis(a, rank): widths[2 * a : 2 * a + 2] for a in range(rank)}
    return _with_operands(call, [data, *call.args[1:]], pad_width=tuple([w for a in range(rank) for w in pairs[a]]))


def channel_norm(call: Call, forms: Forms) -> Converted:
    """The axis of the channels is an attribute."""
    rank, data = rank_of(call.args[0]), forms.known(call.args[0])
    if data is None:
        return None
    axes = axes_attr(call, "axes", rank)
    channel = channels_last_axis(axis_attr(call, rank, "channel_axis"), rank)
    moved = None if axes is None else tuple(sorted([channels_last_axis(a, rank) for a in axes]))
    return _with_operands(call, [data, *call.args[1:]], channel_axis=channel, axes=moved)


def rule_of(call: Call) -> LayoutRule | None:
    """The rule by which an operator computes with channels last. The first result of those that give a tuple (all results of
    ``R.split``) has channels last."""
    info = row_of(call)
    return info.layout or (elementwise if info.pointwise else None)
