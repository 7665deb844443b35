"""Complex numbers as pairs of real tensors: Fourier transforms, rotations, and what makes real tensors of them.

A complex result is kept as the call that makes it (``Deferred``) until an operator needs it; then it becomes a ``Pair``. Chains of
complex operators that end in a real tensor so run without torch. Transforms multiply with matrices of roots of unity, long
ones split into short ones (Cooley and Tukey).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import op
from ...ffi.dtype import DataType
from ...ir.expr import ShapeExpr
from ...ir.types import Expr
from ..context import (
    ATEN,
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
from ..fallback import Deferred
from .shape import cut, permute
from .view import strided, strides_of

DIRECT = 64
"""Transforms up to this length are one product with a matrix."""


@dataclass(slots=True, frozen=True)
class Pair:
    """Real and imaginary part."""

    real: Expr
    imag: Expr


Made = Callable[[Context, Args], Any]
COMPLEX: dict[str, Made] = {}
"""Operators with complex operands or results: translation to a Pair, or to an expression where the result is real."""


def _enter(*names: str) -> Callable[[Made], Made]:
    def enter(fn: Made) -> Made:
        for name in names:
            COMPLEX[f"aten.{name}"] = fn
        return fn

    return enter


def evaluate(c: Context, target: Any, args: Any, bind: Callable[..., Args]) -> Any:
    """The result of an operator some of whose operands are complex. ``args`` are positional and named. Raises Gap."""
    name = str(target)
    found = COMPLEX.get(name)
    given = bind(target, *[_resolved(c, part, bind) for part in args])
    if found is not None:
        return found(c, given)
    refuse(name not in _STRUCTURAL, f"{name} of complex numbers")
    real, imag = [ATEN[name](c, Args(**{k: _part(v, n) for k, v in vars(given).items()})) for n in (0, 1)]
    if isinstance(real, list):
        return [Pair(r, i) for r, i in zip(real, imag)]
    return Pair(c.emit(real), c.emit(imag))


def _resolved(c: Context, value: Any, bind: Callable[..., Args]) -> Any:
    """Arguments with every deferred result computed."""
    if isinstance(value, dict):
        return {k: _resolved(c, v, bind) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolved(c, v, bind) for v in value]
    if not isinstance(value, Deferred):
        return value
    known = c.pairs.get(value)
    if known is None:
        outer = (c.value, c.node_target)
        refuse(value.value is None, "complex weights")
        c.value, c.node_target = value.value.real, str(value.target)
        try:
            known = c.pairs[value] = evaluate(c, value.target, (value.args, value.kwargs), bind)
        finally:
            c.value, c.node_target = outer
    return known


def _part(value: Any, which: int) -> Any:
    if isinstance(value, Pair):
        return value.imag if which else value.real
    if isinstance(value, (list, tuple)):
        return [_part(v, which) for v in value]
    return value


_STRUCTURAL = {
    f"aten.{n}"
    for n in (
        "view.default", "reshape.default", "flatten.using_ints", "unsqueeze.default", "squeeze.dim", "squeeze.dims",
        "unflatten.int", "expand.default", "permute.default", "transpose.int", "slice.Tensor", "select.int", "cat.default",
        "stack.default", "clone.default", "contiguous.default", "alias.default", "detach.default", "roll.default",
        "flip.default", "neg.default", "sum.dim_IntList", "mean.dim", "_unsafe_view.default", "lift_fresh_copy.default",
        "constant_pad_nd.default", "narrow.default", "repeat.default", "index_select.default", "index.Tensor", "swapaxes.default",
        "movedim.int", "expand_as.default", "view_as.default", "reshape_as.default", "unbind.int", "split.Tensor",
    )
}  # fmt: skip
"""Operators that treat both parts alike."""


def _pair(c: Context, value: Any) -> Pair:
    """A complex value of a pair, a real tensor or a number."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, complex):
        return Pair(number(value.real, c.dtype), number(value.imag, c.dtype))
    real = c.cast(value, c.dtype)
    return Pair(real, number(0, c.dtype))


def _zeros(x: Expr) -> Expr:
    return op.zeros(ShapeExpr(shape_of(x)), dtype_of(x))


def _times(a: Pair, b: Pair) -> Pair:
    real = op.subtract(op.multiply(a.real, b.real), op.multiply(a.imag, b.imag))
    return Pair(real, op.add(op.multiply(a.real, b.imag), op.multiply(a.imag, b.real)))


def _kept(c: Context, made: Pair) -> Pair:
    return Pair(c.emit(made.real), c.emit(made.imag))


# ---- making and taking apart


@_enter("view_as_complex.default")
def _view_as_complex(c: Context, a: Args) -> Pair:
    shape, rank = shape_of(a.self)[:-1], rank_of(a.self)
    x = c.emit(a.self)
    real, imag = [c.reshape(cut(x, rank - 1, to_dim(n), to_dim(1)), shape) for n in (0, 1)]
    return _kept(c, Pair(real, imag))


@_enter("complex.default")
def _complex(c: Context, a: Args) -> Pair:
    return Pair(c.broadcast(a.real), c.broadcast(a.imag))


@_enter("polar.default")
def _polar(c: Context, a: Args) -> Pair:
    angle = c.emit(a.angle)
    return _kept(c, Pair(op.multiply(a.abs, op.cos(angle)), op.multiply(a.abs, op.sin(angle))))


@_enter("_to_copy.default", "to.dtype", "to.dtype_layout")
def _to_complex(c: Context, a: Args) -> Any:
    made = _pair(c, a.self)
    real = c.cast(made.real, c.dtype)
    return Pair(real, c.cast(made.imag, c.dtype) if isinstance(a.self, Pair) else _zeros(real))


@_enter("view_as_real.default")
def _view_as_real(c: Context, a: Args) -> Expr:
    return op.stack([a.self.real, a.self.imag], axis=rank_of(a.self.real))


_enter("real.default")(lambda c, a: a.self.real)
_enter("imag.default")(lambda c, a: a.self.imag)
_enter("angle.default")(lambda c, a: op.atan2(a.self.imag, a.self.real))


@_enter("abs.default")
def _abs(c: Context, a: Args) -> Expr:
    return op.sqrt(op.add(op.multiply(a.self.real, a.self.real), op.multiply(a.self.imag, a.self.imag)))


@_enter("_conj.default", "conj.default", "conj_physical.default", "_conj_physical.default")
def _conj(c: Context, a: Args) -> Pair:
    return Pair(a.self.real, c.emit(op.negative(a.self.imag)))


_enter("resolve_conj.default", "resolve_neg.default")(lambda c, a: a.self)


# ---- arithmetic


@_enter("mul.Tensor", "mul.Scalar")
def _mul(c: Context, a: Args) -> Pair:
    if not isinstance(a.self, Pair) or not isinstance(a.other, (Pair, complex)):
        both, factor = (a.self, a.other) if isinstance(a.self, Pair) else (a.other, a.self)
        if isinstance(both, Pair):
            scale = c.emit(c.cast(factor, c.dtype))
            return _kept(c, Pair(op.multiply(both.real, scale), op.multiply(both.imag, scale)))
    return _kept(c, _times(_pair(c, a.self), _pair(c, a.other)))


@_enter("div.Tensor", "div.Scalar")
def _div(c: Context, a: Args) -> Pair:
    if not isinstance(a.other, (Pair, complex)):
        scale = c.emit(c.cast(a.other, c.dtype))
        return _kept(c, Pair(op.divide(a.self.real, scale), op.divide(a.self.imag, scale)))
    other = _pair(c, a.other)
    size = c.emit(op.add(op.multiply(other.real, other.real), op.multiply(other.imag, other.imag)))
    made = _kept(c, _times(_pair(c, a.self), Pair(other.real, op.negative(other.imag))))
    return _kept(c, Pair(op.divide(made.real, size), op.divide(made.imag, size)))


def _sum(fn: Callable[..., Expr]) -> Made:
    def translate(c: Context, a: Args) -> Pair:
        refuse(a.alpha != 1, "a scaled sum")
        x, y = _pair(c, a.self), _pair(c, a.other)
        return _kept(c, Pair(fn(x.real, y.real), fn(x.imag, y.imag)))

    return translate


_enter("add.Tensor", "add.Scalar")(_sum(op.add))
_enter("sub.Tensor", "sub.Scalar")(_sum(op.subtract))


@_enter("exp.default")
def _exp(c: Context, a: Args) -> Pair:
    size = c.emit(op.exp(a.self.real))
    return _kept(c, Pair(op.multiply(size, op.cos(a.self.imag)), op.multiply(size, op.sin(a.self.imag))))


# ---- Fourier transforms


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
        return _kept(c, Pair(op.add(straight[0], turned[0]), op.subtract(straight[1], turned[1])))
    return _kept(c, Pair(op.subtract(straight[0], turned[0]), op.add(straight[1], turned[1])))


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
        return _kept(c, Pair(fn(value.real), fn(value.imag)))

    inner = both(lambda t: permute(c.reshape(t, [*lead, first, second]), swap), x)
    inner = both(lambda t: permute(t, swap), _matrix(c, inner, first, forward))
    cos, sin = _roots(first, second, n, dtype_of(x.real))
    inner = _kept(c, _times(inner, Pair(cos, op.negative(sin) if forward else sin)))
    outer = _transform(c, inner, second, forward)
    return both(lambda t: c.reshape(permute(t, swap), [*lead, to_dim(n)]), outer)


def _along(c: Context, x: Pair, axis: int, forward: bool) -> Pair:
    rank = rank_of(x.real)
    n = static(shape_of(x.real)[axis], "the length of a transform")
    order = [*[d for d in range(rank) if d != axis], axis]
    back = [order.index(d) for d in range(rank)]
    moved = _kept(c, Pair(permute(x.real, order), permute(x.imag, order)))
    made = _transform(c, moved, n, forward)
    return _kept(c, Pair(permute(made.real, back), permute(made.imag, back)))


def _scaled(c: Context, x: Pair, sizes: Sequence[int], normalization: int) -> Pair:
    if normalization == 0:
        return x
    count = math.prod(sizes)
    factor = number(1 / (math.sqrt(count) if normalization == 1 else count), dtype_of(x.real))
    return _kept(c, Pair(op.multiply(x.real, factor), op.multiply(x.imag, factor)))


def _sizes(x: Expr, axes: Sequence[int]) -> list[int]:
    return [static(shape_of(x)[n], "the length of a transform") for n in axes]


@_enter("_fft_c2c.default")
def _fft_c2c(c: Context, a: Args) -> Pair:
    made = a.self
    axes = [axis_of(d, rank_of(made.real)) for d in a.dim]
    for axis in axes:
        made = _along(c, made, axis, a.forward)
    return _scaled(c, made, _sizes(made.real, axes), a.normalization)


@_enter("_fft_r2c.default")
def _fft_r2c(c: Context, a: Args) -> Pair:
    real = c.emit(a.self)
    rank = rank_of(real)
    axes = [axis_of(d, rank) for d in a.dim]
    sizes, last = _sizes(real, axes), axes[-1]
    made = _along(c, Pair(real, c.emit(_zeros(real))), last, True)
    if a.onesided:
        half = to_dim(sizes[-1] // 2 + 1)
        made = _kept(c, Pair(cut(made.real, last, to_dim(0), half), cut(made.imag, last, to_dim(0), half)))
    for axis in axes[:-1]:
        made = _along(c, made, axis, True)
    return _scaled(c, made, sizes, a.normalization)


@_enter("_fft_c2r.default")
def _fft_c2r(c: Context, a: Args) -> Expr:
    """Half a spectrum back to real values: each inner place stands for itself and its mirror image."""
    made, rank = a.self, rank_of(a.self.real)
    axes = [axis_of(d, rank) for d in a.dim]
    for axis in axes[:-1]:
        made = _along(c, made, axis, False)
    n, last = static(to_dim(a.last_dim_size), "the length of a transform"), axes[-1]
    refuse(n > 4096, "a long inverse transform")
    count = n // 2 + 1
    half = _kept(
        c, Pair(cut(made.real, last, to_dim(0), to_dim(count)), cut(made.imag, last, to_dim(0), to_dim(count)))
    )
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


@_enter("stft.center", "stft.default")
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
    made = _transform(c, Pair(real, c.emit(_zeros(real))), n, True)
    axis = rank_of(real) - 1
    count = to_dim(n // 2 + 1 if a.onesided is not False else n)
    order = [*range(axis - 1), axis, axis - 1]
    parts = [permute(cut(part, axis, to_dim(0), count), order) for part in (made.real, made.imag)]
    found = _scaled(c, _kept(c, Pair(*parts)), [n], 1 if a.normalized else 0)
    return found if a.return_complex else op.stack([found.real, found.imag], axis=rank_of(found.real))
