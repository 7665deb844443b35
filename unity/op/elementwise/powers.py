"""Power with numpy broadcasting, of floats and of integers.

Integers wrap around, as their products do; a negative exponent gives the power's integer part: 0 but for the bases 1 and -1
(and 0, which gives 0).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.expr import Call, IntImm, Var
from ...ir.stmt import BufferStore, IfThenElse, Stmt, While, seq
from ...ir.types import Expr
from ..common.gradients import elementwise_grad
from ..common.loop_nests import loops, read
from ..common.lowering import elementwise, let_value, load, result_dims, result_dtype
from ..common.table import R, row
from ..common.type_rules import ONE, ZERO
from .binary import adopted, lower_with_literals, power_type
from .unary import in_float32


def _known(base: te.Value, exponent: int) -> te.Value:
    """An integer to a known power: products of squares."""
    one = te.const(1, base.dtype)
    if exponent < 0:
        minus = te.const(1 if exponent % 2 == 0 else -1, base.dtype)
        return te.select(base == 1, one, te.select(base == -1, minus, te.const(0, base.dtype)))
    if exponent < 2:
        return base if exponent else one
    return let_value(_known(base, exponent // 2), lambda half: half * half * base if exponent % 2 else half * half)


def _by_squaring(call: Call, base: te.Tensor, exponent: te.Tensor) -> te.Tensor:
    dtype = result_dtype(call)
    one, zero, minus = [build.const(n, dtype) for n in (1, 0, 0 if dtype.is_uint else -1)]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        result, state = outs
        square, rest = ZERO, ONE

        def body(i: list[Var]) -> Stmt:
            def current(which: Expr) -> Expr:
                return read(state, (which,))

            value, count = read(ins[0], i), read(ins[1], i)
            odd = build.eq(build.intrinsic("bitwise_and", current(rest), one), one)
            half = build.intrinsic("shift_right", current(rest), one)
            first: Expr = one
            if not dtype.is_uint:
                even = build.eq(build.intrinsic("bitwise_and", count, one), zero)
                sign = build.select(build.eq(value, minus), build.select(even, one, minus), zero)
                first = build.select(build.lt(count, zero), build.select(build.eq(value, one), one, sign), one)
            steps = seq(
                IfThenElse(odd, BufferStore(result, build.mul(read(result, i), current(square)), tuple(i))),
                BufferStore(state, build.mul(current(square), current(square)), (square,)),
                BufferStore(state, half, (rest,)),
            )
            return seq(
                BufferStore(state, value, (square,)),
                BufferStore(state, count, (rest,)),
                BufferStore(result, first, tuple(i)),
                While(build.gt(current(rest), zero), steps),
            )

        return loops(result.shape, body)

    return te.extern([base.shape, (2,)], [base, exponent], emit, "power", dtype)[0]


_FLOATS = lower_with_literals(te.power)


def _power(call: Call, *inputs: Any) -> te.Tensor:
    dtype, shape = result_dtype(call), result_dims(call)
    if dtype.is_float:
        return _FLOATS(call, *inputs)
    base, exponent = adopted(call.args, inputs)
    if isinstance(call.args[1], IntImm):
        known = call.args[1].value
        return elementwise(call, lambda x: _known(x, known), base)
    return _by_squaring(
        call,
        te.compute(shape, lambda *i: load(base, i, shape), "operand"),
        te.compute(shape, lambda *i: load(exponent, i, shape), "operand"),
    )


def _power_ref(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    if x1.dtype != x2.dtype:  # a literal adopts the dtype of the tensor
        x1, x2 = (x1, x2.astype(x1.dtype)) if x2.ndim == 0 else (x1.astype(x2.dtype), x2)
    dtype = np.result_type(x1, x2)
    if (
        dtype.kind not in "iu"
    ):  # numpy's own power takes a root where the exponent is 0.5, with the wrong sign for -0 and -inf
        return np.asarray(np.float_power(x1.astype("float64"), x2.astype("float64")), dtype)
    result = np.power(x1, np.maximum(x2, np.asarray(0, x2.dtype)))
    sign = np.where(x1 == 1, 1, np.where(x1 == -1, np.where(x2 % 2 == 0, 1, -1), 0)).astype(result.dtype)
    return np.where(x2 < 0, sign, result)


def _power_backward(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    first = R.multiply(g, R.multiply(b, R.power(a, R.subtract(b, 1.0))))
    return first, R.multiply(g, R.multiply(R.power(a, b), R.log(a)))


power = row(
    "power",
    ("x1", "x2"),
    power_type,
    "Returns x1 to the power x2; integers wrap, and negative integer exponents give the integer part.",
    family="binary",
    ref=in_float32(_power_ref),
    lower=_power,
    grad=elementwise_grad(_power_backward),
    domain=(0.1, 2),
    torch=("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar"),
    pointwise=True,
    scalars_from=0,
)
