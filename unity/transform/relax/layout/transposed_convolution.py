"""A transposed convolution as a convolution with channels last that computes all its phases, and their interleaving.

Rewrite, for stride s and a kernel of K taps: ``y = R.nn.conv2d_transpose(x, w)`` -> ``p = R.nn.conv2d(x, w1)`` with s * s times
the output channels and ceil(K / s) taps along each axis, then reshape, permute_dims, reshape, strided_slice. ``w1`` is computed
from the weight by operators that ``fold_constant`` evaluates. Which phase reads what: ``unity/op/nn/conv_transpose.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.build import const, mul
from ....ir.builder import make_call
from ....ir.expr import Call, IntImm, Var, op
from ....ir.relation import dims
from ....ir.types import Expr, TensorType
from ....op.common.channels_last import channels_first_layout, channels_last_layout
from ....op.common.type_rules import int_attr
from ....op.manipulate.manipulate import flip, permute_dims, reshape
from ....op.manipulate.slicing import strided_slice
from ....op.nn.attention import pad
from ....op.nn.conv_transpose import Phases, phases

Emit = Callable[[Expr], Var]


def phase_features(call: Call) -> int | None:
    """Output channels times phases of a transposed convolution in the standard layouts, without groups and of known sizes but
    for the batch; None for others."""
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
    for part in parts:
        features *= part.stride
    return features


def as_convolution(call: Call, form: Expr | None, emit: Emit) -> Expr:
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
        "padding": (*[p.low for p in parts], *[p.high for p in parts]),
        "dilation": tuple([p.dilation for p in parts]),
        "groups": 1,
        "data_layout": space if form is None else channels_last_layout(rank),
        "kernel_layout": space[2:] + "IO",
        "out_layout": channels_last_layout(rank),
        "out_dtype": call.attrs.get("out_dtype"),
    }
    kernel = emit(_kernel(call.args[1], shape, parts, emit))
    conv = op(f"R.nn.conv{rank - 2}d")
    made: Expr = make_call(conv, [call.args[0] if form is None else form, kernel], attrs, (), call.span)
    return _cropped(_interleaved(made, shape[1], parts, emit), call, parts, emit)


def _kernel(weight: Expr, shape: Sequence[Expr], parts: Sequence[Phases], emit: Emit) -> Expr:
    """The weight (I, O, spatial...) as (taps..., I, phases * O): taps from the last to the first."""
    sizes = [n.value for n in shape if type(n) is IntImm]
    lacking = [p.taps * p.stride - k for p, k in zip(parts, sizes[2:])]
    if any(lacking):
        weight = emit(pad(weight, (0, 0, 0, 0, *[n for missing in lacking for n in (0, missing)])))
    split = emit(reshape(weight, [*sizes[:2], *[n for p in parts for n in (p.taps, p.stride)]]))
    count = len(parts)
    for axis in range(count):
        split = emit(flip(split, axis=2 + 2 * axis))
    order = [*[2 + 2 * a for a in range(count)], 0, *[3 + 2 * a for a in range(count)], 1]
    features = sizes[1]
    for p in parts:
        features *= p.stride
    return reshape(emit(permute_dims(split, axes=order)), [*[p.taps for p in parts], sizes[0], features])


def _interleaved(value: Expr, features: Expr, parts: Sequence[Phases], emit: Emit) -> Expr:
    """(batch, places..., phases * O) as (batch, places * strides..., O)."""
    if all([p.stride == 1 for p in parts]):
        return value
    value = emit(value)
    batch, *places, _ = dims(value.ty) or ()
    count = len(parts)
    apart = emit(reshape(value, [batch, *places, *[p.stride for p in parts], features]))
    order = [0, *[n for a in range(count) for n in (1 + a, 1 + count + a)], 1 + 2 * count]
    whole = [mul(n, const(p.stride, "int64")) for n, p in zip(places, parts)]
    return reshape(emit(permute_dims(apart, axes=order)), [batch, *whole, features])


def _cropped(value: Expr, call: Call, parts: Sequence[Phases], emit: Emit) -> Expr:
    """The places that the call keeps."""
    wanted = [n.value for n in (dims(call.ty) or ())[2:] if type(n) is IntImm]
    have = [n.value for n in (dims(value.ty) or ())[1:-1] if type(n) is IntImm]
    begin = [p.offset for p in parts]
    end = [n + first for n, first in zip(wanted, begin)]
    if have == wanted:
        return value
    return strided_slice(emit(value), list(range(1, 1 + len(parts))), begin, end)
