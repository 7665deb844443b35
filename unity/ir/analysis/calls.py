"""Calls between the functions of a module: call graph, recursion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...support.graph import strongly_connected
from ..expr import GlobalVar
from ..module import IRModule
from ..walk import collect


def called_functions(fn: Any) -> list[str]:
    """Names of the module's functions that a function refers to, in order of first sight."""
    return list(dict.fromkeys([g.name for g in collect(fn, GlobalVar)]))


def call_graph(mod: IRModule) -> dict[str, list[str]]:
    """For each function the functions of the module it refers to."""
    return {name: [n for n in called_functions(fn) if n in mod] for name, fn in mod.functions.items()}


def reachable_functions(mod: IRModule, roots: Iterable[str]) -> set[str]:
    """The functions that can be reached from some."""
    found: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name in mod and name not in found:
            found.add(name)
            stack += called_functions(mod[name])
    return found


def detect_recursion(mod: IRModule) -> list[list[str]]:
    """Groups of functions that call each other in a circle (a function calling itself is a group of one); module order."""
    graph = call_graph(mod)
    order = list(graph)
    groups = [sorted(group, key=order.index) for group in strongly_connected(graph, graph.__getitem__)]
    circles = [group for group in groups if len(group) > 1 or group[0] in graph[group[0]]]
    return sorted(circles, key=lambda group: order.index(group[0]))
