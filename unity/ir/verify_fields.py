"""Level 0 of the verifier: every field of every node holds what its annotation says."""

from __future__ import annotations

import types
import typing
from typing import Any

from .node import Node
from .verify_report import Report

_HINTS: dict[type, list[tuple[str, Any]]] = {}


def _hints(cls: type) -> list[tuple[str, Any]]:
    found = _HINTS.get(cls)
    if found is None:
        resolved = typing.get_type_hints(cls)
        found = _HINTS[cls] = [(name, resolved[name]) for name, _ in cls.plan]  # type: ignore[attr-defined]
    return found


def fits(value: Any, hint: Any) -> bool:
    """Does a value have the annotated kind (tuples and dicts included, one level at a time)."""
    if hint is Any:
        return True
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        if hint is float:
            return type(value) is float
        if hint is int:
            return type(value) is int
        return isinstance(value, hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any([fits(value, option) for option in typing.get_args(hint)])
    if origin is tuple:
        args = typing.get_args(hint)
        if type(value) is not tuple:
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all([fits(item, args[0]) for item in value])
        return len(args) == len(value) and all([fits(item, arg) for item, arg in zip(value, args)])
    if origin is dict:
        key, item = typing.get_args(hint)
        return type(value) is dict and all([fits(k, key) and fits(v, item) for k, v in value.items()])
    return True


def _nodes(value: Any, path: tuple[Any, ...], found: list[tuple[Node, tuple[Any, ...]]]) -> None:
    if isinstance(value, Node):
        found.append((value, path))
    elif type(value) is tuple:
        for index, item in enumerate(value):
            _nodes(item, (path, f"[{index}]"), found)
    elif type(value) is dict:
        for key, item in value.items():
            if isinstance(key, Node):
                found.append((key, path))
            _nodes(item, (path, f"[{key if isinstance(key, str) else getattr(key, 'name', '?')}]"), found)


def _text(path: tuple[Any, ...]) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)) or "<root>"


def check_fields(root: Node, report: Report) -> None:
    """Record E330 for every field of the wrong kind; iterative, any depth, shared nodes once."""
    seen: set[int] = set()
    stack: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    while stack:
        node, path = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for name, hint in _hints(type(node)):
            value = getattr(node, name)
            if not fits(value, hint):
                shown = type(value).__name__ if not isinstance(value, Node) else repr(value)
                report.add(
                    "E330", f"field {name} of {type(node).__name__} at {_text(path)} holds {shown}, expected {hint_text(hint)}",
                    getattr(node, "span", None),
                )  # fmt: skip
        found: list[tuple[Node, tuple[Any, ...]]] = []
        for name, _ in node.walked:
            _nodes(getattr(node, name), (path, f".{name}"), found)
        stack.extend(reversed(found))


def hint_text(hint: Any) -> str:
    """Readable form of an annotation."""
    return (
        hint.__name__
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias)
        else str(hint).replace("unity.ir.", "")
    )
