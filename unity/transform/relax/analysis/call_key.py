"""Keys of operator calls: two calls with one key have the same lowering, up to the arguments passed.

A key holds the operator, its attributes, the types of arguments and result, scalar values, and which arguments are the same.
Symbols count by identity. Invariant: what is not understood makes a key of its own, so a wrong match cannot happen.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ....ffi.dtype import DataType
from ....ir.expr import Call, Constant, DataTypeImm, FloatImm, IntImm, ShapeExpr, StringImm, Tuple, Var
from ....ir.types import Expr, PrimType, ShapeType, TensorType, TupleType


def value_key(value: Any) -> Hashable:
    """Key of an attribute, dimension or type."""
    kind = type(value)
    if value is None or kind in (int, str, bool):
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if kind is IntImm or kind is FloatImm:
        return (kind, value.ty.dtype.name, value_key(value.value))
    if kind is DataType:
        return (kind, value.name)
    if kind is StringImm or kind is DataTypeImm:
        return (kind, value_key(value.value))
    if kind in (tuple, list):
        return (kind, tuple([value_key(v) for v in value]))
    if kind is dict:
        return (kind, tuple([(k, value_key(v)) for k, v in value.items()]))
    if kind is ShapeExpr:
        return (kind, value_key(value.values))
    if kind is TensorType:
        return (kind, value_key(value.shape), value_key(value.dtype), value.ndim)
    if kind is TupleType:
        return (kind, value_key(value.fields))
    if kind is ShapeType:
        return (kind, value_key(value.values), value.ndim)
    if kind is PrimType:
        return (kind, value.dtype.name)
    return (kind, _Identity(value))


class _Identity:
    """Equal to itself alone; keeps the object, so that no other one takes its place in memory."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def call_key(call: Call) -> Hashable:
    """Key of a call of an operator."""
    seen: dict[Expr, int] = {}
    args = tuple([_argument(a, seen) for a in call.args])
    return (
        value_key(getattr(call.op, "name", call.op)),
        args,
        value_key(call.attrs),
        value_key(call.ty_args),
        value_key(call.ty),
    )


def _argument(arg: Expr, seen: dict[Expr, int]) -> Hashable:
    if type(arg) is Tuple:
        return (Tuple, tuple([_argument(f, seen) for f in arg.fields]))
    if type(arg) is Constant and arg.data.ndim == 0:
        return (Constant, arg.data.dtype, arg.data.numpy().tobytes())
    if isinstance(arg, (Var, Constant)):
        number = seen.setdefault(arg, len(seen))
        return (Var, number, value_key(arg.ty))
    return value_key(arg)
