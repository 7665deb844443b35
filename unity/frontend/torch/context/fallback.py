"""Calls back into torch: an operator without translation becomes a typed call of a registered function of its name.

The call carries everything: its first argument is a JSON template of the operator's arguments in which ``{"$": i}`` stands for
the i-th following operand, ``{"laid": [i, axes]}`` for the same laid out in memory with these axes from outermost to innermost,
``{"number": i}`` for the number it holds and ``{"call": ...}`` for the result of another operator.
Not here: the functions that are called (`frontend/torch/runtime/operators.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from ....ffi.registry import get_global_func, register_func
from ....ir.builder import make_call
from ....ir.expr import Call, ExternFunc, StringImm, op
from ....ir.relation import tensor_dtype
from ....ir.types import Expr, TensorType, TupleType, Type
from ....op.common.table import R
from ....support.optional import require
from ..runtime.operators import PREFIX, torch_function
from .report import Gap


def call_torch(
    target: Any,
    args: Any,
    kwargs: dict[str, Any],
    ty: Type,
    pure: bool,
    numbers: Set[Expr] = frozenset(),
    axes: Sequence[int] = (),
) -> Call:
    """A call of a torch operator with a given result type; its function gets registered. Raises Gap.

    Tensors among ``numbers`` are passed as Python numbers. ``axes``: the order in memory of a result whose values depend on it
    (``memory_order``); operands of as many axes are laid out so for the call.
    """
    operands: list[Expr] = []
    parts = [_encode(list(args), operands, numbers), _encode(kwargs, operands, numbers)]
    if axes:
        parts = _with_memory_order(parts, operands, list(axes))
    template = json.dumps([*parts, _dtypes(ty)])
    name = PREFIX + str(target)
    if get_global_func(name, allow_missing=True) is None:
        register_func(name, torch_function(target))
    kind = op(R.call_pure_packed.name if pure else R.call_packed.name)
    return make_call(kind, [ExternFunc(name), StringImm(template), *operands], None, (ty,))


def memory_order(value: Any) -> Sequence[int]:
    """The axes of torch's inferred (first) result from outermost to innermost in memory; empty where that is the usual order.

    An operator that draws random numbers fills its result in this order: ``randn_like(x.mT)`` draws for each column of ``x.mT``.
    """
    if isinstance(value, (list, tuple)):
        return memory_order(value[0]) if value else ()
    if not isinstance(value, require("torch").Tensor):
        return ()
    axes, _ = require("torch._prims_common").compute_elementwise_output_logical_to_physical_perm(value)
    return [] if axes == sorted(axes) else axes


def _with_memory_order(value: Any, operands: Sequence[Expr], axes: list[int]) -> Any:
    """The template with the operands of as many axes laid out in their order."""
    if isinstance(value, list):
        return [_with_memory_order(v, operands, axes) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "keys":
        return {"keys": {k: _with_memory_order(v, operands, axes) for k, v in inner.items()}}
    ty = operands[inner].ty if kind == "$" else None
    return {"laid": [inner, axes]} if isinstance(ty, TensorType) and ty.ndim == len(axes) else value


@dataclass(slots=True, frozen=True, eq=False)
class Deferred:
    """The result of a torch operator that no tensor of ours can hold (a complex one): computed inside the call that uses it."""

    target: Any
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any = None
    """The metadata that torch inferred for it."""
    node: Any = None
    """The node of torch's graph whose result it is."""


def complex_of(real: Expr, value: Any) -> Deferred:
    """The complex tensor (for torch: ``value``) of a tensor with real and imaginary part along its last axis."""
    return Deferred(require("torch").ops.aten.view_as_complex.default, [real], {}, value)


def _dtypes(ty: Type) -> Any:
    """dtypes of the tensors of a result type, nested as these are."""
    if isinstance(ty, TupleType):
        return [_dtypes(field) for field in ty.fields]
    return tensor_dtype(ty) or None


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
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    kind = type(value).__name__
    if kind in ("dtype", "memory_format", "layout"):
        return {"torch": str(value).removeprefix("torch.")}
    if kind == "device":
        return {"device": str(value)}
    raise Gap(f"an argument of type {kind} cannot be written down")
