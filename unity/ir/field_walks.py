"""The walks over the fields of a node, written for each class of nodes when it is first walked.

They are where most of the time of passes goes: a function that names the fields of its class takes about half as long as
a loop over them. Here: the children of a node, and the node with other children. Not here: whole trees (`walk.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

Visit = Callable[[Any], Any]
DEF, OWN = "def", "own"
BINDING = (DEF, OWN)


class Walked:
    """The base of the base of nodes: it has fields to walk."""

    __slots__ = ()
    walked: ClassVar[tuple[tuple[str, str], ...]] = ()
    binds: ClassVar[bool] = False
    """Some fields bind what they hold."""
    _push_children: ClassVar[Any] = None
    """``_push_children(node, stack)`` appends what the fields hold, last first; None for nodes that hold none."""
    _map_children: ClassVar[Any] = lambda node, visit, define: node
    """``_map_children(node, visit, define)``: the node with ``visit`` of its children (``define`` in binding fields), itself if all
    are the same."""
    _map_statements: ClassVar[Any] = lambda node, visit: node
    """``_map_statements(node, visit)``: the same for children in fields that may hold statements; the others stay."""


def collect_held(value: Any, found: list[Any]) -> None:
    """Append the nodes in the value of a field, in order."""
    if isinstance(value, Walked):
        found.append(value)
    elif type(value) is tuple:
        for item in value:
            collect_held(item, found)
    elif type(value) is dict:
        for key, item in value.items():
            if isinstance(key, Walked):
                found.append(key)
            collect_held(item, found)


def push_held(value: Any, stack: list[Any]) -> None:
    """The same, last first."""
    found: list[Any] = []
    collect_held(value, found)
    found.reverse()
    stack += found


def map_held(value: Any, visit: Visit) -> Any:
    """The value of a field with ``visit`` of the nodes in it; the same object if none changed."""
    if isinstance(value, Walked):
        return visit(value)
    if type(value) is tuple:
        if len(value) < 2:
            if not value:
                return value
            item = value[0]
            new = visit(item) if isinstance(item, Walked) else map_held(item, visit)
            return value if new is item else (new,)
        mapped = [visit(item) if isinstance(item, Walked) else map_held(item, visit) for item in value]
        for old, new in zip(value, mapped):
            if old is not new:
                return tuple(mapped)
        return value
    if type(value) is dict:
        changed = False
        result = {}
        for key, item in value.items():
            new_key = visit(key) if isinstance(key, Walked) else key
            new_item = map_held(item, visit)
            changed = changed or new_key is not key or new_item is not item
            result[new_key] = new_item
        return result if changed else value
    return value


def derive_walks(cls: Any, types: dict[str, str]) -> None:
    """Give a class its ``_push_children``, ``_map_children`` and ``_map_statements``, which write themselves at their first call.

    ``types``: annotations of the fields.
    """
    if not cls.walked:
        return

    def write() -> None:
        scope: dict[str, Any] = {
            "cls": cls, "Walked": Walked, "push_held": push_held, "map_held": map_held, "__name__": cls.__module__,
        }  # fmt: skip
        exec(_source(cls, types), scope)
        cls._push_children = staticmethod(scope["_push_children"])
        cls._map_children, cls._map_statements = scope["_map_children"], scope["_map_statements"]

    def push_children(node: Any, stack: list[Any]) -> None:
        write()
        cls._push_children(node, stack)

    def map_children(node: Any, visit: Visit, define: Visit) -> Any:
        write()
        return cls._map_children(node, visit, define)

    def map_statements(node: Any, visit: Visit) -> Any:
        write()
        return cls._map_statements(node, visit)

    cls.binds = any([role in BINDING for _, role in cls.walked])
    cls._push_children = staticmethod(push_children)
    cls._map_children, cls._map_statements = map_children, map_statements


def _source(cls: Any, types: dict[str, str]) -> str:
    lines = ["def _push_children(node, stack):"]
    for name, _ in reversed(cls.walked):
        kind, optional = _kind(types[name])
        if optional or kind == "any":
            lines += [f"    value = node.{name}", "    if value is not None:"]
        held = {"node": f"stack.append(node.{name})", "tuple": f"stack += node.{name}[::-1]"}
        lines.append("    " * (1 + (optional or kind == "any")) + held.get(kind, "push_held(value, stack)"))
    ways = {name: "define" if role in BINDING else "visit" for name, role in cls.walked}
    holding_statements = {
        name: "visit" for name in ways if _kind(types[name])[0] == "any" or re.search(r"\b(Stmt|Block)\b", types[name])
    }
    lines += _rebuilding(cls, "_map_children(node, visit, define)", ways, types)
    lines += _rebuilding(cls, "_map_statements(node, visit)", holding_statements, types)
    return "\n".join(lines)


def _rebuilding(cls: Any, head: str, ways: dict[str, str], types: dict[str, str]) -> list[str]:
    """A function that visits the fields of ``ways``."""
    lines = [f"def {head}:"]
    for name, way in ways.items():
        lines.append(f"    old_{name} = new_{name} = node.{name}")
        if _kind(types[name])[0] == "node":
            lines += [f"    if isinstance(old_{name}, Walked):", f"        new_{name} = {way}(old_{name})"]
        else:
            lines += [f"    if old_{name} is not None:", f"        new_{name} = map_held(old_{name}, {way})"]
    same = " and ".join([f"new_{name} is old_{name}" for name in ways]) or "True"
    values = ", ".join([f"new_{name}" if name in ways else f"node.{name}" for name, _ in cls.plan])
    return [*lines, f"    return node if {same} else cls({values})"]


def _kind(annotation: str) -> tuple[str, bool]:
    """The kind of a field by what it holds, a "node", a "tuple" of them or "any" of these, and whether it may be None."""
    bare = re.sub(r"^(Def|Own|Derived)\[(.*)\]$", r"\2", annotation)
    plain, optional = bare.removesuffix(" | None"), bare.endswith(" | None")
    if re.fullmatch(r"tuple\[(?!Any)[A-Z]\w+, \.\.\.\]", plain):  # others hold numbers or texts
        return "tuple", optional
    return ("node" if re.fullmatch(r"[A-Z]\w+", plain) and plain != "Any" else "any"), optional
