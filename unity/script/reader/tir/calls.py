"""Calls in tensor programs: which form, intrinsic or data type a dotted name is, calls of functions of the module and of macros.

The body of a macro is read into the open sequence, and has the value that it returns.
"""

from __future__ import annotations

from typing import Any

from ....ir import Call, GlobalVar, PrimType, prim_type
from ....ir.intrinsic import INTRINSICS
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import NODE_FORMS, TYPE_FIELDS
from ..common.builtins import call_builtin
from ..common.calls import arguments, expansion
from ..common.plain import is_number
from ..common.reading import Form, Reading, Silent
from ..common.scope import DTYPE_NAMES, Macro, dtype_name
from ..common.values import read_expr
from .assign import mutable_names
from .expr import as_argument
from .forms import VALUE_FORMS, dtype_call, type_call
from .intrinsics import intrinsic, node_form
from .program import ProgramReading, read_statements

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
    """A call of a macro, or of a function of the module."""
    if type(callee) is Macro:
        return _macro_value(r, callee, node)
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


def _macro_value(r: Reading, macro: Macro, node: s.Call) -> Any:
    assert isinstance(r, ProgramReading)
    known = len(r.errors)
    ended, value = expand(r, macro, node)
    if len(r.errors) > known:
        raise Silent
    if not ended or value is None:
        raise r.error(
            "E113", f"the macro {macro.definition.name} returns no value", node,
            "end it with `return value`, or call it on a line of its own",
        )  # fmt: skip
    return value


def expand(r: ProgramReading, macro: Macro, node: s.Call) -> tuple[bool, Any]:
    """Read a macro's body in place of its call. Returns whether it ended in a return, and the value."""
    hint, naming, mutable = r.hint, r.naming is node, r.mutable
    body = macro.definition.body
    with expansion(r, macro, node) as names:
        r.mutable = mutable_names(body, names)
        try:
            return _read_until_return(r, body, hint, naming)
        finally:
            r.mutable = mutable


def _read_until_return(r: ProgramReading, body: list[s.Syntax], hint: str, naming: bool) -> tuple[bool, Any]:
    """Statements up to the first ``return`` that is reached while reading."""
    for stmt in body:
        if type(stmt) is s.Return:
            if stmt.value is None:
                return True, None
            r.hint, r.naming = hint, stmt.value if naming else None
            return True, read_expr(r, stmt.value)
        if type(stmt) is not s.If or not _returns(stmt):
            read_statements(r, [stmt])
            continue
        ended, value = _read_until_return(r, _known_branch(r, stmt), hint, naming)
        if ended:
            return True, value
    return False, None


def _known_branch(r: ProgramReading, node: s.If) -> list[s.Syntax]:
    """The branch of an ``if`` with a ``return`` in it: its conditions must be known while reading."""
    for condition_node, body in node.clauses:
        value = read_expr(r, condition_node)
        if not is_number(value):
            raise r.error(
                "E107", "a macro returns where running decides", condition_node,
                "return T.if_then_else(condition, a, b), or decide by a constant",
            )  # fmt: skip
        if value:
            return body
    return node.otherwise or []


def _returns(node: s.If) -> bool:
    """True if a ``return`` is inside a branch, not counting loops and ``with`` inside."""
    pending: list[s.Syntax] = [node]
    while pending:
        at = pending.pop()
        if type(at) is s.Return:
            return True
        if type(at) is s.If:
            for _, body in at.clauses:
                pending += body
            pending += at.otherwise or []
    return False
