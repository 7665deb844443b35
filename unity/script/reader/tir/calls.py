"""Calls in tensor programs: which form, intrinsic or data type a dotted name is, and calls of functions of the module."""

from __future__ import annotations

from typing import Any

from ....ir import Call, GlobalVar, PrimType, prim_type
from ....ir.intrinsic import INTRINSICS
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import NODE_FORMS, TYPE_FIELDS
from ..common.builtins import call_builtin
from ..common.calls import arguments
from ..common.reading import Form, Reading
from ..common.scope import DTYPE_NAMES, dtype_name
from .expr import as_argument
from .forms import VALUE_FORMS, dtype_call, type_call
from .intrinsics import intrinsic, node_form

EXPRESSION_FORMS: dict[str, Form] = {
    **dict.fromkeys(TYPE_FIELDS, type_call), **dict.fromkeys(NODE_FORMS, node_form), **VALUE_FORMS,
}  # fmt: skip
"""Forms with a value, of both levels."""


def call(r: Reading, path: str, node: s.Call) -> Any:
    """A call of a dotted name that has no form."""
    if path in INTRINSICS:
        return intrinsic(r, path, node)
    if dtype_name(path) is not None:
        return dtype_call(r, path, node)
    if "." not in path or path.startswith("math."):
        return call_builtin(r, path, node)
    raise r.error(
        "E111", f"unknown function {path}", node.func, suggest(path, [*INTRINSICS, *r.level.forms, *DTYPE_NAMES])
    )


def call_value(r: Reading, callee: Any, node: s.Call) -> Any:
    """A call of a function of the module."""
    if not isinstance(callee, GlobalVar):
        raise r.error("E113", "this is not a function", node.func)
    args, keywords = arguments(r, node)
    if keywords:
        raise r.error("E112", "a function of the module takes positional arguments", node)
    exprs = tuple([as_argument(r, arg, node) for arg in args])
    returned = r.module.returned(callee.name)
    return Call(
        callee, exprs, {}, (), returned if isinstance(returned, PrimType) else prim_type("int32"), span=r.span(node)
    )
