"""Expressions by kind of syntax: literals, containers, operators, indices, conditions. ``EXPRESSIONS`` is the table.

Not here: names and calls (``names.py``, ``calls.py``), and what operators and indices of IR values mean, which the level says.
Invariant: nothing here runs user code; plain numbers are folded with bounded operations only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....ir import Call, Expr, PrimType
from ...parser import syntax as s
from ...spelling.spelling import INFIX
from .calls import read_call
from .names import path_of, read_name
from .plain import PLAIN_COMPARE, fold_binary, is_number
from .reading import Reading, Table
from .scope import Dotted, Scope, outside_value
from .targets import bind_target
from .values import MAX_DEPTH, read_expr, read_integer, read_items, read_sequence, too_deep

_CALLED = frozenset(text for text, row in INFIX.items() if row.op is not None)
"""Operators that are intrinsics in tensor programs."""
_REFUSED = {
    "f-string": "an f-string: script has no text formatting",
    "bytes": "a bytes literal",
    "walrus": "an assignment inside an expression (`:=`): bind the value on its own line",
    "set": "a set",
    "del": "`del`: a name ends with its block",
    "raise": "`raise`: use `assert condition, message`",
    "global": "`global`: a function reads outer names without it",
    "nonlocal": "`nonlocal`",
    "yield": "`yield`",
    "try": "`try`: script has no exceptions",
    "async": "`async`",
}

# ------------------------------------------------------------------------------------------------ literals, containers


def _plain(r: Reading, node: Any) -> Any:
    if node.value is ...:
        raise r.error("E113", "`...` stands for no value", node)
    return node.value


def refused(r: Reading, node: s.Refused) -> Any:
    """An expression or statement of Python that script does not have."""
    raise r.error("E107", f"script does not have {_REFUSED.get(node.kind, node.kind)}", node)


def refusing(refused: Mapping[type, tuple[str, str | None]]) -> Table:
    """The rows of statements that a level does not have: what the error says, and its help."""

    def refuse(r: Reading, node: s.Syntax) -> None:
        message, help = refused[type(node)]
        raise r.error("E107", message, node, help)

    return dict.fromkeys(refused, refuse)


def ignored(r: Reading, node: s.Syntax) -> None:
    """A statement that means nothing."""


def _starred(r: Reading, node: s.Starred) -> Any:
    raise r.error("E101", "`*` stands only in arguments, lists and targets", node)


def _slice(r: Reading, node: s.Slice) -> Any:
    raise r.error("E101", "a slice stands only in the index of a buffer", node)


def _lambda(r: Reading, node: s.Lambda) -> Any:
    raise r.error(
        "E107", "a lambda stands only where an operation takes one (T.comm_reducer) or is called at once", node,
        "write the expression, or a @T.macro",
    )  # fmt: skip


def _tuple(r: Reading, node: s.TupleLit) -> Any:
    return tuple(read_items(r, node.items))


def _list(r: Reading, node: s.ListLit) -> Any:
    return read_items(r, node.items)


def _dict(r: Reading, node: s.DictLit) -> Any:
    result: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values):
        if key_node is None:
            inner = read_expr(r, value_node)
            if not isinstance(inner, dict):
                raise r.error("E113", "`**` needs a dict", value_node)
            result.update(inner)
            continue
        key = read_expr(r, key_node)
        if not isinstance(key, (str, int, float, bool, Expr)):
            raise r.error("E113", "a dict key must be a string or a number", key_node)
        result[key] = read_expr(r, value_node)
    return result


def _list_comp(r: Reading, node: s.ListComp) -> Any:
    items: list[Any] = []
    outer = r.scope
    for value in read_sequence(r, node.source):
        r.scope = Scope(outer)
        try:
            bind_target(r, node.target, value)
            conditions = [read_expr(r, condition) for condition in node.conditions]
            if not all([is_number(condition) for condition in conditions]):
                raise r.error("E113", "the condition must be known while reading", node)
            if all(conditions):
                items.append(read_expr(r, node.item))
        finally:
            r.scope = outer
        if len(items) > 100_000:
            raise r.error("E105", "a list of more than 100000 elements while reading", node)
    return items


# -------------------------------------------------------------------------------------------------- attributes, indices


def _attribute(r: Reading, node: s.Attribute) -> Any:
    path = path_of(r, node)
    if path is not None:
        return r.level.path(r, path, node)
    return r.level.attribute(r, read_expr(r, node.value), node)


def _subscript(r: Reading, node: s.Subscript) -> Any:
    path = path_of(r, node.value)
    return r.level.subscript(r, read_expr(r, node.value) if path is None else Dotted(path), node)


def plain_subscript(r: Reading, value: Any, node: s.Subscript) -> Any:
    """``value[...]`` of a plain container."""
    if isinstance(value, dict):
        key = read_expr(r, node.items[0])
        if len(node.items) == 1 and isinstance(key, (str, int)) and key in value:
            return value[key]
        raise r.error("E113", "no such key", node)
    if isinstance(value, (tuple, list)) and len(node.items) == 1:
        item = node.items[0]
        if type(item) is s.Slice:
            bounds = [None if part is None else read_integer(r, part) for part in (item.lower, item.upper, item.step)]
            if bounds[2] == 0:
                raise r.error("E113", "slice step is zero", item)
            return value[slice(*bounds)]
        index = read_integer(r, item)
        if not -len(value) <= index < len(value):
            raise r.error("E113", f"index {index} of {len(value)} elements", node)
        return value[index]
    if isinstance(value, np.ndarray) and len(node.items) <= value.ndim:
        at = tuple([read_integer(r, item) for item in node.items])
        if all([-size <= index < size for index, size in zip(at, value.shape)]):
            return outside_value(value[at])
        raise r.error("E113", f"index {at} of an array of shape {value.shape}", node)
    raise r.error("E113", "this value takes no index", node)


# ------------------------------------------------------------------------------------------------------------ operators


def _binop(r: Reading, node: s.BinOp) -> Any:
    spine = [node]  # long chains `a + b + c` lean to the left: walk them in a loop
    left = node.left
    while type(left) is s.BinOp:
        spine.append(left)
        left = left.left
    value = read_expr(r, left)
    calls = 0
    for at in reversed(spine):
        value = binary(r, at.op, value, read_expr(r, at.right), at)
        if at.op in _CALLED and type(value) is Call and isinstance(value.ty, PrimType):
            calls += 1  # printed as a call around what stands to its left
            if r.depth + calls > MAX_DEPTH:
                raise too_deep(r, at)
    return value


def binary(r: Reading, op: str, left: Any, right: Any, node: s.Syntax) -> Any:
    """``left op right``: plain numbers and containers here, IR values by the level."""
    if is_number(left) and is_number(right):
        return fold_binary(r, op, left, right, node)
    if op == "+" and type(left) is type(right) and isinstance(left, (tuple, list)):
        return left + right
    return r.level.binary(r, op, left, right, node)


def _compare(r: Reading, node: s.Compare) -> Any:
    left = read_expr(r, node.first)
    result: Any = None
    for op, right_node in zip(node.ops, node.rest):
        asked, negated = right_node, False
        if type(right_node) is s.Unary and right_node.op == "not":
            asked, negated = right_node.value, True
        if op == "is" and type(asked) is s.Literal and asked.value is None:
            right: Any = None
            part: Any = (left is None) is not negated
        elif op in ("in", "is"):
            raise r.error("E107", f"script does not have the operator `{op}`", node, "`is` asks for None: `x is None`")
        else:
            right = read_expr(r, right_node)
            texts = type(left) is str and type(right) is str and op in ("==", "!=")
            plain = texts or (is_number(left) and is_number(right))
            part = PLAIN_COMPARE[op](left, right) if plain else r.level.binary(r, op, left, right, node)
        result = part if result is None else binary(r, "and", result, part, node)
        left = right
    return result


def _unary(r: Reading, node: s.Unary) -> Any:
    value = read_expr(r, node.value)
    if is_number(value):
        match node.op:
            case "not":
                return not value
            case "-":
                return -value
            case "+":
                return +value
            case _ if isinstance(value, int):
                return ~value
        raise r.error("E113", "~ needs an integer", node)
    if type(value) is str:
        raise r.error("E113", f"operator {node.op} does not apply to a string", node)
    return r.level.unary(r, node.op, value, node)


def _if_exp(r: Reading, node: s.IfExp) -> Any:
    condition = read_expr(r, node.condition)
    if is_number(condition):
        return read_expr(r, node.then if condition else node.otherwise)
    return r.level.conditional(r, condition, node)


EXPRESSIONS: Table = {
    s.Name: read_name, s.Number: _plain, s.String: _plain, s.Literal: _plain, s.TupleLit: _tuple, s.ListLit: _list,
    s.DictLit: _dict, s.Attribute: _attribute, s.Call: read_call, s.Subscript: _subscript, s.BinOp: _binop,
    s.Compare: _compare, s.Unary: _unary, s.IfExp: _if_exp, s.ListComp: _list_comp, s.Lambda: _lambda, s.Refused: refused,
    s.Starred: _starred, s.Slice: _slice,
}  # fmt: skip
