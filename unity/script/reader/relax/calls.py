"""Calls in graph functions: operators by name, functions, macros."""

from __future__ import annotations

from typing import Any

from ....ir import (
    Call,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Op,
    PrimFunc,
    TupleGetItem,
    Var,
    make_call,
)
from ...parser import syntax as s
from ...spelling.spelling import TYPE_FIELDS
from ..common.calls import arguments
from ..common.constants import attribute_value
from ..common.macros import expansion
from ..common.reading import Reading
from ..common.scope import Macro
from ..tir import calls as scalar_calls
from .graph import GraphReading, read_statements
from .operators import call_operator, operands_of, type_arguments

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
