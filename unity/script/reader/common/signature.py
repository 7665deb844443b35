"""Signatures of functions: what a parameter may be at both levels, the symbols in brackets, the result type."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ....ir import Type, Var
from ...parser import syntax as s
from .reading import Reading
from .types import read_type
from .values import INT64


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
