"""Expressions of graph functions: conversion of values, operators, fields of tuples, attributes.

Scalars among them (symbols, arithmetic of shapes) are read as in tensor programs. Not here: calls (``operators.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.tensor import Tensor
from ....ir import (
    OPS,
    Call,
    DataTypeImm,
    Expr,
    Function,
    IRModule,
    PrimFunc,
    PrimType,
    ShapeExpr,
    ShapeType,
    StringImm,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    build as b,
    op,
)  # fmt: skip
from ....op.common.table import R, constant
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import INFIX, PREFIX_GRAPH
from ..common.calls import arguments
from ..common.expr import EXPRESSIONS
from ..common.names import dotted_value, read_name
from ..common.plain import is_number
from ..common.reading import Reading, Table
from ..common.scope import Dotted
from ..common.types import dimension
from ..common.values import as_expr, read_expr, read_integer
from ..tir import access, expr as scalars
from .operators import call_operator, similar

_FIELDS: dict[type, tuple[str, ...]] = {
    TensorType: ("shape", "dtype", "ndim"), ShapeType: ("values", "ndim"), TupleType: ("fields",), PrimType: ("dtype",),
    ShapeExpr: ("values",),
}  # fmt: skip
"""The fields of the type ``x.ty``, where the text asks for a part of it."""


@dataclass(slots=True, frozen=True)
class RunTimeDtype:
    """``x.dtype`` of a tensor whose data type only running knows; ``x.dtype.bits`` asks for it."""

    tensor: Expr


def convert(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A value as graph expression."""
    if isinstance(value, (Function, PrimFunc)):
        return r.module.adopt(r, value, node)
    if isinstance(value, Expr):
        return value
    if isinstance(value, (tuple, list)):
        parts = [as_expr(r, item, node) for item in value]
        if parts and all([isinstance(part.ty, PrimType) for part in parts]):
            return ShapeExpr(tuple([dimension(r, item, node) for item in value]), r.span(node))
        return Tuple(tuple(parts), r.span(node))
    if is_number(value):
        default = "bool" if type(value) is bool else "int64" if type(value) is int else "float32"
        return b.const(value, default, r.span(node))
    if type(value) is str:
        return StringImm(value, r.span(node))
    if type(value) is DataType:
        return DataTypeImm(value, r.span(node))
    if type(value) is Tensor or isinstance(value, np.ndarray):
        return constant(value if type(value) is Tensor else Tensor(np.ascontiguousarray(value)))
    if type(value) is Dotted:
        if value.text in OPS:
            return op(value.text)
        raise r.error("E111", f"unknown operator {value.text}", node, similar(r, value.text))
    raise r.error("E113", "expected an expression", node)


def _is_scalar(value: Any) -> bool:
    return is_number(value) or (isinstance(value, Expr) and isinstance(value.ty, PrimType))


def binary(r: Reading, op_text: str, left: Any, right: Any, node: s.Syntax) -> Expr:
    """``left op right``."""
    if _is_scalar(left) and _is_scalar(right):
        return scalars.binary(r, op_text, left, right, node)
    row = INFIX.get(op_text)
    if row is None or row.graph is None:
        raise r.error("E107", f"operator {op_text} has no meaning for tensors", node)
    return call_operator(r, row.graph, [left, right], {}, node)


def unary(r: Reading, op_text: str, value: Any, node: s.Syntax) -> Any:
    """A prefix operator."""
    if _is_scalar(value):
        return scalars.unary(r, op_text, value, node)
    return value if op_text == "+" else call_operator(r, PREFIX_GRAPH[op_text], [value], {}, node)


def conditional(r: Reading, condition: Any, node: s.IfExp) -> Expr:
    """``a if condition else b`` of scalars."""
    if _is_scalar(condition):
        then, otherwise = read_expr(r, node.then), read_expr(r, node.otherwise)
        if _is_scalar(then) and _is_scalar(otherwise):
            return b.if_then_else(condition, then, otherwise, r.span(node))
    raise r.error("E107", "a conditional expression on tensors", node, "write if/else statements")


def subscript(r: Reading, value: Any, node: s.Subscript) -> Any:
    """``value[...]``: fields of tuples and dimensions of shapes; anything else as in tensor programs."""
    if not isinstance(value, Expr):
        return access.subscript(r, value, node)
    ty, only = value.ty, len(node.items) == 1
    if isinstance(ty, TupleType) and only:
        return tuple_field(r, value, read_integer(r, node.items[0]), node)
    if isinstance(ty, ShapeType) and only and ty.values is not None:
        index = read_integer(r, node.items[0])
        if -len(ty.values) <= index < len(ty.values):
            return ty.values[index]
    if type(value) is Call and value.op is R.shape_of.op:  # of a tensor whose rank only running knows
        return call_operator(r, R.inspect.tensor_shape_i.name, [value.args[0], read_expr(r, node.items[0])], {}, node)
    if isinstance(ty, TensorType):
        raise r.error("E113", "a tensor takes no index in a graph function", node, "use R.strided_slice or R.take")
    if not isinstance(ty, (PrimType, ShapeType, TupleType)) and only:
        return tuple_field(r, value, read_integer(r, node.items[0]), node)
    return access.subscript(r, value, node)


def tuple_field(r: Reading, value: Expr, index: int, node: s.Syntax) -> Expr:
    """A field of a tuple; of a value whose type is not known, by its number alone."""
    if isinstance(value.ty, TupleType):
        if not -len(value.ty.fields) <= index < len(value.ty.fields):
            raise r.error("E113", f"field {index} of a tuple with {len(value.ty.fields)}", node)
        index %= len(value.ty.fields)
        if type(value) is Tuple:
            return value.fields[index]
    return TupleGetItem(value, index, r.span(node))


def attribute(r: Reading, value: Any, node: s.Attribute) -> Any:
    """``value.name``."""
    name = node.name
    if type(value) is IRModule:
        if name not in value.functions:
            raise r.error("E110", f"the module has no function {name!r}", node, suggest(name, value.functions))
        return value.functions[name]
    if isinstance(value, Expr) and isinstance(value.ty, TensorType):
        if name == "shape":
            return call_operator(r, R.shape_of.name, [value], {}, node)
        if name == "dtype":
            return value.ty.dtype or RunTimeDtype(value)
        if name in ("ndim", "byte_offset", "elem_offset"):
            return call_operator(r, f"R.inspect.tensor_{name}", [value], {}, node)
    if isinstance(value, Expr) and name in ("ty", "struct_info"):
        return value.ty
    if isinstance(value, (Type, ShapeExpr)) and name in _FIELDS.get(type(value), ()):
        found = getattr(value, name)
        if found is None:
            raise r.error("E113", f"{name} of {value} is not known here", node)
        return found
    if type(value) is RunTimeDtype and name in ("bits", "lanes", "code"):
        return call_operator(r, f"R.inspect.tensor_dtype_{name}", [value.tensor], {}, node)
    return access.attribute(r, value, node)


def method(r: Reading, value: Any, name: str, node: s.Call) -> Any:
    """``value.name(...)``."""
    if not isinstance(value, Expr) or _is_scalar(value):
        return access.method(r, value, name, node)
    if name == "astype":
        args, keywords = arguments(r, node)
        return call_operator(r, R.astype.name, [value, *args], keywords, node)
    known = f"use R.{name}(...)" if f"R.{name}" in OPS else None
    raise r.error("E111", f"no method {name!r} here", node.func, known)


def operator_or_name(r: Reading, path: str, node: s.Syntax) -> Any:
    """A dotted name that is not called: an operator, or what it is in tensor programs."""
    return op(path) if path in OPS else dotted_value(r, path, node)


def _name(r: Reading, node: s.Name) -> Any:
    if node.name == "_":
        raise r.error("E113", "`_` stands for a value that is not used: give it a name", node)
    return read_name(r, node)


GRAPH_EXPRESSIONS: Table = {**EXPRESSIONS, s.Name: _name}
