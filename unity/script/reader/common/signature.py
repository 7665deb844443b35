"""Heads of functions and classes: decorators; what a parameter may be at both levels, the symbols in brackets, the result type.

A function has the one decorator that script knows, and no other that nobody applies. Invariant: where the text stands in a Python
file, a decorator that Python knows is Python's to apply; any other is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import Any

from ....ir import Type, Var
from ...parser import syntax as s
from .names import path_of
from .reading import Reading
from .scope import Macro, OutsideScope
from .types import read_type
from .values import INT64, read_expr

MACROS = ("T.macro", "T.inline", "R.macro")
OPTIONS = {
    "I.ir_module": ("check_well_formed", "s_tir"),
    "T.macro": ("hygienic",),
    "R.macro": ("hygienic",),
    "T.inline": (),
    "R.function": ("pure", "private", "check_well_formed"),
    "T.prim_func": ("private", "check_well_formed", "s_tir"),
}


def decorator_of(
    r: Reading, node: s.FunctionDef | s.ClassDef, wanted: Container[str]
) -> tuple[str, s.Call | None] | None:
    """Path and call of the first decorator among the wanted ones, None without one. Raises E117 where another stands beside it."""
    found: tuple[str, s.Call | None] | None = None
    others: list[tuple[str | None, s.Syntax]] = []
    for decorator in node.decorators:
        call = decorator if type(decorator) is s.Call else None
        path = path_of(r, call.func if call is not None else decorator)
        if path is not None and path in wanted and found is None:
            found = (path, call)
        else:
            others.append((path, decorator))
    if found is not None:
        for path, decorator in others:
            if path is not None or not _of_python(r, decorator):
                shown = f"the decorator {path}" if path is not None else "this decorator"
                raise r.error("E117", f"{shown} has no meaning beside {found[0]}", decorator, "take it away")
    return found


def _of_python(r: Reading, decorator: s.Syntax) -> bool:
    """The name it begins with is one of the Python file around the text."""
    at = decorator
    while isinstance(at, (s.Attribute, s.Call)):
        at = at.value if isinstance(at, s.Attribute) else at.func
    outside = r.text.outside
    return isinstance(at, s.Name) and isinstance(outside, OutsideScope) and at.name in outside.mapping


def options_of(r: Reading, node: s.FunctionDef | s.ClassDef, wanted: str) -> dict[str, bool] | None:
    """Options of the decorator ``wanted``; None when the function or class does not have it."""
    found = decorator_of(r, node, (wanted,))
    return None if found is None else _options(r, *found)


def _options(r: Reading, path: str, call: s.Call | None) -> dict[str, bool]:
    """The options that a decorator is given: each True or False."""
    options: dict[str, bool] = {}
    if call is None:
        return options
    if call.args:
        raise r.error("E112", f"{path} takes keyword arguments", call)
    for keyword in call.keywords:
        if keyword.name not in OPTIONS[path]:
            known = ", ".join(OPTIONS[path])
            raise r.error("E112", f"{path} has no argument {keyword.name!r}", keyword, f"it has: {known}")
        value = read_expr(r, keyword.value)
        if value is None and keyword.name == "pure":
            continue  # found out, as without it
        if type(value) is not bool:
            raise r.error("E113", f"{keyword.name} must be True or False", keyword)
        options[keyword.name] = value
    return options


def macro_of(r: Reading, node: s.FunctionDef) -> Macro | None:
    """The macro that a definition makes, None when it is not a macro."""
    found = decorator_of(r, node, MACROS)
    if found is None:
        return None
    hygienic = _options(r, *found).get("hygienic", found[0] != "T.inline")
    return Macro(node, r.scope, hygienic, found[0][0])


def read_signature(r: Reading, node: s.FunctionDef, parameter: Callable[[Any, s.Parameter], Any]) -> Type | None:
    """Read symbols, parameters and the result type; None where the result has none, or an error, which is recorded."""
    for symbol in node.type_params:
        ty = None if symbol.bound is None else r.try_read(read_type, symbol.bound)
        r.symbols[symbol.name] = Var(symbol.name, INT64 if ty is None else ty, r.span(symbol))
    r.defining = True
    for param in node.params:
        if param.star != "*" or param.name:
            r.try_read(parameter, param)
    returned = read_result(r, node)
    r.defining = False
    return returned


def read_result(r: Reading, node: s.FunctionDef) -> Type | None:
    """The type that a function says it gives back."""
    return None if node.returns is None else r.try_read(read_type, node.returns)


def annotation_of(r: Reading, param: s.Parameter, known: Collection[str], example: str) -> s.Syntax:
    """The annotation of a plain parameter with a name of its own. Raises E114, E115 for other parameters."""
    if param.star:
        raise r.error("E114", f"a parameter `{param.star}{param.name}` is not possible", param)
    if param.default is not None:
        raise r.error("E114", f"parameter {param.name!r} cannot have a default value", param)
    if param.annotation is None:
        raise r.error("E114", f"parameter {param.name!r} needs a type", param, f"write for example {example}")
    if param.name in known:
        raise r.error("E115", f"two parameters are called {param.name!r}", param)
    return param.annotation
