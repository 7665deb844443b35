"""Recurrent layers as one operator: one layer in one direction, a loop over time inside.

``gates`` (time, batch, n * hidden) holds what the inputs add to the gates (products with the input weight and all biases, for the
GRU without its hidden bias); ``weight`` is (hidden, n * hidden). Gates stand in torch's order: LSTM input, forget, cell, output;
GRU reset, update, new. 16-bit floats are computed in float32. A weight in 16 bits beside wider states asks for products of
16-bit operands: the state is rounded to its dtype for the product alone, sums and everything else stay wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, ShapeExpr, Var
from ...ir.op import Param
from ...ir.relation import dims, tensor_type, unequal, unequal_shapes
from ...ir.stmt import BufferStore, Stmt, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.loop_nests import read, reduction_nest, serial_loop, unit_loop
from ..common.lowering import SMALL_FLOATS, cast_tensor, compute_dtype, short_name
from ..common.table import Operator, attribute, optional, rows
from ..common.type_rules import attr, bool_attr, choice_attr, fail, float_tensor, same_dtype

row = rows("nn")


def _layer_type(count: int, names: Sequence[str]) -> Callable[[Call], Type]:
    def rule(call: Call) -> Type:
        given = [
            float_tensor(call, n, names[n], {"gates": 3, "bias": 1}.get(names[n], 2)) for n in range(len(call.args))
        ]
        narrow = given[names.index("weight")].dtype
        mixed = narrow is not None and narrow.name in SMALL_FLOATS
        same_dtype(call, *[ty for ty, name in zip(given, names) if not (mixed and name == "weight")])
        bool_attr(call, "reverse")
        if "nonlinearity" in call.attrs:
            choice_attr(call, "nonlinearity", ("tanh", "relu"))
        gates, state = dims(given[0]), dims(given[1])
        out = TensorType(None, given[0].dtype, 3, given[0].vdevice)
        if gates is not None and state is not None:
            if unequal(gates[1], state[0]):
                raise fail(call, "E213", f"the batch differs: {gates[1]} and {state[0]}", arg=1)
            if unequal(gates[2], state[1] * count):
                raise fail(call, "E213", f"gates of width {gates[2]} for {count} times {state[1]}", arg=0)
            out = tensor_type((gates[0], state[0], state[1]), given[0].dtype, vdevice=given[0].vdevice)
            for n, name in enumerate(names[: len(given)]):
                known = dims(given[n])
                wanted = {"cell": state, "bias": (gates[2],)}.get(name, known)
                if known is not None and wanted is not None and unequal_shapes(known, wanted):
                    raise fail(call, "E213", f"{name} must have the shape {ShapeExpr(wanted)}", arg=n)
        weight = dims(given[names.index("weight")])
        if weight is not None and state is not None and gates is not None:
            if unequal(weight[0], state[1]) or unequal(weight[1], gates[2]):
                raise fail(call, "E213", f"weight must be ({state[1]}, {gates[2]})", arg=names.index("weight"))
        states = [given[n] for n, name in enumerate(names) if name in ("hidden", "cell")]
        return TupleType((out, *states))

    return rule


def _state_product(out: Buffer, state: Buffer, weight: Buffer) -> Stmt:
    """``out = state @ weight`` as a nest of its own, for the passes that tile reductions; sums in the dtype of ``out``."""

    def term(b: Var, g: Var, k: Var) -> Expr:
        left, right = [build.cast(x, out.dtype) for x in (read(state, (b, k)), read(weight, (k, g)))]
        return left * right

    return reduction_nest(out, [weight.shape[0]], term, name="product")


def _sigmoid(x: Expr) -> Expr:
    return build.intrinsic("sigmoid", x)


def _tanh(x: Expr) -> Expr:
    return build.intrinsic("tanh", x)


Update = Callable[[Call, Callable[[int], Expr], Callable[[int], Expr], list[Expr]], list[Expr]]
"""(call, what the inputs add to gate n, what the state adds to it, states) -> new states, the output first."""


def _rnn_update(
    call: Call, given: Callable[[int], Expr], added: Callable[[int], Expr], states: list[Expr]
) -> list[Expr]:
    total = given(0) + added(0)
    if attr(call, "nonlinearity") == "tanh":
        return [_tanh(total)]
    return [build.maximum(total, 0.0)]


def _gru_update(
    call: Call, given: Callable[[int], Expr], added: Callable[[int], Expr], states: list[Expr]
) -> list[Expr]:
    reset, update = [_sigmoid(given(n) + added(n)) for n in (0, 1)]
    new = _tanh(given(2) + reset * added(2))
    return [new + update * (states[0] - new)]


def _layer(update: Update) -> Callable[..., Any]:
    def lower(call: Call, gates: te.Tensor, hidden: te.Tensor, *rest: te.Tensor) -> Any:
        states = [hidden, *rest[:1]] if short_name(call) == "lstm" else [hidden]
        weight, *bias = rest[len(states) - 1 :]
        acc_dtype = compute_dtype(gates.data_type)
        mixed = weight.data_type is not gates.data_type
        inputs = [cast_tensor(t, acc_dtype, "wide") for t in (gates, *states, *bias)]
        inputs.insert(1, weight if mixed else cast_tensor(weight, acc_dtype, "wide"))
        steps, batch, width = gates.shape
        size = hidden.shape[1]
        backwards = bool_attr(call, "reverse")

        def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            x, w, first = ins[0], ins[1], ins[2 : 2 + len(states)]
            out, current, pre, factor = outs[0], outs[1 : 1 + len(states)], outs[1 + len(states)], outs[-1]

            def rounded(b: Var, j: Var) -> list[Stmt]:
                """The state as the next product takes it."""
                return (
                    [BufferStore(factor, build.cast(read(current[0], (b, j)), factor.dtype), (b, j))] if mixed else []
                )

            def begin(b: Var) -> Stmt:
                return unit_loop(size, lambda j: seq(*[
                    BufferStore(s, read(f, (b, j)), (b, j)) for s, f in zip(current, first)
                ], *rounded(b, j)))  # fmt: skip

            def step(t: Var) -> Stmt:
                time = steps - 1 - t if backwards else t

                def sample(b: Var) -> Stmt:
                    def unit(j: Var) -> Stmt:
                        def gate_index(n: int) -> Expr:
                            return size * n + j

                        def added(n: int) -> Expr:
                            value = read(pre, (b, gate_index(n)))
                            return value + read(ins[-1], (gate_index(n),)) if bias else value

                        old = [read(s, (b, j)) for s in current]
                        new = update(call, lambda n: read(x, (time, b, gate_index(n))), added, old)
                        if len(new) == 1:
                            stores = [BufferStore(current[0], new[0], (b, j))]
                        else:  # the cell first: the output is made from its new value
                            stores = [BufferStore(current[1], new[1], (b, j)), BufferStore(current[0], new[0], (b, j))]
                        return seq(*stores, BufferStore(out, read(current[0], (b, j)), (time, b, j)), *rounded(b, j))

                    return unit_loop(size, unit)

                return seq(_state_product(pre, factor if mixed else current[0], w), serial_loop(batch, sample, "b"))

            return seq(serial_loop(batch, begin, "b"), serial_loop(steps, step, "t"))

        shapes = [(steps, batch, size), *[(batch, size)] * len(states), (batch, width)]
        kinds = [acc_dtype] * len(shapes)
        if mixed:
            shapes, kinds = [*shapes, (batch, size)], [*kinds, weight.data_type]
        result = te.extern(shapes, inputs, emit, short_name(call), kinds)
        return tuple([cast_tensor(t, gates.data_type, "cast") for t in result[: 1 + len(states)]])

    return lower


def _lstm_update(
    call: Call, given: Callable[[int], Expr], added: Callable[[int], Expr], states: list[Expr]
) -> list[Expr]:
    i, f, o = [_sigmoid(given(n) + added(n)) for n in (0, 1, 3)]
    cell = f * states[1] + i * _tanh(given(2) + added(2))
    return [o * _tanh(states[1]), cell]


def _np_sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _time_steps(count: int, reverse: bool) -> range:
    """The steps in the order of the layer."""
    return range(count - 1, -1, -1) if reverse else range(count)


def _np_product(state: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``state @ weight``: the state rounded where the weight has fewer bits, sums as wide as the state."""
    return np.asarray(state.astype(weight.dtype).astype(state.dtype) @ weight.astype(state.dtype))


def _lstm_ref(gates: Any, hidden: Any, cell: Any, weight: Any, reverse: bool = False) -> Any:
    out = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype)
    for t in _time_steps(len(gates), reverse):
        i, f, g, o = np.split(gates[t] + _np_product(hidden, weight), 4, axis=1)
        cell = _np_sigmoid(f) * cell + _np_sigmoid(i) * np.tanh(g)
        hidden = out[t] = _np_sigmoid(o) * np.tanh(cell)
    return out, hidden, cell


def _gru_ref(gates: Any, hidden: Any, weight: Any, bias: Any = 0.0, reverse: bool = False) -> Any:
    out = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype)
    for t in _time_steps(len(gates), reverse):
        (r, z, n), (hr, hz, hn) = np.split(gates[t], 3, axis=1), np.split(_np_product(hidden, weight) + bias, 3, axis=1)
        new = np.tanh(n + _np_sigmoid(r + hr) * hn)
        hidden = out[t] = new + _np_sigmoid(z + hz) * (hidden - new)
    return out, hidden


def _rnn_ref(gates: Any, hidden: Any, weight: Any, nonlinearity: str = "tanh", reverse: bool = False) -> Any:
    out = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype)
    for t in _time_steps(len(gates), reverse):
        total = gates[t] + _np_product(hidden, weight)
        hidden = out[t] = np.tanh(total) if nonlinearity == "tanh" else np.maximum(total, 0)
    return out, hidden


def _in_float32(ref: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning with 16-bit floats computed in float32."""

    def wrapped(*values: Any, **attrs: Any) -> Any:
        kind = values[0].dtype
        widened = [v.astype(np.result_type(v, np.float32)) if v.dtype == kind else v for v in values]
        return tuple([m.astype(kind) for m in ref(*widened, **attrs)])

    return wrapped


_PARAMS: dict[str, Param | str] = {
    "bias": optional("bias", doc="(n * hidden,): added to the products of state and weight; None: 0"),
    "cell": "cell: (batch, hidden): the initial cell state",
    "weight": "weight: (hidden, n * hidden), multiplied with the state",
}


def _row(
    name: str,
    names: Sequence[str],
    count: int,
    update: Update,
    ref: Any,
    doc: str,
    *extra: Any,
    samples: str,
) -> Operator:
    return row(
        f"nn.{name}",
        (*[_PARAMS.get(n, n) for n in names], *extra, attribute("reverse", False)),
        _layer_type(count, names),
        doc,
        lower=_layer(update),
        ref=_in_float32(ref),
        grad="layers are trained in torch: torch.compile runs their backward graphs there",
        narrow_argument=names.index("weight"),
        samples=samples,
    )


lstm = _row("lstm", ("gates", "hidden", "cell", "weight"), 4, _lstm_update, _lstm_ref,
            "Runs an LSTM layer, gates in the order input, forget, cell, output; returns all outputs and the last two states.",
            samples="f32[3,2,12], f32[2,3], f32[2,3], f32[3,12], reverse=each(False, True); "
                    "f32[0,2,4], f32[2,1], f32[2,1], f32[1,4]")  # fmt: skip
gru = _row("gru", ("gates", "hidden", "weight", "bias"), 3, _gru_update, _gru_ref,
           "Runs a GRU layer, gates in the order reset, update, new; returns all outputs and the last state.",
           samples="f32[4,3,6], f32[3,2], f32[2,6], f32[6], reverse=each(False, True); f32[2,1,3], f32[1,1], f32[1,3]; "
                   "f16[2,1,6], f16[1,2], f16[2,6]")  # fmt: skip
rnn = _row("rnn", ("gates", "hidden", "weight"), 1, _rnn_update, _rnn_ref,
           "Runs an Elman recurrent layer; returns all outputs and the last state.",
           attribute("nonlinearity", "tanh", '"tanh" or "relu"'),
           samples="f32[3,2,4], f32[2,4], f32[4,4], reverse=each(False, True), nonlinearity=each('tanh', 'relu'); "
                   "f32[1,1,1], f32[1,1], f32[1,1]")  # fmt: skip
