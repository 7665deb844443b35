"""Walks over concrete syntax: the nodes of a definition, and the names a function binds.

Invariant: the functions inside a definition are listed, not entered.
"""

from __future__ import annotations

from typing import Any

from . import syntax as s


def nodes_of(top: s.Syntax) -> list[s.Syntax]:
    """Every node below ``top``, parents first, in order; a function below it is listed but not entered."""
    found: list[s.Syntax] = []
    stack: list[Any] = [top]
    while stack:
        at = stack.pop()
        if isinstance(at, (list, tuple)):
            stack.extend(reversed(at))
        elif isinstance(at, s.Syntax):
            if at is not top:
                found.append(at)
            if at is top or not isinstance(at, s.FunctionDef):
                stack.extend([getattr(at, name) for name in reversed(type(at).__match_args__)])
            else:
                stack.extend(reversed(at.decorators))
    return found


def bound_names(function: s.FunctionDef) -> set[str]:
    """Names a function binds: parameters and targets of assignments, loops and ``with``."""
    found = {param.name for param in function.params} | {param.name for param in function.type_params}
    for node in nodes_of(function):
        targets: list[s.Syntax | None] = []
        if isinstance(node, s.Assign):
            targets = list(node.targets)
        elif isinstance(node, (s.AnnAssign, s.For, s.WithItem)):
            targets = [node.target]
        while targets:
            target = targets.pop()
            if isinstance(target, s.Name):
                found.add(target.name)
            elif isinstance(target, (s.TupleLit, s.ListLit)):
                targets += target.items
    return found
