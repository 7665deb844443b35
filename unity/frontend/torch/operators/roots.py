"""The Fourier transform of one line: multiplications by matrices of roots of unity; long ones split into short ones (Cooley and
Tukey), long primes and lengths that only a call knows turned into a convolution of a length that splits (Bluestein). Not here: axes
and scales (``fourier``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .... import op
from ....ffi.dtype import DataType
from ....ir.build import ceildiv
from ....ir.expr import IntImm
from ....ir.types import Expr
from ..context.context import Context, dtype_of, shape_of, to_dim
from .complex import Pair, bind_parts, multiply
from .shape import permute, slice_axis

DIRECT = 64
"""Transforms up to this length are one product with a matrix."""
LONG = 512
"""Transforms of a prime length up to this are too."""


def _turns(c: Context, positions: Expr, n: Expr, dtype: str) -> tuple[Expr, Expr]:
    """Cosine and sine of 2 pi positions / n, for integers below n; float64 inside."""
    turn = c.cast(positions, "float64") / c.cast(n, "float64")
    angle = c.emit(turn * (2 * math.pi))
    return c.emit(op.astype(op.cos(angle), dtype)), c.emit(op.astype(op.sin(angle), dtype))


def _roots(c: Context, rows: Expr, columns: Expr, n: Expr, dtype: str) -> tuple[Expr, Expr]:
    """Cosine and sine of 2 pi j k / n for rows j and columns k."""
    if type(rows) is IntImm and type(columns) is IntImm and type(n) is IntImm:
        angle = 2 * math.pi * (np.outer(np.arange(rows.value), np.arange(columns.value)) % n.value) / n.value
        kind = DataType(dtype).numpy
        cos, sin = [np.where(np.abs(v) < 1e-14, 0.0, v).astype(kind) for v in (np.cos(angle), np.sin(angle))]
        return op.constant(cos), op.constant(sin)
    j, k = [op.arange(0, size, 1, dtype="int64") for size in (rows, columns)]
    positions = op.expand_dims(j, axis=[1]) * op.expand_dims(k, axis=[0])
    return _turns(c, op.floor_mod(positions, c.cast(n, "int64")), n, dtype)


def _factor(n: int) -> int:
    """Largest divisor up to DIRECT; 1 where there is none."""
    return next((f for f in range(min(DIRECT, n - 1), 1, -1) if n % f == 0), 1)


def _matrix(c: Context, x: Pair, forward: bool) -> Pair:
    """The transform of the last axis as one product: (re + i im)(cos - i sin), with + for the inverse."""
    n = shape_of(x.real)[-1]
    cos, sin = _roots(c, n, n, n, dtype_of(x.real))
    products = [op.matmul(x.imag, sin), op.matmul(x.real, sin)]
    straight = [op.matmul(x.real, cos), op.matmul(x.imag, cos)]
    if forward:
        return bind_parts(c, Pair(straight[0] + products[0], straight[1] - products[1]))
    return bind_parts(c, Pair(straight[0] - products[0], straight[1] + products[1]))


def _both(c: Context, fn: Callable[[Expr], Expr], value: Pair) -> Pair:
    return bind_parts(c, Pair(fn(value.real), fn(value.imag)))


def transform(c: Context, x: Pair, forward: bool) -> Pair:
    """The transform of the last axis, without a scale."""
    n = shape_of(x.real)[-1]
    first = 1 if type(n) is not IntImm else _factor(n.value)
    if type(n) is not IntImm or (n.value > LONG and first == 1):
        return _chirp(c, x, forward)
    if n.value <= DIRECT or first == 1:
        return _matrix(c, x, forward)
    return _split(c, x, to_dim(first), to_dim(n.value // first), forward, transform)


def _split(c: Context, x: Pair, first: Expr, second: Expr, forward: bool,
           outer: Callable[[Context, Pair, bool], Pair]) -> Pair:  # fmt: skip
    """The transform of a length first * second: index i1 b + i2 in, k1 + a k2 out."""
    *lead, n = shape_of(x.real)
    rank = len(lead)
    swap = [*range(rank), rank + 1, rank]
    inner = _both(c, lambda t: permute(c.reshape(t, [*lead, first, second]), swap), x)
    inner = _both(c, lambda t: permute(t, swap), _matrix(c, inner, forward))
    cos, sin = _roots(c, first, second, n, dtype_of(x.real))
    inner = bind_parts(c, multiply(inner, Pair(cos, -sin if forward else sin)))
    return _both(c, lambda t: c.reshape(permute(t, swap), [*lead, n]), outer(c, inner, forward))


def _padded(c: Context, x: Expr, count: Expr) -> Expr:
    """Zeros behind the last axis, up to a size."""
    *lead, n = shape_of(x)
    return c.emit(op.concat([x, op.zeros((*lead, count - n), dtype_of(x))], axis=len(lead)))


def _chirp(c: Context, x: Pair, forward: bool) -> Pair:
    """The transform of any length n: since 2 j k = j^2 + k^2 - (k - j)^2, a convolution with the chirp exp(i pi j^2 / n), over a
    length from 2 n - 1 that splits.

    Source: L. Bluestein, A linear filtering approach to the computation of the discrete Fourier transform, 1970.
    """
    n, kind = shape_of(x.real)[-1], dtype_of(x.real)
    second, outer = ceildiv(n * 2, DIRECT), _matrix
    if type(second) is IntImm:
        second, outer = to_dim(1 << (second.value - 1).bit_length()), transform
    count = second * DIRECT

    def through(value: Pair, direction: bool) -> Pair:
        return _split(c, value, to_dim(DIRECT), second, direction, outer)

    def chirp(indices: Expr) -> Pair:
        double = n * 2
        return Pair(*_turns(c, op.floor_mod(indices * indices, c.cast(double, "int64")), double, kind))

    turns = chirp(op.arange(0, n, 1, dtype="int64"))
    conjugate = Pair(turns.real, c.emit(-turns.imag))
    there, conjugate = (conjugate, turns) if forward else (turns, conjugate)
    line = op.arange(0, count, 1, dtype="int64")
    positions = c.emit(op.minimum(line, c.cast(count, "int64") - line))
    inside = c.emit(op.less(positions, c.cast(n, "int64")))
    filtered = chirp(positions)
    filtered = _both(c, lambda t: op.where(inside, t, 0), filtered)
    if not forward:
        filtered = Pair(filtered.real, c.emit(-filtered.imag))
    spectrum = through(_both(c, lambda t: _padded(c, t, count), bind_parts(c, multiply(x, there))), True)
    found = through(bind_parts(c, multiply(spectrum, through(filtered, True))), False)
    scale = 1 / c.cast(count, kind)
    short = _both(c, lambda t: slice_axis(t, len(shape_of(t)) - 1, 0, n) * scale, found)
    return bind_parts(c, multiply(short, there))


def back_to_real(c: Context, half: Pair, n: Expr) -> Expr:
    """The inverse transform of a spectrum whose second half mirrors the first: n real values, without a scale.

    In short ones each inner position stands for itself and its mirror image.
    """
    last = len(shape_of(half.real)) - 1
    count = n // 2 + 1
    half = _both(c, lambda t: slice_axis(t, last, 0, count), half)
    if type(n) is not IntImm or n.value > 8 * LONG:
        mirrored = _both(c, lambda t: op.flip(slice_axis(t, last, 1, n - count), axis=last), half)
        real = op.concat([half.real, mirrored.real], axis=last)
        imag = op.concat([half.imag, -mirrored.imag], axis=last)
        return transform(c, bind_parts(c, Pair(real, imag)), False).real
    kind = dtype_of(half.real)
    cos, sin = _roots(c, count, n, n, kind)
    doubled = np.full((n.value // 2 + 1, 1), 2.0)
    doubled[0] = 1
    if n.value % 2 == 0:
        doubled[-1] = 1
    weight = op.constant(doubled.astype(DataType(kind).numpy))
    return op.matmul(half.real, cos * weight) - op.matmul(half.imag, sin * weight)
