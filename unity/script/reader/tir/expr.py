"""Scalar expressions: conversion of values, operators, conditions.

Not here: buffers (``access.py``), calls (``calls.py``, ``forms.py``). Invariant: arithmetic written infix goes through the folding
helpers of ``ir/build.py``. A bare integer is int64 in an index and takes the other operand's type elsewhere.
"""

from __future__ import annotations

from typing import Any

from ....ir import Buffer, Expr, IterVar, StringImm, build as b, scalar
from ...parser import syntax as s
from ...spelling.spelling import INFIX
from ..common.plain import is_number
from ..common.reading import Reading
from ..common.values import as_expr, as_operand, read_expr

_BUILD = {text: b.OPERATORS[getattr(scalar, row.node)] for text, row in INFIX.items() if row.node} | {"/": b.div}
"""The constructors of operators that are nodes, which fold."""


def convert(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A value as scalar expression: numbers become constants, text a StringImm."""
    if isinstance(value, Expr):
        return value
    if is_number(value):
        return b.const(value, None, r.span(node))
    if type(value) is str:
        return StringImm(value, r.span(node))
    if type(value) is IterVar:
        return value.var
    if type(value) is Buffer:
        raise r.error(
            "E113", f"{value.name} is a buffer, not a value", node,
            f"write {value.name}[...] for an element, {value.name}.data for the pointer",
        )  # fmt: skip
    raise r.error("E113", "expected a scalar expression", node)


def as_argument(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """An argument of a call that takes memory: a buffer stands for its pointer."""
    return value.data if type(value) is Buffer else as_expr(r, value, node)


def binary(r: Reading, op: str, left: Any, right: Any, node: s.Syntax) -> Expr:
    """``left op right``."""
    span = r.span(node)
    x, y = as_operand(r, left, node), as_operand(r, right, node)
    build = _BUILD.get(op)
    if build is not None:
        return build(x, y, span)
    row = INFIX.get(op)
    if row is None or row.op is None:
        raise r.error("E107", f"operator {op} has no meaning for scalars", node)
    if op != "**":
        x, y = b.unify(x, y)
    return b.intrinsic(row.op, x, y, span=span)


def unary(r: Reading, op: str, value: Any, node: s.Syntax) -> Expr:
    """A prefix operator."""
    x, span = as_expr(r, value, node), r.span(node)
    match op:
        case "-":
            return b.negate(x, span)
        case "+":
            return x
        case "not":
            return b.logical_not(x, span)
    return b.intrinsic("T.bitwise_not", x, span=span)


def conditional(r: Reading, condition: Any, node: s.IfExp) -> Expr:
    """``a if condition else b`` where running decides."""
    then, otherwise = read_expr(r, node.then), read_expr(r, node.otherwise)
    return b.if_then_else(
        as_expr(r, condition, node.condition), as_operand(r, then, node.then), as_operand(r, otherwise, node.otherwise),
        r.span(node),
    )  # fmt: skip


def as_condition(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A value as condition."""
    return b.as_bool(as_operand(r, value, node))
