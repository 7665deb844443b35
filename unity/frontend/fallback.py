"""Calls back into torch: an operator without translation becomes a typed call of a registered function of its name.

The call carries everything: its first argument is a JSON template of the operator's arguments in which ``{"$": i}`` stands for
the i-th following operand, ``{"number": i}`` for the number it holds and ``{"call": ...}`` for the result of another operator.
Not here: the functions that are called (`vm/torch_model/operators.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from ..ffi.registry import get_global_func, register_func
from ..ir.builder import make_call
from ..ir.expr import Call, ExternFunc, StringImm, op
from ..ir.types import Expr, TensorType, TupleType, Type
from ..support.extras import require
from ..vm.torch_model.operators import PREFIX, torch_function
from .report import Gap


def call_torch(
    target: Any, args: Any, kwargs: dict[str, Any], ty: Type, pure: bool, numbers: Set[Expr] = frozenset()
) -> Call:
    """A call of a torch operator with a given result type; its function gets registered. Raises Gap.

    Tensors among ``numbers`` are passed as Python numbers.
    """
    operands: list[Expr] = []
    parts = [_encode(list(args), operands, numbers), _encode(kwargs, operands, numbers)]
    template = json.dumps([*parts, _dtypes(ty)])
    name = PREFIX + str(target)
    if get_global_func(name, allow_missing=True) is None:
        register_func(name, torch_function(target))
    kind = op("R.call_pure_packed" if pure else "R.call_packed")
    return make_call(kind, [ExternFunc(name), StringImm(template), *operands], None, (ty,))


@dataclass(slots=True, frozen=True, eq=False)
class Deferred:
    """The result of a torch operator that no tensor of ours can hold (a complex one): computed inside the call that uses it."""

    target: Any
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any = None
    """What torch inferred for it."""


def complex_of(real: Expr, value: Any) -> Deferred:
    """The complex tensor (for torch: ``value``) of a tensor with real and imaginary part along its last axis."""
    return Deferred(require("torch").ops.aten.view_as_complex.default, [real], {}, value)


def holds_deferred(value: Any) -> bool:
    """Is there a ``Deferred`` among nested arguments?"""
    if isinstance(value, dict):
        return any([holds_deferred(v) for v in value.values()])
    if isinstance(value, (list, tuple)):
        return any([holds_deferred(v) for v in value])
    return isinstance(value, Deferred)


def _dtypes(ty: Type) -> Any:
    """dtypes of the tensors of a result type, nested as these are."""
    if isinstance(ty, TupleType):
        return [_dtypes(field) for field in ty.fields]
    return ty.dtype.name if isinstance(ty, TensorType) and ty.dtype is not None else None


def _encode(value: Any, operands: list[Expr], numbers: Set[Expr]) -> Any:
    if isinstance(value, Expr):
        operands.append(value)
        return {"number" if value in numbers else "$": len(operands) - 1}
    if isinstance(value, (list, tuple)):
        return [_encode(v, operands, numbers) for v in value]
    if isinstance(value, dict):
        return {"keys": {k: _encode(v, operands, numbers) for k, v in value.items()}}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, Deferred):
        parts = [_encode(value.args, operands, numbers), _encode(value.kwargs, operands, numbers)]
        return {"call": [str(value.target), *parts]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    kind = type(value).__name__
    if kind in ("dtype", "memory_format", "layout"):
        return {"torch": str(value).removeprefix("torch.")}
    if kind == "device":
        return {"device": str(value)}
    raise Gap(f"an argument of type {kind} cannot be written down")
