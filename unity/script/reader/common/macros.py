"""Macros: a call is replaced by the body, read in the scope of its definition (hygienic) or of its call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...parser import syntax as s
from .calls import arguments
from .reading import Reading
from .scope import Macro, Scope
from .values import read_expr

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
