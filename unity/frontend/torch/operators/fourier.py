"""Fourier transforms of complex numbers as pairs, of real ones and back, over any axes; ``stft``. Not here: the transform of one
line (``roots``), the pairs themselves and their arithmetic (``complex``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import (
    Args,
    Context,
    aten,
    axis_of,
    dtype_of,
    is_float,
    number,
    rank_of,
    refuse,
    shape_of,
    to_dim,
)
from .complex import Pair, bind_parts, register, zeros
from .roots import back_to_real, transform
from .shape import permute, slice_axis
from .view import strided, strides_of


def _transform_axis(c: Context, x: Pair, axis: int, forward: bool) -> Pair:
    rank = rank_of(x.real)
    order = [*[d for d in range(rank) if d != axis], axis]
    inverse = [order.index(d) for d in range(rank)]
    moved = bind_parts(c, Pair(permute(x.real, order), permute(x.imag, order)))
    result = transform(c, moved, forward)
    return bind_parts(c, Pair(permute(result.real, inverse), permute(result.imag, inverse)))


def _scaled(c: Context, x: Pair, sizes: Sequence[Expr], normalization: int) -> Pair:
    """The pair divided by the product of the sizes, or by its root."""
    if normalization == 0:
        return x
    kind, count = dtype_of(x.real), product(sizes)
    power = -0.5 if normalization == 1 else -1.0
    factor = op.astype(op.power(c.cast(count, "float64"), number(power, "float64")), kind)
    return bind_parts(c, Pair(x.real * factor, x.imag * factor))


def _sizes(x: Expr, axes: Sequence[int]) -> list[Expr]:
    return [shape_of(x)[n] for n in axes]


@register("_fft_c2c.default")
def _fft_c2c(c: Context, a: Args) -> Pair:
    result = a.self
    axes = [axis_of(d, rank_of(result.real)) for d in a.dim]
    for axis in axes:
        result = _transform_axis(c, result, axis, a.forward)
    return _scaled(c, result, _sizes(result.real, axes), a.normalization)


@register("_fft_r2c.default")
def _fft_r2c(c: Context, a: Args) -> Pair:
    real = c.emit(a.self)
    rank = rank_of(real)
    axes = [axis_of(d, rank) for d in a.dim]
    sizes, last = _sizes(real, axes), axes[-1]
    result = _transform_axis(c, Pair(real, c.emit(zeros(real))), last, True)
    if a.onesided:
        half = sizes[-1] // 2 + 1
        result = bind_parts(c, Pair(slice_axis(result.real, last, 0, half), slice_axis(result.imag, last, 0, half)))
    for axis in axes[:-1]:
        result = _transform_axis(c, result, axis, True)
    return _scaled(c, result, sizes, a.normalization)


@register("_fft_c2r.default")
def _fft_c2r(c: Context, a: Args) -> Expr:
    """Half a spectrum back to real values: each inner position stands for itself and its mirror image."""
    result, rank = a.self, rank_of(a.self.real)
    axes = [axis_of(d, rank) for d in a.dim]
    for axis in axes[:-1]:
        result = _transform_axis(c, result, axis, False)
    n, last = to_dim(a.last_dim_size), axes[-1]
    order = [*[d for d in range(rank) if d != last], last]
    lines = bind_parts(c, Pair(permute(result.real, order), permute(result.imag, order)))
    result = permute(back_to_real(c, lines, n), [order.index(d) for d in range(rank)])
    sizes = [*_sizes(a.self.real, axes[:-1]), n]
    return _scaled(c, Pair(result, result), sizes, a.normalization).real


@register("stft.center", "stft.default")
@aten("stft.center", "stft.default")
def _stft(c: Context, a: Args) -> Any:
    """Windows of a signal, each transformed: (..., frequency, window)."""
    refuse(isinstance(a.self, Pair) or isinstance(a.window, Pair) or not is_float(a.self), "a complex signal")
    *lead, length = shape_of(a.self)
    n = a.n_fft
    hop = n // 4 if a.hop_length is None else a.hop_length
    width = n if a.win_length is None else a.win_length
    x = a.self
    if getattr(a, "center", False):
        x = op.nn_pad(x, pad_width=(0, 0) * len(lead) + (n // 2, n // 2), pad_mode=a.pad_mode)
        length = length + n // 2 * 2
    frames = (length - n) // hop + 1
    steps = strides_of(x)
    seen: Expr = strided(c, x, [*lead, frames, n], [*steps[:-1], to_dim(hop), to_dim(1)], 0)
    if a.window is not None or width < n:
        window = op.ones((width,), dtype_of(x)) if a.window is None else a.window
        before = (n - width) // 2
        seen = seen * (op.nn_pad(window, pad_width=(before, n - width - before)) if width < n else window)
    real = c.emit(seen)
    result = transform(c, Pair(real, c.emit(zeros(real))), True)
    axis = rank_of(real) - 1
    count = to_dim(n // 2 + 1 if a.onesided is not False else n)
    order = [*range(axis - 1), axis, axis - 1]
    parts = [permute(slice_axis(part, axis, 0, count), order) for part in (result.real, result.imag)]
    found = _scaled(c, bind_parts(c, Pair(*parts)), [to_dim(n)], 1 if a.normalized else 0)
    return found if a.return_complex else op.stack([found.real, found.imag], axis=rank_of(found.real))
