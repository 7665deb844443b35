"""Pooling over one, two or three spatial axes: largest and mean over windows of a given size, or chosen by the output size.

Layouts NCW, NCHW, NCDHW and their orders. Means of narrow floats are taken in float32, sums of
integers in 64 bits; which positions count in a mean
at the border is an attribute.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call, FloatImm, IntImm, Tuple
from ...ir.op import Param
from ...ir.relation import dims
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.gradients import Rule, dtype_of, operand_sizes
from ..common.lowering import known_dims, result_dims
from ..common.table import Operator, R, attribute, constant, rows
from ..common.type_rules import attr, bool_attr, fail, float_tensor, op_name, tensor_arg, with_rank, with_shape
from ..reduction.reduce import accumulate
from .conv import (
    as_tuple,
    backward_plan,
    layout_order,
    linear_axes_grad,
    output_padding,
    pad_tensor,
    pad_widths,
    pads,
    spatial,
    window_size,
)

row = rows("nn")


def _layout(rank: int) -> str:
    return "NC" + "DHW"[3 - rank :]


def number_tensor(call: Call, index: int, name: str, rank: int) -> TensorType:
    """Type of a tensor argument that has a mean. Raises E210 to E212."""
    ty = tensor_arg(call, index, name, rank)
    return float_tensor(call, index, name) if ty.dtype is not None and not ty.dtype.is_integral else ty


def accumulate_window(x: te.Value) -> te.Value:
    """A value in the dtype the sum of a window is taken in."""
    return x.astype("int64") if x.dtype.is_integral and x.dtype.name != "uint64" else accumulate(x)


def quotient(total: te.Value, count: te.Value) -> te.Value:
    """The mean of ``count`` values; of integers towards zero, as torch's and TVM's."""
    return (te.truncdiv if total.dtype.is_integral else operator.truediv)(total, count.astype(total.dtype))


def shared_layout(call: Call, rank: int) -> tuple[int, ...]:
    """Position of each axis in the layout of data and result. Raises E214 where the result should have another."""
    layout, out = attr(call, "layout") or _layout(rank), attr(call, "out_layout")
    if out and out != layout:
        raise fail(call, "E214", f"out_layout must be that of the data, {layout}, got {out!r}", "transpose the result")
    return layout_order(call, "layout", _layout(rank), _layout(rank))


def pool_type(rank: int) -> Any:
    """Type rule of pooling over windows of a given size."""

    def rule(call: Call) -> Type:
        x = (tensor_arg if "max" in op_name(call) else number_tensor)(call, 0, "data", rank + 2)
        order = shared_layout(call, rank)
        kernel, strides, dilation = [spatial(call, n, rank) for n in ("pool_size", "strides", "dilation")]
        before, after = pads(call, rank)
        ceil = bool_attr(call, "ceil_mode")
        known = dims(x)
        if known is None:
            return with_rank(x, rank + 2)
        shape = list(known)
        for i, a in enumerate(order[2:]):
            size = build.const(kernel[i], "int64")
            shape[a] = windows = window_size(known[a], before[i], after[i], size, strides[i], dilation[i], ceil)
            if type(windows) is IntImm and windows.value < 0:
                raise fail(call, "E213", f"the window is larger than the padded data along spatial axis {i}")
        return with_shape(x, shape)

    return rule


def elements_within(start: te.Value, kernel: int, dilation: int, low: Any, high: Any) -> te.Value:
    """The number of elements of a window that begins at ``start`` which lie between two positions along an axis."""
    first, last = [te.Value(build.cast(te.to_scalar(end), "int64")) - start for end in (low, high)]
    if dilation > 1:
        first, last = [(end + dilation - 1) // dilation for end in (first, last)]
    return te.minimum(last, kernel) - te.maximum(first, 0)


def _pool(largest: bool, rank: int) -> Any:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes = layout_order(call, "layout", _layout(rank), _layout(rank))[2:]
        kernel, strides, dilation = [spatial(call, n, rank) for n in ("pool_size", "strides", "dilation")]
        before, after = pads(call, rank)
        shape = result_dims(call)
        extra = [0] * rank
        if bool_attr(call, "ceil_mode"):
            extra = [(k - 1) * d + s for k, d, s in zip(kernel, dilation, strides)]
        wide = x
        if not largest and x.data_type.name not in ("float32", "float64"):
            wide = te.compute(x.shape, lambda *i: accumulate_window(x[i]), "wide")
        edge = te.lowest(x.dtype) if largest else te.const(0, wide.dtype)
        padded = pad_tensor(wide, axes, before, [a + e for a, e in zip(after, extra)], edge)
        rs = [te.reduce_axis((0, kernel[i]), f"r{'dhw'[3 - rank + i]}") for i in range(rank)]

        def body(*i: te.Value) -> te.Value:
            index: list[Any] = list(i)
            for n, a in enumerate(axes):
                index[a] = i[a] * strides[n] + rs[n] * dilation[n]
            return (te.max if largest else te.sum)(padded[index], axis=rs)

        result = te.compute(shape, body, f"max_pool{rank}d" if largest else "pool_sum")
        if largest:
            return result
        counted = bool_attr(call, "count_include_pad")

        def average(*i: te.Value) -> te.Value:
            count: Any = te.const(1, "int64")
            for n, a in enumerate(axes):
                start = i[a] * strides[n] - before[n]
                low, high = (-before[n], x.shape[a] + after[n]) if counted else (0, x.shape[a])
                count = count * elements_within(start, kernel[n], dilation[n], low, high)
            return quotient(result[i], te.maximum(count, 1)).astype(x.dtype)

        return te.compute(shape, average, f"avg_pool{rank}d")

    return lower


def window_indices(
    spans: Sequence[int], pool_size: Any, strides: Any, dilation: Any, border: Sequence[int], ceil_mode: bool
) -> list[np.ndarray]:
    """For each axis the positions of the elements of each window; some may lie outside of the data."""
    rank, result = len(spans), []
    for a, (k, s, d) in enumerate(zip(*[as_tuple(v, rank) for v in (pool_size, strides, dilation)])):
        room = spans[a] + border[a] + border[rank + a] - ((k - 1) * d + 1)
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        result.append(np.arange(count)[:, None] * s - border[a] + np.arange(k) * d)
    return result


def _includes_border(rank: int) -> bool:
    """Whether means count the border unless they say: in TVM, those of one or three axes do and those of two do not."""
    return rank != 2


def _pool_ref(largest: bool, rank: int) -> Any:
    def ref(
        x: np.ndarray,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = _includes_border(rank),
        layout: str = _layout(rank),
        out_layout: str | None = None,
    ) -> np.ndarray:
        data = np.transpose(x, [layout.index(c) for c in _layout(rank)])
        data = data if largest else data.astype(np.float64)
        border, spans, count = pad_widths(padding, rank), data.shape[2:], np.ones((), int)
        lowest = build.lowest(data.dtype.name)
        fill = lowest.value if largest and isinstance(lowest, (IntImm, FloatImm)) else 0
        for a, at in reversed([*enumerate(window_indices(spans, pool_size, strides, dilation, border, ceil_mode))]):
            widths = [(0, 0)] * data.ndim
            widths[2 + a] = before, _ = -at.min(initial=0), max(0, at.max(initial=0) + 1 - spans[a])
            data = np.take(np.pad(data, widths, constant_values=fill), at + before, 2 + a)
            low, high = (-border[a], spans[a] + border[rank + a]) if count_include_pad else (0, spans[a])
            count = np.multiply.outer(((at >= low) & (at < high)).sum(-1), count)
        elements = tuple(range(3, 3 + 2 * rank, 2))
        result = data.max(elements) if largest else data.sum(elements) / np.maximum(count, 1)
        result = np.trunc(result) if data.dtype.kind == "f" and x.dtype.kind in "iu" else result
        return np.transpose(result, [_layout(rank).index(c) for c in layout]).astype(x.dtype)

    return ref


def _pool_grad(rank: int, largest: bool) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        """The maximum's gradient goes to the first of the positions that attain it, as in torch."""
        x = call.args[0]
        plan = backward_plan(call, rank)
        strides, dilation, border = plan
        if bool_attr(call, "ceil_mode"):
            raise fail(call, "E214", "the gradient needs ceil_mode=False")
        sizes, out, taps = operand_sizes(call, x), operand_sizes(call, g)[2:], spatial(call, "pool_size", rank)
        batch, dtype = sizes[0] * sizes[1], dtype_of(x)
        options: dict[str, Any] = {"strides": strides, "dilation": dilation, "padding": border}
        extra = output_padding(sizes[2:], out, taps, plan)
        lines, flow = R.reshape(x, (batch, 1, *sizes[2:])), R.reshape(g, (batch, 1, *out))
        if largest:
            kernel: Expr = constant(np.eye(math.prod(taps)).reshape(-1, 1, *taps).astype(dtype.numpy))
            widths = [0, 0, 0, 0, *[v for i in range(rank) for v in (border[i], border[rank + i])]]
            padded = R.nn.pad(lines, pad_width=widths, pad_value=-math.inf)
            best, axes, hits = R.reshape(call, (batch, 1, *out)), list(range(2, rank + 2)), []
            for tap in itertools.product(*[range(k) for k in taps]):
                begin = [t * d for t, d in zip(tap, dilation)]
                end = [b + (o - 1) * s + 1 for b, o, s in zip(begin, out, strides)]
                part = R.strided_slice(padded, axes=axes, begin=begin, end=end, strides=strides)
                hits.append(R.astype(R.logical_or(R.equal(part, best), R.isnan(part)), dtype))
            first = R.argmax(R.concat(Tuple(tuple(hits)), axis=1), axis=1, keepdims=True)
            numbers = constant(np.arange(len(hits)).reshape(1, -1, *[1] * rank))
            flow = R.where(R.equal(numbers, first), flow, constant(0, dtype))
        else:
            kernel = R.ones((1, 1, *taps), dtype=dtype.name)
            count: Any = float(math.prod(taps))
            if not bool_attr(call, "count_include_pad") and any(border):
                count = getattr(R.nn, f"conv{rank}d")(R.ones((1, 1, *sizes[2:]), dtype=dtype.name), kernel, **options)
            flow = flow / count
        result = getattr(R.nn, f"conv{rank}d_transpose")(flow, kernel, output_padding=extra, **options)
        return [R.reshape(result, tuple(sizes))]

    return rule


_SIGNALS = {1: "1,2,7", 2: "1,2,5,6", 3: "1,2,2,4,3"}
"""Shapes of samples by rank."""


def _pool_row(largest: bool, rank: int) -> Operator:
    params: list[Param | str] = [
        "data",
        attribute("pool_size", (1,) * rank),
        attribute("strides", (1,) * rank),
        attribute("padding", (0,) * rank),
        attribute("dilation", (1,) * rank),
        attribute("ceil_mode", False),
        attribute("count_include_pad", not largest and _includes_border(rank)),
        attribute("layout", _layout(rank)),
        attribute("out_layout", None),
    ]
    return row(
        f"nn.{'max' if largest else 'avg'}_pool{rank}d",
        params,
        pool_type(rank),
        "Returns the largest element of each window; NaN if any is NaN."
        if largest
        else "Returns the mean of each window; integers round towards 0.",
        lower=_pool(largest, rank),
        ref=_pool_ref(largest, rank),
        grad=_pool_grad(rank, largest),
        layout=channels_last.pool,
        mixed_precision="follow" if largest else "never",
        samples=f"f32[{_SIGNALS[rank]}], pool_size=2, strides=each(1, 2); f32[{_SIGNALS[rank]}], pool_size=3, strides=2, "
        f"padding=1, ceil_mode=each(False, True); f32[{_SIGNALS[rank]}], pool_size=3, padding=1, count_include_pad=True; "
        f"f32[{_SIGNALS[rank]}], pool_size=2, dilation=2, padding=1, count_include_pad=each(False, True); "
        f"f32[{_SIGNALS[rank]}], pool_size=2, layout='{'NDHWC'.replace('DHW', 'DHW'[3 - rank :])}'; "
        f"i32[{_SIGNALS[rank]}], pool_size=2; f16[{_SIGNALS[rank]}], pool_size=2",
    )


max_pool1d, max_pool2d, max_pool3d = [_pool_row(True, n) for n in (1, 2, 3)]
avg_pool1d, avg_pool2d, avg_pool3d = [_pool_row(False, n) for n in (1, 2, 3)]


def adaptive_type(rank: int) -> Any:
    """Type rule of pooling to a given output size."""

    def rule(call: Call) -> Type:
        x = (tensor_arg if "max" in op_name(call) else number_tensor)(call, 0, "data", rank + 2)
        order = shared_layout(call, rank)
        known = dims(x)
        if known is None or attr(call, "output_size") is None:
            return x if known is not None else with_rank(x, rank + 2)
        size = spatial(call, "output_size", rank)
        shape = list(known)
        for i in range(rank):
            shape[order[2 + i]] = build.const(size[i], "int64")
        return with_shape(x, shape)

    return rule


def window_divisor(size: Expr) -> Expr:
    """The number of windows along an axis as a divisor: none are no reason to divide by zero."""
    return size if type(size) is IntImm else build.maximum(size, 1)


def adaptive_window_bound(span: Expr, size: Expr) -> Expr:
    """Most elements a window of adaptive pooling holds along an axis."""
    size = window_divisor(size)
    if build.is_int(span % size, 0):
        return span // size
    return build.ceildiv(span, size) + 1


def _adaptive(largest: bool, rank: int) -> Any:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes = layout_order(call, "layout", _layout(rank), _layout(rank))[2:]
        shape = known_dims(call, call.ty)
        sizes, spans = [te.Value(window_divisor(shape[a])) for a in axes], [te.Value(x.shape[a]) for a in axes]
        reach = [adaptive_window_bound(x.shape[a], shape[a]) for a in axes]
        rs = [te.reduce_axis((0, r), f"r{'dhw'[3 - rank + n]}") for n, r in enumerate(reach)]

        def edges(i: Sequence[te.Value], n: int) -> tuple[te.Value, te.Value]:
            position = i[axes[n]]
            return (position * spans[n]) // sizes[n], ((position + 1) * spans[n] + sizes[n] - 1) // sizes[n]

        def body(*i: te.Value) -> te.Value:
            index: list[Any] = list(i)
            inside = []
            for n, a in enumerate(axes):
                start, end = edges(i, n)
                index[a] = start + rs[n]
                inside.append(start + rs[n] < end)
            if largest:
                return te.max(te.if_then_else(te.all(*inside), x[index], te.lowest(x.dtype)), axis=rs)
            return te.sum(te.if_then_else(te.all(*inside), accumulate_window(x[index]), 0), axis=rs)

        total = te.compute(shape, body, f"adaptive_max_pool{rank}d" if largest else "adaptive_sum")
        if largest:
            return total

        def average(*i: te.Value) -> te.Value:
            count: Any = te.const(1, "int64")
            for n in range(rank):
                start, end = edges(i, n)
                count = count * (end - start)
            return quotient(total[i], count).astype(x.dtype)

        return te.compute(shape, average, f"adaptive_avg_pool{rank}d")

    return lower


def _adaptive_ref(largest: bool, rank: int) -> Any:
    def ref(
        x: np.ndarray, output_size: Any = None, layout: str = _layout(rank), out_layout: str | None = None
    ) -> np.ndarray:
        data = np.transpose(x, [layout.index(c) for c in _layout(rank)])
        data = data if largest else data.astype(np.float64)
        span = data.shape[2:]
        size = span if output_size is None else as_tuple(output_size, rank)
        if 0 in span and x.dtype.kind in "iu":
            raise ValueError("integers have no mean of an empty window")
        result = np.empty((*data.shape[:2], *size), data.dtype)
        for index in np.ndindex(*size):
            window = [slice(p * n // k, -(-(p + 1) * n // k)) for p, n, k in zip(index, span, size)]
            indices: tuple[Any, ...] = (slice(None), slice(None), *index)
            elements = data[(slice(None), slice(None), *window)]
            result[indices] = (elements.max if largest else elements.mean)(tuple(range(-rank, 0)))
        result = np.trunc(result) if x.dtype.kind in "iu" and not largest else result
        return np.transpose(result, [_layout(rank).index(c) for c in layout]).astype(x.dtype)

    return ref


def _pool_matrix(call: Call, n: int, size: int, wanted: int) -> np.ndarray:
    """The mean over a window per line."""
    result = np.zeros((wanted, size))
    for position in range(wanted):
        begin, end = position * size // wanted, -(-(position + 1) * size // wanted)
        result[position, begin:end] = 1 / (end - begin)
    return result


def _adaptive_row(largest: bool, rank: int) -> Operator:
    return row(
        f"nn.adaptive_{'max' if largest else 'avg'}_pool{rank}d",
        ("data", attribute("output_size", None), attribute("layout", _layout(rank)), attribute("out_layout", None)),
        adaptive_type(rank),
        f"Returns the {'largest elements' if largest else 'means'} of windows chosen so that the output has a given size.",
        lower=_adaptive(largest, rank),
        ref=_adaptive_ref(largest, rank),
        grad="models that pool to maxima are trained in torch: torch.compile runs their backward graphs there"
        if largest
        else linear_axes_grad("DHW"[3 - rank :], _pool_matrix),
        layout=channels_last.pool,
        samples=f"f32[{_SIGNALS[rank]}], output_size=each(1, 2, None); i32[{_SIGNALS[rank]}], output_size=2; "
        f"f32[{_SIGNALS[rank]}], output_size={(2, 3, 1)[3 - rank :]}, layout='{'NDHWC'.replace('DHW', 'DHW'[3 - rank :])}'",
    )


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = [_adaptive_row(True, n) for n in (1, 2, 3)]
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = [_adaptive_row(False, n) for n in (1, 2, 3)]
