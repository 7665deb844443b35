"""Operators on the bits of floats: nextafter, frexp.

Invariant: exact for every value, subnormal ones included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir.expr import Call, TupleGetItem
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import dtype_of, field_of
from ..common.lowering import load, result_dims, widened
from ..common.table import R, row
from ..common.type_rules import broadcast_type, float_tensor, like, same_dtype
from .special import bound

_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
"""Bits behind the leading one."""


def _bits(value: te.Value) -> te.Value:
    return te.intrinsic("reinterpret", value, dtype=f"int{value.dtype.bits}")


def _next_type(call: Call) -> Type:
    types = [float_tensor(call, n, f"x{n + 1}") for n in range(2)]
    return broadcast_type(call, types, same_dtype(call, *types))


def _next(call: Call, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    shape, name = result_dims(call), x.dtype
    kind = f"int{x.data_type.bits}"
    one = te.const(1, kind)

    def element(a: te.Value, b: te.Value) -> te.Value:
        up = (b > a) == (a > 0.0)
        stepped = te.intrinsic("reinterpret", te.select(up, _bits(a) + one, _bits(a) - one), dtype=name)
        least = te.intrinsic("reinterpret", one, dtype=name)
        first = te.select(b > 0.0, least, 0.0 - least)
        made = te.select(a == b, b, te.select(a == 0.0, first, stepped))
        return te.select(te.any(te.isnan(a), te.isnan(b)), a + b, made)

    def body(*i: te.Value) -> te.Value:
        return bound(load(x, i, shape), lambda a: bound(load(y, i, shape), lambda b: element(a, b)))

    return te.compute(shape, body, "nextafter")


nextafter = row(
    "nextafter",
    ("x1", "x2"),
    _next_type,
    "Returns the float next to x1 in the direction of x2; NaN if either is NaN.",
    family="binary",
    lower=_next,
    ref=lambda x1, x2: np.nextafter(x1, x2),
    pointwise=True,
    torch=("nextafter",),
)


def _frexp_type(call: Call) -> Type:
    ty: TensorType = float_tensor(call, 0)
    return TupleType((ty, like(ty, DataType("int32"))))


def _frexp(call: Call, x: te.Tensor) -> Any:
    def parts(value: te.Value) -> tuple[te.Value, te.Value]:
        kind, width = f"int{value.dtype.bits}", _MANTISSA[value.dtype.name]
        bias = 2 ** (value.dtype.bits - width - 2) - 1
        small = te.abs(value) < 2.0 ** (1 - bias)
        raw = _bits(te.select(small, value * (2.0 ** (width + 2)), value))
        mask = te.const((2 * bias + 1) << width, kind)
        held = te.intrinsic("bitwise_and", raw, mask)
        exponent = te.intrinsic("shift_right", held, te.const(width, kind)) - te.const(bias - 1, kind)
        exponent = exponent - te.select(small, te.const(width + 2, kind), 0)
        rest = te.intrinsic("bitwise_or", te.intrinsic("bitwise_xor", raw, held), te.const((bias - 1) << width, kind))
        return te.intrinsic("reinterpret", rest, dtype=value.dtype.name), exponent

    def whole(value: te.Value) -> te.Value:
        return te.any(te.isnan(value), te.isinf(value), value == 0.0)

    def mantissa(*i: te.Value) -> te.Value:
        return bound(widened(x[i]), lambda v: te.select(whole(v), v, parts(v)[0])).astype(x.dtype)

    def exponent(*i: te.Value) -> te.Value:
        return bound(widened(x[i]), lambda v: te.select(whole(v), 0, parts(v)[1].astype("int32")))

    return te.compute(x.shape, mantissa, "mantissa"), te.compute(x.shape, exponent, "exponent")


def _frexp_ref(x: np.ndarray) -> Any:
    mantissa, exponent = np.frexp(x if x.dtype in (np.float32, np.float64) else x.astype(np.float32))
    return mantissa.astype(x.dtype), exponent.astype(np.int32)


def _frexp_grad(call: Call, g: Expr) -> list[Any]:
    """A number's fraction is the number over a power of two that stays the same around it."""
    power = R.astype(TupleGetItem(R.frexp(call.args[0]), 1), dtype_of(call.args[0]))
    return [field_of(g, 0) * R.exp2(-power)]


frexp = row(
    "frexp",
    ("x",),
    _frexp_type,
    "Splits x into a mantissa m, 0.5 <= |m| < 1, and an int32 exponent e: x = m * 2^e; e is 0 for 0, NaN and infinities.",
    family="unary",
    lower=_frexp,
    ref=_frexp_ref,
    grad=_frexp_grad,
    pointwise=True,
)
