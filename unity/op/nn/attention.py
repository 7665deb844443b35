"""Attention and padding: composites that models need as one operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, ShapeExpr, Tuple
from ...ir.relation import dims, exceeds, indivisible, tensor_type, unequal
from ...ir.stmt import Stmt
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.gradients import dtype_of, operand_shape
from ..common.lowering import result_dims
from ..common.table import R, attribute, constant, optional, rows
from ..common.type_rules import (
    ZERO,
    attr,
    choice_attr,
    element,
    fail,
    float_tensor,
    ints_attr,
    is_one,
    same_dtype,
    tensor_arg,
    with_rank,
    with_shape,
)
from .activations import float_attr
from .attention_blocks import Attention, Tensor4
from .conv import pad_tensor

row = rows("nn")


AXES = "BSHD"
"""B(atch), S(equence), H(eads) and D (width)."""


def layouts(call: Call) -> tuple[str, str, str, str]:
    """Orders of the axes of query, key, value and result. A digit in one of the first three is an axis, read at that index."""
    text = attr(call, "layout")
    parts = str(text).split(",")
    found = parts * 4 if len(parts) == 1 else parts
    letters = ["".join([c for c in order if not c.isdigit()]) for order in found[:3]] + found[3:]
    if len(found) != 4 or any([sorted(order) != sorted(AXES) for order in letters]):
        raise fail(
            call, "E214",
            f"layout must be an order of the letters BSHD, or four of them (query,key,value,result), got {text!r}",
            "BSHD and BHSD are the usual ones; SB0HD reads (sequence, batch, [0], heads, width)",
        )  # fmt: skip
    return (found[0], found[1], found[2], found[3])


def _sizes_by_axis(sizes: Sequence[Any], order: str) -> tuple[Any, ...]:
    """(batch, sequence, heads, width) of a tensor whose axes have an order."""
    return tuple([sizes[order.index(axis)] for axis in AXES])


def _in_order(sizes: Sequence[Any], order: str) -> tuple[Any, ...]:
    """The sizes of a result of (batch, sequence, heads, width) in an order."""
    return tuple([sizes[AXES.index(axis)] for axis in order])


def _attention_type(call: Call) -> Type:
    orders = layouts(call)
    q, k, v = [float_tensor(call, i, n, len(orders[i])) for i, n in enumerate(("query", "key", "value"))]
    dtype = same_dtype(call, q, k, v)
    if attr(call, "window_size") is not None:
        raise fail(
            call, "E214", "a sliding window is not supported", "leave window_size=None, or give the mask as bias"
        )
    if attr(call, "causal_mask") is not None:
        choice_attr(call, "causal_mask", ("TopLeft", "BottomRight", None))
    for name in ("scale", "empty"):
        if attr(call, name) is not None:
            float_attr(call, name)
    shapes = [dims(t) for t in (q, k, v)]
    for shape, order, what in zip(shapes, orders, ("query", "key", "value")):
        for axis in [axis for axis, letter in enumerate(order) if letter.isdigit() and shape is not None]:
            if exceeds(build.const(int(order[axis]) + 1, "int64"), shape[axis]):  # type: ignore[index]
                raise fail(call, "E213", f"axis {axis} of the {what} has no index {order[axis]}")
    a, b, c = [None if shape is None else _sizes_by_axis(shape, order) for shape, order in zip(shapes, orders)]
    if a is None or b is None or c is None:
        return TensorType(None, dtype, 4, q.vdevice)
    for what, x, y in (
        ("batch", a[0], b[0]),
        ("batch", a[0], c[0]),
        ("width", a[3], b[3]),
        ("key length", b[1], c[1]),
        ("heads", b[2], c[2]),
    ):
        if unequal(x, y):
            raise fail(call, "E213", f"{what} differs: {x} and {y}")
    if build.is_int(b[2], 0) or indivisible(a[2], b[2]):
        raise fail(call, "E213", f"{a[2]} heads of the query do not divide among {b[2]} of the key")
    if len(call.args) > 3:
        _check_bias(call, (a[0], a[2], a[1], b[1]))
    return tensor_type(_in_order((a[0], a[1], a[2], c[3]), orders[3]), dtype, vdevice=q.vdevice)


def _check_bias(call: Call, scores: Sequence[Any]) -> None:
    """The bias broadcasts to the scores (batch, heads, sequence, key length)."""
    known = dims(tensor_arg(call, 3, "bias"))
    if known is None:
        return
    if len(known) > 4 or any([not is_one(x) and unequal(x, y) for x, y in zip(known[::-1], scores[::-1])]):
        shown = ", ".join([str(d) for d in scores])
        raise fail(call, "E213", f"the bias does not broadcast to the scores ({shown})", arg=3)


def lower_attention(
    call: Call, q: te.Tensor, k: te.Tensor, v: te.Tensor, bias: te.Tensor | None = None,
    program: Callable[[Attention], Stmt] = Attention.emit,
) -> te.Tensor:  # fmt: skip
    """Attention as the statements that ``program`` gives for it."""
    scale, mask = attr(call, "scale"), attr(call, "causal_mask")
    acc_dtype = "float64" if q.dtype == "float64" else "float32"
    width = build.intrinsic("sqrt", build.cast(q.shape[layouts(call)[0].index("D")], acc_dtype))
    factor = build.div(build.const(1.0, acc_dtype), width) if scale is None else build.const(float(scale), acc_dtype)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        query, key, value, out = [Tensor4(b, order) for b, order in zip((*ins[:3], outs[0]), layouts(call))]
        shift = None if mask is None else ZERO
        if mask == "BottomRight":
            shift = key.size("S") - query.size("S")
        given = ins[3] if bias is not None else None
        return program(Attention(query, key, value, out, given, factor, shift, attr(call, "empty"), acc_dtype))

    inputs = [q, k, v] if bias is None else [q, k, v, bias]
    return te.extern(result_dims(call), inputs, emit, "attention", q.dtype)


def _attention_ref(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: Any = None,
    scale: Any = None,
    causal_mask: Any = None,
    window_size: None = None,
    layout: str = "BSHD",
    empty: float | None = None,
) -> np.ndarray:
    orders = layout.split(",") * (1 if "," in layout else 4)
    a, b, c = [
        np.einsum(
            t[tuple([int(axis) if axis.isdigit() else slice(None) for axis in order])].astype(np.float64),
            ["BHSD".index(axis) for axis in order if not axis.isdigit()],
            range(4),
        )
        for t, order in zip((q, k, v), orders)
    ]
    b, c = [np.repeat(t, a.shape[1] // t.shape[1], 1) for t in (b, c)]
    scores = a @ np.swapaxes(b, -1, -2) * (1 / math.sqrt(a.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = np.where(bias, scores, -np.inf) if bias.dtype == bool else scores + bias
    if causal_mask is not None:
        rows, columns = scores.shape[-2:]
        shift = columns - rows if causal_mask == "BottomRight" else 0
        scores = np.where(np.arange(columns)[None] <= np.arange(rows)[:, None] + shift, scores, -np.inf)
    high = scores.max(-1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):  # rows that see no key
        weights = np.exp(scores - high)
        result = weights @ c / weights.sum(-1, keepdims=True)
    if empty is not None:
        result = np.where(high == -np.inf, empty, result)
    return np.asarray(np.transpose(result, ["BHSD".index(axis) for axis in orders[3]]), q.dtype)


_OPERANDS = ("query", "key", "value")
_BIAS = "added to (batch, heads, queries, keys) before softmax, broadcast; bool: true where seen"
_OPTIONS = (
    attribute("scale", None, "factor of query key^T; None: 1 / sqrt(width)"),
    attribute("causal_mask", None),
    attribute("window_size", None),
    attribute(
        "layout",
        "BSHD",
        "order of the axes, or four of them: query,key,value,result; a digit: an axis read at that index",
    ),
    attribute("empty", None),
)


_TURNED = [0, 1, 3, 2]


def _heads(call: Call, sizes: Sequence[Expr]) -> int:
    if type(sizes[1]) is not IntImm:
        raise fail(call, "E218", f"the gradient needs a constant number of heads, got {sizes[1]}")
    return sizes[1].value


def _attention_grad(call: Call, g: Expr) -> list[Any]:
    if attr(call, "window_size") is not None:
        raise fail(call, "E214", "the gradient needs attention without a window")
    orders = layouts(call)
    q, k, v, flow = [_heads_first(t, order) for t, order in zip((*call.args[:3], g), orders)]
    kept_axes = [operand_shape(call, t) for t in (q, k, v)]
    dtype = dtype_of(q)
    group = _heads(call, kept_axes[0]) // max(1, _heads(call, kept_axes[1]))
    if group != 1:
        k, v = [R.repeat(t, group, axis=1) for t in (k, v)]
    raw = attr(call, "scale")
    scale = _scale(kept_axes[0][3], dtype) if raw is None else constant(float(raw), dtype)
    low = constant(-math.inf, dtype)
    scores: Expr = R.matmul(q, R.permute_dims(k, axes=_TURNED)) * scale
    bias = call.args[3] if len(call.args) > 3 else None
    seen = bias is not None and dtype_of(bias).is_bool
    if bias is not None:
        scores = R.where(bias, scores, low) if seen else scores + bias
    causal = attr(call, "causal_mask")
    if causal:
        scores = R.where(_visible(kept_axes[0][2], kept_axes[1][2], causal), scores, low)
    share = R.nn.softmax(scores, axis=-1)
    if attr(call, "empty") is not None:
        nothing = R.less_equal(R.max(scores, axis=[-1], keepdims=True), low)
        share = R.where(nothing, constant(0.0, dtype), share)
    through = R.matmul(flow, R.permute_dims(v, axes=_TURNED))
    weighted = share * through
    inner = weighted - share * R.sum(weighted, axis=[-1], keepdims=True)
    result: list[Expr] = [
        R.matmul(inner, k) * scale,
        R.matmul(R.permute_dims(inner, axes=_TURNED), q) * scale,
        R.matmul(R.permute_dims(share, axes=_TURNED), flow),
    ]
    if group != 1:
        result[1:] = [_sum_groups(t, sizes, group) for t, sizes in zip(result[1:], kept_axes[1:])]
    found: list[Any] = [
        _heads_first_backward(call, t, order, position) for position, (t, order) in enumerate(zip(result, orders))
    ]
    if bias is not None:
        found.append(None if seen else R.collapse_sum_to(inner, ShapeExpr(operand_shape(call, bias))))
    return found


_FIRST = "BHSD"


def _heads_first(x: Expr, order: str) -> Expr:
    """(batch, heads, sequence, width) of a tensor in some order."""
    for axis in reversed(range(len(order))):
        if order[axis].isdigit():
            index = int(order[axis])
            x = R.squeeze(R.strided_slice(x, axes=[axis], begin=[index], end=[index + 1]), axis=[axis])
    order = "".join([axis for axis in order if axis in AXES])
    return _permuted(x, [order.index(axis) for axis in _FIRST])


def _permuted(x: Expr, axes: list[int]) -> Expr:
    return x if axes == [0, 1, 2, 3] else R.permute_dims(x, axes=axes)


def _heads_first_backward(call: Call, g: Expr, order: str, position: int) -> Expr:
    """The gradient of a tensor in some order by that of what ``_heads_first`` reads: zero at other indices."""
    g = _permuted(g, [_FIRST.index(axis) for axis in order if axis in AXES])
    for axis in [axis for axis, letter in enumerate(order) if letter.isdigit()]:
        size = operand_shape(call, call.args[position])[axis]
        if type(size) is not IntImm:
            raise fail(call, "E218", f"the gradient needs a constant size of axis {axis}, got {size}")
        chosen = np.zeros((size.value, *[1] * (len(order) - axis - 1)), dtype_of(g).numpy)
        chosen[int(order[axis])] = 1
        g = R.expand_dims(g, axis=[axis]) * constant(chosen)
    return g


def _scale(width: Expr, dtype: Any) -> Expr:
    if type(width) is IntImm:
        return constant(1 / math.sqrt(width.value) if width.value else 1.0, dtype)
    return constant(1.0, dtype) / R.sqrt(R.full(ShapeExpr(()), build.cast(width, dtype), dtype))


def _visible(rows: Expr, keys: Expr, causal: str) -> Expr:
    """The keys (columns) that a row sees."""
    first = keys - rows if causal == "BottomRight" else ZERO
    last = R.arange(first, first + rows, 1, dtype="int64")
    return R.less_equal(R.arange(0, keys, 1, dtype="int64"), R.expand_dims(last, axis=[1]))


def _sum_groups(x: Expr, sizes: Sequence[Expr], group: int) -> Expr:
    """The sum over the heads that share a key."""
    batch, heads, *rest = sizes
    return R.sum(R.reshape(x, ShapeExpr((batch, heads, build.const(group, "int64"), *rest))), axis=[2], keepdims=False)


attention = row(
    "nn.attention",
    (
        *_OPERANDS,
        optional("bias", doc=_BIAS),
        *_OPTIONS,
    ),
    _attention_type,
    "Returns softmax(query key^T * scale + bias) value per head (online softmax over blocks: Dao et al. 2022).",
    lower=lower_attention,
    ref=_attention_ref,
    grad=_attention_grad,
    samples="f32[2,3,2,4], f32[2,5,2,4], f32[2,5,2,3]; "
    "f32[1,2,3,4], f32[1,2,5,4], f32[1,2,5,3], layout='BHSD'; "
    "f32[1,4,4,2], f32[1,4,2,2], f32[1,4,2,2], causal_mask='TopLeft'; "
    "f32[1,3,2,4], f32[1,5,2,4], f32[1,5,2,4], f32[1,1,3,5], scale=0.5, "
    "causal_mask='BottomRight'; "
    "f32[1,2,2,3], f32[1,2,3,3], f32[1,3,2,2], layout='BHSD,BHSD,BSHD,BHSD'; "
    "f32[3,2,2,4], f32[5,2,2,4], f32[2,5,2,3], layout='SBHD,SBHD,HSBD,SHBD'; "
    "f32[2,1,3,2,4], f32[5,1,2,4], f32[2,1,5,3], layout='SB2HD,SBHD,HBSD,BSHD'; "
    "f32[1,2,2,3], f32[1,3,2,3], f32[1,3,2,2], b([[True,False,True],[False,False,False]]), "
    "empty=0.0",
)
attention_bias = row(
    "nn.attention_bias",
    (
        *_OPERANDS,
        f"bias: {_BIAS}",
        *_OPTIONS,
    ),
    _attention_type,
    "Returns nn.attention with a bias that must be given.",
    lower=lower_attention,
    ref=_attention_ref,
    grad=_attention_grad,
    samples="f32[1,3,2,4], f32[1,5,2,4], f32[1,5,2,4], f32[1,1,3,5], scale=0.5; "
    "f32[1,2,3,4], f32[1,2,5,4], f32[1,2,5,3], f32[1,1,3,5], layout='BHSD'",
)


_PAD_NEEDS: dict[str, Callable[[int], int]] = {
    "constant": lambda border: 0, "reflect": lambda border: border + 1, "replicate": lambda border: 1,
    "circular": lambda border: border,
}  # fmt: skip
"""Mode to the size an axis needs for a border of some width."""
_MODES = tuple(_PAD_NEEDS)
_NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_widths(call: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    widths = ints_attr(call, "pad_width")
    if len(widths) != 2 * rank or any([w < 0 for w in widths]):
        raise fail(
            call,
            "E214",
            f"pad_width must be {2 * rank} numbers that are not negative (before and after each axis), got {widths}",
        )
    return widths[::2], widths[1::2]


def _pad_value(call: Call, dtype: DataType | None) -> int | float:
    return element(call, attr(call, "pad_value"), dtype, "pad_value")


def _pad_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    choice_attr(call, "pad_mode", _MODES)
    _pad_value(call, ty.dtype)
    known = dims(ty)
    if known is None:
        return with_rank(ty, ty.ndim)
    before, after = _pad_widths(call, len(known))
    for d, b, a in zip(known, before, after):
        border = max(b, a)
        needed = _PAD_NEEDS[attr(call, "pad_mode")](border)
        if border and needed and exceeds(build.const(needed, "int64"), d):
            raise fail(call, "E213", f"a border of {max(b, a)} is too wide for an axis of size {d}", arg=0)
    return with_shape(ty, [d + (b + a) for d, b, a in zip(known, before, after)])


def _pad(call: Call, x: te.Tensor) -> te.Tensor:
    before, after = _pad_widths(call, x.ndim)
    mode = attr(call, "pad_mode")
    if mode == "constant":
        return pad_tensor(x, range(x.ndim), before, after, te.const(_pad_value(call, x.data_type), x.dtype))

    def source_indices(i: te.Value, axis: int) -> tuple[te.Value, te.Value, te.Value]:
        """The sources of an element of the border before, one inside, and one of the border behind."""
        index, size = i - before[axis], te.Value(x.shape[axis])
        if mode == "circular":
            return index + size, index, index - size
        if mode == "replicate":
            return te.const(0, "int64"), index, size - 1
        return 0 - index, index, (size - 1) * 2 - index

    def beside(i: te.Value, axis: int) -> tuple[te.Value, te.Value]:
        return i < before[axis], i >= te.Value(x.shape[axis]) + before[axis]

    def source(i: te.Value, axis: int) -> te.Value:
        low, inside, high = source_indices(i, axis)
        ahead, behind = beside(i, axis)
        result = te.select(behind, high, inside) if after[axis] else inside
        return te.select(ahead, low, result) if before[axis] else result

    def body(*i: te.Value) -> te.Value:
        """Along the last axis a choice of elements, not of indices: loops are cut where the choice changes."""
        *outer, last = [*i]
        head, axis = [source(v, a) for a, v in enumerate(outer)], x.ndim - 1
        low, inside, high = [x[[*head, position]] for position in source_indices(last, axis)]
        ahead, behind = beside(last, axis)
        result = te.if_then_else(behind, high, inside) if after[axis] else inside
        return te.if_then_else(ahead, low, result) if before[axis] else result

    return te.compute(result_dims(call), body, "pad") if x.ndim else x


def _pad_ref(x: np.ndarray, pad_width: Any, pad_mode: str = "constant", pad_value: float = 0.0) -> np.ndarray:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    if pad_mode == "constant":
        return np.pad(x, pairs, constant_values=pad_value)
    for size, pair in zip(x.shape, pairs):  # numpy reflects and wraps as often as it takes
        if any(pair) and _PAD_NEEDS[pad_mode](max(pair)) > size:
            raise ValueError(f"a border of {max(pair)} is too wide for an axis of size {size}")
    return np.pad(x, pairs, mode=_NUMPY_MODES[pad_mode])


def _pad_grad(call: Call, g: Expr) -> list[Any]:
    """A constant border is cut off; of the others every element goes back to the one it repeats, axis after axis."""
    shape, widths = operand_shape(call, call.args[0]), ints_attr(call, "pad_width")
    mode = attr(call, "pad_mode")
    rank = len(shape)
    axes = [a for a in range(rank) if widths[2 * a] or widths[2 * a + 1]]
    if mode == "constant":
        ends = [-widths[2 * a + 1] or 2**31 - 1 for a in axes]
        return [R.strided_slice(g, axes=axes, begin=[widths[2 * a] for a in axes], end=ends) if axes else g]
    for axis in axes:
        size = shape[axis]
        if type(size) is not IntImm:
            raise fail(call, "E218", f"the gradient needs constant sizes, got {call.args[0].ty}")
        source = np.pad(np.arange(size.value), widths[2 * axis : 2 * axis + 2], mode=_NUMPY_MODES[mode])
        order = [axis, *[a for a in range(rank) if a != axis]]
        flow = R.permute_dims(g, axes=order)
        base = R.zeros_like(R.strided_slice(flow, axes=[0], begin=[0], end=[size.value]))
        flow = R.index_put(base, Tuple((constant(source),)), flow, accumulate=True)
        g = R.permute_dims(flow, axes=[order.index(a) for a in range(rank)])
    return [g]


pad = row(
    "nn.pad",
    (
        "data",
        attribute("pad_width", doc="widths before and after each axis, in one row"),
        attribute("pad_mode", "constant", doc='"constant", "reflect", "replicate" or "circular"'),
        attribute("pad_value", 0.0, doc="the constant"),
    ),
    _pad_type,
    "Pads each axis with a constant, or with the tensor reflected, replicated or wrapped around.",
    lower=_pad,
    ref=_pad_ref,
    grad=_pad_grad,
    layout=channels_last.pad,
    samples="f32[3,4], pad_width=[1,0,2,3], pad_value=1.5; "
    "f32[3,4], pad_width=[1,2,2,1], pad_mode=each('reflect', 'replicate', 'circular')",
)
