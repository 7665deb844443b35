"""Products of complex matrices, convolutions and linear layers: products of the real parts. Not here: what works on single elements
(``complex_math``).
"""

from __future__ import annotations

from collections.abc import Callable

from .... import op
from ....ir.types import Expr
from ..context.context import ATEN, Args, Context, rank_of, refuse, shape_of
from .complex import Made, Pair, enter, kept, pair_of, times, zeros
from .shape import swap


def _four(product: Callable[[Expr, Expr], Expr], x: Pair, y: Pair) -> Pair:
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
        made = _four(real, x, y)
        if bias is None:
            return kept(c, made)
        if name != "linear.default":
            spatial = rank_of(y.real) - 2
            bias = Pair(*[c.reshape(t, [shape_of(t)[0], *[1] * spatial]) for t in (bias.real, bias.imag)])
        return kept(c, Pair(made.real + bias.real, made.imag + bias.imag))

    return translate


for _name, _first, _second in (
    ("bmm.default", "self", "mat2"), ("mm.default", "self", "mat2"), ("matmul.default", "self", "other"),
    ("mv.default", "self", "vec"), ("dot.default", "self", "tensor"), ("outer.default", "self", "vec2"),
    ("linear.default", "input", "weight"), ("kron.default", "self", "other"),
    ("conv1d.default", "input", "weight"), ("conv2d.default", "input", "weight"), ("conv3d.default", "input", "weight"),
    ("conv1d.padding", "input", "weight"), ("conv2d.padding", "input", "weight"), ("conv3d.padding", "input", "weight"),
    ("convolution.default", "input", "weight"), ("conv_transpose1d.default", "input", "weight"),
    ("conv_transpose2d.input", "input", "weight"), ("conv_transpose3d.input", "input", "weight"),
):  # fmt: skip
    enter(_name)(_bilinear(_name, _first, _second))


def _conjugated(name: str, first: str, second: str) -> None:
    """A product with the conjugate of the first operand."""

    @enter(name)
    def _(c: Context, a: Args) -> Pair:
        x, y = pair_of(c, getattr(a, first)), pair_of(c, getattr(a, second))
        made = times(Pair(x.real, c.emit(-x.imag)), y)
        axis = (getattr(a, "dim", -1),)
        return kept(c, Pair(op.sum(made.real, axis=axis), op.sum(made.imag, axis=axis)))


_conjugated("linalg_vecdot.default", "x", "y")
_conjugated("vdot.default", "self", "other")


@enter("mH.default", "adjoint.default", "matrix_H.default")
def _adjoint(c: Context, a: Args) -> Pair:
    real, imag = [swap(t, -1, -2) for t in (a.self.real, a.self.imag)]
    return kept(c, Pair(real, -imag))


def _added(name: str, first: str, second: str) -> None:
    """beta self + alpha x y."""

    @enter(name)
    def _(c: Context, a: Args) -> Pair:
        x, y = getattr(a, first), getattr(a, second)
        product = _four(op.matmul, x, y)
        made = times(kept(c, product), pair_of(c, a.alpha))
        start = times(a.self, pair_of(c, a.beta))
        return kept(c, Pair(start.real + made.real, start.imag + made.imag))


_added("addmm.default", "mat1", "mat2")
_added("baddbmm.default", "batch1", "batch2")


@enter("eye.default", "eye.m")
def _eye(c: Context, a: Args) -> Pair:
    real = c.emit(ATEN[c.node_target](c, Args(**{**vars(a), "dtype": None})))
    return Pair(real, c.emit(zeros(real)))
