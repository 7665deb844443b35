"""Calls: arguments, lambdas called at once, macros, and which function of the level reads the rest.

A call of a macro is replaced by the body, read in the scope of its definition (hygienic) or of its call.

Not here: forms (``T.x(...)``, ``R.x(...)``), which are the levels' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

from ...parser import syntax as s
from .names import path_of
from .reading import Form, Reading, bind_arguments
from .scope import Macro, Scope
from .values import read_expr, read_items


def read_call(r: Reading, node: s.Call) -> Any:
    """The value of a call."""
    func = node.func
    path = path_of(r, func)
    if path is not None:
        form = r.level.forms.get(path)
        return r.level.call(r, path, node) if form is None else form(r, path, node)
    if type(func) is s.Lambda:
        args, keywords = arguments(r, node)
        if len(args) != len(func.params) or keywords:
            raise r.error("E112", f"the lambda takes {len(func.params)} arguments, got {len(args)}", node)
        return apply_lambda(r, func, args)
    if type(func) is s.Attribute:
        return r.level.method(r, read_expr(r, func.value), func.name, node)
    return r.level.call_value(r, read_expr(r, func), node)


def apply_lambda(r: Reading, function: s.Lambda, args: list[Any]) -> Any:
    """The body of a lambda with its parameters standing for values."""
    outer = r.scope
    r.scope = Scope(outer, {param.name: arg for param, arg in zip(function.params, args)})
    try:
        return read_expr(r, function.body)
    finally:
        r.scope = outer


def arguments(r: Reading, node: s.Call) -> tuple[list[Any], dict[str, Any]]:
    """Values of the arguments: by position, by name."""
    args = read_items(r, node.args)
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        value = read_expr(r, keyword.value)
        if keyword.name is None:
            if not isinstance(value, dict):
                raise r.error("E113", "`**` needs a dict", keyword)
            keywords.update(value)
        elif keyword.name in keywords:
            raise r.error("E112", f"argument {keyword.name!r} is given twice", keyword)
        else:
            keywords[keyword.name] = value
    return args, keywords


def bound_arguments(r: Reading, path: str, node: s.Call, fields: tuple[str, ...], required: int) -> dict[str, Any]:
    """Values of the arguments by field. Raises ScriptError E112 for too many, too few, or unknown ones."""
    return bind_arguments(r, node, path, fields, *arguments(r, node), required)


def takes_arguments(function: Callable[..., Any]) -> Form:
    """A form whose arguments are the parameters of a function ``(r, path, node, ...)``; those with a default may be left out."""
    given = list(signature(function).parameters.values())[3:]
    fields, required = tuple([p.name for p in given]), len([p for p in given if p.default is Parameter.empty])

    def form(r: Any, path: str, node: s.Call) -> Any:
        return function(r, path, node, **bound_arguments(r, path, node, fields, required))

    return form


_MAX_DEPTH = 60
_MAX_EXPANSIONS = 10_000
_LEVELS = {"T": "tensor programs", "R": "graph functions"}


@contextmanager
def expansion(r: Reading, macro: Macro, node: s.Call) -> Iterator[list[str]]:
    """Read the body of a macro inside; gives the names of its parameters, which stand for the arguments. Raises E105, E113."""
    if macro.level != r.level.letter:
        raise r.error("E113", f"this macro is for {_LEVELS[macro.level]}", node)
    args, keywords = arguments(r, node)
    r.expansions += 1
    if r.expansion_depth >= _MAX_DEPTH or r.expansions > _MAX_EXPANSIONS:
        raise r.error("E105", "macros expand without end", node)
    names = _names(r, macro, node, args, keywords)
    outer, source = r.scope, r.source
    r.expansion_depth += 1
    r.source = macro.source or source
    r.scope = Scope(macro.scope if macro.hygienic else outer, names)
    try:
        yield list(names)
    finally:
        r.scope, r.source = outer, source
        r.expansion_depth -= 1


def _names(r: Reading, macro: Macro, node: s.Call, args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name."""
    definition = macro.definition
    names: dict[str, Any] = {}
    for index, param in enumerate(definition.params):
        if param.star:
            raise r.error("E114", "a macro has plain parameters only", node)
        if index < len(args):
            names[param.name] = args[index]
        elif param.name in keywords:
            names[param.name] = keywords.pop(param.name)
        elif param.default is not None:
            names[param.name] = read_expr(r, param.default)
        else:
            raise r.error("E112", f"macro {definition.name} needs the argument {param.name!r}", node)
    if len(args) > len(definition.params) or keywords:
        raise r.error("E112", f"macro {definition.name} takes {len(definition.params)} arguments", node)
    return names
