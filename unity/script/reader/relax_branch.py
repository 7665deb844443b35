"""Dataflow blocks and conditionals of graph functions.

Invariant: only the outputs of a dataflow block are visible after it; both branches of a conditional end by binding one name.
"""

from __future__ import annotations

from typing import Any

from ...ir import (
    Constant,
    DataflowVar,
    Expr,
    If,
    PrimType,
    SeqExpr,
    TensorType,
    Tuple,
    Var,
    prim_type,
)  # fmt: skip
from ...ir.builder import join_branches
from ...support.errors import Note
from ..parser import syntax as s
from .base import Silent, bind_arguments
from .relax_bind import BindReader
from .scope import POISON, Scope

_INT64 = prim_type("int64")
_LEAF_STMTS = (s.Pass, s.Skipped)


_LEAF_CALLS = frozenset(
    ("R.const", "R.const_bytes", "R.shape", "R.tuple", "R.prim_value", "R.str", "R.dtype", "R.ExternFunc")
)


class BranchReader(BindReader):
    """Reads blocks and branches."""

    def statements(self, body: list[s.Syntax], top: bool = False) -> None:
        """Read statements into the open sequence."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------- blocks, branches

    def _with(self, node: s.With) -> None:
        call = node.items[0].value
        path = self.path(call.func) if type(call) is s.Call else None
        if path != "R.dataflow" or len(node.items) != 1 or type(call) is not s.Call:
            raise self.error("E113", "`with` takes R.dataflow() in a graph function", node)
        bind_arguments(self.reading, call, path, (), *self.arguments(call), 0)
        if self.dataflow:
            raise self.error("E120", "a dataflow block inside a dataflow block", node)
        body, names = self._split_output(node)
        outer = self.scope
        self.scope = Scope(outer)
        self.outputs, self.dataflow = set(names), True
        self.builder.begin_dataflow()
        before = len(self.reading.errors)
        try:
            self.statements(body)
        finally:
            self.builder.end_dataflow()
            inner, self.scope = self.scope, outer
            self.outputs, self.dataflow = set(), False
        for name in names:
            value = inner.names.get(name)
            if value is None:
                if len(self.reading.errors) == before:
                    self.reading.record(
                        self.reading.error("E120", f"output {name!r} is not bound in this block", node), node
                    )
                value = POISON
            outer.names[name] = value
        for name, value in inner.names.items():
            if name not in names and isinstance(value, DataflowVar) and outer.get(name) is not value:
                self.hidden[name] = value

    def unknown_name(self, node: s.Name) -> Any:
        if node.name in self.hidden and node.name not in self.symbols:
            raise self.reading.error(
                "E120", f"{node.name!r} is visible only inside its dataflow block", node, f"add it to R.output({node.name})",
                [Note("defined here", self.hidden[node.name].span)],
            )  # fmt: skip
        return super().unknown_name(node)

    def _split_output(self, node: s.With) -> tuple[list[s.Syntax], list[str]]:
        body = [stmt for stmt in node.body if type(stmt) is not s.Skipped]
        names: list[str] = []
        rest: list[s.Syntax] = []
        for place, stmt in enumerate(body):
            call = stmt.value if type(stmt) is s.ExprStmt else None
            if type(call) is s.Call and self.path(call.func) == "R.output":
                if place != len(body) - 1:
                    self.reading.record(
                        self.reading.error("E120", "R.output must be the last line of the block", stmt), stmt
                    )
                for arg in call.args:
                    if type(arg) is not s.Name:
                        self.reading.record(self.reading.error("E120", "R.output takes names", arg), arg)
                        continue
                    names.append(arg.name)
                continue
            rest.append(stmt)
        return rest, names

    def _if(self, node: s.If) -> None:
        if self.dataflow:
            raise self.error("E120", "a branch has no place in a dataflow block", node)
        if node.otherwise is None:
            raise self.error("E116", "`if` in a graph function needs `else`: both branches give the value", node)
        value = self._conditional(node.clauses, node.otherwise, node)
        if value is None:
            raise Silent
        name, made = value
        self.scope.names[name] = self.bind(name, made, None, node)

    def _conditional(self, clauses: list[Any], otherwise: list[s.Syntax], node: s.If) -> tuple[str, Expr] | None:
        condition = self.expr(self.evaluate(clauses[0][0]), clauses[0][0])
        self._check_condition(condition, clauses[0][0])
        condition = self.builder.normalize(condition)
        if not isinstance(condition, (Var, Constant)) and not isinstance(condition.ty, PrimType):
            condition = self.bind("", condition, None, clauses[0][0])
        then = self._branch(clauses[0][1], node)
        if len(clauses) > 1:
            self.builder.begin_sequence()
            inner = self._conditional(clauses[1:], otherwise, node)
            if inner is None:
                self.builder.end_sequence(Tuple(()))
                return None
            var = self.bind(inner[0], inner[1], None, node)
            other: tuple[str, SeqExpr] | None = (inner[0], self.builder.end_sequence(var))
        else:
            other = self._branch(otherwise, node)
        if then is None or other is None:
            return None
        if then[0] != other[0]:
            raise self.error(
                "E116", f"the branches end with different names, {then[0]!r} and {other[0]!r}", node,
                "bind the value of the conditional to one name at the end of both",
            )  # fmt: skip
        made = If(condition, then[1], other[1], join_branches(then[1], other[1]), self.reading.span(node))
        return then[0], made

    def _check_condition(self, condition: Expr, node: s.Syntax) -> None:
        ty = condition.ty
        good = isinstance(ty, PrimType) and ty.dtype.is_bool
        if isinstance(ty, TensorType):
            good = (ty.dtype is None or ty.dtype.is_bool) and ty.ndim in (0, -1)
        if not good and type(ty).__name__ != "ObjectType":
            raise self.error("E118", f"the condition must be a bool scalar, got {ty}", node)

    def _branch(self, body: list[s.Syntax], node: s.Syntax) -> tuple[str, SeqExpr] | None:
        """A branch as (name of its value, sequence). The last binding gives the value."""
        stmts = [stmt for stmt in body if type(stmt) not in _LEAF_STMTS]
        last = stmts[-1] if stmts else None
        name = _bound_name(last)
        if isinstance(last, s.Return):
            raise self.error(
                "E116",
                "return stands only at the end of the function",
                last,
                "bind the value to a name in both branches",
            )
        if name is None or last is None:
            raise self.error("E116", "a branch ends by binding its value to a name", last or node)
        before = len(self.reading.errors)
        outer = self.scope
        self.scope = Scope(outer)
        self.builder.begin_sequence()
        result: Expr = Tuple(())
        try:
            self.statements(stmts[:-1])
            leaf = self._leaf_value(last)
            if leaf is not None:
                result = leaf
            else:
                self.statements([last])
                found = self.scope.get(name)
                if isinstance(found, Expr):
                    result = found
        finally:
            sequence = self.builder.end_sequence(result)
            self.scope = outer
        return None if len(self.reading.errors) > before else (name, sequence)

    def _leaf_value(self, stmt: s.Syntax) -> Expr | None:
        """The value of ``y = leaf``: a leaf needs no binding of its own in a branch."""
        if type(stmt) is not s.Assign or (type(stmt.value) is s.Call and self.path(stmt.value.func) not in _LEAF_CALLS):
            return None
        if not isinstance(stmt.value, (s.Name, s.Call, s.TupleLit, s.Number)):
            return None
        value = self.evaluate(stmt.value)
        if isinstance(value, tuple):
            value = Tuple(tuple([self.expr(item, stmt) for item in value]), self.reading.span(stmt))
        expr = self.expr(value, stmt)
        return self.builder.normalize(expr)


def _bound_name(stmt: s.Syntax | None) -> str | None:
    if isinstance(stmt, s.Assign) and len(stmt.targets) == 1 and type(stmt.targets[0]) is s.Name:
        return stmt.targets[0].name
    if isinstance(stmt, s.AnnAssign) and type(stmt.target) is s.Name:
        return stmt.target.name
    if isinstance(stmt, s.FunctionDef):
        return stmt.name
    if isinstance(stmt, s.If):
        inner = [x for x in stmt.clauses[0][1] if type(x) not in _LEAF_STMTS]
        return _bound_name(inner[-1]) if inner else None
    return None
