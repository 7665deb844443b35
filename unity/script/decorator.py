"""Decorators: the source text of a class or function is read as script, with names of the enclosing scope.

Not here: reading. Invariant: the decorated code never runs; the source is taken from the file (or the notebook's or
interpreter's line cache), and names are looked up in the calling frame only when the text uses them.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import tokenize
from collections import ChainMap
from collections.abc import Mapping
from types import FrameType, FunctionType
from typing import Any

from ..ir import Function, IRModule, PrimFunc
from ..support.errors import ScriptError
from ..support.source import Source
from .parser.read_text import read_tree
from .parser.syntax import FunctionDef, Name, nodes_of
from .reader.common.scope import Macro, OutsideScope
from .reader.module import parse


def _lines(filename: str, names: Mapping[str, Any]) -> list[str]:
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, dict(names))
    if not lines:
        raise ScriptError(
            "E122",
            f"the source text of {filename!r} cannot be found",
            help="give the text itself: unity.script.parse(text)",
        )
    return lines


def _source(filename: str, first: int, names: Mapping[str, Any], defined: str) -> Source:
    """The definition of a name that starts at a line, without the indentation it stands in. Texts that are executed share the
    file name ``<string>``, so that another one may stand there."""
    lines = _lines(filename, names)
    if not 1 <= first <= len(lines):
        raise ScriptError("E122", f"{filename!r} changed since it was imported", help="import it again")
    try:
        block = inspect.getblock(lines[first - 1 :])
    except (tokenize.TokenError, IndentationError, SyntaxError):
        block = lines[first - 1 :]
    if not any([re.match(rf"\s*(async def|def|class)\s+{re.escape(defined)}\b", line) for line in block]):
        raise ScriptError("E122", f"the source text of {defined} cannot be found in {filename!r}")
    indent = len(block[0]) - len(block[0].lstrip(" "))
    text = "".join([line[indent:] if line[:indent].strip() == "" else line for line in block])
    return Source(filename, text, first, indent)


def read_function(function: FunctionType, frame: FrameType) -> Any:
    """The IR of a decorated Python function."""
    code = function.__code__
    names = _names(frame)
    cells = function.__closure__ or ()
    closed = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells) if not _is_empty(cell)}
    return parse(_source(code.co_filename, code.co_firstlineno, names, function.__name__), scope={**names, **closed})


def read_macro(function: FunctionType, frame: FrameType, level: str, hygienic: bool) -> Macro:
    """The macro of a decorated Python function: its syntax and the scope it stands in."""
    names = _names(frame)
    code = function.__code__
    source = _source(code.co_filename, code.co_firstlineno, names, function.__name__)
    tree, errors = read_tree(source)
    if errors:
        raise ScriptError(errors[0].code, errors[0].message, errors[0].span, errors[0].notes, errors[0].help, errors)
    definition = tree.body[0] if tree is not None and tree.body else None
    if not isinstance(definition, FunctionDef):
        raise ScriptError("E122", f"the source text of {function.__name__} cannot be found")
    if hygienic:  # what stands for a name now, whatever it stands for at a call
        used = {node.name for node in nodes_of(definition) if isinstance(node, Name)}
        names = ChainMap({name: names[name] for name in used if name in names}, *names.maps)
    return Macro(definition, OutsideScope(names), hygienic, level, source)


def macro_decorator(target: Any, level: str, hygienic: bool) -> Any:
    """The result of a macro decorator on a function, or the decorator without one; inside a class body the function is left for
    the class."""
    if target is None:
        return lambda fn: macro_decorator(fn, level, hygienic)
    frame = sys._getframe(2)
    if not isinstance(target, FunctionType):
        raise ScriptError("E122", f"a macro is a function, got {type(target).__name__}")
    return target if in_class_body(frame) else read_macro(target, frame, level, hygienic)


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # the variable is not bound yet (the function's own name)
        return True
    return False


def read_class(cls: type, frame: FrameType) -> IRModule:
    """The module of a decorated class. The frame is the one the decorator is applied in."""
    filename, line = frame.f_code.co_filename, frame.f_lineno
    names = _names(frame)
    lines = _lines(filename, names)
    first = min(line, len(lines))
    while first > 1 and not lines[first - 1].lstrip().startswith(("@", "class ")):
        first -= 1
    while first > 1 and lines[first - 2].lstrip().startswith("@"):
        first -= 1
    mod = parse(_source(filename, first, names, cls.__name__), scope=names)
    if not isinstance(mod, IRModule) or mod.name != cls.__name__:
        raise ScriptError("E122", f"the source text of class {cls.__name__} cannot be found in {filename!r}")
    return mod


def _names(frame: FrameType) -> ChainMap[str, Any]:
    return ChainMap(frame.f_locals, frame.f_globals)


def in_class_body(frame: FrameType) -> bool:
    """True when the frame runs the body of a class."""
    return "__qualname__" in frame.f_locals and "__module__" in frame.f_locals and frame.f_code.co_name != "<module>"


def decorate(target: Any) -> Any:
    """The result of a script decorator on a class or a function; inside a class body the function is left for the class."""
    frame = sys._getframe(2)
    if isinstance(target, type):
        return read_class(target, frame)
    if not isinstance(target, FunctionType):
        raise ScriptError("E122", f"a decorator of script takes a function or a class, got {type(target).__name__}")
    if in_class_body(frame):
        return target
    return read_function(target, frame)


def decorate_later(target: Any) -> Any:
    """The decorator that a script decorator with options returns."""
    return decorate(target)


__all__ = ["Function", "PrimFunc", "decorate", "decorate_later", "in_class_body", "read_class", "read_function"]
