"""Backward steps of the recurrent layers: the loops over time that the gradients of recurrent.py are made of.

Only what depends on the step after it is here; gates, their derivatives and the gradient of the weight are computed for all
steps at once by the rules of recurrent.py. ``reverse`` means the direction of the forward layer; the gradients flow against it.
Any number of steps, known or not. 16-bit floats are computed in float32.

Source: P. J. Werbos, Backpropagation through time: what it does and how to do it, 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, ShapeExpr, Var
from ...ir.relation import dims, unequal, unequal_shapes
from ...ir.stmt import BufferStore, Stmt, seq
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import SECOND_DERIVATIVE
from ..common.loop_nests import read, serial_loop, unit_loop
from ..common.lowering import cast_tensor, compute_dtype, short_name
from ..common.table import attribute, rows
from ..common.type_rules import bool_attr, fail, float_tensor, same_dtype
from .recurrent import in_float32, state_product, time_steps

row = rows("grad")


def _checked(call: Call, names: Sequence[str], ranks: Sequence[int]) -> list[TensorType]:
    """The tensors, of one dtype and of these ranks."""
    given = [float_tensor(call, n, name, ranks[n]) for n, name in enumerate(names)]
    same_dtype(call, *given)
    bool_attr(call, "reverse")
    return given


def _fits(call: Call, names: Sequence[str], index: int, ty: TensorType, wanted: Sequence[Expr]) -> None:
    known = dims(ty)
    if known is not None and unequal_shapes(known, tuple(wanted)):
        raise fail(call, "E213", f"{names[index]} must have the shape {ShapeExpr(tuple(wanted))}", arg=index)


def _time(call: Call, steps: Expr, t: Var, forwards: bool) -> Expr:
    return t if forwards else steps - 1 - t


# ---- y[t] = factor[t] * y[t - 1] + term[t]

_RECURRENCE = ("factor", "term", "start")


def _recurrence_type(call: Call) -> Type:
    given = _checked(call, _RECURRENCE, (3, 3, 2))
    known = dims(given[0])
    if known is not None:
        _fits(call, _RECURRENCE, 1, given[1], known)
        _fits(call, _RECURRENCE, 2, given[2], known[1:])
    return given[0]


def _recurrence(call: Call, factor: te.Tensor, term: te.Tensor, start: te.Tensor) -> te.Tensor:
    steps, batch, size = factor.shape
    acc_dtype = compute_dtype(factor.data_type)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        out, state = outs

        def begin(b: Var) -> Stmt:
            return unit_loop(size, lambda j: BufferStore(state, read(ins[2], (b, j)), (b, j)))

        def step(t: Var) -> Stmt:
            time = _time(call, steps, t, not bool_attr(call, "reverse"))

            def unit(b: Var, j: Var) -> Stmt:
                index = (time, b, j)
                value = read(ins[0], index) * read(state, (b, j)) + read(ins[1], index)
                return seq(BufferStore(state, value, (b, j)), BufferStore(out, read(state, (b, j)), index))

            return serial_loop(batch, lambda b: unit_loop(size, lambda j: unit(b, j)), "b")

        return seq(serial_loop(batch, begin, "b"), serial_loop(steps, step, "t"))

    inputs = [cast_tensor(t, acc_dtype, "wide") for t in (factor, term, start)]
    result = te.extern([factor.shape, start.shape], inputs, emit, short_name(call), [acc_dtype, acc_dtype])
    return cast_tensor(result[0], factor.data_type, "cast")


def _recurrence_ref(factor: Any, term: Any, start: Any, reverse: bool = False) -> Any:
    out = np.empty_like(term)
    for t in time_steps(len(factor), reverse):
        start = out[t] = factor[t] * start + term[t]
    return (out,)


linear_recurrence = row(
    "grad.linear_recurrence",
    ("factor: (time, batch, size)", "term: (time, batch, size)", "start: (batch, size)", attribute("reverse", False)),
    _recurrence_type,
    "Returns all states of y[t] = factor[t] * y[t - 1] + term[t], such as the cells of an LSTM.",
    lower=_recurrence,
    ref=lambda *args, **attrs: in_float32(_recurrence_ref)(*args, **attrs)[0],
    grad=SECOND_DERIVATIVE,
    samples="f32[4,2,3], f32[4,2,3], f32[2,3], reverse=each(False, True); f32[0,2,3], f32[0,2,3], f32[2,3]",
)


# ---- the loops against the direction of the layer

_LAYER = ("output_grad", "hidden_grad", "keep", "factors", "weight")
_WEIGHT = "weight: (n * hidden, hidden), multiplied with the gradients of the gates"
_LSTM = ("output_grad", "hidden_grad", "keep", "factors", "weight", "cell_grad", "through")


def _backward_type(names: Sequence[str]) -> Callable[[Call], Type]:
    ranks = [{"hidden_grad": 2, "cell_grad": 2, "weight": 2}.get(name, 3) for name in names]

    def rule(call: Call) -> Type:
        given = _checked(call, names, ranks)
        flow, factors = dims(given[0]), dims(given[3])
        if flow is not None:
            for n, name in enumerate(names):
                if name in ("hidden_grad", "cell_grad"):
                    _fits(call, names, n, given[n], flow[1:])
                elif name in ("keep", "through"):
                    _fits(call, names, n, given[n], flow)
        if flow is not None and factors is not None:
            _fits(call, names, 3, given[3], (flow[0], flow[1], factors[2]))
            _fits(call, names, 4, given[4], (factors[2], flow[2]))
            if unequal(build.floormod(factors[2], build.maximum(flow[2], 1)), build.const(0, "int64")):
                raise fail(call, "E213", f"factors of width {factors[2]} for states of width {flow[2]}", arg=3)
        if len(names) == len(_LAYER):
            return TupleType((given[0], given[1]))
        return TupleType((given[0], given[0], given[1], given[5]))

    return rule


def _backward(call: Call, *tensors: te.Tensor) -> Any:
    """Per step: the gradient of the output (and cell), through the gates by ``factors``, to the state before by ``weight``."""
    flow, hidden = tensors[:2]
    steps, batch, size = flow.shape
    width = tensors[3].shape[2]
    cells = len(tensors) == len(_LSTM)
    count = width // build.maximum(size, 1)
    acc_dtype = compute_dtype(flow.data_type)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        out_grad, first, keep, factors, weight = ins[:5]
        *results, pre, carried = outs
        out, state = results[0], results[len(results) // 2]

        def begin(b: Var) -> Stmt:
            pairs = [(state, first), *([(results[3], ins[5])] if cells else [])]
            return unit_loop(size, lambda j: seq(*[BufferStore(s, read(f, (b, j)), (b, j)) for s, f in pairs]))

        def step(t: Var) -> Stmt:
            time = _time(call, steps, t, bool_attr(call, "reverse"))

            def unit(b: Var, j: Var) -> Stmt:
                index = (time, b, j)
                total = read(out_grad, index) + read(state, (b, j))
                parts: list[Stmt] = [BufferStore(out, total, index)]
                if cells:
                    through = read(out, index) * read(ins[6], index)
                    parts.append(BufferStore(results[1], read(results[3], (b, j)) + through, index))
                source, target = (results[1], results[3]) if cells else (out, state)
                parts.append(BufferStore(target, read(source, index) * read(keep, index), (b, j)))
                return seq(*parts)

            def gate(b: Var, n: Var, j: Var) -> Stmt:
                """The last gate of an LSTM is the output's; the others act through the cell."""
                value = read(out, (time, b, j))
                if cells:
                    value = build.select(build.eq(n, 3), value, read(results[1], (time, b, j)))
                gate_index = n * size + j
                return BufferStore(pre, value * read(factors, (time, b, gate_index)), (b, gate_index))

            def gates(b: Var) -> Stmt:
                return serial_loop(count, lambda n: unit_loop(size, lambda j: gate(b, n, j)), "n")

            def backward(b: Var, j: Var) -> Stmt:
                value = read(carried, (b, j))
                return BufferStore(state, value if cells else read(state, (b, j)) + value, (b, j))

            return seq(
                serial_loop(batch, lambda b: unit_loop(size, lambda j: unit(b, j)), "b"),
                serial_loop(batch, gates, "b"),
                state_product(carried, pre, weight),
                serial_loop(batch, lambda b: unit_loop(size, lambda j: backward(b, j)), "b"),
            )

        return seq(serial_loop(batch, begin, "b"), serial_loop(steps, step, "t"))

    state_shape = hidden.shape
    shapes = [*[flow.shape] * (1 + cells), *[state_shape] * (1 + cells), (batch, width), state_shape]
    inputs = [cast_tensor(t, acc_dtype, "wide") for t in tensors]
    result = te.extern(shapes, inputs, emit, short_name(call), [acc_dtype] * len(shapes))
    return tuple([cast_tensor(t, flow.data_type, "cast") for t in result[:-2]])


def _backward_ref(flow: Any, hidden: Any, keep: Any, factors: Any, weight: Any, reverse: bool = False) -> Any:
    out, count = np.empty_like(flow), len(weight) // max(flow.shape[2], 1)
    for t in time_steps(len(flow), not reverse):
        total = out[t] = flow[t] + hidden
        hidden = total * keep[t] + (np.tile(total, (1, count)) * factors[t]) @ weight
    return out, hidden


def _lstm_ref(
    flow: Any, hidden: Any, keep: Any, factors: Any, weight: Any, cell: Any, through: Any, reverse: bool = False
) -> Any:
    out, cells = np.empty_like(flow), np.empty_like(flow)
    for t in time_steps(len(flow), not reverse):
        total = out[t] = flow[t] + hidden
        inner = cells[t] = cell + total * through[t]
        hidden = (np.concatenate([inner, inner, inner, total], axis=1) * factors[t]) @ weight
        cell = inner * keep[t]
    return out, cells, hidden, cell


recurrent_backward = row(
    "grad.recurrent_backward",
    (*_LAYER[:-1], _WEIGHT, attribute("reverse", False)),
    _backward_type(_LAYER),
    "Returns the gradients of the outputs of all steps of nn.rnn or nn.gru and of the initial state.",
    lower=_backward,
    ref=in_float32(_backward_ref),
    grad=SECOND_DERIVATIVE,
    samples="f32[4,2,3], f32[2,3], f32[4,2,3], f32[4,2,9], f32[9,3], reverse=each(False, True); "
    "f16[2,1,1], f16[1,1], f16[2,1,1], f16[2,1,1], f16[1,1]",
)
lstm_backward = row(
    "grad.lstm_backward",
    (
        *_LAYER[:-1],
        _WEIGHT,
        "cell_grad: the gradient of the last cell state",
        "through: factor of each output's gradient in that of its cell",
        attribute("reverse", False),
    ),
    _backward_type(_LSTM),
    "Returns the gradients of the outputs and cells of all steps of nn.lstm and of both initial states.",
    lower=_backward,
    ref=in_float32(_lstm_ref),
    grad=SECOND_DERIVATIVE,
    samples="f32[4,2,3], f32[2,3], f32[4,2,3], f32[4,2,12], f32[12,3], f32[2,3], f32[4,2,3], "
    "reverse=each(False, True); "
    "f32[0,1,2], f32[1,2], f32[0,1,2], f32[0,1,8], f32[8,2], f32[1,2], f32[0,1,2]",
)
