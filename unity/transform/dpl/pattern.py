"""Patterns: descriptions of expressions of the graph level.

A pattern stands for itself: used at two places it must match the same expression at both (``dup`` makes a copy that need not).
Inside ``with PatternContext():`` ``a ^ b`` (``used_by``) and ``a >> b`` (``only_used_by``) say how matches use each other.
Here: the descriptions and what they match. Not here: the attempt, its record (`matcher.py`), builders (`builders.py`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar

from ...ffi.dtype import DataType
from ...ir.build import const
from ...ir.expr import Call, Constant, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir.node import Node
from ...ir.relation import Answer, dims, is_subtype, same_dim
from ...ir.structural import data_equal, structural_equal
from ...ir.types import Expr, PrimType, TensorType, Type
from ...support.arguments import checked_class
from ...support.context_stack import ContextStack
from ...support.errors import PassError, PlaceError
from .matcher import Matcher

Constraints = list[tuple["DFPattern", "DFPattern", int, bool]]
CONTEXTS: ContextStack[Constraints] = ContextStack("patterns")
"""Constraints of the contexts entered: (producer, consumer, argument or -1, only used there)."""


@checked_class
class DFPattern:
    """Base of patterns."""

    __slots__ = ()
    keeps_variable: ClassVar[bool] = False
    """True if the match of this pattern is a variable itself, rather than the value that it is bound to."""

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of what this matches; with ``varg_default_wildcard`` any arguments may follow the given ones. A PatternContext
        learns that it uses them, unless ``add_constraint=False``."""
        return CallPattern(self, tuple(args), varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> DFPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> DFPattern:
        return AndPattern(self, other)

    def __invert__(self) -> DFPattern:
        return NotPattern(self)

    def __xor__(self, other: DFPattern) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern) -> PatternSeq:
        return self.only_used_by(other)

    def has_attr(self, attrs: Mapping[str, Any]) -> DFPattern:
        """Of a call or function: these attributes with these values."""
        return AttrPattern(self, dict(attrs))

    def has_dtype(self, dtype: str | DataType) -> DFPattern:
        """Of a tensor or scalar: its data type."""
        return DataTypePattern(self, DataType(dtype))

    def has_shape(self, shape: Sequence[Expr | int]) -> DFPattern:
        """Of a tensor: its shape."""
        return ShapePattern(self, tuple(shape))

    def has_ty(self, ty: Type) -> DFPattern:
        """Of any expression: a type that is ``ty`` or narrower."""
        return TypePattern(self, ty)

    has_struct_info = has_ty

    def same_shape_as(self, *others: DFPattern) -> DFPattern:
        """Of a tensor: the shape that the matches of other patterns have."""
        return SameShapePattern(self, others)

    def optional(self, make: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """This, or what ``make`` builds around it."""
        return OrPattern(make(self), self)

    def dup(self) -> DFPattern:
        """A copy that may match something else."""
        return copy.copy(self)

    def used_by(self, other: DFPattern, index: int = -1) -> PatternSeq:
        """Say that the match of ``other`` uses this one, as argument ``index`` if given. Needs a PatternContext (E553)."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: DFPattern, index: int = -1) -> PatternSeq:
        """As ``used_by``, and nothing else uses it."""
        return PatternSeq([self]).only_used_by(other, index)

    def fork_to(self, *others: DFPattern) -> None:
        """Say that each of several patterns uses this one."""
        for other in others:
            self.used_by(other)

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        """True if an expression has this form; the matcher records it. The base stands for no expression."""
        return False

    def match(self, expr: Expr, var2val: Mapping[Any, Expr] | None = None) -> bool:
        """True if an expression has this form. With ``var2val`` variables are followed to their values."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Any, Expr] | None = None
    ) -> dict[DFPattern, Expr] | None:
        """The match of each part, None where the whole does not match."""
        matcher = Matcher(var2val or {})
        return matcher.found if matcher.match(self, expr) else None


@dataclass(slots=True, eq=False)
class WildcardPattern(DFPattern):
    """Anything."""

    keeps_variable = True

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return True


@dataclass(slots=True, eq=False)
class VarPattern(DFPattern):
    """A variable, of a name if given; ``kind`` "var", "dataflow" or "global"."""

    keeps_variable = True

    name: str
    kind: str = "var"

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        fits = (
            type(expr) is GlobalVar
            if self.kind == "global"
            else type(expr) is Var and (self.kind == "var" or expr.dataflow)
        )
        return fits and self.name in ("", getattr(expr, "name", ""))


@dataclass(slots=True, eq=False)
class ConstantPattern(DFPattern):
    """Constant data."""

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return type(m.value(expr)) is Constant


@dataclass(slots=True, eq=False)
class ExprPattern(DFPattern):
    """An expression structurally equal to ``expr``: operators, external functions, ..."""

    expr: Expr

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return structural_equal(self.expr, m.value(expr))


@dataclass(slots=True, eq=False)
class DpsPattern(ExprPattern):
    """``R.call_dps`` of a ``callee`` of one class: TVM has an operator for each."""

    callee: type


@dataclass(slots=True, eq=False)
class CallPattern(DFPattern):
    """A call; with ``varg_default_wildcard`` any arguments may follow ``args``."""

    op: DFPattern
    args: tuple[DFPattern, ...]
    varg_default_wildcard: bool = False
    add_constraint: InitVar[bool] = True

    def __post_init__(self, add_constraint: bool) -> None:
        context = CONTEXTS.top
        if add_constraint and context is not None:
            context += [(arg, self, index, False) for index, arg in enumerate(self.args)]

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        value = m.value(expr)
        if type(value) is not Call or not _match_op(m, self.op, value):
            return False
        given = value.args[: len(self.args)] if self.varg_default_wildcard else value.args
        return m.take(value) and m.all(self.args, given)


@dataclass(slots=True, eq=False)
class TuplePattern(DFPattern):
    """A tuple of these fields, in this order unless ``unordered``."""

    fields: tuple[DFPattern, ...]
    unordered: bool = False

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        """A field of it; None is any. Raises PlaceError E743 after the last."""
        if index is not None and not -len(self.fields) <= index < len(self.fields):
            raise PlaceError("E743", f"field {index} of a pattern of {len(self.fields)} fields")
        return TupleGetItemPattern(self, None if index is None else index % len(self.fields))

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        value = m.value(expr)
        if type(value) is not Tuple or len(value.fields) != len(self.fields):
            return False
        m.take(value)
        if not self.unordered:
            return m.all(self.fields, value.fields)
        mark = m.mark()
        for order in itertools.permutations(value.fields):
            if m.all(self.fields, order):
                return True
            m.back_to(mark)
        return False


@dataclass(slots=True, eq=False)
class TupleGetItemPattern(DFPattern):
    """A field of a tuple; ``index`` None is any."""

    tuple_value: DFPattern
    index: int | None

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        value = m.value(expr)
        if type(value) is not TupleGetItem or self.index not in (None, value.index):
            return False
        return m.take(value) and m.match(self.tuple_value, value.tuple_value)


@dataclass(slots=True, eq=False)
class OrPattern(DFPattern):
    """Either; the left is tried first."""

    left: DFPattern
    right: DFPattern

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return m.match(self.left, expr) or m.match(self.right, expr)


@dataclass(slots=True, eq=False)
class AndPattern(DFPattern):
    """Both."""

    left: DFPattern
    right: DFPattern

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return m.match(self.left, expr) and m.match(self.right, expr)


@dataclass(slots=True, eq=False)
class NotPattern(DFPattern):
    """Not this."""

    inner: DFPattern

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        mark = m.mark()
        matched = m.match(self.inner, expr)
        m.back_to(mark)
        return not matched


@dataclass(slots=True, eq=False)
class AttrPattern(DFPattern):
    """A call or function with attributes."""

    inner: DFPattern
    attrs: dict[str, Any]

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        attrs = getattr(m.value(expr), "attrs", None)
        return isinstance(attrs, dict) and m.match(self.inner, expr) and _has_attrs(self.attrs, attrs)


@dataclass(slots=True, eq=False)
class DataTypePattern(DFPattern):
    """A tensor or scalar of a data type."""

    inner: DFPattern
    dtype: DataType

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        ty = expr.ty
        return isinstance(ty, (TensorType, PrimType)) and ty.dtype is self.dtype and m.match(self.inner, expr)


@dataclass(slots=True, eq=False)
class ShapePattern(DFPattern):
    """A tensor of a shape."""

    inner: DFPattern
    shape: tuple[Expr | int, ...]

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return _same(dims(expr.ty), self.shape) and m.match(self.inner, expr)


@dataclass(slots=True, eq=False)
class TypePattern(DFPattern):
    """An expression whose type is ``ty`` or narrower."""

    inner: DFPattern
    ty: Type

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return is_subtype(expr.ty, self.ty) is Answer.YES and m.match(self.inner, expr)


@dataclass(slots=True, eq=False)
class SameShapePattern(DFPattern):
    """A tensor of the shape that other matches have."""

    inner: DFPattern
    others: tuple[DFPattern, ...]

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        own = dims(expr.ty)
        for other in self.others:
            known = m.found.get(other)
            if own is None or known is None or not _same(dims(known.ty), own):
                return False
        return m.match(self.inner, expr)


@dataclass(slots=True, eq=False)
class ShapeExprPattern(DFPattern):
    """A shape value of these dimensions."""

    values: tuple[Expr | int, ...]

    def __getitem__(self, index: int) -> Expr | int:
        return self.values[index]

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        value = m.value(expr)
        return type(value) is ShapeExpr and _same(value.values, self.values)


@dataclass(slots=True, eq=False)
class PatternSeq(DFPattern):
    """Patterns each of which uses the one before it: what ``a >> b`` gives. As a pattern it stands for the last."""

    patterns: list[DFPattern]

    def used_by(self, other: DFPattern, index: int = -1) -> PatternSeq:
        """Go on with a user of the last one."""
        return self._edge(other, index, False)

    def only_used_by(self, other: DFPattern, index: int = -1) -> PatternSeq:
        """Go on with the only user of the last one."""
        return self._edge(other, index, True)

    def _edge(self, other: DFPattern, index: int, only: bool) -> PatternSeq:
        context = CONTEXTS.top
        if context is None:
            raise PassError("E553", "used_by and only_used_by have a meaning inside a PatternContext only",
                            help="write `with PatternContext() as ctx:` around them")  # fmt: skip
        following = other.patterns if isinstance(other, PatternSeq) else [other]
        context.append((self.patterns[-1], following[0], index, only))
        return PatternSeq([*self.patterns, *following])

    def _matches(self, m: Matcher, expr: Expr) -> bool:
        return m.match(self.patterns[-1], expr)


def _match_op(m: Matcher, pattern: DFPattern, call: Call) -> bool:
    if isinstance(pattern, AttrPattern):
        return _match_op(m, pattern.inner, call) and _has_attrs(pattern.attrs, call.attrs)
    if isinstance(pattern, DpsPattern) and not isinstance(call.args[0], pattern.callee):
        return False
    mark = m.mark()
    if pattern._matches(m, call.op):  # operators are shared: each use of one is a match of its own
        return True
    m.back_to(mark)
    return False


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


def _same(found: tuple[Expr, ...] | None, wanted: tuple[Expr | int, ...]) -> bool:
    if found is None or len(found) != len(wanted):
        return False
    exprs = [const(w, "int64") if isinstance(w, int) else w for w in wanted]
    return all([same_dim(x, y) is Answer.YES for x, y in zip(found, exprs)])
