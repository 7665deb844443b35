"""Arithmetic and elementary functions of complex numbers as pairs of real tensors. Not here: the pairs (``complex``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import op
from ....ir.types import Expr
from ..context.context import ATEN, Args, Context, dtype_of, number, rank_of, refuse, shape_of
from .complex import Made, Pair, enter, kept, pair_of, times, zeros


def size_of(x: Pair) -> Expr:
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
    return kept(c, Pair(x.real * factor, x.imag * factor))


def over(c: Context, x: Pair, y: Pair) -> Pair:
    """The quotient of two numbers; the divisor is brought to size one first."""
    high = c.emit(op.maximum(op.abs(y.real), op.abs(y.imag)))
    y = kept(c, Pair(y.real / high, y.imag / high))
    size = c.emit((y.real * y.real + y.imag * y.imag) * high)
    made = kept(c, times(x, Pair(y.real, -y.imag)))
    return kept(c, Pair(made.real / size, made.imag / size))


def turned(c: Context, size: Expr, angle: Expr) -> Pair:
    """The number of a size and an angle."""
    return kept(c, Pair(size * op.cos(angle), size * op.sin(angle)))


def _with_one(c: Context, x: Pair, sign: int = 1) -> Pair:
    return Pair(c.emit(x.real + number(sign, dtype_of(x.real))), x.imag)


def _shaped(c: Context, x: Pair) -> Pair:
    """Both parts in the shape of the result: a real number has an imaginary part of no axes."""
    parts = [t if rank_of(t) == len(c.shape) else c.broadcast(t) for t in (x.real, x.imag)]
    return kept(c, Pair(*parts))


# ---- sums, products, quotients


@enter("mul.Tensor", "mul.Scalar")
def _mul(c: Context, a: Args) -> Pair:
    if not isinstance(a.self, Pair) or not isinstance(a.other, (Pair, complex)):
        both, factor = (a.self, a.other) if isinstance(a.self, Pair) else (a.other, a.self)
        if isinstance(both, Pair):
            return _scaled(c, both, c.emit(c.cast(factor, c.dtype)))
    return _shaped(c, times(pair_of(c, a.self), pair_of(c, a.other)))


@enter("div.Tensor", "div.Scalar")
def _div(c: Context, a: Args) -> Pair:
    if not isinstance(a.other, (Pair, complex)):
        scale = c.emit(c.cast(a.other, c.dtype))
        return kept(c, Pair(a.self.real / scale, a.self.imag / scale))
    return _shaped(c, over(c, pair_of(c, a.self), pair_of(c, a.other)))


def _sum(fn: Callable[..., Expr], first: str = "self", second: str = "other") -> Made:
    def translate(c: Context, a: Args) -> Pair:
        x, y = pair_of(c, getattr(a, first)), pair_of(c, getattr(a, second))
        if a.alpha != 1:
            x, y = [times(v, pair_of(c, a.alpha)) if k == "other" else v for v, k in ((x, first), (y, second))]
        return _shaped(c, Pair(fn(x.real, y.real), fn(x.imag, y.imag)))

    return translate


enter("add.Tensor", "add.Scalar")(_sum(op.add))
enter("sub.Tensor", "sub.Scalar")(_sum(op.subtract))


@enter("rsub.Scalar", "rsub.Tensor")
def _rsub(c: Context, a: Args) -> Pair:
    x, y = times(pair_of(c, a.self), pair_of(c, a.alpha)), pair_of(c, a.other)
    return _shaped(c, Pair(y.real - x.real, y.imag - x.imag))


def _and_product(name: str, combine: Callable[[Context, Pair, Pair], Pair]) -> None:
    @enter(f"{name}.default")
    def _(c: Context, a: Args) -> Pair:
        x = pair_of(c, a.self)
        made = combine(c, times(pair_of(c, a.tensor1), pair_of(c, a.value)), pair_of(c, a.tensor2))
        return _shaped(c, Pair(x.real + made.real, x.imag + made.imag))


_and_product("addcmul", lambda c, x, y: times(x, y))
_and_product("addcdiv", over)


@enter("reciprocal.default")
def _reciprocal(c: Context, a: Args) -> Pair:
    return _shaped(c, over(c, pair_of(c, 1), a.self))


@enter("square.default")
def _square(c: Context, a: Args) -> Pair:
    return kept(c, times(a.self, a.self))


def _power(c: Context, x: Pair, exponent: int) -> Pair:
    """By repeated squares."""
    made, base, rest = None, x, exponent
    while rest:
        if rest & 1:
            made = base if made is None else kept(c, times(made, base))
        base, rest = (kept(c, times(base, base)) if rest > 1 else base), rest >> 1
    if made is None:
        one = c.emit(op.ones(shape_of(x.real), dtype_of(x.real)))
        return Pair(one, c.emit(zeros(one)))
    return made


@enter("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(c: Context, a: Args) -> Pair:
    """exp(y log x); 0 to the power of 0 is 1, to powers with a positive real part 0."""
    if isinstance(a.exponent, (int, float)) and a.exponent == int(a.exponent) and abs(a.exponent) <= 64:
        made = _power(c, pair_of(c, a.self), abs(int(a.exponent)))
        return made if a.exponent >= 0 else _shaped(c, over(c, pair_of(c, 1), made))
    x, y = pair_of(c, a.self), pair_of(c, a.exponent)
    size, zero = c.emit(size_of(x)), number(0, c.dtype)
    logarithm = kept(c, Pair(op.log(size), angle_of(x)))
    power = kept(c, times(y, logarithm))
    made = _shaped(c, turned(c, op.exp(power.real), power.imag))
    unit = c.emit(op.logical_and(op.equal(y.real, zero), op.equal(y.imag, zero)))
    none = c.emit(op.logical_and(op.equal(size, zero), op.logical_or(unit, op.greater(y.real, zero))))
    start = op.where(unit, 1, zero)
    return _shaped(c, Pair(op.where(none, start, made.real), op.where(none, zero, made.imag)))


@enter("prod.default", "prod.dim_int", "cumprod.default")
def _prod(c: Context, a: Args) -> Pair:
    """The product of the sizes at the sum of the angles."""
    refuse(getattr(a, "dtype", None) is not None, "a product in another dtype")
    given = {k: v for k, v in vars(a).items() if k != "self"}
    name = c.node_target
    size = ATEN[name](c, Args(self=c.emit(size_of(a.self)), **given))
    adds = name.replace("cumprod", "cumsum").replace("prod.dim_int", "sum.dim_IntList").replace("prod", "sum")
    if adds.endswith("IntList"):
        given["dim"] = [given["dim"]]
    return turned(c, c.emit(size), c.emit(ATEN[adds](c, Args(self=c.emit(angle_of(a.self)), **given))))


# ---- elementary functions


enter("abs.default")(lambda c, a: size_of(a.self))
enter("angle.default")(lambda c, a: angle_of(a.self))


def _exp(c: Context, x: Pair) -> Pair:
    return turned(c, c.emit(op.exp(x.real)), x.imag)


def _log(c: Context, x: Pair) -> Pair:
    return kept(c, Pair(op.log(size_of(x)), angle_of(x)))


def _expm1(c: Context, x: Pair) -> Pair:
    sine = c.emit(op.sin(x.imag * 0.5))
    rest = 2 * (sine * sine)
    real = op.expm1(x.real) * op.cos(x.imag) - rest
    return kept(c, Pair(real, op.exp(x.real) * op.sin(x.imag)))


def _sqrt(c: Context, x: Pair) -> Pair:
    """The root with a real part from 0."""
    larger = c.emit(op.sqrt(0.5 * (size_of(x) + op.abs(x.real))))
    below = op.where(op.equal(larger, 0), 1, larger)
    high = c.emit(op.abs(x.imag))
    other = c.emit(op.where(op.isinf(high), high, 0.5 * high / below))
    right = c.emit(op.greater_equal(x.real, 0))
    imag = op.where(right, other, larger)
    return kept(c, Pair(op.where(right, larger, other), op.where(op.less(x.imag, 0), -imag, imag)))


def _sinh(c: Context, x: Pair) -> Pair:
    return kept(c, Pair(op.sinh(x.real) * op.cos(x.imag), op.cosh(x.real) * op.sin(x.imag)))


def _cosh(c: Context, x: Pair) -> Pair:
    return kept(c, Pair(op.cosh(x.real) * op.cos(x.imag), op.sinh(x.real) * op.sin(x.imag)))


def _tanh(c: Context, x: Pair) -> Pair:
    """By tanh and tan of the parts, which do not overflow."""
    flat, steep = c.emit(op.tanh(x.real)), c.emit(op.tan(x.imag))
    flat2, steep2 = c.emit(flat * flat), c.emit(steep * steep)
    below = c.emit(1 + flat2 * steep2)
    real = flat * (1 + steep2) / below
    return kept(c, Pair(real, steep * (1 - flat2) / below))


def _aside(function: Callable[[Context, Pair], Pair]) -> Callable[[Context, Pair], Pair]:
    """f(z) = -i g(i z): sine of the hyperbolic sine, tangent of the hyperbolic tangent."""

    def translate(c: Context, x: Pair) -> Pair:
        made = function(c, Pair(c.emit(-x.imag), x.real))
        return Pair(made.imag, c.emit(-made.real))

    return translate


def _sigmoid(c: Context, x: Pair) -> Pair:
    below = _with_one(c, _exp(c, Pair(c.emit(-x.real), c.emit(-x.imag))))
    return _shaped(c, over(c, pair_of(c, 1), below))


def _sgn(c: Context, x: Pair) -> Pair:
    size = c.emit(size_of(x))
    none = op.equal(size, 0)
    below = c.emit(op.where(none, 1, size))
    return kept(c, Pair(x.real / below, x.imag / below))


_ELEMENTARY: dict[str, Callable[[Context, Pair], Pair]] = {
    "exp": _exp, "log": _log, "expm1": _expm1, "sqrt": _sqrt, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "sin": _aside(_sinh), "tan": _aside(_tanh), "cos": lambda c, x: _cosh(c, Pair(c.emit(-x.imag), x.real)),
    "sigmoid": _sigmoid, "silu": lambda c, x: kept(c, times(x, _sigmoid(c, x))), "sgn": _sgn,
    "rsqrt": lambda c, x: _shaped(c, over(c, pair_of(c, 1), _sqrt(c, x))),
    "log1p": lambda c, x: _log(c, _with_one(c, x)),
}  # fmt: skip


def _enter_elementary(name: str, function: Callable[[Context, Pair], Pair]) -> None:
    enter(f"{name}.default")(lambda c, a: function(c, a.self))


for _name, _function in _ELEMENTARY.items():
    _enter_elementary(_name, _function)


# ---- comparisons, and what is of sizes alone


def _of_parts(join: Callable[..., Expr], test: Callable[..., Expr], *others: str) -> Made:
    """A test of both parts, joined."""

    def translate(c: Context, a: Args) -> Expr:
        values = [getattr(a, name) for name in ("self", *others)]
        kind = next(dtype_of(v.real) for v in values if isinstance(v, Pair))
        pairs = [pair_of(c, v, kind) for v in values]
        return join(test(*[p.real for p in pairs]), test(*[p.imag for p in pairs]))

    return translate


enter("eq.Tensor", "eq.Scalar")(_of_parts(op.logical_and, op.equal, "other"))
enter("ne.Tensor", "ne.Scalar")(_of_parts(op.logical_or, op.not_equal, "other"))
enter("isnan.default")(_of_parts(op.logical_or, op.isnan))
enter("isinf.default")(_of_parts(op.logical_or, op.isinf))
enter("isfinite.default")(_of_parts(op.logical_and, op.isfinite))


def _of_sizes(name: str) -> None:
    @enter(name)
    def _(c: Context, a: Args) -> Any:
        matrices = name.startswith("linalg_norm") and a.ord is not None and len(a.dim or (0, 0)) == 2
        refuse(matrices and rank_of(a.self.real) > 1, "a norm of complex matrices")
        x = c.emit(size_of(a.self))
        return ATEN[f"aten.{name}"](c, Args(**{**vars(a), "self": x}))


for _name in ("linalg_vector_norm.default", "linalg_norm.default", "norm.Scalar", "norm.ScalarOpt_dim"):
    _of_sizes(_name)


def _spread(root: bool, *names: str) -> None:
    """Variances are those of the parts, added."""

    @enter(*names)
    def _(c: Context, a: Args) -> Expr:
        name = c.node_target.replace("std", "var")
        parts = [c.emit(ATEN[name](c, Args(**{**vars(a), "self": t}))) for t in (a.self.real, a.self.imag)]
        made = op.add(*parts)
        return op.sqrt(made) if root else made


_spread(False, "var.dim", "var.correction", "var.default")
_spread(True, "std.dim", "std.correction", "std.default")
