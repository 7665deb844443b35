"""Gradients of the recurrent layers: backpropagation through time.

Gates and their derivatives are computed for all steps at once from the outputs of the layer; the loops over time are the rows of
``op/nn/recurrent_backward.py``, so any number of steps does, known or not.

Sources: P. J. Werbos, Backpropagation through time: what it does and how to do it, 1990; F. A. Gers, J. Schmidhuber and
F. Cummins, Learning to forget: continual prediction with LSTM, 2000; K. Cho et al., Learning phrase representations using RNN
encoder-decoder, 2014 (with torch's reset gate behind the product).
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import Call, ShapeExpr, Tuple, TupleGetItem
from ...ir.op import OPS
from ...ir.types import Expr
from ..common.table import constant
from ..common.type_rules import attr, bool_attr, product
from ..elementwise.binary import add, greater, multiply, subtract
from ..elementwise.unary import sigmoid, square, tanh
from ..linalg.products import matmul
from ..manipulate.create import astype, zeros_like
from ..manipulate.manipulate import expand_dims, permute_dims, reshape
from ..manipulate.slicing import concat, split, strided_slice
from ..nn import recurrent
from ..nn.recurrent_backward import linear_recurrence, lstm_backward, recurrent_backward
from ..reduction.reduce import sum_
from .parts import field_of, operand_shape
from .rules import GRADIENTS, Rule


def _number(value: float, like: Expr) -> Expr:
    return constant(value, like.ty.dtype)  # type: ignore[attr-defined]


def _less_one(x: Expr) -> Expr:
    return subtract(_number(1.0, x), x)


def _gates(x: Expr, count: int) -> list[Expr]:
    parts = split(x, count, axis=2)
    return [TupleGetItem(parts, n) for n in range(count)]


def _joined(parts: list[Expr]) -> Expr:
    return concat(Tuple(tuple(parts)), axis=2)


def _before(call: Call, states: Expr, first: Expr) -> Expr:
    """The state before each step, in the order of time."""
    begin = expand_dims(first, axis=[0])
    if bool_attr(call, "reverse"):
        return strided_slice(concat(Tuple((states, begin)), axis=0), axes=[0], begin=[1], end=[2**31 - 1])
    return strided_slice(concat(Tuple((begin, states)), axis=0), axes=[0], begin=[0], end=[-1])


def _like(value: Expr, like: Expr) -> Expr:
    """A value in the dtype of another: rounding a weight has the slope one."""
    same = value.ty.dtype is like.ty.dtype  # type: ignore[attr-defined]
    return value if same else astype(value, like.ty.dtype)  # type: ignore[attr-defined]


def _weight(call: Call, weight: Expr, before: Expr, flow: Expr) -> Expr:
    """Sum over steps and samples of state^T flow."""
    steps, batch, size = operand_shape(call, call.args[0])[:2] + operand_shape(call, call.args[1])[1:]
    width = operand_shape(call, call.args[0])[2]
    rows = product((steps, batch))
    states = permute_dims(reshape(before, ShapeExpr((rows, size))), axes=[1, 0])
    return _like(matmul(states, reshape(flow, ShapeExpr((rows, width)))), weight)


def _turned(weight: Expr, gates: Expr) -> Expr:
    return permute_dims(_like(weight, gates), axes=[1, 0])


def _rnn(call: Call, g: Expr) -> list[Any]:
    gates, first, weight = call.args
    out = TupleGetItem(call, 0)
    if attr(call, "nonlinearity", "tanh") == "tanh":
        slope: Expr = _less_one(square(out))
    else:
        slope = astype(greater(out, _number(0.0, gates)), gates.ty.dtype)  # type: ignore[attr-defined]
    reverse = bool_attr(call, "reverse")
    made = recurrent_backward(
        field_of(g, 0), field_of(g, 1), zeros_like(slope), slope, _turned(weight, gates), reverse=reverse
    )
    flow = multiply(TupleGetItem(made, 0), slope)
    return [flow, TupleGetItem(made, 1), _weight(call, weight, _before(call, out, first), flow)]


def _gru(call: Call, g: Expr) -> list[Any]:
    """h = n + z (h' - n), n = tanh(x + r a), with a = h' w + b what the state adds to the new gate."""
    gates, first, weight, *bias = call.args
    before = _before(call, TupleGetItem(call, 0), first)
    added = matmul(before, _like(weight, gates))
    added = add(added, bias[0]) if bias else added
    given, inner = _gates(gates, 3), _gates(added, 3)
    r, z = [sigmoid(add(given[n], inner[n])) for n in (0, 1)]
    new = tanh(add(given[2], multiply(r, inner[2])))
    to_new = multiply(_less_one(z), _less_one(square(new)))
    to_reset = multiply(multiply(to_new, inner[2]), multiply(r, _less_one(r)))
    to_update = multiply(subtract(before, new), multiply(z, _less_one(z)))
    factors = _joined([to_reset, to_update, multiply(to_new, r)])
    reverse = bool_attr(call, "reverse")
    made = recurrent_backward(field_of(g, 0), field_of(g, 1), z, factors, _turned(weight, gates), reverse=reverse)
    flow = TupleGetItem(made, 0)
    inside = multiply(_joined([flow, flow, flow]), factors)
    result = [_joined([multiply(flow, part) for part in (to_reset, to_update, to_new)]), TupleGetItem(made, 1)]
    result.append(_weight(call, weight, before, inside))
    return [*result, sum_(inside, axis=[0, 1])] if bias else result


def _lstm(call: Call, g: Expr) -> list[Any]:
    """c = f c' + i n, h = o tanh(c); the cells of all steps are computed again from the gates."""
    gates, first, first_cell, weight = call.args
    reverse = bool_attr(call, "reverse")
    before = _before(call, TupleGetItem(call, 0), first)
    raw = _gates(add(gates, matmul(before, _like(weight, gates))), 4)
    i, f, o = [sigmoid(raw[n]) for n in (0, 1, 3)]
    new = tanh(raw[2])
    cells = linear_recurrence(f, multiply(i, new), first_cell, reverse=reverse)
    squashed = tanh(cells)
    factors = _joined(
        [
            multiply(new, multiply(i, _less_one(i))),
            multiply(_before(call, cells, first_cell), multiply(f, _less_one(f))),
            multiply(i, _less_one(square(new))),
            multiply(squashed, multiply(o, _less_one(o))),
        ]
    )
    through = multiply(o, _less_one(square(squashed)))
    flows = [field_of(g, n) for n in range(3)]
    made = lstm_backward(flows[0], flows[1], f, factors, _turned(weight, gates), flows[2], through, reverse=reverse)
    flow, cell_flow = TupleGetItem(made, 0), TupleGetItem(made, 1)
    inside = multiply(_joined([cell_flow, cell_flow, cell_flow, flow]), factors)
    return [inside, TupleGetItem(made, 2), TupleGetItem(made, 3), _weight(call, weight, before, inside)]


_ROWS_OF = (recurrent,)
"""Families whose rows must stand in the table first."""

RECURRENT_GRADIENTS: dict[str, Rule] = {"R.nn.rnn": _rnn, "R.nn.gru": _gru, "R.nn.lstm": _lstm}
GRADIENTS.update(RECURRENT_GRADIENTS)
for _name, _rule in RECURRENT_GRADIENTS.items():
    OPS[_name].grad = _rule

__all__ = ["RECURRENT_GRADIENTS"]
