"""Graph functions: signature, statements, dataflow blocks, conditionals, nested functions.

Not here: expressions (``relax_expr.py``). Invariant: what is built is in A-normal form with a type on every binding; a
name written in the text names its variable, temporaries get fresh names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import (
    BlockBuilder, DataflowVar, Expr, Function, If, MatchCast, PrimType, SeqExpr, ShapeExpr, ShapeType, TensorType, Tuple,
    TupleGetItem, Type, Var, VarBinding, prim_type,
)  # fmt: skip
from ..ir.build import const
from ..ir.builder import join_branches
from ..ir.infer import find_impure_call
from ..ir.relation import Answer, is_subtype, tensor_type
from ..ir.types import VOID_TYPE, FuncType
from ..support.errors import Note, ScriptError, UnityError
from . import syntax as s
from .read_base import Reading, Silent, bind_arguments
from .read_expr import is_number
from .relax_expr import GraphExprReader
from .scope import POISON, Macro, Scope
from .tir_stmt import attribute_value, macro_names

_INT64 = prim_type("int64")
_LEAF_STMTS = (s.Pass, s.Skipped)


class FunctionReader(GraphExprReader):
    """Reads one ``@R.function``: first ``signature``, then ``body``."""

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
        self._statements: dict[type, Callable[[Any], None]] = {
            s.Assign: self._assign, s.AnnAssign: self._ann_assign, s.ExprStmt: self._expr_stmt, s.If: self._if,
            s.With: self._with, s.Return: self._return, s.FunctionDef: self._nested, s.Pass: self._nothing,
            s.Skipped: self._nothing, s.Refused: self._refused, s.Import: self._no_import, s.AugAssign: self._aug_assign,
        }  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- signature

    def signature(self) -> None:
        """Read parameters and return type."""
        node = self.node
        self.scope = Scope(self.scope)
        for param in node.type_params:
            ty = _INT64 if param.bound is None else self.type_of(param.bound)
            self.symbols[param.name] = Var(param.name, ty, self.reading.span(param))
        self.defining = True
        for param in node.params:
            try:
                self._parameter(param)
            except Silent:
                self.scope.names[param.name] = POISON
            except UnityError as problem:
                self.reading.record(problem, param)
                self.scope.names[param.name] = POISON
        if node.returns is not None:
            try:
                self.ret_ty = self.type_of(node.returns)
            except Silent:
                pass
            except UnityError as problem:
                self.reading.record(problem, node.returns)
        self.defining = False
        self.builder.get_unique_name("_")
        for param_var in self.params:
            self.builder.get_unique_name(param_var.name)

    def _parameter(self, param: s.Parameter) -> None:
        if param.star == "*" and not param.name:
            return
        if param.star:
            raise self.error("E114", f"a parameter `{param.star}{param.name}` is not possible", param)
        if param.default is not None:
            raise self.error("E114", f"parameter {param.name!r} cannot have a default value", param)
        if param.annotation is None:
            raise self.error(
                "E114", f"parameter {param.name!r} needs a type", param, 'write for example R.Tensor((n, 4), "float32")'
            )
        if param.name in [known.name for known in self.params]:
            raise self.error("E115", f"two parameters are called {param.name!r}", param)
        self.param_name = param.name
        value = self.annotation(param.annotation)
        self.param_name = ""
        if isinstance(value, Var) and isinstance(value.ty, PrimType):
            raise self.error("E113", "expected a type", param.annotation)
        ty = self.as_type(value, param.annotation)
        known = self.scope.names.get(param.name)
        var = known if isinstance(known, Var) else Var(param.name, ty, self.reading.span(param))
        self.scope.names[param.name] = var
        self.params.append(var)

    def function_type(self) -> FuncType | None:
        """Type of the function while its body is not read: known when the result is annotated."""
        if self.ret_ty is None:
            return None
        return FuncType(tuple([p.ty for p in self.params]), self.ret_ty, bool(self.options.get("pure", True)))

    # ------------------------------------------------------------------------------------------------------------ body

    def body(self) -> Function | None:
        """Read the statements; None when an error leaves nothing to build."""
        before = len(self.reading.errors)
        node = self.node
        self.builder.begin_sequence()
        self.statements(node.body, top=True)
        if len(self.reading.errors) > before:
            return None
        result = self.result if self.result is not None else Tuple((), self.reading.span(node))
        made = self.builder.end_sequence(self.builder.normalize(result))
        pure = self.options.get("pure")
        impure = find_impure_call(made)
        forced = bool(self.attrs.get("force_pure") or self.attrs.get("relax.force_pure"))
        if pure and impure is not None and not forced:
            name = getattr(impure.op, "name", "this call")
            raise ScriptError(
                "E119", f"{name} has an effect, but the function is written pure=True",
                impure.span or self.reading.span(node), help="write @R.function(pure=False), or leave pure out",
            )  # fmt: skip
        ret = self.ret_ty
        if ret is not None and is_subtype(made.ty, ret) is Answer.NO:
            note = Note(f"the function is declared to return {ret}", self.reading.span(node.returns or node))
            raise ScriptError(
                "E118", f"the function returns {made.ty}", self.reading.span(self.return_node or node), [note]
            )
        purity = bool(pure) if pure is not None else impure is None or forced
        return Function(tuple(self.params), made, ret if ret is not None else made.ty, purity, self.attrs, self.reading.span(node))

    def statements(self, body: list[s.Syntax], top: bool = False) -> None:
        """Read statements into the open sequence; an error ends its own statement only."""
        for place, stmt in enumerate(body):
            try:
                if self.result is not None and type(stmt) not in _LEAF_STMTS:
                    raise self.error("E116", "a statement after return", stmt)
                if type(stmt) is s.Return and not top:
                    raise self.error("E116", "return stands only at the end of the function", stmt)
                if place == 0 and top and type(stmt) is s.ExprStmt and type(stmt.value) is s.String:
                    continue
                handler = self._statements.get(type(stmt))
                if handler is None:
                    self._refuse_statement(stmt)
                else:
                    handler(stmt)
            except Silent:
                self._poison(stmt)
            except UnityError as problem:
                self.reading.record(problem, stmt)
                self._poison(stmt)

    def _refuse_statement(self, node: s.Syntax) -> None:
        reasons = {
            s.For: ("`for` has no place in a graph function", "write a recursive function, or a loop in a @T.prim_func"),
            s.While: ("`while` has no place in a graph function", "write a recursive function"),
            s.Assert: ("`assert` has no place in a graph function", "use R.assert_op(condition, format=...)"),
            s.Break: ("`break` has no place in a graph function", None),
            s.Continue: ("`continue` has no place in a graph function", None),
            s.ClassDef: ("a class stands only at the top of a text", None),
        }
        message, help_text = reasons.get(type(node), ("this statement has no place in a graph function", None))
        raise self.error("E107", message, node, help_text)

    def _poison(self, stmt: s.Syntax) -> None:
        targets: list[s.Syntax] = []
        if isinstance(stmt, s.Assign):
            targets = list(stmt.targets)
        elif isinstance(stmt, s.AnnAssign):
            targets = [stmt.target]
        elif isinstance(stmt, s.FunctionDef):
            self.scope.names[stmt.name] = POISON
        elif isinstance(stmt, s.If):
            for _, body in stmt.clauses:
                for inner in body:
                    self._poison(inner)
        while targets:
            target = targets.pop()
            if type(target) is s.Name:
                self.scope.names[target.name] = POISON
            elif isinstance(target, (s.TupleLit, s.ListLit)):
                targets += target.items

    # ------------------------------------------------------------------------------------------------------- statements

    def _nothing(self, node: s.Syntax) -> None:
        return

    def _no_import(self, node: s.Import) -> None:
        raise self.error("E107", "script does not have `import` inside a function", node)

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
                self.hint = part.name if type(part) is s.Name else ""
                values.append(self.evaluate(value))
            for part, value in zip(target.items, values):  # type: ignore[attr-defined]
                self.assign(part, value, None, node)
            return
        self.hint = target.name if type(target) is s.Name else ""
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
        if not isinstance(value, (Expr, tuple, list)) and not is_number(value) and type(value).__name__ not in _CONSTANTS:
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
        expr = Tuple(tuple([self.expr(v, node) for v in value]), self.reading.span(node)) if isinstance(value, tuple) else self.expr(value, node)
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
        var = (DataflowVar if inside else Var)(name or self.builder.get_unique_name("gv"), found, self.reading.span(place))
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

    def _expr_stmt(self, node: s.ExprStmt) -> None:
        value_node = node.value
        self.hint = ""
        if type(value_node) in (s.String, s.Literal):
            return
        if type(value_node) is s.Call:
            path = self.path(value_node.func)
            match path:
                case "R.func_attr":
                    value, = self.arguments(value_node)[0][:1] or (None,)
                    if not isinstance(value, dict):
                        raise self.error("E113", "R.func_attr takes a dict", node)
                    self.attrs.update(attribute_value(value))
                    return
                case "R.match_cast" | "R.match_shape":
                    self._match_cast(None, value_node)
                    return
                case "R.output":
                    raise self.error("E120", "R.output stands at the end of `with R.dataflow()`", node)
        value = self.evaluate(value_node)
        if not isinstance(value, Expr):
            if value is None:
                return
            raise self.error("E113", "this line has no effect", node)
        self.bind("_", value, None, node)

    def _return(self, node: s.Return) -> None:
        self.return_node = node
        if node.value is None:
            self.result = Tuple((), self.reading.span(node))
            return
        value = self.evaluate(node.value)
        if value is None:
            self.result = Tuple((), self.reading.span(node))
        elif isinstance(value, tuple):
            self.result = Tuple(tuple([self.expr(item, node.value) for item in value]), self.reading.span(node))
        else:
            self.result = self.expr(value, node.value)

    def _nested(self, node: s.FunctionDef) -> None:
        macro = self._macro(node)
        if macro is not None:
            self.scope.names[node.name] = macro
            return
        options = function_options(self, node, "R.function")
        if options is None:
            raise self.error("E107", "only @R.function can be nested in a graph function", node)
        inner = FunctionReader(self.reading, self.scope, node)
        inner.symbols = dict(self.symbols)
        inner.options = options
        inner.module_member = self.module_member  # type: ignore[method-assign]
        inner.adopt = self.adopt  # type: ignore[method-assign]
        inner.signature()
        annotated = inner.function_type()
        own: Var | None = None
        if annotated is not None:  # the body may call the function itself
            own = Var(node.name, annotated, self.reading.span(node))
            inner.scope.names.setdefault(node.name, own)
        made = inner.body()
        if made is None:
            raise Silent
        inside = self.dataflow and node.name not in self.outputs
        var = own if own is not None and not inside else (DataflowVar if inside else Var)(node.name, made.ty, self.reading.span(node))
        self.builder.emit_binding(VarBinding(var, made, self.reading.span(node)))
        self.scope.names[node.name] = var

    def _macro(self, node: s.FunctionDef) -> Macro | None:
        for decorator in node.decorators:
            if self.path(decorator.func if type(decorator) is s.Call else decorator) == "R.macro":
                hygienic = True
                for keyword in decorator.keywords if type(decorator) is s.Call else []:
                    hygienic = bool(self.evaluate(keyword.value))
                return Macro(node, self.scope, hygienic, "R")
        return None

    def expand_macro(self, macro: Macro, node: s.Call) -> Any:
        if macro.level != "R":
            raise self.error("E113", "this macro is for tensor programs", node)
        if self.expansion_depth >= 60:
            raise self.error("E105", "macros expand without end", node)
        args, keywords = self.arguments(node)
        names = macro_names(self, macro, node, args, keywords)
        outer, outer_result = self.scope, self.result
        self.scope = Scope(macro.scope if macro.hygienic else outer, names)
        self.result = None
        self.expansion_depth += 1
        try:
            self.statements(macro.definition.body, top=True)
            return self.result
        finally:
            self.scope, self.result = outer, outer_result
            self.expansion_depth -= 1

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
                    self.reading.record(self.reading.error("E120", f"output {name!r} is not bound in this block", node), node)
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
                    self.reading.record(self.reading.error("E120", "R.output must be the last line of the block", stmt), stmt)
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
        if not isinstance(condition, Var) and not isinstance(condition.ty, PrimType):
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
            raise self.error("E116", "return stands only at the end of the function", last, "bind the value to a name in both branches")
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
        if type(stmt) is not s.Assign or type(stmt.value) is s.Call and self.path(stmt.value.func) not in _LEAF_CALLS:
            return None
        if not isinstance(stmt.value, (s.Name, s.Call, s.TupleLit, s.Number)):
            return None
        value = self.evaluate(stmt.value)
        if isinstance(value, tuple):
            value = Tuple(tuple([self.expr(item, stmt) for item in value]), self.reading.span(stmt))
        expr = self.expr(value, stmt)
        return self.builder.normalize(expr)


_LEAF_CALLS = frozenset(("R.const", "R.const_bytes", "R.shape", "R.tuple", "R.prim_value", "R.str", "R.dtype", "R.ExternFunc"))
_CONSTANTS = frozenset(("Tensor", "ndarray", "DataType"))


def _bound_name(stmt: s.Syntax | None) -> str | None:
    if isinstance(stmt, s.Assign) and len(stmt.targets) == 1 and type(stmt.targets[0]) is s.Name:
        return stmt.targets[0].name
    if isinstance(stmt, s.AnnAssign) and type(stmt.target) is s.Name:
        return stmt.target.name
    if isinstance(stmt, s.FunctionDef):
        return stmt.name
    if isinstance(stmt, s.If):
        return _bound_name(([x for x in stmt.clauses[0][1] if type(x) not in _LEAF_STMTS] or [None])[-1])
    return None


def function_options(reader: Any, node: s.FunctionDef, wanted: str) -> dict[str, Any] | None:
    """Options of the decorator ``wanted`` of a function; None when the function does not have it."""
    for decorator in node.decorators:
        call = decorator if type(decorator) is s.Call else None
        if reader.path(call.func if call is not None else decorator) != wanted:
            continue
        options: dict[str, Any] = {}
        if call is not None:
            if call.args:
                raise reader.error("E112", f"{wanted} takes keyword arguments", call)
            for keyword in call.keywords:
                if keyword.name not in _OPTIONS[wanted]:
                    known = ", ".join(_OPTIONS[wanted])
                    raise reader.error("E112", f"{wanted} has no argument {keyword.name!r}", keyword, f"it has: {known}")
                value = reader.evaluate(keyword.value)
                if type(value) is not bool:
                    raise reader.error("E113", f"{keyword.name} must be True or False", keyword)
                options[keyword.name] = value
        return options
    return None


_OPTIONS = {
    "R.function": ("pure", "private", "check_well_formed"),
    "T.prim_func": ("private", "check_well_formed", "s_tir"),
}

__all__ = ["FunctionReader", "VOID_TYPE", "function_options"]
