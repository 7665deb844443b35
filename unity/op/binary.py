"""Binary elementwise operators with numpy broadcasting."""

from __future__ import annotations

import numpy as np

from ..ir.expr import Call, FloatImm, IntImm
from ..ir.types import PrimType, TensorType, Type
from .rules import argument, broadcast_type, fail, same_dtype
from .table import Operator, row


def _operand(call: Call, index: int, name: str) -> TensorType | None:
    """A tensor's type; a scalar counts as rank 0; None for a literal, which adopts the other's dtype."""
    arg = argument(call, index, name)
    if isinstance(arg.ty, TensorType):
        return arg.ty
    if isinstance(arg.ty, PrimType):
        from ..ir.relation import tensor_type

        return None if type(arg) in (IntImm, FloatImm) else tensor_type((), arg.ty.dtype)
    raise fail(call, "E210", f"{name} must be a tensor or a scalar, got {arg.ty}", None, arg)


def arithmetic_type(call: Call) -> Type:
    """Type of an arithmetic operator."""
    found = [_operand(call, 0, "x1"), _operand(call, 1, "x2")]
    types = [t for t in found if t is not None]
    if not types:
        return call.args[0].ty
    return broadcast_type(call, types, same_dtype(call, *types))


def _binary(name: str, ref, doc: str) -> Operator:  # type: ignore[no-untyped-def]
    return row(name, ("x1", "x2"), arithmetic_type, doc, family="binary", ref=ref, extra={"scalars": True})


add = _binary("add", np.add, "x1 + x2.")
subtract = _binary("subtract", np.subtract, "x1 - x2.")
multiply = _binary("multiply", np.multiply, "x1 * x2.")
