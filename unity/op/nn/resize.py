"""Resizing of signals, images and volumes: nearest, linear and cubic. Sampling at given positions: sample.py.

A target pixel has a source coordinate, which ``coordinate_transformation_mode`` gives; coordinates are float64, so that no
rounding moves a pixel. Taps outside the image take its border. ``scales`` gives the number of target pixels for one source
pixel where it is not the ratio of the sizes (a size rounded from a scale, as torch's scale_factor); the linear method then
copies along an axis that keeps its size, as torch does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call, IntImm
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.lowering import result_dims, result_dtype, upcast
from ..common.table import Operator, attribute, rows
from ..common.type_rules import attr, bool_attr, dtype_value, fail, shape_arg, tensor_arg
from ..manipulate.index import check_indexable
from .activations import float_attr
from .conv import layout_order, linear_axes_grad

row = rows("image")
_CHOICES = {
    "method": ("linear", "nearest_neighbor", "cubic"),
    "coordinate_transformation_mode": ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"),
    "rounding_method": ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
}
"""The words that an attribute may be, the one that stands for none first."""


def _choice(call: Call, name: str) -> str:
    """The word of an attribute. Raises E214."""
    value, known = attr(call, name), _CHOICES[name]
    if value and value not in known:
        raise fail(call, "E214", f"{name} must be one of {', '.join(known)}, got {value!r}")
    return str(value or known[0])


def _space(rank: int) -> str:
    return "NC" + "DHW"[3 - rank :]


def _scales(call: Call, rank: int) -> tuple[float | None, ...]:
    value = attr(call, "scales")
    if value is None:
        return (None,) * rank
    wrong = not isinstance(value, tuple) or len(value) != rank
    if wrong or any([not isinstance(v, (int, float)) or not v > 0 for v in value]):
        raise fail(call, "E214", f"scales must be {rank} positive numbers, got {value!r}")
    return tuple(value)


def _check_roi(call: Call) -> None:
    """TVM writes a part of the image to resize, and what stands outside of it: the whole image alone is resized here."""
    roi, outside = attr(call, "roi"), float_attr(call, "extrapolation_value")
    parts = roi if isinstance(roi, tuple) else (0.0 if roi is None else roi,)
    if outside != 0 or not all([isinstance(value, (int, float)) and value == 0 for value in parts]):
        raise fail(
            call, "E214", "the whole image is resized: roi must be zeros", "cut the part out first: R.strided_slice"
        )


def _resize_type(rank: int) -> Callable[[Call], Type]:
    def rule(call: Call) -> Type:
        x, size = tensor_arg(call, 0, "data", rank + 2), shape_arg(call, 1, "size")
        method, *_ = [_choice(call, name) for name in _CHOICES]
        float_attr(call, "cubic_alpha")
        bool_attr(call, "cubic_exclude")
        _check_roi(call)
        _scales(call, rank)
        if size.ndim not in (-1, rank):
            raise fail(call, "E212", f"size must be {rank} numbers, got {size.ndim}", arg=1)
        if method != "nearest_neighbor" and x.dtype is not None and not x.dtype.is_float:
            raise fail(call, "E211", f"{method} needs a float tensor, got {x.dtype.name}", "cast first", 0)
        order = layout_order(call, "layout", _space(rank), _space(rank))
        dtype = dtype_value(call, attr(call, "out_dtype")) or x.dtype
        known = dims(x)
        if known is None or size.values is None:
            return TensorType(None, dtype, rank + 2, x.vdevice)
        shape = list(known)
        for a, d in zip(order[2:], size.values):
            check_indexable(call, a, known[a], (d,))
            shape[a] = d
        return tensor_type(shape, dtype, vdevice=x.vdevice)

    return rule


def single_step(scale: float) -> float:
    """Source pixels for one target pixel, rounded to float32: which pixel is the nearest one torch decides in float32."""
    return float(np.float32(1.0 / scale))


def _coordinate(call: Call, position: te.Value, extent: Expr, target: Expr, scale: float | None) -> te.Value:
    """Source coordinate of a target pixel along one axis, float64."""
    mode = _choice(call, "coordinate_transformation_mode")
    index = position.astype("float64")
    old, new = [te.Value(build.cast(d, "float64")) for d in (extent, target)]
    if scale is not None and mode != "align_corners":
        if _choice(call, "method") == "nearest_neighbor":
            start = te.const(0.0 if mode == "asymmetric" else 0.5, "float32")
            reached = (position.astype("float32") + start) * te.const(single_step(scale), "float32")
            return reached.astype("float64") - start.astype("float64")
        if mode == "asymmetric":
            return index * (1.0 / scale)
        half = (index + 0.5) * (1.0 / scale) - 0.5
        if _choice(call, "method") == "linear":
            half = te.select(old == new, index, half)
        return te.select(new > 1.0, half, 0.0) if mode == "pytorch_half_pixel" else half
    if mode == "asymmetric":
        return index * old / new
    if mode == "align_corners":
        return te.select(new > 1.0, index * (old - 1.0) / te.maximum(new - 1.0, 1.0), 0.0)
    half = (index + 0.5) * old / new - 0.5
    return te.select(new > 1.0, half, 0.0) if mode == "pytorch_half_pixel" else half


def cubic_weights(offset: Any, alpha: float) -> list[Any]:
    """Weights of the four taps around a coordinate ``offset`` behind the second of them."""
    result = []
    for tap in range(4):
        distance = offset + 1.0 - tap if tap < 2 else tap - 1.0 - offset
        if tap in (1, 2):
            result.append(((alpha + 2.0) * distance - (alpha + 3.0)) * distance * distance + 1.0)
        else:
            result.append(((distance - 5.0) * alpha * distance + 8.0 * alpha) * distance - 4.0 * alpha)
    return result


def nearest(x: Any, rounding: str, floor: Callable[[Any], Any], ceil: Callable[[Any], Any]) -> Any:
    """A coordinate rounded to a pixel."""
    if rounding in ("floor", "ceil"):
        return floor(x) if rounding == "floor" else ceil(x)
    return ceil(x - 0.5) if rounding == "round_prefer_floor" else floor(x + 0.5)


def _integer_pixel(call: Call, position: te.Value, extent: Expr, target: Expr, scale: float | None) -> te.Value | None:
    """The source pixel in integers where that is what the formula of `_coordinate` rounds to; None for other formulas.

    Without a scale, ``floor(at * old / new)`` is exact: both are integers, and no quotient of integers this small rounds up to
    the next. With a scale, its reciprocal must be exact: a power of two.
    """
    rule = [_choice(call, name) for name in _CHOICES]
    if rule != ["nearest_neighbor", "asymmetric", "floor"] or type(extent) is not IntImm or type(target) is not IntImm:
        return None
    old, new = extent.value, target.value
    if scale is not None:
        if scale < 1 or not math.log2(scale).is_integer() or new > old * int(scale):
            return None
        return position // int(scale)
    return position // (new // old) if new % max(old, 1) == 0 and new else (position * old) // max(new, 1)


def _taps(
    call: Call, position: te.Value, extent: Expr, target: Expr, scale: float | None
) -> list[tuple[te.Value, te.Value]]:
    """(pixel, weight) of what a target pixel is made of along one axis."""
    method = _choice(call, "method")
    whole = _integer_pixel(call, position, extent, target, scale)
    if whole is not None:
        return [(whole, te.const(1.0, "float64"))]
    x = _coordinate(call, position, extent, target, scale)
    last = te.Value(extent - 1)
    one = te.const(1.0, "float64")

    def clamp(pixel: te.Value) -> te.Value:
        return te.maximum(te.minimum(pixel, last), 0)

    if method == "nearest_neighbor":
        rounding = _choice(call, "rounding_method")
        return [(clamp(nearest(x, rounding, te.floor, te.ceil).astype("int64")), one)]
    if method == "linear":  # the taps of torch, also where a weight is 0 and an element is not a number
        low = te.trunc(x)
        first, offset = low.astype("int64"), te.maximum(x - low, 0.0)
        second = te.select(te.Value(extent) == te.Value(target), first, te.minimum(first + 1, last))
        return [(te.minimum(first, last), one - offset), (second, offset)]
    low = te.floor(x)
    first, offset = low.astype("int64"), x - low
    weights = cubic_weights(offset, float_attr(call, "cubic_alpha"))
    pixels = [first + (n - 1) for n in range(4)]
    if bool_attr(call, "cubic_exclude"):
        weights = [te.select(te.all(p >= 0, p <= last), w, 0.0) for p, w in zip(pixels, weights)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [te.select(total == 0, 0.0, w / total) for w in weights]
    return [(clamp(p), w) for p, w in zip(pixels, weights)]


def _resize(rank: int) -> Callable[..., te.Tensor]:
    def lower(call: Call, x: te.Tensor, size: Any) -> te.Tensor:
        axes = layout_order(call, "layout", _space(rank), _space(rank))[2:]
        shape, dtype, scales = result_dims(call), result_dtype(call), _scales(call, rank)
        exact = _choice(call, "method") == "nearest_neighbor"

        def body(*i: te.Value) -> te.Value:
            taps = [_taps(call, i[a], x.shape[a], shape[a], s) for a, s in zip(axes, scales)]
            total: te.Value | None = None
            for picked in itertools.product(*taps):
                index: list[Any] = list(i)
                for a, (pixel, _) in zip(axes, picked):
                    index[a] = pixel
                if exact:
                    return x[index].astype(dtype)
                value = upcast(x[index])
                weight = math.prod([w for _, w in picked[1:]], start=picked[0][1])
                part = value * weight.astype(value.dtype)
                total = part if total is None else total + part
            assert total is not None
            return total.astype(dtype)

        return te.compute(shape, body, f"resize{rank}d")

    return lower


def _axis_taps(
    n: int, m: int, method: str, mode: str, rounding: str, alpha: float, exclude: bool, scale: float | None
) -> list[list[tuple[int, float]]]:
    """Source pixels with their weights for each of m target pixels: all that are read, also those of weight 0."""
    result = []
    for y in range(m):
        if mode == "align_corners":
            x = y * (n - 1) / (m - 1) if m > 1 else 0.0
        elif scale is not None and method == "nearest_neighbor":
            start = np.float32(0.0 if mode == "asymmetric" else 0.5)
            x = float((np.float32(y) + start) * np.float32(single_step(scale))) - float(start)
        elif mode == "asymmetric":
            x = y * n / m if scale is None else y / scale
        elif scale is not None and method == "linear" and n == m:
            x = float(y)
        else:
            x = (y + 0.5) * (n / m if scale is None else 1 / scale) - 0.5 if m > 1 or mode == "half_pixel" else 0.0
        low = int(np.floor(x))
        if method == "nearest_neighbor":
            taps = [(int(nearest(x, rounding, np.floor, np.ceil)), 1.0)]
        elif method == "linear":
            low, part = int(x), max(x - int(x), 0.0)
            taps = [(low, 1 - part), (low if n == m else low + 1, part)]
        else:
            taps = []
            for p in range(low - 1, low + 3):
                d = abs(x - p)
                near = (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
                taps.append((p, near if d <= 1 else alpha * (d**3 - 5 * d**2 + 8 * d - 4)))
        if exclude and method == "cubic":
            taps = [(p, w if 0 <= p < n else 0.0) for p, w in taps]
            total = sum([w for _, w in taps])
            taps = [(p, w / total) for p, w in taps]
        result.append([(min(max(p, 0), n - 1), w) for p, w in taps])
    return result


def _resize_ref(rank: int) -> Callable[..., np.ndarray]:
    def ref(
        x: np.ndarray,
        size: Any,
        roi: Any = None,
        layout: str = _space(rank),
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = -0.75,
        cubic_exclude: bool = False,
        extrapolation_value: float = 0.0,
        out_dtype: Any = None,
        scales: Any = None,
    ) -> np.ndarray:
        data = np.transpose(x, [layout.index(c) for c in _space(rank)]).astype(np.float64)
        mode, rounding = coordinate_transformation_mode, rounding_method or "round"
        for a, m in enumerate(size):
            scale = None if scales is None else scales[a]
            n, lines = data.shape[2 + a], np.moveaxis(data, 2 + a, 0)
            taps = _axis_taps(n, m, method, mode, rounding, cubic_alpha, bool(cubic_exclude), scale)
            made = [sum([w * lines[p] for p, w in pixels]) for pixels in taps]
            data = np.moveaxis(np.reshape(made, (m, *lines.shape[1:])), 0, 2 + a)
        return np.transpose(data, [_space(rank).index(c) for c in layout]).astype(
            np.dtype(out_dtype) if out_dtype else x.dtype
        )

    return ref


def _resize_matrix(call: Call, n: int, size: int, wanted: int) -> np.ndarray:
    """The weights of an axis, by resizing the identity."""
    options = {k: v for k, v in call.attrs.items() if k not in ("layout", "out_dtype", "scales")}
    scales: Sequence[float] | None = attr(call, "scales")
    meaning = resize1d.info.ref
    assert callable(meaning)
    result = meaning(np.eye(size)[None], (wanted,), scales=None if scales is None else [scales[n]], **options)
    return np.asarray(result[0].T)


_EVERY_METHOD = "method=each('nearest_neighbor', 'linear', 'cubic')"
_SAMPLES = {
    1: f"f32[2,1,5], (8,), {_EVERY_METHOD}; "
    f"f32[1,2,4], (6,), scales=[1.7], {_EVERY_METHOD}; f32[1,2,3], (3,), scales=[1.3], {_EVERY_METHOD}",
    2: f"f32[1,2,4,5], each((7,3), (1,10)), {_EVERY_METHOD}, coordinate_transformation_mode="
    "each('half_pixel', 'align_corners', 'asymmetric', 'pytorch_half_pixel'); "
    "i32[1,5,3,2], (4,6), method='nearest_neighbor', layout='NHWC', "
    "rounding_method=each('round', 'round_prefer_floor', 'floor', 'ceil'); "
    "f32[1,1,3,3], (5,2), method='cubic', cubic_alpha=-0.5, cubic_exclude=True; f16[1,1,3,3], (5,2); f32[1,1,3,3], (0,2); "
    "f32[1,1,3,4], (5,7), scales=[1.8,1.9], rounding_method='floor', method='nearest_neighbor', "
    "coordinate_transformation_mode='asymmetric'; f32[1,1,3,4], (5,7), scales=[1.8,1.9], method='cubic', cubic_exclude=True",
    3: f"f32[1,2,2,3,2], (3,2,4), {_EVERY_METHOD}; "
    f"f32[1,2,3,2,1], (2,4,1), {_EVERY_METHOD}, layout='NDHWC', coordinate_transformation_mode='align_corners'",
}


def _row(rank: int) -> Operator:
    return row(
        f"image.resize{rank}d",
        (
            "data",
            "size",
            attribute("roi", None),
            attribute("layout", _space(rank)),
            attribute("method", "linear", '"nearest_neighbor", "linear" or "cubic"'),
            attribute("coordinate_transformation_mode", "half_pixel"),
            attribute("rounding_method", "round"),
            attribute("cubic_alpha", -0.75),
            attribute("cubic_exclude", False),
            attribute("extrapolation_value", 0.0),
            attribute("out_dtype", None),
            attribute("scales", None),
        ),
        _resize_type(rank),
        "Resizes the spatial axes by interpolation; coordinates are float64.",
        lower=_resize(rank),
        ref=_resize_ref(rank),
        grad=linear_axes_grad("DHW"[3 - rank :], _resize_matrix),
        layout=channels_last.pool,
        samples=_SAMPLES[rank],
    )


resize1d, resize2d, resize3d = [_row(n) for n in (1, 2, 3)]
