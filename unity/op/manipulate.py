"""Operators that move elements without computing."""

from __future__ import annotations

import numpy as np

from ..ir.expr import Call
from ..ir.relation import dims, tensor_type
from ..ir.types import TensorType, Type
from .rules import product, tensor_arg
from .table import row


def _flatten_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    known = dims(ty)
    if known is None:
        return TensorType(None, ty.dtype, 1, ty.vdevice)
    return tensor_type((product(known),), ty.dtype, vdevice=ty.vdevice)


flatten = row("flatten", ("x",), _flatten_type, "All elements in one axis.", family="manipulate", ref=lambda x: np.reshape(x, -1))
