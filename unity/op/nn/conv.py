"""Convolution and pooling of images (conv1d, conv2d, pooling), by direct definition.

Layouts NCHW / NCW with weights OIHW / OIW, and NHWC with HWIO or OHWI. Padding is one number, one per axis, or begins then ends.
Sums of narrow floats are taken in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call, IntImm, Tuple
from ...ir.op import Param
from ...ir.relation import dims, indivisible, tensor_type, unequal
from ...ir.scalar import Add, Sub
from ...ir.types import Expr, TensorType, Type
from ..common.gradients import Rule, dtype_of, fields_of, operand_sizes
from ..common.lowering import cast_tensor, compute_dtype, result_dims, result_dtype
from ..common.table import Operator, R, attribute, constant, rows
from ..common.type_rules import (
    attr,
    dtype_value,
    fail,
    int_attr,
    ints_attr,
    is_one,
    same_dtype,
    tensor_arg,
)

row = rows("nn")


def pads(call: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each spatial axis. Raises E214."""
    value = ints_attr(call, "padding", None)
    if len(value) == 1:
        value = value * rank
    if len(value) == rank:
        value = value + value
    if len(value) != 2 * rank or any([v < 0 for v in value]):
        raise fail(call, "E214", f"padding must be 1, {rank} or {2 * rank} numbers that are not negative, got {value}")
    return value[:rank], value[rank:]


def spatial(call: Call, name: str, rank: int) -> tuple[int, ...]:
    """One positive number per spatial axis. Raises E214."""
    value = ints_attr(call, name)
    value = value * rank if len(value) == 1 else value
    if len(value) != rank or any([v < 1 for v in value]):
        raise fail(call, "E214", f"{name} must be {rank} positive numbers, got {value}")
    return value


def window_size(
    size: Expr, before: int, after: int, kernel: Expr, stride: int, dilation: int, ceil: bool = False
) -> Expr:
    """Number of positions a window fits along an axis."""
    reach = (kernel - 1) * dilation + 1
    slack = before + after + (stride - 1 if ceil else 0) - reach
    if stride == 1:
        return _add_to_size(size, slack + 1)
    return _add_to_size(size, slack) // stride + 1


def _add_to_size(size: Expr, by: Expr) -> Expr:
    """``size + by``, numbers added up: of a row of convolutions the sizes stay short, and those that are equal look it."""
    if type(by) is not IntImm:
        return size + by
    number = by.value
    while isinstance(size, (Add, Sub)) and type(size.b) is IntImm:
        number += size.b.value if type(size) is Add else -size.b.value
        size = size.a
    return size + number if number >= 0 else size - -number


def layout_order(call: Call, name: str, default: str, known: str) -> tuple[int, ...]:
    """Position of each axis of ``known`` in a layout. Raises E214."""
    layout = attr(call, name, default) or default
    if not isinstance(layout, str) or sorted(layout) != sorted(known):
        raise fail(call, "E214", f"{name} must order the axes {known}, got {layout!r}")
    return tuple([layout.index(c) for c in known])


def conv_layouts(call: Call, rank: int, ends: str = "OI") -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Positions of the axes NC.. of the data, ``ends``.. of the weight, and NC.. of the result. Raises E214."""
    space = "DHW"[3 - rank :]
    data = layout_order(call, "data_layout", "NC" + space, "NC" + space)
    kernel = layout_order(call, "kernel_layout", ends + space, ends + space)
    name = "out_layout" if attr(call, "out_layout") else "data_layout"
    return data, kernel, layout_order(call, name, "NC" + space, "NC" + space)


def conv_operands(call: Call, rank: int) -> tuple[TensorType, TensorType, DataType | None]:
    """Types of data and weight, and the element type of the result. Raises E210 to E212."""
    x, w = tensor_arg(call, 0, "data", rank + 2), tensor_arg(call, 1, "weight", rank + 2)
    return x, w, dtype_value(call, attr(call, "out_dtype")) or same_dtype(call, x, w)


def conv_params(rank: int, ends: str = "OI", *extra: Param | str) -> list[Param | str]:
    """Parameters of a convolution; ``extra`` ones stand after the padding."""
    space = "DHW"[3 - rank :]
    return [
        "data", "weight", attribute("strides", (1,) * rank), attribute("padding", (0,) * rank), *extra,
        attribute("dilation", (1,) * rank), attribute("groups", 1), attribute("data_layout", "NC" + space),
        attribute("kernel_layout", ends + space), attribute("out_layout", None), attribute("out_dtype", None),
    ]  # fmt: skip


def accumulator_dtype(dtype: DataType) -> str:
    """The type in which a sum of this type is taken."""
    return compute_dtype(dtype).name


def upcast_product(
    x: te.Tensor, index: dict[int, Any], w: te.Tensor, weight_index: dict[int, Any], dtype: str
) -> te.Value:
    """An element of the data times one of the weight, their indices by axis, in the type of the sum."""
    left, right = x[[index[p] for p in range(x.ndim)]], w[[weight_index[p] for p in range(w.ndim)]]
    return left.astype(dtype) * right.astype(dtype)


Extents = Callable[[Call, list[Expr], list[Expr]], list[Expr]]
"""(call, sizes NC.. of the data, those of the weight) -> channels and spatial sizes of the result. Raises E213."""


def conv_type(rank: int, extents: Extents, ends: str = "OI") -> Any:
    """The type rule of a convolution over ``rank`` axes."""

    def rule(call: Call) -> Type:
        x, w, dtype = conv_operands(call, rank)
        data, kernel, out = conv_layouts(call, rank, ends)
        pads(call, rank)
        for name in ("strides", "dilation"):
            spatial(call, name, rank)
        xs, ws = dims(x), dims(w)
        if xs is None or ws is None:
            return TensorType(None, dtype, rank + 2, x.vdevice)
        result = [xs[data[0]], *extents(call, [xs[a] for a in data], [ws[a] for a in kernel])]
        for n, size in enumerate(result[2:]):
            if type(size) is IntImm and size.value < 0:
                raise fail(
                    call,
                    "E213",
                    f"nothing is left along spatial axis {n}: the kernel or the padding is too large",
                    arg=1,
                )
        return tensor_type([result[out.index(p)] for p in range(rank + 2)], dtype, vdevice=x.vdevice)

    return rule


def _extents(call: Call, data: list[Expr], weight: list[Expr]) -> list[Expr]:
    rank, groups, (features, inner) = len(data) - 2, int_attr(call, "groups"), weight[:2]
    if groups < 1 or unequal(data[1], inner * groups):
        message = f"data has {data[1]} channels, the weight takes {inner} in each of {groups} groups"
        raise fail(call, "E213", message, arg=1)
    if indivisible(features, build.const(groups, "int64")):
        raise fail(call, "E213", f"{features} output channels do not divide into {groups} groups", arg=1)
    windows = zip(
        data[2:], *pads(call, rank), weight[2:], spatial(call, "strides", rank), spatial(call, "dilation", rank)
    )
    return [features, *[window_size(*window) for window in windows]]


def pad_tensor(
    x: te.Tensor, axes: Sequence[int], before: Sequence[int], after: Sequence[int], fill: te.Value
) -> te.Tensor:
    """The tensor with a border along some axes; itself without one."""
    if not any(before) and not any(after):
        return x
    low, high = dict(zip(axes, before)), dict(zip(axes, after))
    shape = [d + (low.get(a, 0) + high.get(a, 0)) for a, d in enumerate(x.shape)]

    def body(*i: te.Value) -> te.Value:
        conditions = []
        for a in axes:
            if low[a]:
                conditions.append(i[a] >= low[a])
            if high[a]:
                conditions.append(i[a] < te.Value(x.shape[a] + low[a]))
        inside = x[[v - low[a] if low.get(a) else v for a, v in enumerate(i)]]
        return te.if_then_else(te.all(*conditions), inside, fill)

    return te.compute(shape, body, "padded")


def _conv(rank: int) -> Any:
    def lower(call: Call, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        data, kernel, out = conv_layouts(call, rank)
        strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
        before, after = pads(call, rank)
        groups = int_attr(call, "groups")
        padded = pad_tensor(x, data[2:], before, after, te.const(0, x.dtype))
        dtype = result_dtype(call)
        acc_dtype = accumulator_dtype(dtype)
        shape = list(result_dims(call))
        inner, features = w.shape[kernel[1]], w.shape[kernel[0]]
        each = te.Value(features // groups)
        grouped = groups > 1 and not is_one(features // groups)
        rc = te.reduce_axis((0, inner), "rc")
        rs = [te.reduce_axis((0, w.shape[kernel[2 + i]]), f"r{'dhw'[3 - rank + i]}") for i in range(rank)]

        def body(*i: te.Value) -> te.Value:
            indices = list(i)
            group = indices.pop(out[1]) if grouped else None
            n, f, *position = [indices[p] for p in out]
            channel: Any = rc
            feature = f
            if group is not None:
                channel, feature = group * te.Value(inner) + rc, group * each + f
            elif groups > 1:
                channel = f * te.Value(inner) + rc
            data_index: dict[int, Any] = {data[0]: n, data[1]: channel}
            tap: dict[int, Any] = {kernel[0]: feature, kernel[1]: rc}
            for axis in range(rank):
                data_index[data[2 + axis]] = position[axis] * strides[axis] + rs[axis] * dilation[axis]
                tap[kernel[2 + axis]] = rs[axis]
            return te.sum(upcast_product(padded, data_index, w, tap, acc_dtype), axis=[rc, *rs])

        if not grouped:
            return cast_tensor(te.compute(shape, body, f"conv{rank}d"), dtype, "conv_cast")
        index = out[1]
        grouped_shape = [*shape[:index], build.const(groups, "int64"), each.expr, *shape[index + 1 :]]
        result = te.compute(grouped_shape, body, f"conv{rank}d")
        merged = te.compute(
            shape, lambda *i: result[[*i[:index], i[index] // each, i[index] % each, *i[index + 1 :]]], "groups_joined"
        )
        return cast_tensor(merged, dtype, "conv_cast")

    return lower


def windows(x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """View of NC-first data as (n, c, positions..., kernel...)."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    index: list[Any] = [
        slice(None),
        slice(None),
        *[slice(None, None, s) for s in strides],
        *[slice(None, None, d) for d in dilation],
    ]
    return np.asarray(view[tuple(index)])


def as_tuple(value: Any, count: int) -> tuple[int, ...]:
    result = (value,) if isinstance(value, int) else tuple(value)
    return result * count if len(result) == 1 else result


def pad_widths(padding: Any, rank: int) -> tuple[int, ...]:
    """Padding before each spatial axis, then behind each, of the value of an attribute."""
    border = as_tuple(padding, rank)
    return border * 2 if len(border) == rank else border


def conv_ref(rank: int, meaning: Callable[..., np.ndarray], ends: str = "OI") -> Any:
    """The meaning of a convolution in any layout, from that with axes NC and ``ends`` first."""
    space = "DHW"[3 - rank :]

    def ref(
        x: np.ndarray, w: np.ndarray, strides: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        data_layout: str = "NC" + space, kernel_layout: str = ends + space, out_layout: str | None = None,
        out_dtype: str | None = None, **more: Any,
    ) -> np.ndarray:  # fmt: skip
        dtype = np.dtype(out_dtype) if out_dtype else x.dtype
        wide = np.int64 if dtype.kind in "iub" else np.float64  # bfloat16 is of kind "V"
        data = np.transpose(x, [data_layout.index(c) for c in "NC" + space]).astype(wide)
        weight = np.transpose(w, [kernel_layout.index(c) for c in ends + space]).astype(wide)
        steps, gaps = as_tuple(strides, rank), as_tuple(dilation, rank)
        result = meaning(data, weight, steps, gaps, pad_widths(padding, rank), groups, **more)
        return np.transpose(result, [("NC" + space).index(c) for c in out_layout or data_layout]).astype(dtype)

    return ref


def _meaning(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    dilation: Sequence[int],
    border: Sequence[int],
    groups: int,
) -> np.ndarray:
    rank = len(strides)
    data = np.pad(data, [(0, 0), (0, 0), *[(border[i], border[rank + i]) for i in range(rank)]])
    patches = windows(data, weight.shape[2:], strides, dilation)
    axes = [1, *range(2 + rank, 2 + 2 * rank)], list(range(1, 2 + rank))
    pairs = zip(np.split(patches, groups, 1), np.split(weight, groups))
    return np.concatenate([np.moveaxis(np.tensordot(part, kernel, axes), -1, 1) for part, kernel in pairs], 1)


Plan = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Strides, dilation and padding on all sides."""


def backward_plan(call: Call, rank: int) -> Plan:
    """The movement of windows in a call whose gradient is wanted. Raises E214: only the standard layouts have one."""
    space = "DHW"[3 - rank :]
    for name in ("data_layout", "layout", "out_layout"):
        if attr(call, name) not in (None, "", "NC" + space):
            raise fail(call, "E214", f"the gradient needs {name} NC{space}, got {attr(call, name)!r}")
    before, after = pads(call, rank)
    return spatial(call, "strides", rank), spatial(call, "dilation", rank), before + after


def output_padding(size: Sequence[int], out: Sequence[int], taps: Sequence[int], plan: Plan) -> list[int]:
    """The padding that a transposed convolution must add to give the size back."""
    strides, dilation, border = plan
    rank = len(size)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, strides, taps, dilation)]
    return [n + border[i] + border[rank + i] - r for i, (n, r) in enumerate(zip(size, reach))]


def _weight_grad(x: Expr, g: Expr, taps: list[int], plan: Plan, groups: int) -> Expr:
    """Gradient of the (O, I / groups, taps) weight: a convolution of the data by the gradient, batch and channels swapped."""
    strides, dilation, border = plan
    rank = len(taps)
    swap = [1, 0, *range(2, rank + 2)]
    sources, grads = [[t] if groups == 1 else fields_of(R.split(t, groups, axis=1)) for t in (x, g)]
    result = []
    for a, b in zip(sources, grads):
        swapped = [R.permute_dims(t, axes=swap) for t in (a, b)]
        part = getattr(R.nn, f"conv{rank}d")(*swapped, strides=dilation, dilation=strides, padding=border)
        axes = list(range(2, rank + 2))
        result.append(R.permute_dims(R.strided_slice(part, axes=axes, begin=[0] * rank, end=taps), axes=swap))
    return result[0] if groups == 1 else R.concat(Tuple(tuple(result)), axis=0)


def conv_grad(rank: int, transposed: bool) -> Rule:
    """The gradient of a convolution over ``rank`` axes, or of a transposed one."""

    def rule(call: Call, g: Expr) -> list[Any]:
        x, w = call.args
        plan, groups = backward_plan(call, rank), int_attr(call, "groups")
        wanted = ("IO" if transposed else "OI") + "DHW"[3 - rank :]
        if attr(call, "kernel_layout", wanted) != wanted:
            raise fail(call, "E214", f"the gradient needs kernel_layout {wanted}, got {attr(call, 'kernel_layout')!r}")
        size, out, taps = operand_sizes(call, x)[2:], operand_sizes(call, g)[2:], operand_sizes(call, w)[2:]
        options: dict[str, Any] = {"strides": plan[0], "dilation": plan[1], "padding": plan[2], "groups": groups}
        if not transposed:
            extra = output_padding(size, out, taps, plan)
            data = getattr(R.nn, f"conv{rank}d_transpose")(g, w, output_padding=extra, **options)
            return [data, _weight_grad(x, g, taps, plan, groups)]
        data = getattr(R.nn, f"conv{rank}d")(g, w, **options)
        data = R.strided_slice(data, axes=list(range(2, rank + 2)), begin=[0] * rank, end=size)
        return [data, _weight_grad(g, x, taps, plan, groups)]

    return rule


def _matmul_axis(g: Expr, axis: int, rank: int, matrix: np.ndarray) -> Expr:
    """An axis multiplied by a matrix (size, wanted)."""
    order = [*[a for a in range(rank) if a != axis], axis]
    weights = constant(np.ascontiguousarray(matrix), dtype_of(g))
    return R.permute_dims(R.matmul(R.permute_dims(g, axes=order), weights), axes=[order.index(a) for a in range(rank)])


def linear_axes_grad(space: str, matrix: Callable[[Call, int, int, int], np.ndarray]) -> Rule:
    """The rule of an operator that multiplies axis n of the space by ``matrix(call, n, size, wanted)`` (wanted, size)."""
    standard = "NC" + space

    def rule(call: Call, g: Expr) -> list[Any]:
        x = call.args[0]
        before, after = operand_sizes(call, x), operand_sizes(call, g)
        grad: Expr = R.astype(g, dtype_of(x))
        for n, axis in enumerate(layout_order(call, "layout", standard, standard)[2:]):
            grad = _matmul_axis(grad, axis, len(before), matrix(call, n, before[axis], after[axis]))
        return [grad, *[None] * (len(call.args) - 1)]

    return rule


_SAMPLES = {
    1: "f32[2,3,8], f32[4,3,3], strides=2, padding=1; f32[2,3,6], f32[2,3,2], padding=[1,0]",
    2: "f32[1,3,7,6], f32[4,3,3,3], padding=[1,1]; f32[1,4,5,4], f32[4,2,3,2], groups=2, strides=[2,1]; "
    "f32[1,5,5,3], f32[3,3,3,2], data_layout='NHWC', kernel_layout='HWIO', dilation=2, padding=[2,1,0,1]; "
    "f16[1,2,4,4], f16[2,2,3,3]; i8[1,2,4,4], i8[2,2,3,3], out_dtype='int32'",
    3: "f32[1,2,3,4,3], f32[2,2,2,2,2]; f32[1,1,3,2,3], f32[2,1,2,1,2], dilation=[1,1,2]",
}


def _conv_row(rank: int) -> Operator:
    return row(
        f"nn.conv{rank}d",
        conv_params(rank),
        conv_type(rank, _extents),
        "Convolves data with weight over the spatial axes, without flipping the kernel.",
        lower=_conv(rank),
        ref=conv_ref(rank, _meaning),
        grad=conv_grad(rank, False),
        mixed_precision="always",
        samples=_SAMPLES[rank],
    )


conv1d = _conv_row(1)
conv2d = _conv_row(2)
conv3d = _conv_row(3)
