"""Calls between the functions of a module: call graph, recursion, purity of functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...support.graph import strongly_connected
from ..expr import Call, GlobalVar, Op
from ..function import Function, PrimFunc
from ..infer import find_impure_call
from ..intrinsic import INTRINSICS
from ..module import IRModule
from ..scalar import BufferLoad
from ..stmt import BufferStore
from ..types import Expr
from ..walk import collect


def global_vars(fn: Any) -> list[GlobalVar]:
    """References to functions of the module inside a function, one of each name, in order of first sight."""
    return list({g.name: g for g in reversed(collect(fn, GlobalVar))}.values())[::-1]


def called_functions(fn: Any) -> list[str]:
    """Names of the module's functions that a function refers to, in order of first sight."""
    return list(dict.fromkeys([g.name for g in collect(fn, GlobalVar)]))


def contains_impure_call(expr: Expr) -> bool:
    """True where a graph function or a normalised expression has a call with an effect."""
    return find_impure_call(expr.body if isinstance(expr, Function) else expr) is not None


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


def is_pure_function(fn: Function | PrimFunc) -> bool:
    """A graph function without effects, or a tensor program that writes only its own allocations and calls nothing with effects."""
    if isinstance(fn, Function):
        return find_impure_call(fn.body) is None
    own = set(fn.buffer_map.values())
    for store in collect(fn.body, BufferStore):
        if store.buffer in own:
            return False
    pointers = {b.data for b in own}
    for call in collect(fn.body, Call):
        row = INTRINSICS.get(call.op.name) if type(call.op) is Op else None
        if row is None or (row.effect == "effect" and row.name != "T.ret"):
            return False
        if row.name == "T.address_of" and type(call.args[0]) is BufferLoad and call.args[0].buffer in own:
            return False
        if any([a in pointers for a in call.args]):
            return False
    return True
