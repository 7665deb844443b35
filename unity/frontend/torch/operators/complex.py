"""Complex numbers as pairs of real tensors: what makes them, what moves their elements, and what makes real tensors of them.

A complex result is kept as the call that makes it (``Deferred``) until an operator needs it; then it becomes a ``Pair``. Chains of
complex operators that end in a real tensor so run without torch: rotations, and arithmetic by element. What is not in the tables
here (Fourier transforms, products of matrices, elementary functions) runs in torch, with the operators around it in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .... import op
from ....ir.types import Expr
from ....support.errors import TypeRuleError
from ..context.context import ATEN, Args, Context, bind, dtype_of, mapped, number, rank_of, refuse, shape_of
from ..context.fallback import Deferred
from ..context.report import Gap, MemoryGap
from .memory import memory_node, seen_memory
from .shape import permute, slice_axis


@dataclass(slots=True, frozen=True)
class Pair:
    """Real and imaginary part."""

    real: Expr
    imag: Expr


Made = Callable[[Context, Args], Any]
COMPLEX: dict[str, Made] = {}
"""Operators with complex operands or results: translation to a Pair, or to an expression where the result is real."""


def register(*names: str) -> Callable[[Made], Made]:
    """Enter a translation under names of torch operators."""

    def keep(fn: Made) -> Made:
        for name in names:
            COMPLEX[f"aten.{name}"] = fn
        return fn

    return keep


def evaluate(c: Context, target: Any, args: Any) -> Any:
    """The result of an operator some of whose operands are complex. ``args`` are positional and named. Raises Gap."""
    outer = c.value
    if isinstance(c.value, (list, tuple)):
        c.value = [v.real if isinstance(v, c.torch.Tensor) and v.is_complex() else v for v in c.value]
    try:
        return _evaluated(c, str(target), bind(target, *mapped(lambda value: resolved(c, value), args)))
    except TypeRuleError as error:
        raise Gap(error.message) from error
    finally:
        c.value = outer


def _evaluated(c: Context, name: str, given: Args) -> Any:
    found = COMPLEX.get(name)
    if found is not None:
        return found(c, given)
    if name in _VALUES:
        for key in _VALUES[name]:
            setattr(given, key, mapped(lambda value: _whole_pair(c, value), getattr(given, key)))
    refuse(name not in _STRUCTURAL and name not in _VALUES, f"{name} of complex numbers")
    if name not in _VALUES and hasattr(given, "self") and not isinstance(given.self, Pair):
        return c.translated(ATEN[name], given)  # complex is what gives the shape alone
    real, imag = [c.translated(ATEN[name], Args(**mapped(part, vars(given)))) for part in (_real, _imaginary)]
    if isinstance(real, list):
        return [Pair(r, i) for r, i in zip(real, imag)]
    return Pair(c.emit(real), c.emit(imag))


def resolved(c: Context, value: Any) -> Any:
    """An argument, computed where it is a deferred result."""
    if not isinstance(value, Deferred):
        return value
    known = c.pairs.get(value)
    if known is None:
        outer = (c.value, c.node_target, c.node)
        refuse(value.value is None, "complex weights")
        refuse(not value.value.is_complex(), f"{value.target} gives a tensor that is not dense")
        c.value, c.node_target, c.node = value.value.real, str(value.target), value.node
        try:
            known = c.pairs[value] = evaluate(c, value.target, (value.args, value.kwargs))
        finally:
            c.value, c.node_target, c.node = outer
    return known


def _real(value: Any) -> Any:
    return value.real if isinstance(value, Pair) else value


def _imaginary(value: Any) -> Any:
    return value.imag if isinstance(value, Pair) else value


_STRUCTURAL = {
    f"aten.{n}"
    for n in (
        "view.default", "reshape.default", "flatten.using_ints", "unsqueeze.default", "squeeze.dim", "squeeze.dims",
        "unflatten.int", "expand.default", "permute.default", "transpose.int", "slice.Tensor", "select.int",
        "clone.default", "contiguous.default", "alias.default", "detach.default", "roll.default",
        "flip.default", "neg.default", "sum.dim_IntList", "mean.dim", "_unsafe_view.default", "lift_fresh_copy.default",
        "narrow.default", "repeat.default", "index_select.default", "index.Tensor", "swapaxes.default",
        "expand_as.default", "view_as.default", "reshape_as.default", "unbind.int", "split.Tensor",
        "split_with_sizes.default", "gather.default", "cumsum.default", "sum.default", "mean.default", "zeros.default",
        "zeros_like.default", "new_zeros.default", "zero.default", "empty.memory_format", "empty_like.default", "new_empty.default",
        "diagonal.default", "tril.default", "triu.default", "t.default", "mT.default", "numpy_T.default", "squeeze.default",
        "chunk.default", "tensor_split.sections", "unfold.default", "tile.default",
        "repeat_interleave.self_int", "ravel.default",
        "atleast_1d.default", "atleast_2d.default", "atleast_3d.default", "positive.default",

        "embedding.default",
        "unbind_copy.int", "select_copy.int",
        "masked_select.default",
    )
}  # fmt: skip
"""Operators that treat both parts alike."""
_VALUES = {
    "aten.cat.default": ("tensors",), "aten.stack.default": ("tensors",), "aten.copy.default": ("self", "src"),
    "aten.slice_scatter.default": ("self", "src"), "aten.select_scatter.default": ("self", "src"),
    "aten.where.self": ("self", "other"), "aten.masked_fill.Scalar": ("self", "value"),
    "aten.index_put.default": ("self", "values"), "aten.index_add.default": ("self", "source"),
    "aten.where.ScalarOther": ("self", "other"), "aten.where.ScalarSelf": ("self", "other"), "aten.scatter.src": ("self", "src"),
    "aten.scatter_add.default": ("self", "src"), "aten.index_copy.default": ("self", "source"),
    "aten.fill.Tensor": ("self", "value"),
    "aten.diagonal_scatter.default": ("self", "src"), "aten.as_strided_scatter.default": ("self", "src"),
    "aten.masked_scatter.default": ("self", "source"), "aten.fill.Scalar": ("self", "value"),
    "aten.masked_fill.Tensor": ("self", "value"),
}  # fmt: skip
"""Operators that treat both parts of these operands alike, some of which may be real; others say where."""


def pair_of(c: Context, value: Any) -> Pair:
    """A complex value in the type of the result, of a pair, a real tensor or a number; the imaginary part of a real one has no
    axes."""
    kind = c.dtype
    if isinstance(value, Pair):
        return value if dtype_of(value.real) == kind else Pair(c.cast(value.real, kind), c.cast(value.imag, kind))
    if isinstance(value, complex):
        return Pair(number(value.real, kind), number(value.imag, kind))
    real = c.emit(c.cast(value, kind))
    return Pair(real, number(0, kind))


def _whole_pair(c: Context, value: Any) -> Any:
    """The pair of an operand that may be real, both parts of one shape."""
    result = pair_of(c, value)
    return (
        result
        if isinstance(value, Pair) or rank_of(result.real) == 0
        else Pair(result.real, c.emit(zeros(result.real)))
    )


def zeros(x: Expr) -> Expr:
    """Zeros like a tensor."""
    return op.zeros(shape_of(x), dtype_of(x))


def multiply(a: Pair, b: Pair) -> Pair:
    """The product of two numbers."""
    real = a.real * b.real - a.imag * b.imag
    return Pair(real, a.real * b.imag + a.imag * b.real)


def bind_parts(c: Context, result: Pair) -> Pair:
    """Both parts bound to variables."""
    return Pair(c.emit(result.real), c.emit(result.imag))


# ---- making and taking apart


@register("view_as_complex.default")
def _view_as_complex(c: Context, a: Args) -> Pair:
    shape, rank = shape_of(a.self)[:-1], rank_of(a.self)
    x = c.emit(a.self)
    real, imag = [c.reshape(slice_axis(x, rank - 1, n, 1), shape) for n in (0, 1)]
    return bind_parts(c, Pair(real, imag))


@register("complex.default")
def _complex(c: Context, a: Args) -> Pair:
    return Pair(c.broadcast(a.real), c.broadcast(a.imag))


@register("polar.default")
def _polar(c: Context, a: Args) -> Pair:
    angle = c.emit(a.angle)
    return bind_parts(c, Pair(a.abs * op.cos(angle), a.abs * op.sin(angle)))


@register("ones.default", "ones_like.default", "new_ones.default")
@register("full.default", "full_like.default", "new_full.default", "scalar_tensor.default")
def _full(c: Context, a: Args) -> Pair:
    value = complex(getattr(a, "fill_value", getattr(a, "s", 1)))
    return Pair(*[op.full(c.shape, number(v, c.dtype), c.dtype) for v in (value.real, value.imag)])


@register("_to_copy.default", "to.dtype", "to.dtype_layout")
def _to_complex(c: Context, a: Args) -> Any:
    """A number is true where one of its parts is not 0; of other real types it keeps its real part."""
    result = pair_of(c, a.self)
    if c.dtype == "bool":
        return op.logical_or(c.cast(result.real, "bool"), c.cast(result.imag, "bool"))
    real = c.cast(result.real, c.dtype)
    return Pair(real, c.cast(result.imag, c.dtype) if isinstance(a.self, Pair) else zeros(real))


@register("view_as_real.default")
def _view_as_real(c: Context, a: Args) -> Expr:
    return op.stack([a.self.real, a.self.imag], axis=rank_of(a.self.real))


register("real.default")(lambda c, a: a.self.real)
register("imag.default")(lambda c, a: a.self.imag)


@register("_conj.default", "conj.default", "conj_physical.default", "_conj_physical.default")
def _conj(c: Context, a: Args) -> Pair:
    return Pair(a.self.real, c.emit(-a.self.imag))


@register("matrix_H.default", "mH.default", "adjoint.default")
def _conj_transposed(c: Context, a: Args) -> Pair:
    order = list(range(rank_of(a.self.real)))
    order[-2:] = order[:-3:-1]
    return Pair(c.emit(permute(a.self.real, order)), c.emit(-permute(a.self.imag, order)))


register("resolve_conj.default", "resolve_neg.default")(lambda c, a: a.self)


@register("as_strided.default")
def _as_strided(c: Context, a: Args) -> Pair:
    node, begin = memory_node(c, a)
    whole = resolved(c, c.values.get(node))
    if not isinstance(whole, Pair):
        raise MemoryGap("it reads memory of real numbers as complex ones")
    return bind_parts(c, Pair(*[seen_memory(c, a, x, node, begin) for x in (whole.real, whole.imag)]))


@register("dropout.default", "feature_alpha_dropout.default")
def _dropout(c: Context, a: Args) -> Pair:
    refuse(a.train and a.p > 0, "random numbers")
    unchanged: Pair = a.input
    return unchanged


# ---- sizes, sums, products, quotients


def absolute(x: Pair) -> Expr:
    """Absolute values; the larger part is taken out, so that squares neither overflow nor vanish."""
    real, imag = op.abs(x.real), op.abs(x.imag)
    high, low = op.maximum(real, imag), op.minimum(real, imag)
    ratio = low / op.where(op.equal(high, 0), 1, high)
    finite = high * op.sqrt(1 + ratio * ratio)
    return op.where(op.isinf(high), high, finite)


def _scaled(c: Context, x: Pair, factor: Expr) -> Pair:
    return bind_parts(c, Pair(x.real * factor, x.imag * factor))


def divide(c: Context, x: Pair, y: Pair) -> Pair:
    """The quotient of two numbers; the divisor is brought to size one first."""
    high = c.emit(op.maximum(op.abs(y.real), op.abs(y.imag)))
    y = bind_parts(c, Pair(y.real / high, y.imag / high))
    size = c.emit((y.real * y.real + y.imag * y.imag) * high)
    result = bind_parts(c, multiply(x, Pair(y.real, -y.imag)))
    return bind_parts(c, Pair(result.real / size, result.imag / size))


def _shaped(c: Context, x: Pair) -> Pair:
    """Both parts in the shape of the result: a real number has an imaginary part of no axes."""
    parts = [t if rank_of(t) == len(c.shape) else c.broadcast(t) for t in (x.real, x.imag)]
    return bind_parts(c, Pair(*parts))


@register("mul.Tensor", "mul.Scalar")
def _mul(c: Context, a: Args) -> Pair:
    if not isinstance(a.self, Pair) or not isinstance(a.other, (Pair, complex)):
        both, factor = (a.self, a.other) if isinstance(a.self, Pair) else (a.other, a.self)
        if isinstance(both, Pair):
            return _scaled(c, pair_of(c, both), c.emit(c.cast(factor, c.dtype)))
    return _shaped(c, multiply(pair_of(c, a.self), pair_of(c, a.other)))


@register("div.Tensor", "div.Scalar")
def _div(c: Context, a: Args) -> Pair:
    if not isinstance(a.other, (Pair, complex)):
        scale = c.emit(c.cast(a.other, c.dtype))
        x = pair_of(c, a.self)
        return bind_parts(c, Pair(x.real / scale, x.imag / scale))
    return _shaped(c, divide(c, pair_of(c, a.self), pair_of(c, a.other)))


def _sum(fn: Callable[..., Expr]) -> Made:
    def translate(c: Context, a: Args) -> Pair:
        x, y = pair_of(c, a.self), pair_of(c, a.other)
        y = y if a.alpha == 1 else multiply(y, pair_of(c, a.alpha))
        return _shaped(c, Pair(fn(x.real, y.real), fn(x.imag, y.imag)))

    return translate


register("add.Tensor", "add.Scalar")(_sum(op.add))
register("sub.Tensor", "sub.Scalar")(_sum(op.subtract))
register("abs.default")(lambda c, a: absolute(a.self))
register("angle.default")(lambda c, a: op.atan2(a.self.imag, a.self.real))
