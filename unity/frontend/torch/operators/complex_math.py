"""Arithmetic, functions and products of matrices of complex numbers as pairs of real tensors. Not here: the pairs (``complex``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .... import op
from ....ir.types import Expr
from ..context.context import ATEN, Args, Context, dtype_of, rank_of, refuse, shape_of
from .complex import Made, Pair, bind_parts, multiply, pair_of, register, zeros
from .shape import swap


def absolute(x: Pair) -> Expr:
    """Absolute values; the larger part is taken out, so that squares neither overflow nor vanish."""
    real, imag = op.abs(x.real), op.abs(x.imag)
    high, low = op.maximum(real, imag), op.minimum(real, imag)
    ratio = low / op.where(op.equal(high, 0), 1, high)
    finite = high * op.sqrt(1 + ratio * ratio)
    return op.where(op.isinf(high), high, finite)


def angle_of(x: Pair) -> Expr:
    """Angles, from -pi to pi."""
    return op.atan2(x.imag, x.real)


def _scaled(c: Context, x: Pair, factor: Expr) -> Pair:
    return bind_parts(c, Pair(x.real * factor, x.imag * factor))


def divide(c: Context, x: Pair, y: Pair) -> Pair:
    """The quotient of two numbers; the divisor is brought to size one first."""
    high = c.emit(op.maximum(op.abs(y.real), op.abs(y.imag)))
    y = bind_parts(c, Pair(y.real / high, y.imag / high))
    size = c.emit((y.real * y.real + y.imag * y.imag) * high)
    result = bind_parts(c, multiply(x, Pair(y.real, -y.imag)))
    return bind_parts(c, Pair(result.real / size, result.imag / size))


def polar(c: Context, size: Expr, angle: Expr) -> Pair:
    """The number of a size and an angle."""
    return bind_parts(c, Pair(size * op.cos(angle), size * op.sin(angle)))


def _shaped(c: Context, x: Pair) -> Pair:
    """Both parts in the shape of the result: a real number has an imaginary part of no axes."""
    parts = [t if rank_of(t) == len(c.shape) else c.broadcast(t) for t in (x.real, x.imag)]
    return bind_parts(c, Pair(*parts))


# ---- sums, products, quotients


@register("mul.Tensor", "mul.Scalar")
def _mul(c: Context, a: Args) -> Pair:
    if not isinstance(a.self, Pair) or not isinstance(a.other, (Pair, complex)):
        both, factor = (a.self, a.other) if isinstance(a.self, Pair) else (a.other, a.self)
        if isinstance(both, Pair):
            return _scaled(c, both, c.emit(c.cast(factor, c.dtype)))
    return _shaped(c, multiply(pair_of(c, a.self), pair_of(c, a.other)))


@register("div.Tensor", "div.Scalar")
def _div(c: Context, a: Args) -> Pair:
    if not isinstance(a.other, (Pair, complex)):
        scale = c.emit(c.cast(a.other, c.dtype))
        return bind_parts(c, Pair(a.self.real / scale, a.self.imag / scale))
    return _shaped(c, divide(c, pair_of(c, a.self), pair_of(c, a.other)))


def _sum(fn: Callable[..., Expr], first: str = "self", second: str = "other") -> Made:
    def translate(c: Context, a: Args) -> Pair:
        x, y = pair_of(c, getattr(a, first)), pair_of(c, getattr(a, second))
        if a.alpha != 1:
            x, y = [multiply(v, pair_of(c, a.alpha)) if k == "other" else v for v, k in ((x, first), (y, second))]
        return _shaped(c, Pair(fn(x.real, y.real), fn(x.imag, y.imag)))

    return translate


register("add.Tensor", "add.Scalar")(_sum(op.add))
register("sub.Tensor", "sub.Scalar")(_sum(op.subtract))


@register("rsub.Scalar", "rsub.Tensor")
def _rsub(c: Context, a: Args) -> Pair:
    x, y = multiply(pair_of(c, a.self), pair_of(c, a.alpha)), pair_of(c, a.other)
    return _shaped(c, Pair(y.real - x.real, y.imag - x.imag))


@register("reciprocal.default")
def _reciprocal(c: Context, a: Args) -> Pair:
    return _shaped(c, divide(c, pair_of(c, 1), a.self))


@register("square.default")
def _square(c: Context, a: Args) -> Pair:
    return bind_parts(c, multiply(a.self, a.self))


def _power(c: Context, x: Pair, exponent: int) -> Pair:
    """By repeated squares."""
    result, base, rest = None, x, exponent
    while rest:
        if rest & 1:
            result = base if result is None else bind_parts(c, multiply(result, base))
        base, rest = (bind_parts(c, multiply(base, base)) if rest > 1 else base), rest >> 1
    if result is None:
        one = c.emit(op.ones(shape_of(x.real), dtype_of(x.real)))
        return Pair(one, c.emit(zeros(one)))
    return result


@register("pow.Tensor_Scalar")
def _pow(c: Context, a: Args) -> Pair:
    refuse(a.exponent != int(abs(a.exponent)) or a.exponent > 64, "powers of complex numbers but small whole ones")
    return _power(c, a.self, int(a.exponent))


# ---- elementary functions


register("abs.default")(lambda c, a: absolute(a.self))
register("angle.default")(lambda c, a: angle_of(a.self))


def _exp(c: Context, x: Pair) -> Pair:
    return polar(c, c.emit(op.exp(x.real)), x.imag)


def _log(c: Context, x: Pair) -> Pair:
    return bind_parts(c, Pair(op.log(absolute(x)), angle_of(x)))


def _sgn(c: Context, x: Pair) -> Pair:
    size = c.emit(absolute(x))
    none = op.equal(size, 0)
    below = c.emit(op.where(none, 1, size))
    return bind_parts(c, Pair(x.real / below, x.imag / below))


for _name, _function in {"exp": _exp, "log": _log, "sgn": _sgn}.items():
    register(f"{_name}.default")(partial(lambda function, c, a: function(c, a.self), _function))


# ---- comparisons, and what is of sizes alone


def _of_parts(join: Callable[..., Expr], test: Callable[..., Expr], *others: str) -> Made:
    """A test of both parts, joined."""

    def translate(c: Context, a: Args) -> Expr:
        values = [getattr(a, name) for name in ("self", *others)]
        kind = next(dtype_of(v.real) for v in values if isinstance(v, Pair))
        pairs = [pair_of(c, v, kind) for v in values]
        return join(test(*[p.real for p in pairs]), test(*[p.imag for p in pairs]))

    return translate


register("eq.Tensor", "eq.Scalar")(_of_parts(op.logical_and, op.equal, "other"))
register("ne.Tensor", "ne.Scalar")(_of_parts(op.logical_or, op.not_equal, "other"))
register("isnan.default")(_of_parts(op.logical_or, op.isnan))
register("isinf.default")(_of_parts(op.logical_or, op.isinf))
register("isfinite.default")(_of_parts(op.logical_and, op.isfinite))


def _of_sizes(name: str) -> None:
    @register(name)
    def _(c: Context, a: Args) -> Any:
        x = c.emit(absolute(a.self))
        return ATEN[f"aten.{name}"](c, Args(**{**vars(a), "self": x}))


for _name in ("linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim"):
    _of_sizes(_name)


# ---- products of matrices, convolutions and linear layers: products of the real parts


def _four_products(product: Callable[[Expr, Expr], Expr], x: Pair, y: Pair) -> Pair:
    straight = product(x.real, y.real) - product(x.imag, y.imag)
    return Pair(straight, product(x.real, y.imag) + product(x.imag, y.real))


def _bilinear(name: str, first: str, second: str) -> Made:
    """An operator that is linear in two operands, and adds a bias to channels: four real ones."""

    def translate(c: Context, a: Args) -> Pair:
        given = {k: v for k, v in vars(a).items() if k not in (first, second)}
        bias = given.get("bias")
        if bias is not None:
            given["bias"] = None

        def real(x: Expr, y: Expr) -> Expr:
            return c.emit(ATEN[f"aten.{name}"](c, Args(**{first: x, second: y, **given})))

        x, y = getattr(a, first), getattr(a, second)
        refuse(not (isinstance(x, Pair) and isinstance(y, Pair)), "a product of complex and real matrices")
        result = _four_products(real, x, y)
        if bias is None:
            return bind_parts(c, result)
        if name != "linear.default":
            spatial = rank_of(y.real) - 2
            bias = Pair(*[c.reshape(t, [shape_of(t)[0], *[1] * spatial]) for t in (bias.real, bias.imag)])
        return bind_parts(c, Pair(result.real + bias.real, result.imag + bias.imag))

    return translate


for _name, _first, _second in (
    ("bmm.default", "self", "mat2"), ("mm.default", "self", "mat2"), ("matmul.default", "self", "other"),
    ("mv.default", "self", "vec"), ("dot.default", "self", "tensor"),
    ("linear.default", "input", "weight"),
    ("conv1d.default", "input", "weight"), ("conv2d.default", "input", "weight"), ("conv3d.default", "input", "weight"),
    ("conv1d.padding", "input", "weight"), ("conv2d.padding", "input", "weight"), ("conv3d.padding", "input", "weight"),
    ("convolution.default", "input", "weight"), ("conv_transpose1d.default", "input", "weight"),
    ("conv_transpose2d.input", "input", "weight"), ("conv_transpose3d.input", "input", "weight"),
):  # fmt: skip
    register(_name)(_bilinear(_name, _first, _second))


def _conjugated(name: str, first: str, second: str) -> None:
    """A product with the conjugate of the first operand."""

    @register(name)
    def _(c: Context, a: Args) -> Pair:
        x, y = pair_of(c, getattr(a, first)), pair_of(c, getattr(a, second))
        result = multiply(Pair(x.real, c.emit(-x.imag)), y)
        axis = (getattr(a, "dim", -1),)
        return bind_parts(c, Pair(op.sum(result.real, axis=axis), op.sum(result.imag, axis=axis)))


_conjugated("linalg_vecdot.default", "x", "y")
_conjugated("vdot.default", "self", "other")


@register("mH.default", "adjoint.default", "matrix_H.default")
def _adjoint(c: Context, a: Args) -> Pair:
    real, imag = [swap(t, -1, -2) for t in (a.self.real, a.self.imag)]
    return bind_parts(c, Pair(real, -imag))
