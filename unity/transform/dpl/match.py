"""Matching of each kind of pattern against expressions. Not here: the attempt, its record (`matcher.py`)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from ...ir.build import const
from ...ir.expr import Call, Constant, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir.node import Node
from ...ir.relation import Answer, dims, is_subtype, same_dim
from ...ir.structural import data_equal, structural_equal
from ...ir.types import Expr, PrimType, TensorType
from .matcher import HANDLERS, Matcher
from .pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DpsPattern,
    ExprPattern,
    NotPattern,
    OrPattern,
    PatternSeq,
    SameShapePattern,
    ShapeExprPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)


def _wildcard(m: Matcher, p: WildcardPattern, expr: Expr) -> bool:
    return True


def _var(m: Matcher, p: VarPattern, expr: Expr) -> bool:
    fits = type(expr) is GlobalVar if p.kind == "global" else type(expr) is Var and (p.kind == "var" or expr.dataflow)
    return fits and p.name in ("", getattr(expr, "name", ""))


def _constant(m: Matcher, p: ConstantPattern, expr: Expr) -> bool:
    return type(m.value(expr)) is Constant


def _expr(m: Matcher, p: ExprPattern, expr: Expr) -> bool:
    return structural_equal(p.expr, m.value(expr))


def _call(m: Matcher, p: CallPattern, expr: Expr) -> bool:
    value = m.value(expr)
    if type(value) is not Call or not _match_op(m, p.op, value):
        return False
    given = value.args[: len(p.args)] if p.varg_default_wildcard else value.args
    return m.take(value) and m.all(p.args, given)


def _match_op(m: Matcher, pattern: DFPattern, call: Call) -> bool:
    if isinstance(pattern, AttrPattern):
        return _match_op(m, pattern.inner, call) and _has_attrs(pattern.attrs, call.attrs)
    if isinstance(pattern, DpsPattern) and not isinstance(call.args[0], pattern.callee):
        return False
    mark = m.mark()
    if HANDLERS[type(pattern)](m, pattern, call.op):  # operators are shared: each use of one is a match of its own
        return True
    m.back_to(mark)
    return False


def _tuple(m: Matcher, p: TuplePattern, expr: Expr) -> bool:
    value = m.value(expr)
    if type(value) is not Tuple or len(value.fields) != len(p.fields):
        return False
    m.take(value)
    if not p.unordered:
        return m.all(p.fields, value.fields)
    mark = m.mark()
    for order in itertools.permutations(value.fields):
        if m.all(p.fields, order):
            return True
        m.back_to(mark)
    return False


def _get_item(m: Matcher, p: TupleGetItemPattern, expr: Expr) -> bool:
    value = m.value(expr)
    if type(value) is not TupleGetItem or p.index not in (None, value.index):
        return False
    return m.take(value) and m.match(p.tuple_value, value.tuple_value)


def _or(m: Matcher, p: OrPattern, expr: Expr) -> bool:
    return m.match(p.left, expr) or m.match(p.right, expr)


def _and(m: Matcher, p: AndPattern, expr: Expr) -> bool:
    return m.match(p.left, expr) and m.match(p.right, expr)


def _not(m: Matcher, p: NotPattern, expr: Expr) -> bool:
    mark = m.mark()
    matched = m.match(p.inner, expr)
    m.back_to(mark)
    return not matched


def _has_attrs(wanted: Mapping[str, Any], attrs: Mapping[str, Any]) -> bool:
    """True if the attributes are as wanted. A number stands for a list of it, and two numbers of padding for both sides of each
    axis."""
    return all([name in attrs and _equal_attr(name, attrs[name], value) for name, value in wanted.items()])


def _equal_attr(name: str, found: Any, wanted: Any) -> bool:
    for one, several in ((found, wanted), (wanted, found)):
        if isinstance(one, int) and isinstance(several, (list, tuple)):
            return bool(several) and all([_equal(one, value) for value in several])
    both = isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple))
    if both and name == "padding" and len(wanted) == 2 * len(found):
        found = (*found, *found)
    return _equal(found, wanted)


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, Node) and isinstance(wanted, Node):
        return structural_equal(found, wanted)
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all([_equal(x, y) for x, y in zip(found, wanted)])
    number = getattr(found, "value", found)
    return data_equal(found, wanted) or number == getattr(wanted, "value", wanted)


def _attr(m: Matcher, p: AttrPattern, expr: Expr) -> bool:
    attrs = getattr(m.value(expr), "attrs", None)
    return isinstance(attrs, dict) and m.match(p.inner, expr) and _has_attrs(p.attrs, attrs)


def _dtype(m: Matcher, p: DataTypePattern, expr: Expr) -> bool:
    ty = expr.ty
    return isinstance(ty, (TensorType, PrimType)) and ty.dtype is p.dtype and m.match(p.inner, expr)


def _same(found: tuple[Expr, ...] | None, wanted: tuple[Expr | int, ...]) -> bool:
    if found is None or len(found) != len(wanted):
        return False
    exprs = [const(w, "int64") if isinstance(w, int) else w for w in wanted]
    return all([same_dim(x, y) is Answer.YES for x, y in zip(found, exprs)])


def _shape(m: Matcher, p: ShapePattern, expr: Expr) -> bool:
    return _same(dims(expr.ty), p.shape) and m.match(p.inner, expr)


def _type(m: Matcher, p: TypePattern, expr: Expr) -> bool:
    return is_subtype(expr.ty, p.ty) is Answer.YES and m.match(p.inner, expr)


def _same_shape(m: Matcher, p: SameShapePattern, expr: Expr) -> bool:
    own = dims(expr.ty)
    for other in p.others:
        known = m.found.get(other)
        if own is None or known is None or not _same(dims(known.ty), own):
            return False
    return m.match(p.inner, expr)


def _shape_expr(m: Matcher, p: ShapeExprPattern, expr: Expr) -> bool:
    value = m.value(expr)
    return type(value) is ShapeExpr and _same(value.values, p.values)


def _seq(m: Matcher, p: PatternSeq, expr: Expr) -> bool:
    return m.match(p.patterns[-1], expr)


HANDLERS |= {
    WildcardPattern: _wildcard, VarPattern: _var, ConstantPattern: _constant, ExprPattern: _expr, DpsPattern: _expr,
    CallPattern: _call,
    TuplePattern: _tuple, TupleGetItemPattern: _get_item, OrPattern: _or, AndPattern: _and, NotPattern: _not, AttrPattern: _attr,
    DataTypePattern: _dtype, ShapePattern: _shape, TypePattern: _type, SameShapePattern: _same_shape,
    ShapeExprPattern: _shape_expr, PatternSeq: _seq,
}  # fmt: skip
