"""Gradients of special functions and of running extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.expr import Call, ShapeExpr, TupleGetItem
from ...ir.op import OPS
from ...ir.types import Expr
from .. import grad
from ..common.table import OPERATORS, constant
from ..common.type_rules import int_attr, normal_axis, product
from ..elementwise import bessel, error_functions, float_parts, gamma, special
from ..elementwise.binary import add, divide, equal, multiply, subtract, where
from ..elementwise.unary import exp, negative, sign, square
from ..manipulate import scatter_loops as scan
from ..manipulate.create import astype, zeros_like
from ..manipulate.manipulate import flip, reshape
from ..nn import pool_indices
from ..reduction import scan as running
from ..reduction.reduce import max_
from .parts import operand_shape
from .rules import GRADIENTS, Rule


def _number(value: float, like: Expr) -> Expr:
    return constant(value, like.ty.dtype)  # type: ignore[attr-defined]


def _unary(fn: Callable[[Expr, Expr], Expr]) -> Rule:
    return lambda call, g: [fn(g, call.args[0])]


def _axis(call: Call) -> int:
    return normal_axis(call, int_attr(call, "axis"), len(operand_shape(call, call.args[0])))


def _extreme(call: Call, g: Expr) -> list[Any]:
    """Every gradient goes to the element its value came from."""
    values = g.fields[0] if hasattr(g, "fields") else TupleGetItem(g, 0)
    x = call.args[0]
    places = TupleGetItem(OPERATORS[call.op.name](x, axis=_axis(call)), 1)  # type: ignore[attr-defined]
    return [scan.scatter_elements(zeros_like(x), places, values, axis=_axis(call), reduction="add")]


def _fraction(call: Call, g: Expr) -> list[Any]:
    """A number's fraction is the number over a power of two that stays the same around it."""
    fractions = g.fields[0] if hasattr(g, "fields") else TupleGetItem(g, 0)
    x = call.args[0]
    power = astype(TupleGetItem(float_parts.frexp(x), 1), x.ty.dtype.name)  # type: ignore[attr-defined]
    return [multiply(fractions, special.exp2(negative(power)))]


def _logcumsumexp(call: Call, g: Expr) -> list[Any]:
    """exp(x) times the sum from here on of g exp(-y), shifted by the largest x."""
    x, axis = call.args[0], _axis(call)
    high = max_(x, axis=[axis], keepdims=True)
    away = multiply(g, exp(subtract(high, running.logcumsumexp(x, axis=axis))))
    behind = flip(running.cumsum(flip(away, axis=axis), axis=axis), axis=axis)
    return [multiply(exp(subtract(x, high)), behind)]


def _largest(call: Call, g: Expr) -> list[Any]:
    """Pooling with indices: every gradient goes to the element its window chose, that of a window without any nowhere."""
    values = g.fields[0] if hasattr(g, "fields") else TupleGetItem(g, 0)
    x = call.args[0]
    row = OPERATORS[call.op.name]  # type: ignore[attr-defined]
    places = TupleGetItem(row(x, **call.attrs), 1)
    lead, spans = operand_shape(call, x)[:2], operand_shape(call, x)[2:]
    values = where(equal(places, constant(-1, "int64")), zeros_like(values), values)
    flat = reshape(zeros_like(x), ShapeExpr((*lead, product(spans))))
    out = ShapeExpr((*lead, product(operand_shape(call, values)[2:])))
    made = scan.scatter_elements(flat, reshape(places, out), reshape(values, out), axis=2, reduction="add")
    return [reshape(made, ShapeExpr(operand_shape(call, x)))]


def _over(value: Expr, x: Expr) -> Expr:
    """I1(x) / x, scaled or not: one half at 0."""
    zero = equal(x, zeros_like(x))
    return where(zero, _number(0.5, x), divide(value, where(zero, _number(1.0, x), x)))


def _gauss(x: Expr) -> Expr:
    return exp(negative(square(x)))


SPECIAL_GRADIENTS: dict[str, Rule] = {
    "R.log1p": _unary(lambda g, x: divide(g, add(x, _number(1.0, x)))),
    "R.expm1": _unary(lambda g, x: multiply(g, exp(x))),
    "R.log2": _unary(lambda g, x: divide(g, multiply(x, _number(math.log(2), x)))),
    "R.log10": _unary(lambda g, x: divide(g, multiply(x, _number(math.log(10), x)))),
    "R.exp2": _unary(lambda g, x: multiply(g, multiply(special.exp2(x), _number(math.log(2), x)))),
    "R.erfc": _unary(lambda g, x: multiply(g, multiply(_gauss(x), _number(-2 / math.sqrt(math.pi), x)))),
    "R.erfinv": _unary(
        lambda g, x: multiply(g, multiply(exp(square(error_functions.erfinv(x))), _number(math.sqrt(math.pi) / 2, x)))
    ),
    "R.lgamma": _unary(lambda g, x: multiply(g, special.digamma(x))),
    "R.digamma": _unary(lambda g, x: multiply(g, gamma.polygamma(x, n=1))),
    "R.polygamma": lambda call, g: [multiply(g, gamma.polygamma(call.args[0], n=int_attr(call, "n") + 1))],
    "R.i0": _unary(lambda g, x: multiply(g, bessel.i1(x))),
    "R.i0e": _unary(lambda g, x: multiply(g, subtract(bessel.i1e(x), multiply(sign(x), bessel.i0e(x))))),
    "R.i1": _unary(lambda g, x: multiply(g, subtract(bessel.i0(x), _over(bessel.i1(x), x)))),
    "R.i1e": _unary(
        lambda g, x: multiply(
            g, subtract(subtract(bessel.i0e(x), _over(bessel.i1e(x), x)), multiply(sign(x), bessel.i1e(x)))
        )
    ),
    "R.erfcx": _unary(
        lambda g, x: multiply(
            g, subtract(multiply(_number(2.0, x), multiply(x, bessel.erfcx(x))), _number(2 / math.sqrt(math.pi), x))
        )
    ),
    "R.frexp": _fraction,
    "R.cummax": _extreme,
    "R.cummin": _extreme,
    "R.logcumsumexp": _logcumsumexp,
    "R.grad.no_grad": lambda call, g: [None],
    "R.grad.start_checkpoint": lambda call, g: [g],
    "R.grad.end_checkpoint": lambda call, g: [g],
    **{f"R.nn.max_pool{n}d_with_indices": _largest for n in (1, 2, 3)},
    **{f"R.nn.adaptive_max_pool{n}d": _largest for n in (1, 2, 3)},
}
GRADIENTS.update(SPECIAL_GRADIENTS)
for _name, _rule in SPECIAL_GRADIENTS.items():
    OPS[_name].grad = _rule

_ROWS_OF = (grad, pool_indices)
"""Families whose rows must stand in the table first."""

__all__ = ["SPECIAL_GRADIENTS"]
