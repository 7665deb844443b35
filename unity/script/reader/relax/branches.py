"""Dataflow blocks and conditionals of graph functions.

Invariant: only the outputs of a dataflow block are visible after it; both branches of a conditional end by binding one name.
"""

from __future__ import annotations

from ....ir import Constant, Expr, If, PrimType, SeqExpr, Tuple, Var, is_dataflow_var
from ....ir.builder import join_branches
from ....ir.relation import is_condition
from ....support.errors import UnityError
from ...parser import syntax as s
from ..common.calls import arguments
from ..common.names import path_of
from ..common.reading import Silent, bind_arguments, poison
from ..common.scope import POISON, Scope
from ..common.values import as_expr, read_expr, read_scalar
from .bindings import bind
from .graph import NOTHING, GraphReading, read_statements
from .operators import tuple_of

_LEAF_CALLS = frozenset(
    ("R.const", "R.const_bytes", "R.shape", "R.tuple", "R.prim_value", "R.str", "R.dtype", "R.ExternFunc")
)


def read_with(r: GraphReading, node: s.With) -> None:
    """``with R.dataflow():``."""
    call = node.items[0].value
    path = path_of(r, call.func) if type(call) is s.Call else None
    if path != "R.dataflow" or len(node.items) != 1 or type(call) is not s.Call:
        raise r.error("E113", "`with` takes R.dataflow() in a graph function", node)
    bind_arguments(r, call, path, (), *arguments(r, call), 0)
    if r.dataflow:
        raise r.error("E120", "a dataflow block inside a dataflow block", node)
    body, names = _split_output(r, node)
    outer, inner = r.scope, Scope(r.scope)
    r.scope, r.outputs, r.dataflow = inner, set(names), True
    r.builder.begin_dataflow()
    before = len(r.errors)
    try:
        read_statements(r, body)
    finally:
        r.builder.end_dataflow()
        r.scope, r.outputs, r.dataflow = outer, set(), False
    for name in names:
        value = inner.names.get(name)
        if value is None:
            if len(r.errors) == before:
                r.record(r.error("E120", f"output {name!r} is not bound in this block", node), node)
            value = POISON
        outer.names[name] = value
    for name, value in inner.names.items():
        if name not in names and is_dataflow_var(value) and outer.get(name) is not value:
            r.hidden[name] = value


def _split_output(r: GraphReading, node: s.With) -> tuple[list[s.Syntax], list[str]]:
    """The statements of a dataflow block, and the names that its ``R.output(...)`` gives out."""
    body = [stmt for stmt in node.body if type(stmt) is not s.Skipped]
    names: list[str] = []
    rest: list[s.Syntax] = []
    for stmt in body:
        call = stmt.value if type(stmt) is s.ExprStmt else None
        if type(call) is not s.Call or path_of(r, call.func) != "R.output":
            rest.append(stmt)
            continue
        if stmt is not body[-1]:
            r.record(r.error("E120", "R.output must be the last line of the block", stmt), stmt)
        for arg in call.args:
            if type(arg) is s.Name:
                names.append(arg.name)
            else:
                r.record(r.error("E120", "R.output takes names", arg), arg)
    return rest, names


def read_if(r: GraphReading, node: s.If) -> None:
    """``if`` / ``else``: the name that both branches end by binding is bound."""
    try:
        if r.dataflow:
            raise r.error("E120", "a branch has no place in a dataflow block", node)
        if node.otherwise is None:
            raise r.error("E116", "`if` in a graph function needs `else`: both branches give the value", node)
        value = _conditional(r, node.clauses, node.otherwise, node)
        if value is None:
            raise Silent
        name, made = value
        r.scope.names[name] = bind(r, name, made, None, node)
    except (Silent, UnityError):
        _poison_branches(r, node)
        raise


def _poison_branches(r: GraphReading, node: s.If) -> None:
    """Mark the names that the branches bind, after an error in the conditional."""
    for _, body in node.clauses:
        for stmt in body:
            if isinstance(stmt, s.If):
                _poison_branches(r, stmt)
            else:
                poison(r, stmt)


def _conditional(
    r: GraphReading, clauses: list[tuple[s.Syntax, list[s.Syntax]]], otherwise: list[s.Syntax], node: s.If
) -> tuple[str, Expr] | None:
    (place, body), rest = clauses[0], clauses[1:]
    condition = read_scalar(r, place)
    if not is_condition(condition.ty):
        raise r.error("E118", f"the condition must be a bool scalar, got {condition.ty}", place)
    condition = r.builder.normalize(condition)
    if not isinstance(condition, (Var, Constant)) and not isinstance(condition.ty, PrimType):
        condition = bind(r, "", condition, None, place)
    then = _branch(r, body, node)
    if rest:
        r.builder.begin_sequence()
        inner = _conditional(r, rest, otherwise, node)
        if inner is None:
            r.builder.end_sequence(Tuple(()))
            return None
        var = bind(r, inner[0], inner[1], None, node)
        other: tuple[str, SeqExpr] | None = (inner[0], r.builder.end_sequence(var))
    else:
        other = _branch(r, otherwise, node)
    if then is None or other is None:
        return None
    if then[0] != other[0]:
        raise r.error(
            "E116", f"the branches end with different names, {then[0]!r} and {other[0]!r}", node,
            "bind the value of the conditional to one name at the end of both",
        )  # fmt: skip
    return then[0], If(condition, then[1], other[1], join_branches(then[1], other[1]), r.span(node))


def _branch(r: GraphReading, body: list[s.Syntax], node: s.Syntax) -> tuple[str, SeqExpr] | None:
    """A branch as (name of its value, sequence). The last binding gives the value."""
    stmts = [stmt for stmt in body if type(stmt) not in NOTHING]
    last = stmts[-1] if stmts else None
    name = _bound_name(last)
    if isinstance(last, s.Return):
        help = "bind the value to a name in both branches"
        raise r.error("E116", "return stands only at the end of the function", last, help)
    if name is None or last is None:
        raise r.error("E116", "a branch ends by binding its value to a name", last or node)
    before = len(r.errors)
    outer, r.scope = r.scope, Scope(r.scope)
    r.builder.begin_sequence()
    result: Expr = Tuple(())
    try:
        read_statements(r, stmts[:-1])
        leaf = _leaf_value(r, last)
        if leaf is not None:
            result = leaf
        else:
            read_statements(r, [last])
            found = r.scope.get(name)
            result = found if isinstance(found, Expr) else result
    finally:
        sequence = r.builder.end_sequence(result)
        r.scope = outer
    return None if len(r.errors) > before else (name, sequence)


def _leaf_value(r: GraphReading, stmt: s.Syntax) -> Expr | None:
    """The value of ``y = leaf``: a leaf needs no binding of its own in a branch."""
    if type(stmt) is not s.Assign or not isinstance(stmt.value, (s.Name, s.Call, s.TupleLit, s.Number)):
        return None
    if type(stmt.value) is s.Call and path_of(r, stmt.value.func) not in _LEAF_CALLS:
        return None
    value = read_expr(r, stmt.value)
    return r.builder.normalize(tuple_of(r, value, stmt) if isinstance(value, tuple) else as_expr(r, value, stmt))


def _bound_name(stmt: s.Syntax | None) -> str | None:
    match stmt:
        case s.Assign() if len(stmt.targets) == 1 and type(stmt.targets[0]) is s.Name:
            return stmt.targets[0].name
        case s.AnnAssign() if type(stmt.target) is s.Name:
            return stmt.target.name
        case s.FunctionDef():
            return stmt.name
        case s.If():
            inner = [x for x in stmt.clauses[0][1] if type(x) not in NOTHING]
            return _bound_name(inner[-1]) if inner else None
    return None
