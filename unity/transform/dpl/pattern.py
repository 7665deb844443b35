"""Patterns: descriptions of expressions of the graph level.

A pattern stands for itself: used at two places it must match the same expression at both (``dup`` makes a copy that need not).
Inside ``with PatternContext():`` ``a ^ b`` (``used_by``) and ``a >> b`` (``only_used_by``) say how matches use each other.
Here: the descriptions and their builders. Not here: matching (`match.py`, `context.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar

from ...ffi.dtype import DataType
from ...ir.expr import ExternFunc, GlobalVar, op
from ...ir.op import OPS
from ...ir.types import Expr, Type
from ...op.common.table import R
from ...support.arguments import checked_class
from ...support.context_stack import ContextStack
from ...support.errors import PassError, PlaceError, suggest
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


@dataclass(slots=True, eq=False)
class VarPattern(DFPattern):
    """A variable, of a name if given; ``kind`` "var", "dataflow" or "global"."""

    keeps_variable = True

    name: str
    kind: str = "var"


@dataclass(slots=True, eq=False)
class ConstantPattern(DFPattern):
    """Constant data."""


@dataclass(slots=True, eq=False)
class ExprPattern(DFPattern):
    """An expression structurally equal to ``expr``: operators, external functions, ..."""

    expr: Expr


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


@dataclass(slots=True, eq=False)
class TupleGetItemPattern(DFPattern):
    """A field of a tuple; ``index`` None is any."""

    tuple_value: DFPattern
    index: int | None


@dataclass(slots=True, eq=False)
class OrPattern(DFPattern):
    """Either; the left is tried first."""

    left: DFPattern
    right: DFPattern


@dataclass(slots=True, eq=False)
class AndPattern(DFPattern):
    """Both."""

    left: DFPattern
    right: DFPattern


@dataclass(slots=True, eq=False)
class NotPattern(DFPattern):
    """Not this."""

    inner: DFPattern


@dataclass(slots=True, eq=False)
class AttrPattern(DFPattern):
    """A call or function with attributes."""

    inner: DFPattern
    attrs: dict[str, Any]


@dataclass(slots=True, eq=False)
class DataTypePattern(DFPattern):
    """A tensor or scalar of a data type."""

    inner: DFPattern
    dtype: DataType


@dataclass(slots=True, eq=False)
class ShapePattern(DFPattern):
    """A tensor of a shape."""

    inner: DFPattern
    shape: tuple[Expr | int, ...]


@dataclass(slots=True, eq=False)
class TypePattern(DFPattern):
    """An expression whose type is ``ty`` or narrower."""

    inner: DFPattern
    ty: Type


@dataclass(slots=True, eq=False)
class SameShapePattern(DFPattern):
    """A tensor of the shape that other matches have."""

    inner: DFPattern
    others: tuple[DFPattern, ...]


@dataclass(slots=True, eq=False)
class ShapeExprPattern(DFPattern):
    """A shape value of these dimensions."""

    values: tuple[Expr | int, ...]

    def __getitem__(self, index: int) -> Expr | int:
        return self.values[index]


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


def wildcard() -> DFPattern:
    """Anything."""
    return WildcardPattern()


def is_op(name: str) -> DFPattern:
    """An operator by name (``R.add`` or ``relax.add``): ``is_op("R.add")(wildcard(), wildcard())``. Raises PassError E553 for a
    name that no operator has."""
    callee = {"relax.call_tir": GlobalVar, "relax.call_dps_packed": ExternFunc}.get(name)
    if callee is not None:
        return DpsPattern(op(name), callee)
    found = op(name)
    if found.name.startswith("R.") and found.name not in OPS:
        raise PassError("E553", f"no operator {found.name}", help=suggest(found.name, OPS))
    return ExprPattern(found)


def is_expr(expr: Expr) -> DFPattern:
    """An expression structurally equal to this one."""
    return ExprPattern(expr)


def is_const() -> DFPattern:
    """Constant data."""
    return ConstantPattern()


def is_var(name: str = "") -> DFPattern:
    """A variable, of a name if given."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DFPattern:
    """A variable of a dataflow block."""
    return VarPattern(name, "dataflow")


def is_gv(name: str = "") -> DFPattern:
    """A function of the module."""
    return VarPattern(name, "global")


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> DFPattern:
    """A tuple of these fields."""
    return TuplePattern(tuple(fields), unordered)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """A field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Expr | int]) -> DFPattern:
    """A shape value of these dimensions."""
    return ShapeExprPattern(tuple(shape))


def _call_dps(callee: DFPattern, args: DFPattern | Sequence[DFPattern] | None, tir_vars: DFPattern | None) -> DFPattern:
    given = wildcard() if args is None else args if isinstance(args, DFPattern) else TuplePattern(tuple(args))
    if tir_vars is not None:
        return CallPattern(is_op(R.call_dps.name), (callee, given, tir_vars))
    bare = CallPattern(is_op(R.call_dps.name), (callee, given))
    return bare | CallPattern(is_op(R.call_dps.name), (callee, given, wildcard())) if args is None else bare


def is_call_tir(
    func_name: str, args: Sequence[DFPattern] | None = None, tir_vars: DFPattern | None = None
) -> DFPattern:
    """``R.call_dps`` of a tensor program of the module, with any arguments if none are given."""
    return _call_dps(is_gv(func_name), args, tir_vars)


def is_call_dps_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_dps`` of a registered function."""
    return _call_dps(is_expr(ExternFunc(func_name)), args, None)


def is_call_dps(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_dps`` of a tensor program or a registered function of this name."""
    return _call_dps(OrPattern(is_gv(func_name), is_expr(ExternFunc(func_name))), args, None)


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_packed`` of a registered function."""
    callee = is_expr(ExternFunc(func_name))
    return CallPattern(is_op(R.call_packed.name), (callee, *(args or ())), args is None)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> DFPattern:
    """``op(x, w)``, then adding a bias, then an activation, as asked for."""
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op(R.add.name)(out, wildcard())
    return is_op(activation)(out) if activation else out
