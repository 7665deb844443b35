"""Data types that values of graph functions may have, checked before the passes.

Every type with a numpy counterpart, one lane. Vectors, pointers, ``void`` and numbers below a byte exist in tensor programs only.
"""

from __future__ import annotations

from ..ffi.dtype import DataType, dtype_names
from ..ir.expr import Call, If, MatchCast, SeqExpr, Tuple, TupleGetItem, VarBinding
from ..ir.function import Function
from ..ir.module import IRModule
from ..ir.types import Expr, PrimType, TensorType, TupleType, Type
from ..support.errors import VMError
from ..support.source import Span

_KNOWN = frozenset([DataType(name) for name in dtype_names()])


def check_data_types(mod: IRModule) -> None:
    """Raise VMError E626 for a parameter, result or value of a graph function whose data type no value has."""
    for name, fn in mod.graph_functions().items():
        _check(name, fn)


def _check(name: str, fn: Function) -> None:
    stack: list[Expr] = [fn]
    while stack:
        expr = stack.pop()
        if type(expr) is Function:
            for param in expr.params:
                _type(name, param.ty, param.name, param.span)
            stack.append(expr.body)
        elif type(expr) is SeqExpr:
            for block in expr.blocks:
                for binding in block.bindings:
                    if isinstance(binding, (VarBinding, MatchCast)):
                        _type(name, binding.var.ty, binding.var.name, binding.span)
                        stack.append(binding.value)
                    if isinstance(binding, MatchCast):
                        _type(name, binding.target, binding.var.name, binding.span)
            stack.append(expr.body)
        elif type(expr) is If:
            stack += [expr.cond, expr.then_branch, expr.else_branch]
        elif type(expr) is Call:
            _type(name, expr.ty, "a result", expr.span)
            stack += expr.args
        elif type(expr) is Tuple:
            stack += expr.fields
        elif type(expr) is TupleGetItem:
            stack.append(expr.tuple_value)


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
