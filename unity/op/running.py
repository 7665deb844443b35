"""Running largest and smallest (with their indices) and running log of sums of exponentials, along one axis.

Running sums and products: scan.py. Of equal elements the last counts; a NaN stays from where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import te
from ..ffi.dtype import DataType
from ..ir import build
from ..ir.buffer import Buffer
from ..ir.expr import Call, Var
from ..ir.stmt import BufferStore, IfThenElse, Stmt, seq
from ..ir.types import Expr, TensorType, TupleType, Type
from .elementwise import in_float32
from .lowering import SMALL_FLOATS, result_dtype, short_name
from .reduce import cast_tensor
from .rules import ZERO, fail, float_tensor, int_attr, like, normal_axis, tensor_arg
from .scan import loops, read
from .table import Operator, attribute, row

FAMILY = "reduce"


def _extreme_type(call: Call) -> Type:
    ty = tensor_arg(call, 0, "data")
    if ty.ndim == 0:
        raise fail(call, "E212", "a scalar has no axis", None, call.args[0])
    normal_axis(call, int_attr(call, "axis"), ty.ndim)
    return TupleType((ty, like(ty, DataType("int64"))))


def _extreme(largest: bool) -> Callable[..., Any]:
    def wins(new: Expr, old: Expr) -> Expr:
        better = build.ge(new, old) if largest else build.le(new, old)
        if not build.dtype_of(new).is_float:
            return better
        return build.logical_or(build.ne(new, new), better)

    def lower(call: Call, x: te.Tensor) -> Any:
        axis = normal_axis(call, int_attr(call, "axis"), x.ndim)
        kind = x.data_type
        source = te.compute(x.shape, lambda *i: x[i].astype("int8"), "wide") if kind.is_bool else x

        def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            data, values, places = ins[0], outs[0], outs[1]

            def body(i: list[Var]) -> Stmt:
                before: list[Expr] = list(i)
                before[axis] = build.sub(i[axis], 1)
                new, old = read(data, i), read(values, before)
                take = seq(BufferStore(values, new, tuple(i)), BufferStore(places, i[axis], tuple(i)))
                hold = seq(BufferStore(values, old, tuple(i)), BufferStore(places, read(places, before), tuple(i)))
                return IfThenElse(build.eq(i[axis], ZERO), take, IfThenElse(wins(new, old), take, hold))

            return loops(data.shape, body)

        values, places = te.extern(
            [x.shape, x.shape], [source], emit, short_name(call), [source.data_type, DataType("int64")]
        )
        return cast_tensor(values, kind, "cast"), places

    return lower


def _extreme_ref(largest: bool) -> Callable[..., Any]:
    def ref(x: np.ndarray, axis: int) -> Any:
        lines = np.moveaxis(x, axis, 0)
        values, places = lines.copy(), np.zeros(lines.shape, np.int64)
        for t in range(1, len(lines)):
            new, old = lines[t], values[t - 1]
            better = (new != new) | ((new >= old) if largest else (new <= old))
            values[t] = np.where(better, new, old)
            places[t] = np.where(better, t, places[t - 1])
        return np.moveaxis(values, 0, axis), np.moveaxis(places, 0, axis)

    return ref


def _extreme_row(largest: bool) -> Operator:
    name, what = ("cummax", "Largest") if largest else ("cummin", "Smallest")
    return row(
        name,
        ("data", attribute("axis")),
        _extreme_type,
        f"{what} element so far along an axis and its index, the last of equal ones; NaN stays.",
        family=FAMILY,
        lower=_extreme(largest),
        ref=_extreme_ref(largest),
    )


cummax = _extreme_row(True)
cummin = _extreme_row(False)


def _log_type(call: Call) -> Type:
    ty = float_tensor(call, 0, "data")
    normal_axis(call, int_attr(call, "axis"), ty.ndim)
    return TensorType(ty.shape, ty.dtype, ty.ndim, ty.vdevice)


def _add_in_logs(a: Expr, b: Expr) -> Expr:
    high, low = build.maximum(a, b), build.minimum(a, b)
    grown = build.add(high, build.intrinsic("log1p", build.intrinsic("exp", build.sub(low, high))))
    return build.select(build.intrinsic("isinf", high), high, grown)


def _logcumsumexp(call: Call, x: te.Tensor) -> te.Tensor:
    axis = normal_axis(call, int_attr(call, "axis"), x.ndim)
    wide = DataType("float32") if x.dtype in SMALL_FLOATS else x.data_type

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def body(i: list[Var]) -> Stmt:
            before: list[Expr] = list(i)
            before[axis] = build.sub(i[axis], 1)
            value = read(ins[0], i)
            more = _add_in_logs(read(outs[0], before), value)
            first = BufferStore(outs[0], value, tuple(i))
            return IfThenElse(build.eq(i[axis], ZERO), first, BufferStore(outs[0], more, tuple(i)))

        return loops(ins[0].shape, body)

    made = te.extern(x.shape, [cast_tensor(x, wide, "wide")], emit, "logcumsumexp", wide)
    return cast_tensor(made, result_dtype(call), "cast")


logcumsumexp = row(
    "logcumsumexp",
    ("data", attribute("axis")),
    _log_type,
    "Logarithm of the running sum of exponentials along an axis, without overflow.",
    family=FAMILY,
    lower=_logcumsumexp,
    ref=in_float32(lambda x, axis: np.logaddexp.accumulate(x, axis=axis)),
)
