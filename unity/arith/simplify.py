"""The simplifier: canonical form for index arithmetic, decided comparisons, folded constants, everything else rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import build
from ..ir.build import scalar_type
from ..ir.expr import Call, FloatImm, IntImm, Var
from ..ir.scalar import (
    ARITHMETIC,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Cast,
    Compare,
    Let,
    Not,
    Or,
    Select,
    is_binary,
)  # fmt: skip
from ..ir.structural import structural_equal
from ..ir.types import Expr
from ..ir.walk import rebuild, substitute
from .bounds import Knowledge
from .canonical import Canonical, is_index

Decide = Callable[[Expr], "bool | None"]

_NEGATED: dict[type, Callable[..., Expr]] = {
    EQ: build.ne, NE: build.eq, LT: build.ge, LE: build.gt, GT: build.le, GE: build.lt,
}  # fmt: skip


class Simplifier:
    """Callable: expression to simplified expression under a state of knowledge."""

    def __init__(self, known: Knowledge, decide: Decide) -> None:
        self.known = known
        self.decide = decide
        self.canonical = Canonical(known, self._inside)
        self._rules: dict[type, Callable[[Any], Expr]] = {
            And: self._logical, Or: self._logical, Not: self._not, Select: self._select, Cast: self._cast, Call: self._call,
            Let: self._let, **dict.fromkeys(_NEGATED, self._comparison),
        }  # fmt: skip

    def visit(self, expr: Expr) -> Expr:
        """A simplified expression."""
        kind = type(expr)
        if kind is IntImm or kind is FloatImm:
            return expr
        if is_index(expr) and (kind in ARITHMETIC or isinstance(expr, Var) or kind is Cast):
            try:
                made = self.known.table.expr(self.canonical.poly(expr), scalar_type(expr))
                return expr if structural_equal(made, expr) else made
            except OverflowError:
                pass  # a factor that the type lacks: only the operands change
        return self._inside(expr)

    __call__ = visit  # recursion goes through the name: a call of an object goes through C, whose depth is bounded

    def _inside(self, expr: Expr) -> Expr:
        """Simplify children, then the rule of the node itself."""
        if isinstance(expr, Var):
            return expr
        rebuilt: Expr = rebuild(expr, self._child)
        rule = self._rules.get(type(rebuilt))
        if rule is not None:
            return rule(rebuilt)
        if is_binary(rebuilt) and build.is_const(rebuilt.a) and build.is_const(rebuilt.b):
            return build.OPERATORS[type(rebuilt)](rebuilt.a, rebuilt.b)
        return rebuilt

    def _child(self, node: Any) -> Any:
        if isinstance(node, Expr):
            return self.visit(node)
        return node if node.is_reference or not node.walked else rebuild(node, self._child)

    def _comparison(self, expr: Compare) -> Expr:
        if not is_index(expr.a):
            fold = build.OPERATORS[type(expr)]
            return fold(expr.a, expr.b) if build.is_const(expr.a) and build.is_const(expr.b) else expr
        decided = self.decide(expr)
        if decided is not None:
            return build.const(decided)
        return expr

    def _logical(self, expr: And | Or) -> Expr:
        if structural_equal(expr.a, expr.b):
            return expr.a
        if expr.ty.dtype.lanes != 1 or (type(expr.a) is not IntImm and type(expr.b) is not IntImm):
            return expr
        made: Any = (build.logical_and if type(expr) is And else build.logical_or)(expr.a, expr.b)
        return (
            made.b if type(made) is type(expr) and made.a is expr.a else made
        )  # a constant behind that decides the whole

    def _not(self, expr: Not) -> Expr:
        inner = expr.a
        if type(inner) is Not:
            return inner.a
        if type(inner) is IntImm:
            return build.logical_not(inner)
        if isinstance(inner, Compare) and is_index(inner.a):
            return _NEGATED[type(inner)](inner.a, inner.b)
        return expr

    def _select(self, expr: Select) -> Expr:
        decided = self.decide(expr.cond)
        if decided is not None:
            return expr.true_value if decided else expr.false_value
        return expr.true_value if structural_equal(expr.true_value, expr.false_value) else expr

    def _cast(self, expr: Cast) -> Expr:
        return build.cast(expr.value, expr.ty.dtype) if build.is_const(expr.value) or expr.value.ty is expr.ty else expr

    def _call(self, expr: Call) -> Expr:
        if expr.op_name == "T.if_then_else":
            cond, yes, no = expr.args
            decided = self.decide(cond)
            if decided is not None:
                return yes if decided else no
            if structural_equal(yes, no):
                return yes
        if expr.op_name == "T.likely" and type(expr.args[0]) is IntImm:
            return expr.args[0]
        return expr

    def _let(self, expr: Let) -> Expr:
        if build.is_const(expr.value) or isinstance(expr.value, Var):
            return self.visit(substitute(expr.body, {expr.var: expr.value}))
        return expr
