"""Gradients of the rows: ``grad(call, out_grad)`` -> one expression per argument, None where there is no gradient.

They stand here, not in the families, because a rule is written with operators of all families. The results are
nested calls; whoever uses them brings them into normal form. For an operator with several results ``out_grad`` is
a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.expr import Call, ShapeExpr, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.relation import Answer, dims, same_dims
from ...ir.types import Expr, TensorType, TupleType
from ...support.errors import TypeRuleError
from ..common.table import OPERATORS, Operator, constant
from ..common.type_rules import attr, axes_attr, bool_attr, int_attr, normal_axis
from ..elementwise.binary import (
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
from ..elementwise.powers import power
from ..elementwise.unary import (
    cos,
    cosh,
    erf,
    exp,
    log,
    negative,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tanh,
)
from ..linalg.products import matmul
from ..manipulate.create import astype, full_like, zeros_like
from ..manipulate.manipulate import broadcast_to, expand_dims, permutation, permute_dims, reshape
from ..manipulate.slicing import concat, split
from ..nn.activations import softmax
from ..reduction.reduce import collapse_sum_to, mean, sum_

Rule = Callable[[Call, Expr], list[Any]]


def known_shape(expr: Expr) -> ShapeExpr:
    """The shape of a tensor. Raises TypeRuleError E218 where it is not known."""
    known = dims(expr.ty)
    if known is None:
        raise TypeRuleError(
            "E218", f"the gradient needs the shape of a value of type {expr.ty}", help="name it with R.match_cast"
        )
    return ShapeExpr(known)


def number_like(value: float, x: Expr) -> Expr:
    """A number as a constant of the dtype of x."""
    assert isinstance(x.ty, TensorType)
    return constant(value, x.ty.dtype)


def reduce_to(grad: Expr, operand: Expr) -> Expr | None:
    """Gradient of a broadcast operand: summed over the axes it was repeated along."""
    if not isinstance(operand.ty, TensorType):
        return None
    have, want = known_shape(grad).values, known_shape(operand)
    return grad if same_dims(have, want.values) is Answer.YES else collapse_sum_to(grad, want)


def unary_rule(fn: Callable[[Expr, Expr, Call], Expr]) -> Rule:
    """The rule of an operator with one operand from ``fn(grad, operand, call)``."""
    return lambda call, g: [fn(g, call.args[0], call)]


def binary_rule(fn: Callable[[Expr, Expr, Expr], tuple[Expr, Expr]]) -> Rule:
    """The rule of a broadcasting operator from ``fn(grad, first, second)``."""

    def rule(call: Call, g: Expr) -> list[Any]:
        a, b = call.args[0], call.args[1]
        return [reduce_to(part, operand) for part, operand in zip(fn(g, a, b), (a, b))]

    return rule


def _zero(call: Call, g: Expr) -> list[Any]:
    return [zeros_like(a) if isinstance(a.ty, TensorType) else None for a in call.args]


def _one_minus_square(x: Expr) -> Expr:
    return subtract(number_like(1.0, x), square(x))


def one_plus_square(x: Expr) -> Expr:
    return add(number_like(1.0, x), square(x))


def pick(g: Expr, cond: Expr) -> Expr:
    """The gradient where a condition holds, else 0."""
    return where(cond, g, number_like(0.0, g))


def _gelu(g: Expr, x: Expr, call: Call) -> Expr:
    density = multiply(exp(multiply(square(x), number_like(-0.5, x))), number_like(1 / math.sqrt(2 * math.pi), x))
    below = multiply(add(erf(multiply(x, number_like(math.sqrt(0.5), x))), number_like(1.0, x)), number_like(0.5, x))
    return multiply(g, add(below, multiply(x, density)))


def _leaky(g: Expr, x: Expr, call: Call) -> Expr:
    return where(greater(x, number_like(0.0, x)), g, multiply(g, number_like(attr(call, "alpha", 0.01), x)))


def _silu(g: Expr, x: Expr, call: Call) -> Expr:
    s = sigmoid(x)
    return multiply(g, multiply(s, add(number_like(1.0, x), multiply(x, subtract(number_like(1.0, x), s)))))


def _sigmoid(g: Expr, x: Expr, call: Call) -> Expr:
    s = sigmoid(x)
    return multiply(g, multiply(s, subtract(number_like(1.0, x), s)))


def _clip(g: Expr, x: Expr, call: Call) -> Expr:
    low, high = attr(call, "min"), attr(call, "max")
    return pick(g, logical_and(greater_equal(x, number_like(low, x)), less_equal(x, number_like(high, x))))


def _power(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    first = multiply(g, multiply(b, power(a, subtract(b, constant(1.0, a.ty.dtype)))))  # type: ignore[attr-defined]
    return first, multiply(g, multiply(power(a, b), log(a)))


def spread_back(call: Call, g: Expr) -> Expr:
    """The gradient of a reduction repeated over the reduced axes."""
    x = call.args[0]
    shape = known_shape(x)
    if not bool_attr(call, "keepdims"):
        axes = axes_attr(call, "axis", len(shape.values))
        g = expand_dims(g, list(range(len(shape.values)) if axes is None else sorted(axes))) if shape.values else g
    return broadcast_to(g, shape)


def kept_reduction(call: Call, operator: Operator) -> Expr:
    """Another reduction of the operand over the axes of the call, which are kept."""
    axes = axes_attr(call, "axis", len(known_shape(call.args[0]).values))
    return operator(call.args[0], axis=None if axes is None else list(axes), keepdims=True)


def _mean(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    ones = full_like(x, number_like(1.0, x))
    axes = axes_attr(call, "axis", len(known_shape(x).values))
    count = sum_(ones, axis=None if axes is None else list(axes), keepdims=True)
    return [divide(spread_back(call, g), count)]


def _variance(call: Call, g: Expr) -> list[Any]:
    x = call.args[0]
    away = subtract(x, kept_reduction(call, mean))
    return [multiply(_mean(call, g)[0], multiply(away, number_like(2.0, x)))]


def extreme_rule(operator_name: str) -> Rule:
    """The rule of a reduction that chooses a value: its elements share the gradient."""

    def rule(call: Call, g: Expr) -> list[Any]:
        """Shared equally between the elements that attain the extreme."""
        x = call.args[0]
        hit = astype(equal(x, kept_reduction(call, _operator(operator_name))), x.ty.dtype)  # type: ignore[attr-defined]
        axes = axes_attr(call, "axis", len(known_shape(x).values))
        count = sum_(hit, axis=None if axes is None else list(axes), keepdims=True)
        return [divide(multiply(spread_back(call, g), hit), count)]

    return rule


def _operator(name: str) -> Operator:
    return OPERATORS[name]


def _transpose_last(x: Expr, rank: int) -> Expr:
    axes = list(range(rank))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return permute_dims(x, axes=axes)


def _matmul(call: Call, g: Expr) -> list[Any]:
    a, b = call.args
    rank_a, rank_b = len(known_shape(a).values), len(known_shape(b).values)
    wide_a = expand_dims(a, [0]) if rank_a == 1 else a
    wide_b = expand_dims(b, [1]) if rank_b == 1 else b
    if rank_b == 1:
        g = expand_dims(g, [-1])
    if rank_a == 1:
        g = expand_dims(g, [-2])
    grad_a = reduce_to(matmul(g, _transpose_last(wide_b, max(rank_b, 2))), wide_a)
    grad_b = reduce_to(matmul(_transpose_last(wide_a, max(rank_a, 2)), g), wide_b)
    assert grad_a is not None and grad_b is not None
    return [
        reshape(grad_a, known_shape(a)) if rank_a == 1 else grad_a,
        reshape(grad_b, known_shape(b)) if rank_b == 1 else grad_b,
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
    axes = permutation(call, len(known_shape(call.args[0]).values))
    return [permute_dims(g, axes=[axes.index(i) for i in range(len(axes))])]


def _concat(call: Call, g: Expr) -> list[Any]:
    source = call.args[0]
    assert isinstance(source.ty, TupleType)
    count = len(source.ty.fields)
    fields = list(source.fields) if type(source) is Tuple else [TupleGetItem(source, i) for i in range(count)]
    rank = len(known_shape(fields[0]).values)
    axis = normal_axis(call, int_attr(call, "axis", 0), rank)
    cuts, at = [], 0
    for item in fields[:-1]:
        size = known_shape(item).values[axis]
        if not hasattr(size, "value"):
            raise TypeRuleError("E218", "the gradient of R.concat needs constant sizes along its axis")
        at += size.value
        cuts.append(at)
    parts = split(g, cuts, axis=axis)
    return [Tuple(tuple([TupleGetItem(parts, i) for i in range(len(fields))]))]


def _split(call: Call, g: Expr) -> list[Any]:
    axis = normal_axis(call, int_attr(call, "axis", 0), len(known_shape(call.args[0]).values))
    return [concat(g, axis=axis)]


def _where(call: Call, g: Expr) -> list[Any]:
    cond, a, b = call.args
    zero = number_like(0.0, g)
    return [None, reduce_to(where(cond, g, zero), a), reduce_to(where(cond, zero, g), b)]


def _reshape_back(call: Call, g: Expr) -> list[Any]:
    return [reshape(g, known_shape(call.args[0])), *[None] * (len(call.args) - 1)]


def _astype(call: Call, g: Expr) -> list[Any]:
    ty = call.args[0].ty
    assert isinstance(ty, TensorType)
    return [astype(g, ty.dtype) if ty.dtype is not None and ty.dtype.is_float else None]


GRADIENTS: dict[str, Rule] = {
    "R.abs": unary_rule(lambda g, x, c: multiply(g, sign(x))),
    "R.acos": unary_rule(lambda g, x, c: negative(multiply(g, rsqrt(_one_minus_square(x))))),
    "R.asin": unary_rule(lambda g, x, c: multiply(g, rsqrt(_one_minus_square(x)))),
    "R.atan": unary_rule(lambda g, x, c: divide(g, one_plus_square(x))),
    "R.asinh": unary_rule(lambda g, x, c: multiply(g, rsqrt(one_plus_square(x)))),
    "R.acosh": unary_rule(lambda g, x, c: multiply(g, rsqrt(subtract(square(x), number_like(1.0, x))))),
    "R.atanh": unary_rule(lambda g, x, c: divide(g, _one_minus_square(x))),
    "R.cos": unary_rule(lambda g, x, c: negative(multiply(g, sin(x)))),
    "R.cosh": unary_rule(lambda g, x, c: multiply(g, sinh(x))),
    "R.erf": unary_rule(lambda g, x, c: multiply(multiply(g, number_like(2 / math.sqrt(math.pi), x)), exp(negative(square(x))))),
    "R.exp": unary_rule(lambda g, x, c: multiply(g, exp(x))),
    "R.log": unary_rule(lambda g, x, c: divide(g, x)),
    "R.negative": unary_rule(lambda g, x, c: negative(g)),
    "R.rsqrt": unary_rule(lambda g, x, c: multiply(multiply(g, number_like(-0.5, x)), divide(rsqrt(x), x))),
    "R.sigmoid": unary_rule(_sigmoid),
    "R.sin": unary_rule(lambda g, x, c: multiply(g, cos(x))),
    "R.sinh": unary_rule(lambda g, x, c: multiply(g, cosh(x))),
    "R.sqrt": unary_rule(lambda g, x, c: divide(multiply(g, number_like(0.5, x)), sqrt(x))),
    "R.square": unary_rule(lambda g, x, c: multiply(g, multiply(x, number_like(2.0, x)))),
    "R.tan": unary_rule(lambda g, x, c: divide(g, square(cos(x)))),
    "R.tanh": unary_rule(lambda g, x, c: multiply(g, _one_minus_square(tanh(x)))),
    "R.ceil": _zero, "R.floor": _zero, "R.round": _zero, "R.trunc": _zero, "R.sign": _zero,
    "R.clip": unary_rule(_clip),
    "R.add": binary_rule(lambda g, a, b: (g, g)),
    "R.subtract": binary_rule(lambda g, a, b: (g, negative(g))),
    "R.multiply": binary_rule(lambda g, a, b: (multiply(g, b), multiply(g, a))),
    "R.divide": binary_rule(lambda g, a, b: (divide(g, b), negative(divide(multiply(g, a), square(b))))),
    "R.power": binary_rule(_power),
    "R.maximum": binary_rule(lambda g, a, b: (pick(g, greater_equal(a, b)), pick(g, greater(b, a)))),
    "R.minimum": binary_rule(lambda g, a, b: (pick(g, less_equal(a, b)), pick(g, greater(a, b)))),
    "R.where": _where,
    "R.sum": lambda call, g: [spread_back(call, g)],
    "R.mean": _mean,
    "R.variance": _variance,
    "R.max": extreme_rule("R.max"),
    "R.min": extreme_rule("R.min"),
    "R.matmul": _matmul,
    "R.flatten": _reshape_back, "R.reshape": _reshape_back, "R.expand_dims": _reshape_back, "R.squeeze": _reshape_back,
    "R.nn.batch_flatten": _reshape_back,
    "R.permute_dims": _permute,
    "R.broadcast_to": lambda call, g: [reduce_to(g, call.args[0]), None],
    "R.concat": _concat,
    "R.split": _split,
    "R.astype": _astype,
    "R.nn.relu": unary_rule(lambda g, x, c: pick(g, greater(x, number_like(0.0, x)))),
    "R.nn.leakyrelu": unary_rule(_leaky),
    "R.nn.gelu": unary_rule(_gelu),
    "R.nn.silu": unary_rule(_silu),
    "R.nn.softmax": _softmax,
    "R.nn.log_softmax": _log_softmax,
}  # fmt: skip

for _name, _rule in GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["GRADIENTS", "Rule"]
