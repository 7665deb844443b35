"""Dimensions of shapes: integers, integer expressions, and text in which unknown names are symbols."""

from __future__ import annotations

from typing import Any

from ....ir import Expr, IntImm, PrimType, ShapeExpr
from ....support.source import Source
from ...parser import syntax as s
from ...parser.names_bound import nodes_of
from ...parser.read_text import read_tree
from .names import symbol
from .reading import Reading
from .values import as_size, read_expr


def quoted(r: Reading, text: str, node: s.Syntax) -> Any:
    """A dimension or type written as text. Unknown names in it are symbols."""
    if text.isidentifier():
        value = r.scope.get(text)
        if isinstance(value, Expr) and isinstance(value.ty, PrimType):
            return value
        return symbol(r, text)
    tree, errors = read_tree(Source(r.source.name, text))
    if tree is None or errors or len(tree.body) != 1 or type(tree.body[0]) is not s.ExprStmt:
        raise r.error("E106", f"cannot read {text!r} as an expression", node)
    expression = tree.body[0].value
    for at in [expression, *nodes_of(expression)]:  # they get the place of the string
        at.start, at.end = node.start, node.end
    defining, r.defining = r.defining, True
    try:
        return read_expr(r, expression)
    finally:
        r.defining = defining


def dimension(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A dimension: integer, integer expression, or quoted text."""
    if type(value) is int:
        return as_size(r, value, node)
    if type(value) is str:
        return dimension(r, quoted(r, value, node), node)
    if isinstance(value, Expr):
        ty = value.ty
        if isinstance(ty, PrimType) and ty.dtype.is_integral:
            return value
    raise r.error("E113", "a dimension must be an integer or an integer expression", node)


def dimensions(r: Reading, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
    """Dimensions of a shape: a tuple or list, or one integer."""
    if isinstance(value, (tuple, list)):
        return tuple([dimension(r, item, node) for item in value])
    if isinstance(value, ShapeExpr):
        return value.values
    return (dimension(r, value, node),)


def extents(r: Reading, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
    """Dimensions of the shape of something: none is negative."""
    result = dimensions(r, value, node)
    for index, extent in enumerate(result):
        if type(extent) is IntImm and extent.value < 0:
            raise r.error("E113", f"dimension {index} is {extent.value}: a size is not negative", node)
    return result
