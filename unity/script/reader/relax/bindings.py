"""Bindings of graph functions: assignment, annotation, ``match_cast``.

Invariant: a bound value is in A-normal form with a type; a name in the text names its variable, temporaries get fresh names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.tensor import Tensor
from ....ir import (
    Constant,
    Expr,
    GlobalVar,
    IntImm,
    MatchCast,
    PrimType,
    ShapeExpr,
    ShapeType,
    TensorType,
    Tuple,
    TupleGetItem,
    Type,
    Var,
    VarBinding,
)  # fmt: skip
from ....ir.build import const
from ....ir.relation import Answer, is_subtype, tensor_type
from ...parser import syntax as s
from ..common.expr import binary
from ..common.names import path_of
from ..common.plain import is_number
from ..common.targets import read_pairs, single_target, unpack
from ..common.types import as_type, dimensions, read_type
from ..common.values import as_expr, as_typed, read_expr, read_scalar
from .graph import GraphReading
from .operators import tuple_of

_MATCH = ("R.match_cast", "R.match_shape")


def read_assign(r: GraphReading, node: s.Assign) -> None:
    """``x = e``, ``a, b = e, f``."""
    target = single_target(r, node)
    pairs = read_pairs(r, target, node.value)
    if pairs:
        for part, value in pairs:
            assign(r, part, value, None, node)
    elif type(node.value) is s.Call and path_of(r, node.value.func) in _MATCH:
        read_match_cast(r, target, node.value)
    else:
        assign(r, target, read_expr(r, node.value), None, node)


def read_annotated(r: GraphReading, node: s.AnnAssign) -> None:
    """``x: type = e``."""
    if node.value is None:
        raise r.error("E113", "a binding needs a value", node)
    ty = read_type(r, node.annotation)
    r.hint = node.target.name if type(node.target) is s.Name else ""
    if type(node.value) is s.Call and path_of(r, node.value.func) in _MATCH:
        read_match_cast(r, node.target, node.value, ty)
        return
    value = read_expr(r, node.value)
    if is_number(value) and isinstance(ty, PrimType):
        value = const(value, ty.dtype)
    assign(r, node.target, value, ty, node)


def read_augmented(r: GraphReading, node: s.AugAssign) -> None:
    """``x += e``, which binds the name anew."""
    if type(node.target) is not s.Name:
        raise r.error("E113", "only a name can be assigned in a graph function", node.target)
    value = binary(r, node.op, read_expr(r, node.target), read_expr(r, node.value), node)
    assign(r, node.target, value, None, node)


def assign(r: GraphReading, target: s.Syntax, value: Any, ty: Type | None, node: s.Syntax) -> None:
    """Give a target a value: expressions are bound to a variable, anything else is named."""
    if isinstance(target, (s.TupleLit, s.ListLit)):
        if isinstance(value, Expr):
            fields = getattr(value.ty, "fields", None)
            if fields is None:
                raise r.error("E113", "this value has no parts to unpack", target)
            whole = bind(r, "", value, None, node)
            value = tuple([TupleGetItem(whole, index) for index in range(len(fields))])
        for part, item in unpack(r, target, value):
            assign(r, part, item, None, node)
        return
    if type(target) is not s.Name:
        raise r.error("E113", "only a name can be assigned in a graph function", target)
    if isinstance(value, str):
        raise r.error("E113", "text is written R.str(...)", node)
    declared = isinstance(value, Var) and value in r.declared
    if declared:
        r.declared.discard(value)
    if declared or (isinstance(value, GlobalVar) and ty is None) or not _is_bound(value):
        r.scope.names[target.name] = value  # a symbol, a function, a module alias, a type, a macro
        return
    if type(value) is float and isinstance(ty, PrimType):
        value = as_typed(r, value, ty.dtype, node)
    expr = tuple_of(r, value, node) if isinstance(value, tuple) else as_expr(r, value, node)
    r.scope.names[target.name] = bind(r, target.name, expr, ty, target)


def _is_bound(value: Any) -> bool:
    """A value that a binding can hold; a list only at the outermost."""
    if isinstance(value, (tuple, list)):
        return all([not isinstance(item, list) and _is_bound(item) for item in value])
    return isinstance(value, (Expr, Tensor, np.ndarray, DataType)) or is_number(value)


def bind(r: GraphReading, name: str, value: Expr, ty: Type | None, node: s.Syntax) -> Var:
    """Bind a value to a new variable; a written type must be possible."""
    normal = r.builder.normalize(value)
    found = normal.ty
    if ty is not None:
        if is_subtype(found, ty) is Answer.NO:
            raise r.error("E118", f"a value of type {found} never has type {ty}", node)
        found = ty
    span = r.span(node)
    var = Var(name or r.builder.get_unique_name("gv"), found, span, r.is_dataflow_local(name))
    r.builder.emit_binding(VarBinding(var, normal, span))
    return var


def read_match_cast(r: GraphReading, target: s.Syntax | None, node: s.Call, written: Type | None = None) -> None:
    """``y = R.match_cast(x, type)``: symbols of the type that are not known yet are bound."""
    if len(node.args) != 2 or node.keywords:
        raise r.error("E112", f"{path_of(r, node.func)} takes a value and what it matches", node)
    value = read_scalar(r, node.args[0])
    r.defining = True
    try:
        wanted = _pattern(r, value, node.args[1])
    finally:
        r.defining = False
    leaf = r.builder.normalize(value)
    if not isinstance(leaf, (Var, Tuple, ShapeExpr, Constant, IntImm)):
        leaf = bind(r, "", leaf, None, node)
    if is_subtype(leaf.ty, wanted) is Answer.NO:
        raise r.error("E118", f"a value of type {leaf.ty} never has type {wanted}", node)
    name = target.name if type(target) is s.Name else "_"
    var = Var(name, written or wanted, r.span(target or node), r.is_dataflow_local(name))
    r.builder.emit_binding(MatchCast(var, leaf, wanted, r.span(node)))
    if type(target) is s.Name:
        r.scope.names[name] = var


def _pattern(r: GraphReading, value: Expr, node: s.Syntax) -> Type:
    """The type that a value is matched with; a shape alone keeps the data type."""
    pattern = read_expr(r, node)
    if not isinstance(pattern, (tuple, list, ShapeExpr)):
        return as_type(r, pattern, node)
    dims = dimensions(r, pattern, node)
    return tensor_type(dims, value.ty.dtype) if isinstance(value.ty, TensorType) else ShapeType(dims, len(dims))
