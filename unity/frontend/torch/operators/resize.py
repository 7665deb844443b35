"""Table entries: resizing of images and sampling at positions given by a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import op
from ....ir.expr import IntImm, ShapeExpr
from ....ir.types import Expr
from ....op.composite import affine_grid
from ..context.context import Args, Context, aten, is_float, rank_of, refuse, shape_of
from .shape import permute

_RESIZE = {1: op.image_resize1d, 2: op.image_resize2d, 3: op.image_resize3d}


def spatial_rank(c: Context) -> int:
    """Number of spatial axes, as the name of the operator says."""
    return next(n for n in (1, 2, 3) if f"{n}d" in c.node_target)


def _scales(a: Args, rank: int) -> tuple[float, ...] | None:
    """Scales as the user gave them: torch then takes coordinates by them, not by the rounded sizes."""
    given = getattr(a, "scale_factors", None)
    if given is None:
        names = ("scales",) if hasattr(a, "scales") else ("scales_d", "scales_h", "scales_w")[3 - rank :]
        given = [getattr(a, name, None) for name in names]
    if any([s is None for s in given]):
        refuse(any([s is not None for s in given]), "scales for some axes only")
        return None
    return tuple([float(s) for s in given])


def _rounded_scales(old: Sequence[Expr], new: Sequence[Expr]) -> tuple[float, ...] | None:
    """Scales where torch's float32 quotient of two sizes leads to another pixel than the exact one; None elsewhere."""
    pairs = [(n.value, m.value) for n, m in zip(old, new) if type(n) is IntImm and type(m) is IntImm and m.value]
    if len(pairs) < len(old):
        return None
    steps = [np.float32(n) / np.float32(m) for n, m in pairs]
    positions = [np.arange(m) for _, m in pairs]
    exact = [at * n // m for at, (n, m) in zip(positions, pairs)]
    torch = [np.floor(at.astype(np.float32) * step) for at, step in zip(positions, steps)]
    if all([np.array_equal(a, b) for a, b in zip(exact, torch)]):
        return None
    return tuple([1.0 / float(step) for step in steps])


def _resized(c: Context, a: Args, method: str, mode: str, rounding: str = "round") -> Expr:
    rank = spatial_rank(c)
    x = getattr(a, "input", None)
    x = a.self if x is None else x
    scales = _scales(a, rank) if mode != "align_corners" else None
    if scales is None and mode == "asymmetric":
        scales = _rounded_scales(shape_of(x)[-rank:], c.shape[-rank:])
    refuse(not is_float(x) and method != "nearest_neighbor", "images of integers")
    result: Expr = _RESIZE[rank](
        x, ShapeExpr(c.shape[-rank:]), method=method, coordinate_transformation_mode=mode,
        rounding_method=rounding, scales=scales,
    )  # fmt: skip
    return result


_NEAREST = [f"upsample_nearest{n}d.{form}" for n in (1, 2, 3) for form in ("vec", "default")]
_EXACT = [f"_upsample_nearest_exact{n}d.{form}" for n in (1, 2, 3) for form in ("vec", "default")]
_SMOOTH = [
    f"upsample_{kind}.{form}" for kind in ("linear1d", "bilinear2d", "trilinear3d") for form in ("vec", "default")
]


@aten(*_NEAREST)
def _nearest(c: Context, a: Args) -> Expr:
    return _resized(c, a, "nearest_neighbor", "asymmetric", "floor")


@aten(*_EXACT)
def _nearest_exact(c: Context, a: Args) -> Expr:
    """The pixel whose area holds the centre of the target pixel: half a pixel on, rounded half up."""
    return _resized(c, a, "nearest_neighbor", "half_pixel", "round")


def _smooth(method: str) -> Any:
    return lambda c, a: _resized(c, a, method, "align_corners" if a.align_corners else "half_pixel")


aten(*_SMOOTH)(_smooth("linear"))
aten("upsample_bicubic2d.vec", "upsample_bicubic2d.default")(_smooth("cubic"))


_METHODS = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def _grid_sample(c: Context, a: Args) -> Expr:
    rank = rank_of(a.input) - 2
    refuse(rank not in (2, 3), "this rank")
    positions = permute(a.grid, [0, rank + 1, *range(1, rank + 1)])
    return op.image_grid_sample(
        a.input, positions, method=_METHODS[a.interpolation_mode], padding_mode=_PADDING[a.padding_mode],
        align_corners=bool(a.align_corners), layout="NCHW" if rank == 2 else "NCDHW",
    )  # fmt: skip


@aten("affine_grid_generator.default")
def _affine_grid(c: Context, a: Args) -> Expr:
    refuse(len(a.size) != 4, "maps of volumes")
    size = ShapeExpr(c.shape[1:3])
    return permute(affine_grid(a.theta, size, align_corners=bool(a.align_corners)), [0, 2, 3, 1])
