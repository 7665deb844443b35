"""Script to IR: the entry ``parse``, modules and what stands at the top of a text.

Not here: when a function is read (``functions.py``), bodies of functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ... import op as _operators  # noqa: F401 - fills the operator table
from ...ir import ExternFunc, Function, IRModule, PrimFunc, prim_type
from ...ir.verifier.verifier import violations
from ...support.errors import ScriptError, suggest
from ...support.gc_pause import young_collection
from ...support.options import int_option
from ...support.recursion import deep_recursion
from ...support.source import Source, Span
from ..parser import syntax as s
from ..parser.read_text import read_tree
from ..spelling.spelling import MODULE_ALIASES
from .common.calls import arguments
from .common.constants import attribute_value
from .common.expr import refused
from .common.names import path_of
from .common.reading import Reading, Silent, Text, bind_arguments
from .common.scope import Dotted, Member, ModuleRef, OutsideScope, Scope, SymbolName
from .common.signature import OPTIONS, macro_of, options_of
from .common.targets import bind_target
from .common.values import INT64, as_dtype, as_text, read_expr
from .functions import ModuleFunctions

_MOST_ERRORS = 100
_LINE_MARKS = re.compile(r"\A\ufeff|^[ \t]*\f+", re.M)
"""Marks that Python overlooks too: a byte order mark, and form feeds that begin a line."""
_HOLDS = "a module holds functions, I.module_attrs, I.module_global_infos and names"

# ----------------------------------------------------------------------------------------------------- top of the text


def _read_file(tree: s.File, functions: ModuleFunctions) -> Any:
    """The module or function a text holds; None after an error."""
    r = functions.reading
    classes: list[s.ClassDef] = []
    for stmt in tree.body:
        if isinstance(stmt, s.ClassDef):
            classes.append(stmt)
        else:
            r.try_read(lambda r, stmt: _top_statement(r, functions, stmt), stmt)
    if classes:
        if len(classes) > 1 or functions.nodes:
            place = classes[1] if len(classes) > 1 else classes[0]
            r.record(r.error("E121", "a text holds one module, or functions", place), place)
        return _read_class(classes[0], functions)
    functions.read_all()
    if r.errors:
        return None
    if not functions.made:
        raise ScriptError(
            "E121", "the text holds no module and no function", Span(r.source, 0, 1),
            help="write a class with @I.ir_module, or a function with @R.function or @T.prim_func",
        )  # fmt: skip
    if len(functions.made) == 1 and not functions.adopted:
        return next(iter(functions.made.values()))
    return IRModule(functions.made, {}, {})


def _top_statement(r: Reading, functions: ModuleFunctions, stmt: s.Syntax) -> None:
    match stmt:
        case s.Import():
            _import(r, stmt)
        case s.FunctionDef():
            _function(r, functions, stmt)
        case s.Assign() if len(stmt.targets) == 1:
            symbol = _declared_symbol(r, stmt.value) if type(stmt.targets[0]) is s.Name else None
            bind_target(r, stmt.targets[0], read_expr(r, stmt.value) if symbol is None else symbol)
        case s.Refused():
            refused(r, stmt)
        case _ if not _is_noop(stmt):
            message = "only imports, names, functions and one module stand at the top of a text"
            raise r.error("E121", message, stmt)


def _is_noop(stmt: s.Syntax) -> bool:
    """A line that means nothing: ``pass``, a text, lines that could not be read."""
    return isinstance(stmt, (s.Skipped, s.Pass)) or (
        isinstance(stmt, s.ExprStmt) and isinstance(stmt.value, (s.String, s.Literal))
    )


def _declared_symbol(r: Reading, node: s.Syntax) -> SymbolName | None:
    """``TypeVar("n")``, ``I.dynamic("n", "int32")``, ``T.Var("n", "int32")``."""
    if type(node) is not s.Call or not node.args or type(node.args[0]) is not s.String:
        return None
    if isinstance(node.func, (s.Name, s.Attribute)) and node.func.name == "TypeVar":
        return SymbolName(node.args[0].value, INT64)
    path = path_of(r, node.func)
    if path not in ("I.dynamic", "T.dynamic") and (path != "T.var" or len(node.args) != 2):
        return None
    args, keywords = arguments(r, node)
    bound = bind_arguments(r, node, path, ("name", "dtype"), args, keywords, 1)
    return SymbolName(as_text(r, bound["name"], node), prim_type(as_dtype(r, bound.get("dtype", "int64"), node)))


def _import(r: Reading, stmt: s.Import) -> None:
    for module, name, bound in stmt.names:
        full = f"{module}.{name}" if name else module
        letter = MODULE_ALIASES.get(full.replace(".parser.", "."))
        if letter is not None:
            r.scope.names[bound] = Dotted(letter if name else bound)
        elif name == "*" and module.startswith(("tvm.script", "unity.script")):
            continue
        elif module in ("tvm.script", "unity.script", "unity", "tvm") and name:
            r.scope.names[bound] = Dotted(f"I.{name}")
        elif module.startswith(("tvm.script.", "unity.script.")) and module in MODULE_ALIASES:
            r.scope.names[bound] = Dotted(f"{MODULE_ALIASES[module]}.{name}")


def _function(r: Reading, functions: ModuleFunctions, node: s.FunctionDef) -> None:
    for kind in ("T.prim_func", "R.function"):
        options = options_of(r, node, kind)
        if options is not None:
            functions.add(kind, node, options)
            return
    macro = macro_of(r, node)
    if macro is not None:
        r.scope.names[node.name] = macro
        return
    for decorator in node.decorators:
        path = path_of(r, decorator.func if type(decorator) is s.Call else decorator)
        if path == "I.pyfunc":
            raise r.error(
                "E117", "a Python function inside a module cannot be read as data", node,
                "register it with unity.register_func and call it with R.call_packed",
            )  # fmt: skip
        if path is not None and path[0] in "TRI":
            raise r.error("E117", f"the decorator {path} is not part of script", decorator, suggest(path, OPTIONS))
    if not r.text.lost.isdisjoint(("prim_func", "function", "macro", "inline")):
        raise Silent  # its decorator has a syntax error
    message = f"the function {node.name!r} has no decorator of script"
    raise r.error("E121", message, node, "write @R.function or @T.prim_func above it")


# --------------------------------------------------------------------------------------------------------------- module


def _read_class(node: s.ClassDef, functions: ModuleFunctions) -> IRModule | None:
    r = functions.reading
    options = r.try_read(_module_options, node) or {}
    r.scope = Scope(r.scope, {node.name: ModuleRef(node.name), "cls": ModuleRef(node.name)})
    attrs: dict[str, Any] = {}
    infos: dict[str, Any] = {}
    for stmt in node.body:
        r.try_read(lambda r, stmt: _member_statement(r, functions, stmt, attrs, infos), stmt)
    functions.read_all()
    if r.errors:
        return None
    return IRModule(functions.made, attrs, infos, node.name, options.get("check_well_formed", True))


def _module_options(r: Reading, node: s.ClassDef) -> dict[str, bool]:
    for base in node.bases:
        if not isinstance(base, (s.Name, s.Attribute)) or base.name != "BasePyModule":
            raise r.error(
                "E117", f"the base class of {node.name} has no meaning: a module is one class", base, "take it away"
            )
    options = options_of(r, node, "I.ir_module")
    if options is None and "ir_module" not in r.text.lost:
        message = f"the class {node.name!r} has no decorator of script"
        raise r.error("E121", message, node, "write @I.ir_module above it")
    return options or {}


def _member_statement(
    r: Reading, functions: ModuleFunctions, stmt: s.Syntax, attrs: dict[str, Any], infos: dict[str, Any]
) -> None:
    match stmt:
        case s.FunctionDef():
            _function(r, functions, stmt)
        case s.Assign() if len(stmt.targets) == 1 and isinstance(stmt.targets[0], s.Name):
            _member_value(r, functions, stmt.targets[0].name, stmt.value)
        case s.Refused():
            refused(r, stmt)
        case s.ExprStmt() if isinstance(stmt.value, s.Call):
            path = path_of(r, stmt.value.func)
            args, keywords = arguments(r, stmt.value)
            table = {"I.module_attrs": attrs, "I.module_global_infos": infos}.get(path or "")
            if table is None or len(args) != 1 or keywords or not isinstance(args[0], dict):
                raise r.error("E121", _HOLDS, stmt.value)
            if table is infos and not all([isinstance(rows, (tuple, list)) for rows in args[0].values()]):
                help = 'write {"vdevice": [I.vdevice("llvm")]}'
                raise r.error("E113", "a table of a module is a list", stmt.value, help)
            table.update(attribute_value(args[0]))
            r.text.vdevices = list(infos.get("vdevice", []))
        case _ if not _is_noop(stmt):
            raise r.error("E121", _HOLDS, stmt)


def _member_value(r: Reading, functions: ModuleFunctions, name: str, value_node: s.Syntax) -> None:
    if name == "__slots__":
        return
    value = read_expr(r, value_node)
    if isinstance(value, (ExternFunc, PrimFunc, Function)):
        if name in functions.made:
            raise r.error("E115", f"two functions are called {name!r}", value_node)
        functions.made[name] = value
        value = Member(name)
    r.scope.names[name] = value


# ---------------------------------------------------------------------------------------------------------------- parse


def parse(
    text: str | Source, *, name: str = "<script>", scope: Mapping[str, Any] | None = None, check: bool = True
) -> IRModule | PrimFunc | Function:
    """Read script text: a class becomes its module, a single function the function, several functions a module.

    Nothing in the text is executed. ``name``: shown in errors. ``scope``: names it may use: numbers, strings, data types,
    numpy arrays and tensors (constants), IR nodes and functions. ``check``: verify what was read. Raises ScriptError with the
    errors found (``error.errors``): the first of each statement, at most 100; violations of the IR's rules only if there is no
    other error.
    """
    if not isinstance(text, (str, Source)):
        raise ScriptError("E101", f"script is text, got {type(text).__name__}", help="bytes: decode them first")
    with young_collection():
        return _parse(text, name, scope, check)


def _parse(
    given: str | Source, name: str, scope: Mapping[str, Any] | None, check: bool
) -> IRModule | PrimFunc | Function:
    source = given if isinstance(given, Source) else _dedented(name, _LINE_MARKS.sub("", given))
    tree, errors = read_tree(source)
    text = Text(source, OutsideScope(scope or {}), errors)
    result: IRModule | PrimFunc | Function | None = None
    try:
        with deep_recursion():
            if tree is not None:
                text.lost = tree.lost
                result = _read_file(tree, ModuleFunctions(text))
                if result is not None and not errors and check and result.checked:
                    _verify(text, result)
    except RecursionError:
        errors.append(ScriptError("E105", "the text is nested too deeply", Span(source, 0, 1)))
    if errors:
        ordered = sorted(errors, key=lambda e: e.span.start if e.span is not None else 0)
        first = ordered[0]
        del ordered[_MOST_ERRORS:]
        raise ScriptError(first.code, first.message, first.span, first.notes, first.help, errors=ordered)
    assert result is not None
    return result


def _verify(text: Text, result: Any) -> None:
    """Check the rules of the IR on the module that was read; violations are errors of the text."""
    if int_option("UNITY_VERIFY") < 1:
        return
    for problem in violations(result):
        span = problem.span or Span(text.source, 0, 1)
        text.errors.append(ScriptError(problem.code, problem.message, span, problem.notes, problem.help))


def _dedented(name: str, text: str) -> Source:
    """A source without the indentation all lines share."""
    lines = text.split("\n")
    indent = min([len(line) - len(line.lstrip(" ")) for line in lines if line.strip()], default=0)
    return Source(name, "\n".join([line[indent:] for line in lines]), 1, indent) if indent else Source(name, text)
