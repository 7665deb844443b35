"""The value of a syntax node, and what a value must be where only some fit: expressions, integers, strings, data types, parts.

A value while reading is an IR expression or a plain Python value (number, text, tuple, list, dict, buffer, type, dotted name).
Not here: what each kind of syntax means (``expr.py``). Invariant: a value of another kind is an error with the place of its syntax.
"""

from __future__ import annotations

import math
from typing import Any

from ....ffi.dtype import DataType
from ....ir import Expr, IntImm, build as b, prim_type
from ...parser import syntax as s
from .plain import is_number
from .reading import Reading
from .scope import Dotted

MAX_DEPTH = 180
"""Nesting of an expression: below the brackets that the layout allows, because printing may add some."""
INT64 = prim_type("int64")


def read_expr(r: Reading, node: s.Syntax) -> Any:
    """The value of an expression. Raises E105 inside ``MAX_DEPTH`` others: what is read must print in few brackets."""
    r.depth += 1
    try:
        if r.depth > MAX_DEPTH:
            raise too_deep(r, node)
        return r.level.expressions[type(node)](r, node)
    finally:
        r.depth -= 1


def too_deep(r: Reading, node: s.Syntax) -> Exception:
    """The error of an expression inside too many others."""
    message = f"more than {MAX_DEPTH} expressions inside each other"
    return r.error("E105", message, node, "bind parts of the expression to names")


def read_integer(r: Reading, node: s.Syntax) -> int:
    """An expression that must be an integer known while reading."""
    return as_integer(r, read_expr(r, node), node)


def read_scalar(r: Reading, node: s.Syntax) -> Expr:
    """An expression as a node of the IR."""
    return r.level.convert(r, read_expr(r, node), node)


def read_sequence(r: Reading, node: s.Syntax) -> list[Any]:
    """An expression that must be a tuple or a list, as list."""
    return as_sequence(r, read_expr(r, node), node)


def read_items(r: Reading, nodes: list[s.Syntax]) -> list[Any]:
    """Values of expressions, starred ones spread."""
    items: list[Any] = []
    for node in nodes:
        if type(node) is s.Starred:
            items.extend(read_sequence(r, node.value))
        else:
            items.append(read_expr(r, node))
    return items


def as_expr(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A value as expression of the level being read."""
    return r.level.convert(r, value, node)


def as_index(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A value as index: bare integers are int64."""
    return as_size(r, value, node) if type(value) is int else r.level.convert(r, value, node)


def as_size(r: Reading, value: int, node: s.Syntax) -> Expr:
    """A plain integer as a size or an index. Raises E106 outside int64."""
    if not -(2**63) <= value < 2**63:
        raise r.error("E106", "a size or index outside the range of int64", node)
    return IntImm(value, INT64, r.span(node))


def as_operand(r: Reading, value: Any, node: s.Syntax) -> Any:
    """An operand for the builders, which take plain numbers too."""
    return value if is_number(value) else r.level.convert(r, value, node)


def as_typed(r: Reading, value: Any, dtype: DataType, node: s.Syntax) -> Expr:
    """A value as scalar of a data type: a plain number with all digits that the type holds, anything else converted."""
    span = r.span(node)
    return b.const(value, dtype, span) if is_number(value) else b.cast(as_expr(r, value, node), dtype, span)


def as_cast(r: Reading, value: Any, dtype: DataType, node: s.Syntax) -> Expr:
    """``as_typed`` where the text asks for a conversion: an integer of a plain number with a fraction is cut off."""
    if type(value) is float and math.isfinite(value) and (dtype.is_integral or dtype.is_bool):
        value = value != 0 if dtype.is_bool else int(value)
    return as_typed(r, value, dtype, node)


def as_integer(r: Reading, value: Any, node: s.Syntax) -> int:
    """A value as integer known while reading. Raises E113."""
    if type(value) is int:
        return value
    if type(value) is IntImm:
        return value.value
    if type(value) is bool:
        return int(value)
    raise r.error("E113", "expected an integer known while reading", node)


def as_text(r: Reading, value: Any, node: s.Syntax, what: str = "a string") -> str:
    """A value as text. Raises E113."""
    if type(value) is str:
        return value
    raise r.error("E113", f"expected {what}", node)


def as_dtype(r: Reading, value: Any, node: s.Syntax) -> DataType:
    """A value as data type: a string, a DataType, or ``T.float32``."""
    if type(value) is DataType:
        return value
    if type(value) is str:
        return DataType(value)
    if type(value) is Dotted and value.text.startswith("T."):
        return DataType(value.text[2:])
    raise r.error("E113", 'expected a data type such as "float32"', node)


def as_sequence(r: Reading, value: Any, node: s.Syntax) -> list[Any]:
    """A tuple or list value as list. Raises E113."""
    if not isinstance(value, (tuple, list)):
        raise r.error("E113", "expected a tuple or a list", node)
    return list(value)
