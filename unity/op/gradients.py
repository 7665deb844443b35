"""Gradients of the rows: ``grad(call, out_grad)`` -> one expression per argument, None where there is no gradient.

They stand here, not in the families, because a rule is written with operators of all families. The results are
nested calls; whoever uses them brings them into normal form. For an operator with several results ``out_grad`` is
a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.expr import Call, ShapeExpr, Tuple, TupleGetItem
from ..ir.op import OPS
from ..ir.relation import Answer, dims, same_dims
from ..ir.types import Expr, TensorType, TupleType
from ..support.errors import TypeRuleError
from .binary import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    less_equal,
    logical_and,
    multiply,
    subtract,
    where,
)  # fmt: skip
from .create import astype, full_like, zeros_like
from .elementwise import cos, cosh, erf, exp, log, negative, rsqrt, sigmoid, sign, sin, sinh, sqrt, square, tanh
from .linalg import matmul
from .manipulate import broadcast_to, expand_dims, permutation, permute_dims, reshape
from .nn import softmax
from .powers import power
from .reduce import collapse_sum_to, mean, sum_
from .rules import attr, axes_attr, bool_attr, int_attr, normal_axis
from .slicing import concat, split
from .table import Operator, constant

Rule = Callable[[Call, Expr], list[Any]]


def _shape(expr: Expr) -> ShapeExpr:
    known = dims(expr.ty)
    if known is None:
        raise TypeRuleError(
            "E218", f"the gradient needs the shape of a value of type {expr.ty}", help="name it with R.match_cast"
        )
    return ShapeExpr(known)


def _like(value: float, x: Expr) -> Expr:
    assert isinstance(x.ty, TensorType)
    return constant(value, x.ty.dtype)


def _reduce_to(grad: Expr, operand: Expr) -> Expr | None:
    """Gradient of a broadcast operand: summed over the axes it was repeated along."""
    if not isinstance(operand.ty, TensorType):
        return None
    have, want = _shape(grad).values, _shape(operand)
    return grad if same_dims(have, want.values) is Answer.YES else collapse_sum_to(grad, want)


def _unary(fn: Callable[[Expr, Expr, Call], Expr]) -> Rule:
    return lambda call, g: [fn(g, call.args[0], call)]


def _binary(fn: Callable[[Expr, Expr, Expr], tuple[Expr, Expr]]) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        a, b = call.args[0], call.args[1]
        return [_reduce_to(part, operand) for part, operand in zip(fn(g, a, b), (a, b))]

    return rule


def _zero(call: Call, g: Expr) -> list[Any]:
    return [zeros_like(a) if isinstance(a.ty, TensorType) else None for a in call.args]


def _one_minus_square(x: Expr) -> Expr:
    return subtract(_like(1.0, x), square(x))


def _one_plus_square(x: Expr) -> Expr:
    return add(_like(1.0, x), square(x))


def _pick(g: Expr, cond: Expr) -> Expr:
    return where(cond, g, _like(0.0, g))


def _gelu(g: Expr, x: Expr, call: Call) -> Expr:
    density = multiply(exp(multiply(square(x), _like(-0.5, x))), _like(1 / math.sqrt(2 * math.pi), x))
    below = multiply(add(erf(multiply(x, _like(math.sqrt(0.5), x))), _like(1.0, x)), _like(0.5, x))
    return multiply(g, add(below, multiply(x, density)))


def _silu(g: Expr, x: Expr, call: Call) -> Expr:
    s = sigmoid(x)
    return multiply(g, multiply(s, add(_like(1.0, x), multiply(x, subtract(_like(1.0, x), s)))))


def _sigmoid(g: Expr, x: Expr, call: Call) -> Expr:
    s = sigmoid(x)
    return multiply(g, multiply(s, subtract(_like(1.0, x), s)))


def _clip(g: Expr, x: Expr, call: Call) -> Expr:
    low, high = attr(call, "min"), attr(call, "max")
    return _pick(g, logical_and(greater_equal(x, _like(low, x)), less_equal(x, _like(high, x))))


def _power(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    first = multiply(g, multiply(b, power(a, subtract(b, constant(1.0, a.ty.dtype)))))  # type: ignore[attr-defined]
    return first, multiply(g, multiply(power(a, b), log(a)))


def _spread(call: Call, g: Expr) -> Expr:
    """The gradient of a reduction repeated over the reduced axes."""
    x = call.args[0]
    shape = _shape(x)
    if not bool_attr(call, "keepdims"):
        axes = axes_attr(call, "axis", len(shape.values))
        g = expand_dims(g, list(range(len(shape.values)) if axes is None else sorted(axes))) if shape.values else g
    return broadcast_to(g, shape)


def _kept(call: Call, operator: Operator) -> Expr:
    axes = axes_attr(call, "axis", len(_shape(call.args[0]).values))
    return operator(call.args[0], axis=None if axes is None else list(axes), keepdims=True)


def _mean(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    ones = full_like(x, _like(1.0, x))
    axes = axes_attr(call, "axis", len(_shape(x).values))
    count = sum_(ones, axis=None if axes is None else list(axes), keepdims=True)
    return [divide(_spread(call, g), count)]


def _variance(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    away = subtract(x, _kept(call, mean))
    return [multiply(_mean(call, g)[0], multiply(away, _like(2.0, x)))]


def _extreme(operator_name: str) -> Rule:
    def rule(call: Call, g: Expr) -> list[Any]:
        """Shared equally between the elements that attain the extreme."""
        x = call.args[0]
        hit = astype(equal(x, _kept(call, _operator(operator_name))), x.ty.dtype)  # type: ignore[attr-defined]
        axes = axes_attr(call, "axis", len(_shape(x).values))
        count = sum_(hit, axis=None if axes is None else list(axes), keepdims=True)
        return [divide(multiply(_spread(call, g), hit), count)]

    return rule


def _operator(name: str) -> Operator:
    return Operator(OPS[name])


def _transpose_last(x: Expr, rank: int) -> Expr:
    axes = list(range(rank))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return permute_dims(x, axes=axes)


def _matmul(call: Call, g: Expr) -> list[Any]:
    a, b = call.args
    rank_a, rank_b = len(_shape(a).values), len(_shape(b).values)
    wide_a = expand_dims(a, [0]) if rank_a == 1 else a
    wide_b = expand_dims(b, [1]) if rank_b == 1 else b
    if rank_b == 1:
        g = expand_dims(g, [-1])
    if rank_a == 1:
        g = expand_dims(g, [-2])
    grad_a = _reduce_to(matmul(g, _transpose_last(wide_b, max(rank_b, 2))), wide_a)
    grad_b = _reduce_to(matmul(_transpose_last(wide_a, max(rank_a, 2)), g), wide_b)
    assert grad_a is not None and grad_b is not None
    return [
        reshape(grad_a, _shape(a)) if rank_a == 1 else grad_a,
        reshape(grad_b, _shape(b)) if rank_b == 1 else grad_b,
    ]


def _softmax(call: Call, g: Expr) -> list[Any]:
    axis = attr(call, "axis", -1)
    y = softmax(call.args[0], axis=axis)
    weighted = multiply(g, y)
    return [subtract(weighted, multiply(y, sum_(weighted, axis=[axis], keepdims=True)))]


def _log_softmax(call: Call, g: Expr) -> list[Any]:
    axis = attr(call, "axis", -1)
    return [subtract(g, multiply(softmax(call.args[0], axis=axis), sum_(g, axis=[axis], keepdims=True)))]


def _permute(call: Call, g: Expr) -> list[Any]:
    axes = permutation(call, len(_shape(call.args[0]).values))
    return [permute_dims(g, axes=[axes.index(i) for i in range(len(axes))])]


def _concat(call: Call, g: Expr) -> list[Any]:
    source = call.args[0]
    assert isinstance(source.ty, TupleType)
    count = len(source.ty.fields)
    fields = list(source.fields) if type(source) is Tuple else [TupleGetItem(source, i) for i in range(count)]
    rank = len(_shape(fields[0]).values)
    axis = normal_axis(call, int_attr(call, "axis", 0), rank)
    cuts, at = [], 0
    for item in fields[:-1]:
        size = _shape(item).values[axis]
        if not hasattr(size, "value"):
            raise TypeRuleError("E218", "the gradient of R.concat needs constant sizes along its axis")
        at += size.value
        cuts.append(at)
    parts = split(g, cuts, axis=axis)
    return [Tuple(tuple([TupleGetItem(parts, i) for i in range(len(fields))]))]


def _split(call: Call, g: Expr) -> list[Any]:
    axis = normal_axis(call, int_attr(call, "axis", 0), len(_shape(call.args[0]).values))
    return [concat(g, axis=axis)]


def _where(call: Call, g: Expr) -> list[Any]:
    cond, a, b = call.args
    zero = _like(0.0, g)
    return [None, _reduce_to(where(cond, g, zero), a), _reduce_to(where(cond, zero, g), b)]


def _reshape_back(call: Call, g: Expr) -> list[Any]:
    return [reshape(g, _shape(call.args[0])), *[None] * (len(call.args) - 1)]


def _astype(call: Call, g: Expr) -> list[Any]:
    ty = call.args[0].ty
    assert isinstance(ty, TensorType)
    return [astype(g, ty.dtype) if ty.dtype is not None and ty.dtype.is_float else None]


GRADIENTS: dict[str, Rule] = {
    "R.abs": _unary(lambda g, x, c: multiply(g, sign(x))),
    "R.acos": _unary(lambda g, x, c: negative(multiply(g, rsqrt(_one_minus_square(x))))),
    "R.asin": _unary(lambda g, x, c: multiply(g, rsqrt(_one_minus_square(x)))),
    "R.atan": _unary(lambda g, x, c: divide(g, _one_plus_square(x))),
    "R.asinh": _unary(lambda g, x, c: multiply(g, rsqrt(_one_plus_square(x)))),
    "R.acosh": _unary(lambda g, x, c: multiply(g, rsqrt(subtract(square(x), _like(1.0, x))))),
    "R.atanh": _unary(lambda g, x, c: divide(g, _one_minus_square(x))),
    "R.cos": _unary(lambda g, x, c: negative(multiply(g, sin(x)))),
    "R.cosh": _unary(lambda g, x, c: multiply(g, sinh(x))),
    "R.erf": _unary(lambda g, x, c: multiply(multiply(g, _like(2 / math.sqrt(math.pi), x)), exp(negative(square(x))))),
    "R.exp": _unary(lambda g, x, c: multiply(g, exp(x))),
    "R.log": _unary(lambda g, x, c: divide(g, x)),
    "R.negative": _unary(lambda g, x, c: negative(g)),
    "R.rsqrt": _unary(lambda g, x, c: multiply(multiply(g, _like(-0.5, x)), divide(rsqrt(x), x))),
    "R.sigmoid": _unary(_sigmoid),
    "R.sin": _unary(lambda g, x, c: multiply(g, cos(x))),
    "R.sinh": _unary(lambda g, x, c: multiply(g, cosh(x))),
    "R.sqrt": _unary(lambda g, x, c: divide(multiply(g, _like(0.5, x)), sqrt(x))),
    "R.square": _unary(lambda g, x, c: multiply(g, multiply(x, _like(2.0, x)))),
    "R.tan": _unary(lambda g, x, c: divide(g, square(cos(x)))),
    "R.tanh": _unary(lambda g, x, c: multiply(g, _one_minus_square(tanh(x)))),
    "R.ceil": _zero, "R.floor": _zero, "R.round": _zero, "R.trunc": _zero, "R.sign": _zero,
    "R.clip": _unary(_clip),
    "R.add": _binary(lambda g, a, b: (g, g)),
    "R.subtract": _binary(lambda g, a, b: (g, negative(g))),
    "R.multiply": _binary(lambda g, a, b: (multiply(g, b), multiply(g, a))),
    "R.divide": _binary(lambda g, a, b: (divide(g, b), negative(divide(multiply(g, a), square(b))))),
    "R.power": _binary(_power),
    "R.maximum": _binary(lambda g, a, b: (_pick(g, greater_equal(a, b)), _pick(g, greater(b, a)))),
    "R.minimum": _binary(lambda g, a, b: (_pick(g, less_equal(a, b)), _pick(g, greater(a, b)))),
    "R.where": _where,
    "R.sum": lambda call, g: [_spread(call, g)],
    "R.mean": _mean,
    "R.variance": _variance,
    "R.max": _extreme("R.max"),
    "R.min": _extreme("R.min"),
    "R.matmul": _matmul,
    "R.flatten": _reshape_back, "R.reshape": _reshape_back, "R.expand_dims": _reshape_back, "R.squeeze": _reshape_back,
    "R.nn.batch_flatten": _reshape_back,
    "R.permute_dims": _permute,
    "R.broadcast_to": lambda call, g: [_reduce_to(g, call.args[0]), None],
    "R.concat": _concat,
    "R.split": _split,
    "R.astype": _astype,
    "R.nn.relu": _unary(lambda g, x, c: _pick(g, greater(x, _like(0.0, x)))),
    "R.nn.leakyrelu": _unary(lambda g, x, c: where(greater(x, _like(0.0, x)), g, multiply(g, _like(attr(c, "alpha", 0.01), x)))),
    "R.nn.gelu": _unary(_gelu),
    "R.nn.silu": _unary(_silu),
    "R.nn.softmax": _softmax,
    "R.nn.log_softmax": _log_softmax,
}  # fmt: skip

for _name, _rule in GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["GRADIENTS", "Rule"]
