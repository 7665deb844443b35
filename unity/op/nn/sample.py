"""Sampling of images at positions given by a tensor (``affine_grid`` makes them: composite.py).

Places are (n, 2, h, w): x then y, or (n, 3, d, h, w): x, y and z; from -1 to 1 over the image. With ``align_corners`` -1 and 1
are the centres of the border pixels, without it their outer edges. A NaN position reads pixel 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ... import te
from ...ir import build
from ...ir.expr import Call
from ...ir.relation import dims, unequal
from ...ir.types import Type
from ..common.lowering import compute_dtype, let_value, let_values, result_dims, result_dtype, upcast
from ..common.table import attribute, rows
from ..common.type_rules import (
    attr,
    bool_attr,
    fail,
    float_tensor,
    same_dtype,
    with_rank,
    with_shape,
)
from .resize import cubic_weights

row = rows("image")
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _sample_type(call: Call) -> Type:
    x, grid = float_tensor(call, 0, "data"), float_tensor(call, 1, "grid")
    same_dtype(call, x, grid)
    bool_attr(call, "align_corners")
    layout, method = attr(call, "layout"), attr(call, "method")
    for name, default, known in (("method", "bilinear", _METHODS), ("padding_mode", "zeros", _PADDING)):
        if attr(call, name, default) not in known:
            raise fail(call, "E214", f"{name} must be one of {', '.join(known)}, got {attr(call, name)!r}")
    if layout not in ("NCHW", "NCDHW"):
        raise fail(call, "E214", f"layout must be NCHW or NCDHW, got {layout!r}", "use R.permute_dims before")
    if method == "bicubic" and layout == "NCDHW":
        raise fail(call, "E214", "volumes have no bicubic sampling", "use bilinear or nearest")
    rank = len(layout)
    for index, ty in enumerate((x, grid)):
        if ty.ndim not in (-1, rank):
            raise fail(call, "E212", f"expected rank {rank}, got {ty.ndim}", arg=index)
    image, positions = dims(x), dims(grid)
    if image is None or positions is None:
        return with_rank(x, rank)
    if unequal(positions[1], build.const(rank - 2, "int64")) or unequal(positions[0], image[0]):
        raise fail(call, "E213", f"grid must be (batch, {rank - 2}, *places), got {grid}", arg=1)
    return with_shape(x, (image[0], image[1], *positions[2:]))


def _sample(call: Call, x: te.Tensor, grid: te.Tensor) -> te.Tensor:
    method, padding = attr(call, "method"), attr(call, "padding_mode")
    corners = bool_attr(call, "align_corners")
    acc_dtype = compute_dtype(result_dtype(call)).name
    rank = x.ndim - 2

    def c(value: float) -> te.Value:
        return te.const(value, acc_dtype)

    def padded(position: te.Value, size: te.Value) -> te.Value:
        """A coordinate brought into the image as the padding says."""
        if padding == "reflection":
            low, span = (c(0.0), size - 1.0) if corners else (c(-0.5), size)

            def reflect(distance: te.Value, turns: te.Value) -> te.Value:
                rest = distance - turns * span
                odd = turns - te.floor(turns * 0.5) * 2.0 > 0.5
                return te.select(span > 0.0, te.select(odd, span - rest, rest) + low, c(0.0))

            position = let_value(
                te.abs(position - low),
                lambda away: let_value(te.floor(away / te.maximum(span, c(1.0))), lambda turns: reflect(away, turns)),
            )
        return position if padding == "zeros" else te.minimum(te.maximum(position, c(0.0)), size - 1.0)

    def body(*i: te.Value) -> te.Value:
        sizes = [te.Value(build.cast(d, acc_dtype)) for d in x.shape[2:]]

        def pixel(at: Sequence[te.Value]) -> te.Value:
            """The image at whole coordinates, 0 outside."""
            places = [padded(v, s) if method == "bicubic" else v for v, s in zip(at, sizes)]

            def read(positions: Sequence[te.Value]) -> te.Value:
                within = [te.all(v >= 0.0, v <= s - 1.0) for v, s in zip(positions, sizes)]
                inner = [te.select(ok, v, c(0.0)).astype("int64") for ok, v in zip(within, positions)]
                return te.if_then_else(te.all(*within), upcast(x[[i[0], i[1], *inner]]), c(0.0))

            return let_values(places, read)

        def blend(lows: Sequence[te.Value], at: Sequence[te.Value]) -> te.Value:
            offsets = [v - low for v, low in zip(at, lows)]
            if method == "bilinear":
                weights, first = [[c(1.0) - o, o] for o in offsets], 0
            else:
                weights, first = [cubic_weights(o, -0.75) for o in offsets], 1
            total: te.Value | None = None
            for picked in itertools.product(*[list(enumerate(w)) for w in weights]):
                part = pixel([low + float(n - first) for low, (n, _) in zip(lows, picked)])
                for _, weight in picked:
                    part = part * weight
                total = part if total is None else total + part
            assert total is not None
            return total

        def sampled(at: Sequence[te.Value]) -> te.Value:
            if method == "nearest":
                return pixel([te.nearbyint(v) for v in at])
            return let_values([te.floor(v) for v in at], lambda lows: blend(lows, at))

        index = []
        for n, size in enumerate(sizes):
            position = upcast(grid[[i[0], rank - 1 - n, *i[2:]]])
            position = (position + 1.0) * 0.5 * (size - 1.0) if corners else ((position + 1.0) * size - 1.0) * 0.5
            index.append(position if method == "bicubic" else let_value(position, partial(padded, size=size)))
        return let_values(index, sampled).astype(x.dtype)

    return te.compute(result_dims(call), body, "grid_sample")


def _reflect(position: float, size: int, corners: bool) -> float:
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if high == low:
        return 0.0
    phase = (position - low) % (2 * (high - low))
    return low + min(phase, 2 * (high - low) - phase)


def _taps(position: float, method: str, fix: Callable[[float], float]) -> list[tuple[float, float]]:
    if method == "bicubic":
        low = np.floor(position)
        return [(fix(low - 1 + n), float(w)) for n, w in enumerate(cubic_weights(position - low, -0.75))]
    position = fix(position)
    if method == "nearest":
        return [(float(np.round(position)), 1.0)]
    low = np.floor(position)
    return [(low, 1 - (position - low)), (low + 1, position - low)]


def _sample_ref(
    x: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> np.ndarray:
    result = np.zeros((*x.shape[:2], *grid.shape[2:]))
    kind = np.float64 if x.dtype == np.float64 else np.float32
    rank = x.ndim - 2
    for n, *out in np.ndindex(x.shape[0], *grid.shape[2:]):
        taps = []
        for axis, size in enumerate(x.shape[2:]):
            position = kind(grid[(n, rank - 1 - axis, *out)])
            index = (position + kind(1)) / 2 * (size - 1) if align_corners else ((position + kind(1)) * size - 1) / 2

            def fix(v: float, size: int = size) -> float:
                v = _reflect(v, size, align_corners) if padding_mode == "reflection" else v
                return v if padding_mode == "zeros" else float(min(max(v, 0.0), size - 1.0))

            taps.append(_taps(float(index), method, fix))
        for picked in itertools.product(*taps):
            inside = all([0 <= at < size for (at, _), size in zip(picked, x.shape[2:])])
            pixel = x[(n, slice(None), *[int(at) for at, _ in picked])].astype(np.float64) if inside else 0.0
            result[(n, slice(None), *out)] += pixel * np.prod([w for _, w in picked])
    return result.astype(x.dtype)


grid_sample = row(
    "image.grid_sample",
    (
        "data",
        "grid: (batch, 2, height, width): x and y from -1 to 1; (batch, 3, depth, height, width): x, y and z",
        attribute("method", "bilinear", doc='"bilinear", "nearest" or "bicubic"'),
        attribute("layout", "NCHW"),
        attribute("padding_mode", "zeros", doc='"zeros", "border" or "reflection"'),
        attribute("align_corners", False, doc="-1 and 1 are the centres of the corner pixels, not their outer edges"),
    ),
    _sample_type,
    "Samples images or volumes (layout NCDHW) at the coordinates of a grid; a NaN coordinate reads pixel 0.",
    lower=_sample,
    ref=_sample_ref,
    grad="models that sample images are trained in torch: torch.compile runs their backward graphs there",
    samples="f32[2,1,4,3], f32[2,2,3,2](-1.3,1.3), method=each('bilinear', 'nearest', 'bicubic'), "
    "padding_mode=each('zeros', 'border', 'reflection'), align_corners=each(True, False); "
    "f32[1,2,2,3,4], f32[1,3,2,1,3](-1.4,1.4), layout='NCDHW', method=each('nearest', "
    "'bilinear'), padding_mode=each('zeros', 'border', 'reflection'); "
    "f32[1,1,1,1], f32[1,2,2,2], padding_mode='reflection'",
)
