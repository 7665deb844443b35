"""Fourier transforms of complex numbers as pairs: multiplications by matrices of roots of unity; long ones split into short ones
(Cooley and Tukey). Not here: the pairs themselves and their arithmetic (``complex``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import op
from ...ffi.dtype import DataType
from ...ir.expr import ShapeExpr
from ...ir.types import Expr
from ..context import (
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
    static,
    to_dim,
)
from .complex import Pair, enter, kept, times, zeros
from .shape import cut, permute
from .view import strided, strides_of

DIRECT = 64
"""Transforms up to this length are one product with a matrix."""


def _roots(rows: int, columns: int, n: int, dtype: str) -> tuple[Expr, Expr]:
    """Cosine and sine of 2 pi j k / n for rows j and columns k."""
    angle = 2 * math.pi * (np.outer(np.arange(rows), np.arange(columns)) % n) / n
    kind = DataType(dtype).numpy
    cos, sin = [np.where(np.abs(v) < 1e-14, 0.0, v).astype(kind) for v in (np.cos(angle), np.sin(angle))]
    return op.constant(cos), op.constant(sin)


def _factor(n: int) -> int:
    """Largest divisor up to DIRECT; 1 where there is none."""
    return next((f for f in range(min(DIRECT, n - 1), 1, -1) if n % f == 0), 1)


def _matrix(c: Context, x: Pair, n: int, forward: bool) -> Pair:
    """The transform of the last axis as one product: (re + i im)(cos - i sin), with + for the inverse."""
    cos, sin = _roots(n, n, n, dtype_of(x.real))
    turned = [op.matmul(x.imag, sin), op.matmul(x.real, sin)]
    straight = [op.matmul(x.real, cos), op.matmul(x.imag, cos)]
    if forward:
        return kept(c, Pair(op.add(straight[0], turned[0]), op.subtract(straight[1], turned[1])))
    return kept(c, Pair(op.subtract(straight[0], turned[0]), op.add(straight[1], turned[1])))


def _transform(c: Context, x: Pair, n: int, forward: bool) -> Pair:
    """The transform of the last axis, of length n. Split: index i1 b + i2 in, k1 + a k2 out."""
    first = _factor(n)
    if n <= DIRECT or first == 1:
        refuse(n > 4096, "a long transform of prime length")
        return _matrix(c, x, n, forward)
    second = n // first
    lead = shape_of(x.real)[:-1]
    rank = len(lead)
    swap = [*range(rank), rank + 1, rank]

    def both(fn: Callable[[Expr], Expr], value: Pair) -> Pair:
        return kept(c, Pair(fn(value.real), fn(value.imag)))

    inner = both(lambda t: permute(c.reshape(t, [*lead, first, second]), swap), x)
    inner = both(lambda t: permute(t, swap), _matrix(c, inner, first, forward))
    cos, sin = _roots(first, second, n, dtype_of(x.real))
    inner = kept(c, times(inner, Pair(cos, op.negative(sin) if forward else sin)))
    outer = _transform(c, inner, second, forward)
    return both(lambda t: c.reshape(permute(t, swap), [*lead, to_dim(n)]), outer)


def _along(c: Context, x: Pair, axis: int, forward: bool) -> Pair:
    rank = rank_of(x.real)
    n = static(shape_of(x.real)[axis], "the length of a transform")
    order = [*[d for d in range(rank) if d != axis], axis]
    back = [order.index(d) for d in range(rank)]
    moved = kept(c, Pair(permute(x.real, order), permute(x.imag, order)))
    made = _transform(c, moved, n, forward)
    return kept(c, Pair(permute(made.real, back), permute(made.imag, back)))


def _scaled(c: Context, x: Pair, sizes: Sequence[int], normalization: int) -> Pair:
    if normalization == 0:
        return x
    count = math.prod(sizes)
    factor = number(1 / (math.sqrt(count) if normalization == 1 else count), dtype_of(x.real))
    return kept(c, Pair(op.multiply(x.real, factor), op.multiply(x.imag, factor)))


def _sizes(x: Expr, axes: Sequence[int]) -> list[int]:
    return [static(shape_of(x)[n], "the length of a transform") for n in axes]


@enter("_fft_c2c.default")
def _fft_c2c(c: Context, a: Args) -> Pair:
    made = a.self
    axes = [axis_of(d, rank_of(made.real)) for d in a.dim]
    for axis in axes:
        made = _along(c, made, axis, a.forward)
    return _scaled(c, made, _sizes(made.real, axes), a.normalization)


@enter("_fft_r2c.default")
def _fft_r2c(c: Context, a: Args) -> Pair:
    real = c.emit(a.self)
    rank = rank_of(real)
    axes = [axis_of(d, rank) for d in a.dim]
    sizes, last = _sizes(real, axes), axes[-1]
    made = _along(c, Pair(real, c.emit(zeros(real))), last, True)
    if a.onesided:
        half = to_dim(sizes[-1] // 2 + 1)
        made = kept(c, Pair(cut(made.real, last, to_dim(0), half), cut(made.imag, last, to_dim(0), half)))
    for axis in axes[:-1]:
        made = _along(c, made, axis, True)
    return _scaled(c, made, sizes, a.normalization)


@enter("_fft_c2r.default")
def _fft_c2r(c: Context, a: Args) -> Expr:
    """Half a spectrum back to real values: each inner place stands for itself and its mirror image."""
    made, rank = a.self, rank_of(a.self.real)
    axes = [axis_of(d, rank) for d in a.dim]
    for axis in axes[:-1]:
        made = _along(c, made, axis, False)
    n, last = static(to_dim(a.last_dim_size), "the length of a transform"), axes[-1]
    refuse(n > 4096, "a long inverse transform")
    count = n // 2 + 1
    half = kept(c, Pair(cut(made.real, last, to_dim(0), to_dim(count)), cut(made.imag, last, to_dim(0), to_dim(count))))
    order = [*[d for d in range(rank) if d != last], last]
    cos, sin = _roots(count, n, n, dtype_of(half.real))
    doubled = np.full((count, 1), 2.0)
    doubled[0] = 1
    if n % 2 == 0:
        doubled[-1] = 1
    weight = op.constant(doubled.astype(DataType(dtype_of(half.real)).numpy))
    real = op.matmul(permute(half.real, order), op.multiply(cos, weight))
    imag = op.matmul(permute(half.imag, order), op.multiply(sin, weight))
    made = permute(op.subtract(real, imag), [order.index(d) for d in range(rank)])
    sizes = [*_sizes(a.self.real, axes[:-1]), n]
    return _scaled(c, Pair(made, made), sizes, a.normalization).real


@enter("stft.center", "stft.default")
@aten("stft.center", "stft.default")
def _stft(c: Context, a: Args) -> Any:
    """Windows of a signal, each transformed: (..., frequency, window)."""
    refuse(not is_float(a.self), "a complex signal")
    lead, length = shape_of(a.self)[:-1], static(shape_of(a.self)[-1], "the length of a signal")
    n = a.n_fft
    hop = n // 4 if a.hop_length is None else a.hop_length
    width = n if a.win_length is None else a.win_length
    x = c.reshape(a.self, [*lead, to_dim(length)])
    if getattr(a, "center", False):
        x = op.nn_pad(x, pad_width=(0, 0) * len(lead) + (n // 2, n // 2), pad_mode=a.pad_mode)
        length += n // 2 * 2
    frames = (length - n) // hop + 1
    steps = strides_of(x)
    seen: Expr = strided(c, x, [*lead, frames, n], [*steps[:-1], to_dim(hop), to_dim(1)], 0)
    if a.window is not None or width < n:
        window = op.ones(ShapeExpr((to_dim(width),)), dtype_of(x)) if a.window is None else a.window
        before = (n - width) // 2
        seen = op.multiply(seen, op.nn_pad(window, pad_width=(before, n - width - before)) if width < n else window)
    real = c.emit(seen)
    made = _transform(c, Pair(real, c.emit(zeros(real))), n, True)
    axis = rank_of(real) - 1
    count = to_dim(n // 2 + 1 if a.onesided is not False else n)
    order = [*range(axis - 1), axis, axis - 1]
    parts = [permute(cut(part, axis, to_dim(0), count), order) for part in (made.real, made.imag)]
    found = _scaled(c, kept(c, Pair(*parts)), [n], 1 if a.normalized else 0)
    return found if a.return_complex else op.stack([found.real, found.imag], axis=rank_of(found.real))
