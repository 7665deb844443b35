"""Script to IR: the entry ``parse``, modules and what stands at the top of a text.

Not here: bodies of functions. Invariant: tensor programs are read first and graph functions when first needed, so that
every call of a function of the module sees its type whatever the order in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ... import op as _operators  # noqa: F401 - fills the operator table
from ...ir import ExternFunc, Function, GlobalVar, IRModule, PrimFunc, Type, replace
from ...ir.types import VOID_TYPE
from ...ir.verifier.verifier import violations
from ...support.errors import ScriptError, UnityError
from ...support.gc_pause import no_collection
from ...support.options import int_option
from ...support.recursion import deep_recursion
from ...support.source import Source, Span
from ..parser import syntax as s
from ..parser.read_text import read_tree
from ..spelling.spelling import MODULE_ALIASES
from .base import Reading, Silent, suggest
from .constants import attribute_value
from .decorators import macro_of, options_of
from .relax import FunctionReader
from .relax_expr import GraphExprReader
from .relax_forms import vdevice
from .scope import POISON, Dotted, Member, ModuleRef, OutsideScope, Scope, SymbolName
from .tir_function import PrimFuncReader
from .tir_special import target

_SILENT_IMPORTS = ("__future__", "typing", "typing_extensions")
_MOST_ERRORS = 100
_LINE_MARKS = re.compile(r"\A\ufeff|^[ \t]*\f+", re.M)
"""Marks that Python overlooks too: a byte order mark, and form feeds that begin a line."""


class ModuleReader(GraphExprReader):
    """Reads the top of a text, or the body of a module class."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self.class_name = ""
        self.nodes: dict[str, tuple[str, s.FunctionDef, dict[str, Any]]] = {}
        self.functions: dict[str, Any] = {}
        self.readers: dict[str, FunctionReader] = {}
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, Any] = {}
        self.adopted: dict[int, str] = {}
        self.check = True
        self.reading_now: set[str] = set()

    # ------------------------------------------------------------------------------------------------- top of the text

    def file(self, tree: s.File) -> Any:
        """The module or function a text holds; None after an error."""
        classes: list[s.ClassDef] = []
        for stmt in tree.body:
            try:
                if isinstance(stmt, s.ClassDef):
                    classes.append(stmt)
                else:
                    self._top_statement(stmt)
            except Silent:
                self._poison_name(stmt)
            except UnityError as problem:
                self.reading.record(problem, stmt)
                self._poison_name(stmt)
        if classes:
            if len(classes) > 1 or self.nodes:
                place = classes[1] if len(classes) > 1 else classes[0]
                self.reading.record(self.reading.error("E121", "a text holds one module, or functions", place), place)
            return self._class(classes[0])
        for name in self.nodes:
            self.scope.names[name] = Member(name)
        self.read_functions()
        if self.reading.errors:
            return None
        if len(self.functions) == 1 and not self.adopted:
            only = next(iter(self.functions.values()))
            self.check = only.checked
            return only
        if not self.functions:
            raise ScriptError(
                "E121", "the text holds no module and no function", Span(self.reading.source, 0, 1),
                help="write a class with @I.ir_module, or a function with @R.function or @T.prim_func",
            )  # fmt: skip
        return IRModule(self.functions, {}, {})

    def _top_statement(self, stmt: s.Syntax) -> None:
        match stmt:
            case s.Import():
                self._import(stmt)
            case s.FunctionDef():
                self._function_node(stmt)
            case s.Assign() if len(stmt.targets) == 1:
                self._top_assign(stmt.targets[0], stmt.value)
            case s.Skipped() | s.Pass():
                pass
            case s.ExprStmt() if isinstance(stmt.value, (s.String, s.Literal)):
                pass
            case s.Refused():
                self._refused(stmt)
            case _:
                raise self.error(
                    "E121", "only imports, names, functions and one module stand at the top of a text", stmt
                )

    def _import(self, stmt: s.Import) -> None:
        for module, name, bound in stmt.names:
            full = f"{module}.{name}" if name else module
            letter = MODULE_ALIASES.get(full.replace(".parser.", "."))
            if letter is not None:
                self.scope.names[bound] = Dotted(letter if name else bound)
            elif name == "*" and module.startswith(("tvm.script", "unity.script")):
                continue
            elif module in ("tvm.script", "unity.script", "unity", "tvm") and name:
                self.scope.names[bound] = Dotted(f"I.{name}")
            elif module.startswith(("tvm.script.", "unity.script.")) and module in MODULE_ALIASES:
                self.scope.names[bound] = Dotted(f"{MODULE_ALIASES[module]}.{name}")

    def _top_assign(self, target: s.Syntax, value_node: s.Syntax) -> None:
        if type(target) is s.Name and type(value_node) is s.Call:
            func = value_node.func
            called = func.name if isinstance(func, (s.Name, s.Attribute)) else ""
            if called == "TypeVar" and len(value_node.args) == 1 and type(value_node.args[0]) is s.String:
                self.scope.names[target.name] = SymbolName(value_node.args[0].value)
                return
        self.bind_target(target, self.evaluate(value_node))

    # -------------------------------------------------------------------------------------------------------- functions

    def _function_node(self, node: s.FunctionDef) -> None:
        for kind in ("T.prim_func", "R.function"):
            options = options_of(self, node, kind)
            if options is not None:
                if node.name in self.nodes:
                    raise self.error("E115", f"two functions are called {node.name!r}", node)
                self.nodes[node.name] = (kind, node, options)
                return
        macro = macro_of(self, node)
        if macro is not None:
            self.scope.names[node.name] = macro
            return
        for decorator in node.decorators:
            path = self.path(decorator.func if type(decorator) is s.Call else decorator)
            if path == "I.pyfunc":
                raise self.error(
                    "E117", "a Python function inside a module cannot be read as data", node,
                    "register it with unity.register_func and call it with R.call_packed",
                )  # fmt: skip
            if path is not None and path[0] in "TRI":
                raise self.error("E117", f"the decorator {path} is not part of script", decorator)
        if not self.reading.lost.isdisjoint(("prim_func", "function", "macro", "inline")):
            self.scope.names[node.name] = POISON
            raise Silent  # its decorator has a syntax error
        raise self.error(
            "E121",
            f"the function {node.name!r} has no decorator of script",
            node,
            "write @R.function or @T.prim_func above it",
        )

    def read_functions(self) -> None:
        """Read all functions collected; errors are recorded per function."""
        order = list(self.nodes)
        for name, (kind, node, _) in self.nodes.items():
            if kind == "T.prim_func":
                self._read_prim_func(name, node)
        for name, (kind, _, _) in self.nodes.items():
            if kind == "R.function":
                self._start_graph(name)
        for name, (kind, _, _) in self.nodes.items():
            if kind == "R.function":
                self._finish_graph(name)
        read, extra = self.functions, [name for name in self.functions if name not in order]
        self.functions = {name: read[name] for name in [*extra, *order] if name in read}

    def _options(self, name: str) -> dict[str, Any]:
        return self.nodes[name][2]

    def _public(self, name: str, attrs: dict[str, Any]) -> dict[str, Any]:
        if self._options(name).get("private"):
            return attrs
        return {"global_symbol": name, **attrs}

    def _read_prim_func(self, name: str, node: s.FunctionDef) -> None:
        reader = PrimFuncReader(self.reading, self.scope)
        reader.returned = self.returned  # type: ignore[method-assign]
        made = reader.function(node)
        if made is not None:
            checked = bool(self._options(name).get("check_well_formed", True))
            self.functions[name] = replace(made, attrs=self._public(name, made.attrs), checked=checked)

    def _start_graph(self, name: str) -> FunctionReader:
        found = self.readers.get(name)
        if found is not None:
            return found
        _, node, options = self.nodes[name]
        reader = self.readers[name] = FunctionReader(self.reading, self.scope, node)
        reader.options = options
        reader.module_member = self.member  # type: ignore[method-assign]
        reader.adopt = self.adopt  # type: ignore[method-assign]
        reader.signature()
        return reader

    def _finish_graph(self, name: str) -> None:
        if name in self.functions or name in self.reading_now:
            return
        self.reading_now.add(name)
        reader = self._start_graph(name)
        try:
            made = reader.body()
        except Silent:
            made = None
        except UnityError as problem:
            self.reading.record(problem, reader.node)
            made = None
        if made is not None:
            checked = bool(self._options(name).get("check_well_formed", True))
            self.functions[name] = replace(made, attrs=self._public(name, made.attrs), checked=checked)

    def returned(self, name: str) -> Type:
        """The type that a tensor program of the module returns; it may stand further down."""
        made = self.functions.get(name)
        if isinstance(made, PrimFunc):
            return made.ret_ty
        kind, node, _ = self.nodes.get(name, ("", None, None))
        if node is None or kind != "T.prim_func":
            return VOID_TYPE
        return PrimFuncReader(self.reading, self.scope).return_type(node)

    def member(self, name: str, node: s.Syntax) -> GlobalVar:
        """A reference to a function of the module, with its type."""
        span = self.reading.span(node)
        entry = self.nodes.get(name)
        if entry is None:
            if name in self.functions:
                value = self.functions[name]
                return (
                    GlobalVar(name, value.ty, span)
                    if isinstance(value, (Function, ExternFunc))
                    else GlobalVar(name, span=span)
                )
            if name in self.reading.lost:
                raise Silent
            hint = suggest(name, [*self.nodes, *self.functions])
            raise self.error("E110", f"the module has no function {name!r}", node, hint)
        if entry[0] == "T.prim_func":
            return GlobalVar(name, span=span)
        if name not in self.functions and name not in self.reading_now:
            self._finish_graph(name)
        made = self.functions.get(name)
        if made is not None:
            return GlobalVar(name, made.ty, span)
        declared = self._start_graph(name).function_type()
        if declared is None:
            if self.reading.errors:
                raise Silent
            raise self.error(
                "E114",
                f"{name!r} calls itself: its result type must be written",
                node,
                "write `-> R.Tensor(...)` in its signature",
            )
        return GlobalVar(name, declared, span)

    def adopt(self, fn: Any, node: s.Syntax) -> GlobalVar:
        """A function of the enclosing scope becomes part of the module."""
        name = self.adopted.get(id(fn))
        if name is None:
            wish = fn.attrs.get("global_symbol") or "f"
            name, count = wish, 0
            while name in self.nodes or name in self.functions:
                count += 1
                name = f"{wish}{count}"
            self.adopted[id(fn)] = name
            self.functions[name] = fn
        span = self.reading.span(node)
        return GlobalVar(name, fn.ty, span) if isinstance(fn, Function) else GlobalVar(name, span=span)

    # ----------------------------------------------------------------------------------------------------------- module

    def _class(self, node: s.ClassDef) -> IRModule | None:
        options = self._module_options(node)
        self.check = bool(options.get("check_well_formed", True))
        self.class_name = node.name
        self.scope = Scope(self.scope, {node.name: ModuleRef(node.name), "cls": ModuleRef(node.name)})
        for stmt in node.body:
            try:
                self._member_statement(stmt)
            except Silent:
                self._poison_name(stmt)
            except UnityError as problem:
                self.reading.record(problem, stmt)
                self._poison_name(stmt)
        for name in self.nodes:
            self.scope.names[name] = Member(name)
        self.read_functions()
        if self.reading.errors:
            return None
        return IRModule(self.functions, self.attrs, self.global_infos, node.name, self.check)

    def _poison_name(self, stmt: s.Syntax) -> None:
        if isinstance(stmt, s.FunctionDef):
            self.scope.names[stmt.name] = POISON

    def _module_options(self, node: s.ClassDef) -> dict[str, Any]:
        try:
            options = options_of(self, node, "I.ir_module")
            if options is not None:
                return options
        except Silent:
            return {}
        except UnityError as problem:
            self.reading.record(problem, node)
            return {}
        if "ir_module" in self.reading.lost:
            return {}
        message = f"the class {node.name!r} has no decorator of script"
        self.reading.record(self.reading.error("E121", message, node, "write @I.ir_module above it"), node)
        return {}

    def _member_statement(self, stmt: s.Syntax) -> None:
        match stmt:
            case s.FunctionDef():
                self._function_node(stmt)
            case s.Skipped() | s.Pass():
                pass
            case s.ExprStmt() if isinstance(stmt.value, (s.String, s.Literal)):
                pass
            case s.ExprStmt() if isinstance(stmt.value, s.Call):
                self._module_call(stmt.value)
            case s.Assign() if len(stmt.targets) == 1 and isinstance(stmt.targets[0], s.Name):
                self._module_assign(stmt.targets[0].name, stmt.value)
            case s.Refused():
                self._refused(stmt)
            case _:
                raise self.error(
                    "E121", "a module holds functions, I.module_attrs, I.module_global_infos and names", stmt
                )

    def _module_call(self, call: s.Call) -> None:
        path = self.path(call.func)
        args, keywords = self.arguments(call)
        if (
            path not in ("I.module_attrs", "I.module_global_infos")
            or len(args) != 1
            or keywords
            or not isinstance(args[0], dict)
        ):
            raise self.error("E121", "a module holds functions, I.module_attrs, I.module_global_infos and names", call)
        if path == "I.module_global_infos" and not all(
            [isinstance(table, (tuple, list)) for table in args[0].values()]
        ):
            raise self.error("E113", "a table of a module is a list", call, 'write {"vdevice": [I.vdevice("llvm")]}')
        (self.attrs if path == "I.module_attrs" else self.global_infos).update(attribute_value(args[0]))

    def _module_assign(self, name: str, value_node: s.Syntax) -> None:
        if name == "__slots__":
            return
        value = self.evaluate(value_node)
        if isinstance(value, (ExternFunc, PrimFunc, Function)):
            if name in self.functions:
                raise self.error("E115", f"two functions are called {name!r}", value_node)
            self.functions[name] = value
            self.scope.names[name] = Member(name)
            return
        self.scope.names[name] = value

    def call_path(self, path: str, node: s.Call) -> Any:
        if path == "I.vdevice":
            return vdevice(self, path, node)
        if path == "I.dummy_global_info":
            return {"kind": "dummy"}
        if path in ("I.target", "T.target"):
            return target(self, path, node)
        return super().call_path(path, node)

    def module_member(self, name: str, node: s.Syntax) -> Any:
        return self.member(name, node)


def parse(
    text: str | Source, *, name: str = "<script>", scope: Mapping[str, Any] | None = None, check: bool = True
) -> IRModule | PrimFunc | Function:
    """Read script text: a class gives its module, one function alone gives the function, several give a module.

    Nothing in the text is executed. ``scope`` lends names to it: numbers, texts, data types, numpy arrays and tensors
    (constants), IR nodes and functions. ``check`` verifies what was read. Raises ScriptError with the errors found
    (``error.errors``): the first of each statement, at most 100; the rules of the IR only where reading found none.
    """
    if not isinstance(text, (str, Source)):
        raise ScriptError("E101", f"script is text, got {type(text).__name__}", help="bytes: decode them first")
    with no_collection():
        return _parse(text, name, scope, check)


def _parse(
    text: str | Source, name: str, scope: Mapping[str, Any] | None, check: bool
) -> IRModule | PrimFunc | Function:
    source = text if isinstance(text, Source) else _dedented(name, _LINE_MARKS.sub("", text))
    reading = Reading(source, OutsideScope(scope or {}))
    tree, errors = read_tree(source)
    reading.errors += errors
    result: Any = None
    try:
        with deep_recursion():
            if tree is not None:
                reading.lost = tree.lost
                reader = ModuleReader(reading, Scope(reading.scope))
                result = reader.file(tree)
                if result is not None and not reading.errors and check and reader.check:
                    _verify(reading, result)
    except RecursionError:
        reading.errors.append(ScriptError("E105", "the text is nested too deeply", Span(source, 0, 1)))
    if reading.errors:
        ordered = sorted(reading.errors, key=lambda e: e.span.start if e.span is not None else 0)
        first = ordered[0]
        del ordered[_MOST_ERRORS:]
        raise ScriptError(first.code, first.message, first.span, first.notes, first.help, errors=ordered)
    assert result is not None
    return result  # type: ignore[no-any-return]


def _verify(reading: Reading, result: Any) -> None:
    """Check the rules of the IR on the module that was read; violations are errors of the text."""
    if int_option("UNITY_VERIFY") < 1:
        return
    for problem in violations(result):
        span = problem.span or Span(reading.source, 0, 1)
        reading.errors.append(ScriptError(problem.code, problem.message, span, problem.notes, problem.help))


def _dedented(name: str, text: str) -> Source:
    """A source without the indentation all lines share."""
    lines = text.split("\n")
    widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    indent = min(widths, default=0)
    if indent == 0:
        return Source(name, text)
    return Source(name, "\n".join([line[indent:] for line in lines]), 1, indent)
