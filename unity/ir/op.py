"""The operator table: one row per graph operator, filled by the op room, read by reader, printer, passes and docs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..ffi.dtype import DataType
from ..support.arguments import checked
from ..support.errors import InternalError, TypeRuleError
from .expr import Call
from .node import Node
from .types import Expr, TensorType, TupleType, Type

REQUIRED: Any = object()
"""Default of a parameter that must be given."""


@dataclass(slots=True, frozen=True)
class Param:
    """One parameter of an operator.

    ``kind``: "expr" an expression (tensor, shape, scalar, tuple), stored in ``Call.args``; "exprs" any further positional
    expressions; "attr" a compile-time value, stored in ``Call.attrs``. Optional "expr" parameters left out are not stored
    when they are last; a default that is not None is put in by ``bind_arguments``.
    """

    name: str
    kind: str = "expr"
    default: Any = REQUIRED
    doc: str = ""


@dataclass(slots=True, eq=False)
class OpInfo:
    """A row. ``name`` is the script spelling (``R.nn.relu``).

    ``infer``: Call -> Type, raises TypeRuleError. ``pure``: bool or Call -> bool.
    ``lower``: Call -> tensor expression (see op room), or a sentence saying why there is none. ``grad``: call and gradient of its
    result -> the gradient of each argument, None where there is none; or a sentence.
    ``ref``: the meaning in numpy, called as ``ref(*arrays, **attrs)``; or a sentence. ``doc``: the docstring.
    The fields behind ``variadic`` are traits: what passes ask of a row instead of knowing it by name.
    """

    name: str
    params: tuple[Param, ...]
    infer: Callable[[Call], Type]
    doc: str
    pure: bool | Callable[[Call], bool] = True
    lower: Callable[..., Any] | str = "runs as a VM instruction or builtin"
    grad: Callable[[Call, Expr], list[Any]] | str = "not differentiable"
    ref: Callable[..., Any] | str = "defined by the interpreter"
    family: str = "core"
    variadic: bool = False
    """True when one tuple argument may also be given as separate positional arguments."""
    pointwise: bool = False
    """Each element of the results comes from the elements at its place, of operands that are broadcast."""
    view: bool = False
    """The result is the first operand's elements in their order, in another shape: it may be its memory."""
    aliases: bool = False
    """The result is the memory of the first operand."""
    layout: Callable[..., Any] | None = None
    """The rule for calls on tensors whose channels come last: a rule of ``op/common/channels_last.py``."""
    mixed_precision: str = "never"
    """Use of 16-bit floats under mixed precision: "always", "follow" (where its operands are), "never"."""
    narrow_argument: int | None = None
    """The one argument that mixed precision gives in 16-bit floats."""
    scalars_from: int | None = None
    """Literals among the operands from this one on take the dtype of its tensors."""
    typed_scalars: bool = False
    """The dtype of the result is that of scalar operands."""
    implied: Callable[[str, Expr], Any] | None = None
    """The value of an optional expression that is left out before others."""
    torch: tuple[str, ...] = ()
    """Overloads of torch's ATen ("silu", "add.Tensor") that mean the row: their arguments are the row's, in its order."""
    torch_operands: str = "result"
    """The dtype in which torch takes the operands: that of the "result", the "promoted" one, or "float"."""
    domain: tuple[float, float] = (-2.0, 2.0)
    """The range from which tests of a pointwise operator draw floats; they make its samples of its parameters and its type rule."""
    samples: str = ""
    """Calls that tests make and the page of operators shows, as ``tools/op_samples.py`` reads them."""


def usage(info: OpInfo) -> str:
    """Return the call of the operator ``info`` with its parameters and defaults, in one line."""
    parts = []
    for p in info.params:
        text = f"*{p.name}" if p.kind == "exprs" else p.name
        parts.append(text if p.default is REQUIRED else f"{text}={p.default!r}")
    return f"{info.name}({', '.join(parts)})"


_INTEGER = re.compile(r"T\.int(?:32|64)\((-?\d+)\)")


def strip_int_types(message: str) -> str:
    """A message with integers as numbers: the printer writes their types outside of shapes."""
    return _INTEGER.sub(r"\1", message)


_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"), int: ((int,), "an integer"), float: ((float, int), "a number"), str: ((str,), "a string"),
    tuple: ((tuple, list, int), "integers"),
}  # fmt: skip
"""Types that may stand for an attribute whose default is of a type, and how they are called."""


def check_attributes(info: OpInfo, call: Call) -> None:
    """Raise TypeRuleError E214 for an attribute of another kind than its default; IR values are left to the type rule."""
    for param in info.params:
        value = call.attrs.get(param.name)
        if param.kind != "attr" or value is None or value is param.default or isinstance(value, Node):
            continue
        kind = type(param.default)
        fits, what = _KINDS.get(kind, ((), "a number, a string or a tuple"))
        right = isinstance(value, fits) if fits else not isinstance(value, dict) or param.default is REQUIRED
        right = right or param.name.endswith("kwargs")
        if kind is bool:
            right = right or value in (0, 1)
        elif isinstance(value, bool) and fits:
            right = False
        elif kind is str:
            right = right or isinstance(value, DataType)
        if not right:
            message = strip_int_types(f"{info.name}: {param.name} must be {what}, got {value!r}")
            raise TypeRuleError("E214", message, call.span, help=usage(info))
        if not fits_int64(value):
            raise TypeRuleError(
                "E214", f"{info.name}: {param.name} is outside the range of int64", call.span, help=usage(info)
            )


def fits_int64(value: Any) -> bool:
    """True when the integers a value holds fit 64 bits."""
    if isinstance(value, (tuple, list)):
        return all([fits_int64(item) for item in value])
    return not isinstance(value, int) or -(2**63) <= value < 2**64


OPS: dict[str, OpInfo] = {}
NO_ROW = OpInfo("", (), lambda call: call.ty, "No operator.", pure=False)
"""The result of ``row_of`` for anything but a call of an operator."""


@cache
def _operands(info: OpInfo) -> tuple[int, float]:
    """Least and greatest number of operands."""
    kinds = [(p.kind, p.default is REQUIRED) for p in info.params if p.kind != "attr"]
    return kinds.count(("expr", True)), math.inf if "exprs" in dict(kinds) else len(kinds)


def check_operands(info: OpInfo, call: Call) -> None:
    """Raise TypeRuleError E215 for a call with more or fewer operands than the operator takes, E201 for a computation on tensors
    whose types name different devices."""
    least, most = _operands(info)
    if not least <= len(call.args) <= most:
        count = f"{least}" if least == most else f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise TypeRuleError("E215", f"{info.name} takes {count} operands, got {len(call.args)}", help=usage(info))
    if callable(info.lower):
        devices = dict.fromkeys([device for arg in call.args for device in _devices(arg.ty)])
        if len(devices) > 1:
            first, second = [*devices][:2]
            help = f'move one of them: R.to_vdevice(x, "{first}")'
            raise TypeRuleError(
                "E201", f"{info.name}: the operands lie on different devices, {first} and {second}", help=help
            )


def _devices(ty: Type) -> list[str]:
    """The virtual devices that a type names."""
    if isinstance(ty, TupleType):
        return [device for field in ty.fields for device in _devices(field)]
    return [ty.vdevice] if isinstance(ty, TensorType) and ty.vdevice is not None else []


@checked
def register_op(info: OpInfo) -> OpInfo:
    """Register the row ``info``. Raises InternalError E901 for a name that is registered."""
    if info.name in OPS:
        raise InternalError("E901", f"operator {info.name} is registered twice")
    OPS[info.name] = info
    return info


def row_of(expr: Expr) -> OpInfo:
    """The row of the operator that a call applies; one without traits for other expressions."""
    return OPS.get(expr.op_name, NO_ROW) if type(expr) is Call else NO_ROW


def is_pure_op(call: Call) -> bool:
    """Purity of a call to an Op by its row; an unknown operator counts as impure."""
    info = row_of(call)
    return info.pure if isinstance(info.pure, bool) else info.pure(call)


def shares_memory(call: Call) -> bool:
    """True if the result of an operator is the memory of its first argument (a view, or the argument itself)."""
    info = row_of(call)
    return info.aliases or info.view
