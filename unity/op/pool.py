"""Pooling of images: largest and mean over windows, and means over windows chosen by the output size.

Layouts NCHW and NHWC. Means of 16-bit floats are taken in float32; which places count in a mean at the border is an
attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from ..ir import build
from ..ir.expr import Call
from ..ir.op import Param
from ..ir.relation import dims, tensor_type
from ..ir.types import TensorType, Type
from .conv import layout_order, many, pad_tensor, pads, spatial, window_size, windows
from .lowering import known_dims, result_dims, widened
from .reduce import accumulate
from .rules import attr, bool_attr, fail, float_tensor, tensor_arg
from .table import attribute, row

FAMILY = "nn"


def _pool_type(call: Call) -> Type:
    x = tensor_arg(call, 0, "data") if "max" in call.op.name else float_tensor(call, 0, "data")  # type: ignore[attr-defined]
    if x.ndim not in (-1, 4):
        raise fail(call, "E212", f"expected rank 4, got {x.ndim}", None, call.args[0])
    order = layout_order(call, "layout", "NCHW", "NCHW")
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
        order = layout_order(call, "layout", "NCHW", "NCHW")
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
        kernel, steps, gaps, border = many(pool_size, 2), many(strides, 2), many(dilation, 2), many(padding, 2)
        border = border * 2 if len(border) == 2 else border
        extra = [k * d + s for k, d, s in zip(kernel, gaps, steps)] if ceil_mode else [0, 0]
        widths = [(0, 0), (0, 0), *[(border[i], border[2 + i] + extra[i]) for i in range(2)]]
        fill = (-np.inf if data.dtype.kind not in "iu" else np.iinfo(data.dtype).min) if largest else 0
        seen = windows(np.pad(data, widths, constant_values=fill), kernel, steps, gaps)
        ones = np.ones(data.shape)
        if count_include_pad:
            ones = np.pad(ones, [(0, 0), (0, 0), *[(border[i], border[2 + i]) for i in range(2)]], constant_values=1)
            ones = np.pad(ones, [(0, 0), (0, 0), *[(0, e) for e in extra]])
        else:
            ones = np.pad(ones, widths)
        count = windows(ones, kernel, steps, gaps).sum((-1, -2))
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
    order = layout_order(call, "layout", "NCHW", "NCHW")
    known = dims(x)
    if known is None or attr(call, "output_size") is None:
        return x if known is not None else TensorType(None, x.dtype, 4, x.vdevice)
    size = spatial(call, "output_size", 2)
    made = list(known)
    for i in range(2):
        made[order[2 + i]] = build.const(size[i], "int64")
    return tensor_type(made, x.dtype, vdevice=x.vdevice)


def _adaptive(call: Call, x: te.Tensor) -> te.Tensor:
    axes = layout_order(call, "layout", "NCHW", "NCHW")[2:]
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
    size = data.shape[2:] if output_size is None else many(output_size, 2)
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
