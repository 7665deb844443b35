"""Data types that values of graph functions may have, checked before the passes.

Every type with a numpy counterpart, one lane. Vectors, pointers, ``void`` and numbers below a byte exist in tensor programs only.
"""

from __future__ import annotations

from ..ffi.dtype import DataType, dtype_names
from ..ir.expr import Call, MatchCast, Var
from ..ir.module import IRModule
from ..ir.types import PrimType, TensorType, TupleType, Type
from ..ir.walk import collect
from ..support.errors import VMError
from ..support.source import Span

_KNOWN = frozenset([DataType(name) for name in dtype_names()])


def check_data_types(mod: IRModule) -> None:
    """Raise VMError E626 for a parameter, result or value of a graph function whose data type no value has."""
    for name, fn in mod.graph_functions().items():
        for node in collect(fn, (Var, MatchCast, Call)):
            if isinstance(node, MatchCast):
                _type(name, node.target, node.var.name, node.span)
            else:
                _type(name, node.ty, node.name if isinstance(node, Var) else "a result", node.span)


def _type(function: str, ty: Type, what: str, span: Span | None) -> None:
    if isinstance(ty, TupleType):
        for field in ty.fields:
            _type(function, field, what, span)
    elif isinstance(ty, (TensorType, PrimType)) and ty.dtype is not None and ty.dtype not in _KNOWN:
        kind = "a tensor" if isinstance(ty, TensorType) else "a scalar"
        raise VMError(
            "E626",
            f"{function}: {what} is {kind} of {ty.dtype}, a data type that no value of a graph function has",
            span,
            help="hold it in whole bytes: int8 or uint8 for numbers of fewer bits, a further axis for the lanes of a vector",
        )
