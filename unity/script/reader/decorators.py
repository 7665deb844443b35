"""Decorators of functions and classes: the one that script knows, and no other that nobody applies.

Invariant: where the text stands in a Python file, a decorator that Python knows is Python's to apply; any other is refused.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..parser import syntax as s
from .scope import Macro, OutsideScope

MACROS = ("T.macro", "T.inline", "R.macro")
_OPTIONS = {
    "I.ir_module": ("check_well_formed", "s_tir"),
    "T.macro": ("hygienic",),
    "R.macro": ("hygienic",),
    "T.inline": (),
    "R.function": ("pure", "private", "check_well_formed"),
    "T.prim_func": ("private", "check_well_formed", "s_tir"),
}


def decorator_of(
    reader: Any, node: s.FunctionDef | s.ClassDef, wanted: Container[str]
) -> tuple[str, s.Call | None] | None:
    """Path and call of the first decorator among the wanted ones, None without one. Raises E117 where another stands beside it."""
    found: tuple[str, s.Call | None] | None = None
    others: list[tuple[str | None, s.Syntax]] = []
    for decorator in node.decorators:
        call = decorator if type(decorator) is s.Call else None
        path = reader.path(call.func if call is not None else decorator)
        if path is not None and path in wanted and found is None:
            found = (path, call)
        else:
            others.append((path, decorator))
    if found is not None:
        for path, decorator in others:
            if path is not None or not _of_python(reader, decorator):
                shown = f"the decorator {path}" if path is not None else "this decorator"
                raise reader.error("E117", f"{shown} has no meaning beside {found[0]}", decorator, "take it away")
    return found


def _of_python(reader: Any, decorator: s.Syntax) -> bool:
    """The name it begins with is one of the Python file around the text."""
    at = decorator
    while isinstance(at, (s.Attribute, s.Call)):
        at = at.value if isinstance(at, s.Attribute) else at.func
    outside = reader.reading.scope
    return isinstance(at, s.Name) and isinstance(outside, OutsideScope) and at.name in outside.mapping


def options_of(reader: Any, node: s.FunctionDef | s.ClassDef, wanted: str) -> dict[str, bool] | None:
    """Options of the decorator ``wanted``; None when the function or class does not have it."""
    found = decorator_of(reader, node, (wanted,))
    return None if found is None else _options(reader, *found)


def _options(reader: Any, path: str, call: s.Call | None) -> dict[str, bool]:
    """The options that a decorator is given: each True or False."""
    options: dict[str, bool] = {}
    if call is None:
        return options
    if call.args:
        raise reader.error("E112", f"{path} takes keyword arguments", call)
    for keyword in call.keywords:
        if keyword.name not in _OPTIONS[path]:
            known = ", ".join(_OPTIONS[path])
            raise reader.error("E112", f"{path} has no argument {keyword.name!r}", keyword, f"it has: {known}")
        value = reader.evaluate(keyword.value)
        if value is None and keyword.name == "pure":
            continue  # found out, as without it
        if type(value) is not bool:
            raise reader.error("E113", f"{keyword.name} must be True or False", keyword)
        options[keyword.name] = value
    return options


def macro_of(reader: Any, node: s.FunctionDef) -> Macro | None:
    """The macro that a definition makes, None when it is no macro."""
    found = decorator_of(reader, node, MACROS)
    if found is None:
        return None
    hygienic = _options(reader, *found).get("hygienic", found[0] != "T.inline")
    return Macro(node, reader.scope, hygienic, found[0][0])
