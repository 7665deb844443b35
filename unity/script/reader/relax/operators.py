"""Calls in graph functions: of operators by their rows, of functions, of macros.

Invariant: a call read here carries its inferred type; nothing is bound to a variable yet (the block builder does that).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

from ....ffi.dtype import DataType
from ....ir import (
    OPS,
    Call,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Op,
    PrimFunc,
    PrimType,
    Tuple,
    TupleGetItem,
    Type,
    Var,
    make_call,
    op,
)
from ....op.common.table import bind_arguments, call_arguments
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import KEYWORDS, TYPE_FIELDS
from ..common.calls import arguments, expansion
from ..common.constants import attribute_value
from ..common.plain import is_number
from ..common.reading import Reading
from ..common.scope import Macro
from ..common.types import as_type
from ..common.values import as_expr, as_typed
from ..tir import calls as scalar_calls
from .graph import GraphReading, read_statements

FLOAT64 = DataType("float64")
_PACKED = frozenset(("R.call_packed", "R.call_pure_packed", "R.call_inplace_packed", "R.call_py_func"))


def call_operator(r: Reading, path: str, args: list[Any], keywords: dict[str, Any], node: s.Syntax) -> Expr:
    """A call of an operator of the table, arguments bound by its row."""
    info = OPS.get(path)
    if info is None:
        raise r.error("E111", f"unknown operator {path}", node.func if type(node) is s.Call else node, similar(r, path))
    span = r.span(node)
    keywords = {KEYWORDS.get(key, key): value for key, value in keywords.items()}
    ty_args = type_arguments(r, keywords.pop("ty_args", None), node)
    if path == "R.call_py_func" and "out_ty" in keywords:
        ty_args = type_arguments(r, keywords.pop("out_ty"), node)
    known = {param.name for param in info.params}
    extra = {} if path not in _PACKED else {k: keywords.pop(k) for k in list(keywords) if k not in known}
    if info.variadic and len(args) > 1 and all([isinstance(arg, Expr) for arg in args]):
        args = [tuple(args)]
    values, attrs = bind_arguments(info, args, keywords, span)
    if info.params and info.params[0].name == "func":
        values[0] = as_callee(r, values[0], node)
    if [(p.name, p.kind) for p in info.params[1:2]] == [("args", "expr")] and isinstance(values[1], (tuple, list)):
        values[1] = Tuple(operands_of(r, values[0], values[1], node), span)  # scalars among them are not a shape
    operands = [value if type(value) is float else as_expr(r, value, node) for value in values]
    exprs = call_arguments(info, operands, attrs)
    result = {key: attribute_value(value) for key, value in (attrs | extra).items()}
    return make_call(op(path), exprs, result, ty_args, span)


def similar(r: Reading, path: str) -> str | None:
    """Operators and forms with a name like this one."""
    return suggest(path, {**OPS, **{name: form for name, form in r.level.forms.items() if name.startswith("R.")}})


def tuple_of(r: Reading, values: tuple[Any, ...] | list[Any], node: s.Syntax) -> Tuple:
    """The tuple of some values."""
    return Tuple(tuple([as_expr(r, value, node) for value in values]), r.span(node))


def operands_of(r: Reading, callee: Expr, values: Sequence[Any], node: s.Syntax) -> tuple[Expr, ...]:
    """The arguments of a function: a plain number is of the type of the scalar parameter; where parameters are not known, a float
    keeps all its digits."""
    params = r.module.parameters(callee)
    if params is None:
        return tuple([as_typed(r, v, FLOAT64, node) if type(v) is float else as_expr(r, v, node) for v in values])
    scalars = [p.dtype if type(p) is PrimType and p.dtype.code != "handle" else None for p in params]
    wanted = zip(values, chain(scalars, repeat(None)))
    return tuple([as_typed(r, v, ty, node) if ty and is_number(v) else as_expr(r, v, node) for v, ty in wanted])


def type_arguments(r: Reading, value: Any, node: s.Syntax) -> tuple[Type, ...]:
    """Types of results, written as one or as several."""
    if value is None:
        return ()
    return tuple([as_type(r, item, node) for item in (value if isinstance(value, (tuple, list)) else (value,))])


def as_callee(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """The function of a call: text names a registered one."""
    if type(value) is str:
        return ExternFunc(value, r.span(node))
    if isinstance(value, (PrimFunc, Function)):
        return r.module.adopt(r, value, node)
    if isinstance(value, Expr):
        return value
    raise r.error("E113", "expected a function of the module or the name of a registered one", node)


_REFUSED = {
    "R.emit_te": "calls a Python function while reading; build the function with BlockBuilder.emit_te, or write the operator",
    "R.dist": "distributed tensors are not part of this compiler",
}


def call(r: Reading, path: str, node: s.Call) -> Any:
    """A call of a dotted name that has no form."""
    if not path.startswith("R.") or path.rpartition(".")[0] in TYPE_FIELDS:
        return scalar_calls.call(r, path, node)
    for prefix, reason in _REFUSED.items():
        if path == prefix or path.startswith(prefix + "."):
            raise r.error("E117", f"{path}: {reason}", node)
    return call_operator(r, path, *arguments(r, node), node)


def call_value(r: Reading, callee: Any, node: s.Call) -> Any:
    """A call of a function, an operator or a macro."""
    if type(callee) is Macro:
        return _expand(r, callee, node)
    if isinstance(callee, (PrimFunc, Function)):
        callee = r.module.adopt(r, callee, node)
    if type(callee) is Op:
        return call_operator(r, callee.name, *arguments(r, node), node)
    if not isinstance(callee, (GlobalVar, Var, ExternFunc, Call, TupleGetItem, If)):
        raise r.error("E113", "this is not a function", node.func)
    args, keywords = arguments(r, node)
    ty_args = type_arguments(r, keywords.pop("ty_args", keywords.pop("sinfo_args", None)), node)
    attrs = {key: attribute_value(value) for key, value in keywords.items()}
    return make_call(callee, operands_of(r, callee, args, node), attrs, ty_args, r.span(node))


def _expand(r: Reading, macro: Macro, node: s.Call) -> Any:
    """Read the body of a macro in place of its call; gives what it returns."""
    if not isinstance(r, GraphReading):
        raise r.error("E113", "macros stand in functions", node)
    outer = r.result, r.return_node
    with expansion(r, macro, node):
        r.result = None
        try:
            read_statements(r, macro.definition.body, top=True)
            return r.result
        finally:
            r.result, r.return_node = outer
