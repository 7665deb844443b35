"""Table entries: recurrent layers (LSTM, GRU, RNN). A layer is one operator with a loop over time inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir.expr import TupleGetItem
from ....ir.types import Expr
from ..context.context import Args, Context, aten, rank_of, refuse, shape_of
from .shape import permute, slice_axis, swap


def _product(x: Expr, weight: Expr) -> Expr:
    return op.matmul(x, swap(weight, 0, 1))


def _add_biases(x: Expr, *biases: Expr | None) -> Expr:
    for bias in biases:
        x = x if bias is None else x + bias
    return x


def _direction(c: Context, kind: str, x: Expr, state: list[Expr], weights: Sequence[Any], reverse: bool) -> list[Expr]:
    """(outputs, last states) of one layer in one direction; ``weights`` are w_ih, w_hh, b_ih, b_hh."""
    inner, hidden, b_in, b_hidden = weights
    batch_first = swap(hidden, 0, 1)
    gates = _product(x, inner)
    if kind == "gru":
        result = op.nn_gru(
            _add_biases(gates, b_in), *state, batch_first, *([] if b_hidden is None else [b_hidden]), reverse=reverse
        )
    elif kind == "lstm":
        result = op.nn_lstm(_add_biases(gates, b_in, b_hidden), *state, batch_first, reverse=reverse)
    else:
        result = op.nn_rnn(_add_biases(gates, b_in, b_hidden), *state, batch_first, reverse=reverse, nonlinearity=kind)
    outputs = c.emit(result)
    return [c.emit(TupleGetItem(outputs, n)) for n in range(1 + len(state))]


def _layers(c: Context, a: Args, kind: str, states: list[Expr]) -> list[Expr]:
    """All layers; results are the outputs, then each kind of state stacked over layers and directions."""
    refuse(bool(a.dropout) and a.train, "dropout between layers draws random numbers")
    ways = 2 if a.bidirectional else 1
    per = len(a.params) // (a.num_layers * ways)
    refuse(per % 2 == 1, "a projection of the hidden state")
    x = a.input
    if rank_of(x) == 2:  # without a batch
        x = c.reshape(x, [shape_of(x)[0], 1, shape_of(x)[1]])
        states = [c.reshape(s, [shape_of(s)[0], 1, shape_of(s)[1]]) for s in states]
    elif a.batch_first:
        x = permute(x, [1, 0, 2])
    ends: list[list[Expr]] = [[] for _ in states]
    for layer in range(a.num_layers):
        x, outputs = c.emit(x), []
        for way in range(ways):
            position = layer * ways + way
            given = list(a.params[position * per : (position + 1) * per])
            biases = given[2:4] if a.has_biases else [None, None]
            first = [_layer_state(c, s, position) for s in states]
            result = _direction(c, kind, x, first, [*given[:2], *biases], way == 1)
            outputs.append(result[0])
            for end, value in zip(ends, result[1:]):
                end.append(value)
        x = outputs[0] if ways == 1 else op.concat(outputs, axis=2)
    out = permute(x, [1, 0, 2]) if a.batch_first and rank_of(a.input) == 3 else x
    values = c.value if isinstance(c.value, (list, tuple)) else [c.value]
    stacked = [op.stack(end, axis=0) if len(end) > 1 else _cell(c, end[0]) for end in ends]
    shapes = [c.symbols.dims(v.shape) for v in values]
    return [v if rank_of(v) == len(s) else c.reshape(v, s) for v, s in zip([out, *stacked], shapes)]


def _layer_state(c: Context, states: Expr, position: int) -> Expr:
    return c.reshape(slice_axis(states, 0, position, 1), shape_of(states)[1:])


def _cell(c: Context, state: Expr) -> Expr:
    return c.reshape(state, [1, *shape_of(state)])


aten("lstm.input")(lambda c, a: _layers(c, a, "lstm", list(a.hx)))
aten("gru.input")(lambda c, a: _layers(c, a, "gru", [a.hx]))
aten("rnn_tanh.input")(lambda c, a: _layers(c, a, "tanh", [a.hx]))
aten("rnn_relu.input")(lambda c, a: _layers(c, a, "relu", [a.hx]))
