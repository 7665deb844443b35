"""Statements: conditions, assertions, calls on a line of their own. ``STATEMENTS`` is the table of all.

Not here: assignments (``assign.py``), loops (``loops.py``), ``with`` (``frames.py``).
"""

from __future__ import annotations

from ....ir import AssertStmt, Break, Call, Continue, Evaluate, Expr, IfThenElse, Return, Stmt
from ...parser import syntax as s
from ..common.expr import ignored, refused, refusing
from ..common.names import lookup
from ..common.plain import is_number
from ..common.reading import Table
from ..common.scope import Macro
from ..common.signature import macro_of
from ..common.values import as_expr, as_text, read_expr
from .assign import read_annotated, read_assign, read_augmented
from .calls import expand
from .expr import as_condition
from .frames import read_with
from .loops import read_for, read_while
from .program import ProgramReading, read_body


def _return(r: ProgramReading, node: s.Return) -> None:
    if r.expansion_depth:
        help = "return at its end; T.ret(value) returns from the function"
        raise r.error("E107", "a macro returns inside a loop or block", node, help)
    value = None if node.value is None else read_expr(r, node.value)
    if value is not None and node.value is not None:
        value = as_expr(r, value, node.value)
    r.out.append(Return(value, r.span(node)))


def _assert(r: ProgramReading, node: s.Assert) -> None:
    condition = as_condition(r, read_expr(r, node.condition), node.condition)
    message, kind = "assertion failed", "RuntimeError"
    if node.message is not None:
        value = read_expr(r, node.message)
        if isinstance(value, tuple) and len(value) == 2:
            kind, value = as_text(r, value[0], node.message), value[1]
        parts = value if isinstance(value, (tuple, list)) else [value]
        message = "".join([as_text(r, part, node.message) for part in parts])
    r.out.append(AssertStmt(condition, message, kind, r.span(node)))


def _nested(r: ProgramReading, node: s.FunctionDef) -> None:
    macro = macro_of(r, node)
    if macro is None:
        help = "define it beside this one and call it, or make it a @T.macro"
        raise r.error("E107", "a function inside a tensor program", node, help)
    r.scope.names[node.name] = macro


def _if(r: ProgramReading, node: s.If) -> None:
    done: list[tuple[Expr, Stmt, s.Syntax]] = []
    last: Stmt | None = None
    for condition_node, body in node.clauses:
        value = read_expr(r, condition_node)
        if is_number(value):  # known while reading: one branch is left
            if not value:
                continue
            last = read_body(r, body)
            break
        done.append((as_condition(r, value, condition_node), read_body(r, body), condition_node))
    else:
        last = read_body(r, node.otherwise) if node.otherwise is not None else None
    for condition, branch, place in reversed(done):
        last = IfThenElse(condition, branch, last, r.span(place))
    if last is not None:
        r.out.append(last)


def _expr_stmt(r: ProgramReading, node: s.ExprStmt) -> None:
    value_node = node.value
    if isinstance(value_node, (s.String, s.Literal)):
        return  # a docstring, or ...
    r.hint = ""
    if type(value_node) is s.Call and type(value_node.func) is s.Name:
        callee = lookup(r, value_node.func.name)
        if type(callee) is Macro:
            expand(r, callee, value_node)
            return
    written, wraps = len(r.out), len(r.wraps)
    value = read_expr(r, value_node)
    if value is None or len(r.wraps) != wraps or (len(r.out) != written and not isinstance(value, Expr)):
        return
    if type(value) is not Call:
        help = "write T.evaluate(...) to evaluate and drop a value"
        raise r.error("E113", "this line has no effect", node, help)
    returns = value.op_name == "T.ret"
    r.out.append(Return(value.args[0], r.span(node)) if returns else Evaluate(value, r.span(node)))


STATEMENTS: Table = {
    s.Assign: read_assign, s.AnnAssign: read_annotated, s.AugAssign: read_augmented, s.ExprStmt: _expr_stmt,
    s.For: read_for, s.While: read_while, s.If: _if, s.With: read_with, s.Return: _return, s.Assert: _assert,
    s.Pass: ignored, s.Skipped: ignored, s.Break: lambda r, node: r.out.append(Break(r.span(node))),
    s.Continue: lambda r, node: r.out.append(Continue(r.span(node))), s.FunctionDef: _nested,
    s.Refused: refused, **refusing({
        s.Import: ("script does not have `import` inside a function", "use the T functions, or pass values by scope="),
        s.ClassDef: ("a class stands only at the top of a text", None),
    }),
}  # fmt: skip
