"""Targets of assignments and loops: names, and parts that take the parts of a value."""

from __future__ import annotations

from typing import Any

from ...parser import syntax as s
from .reading import Reading
from .values import read_expr


def single_target(r: Reading, node: s.Assign) -> s.Syntax:
    """The target of an assignment; values read next are for it. Raises E107 for more than one."""
    if len(node.targets) != 1:
        raise r.error("E107", "script does not have chained assignment", node, "write one assignment per line")
    r.declared.clear()
    expect_name(r, node.targets[0], node.value)
    return node.targets[0]


def expect_name(r: Reading, target: s.Syntax, value: s.Syntax) -> None:
    """The value is read next, and gets the name of the target."""
    r.hint, r.naming = (target.name if type(target) is s.Name else ""), value


def read_pairs(r: Reading, target: s.Syntax, value: s.Syntax) -> list[tuple[s.Syntax, Any]]:
    """Targets and values of ``a, b = x, y``; empty where the sides are not written part by part."""
    if not isinstance(target, (s.TupleLit, s.ListLit)) or not isinstance(value, (s.TupleLit, s.ListLit)):
        return []
    pairs: list[tuple[s.Syntax, Any]] = []
    if len(target.items) == len(value.items):
        for part, item in zip(target.items, value.items):
            expect_name(r, part, item)
            pairs.append((part, read_expr(r, item)))
    return pairs


def unpack(r: Reading, target: s.Syntax, value: Any) -> list[tuple[s.Syntax, Any]]:
    """Pairs of target part and value for a tuple target, one starred part allowed."""
    if not isinstance(target, (s.TupleLit, s.ListLit)):
        raise r.error("E113", "cannot assign to this", target)
    if not isinstance(value, (tuple, list)):
        raise r.error("E113", "this value has no parts to unpack", target)
    parts = target.items
    stars = [index for index, part in enumerate(parts) if type(part) is s.Starred]
    if len(stars) > 1 or (len(value) < len(parts) - 1 if stars else len(value) != len(parts)):
        raise r.error("E113", f"{len(parts)} names for {len(value)} values", target)
    if not stars:
        return list(zip(parts, value))
    at, rest = stars[0], len(value) - (len(parts) - stars[0] - 1)
    starred = parts[at]
    assert type(starred) is s.Starred
    pairs = [*zip(parts[:at], value[:at]), (starred.value, list(value[at:rest]))]
    return pairs + list(zip(parts[at + 1 :], value[rest:]))


def bind_target(r: Reading, target: s.Syntax, value: Any) -> None:
    """Bind names of a target to a value or, for a tuple target, to its parts."""
    if type(target) is s.Name:
        r.scope.names[target.name] = value
        return
    for part, item in unpack(r, target, value):
        bind_target(r, part, item)
