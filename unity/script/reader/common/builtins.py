"""Python's own functions of plain values: ``len``, ``sum``, ``range``, ``math.sqrt`` ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...parser import syntax as s
from .calls import arguments
from .expr import binary
from .plain import computed, fold_math, is_number
from .reading import Reading

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"abs": abs, "int": int, "float": float, "bool": bool}
_MAX_RANGE = 100_000


def call_builtin(r: Reading, path: str, node: s.Call) -> Any:
    """A call of one of Python's functions."""
    args, keywords = arguments(r, node)
    if keywords or not args:
        raise r.error("E112", f"{path} takes positional arguments here", node)
    if path.startswith("math."):
        return fold_math(r, path, args, node)
    first = args[0]
    if path == "len" and isinstance(first, (tuple, list, dict, str)):
        return len(first)
    if path in ("tuple", "list") and isinstance(first, (tuple, list)):
        return tuple(first) if path == "tuple" else list(first)
    if path in ("sum", "min", "max"):
        items = list(first) if len(args) == 1 and isinstance(first, (tuple, list)) else args
        if not items:
            raise r.error("E112", f"{path} of nothing", node)
        result = items[0]
        for item in items[1:]:
            result = _fold(r, path, result, item, node)
        return result
    if path == "float" and type(first) is str and first in ("inf", "-inf", "nan") and len(args) == 1:
        return float(first)
    if is_number(first) and path in _CONVERSIONS and len(args) == 1:
        return computed(r, path, _CONVERSIONS[path], [first], node)
    if path == "range" and all([type(arg) is int for arg in args]) and len(args) <= 3:
        made: range = computed(r, path, range, args, node)
        if made[_MAX_RANGE:]:
            raise r.error("E105", f"range of more than {_MAX_RANGE} elements while reading", node)
        return list(made)
    raise r.error("E107", f"{path}() runs nothing in script", node, "parsing never executes Python")


def _fold(r: Reading, path: str, left: Any, right: Any, node: s.Syntax) -> Any:
    if path == "sum":
        return binary(r, "+", left, right, node)
    if is_number(left) and is_number(right):
        return min(left, right) if path == "min" else max(left, right)
    raise r.error("E107", f"{path}() is for plain numbers", node, f"use T.{path}(a, b)")
