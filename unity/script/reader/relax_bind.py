"""Bindings of graph functions: assignment, annotation, ``match_cast``.

Invariant: a bound value is in A-normal form; a name written in the text names its variable, temporaries get fresh names.
"""

from __future__ import annotations

from typing import Any

from ...ir import (
    BlockBuilder,
    DataflowVar,
    Expr,
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
    prim_type,
)  # fmt: skip
from ...ir.build import const
from ...ir.relation import Answer, is_subtype, tensor_type
from ..parser import syntax as s
from .base import Reading
from .plain import is_number
from .relax_expr import GraphExprReader
from .scope import Scope

_INT64 = prim_type("int64")
_LEAF_STMTS = (s.Pass, s.Skipped)


_CONSTANTS = frozenset(("Tensor", "ndarray", "DataType"))


class BindReader(GraphExprReader):
    """Holds the function being built, and reads bindings into it."""

    def __init__(self, reading: Reading, scope: Scope, node: s.FunctionDef) -> None:
        super().__init__(reading, scope)
        self.node = node
        self.builder = BlockBuilder()
        self.params: list[Var] = []
        self.ret_ty: Type | None = None
        self.attrs: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.dataflow = False
        self.outputs: set[str] = set()
        self.expansion_depth = 0
        self.result: Expr | None = None
        self.return_node: s.Syntax | None = None
        self.hidden: dict[str, Var] = {}
        self.outer_symbols: list[Var] = []

    def _aug_assign(self, node: s.AugAssign) -> None:
        if type(node.target) is not s.Name:
            raise self.error("E113", "only a name can be assigned in a graph function", node.target)
        value = self.binary(node.op, self.evaluate(node.target), self.evaluate(node.value), node)
        self.assign(node.target, value, None, node)

    def _assign(self, node: s.Assign) -> None:
        if len(node.targets) != 1:
            raise self.error("E107", "script does not have chained assignment", node, "write one assignment per line")
        target = node.targets[0]
        self.declared.clear()
        both = isinstance(target, (s.TupleLit, s.ListLit)) and isinstance(node.value, (s.TupleLit, s.ListLit))
        if both and len(target.items) == len(node.value.items):  # type: ignore[attr-defined]
            values = []
            for part, value in zip(target.items, node.value.items):  # type: ignore[attr-defined]
                self.hint, self.naming = (part.name if type(part) is s.Name else ""), value
                values.append(self.evaluate(value))
            for part, value in zip(target.items, values):  # type: ignore[attr-defined]
                self.assign(part, value, None, node)
            return
        self.hint, self.naming = (target.name if type(target) is s.Name else ""), node.value
        if type(node.value) is s.Call and self.path(node.value.func) in ("R.match_cast", "R.match_shape"):
            self._match_cast(target, node.value)
            return
        self.assign(target, self.evaluate(node.value), None, node)

    def _ann_assign(self, node: s.AnnAssign) -> None:
        if node.value is None:
            raise self.error("E113", "a binding needs a value", node)
        ty = self.type_of(node.annotation)
        self.hint = node.target.name if type(node.target) is s.Name else ""
        if type(node.value) is s.Call and self.path(node.value.func) == "R.match_cast":
            self._match_cast(node.target, node.value, ty)
            return
        value = self.evaluate(node.value)
        if is_number(value) and isinstance(ty, PrimType):
            value = const(value, ty.dtype)
        self.assign(node.target, value, ty, node)

    def assign(self, target: s.Syntax, value: Any, ty: Type | None, node: s.Syntax) -> None:
        """Give a target a value: expressions are bound to a variable, anything else is named."""
        if isinstance(target, (s.TupleLit, s.ListLit)):
            self._assign_parts(target, value, node)
            return
        if type(target) is not s.Name:
            raise self.error("E113", "only a name can be assigned in a graph function", target)
        if isinstance(value, Var) and value in self.declared:
            self.declared.discard(value)
            self.scope.names[target.name] = value
            return
        if (
            not isinstance(value, (Expr, tuple, list))
            and not is_number(value)
            and type(value).__name__ not in _CONSTANTS
        ):
            if isinstance(value, str):
                raise self.error("E113", "text is written R.str(...)", node)
            self.scope.names[target.name] = value  # a module alias, a type, a macro
            return
        if type(value).__name__ == "GlobalVar" and ty is None:
            self.scope.names[target.name] = value
            return
        if isinstance(value, (tuple, list)) and not all([self._is_graph_value(item) for item in value]):
            self.scope.names[target.name] = value
            return
        if isinstance(value, tuple):
            expr: Expr = Tuple(tuple([self.expr(v, node) for v in value]), self.reading.span(node))
        else:
            expr = self.expr(value, node)
        self.scope.names[target.name] = self.bind(target.name, expr, ty, target)

    def _is_graph_value(self, value: Any) -> bool:
        if type(value) is tuple:
            return all([self._is_graph_value(item) for item in value])
        return isinstance(value, Expr) or is_number(value) or type(value).__name__ in _CONSTANTS

    def _assign_parts(self, target: s.Syntax, value: Any, node: s.Syntax) -> None:
        if isinstance(value, Expr):
            fields = getattr(value.ty, "fields", None)
            if fields is None:
                raise self.error("E113", "this value has no parts to unpack", target)
            whole = self.bind("", value, None, node)
            value = tuple([TupleGetItem(whole, index) for index in range(len(fields))])
        for part, item in self.unpack(target, value):
            self.assign(part, item, None, node)

    def bind(self, name: str, value: Expr, ty: Type | None, place: s.Syntax) -> Var:
        """Bind a value to a new variable; a written type must be possible."""
        normal = self.builder.normalize(value)
        found = normal.ty
        if ty is not None:
            if is_subtype(found, ty) is Answer.NO:
                raise self.error("E118", f"a value of type {found} never has type {ty}", place)
            found = ty
        inside = self.dataflow and name not in self.outputs
        var = (DataflowVar if inside else Var)(
            name or self.builder.get_unique_name("gv"), found, self.reading.span(place)
        )
        self.builder.emit_binding(VarBinding(var, normal, self.reading.span(place)))
        return var

    def _match_cast(self, target: s.Syntax | None, node: s.Call, written: Type | None = None) -> None:
        path = self.path(node.func)
        if len(node.args) != 2 or node.keywords:
            raise self.error("E112", f"{path} takes a value and what it matches", node)
        value = self.expr(self.evaluate(node.args[0]), node.args[0])
        self.defining = True
        try:
            pattern = self.evaluate(node.args[1])
            if isinstance(pattern, (tuple, list, ShapeExpr)):
                dims = self.dimensions(pattern, node.args[1])
                source = value.ty
                wanted: Type = ShapeType(dims, len(dims))
                if isinstance(source, TensorType):
                    wanted = tensor_type(dims, source.dtype)
            else:
                wanted = self.as_type(pattern, node.args[1])
        finally:
            self.defining = False
        leaf = self.builder.normalize(value)
        if not isinstance(leaf, (Var, Tuple, ShapeExpr)) and type(leaf).__name__ not in ("Constant", "IntImm"):
            leaf = self.bind("", leaf, None, node)
        if is_subtype(leaf.ty, wanted) is Answer.NO:
            raise self.error("E118", f"a value of type {leaf.ty} never has type {wanted}", node)
        name = target.name if type(target) is s.Name else "_"
        inside = self.dataflow and name not in self.outputs
        var = (DataflowVar if inside else Var)(name, written or wanted, self.reading.span(target or node))
        self.builder.emit_binding(MatchCast(var, leaf, wanted, self.reading.span(node)))
        if type(target) is s.Name:
            self.scope.names[name] = var
