"""Graph functions: signature, body, nested functions, macros.

Not here: bindings, branches (``relax_bind.py``, ``relax_branch.py``), expressions (``relax_expr.py``).
Invariant: what is built is in A-normal form with a type on every binding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import (
    DataflowVar,
    Expr,
    Function,
    PrimType,
    Tuple,
    Type,
    Var,
    VarBinding,
    prim_type,
    replace,
)  # fmt: skip
from ...ir.infer import find_impure_call
from ...ir.relation import Answer, erase, is_subtype
from ...ir.types import FuncType
from ...ir.walk import free_vars, used_vars
from ...support.errors import Note, ScriptError, UnityError
from ..parser import syntax as s
from .base import Reading, Silent
from .constants import attribute_value
from .decorators import macro_of, options_of
from .relax_branch import BranchReader
from .scope import POISON, Macro, Scope
from .tir_macro import macro_names

_INT64 = prim_type("int64")
_LEAF_STMTS = (s.Pass, s.Skipped)


class FunctionReader(BranchReader):
    """Reads one ``@R.function``: first ``signature``, then ``body``."""

    def __init__(self, reading: Reading, scope: Scope, node: s.FunctionDef) -> None:
        super().__init__(reading, scope, node)
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
        for symbol in node.type_params:
            ty = self.symbol_type(symbol)
            self.symbols[symbol.name] = Var(symbol.name, ty, self.reading.span(symbol))
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
        if known is None and ty is _INT64:  # a symbol that a type before shows already
            known = self.symbols.get(param.name)
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
        made = replace(made, span=self.reading.span(self.return_node or node))
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
        ret = self._result_type(ret if ret is not None else made.ty, made)
        purity = bool(pure) if pure is not None else impure is None or forced
        return Function(tuple(self.params), made, ret, purity, self.attrs, self.reading.span(node))

    def _result_type(self, ret: Type, body: Expr) -> Type:
        """The type callers see: symbols that only the body binds are unknown to them."""
        known = set(self.outer_symbols)
        for param in self.params:
            known.update(free_vars(param.ty), [param])
        loose = [var for var in free_vars(ret) if var not in known]
        if not loose:
            return ret
        used = set(used_vars(body))
        for var in loose:
            if var not in used:
                raise self.reading.error(
                    "E110",
                    f"the symbol {var.name!r} of the result is bound by no parameter",
                    self.node.returns or self.node,
                )
        return erase(ret, known)

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
            s.For: (
                "`for` has no place in a graph function",
                "write a recursive function, or a loop in a @T.prim_func",
            ),
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

    def _expr_stmt(self, node: s.ExprStmt) -> None:
        value_node = node.value
        self.hint = ""
        if type(value_node) in (s.String, s.Literal):
            return
        if type(value_node) is s.Call:
            path = self.path(value_node.func)
            match path:
                case "R.func_attr":
                    (value,) = self.arguments(value_node)[0][:1] or (None,)
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
        macro = macro_of(self, node)
        if macro is not None:
            self.scope.names[node.name] = macro
            return
        options = options_of(self, node, "R.function")
        if options is None:
            raise self.error("E107", "only @R.function can be nested in a graph function", node)
        inner = FunctionReader(self.reading, self.scope, node)
        inner.symbols = dict(self.symbols)
        inner.outer_symbols = [v for v in self.symbols.values() if isinstance(v, Var)]
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
        var = own if own is not None and not inside else None
        if var is None:
            var = (DataflowVar if inside else Var)(node.name, made.ty, self.reading.span(node))
        self.builder.emit_binding(VarBinding(var, made, self.reading.span(node)))
        self.scope.names[node.name] = var

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
        source = self.reading.source
        self.reading.source = macro.source or source
        self.expansion_depth += 1
        try:
            self.statements(macro.definition.body, top=True)
            return self.result
        finally:
            self.scope, self.result, self.reading.source = outer, outer_result, source
            self.expansion_depth -= 1
