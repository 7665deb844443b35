"""Convolution and pooling of images (conv1d, conv2d, pooling), by direct definition.

Layouts NCHW / NCW with weights OIHW / OIW, and NHWC with HWIO or OHWI. Padding is one number, one per axis, or begins then ends.
Sums of 16-bit floats are taken in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from ..ir import build
from ..ir.expr import Call, IntImm
from ..ir.op import Param
from ..ir.relation import Answer, dims, same_dim, tensor_type
from ..ir.types import Expr, TensorType, Type
from .lowering import known_dims, result_dims, result_dtype, widened
from .reduce import accumulate, cast_tensor
from .rules import attr, bool_attr, dtype_value, fail, float_tensor, int_attr, ints_attr, same_dtype, tensor_arg
from .table import Operator, attribute, row

FAMILY = "nn"


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
    """Number of places a window fits along an axis."""
    reach = build.add(build.mul(build.sub(kernel, 1), dilation), 1)
    room = build.sub(build.add(size, before + after), reach)
    if ceil:
        room = build.add(room, stride - 1)
    return build.add(build.floordiv(room, build.const(stride, "int64")), 1)


def _order(call: Call, name: str, default: str, known: str) -> tuple[int, ...]:
    """Position of each axis of ``known`` in a layout. Raises E214."""
    layout = attr(call, name, default) or default
    if not isinstance(layout, str) or sorted(layout) != sorted(known):
        raise fail(call, "E214", f"{name} must order the axes {known}, got {layout!r}")
    return tuple([layout.index(c) for c in known])


def _conv_layouts(call: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    space = "DHW"[3 - rank :]
    data = _order(call, "data_layout", "NC" + space, "NC" + space)
    kernel = _order(call, "kernel_layout", "OI" + space, "OI" + space)
    out = attr(call, "out_layout") or attr(call, "data_layout", "NC" + space)
    if not isinstance(out, str) or sorted(out) != sorted("NC" + space):
        raise fail(call, "E214", f"out_layout must order the axes NC{space}, got {out!r}")
    return data, kernel, tuple([out.index(c) for c in "NC" + space])


def _conv_type(rank: int) -> Any:
    def rule(call: Call) -> Type:
        x, w = tensor_arg(call, 0, "data"), tensor_arg(call, 1, "weight")
        dtype = dtype_value(call, attr(call, "out_dtype")) or same_dtype(call, x, w)
        for index, ty in enumerate((x, w)):
            if ty.ndim not in (-1, rank + 2):
                raise fail(call, "E212", f"expected rank {rank + 2}, got {ty.ndim}", None, call.args[index])
        data, kernel, out = _conv_layouts(call, rank)
        strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
        before, after = pads(call, rank)
        groups = int_attr(call, "groups", 1)
        xs, ws = dims(x), dims(w)
        if xs is None or ws is None:
            return TensorType(None, dtype, rank + 2, x.vdevice)
        channels, inner = xs[data[1]], ws[kernel[1]]
        if groups < 1 or same_dim(channels, build.mul(inner, groups)) is Answer.NO:
            raise fail(
                call,
                "E213",
                f"data has {channels} channels, the weight takes {inner} in each of {groups} groups",
                None,
                call.args[1],
            )
        features = ws[kernel[0]]
        if type(features) is IntImm and features.value % groups:
            raise fail(
                call, "E213", f"{features.value} output channels do not divide into {groups} groups", None, call.args[1]
            )
        made = [xs[data[0]], features]
        for i in range(rank):
            size = window_size(xs[data[2 + i]], before[i], after[i], ws[kernel[2 + i]], strides[i], dilation[i])
            if type(size) is IntImm and size.value < 0:
                raise fail(
                    call,
                    "E213",
                    f"the kernel is larger than the padded data along spatial axis {i}",
                    None,
                    call.args[1],
                )
            made.append(size)
        return tensor_type([made[out.index(p)] for p in range(rank + 2)], dtype, vdevice=x.vdevice)

    return rule


def pad_tensor(
    x: te.Tensor, axes: Sequence[int], before: Sequence[int], after: Sequence[int], fill: te.Value
) -> te.Tensor:
    """The tensor with a border along some axes; itself without one."""
    if not any(before) and not any(after):
        return x
    low, high = dict(zip(axes, before)), dict(zip(axes, after))
    shape = [build.add(d, low.get(a, 0) + high.get(a, 0)) for a, d in enumerate(x.shape)]

    def body(*i: te.Value) -> te.Value:
        conditions = []
        for a in axes:
            if low[a]:
                conditions.append(i[a] >= low[a])
            if high[a]:
                conditions.append(i[a] < te.Value(build.add(x.shape[a], low[a])))
        inside = x[[v - low[a] if low.get(a) else v for a, v in enumerate(i)]]
        return te.if_then_else(te.all(*conditions), inside, fill)

    return te.compute(shape, body, "padded")  # type: ignore[no-any-return]


def _conv(rank: int) -> Any:
    def lower(call: Call, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        data, kernel, out = _conv_layouts(call, rank)
        strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
        before, after = pads(call, rank)
        groups = int_attr(call, "groups", 1)
        padded = pad_tensor(x, data[2:], before, after, te.const(0, x.dtype))
        dtype = result_dtype(call)
        wide = "float32" if dtype.name in ("float16", "bfloat16") else dtype.name
        shape = result_dims(call)
        inner = w.shape[kernel[1]]
        per_group = build.floordiv(w.shape[kernel[0]], build.const(groups, "int64"))
        rc = te.reduce_axis((0, inner), "rc")
        rs = [te.reduce_axis((0, w.shape[kernel[2 + i]]), f"r{'dhw'[3 - rank + i]}") for i in range(rank)]

        def body(*i: te.Value) -> te.Value:
            n, f, *place = [i[p] for p in out]
            channel = rc if groups == 1 else (f // te.Value(per_group)) * te.Value(inner) + rc
            at: dict[int, Any] = {data[0]: n, data[1]: channel}
            tap: dict[int, Any] = {kernel[0]: f, kernel[1]: rc}
            for axis in range(rank):
                at[data[2 + axis]] = place[axis] * strides[axis] + rs[axis] * dilation[axis]
                tap[kernel[2 + axis]] = rs[axis]
            value = padded[[at[p] for p in range(rank + 2)]].astype(wide) * w[[tap[p] for p in range(rank + 2)]].astype(
                wide
            )
            return te.sum(value, axis=[rc, *rs])

        return cast_tensor(te.compute(shape, body, f"conv{rank}d"), dtype, "conv_cast")

    return lower


def _windows(x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """View of NC-first data as (n, c, places..., kernel...)."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    index: list[Any] = [
        slice(None),
        slice(None),
        *[slice(None, None, s) for s in strides],
        *[slice(None, None, d) for d in dilation],
    ]
    return view[tuple(index)]  # type: ignore[no-any-return]


def _many(value: Any, count: int) -> tuple[int, ...]:
    made = (value,) if isinstance(value, int) else tuple(value)
    return made * count if len(made) == 1 else made


def _conv_ref(rank: int) -> Any:
    space = "DHW"[3 - rank :]

    def ref(
        x: np.ndarray,
        w: np.ndarray,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = "NC" + space,
        kernel_layout: str = "OI" + space,
        out_layout: str | None = None,
        out_dtype: str | None = None,
    ) -> np.ndarray:
        dtype = np.dtype(out_dtype) if out_dtype else x.dtype
        wide = np.float64 if np.issubdtype(dtype, np.floating) else np.int64
        data = np.transpose(x, [data_layout.index(c) for c in "NC" + space]).astype(wide)
        kernel = np.transpose(w, [kernel_layout.index(c) for c in "OI" + space]).astype(wide)
        border = _many(padding, rank)
        border = border * 2 if len(border) == rank else border
        data = np.pad(data, [(0, 0), (0, 0), *[(border[i], border[rank + i]) for i in range(rank)]])
        seen = _windows(data, kernel.shape[2:], _many(strides, rank), _many(dilation, rank))
        parts = []
        inner, each = kernel.shape[1], kernel.shape[0] // groups
        for g in range(groups):
            part = np.tensordot(
                seen[:, g * inner : (g + 1) * inner],
                kernel[g * each : (g + 1) * each],
                ([1, *range(2 + rank, 2 + 2 * rank)], list(range(1, 2 + rank))),
            )
            parts.append(np.moveaxis(part, -1, 1))
        made = np.concatenate(parts, 1)
        out = out_layout or data_layout
        return np.transpose(made, [("NC" + space).index(c) for c in out]).astype(dtype)

    return ref


def _conv_row(rank: int) -> Operator:
    space = "DHW"[3 - rank :]
    params: list[Param | str] = [
        "data",
        "weight",
        attribute("strides", (1,) * rank),
        attribute("padding", (0,) * rank),
        attribute("dilation", (1,) * rank),
        attribute("groups", 1),
        attribute("data_layout", "NC" + space),
        attribute("kernel_layout", "OI" + space),
        attribute("out_layout", None),
        attribute("out_dtype", None),
    ]
    return row(
        f"nn.conv{rank}d",
        params,
        _conv_type(rank),
        f"Convolution over {rank} spatial axes (no flipping of the kernel).",
        family=FAMILY,
        lower=_conv(rank),
        ref=_conv_ref(rank),
    )


conv1d = _conv_row(1)
conv2d = _conv_row(2)
conv3d = _conv_row(3)


def _pool_type(call: Call) -> Type:
    x = tensor_arg(call, 0, "data") if "max" in call.op.name else float_tensor(call, 0, "data")  # type: ignore[attr-defined]
    if x.ndim not in (-1, 4):
        raise fail(call, "E212", f"expected rank 4, got {x.ndim}", None, call.args[0])
    order = _order(call, "layout", "NCHW", "NCHW")
    kernel, strides, dilation = [spatial(call, n, 2) for n in ("pool_size", "strides", "dilation")]
    before, after = pads(call, 2)
    known = dims(x)
    if known is None:
        return TensorType(None, x.dtype, 4, x.vdevice)
    made = list(known)
    for i in range(2):
        a = order[2 + i]
        made[a] = window_size(
            known[a],
            before[i],
            after[i],
            build.const(kernel[i], "int64"),
            strides[i],
            dilation[i],
            bool_attr(call, "ceil_mode"),
        )
    return tensor_type(made, x.dtype, vdevice=x.vdevice)


def _pool(largest: bool) -> Any:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        order = _order(call, "layout", "NCHW", "NCHW")
        kernel, strides, dilation = [spatial(call, n, 2) for n in ("pool_size", "strides", "dilation")]
        before, after = pads(call, 2)
        axes = order[2:]
        shape = result_dims(call)
        extra = (
            [(k - 1) * d + s for k, d, s in zip(kernel, dilation, strides)] if bool_attr(call, "ceil_mode") else [0, 0]
        )
        wide = (
            x
            if largest
            else te.compute(x.shape, lambda *i: accumulate(x[i]), "wide")
            if x.dtype in ("float16", "bfloat16")
            else x
        )
        edge = te.lowest(x.dtype) if largest else te.const(0, wide.dtype)
        padded = pad_tensor(wide, axes, before, [a + e for a, e in zip(after, extra)], edge)
        rs = [te.reduce_axis((0, kernel[i]), f"r{'hw'[i]}") for i in range(2)]

        def body(*i: te.Value) -> te.Value:
            at: list[Any] = list(i)
            for n, a in enumerate(axes):
                at[a] = i[a] * strides[n] + rs[n] * dilation[n]
            return (te.max if largest else te.sum)(padded[at], axis=rs)

        made = te.compute(shape, body, "max_pool2d" if largest else "pool_sum")
        if largest:
            return made  # type: ignore[no-any-return]
        counted = bool_attr(call, "count_include_pad")

        def average(*i: te.Value) -> te.Value:
            count: Any = te.const(1, "int64")
            for n, a in enumerate(axes):
                start = i[a] * strides[n] - before[n]
                low, high = (-before[n], build.add(x.shape[a], after[n])) if counted else (0, x.shape[a])
                if dilation[n] == 1:
                    count = count * (
                        te.minimum(start + kernel[n], te.Value(build.cast(te.to_scalar(high), "int64")))
                        - te.maximum(start, te.const(low, "int64"))
                    )
                else:
                    count = count * kernel[n]
            return (made[i] / te.maximum(count, te.const(1, "int64")).astype(made.dtype)).astype(x.dtype)  # type: ignore[no-any-return]

        return te.compute(shape, average, "avg_pool2d")  # type: ignore[no-any-return]

    return lower


def _pool_ref(largest: bool) -> Any:
    def ref(
        x: np.ndarray,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = "NCHW",
        out_layout: str | None = None,
    ) -> np.ndarray:
        data = np.transpose(x, [layout.index(c) for c in "NCHW"])
        data = data if largest else data.astype(np.float64)
        kernel, steps, gaps, border = _many(pool_size, 2), _many(strides, 2), _many(dilation, 2), _many(padding, 2)
        border = border * 2 if len(border) == 2 else border
        extra = [k * d + s for k, d, s in zip(kernel, gaps, steps)] if ceil_mode else [0, 0]
        widths = [(0, 0), (0, 0), *[(border[i], border[2 + i] + extra[i]) for i in range(2)]]
        fill = (-np.inf if data.dtype.kind not in "iu" else np.iinfo(data.dtype).min) if largest else 0
        seen = _windows(np.pad(data, widths, constant_values=fill), kernel, steps, gaps)
        ones = np.ones(data.shape)
        if count_include_pad:
            ones = np.pad(ones, [(0, 0), (0, 0), *[(border[i], border[2 + i]) for i in range(2)]], constant_values=1)
            ones = np.pad(ones, [(0, 0), (0, 0), *[(0, e) for e in extra]])
        else:
            ones = np.pad(ones, widths)
        count = _windows(ones, kernel, steps, gaps).sum((-1, -2))
        made = seen.max((-1, -2)) if largest else seen.sum((-1, -2)) / np.maximum(count, 1)
        out = []
        for i in range(2):
            room = data.shape[2 + i] + border[i] + border[2 + i] - ((kernel[i] - 1) * gaps[i] + 1)
            out.append((room + (steps[i] - 1 if ceil_mode else 0)) // steps[i] + 1)
        made = made[:, :, : out[0], : out[1]]
        return np.transpose(made, ["NCHW".index(c) for c in layout]).astype(x.dtype)

    return ref


def _pool_params(average: bool) -> list[Param | str]:
    found: list[Param | str] = [
        "data",
        attribute("pool_size", (1, 1)),
        attribute("strides", (1, 1)),
        attribute("padding", (0, 0)),
        attribute("dilation", (1, 1)),
        attribute("ceil_mode", False),
        attribute("count_include_pad", False),
        attribute("layout", "NCHW"),
        attribute("out_layout", None),
    ]
    return found


max_pool2d = row(
    "nn.max_pool2d",
    _pool_params(False),
    _pool_type,
    "Largest of each window.",
    family=FAMILY,
    lower=_pool(True),
    ref=_pool_ref(True),
)
avg_pool2d = row(
    "nn.avg_pool2d",
    _pool_params(True),
    _pool_type,
    "Mean of each window; the border counts with count_include_pad.",
    family=FAMILY,
    lower=_pool(False),
    ref=_pool_ref(False),
)


def _adaptive_type(call: Call) -> Type:
    x = float_tensor(call, 0, "data")
    if x.ndim not in (-1, 4):
        raise fail(call, "E212", f"expected rank 4, got {x.ndim}", None, call.args[0])
    order = _order(call, "layout", "NCHW", "NCHW")
    known = dims(x)
    if known is None or attr(call, "output_size") is None:
        return x if known is not None else TensorType(None, x.dtype, 4, x.vdevice)
    size = spatial(call, "output_size", 2)
    made = list(known)
    for i in range(2):
        made[order[2 + i]] = build.const(size[i], "int64")
    return tensor_type(made, x.dtype, vdevice=x.vdevice)


def _adaptive(call: Call, x: te.Tensor) -> te.Tensor:
    axes = _order(call, "layout", "NCHW", "NCHW")[2:]
    shape = known_dims(call, call.ty)
    sizes = [te.Value(shape[a]) for a in axes]
    spans = [te.Value(x.shape[a]) for a in axes]
    reach = [build.add(build.floordiv(build.sub(build.add(x.shape[a], shape[a]), 1), shape[a]), 1) for a in axes]
    reach = [
        r if build.is_int(build.floormod(x.shape[a], shape[a]), 0) is False else build.floordiv(x.shape[a], shape[a])
        for r, a in zip(reach, axes)
    ]
    rs = [te.reduce_axis((0, r), f"r{'hw'[n]}") for n, r in enumerate(reach)]

    def edges(i: Sequence[te.Value], n: int) -> tuple[te.Value, te.Value]:
        place = i[axes[n]]
        return (place * spans[n]) // sizes[n], ((place + 1) * spans[n] + sizes[n] - 1) // sizes[n]

    def body(*i: te.Value) -> te.Value:
        at: list[Any] = list(i)
        inside = []
        for n, a in enumerate(axes):
            start, end = edges(i, n)
            at[a] = start + rs[n]
            inside.append(start + rs[n] < end)
        value = widened(x[at])
        return te.sum(te.if_then_else(te.all(*inside), value, te.const(0, value.dtype)), axis=rs)

    total = te.compute(shape, body, "adaptive_sum")

    def average(*i: te.Value) -> te.Value:
        count: Any = te.const(1, "int64")
        for n in range(2):
            start, end = edges(i, n)
            count = count * (end - start)
        return (total[i] / count.astype(total.dtype)).astype(x.dtype)  # type: ignore[no-any-return]

    return te.compute(shape, average, "adaptive_avg_pool2d")  # type: ignore[no-any-return]


def _adaptive_ref(
    x: np.ndarray, output_size: Any = None, layout: str = "NCHW", out_layout: str | None = None
) -> np.ndarray:
    data = np.transpose(x, [layout.index(c) for c in "NCHW"]).astype(np.float64)
    size = data.shape[2:] if output_size is None else _many(output_size, 2)
    made = np.empty((*data.shape[:2], *size))
    for h in range(size[0]):
        rows = slice(h * data.shape[2] // size[0], -(-(h + 1) * data.shape[2] // size[0]))
        for w in range(size[1]):
            columns = slice(w * data.shape[3] // size[1], -(-(w + 1) * data.shape[3] // size[1]))
            made[:, :, h, w] = data[:, :, rows, columns].mean((2, 3))
    return np.transpose(made, ["NCHW".index(c) for c in layout]).astype(x.dtype)


adaptive_avg_pool2d = row(
    "nn.adaptive_avg_pool2d",
    ("data", attribute("output_size", None), attribute("layout", "NCHW"), attribute("out_layout", None)),
    _adaptive_type,
    "Mean of windows chosen so that the output has a given size.",
    family=FAMILY,
    lower=_adaptive,
    ref=_adaptive_ref,
)
