"""Level 0 of the verifier: every field of every node holds what its annotation says."""

from __future__ import annotations

import typing
from typing import Any

from ...support.annotations import Check, fits, hint_text
from ...support.arguments import FAULTS
from ...support.errors import UnityError, VerifyError
from ..common_subtrees import check_size
from ..expr import ShapeExpr
from ..node import Node
from ..types import Expr, ShapeType, TensorType
from .report import Report

_CHECKS: dict[type, list[tuple[str, Any, Check | None]]] = {}
_FEW = 16
"""Repeated visits of expressions below which a program cannot be large when written out."""


def _checks(cls: type[Node]) -> list[tuple[str, Any, Check | None]]:
    """Fields of a node class with their annotations and checks."""
    found = _CHECKS.get(cls)
    if found is None:
        resolved = typing.get_type_hints(cls)
        found = _CHECKS[cls] = [(name, resolved[name], fits(resolved[name])) for name, _ in cls.plan]
    return found


def _nodes(value: Any, path: tuple[Any, ...], found: list[tuple[Node, tuple[Any, ...]]]) -> None:
    if isinstance(value, Node):
        found.append((value, path))
    elif type(value) is tuple:
        for index, item in enumerate(value):
            _nodes(item, (path, f"[{index}]"), found)
    elif isinstance(value, dict):
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
    """Record E330 for every field of the wrong kind; iterative, any depth, shared nodes once. E348: too large written out."""
    repeated = _repeated(root)
    if repeated is None:
        _report_fields(root, report)
    elif repeated >= _FEW:
        try:
            check_size(root)
        except VerifyError as error:
            report.add("E348", error.message, error)


def _repeated(root: Node) -> int | None:
    """Visits of expressions that were there before; None where a field is of the wrong kind."""
    seen: set[int] = set()
    repeated = 0
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        kind = type(node)
        if id(node) in seen:
            if node.walked and not node.is_reference and isinstance(node, Expr) and kind is not ShapeExpr:
                repeated += 1
            continue
        seen.add(id(node))
        for name, _, check in _CHECKS.get(kind) or _checks(kind):
            if check is not None and not check(getattr(node, name)):
                return None
        if kind is TensorType and not _shape_agrees(node):
            return None
        if node._push_children is not None:
            node._push_children(node, stack)
    return repeated


def _report_fields(root: Node, report: Report) -> None:
    """Record E330 for every field of the wrong kind, with the way to it."""
    seen: set[int] = set()
    stack: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    while stack:
        node, path = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for name, hint, check in _checks(type(node)):
            value = getattr(node, name)
            if check is not None and not check(value):
                shown = type(value).__name__ if not isinstance(value, Node) else repr(value)
                text = (
                    f"field {name} of {type(node).__name__} at {_text(path)} holds {shown}, expected {hint_text(hint)}"
                )
                report.add("E330", text, node)
        if type(node) is TensorType and not _shape_agrees(node):
            report.add(
                "E330", f"field shape of TensorType at {_text(path)} is not a shape of {node.ndim} dimensions", None
            )
        found: list[tuple[Node, tuple[Any, ...]]] = []
        for name, _ in node.walked:
            _nodes(getattr(node, name), (path, f".{name}"), found)
        stack.extend(reversed(found))


def _shape_agrees(ty: TensorType) -> bool:
    """True if the shape of a tensor type is a list of as many sizes as it has dimensions, or a value that is a shape."""
    if type(ty.shape) is ShapeExpr:
        return type(ty.shape.values) is not tuple or ty.ndim == len(ty.shape.values)
    return ty.shape is None or isinstance(getattr(ty.shape, "ty", None), ShapeType)


def first_fault(value: Any) -> UnityError | None:
    """The first field of the wrong kind in a node, which is why a function could not work with it."""
    if not isinstance(value, Node):
        return None
    report = Report()
    check_fields(value, report)
    return report.errors[0] if report.errors else None


FAULTS.append(first_fault)
