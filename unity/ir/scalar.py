"""Scalar expressions: arithmetic, comparisons, memory reads, vectors, reductions. Raw classes never simplify; see build.py."""

from __future__ import annotations

from typing import TypeGuard, get_args

from ..support.errors import VerifyError
from ..support.source import Span
from .buffer import Buffer, Range
from .expr import Var
from .node import Aside, Def, Derived, Node, node
from .types import Expr, PrimType, Type


@node
class Cast(Expr):
    """Conversion of a value to ``ty``: C rules where C has one. Float to integer truncates and saturates, NaN gives 0, on every
    backend; integers wrap; to bool is "not zero"."""

    value: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Add(Expr):
    """``a + b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Sub(Expr):
    """``a - b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Mul(Expr):
    """``a * b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Div(Expr):
    """True division of floats; division truncating towards zero of integers."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Mod(Expr):
    """Remainder of the truncating division (sign of ``a``)."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class FloorDiv(Expr):
    """Division rounding down."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class FloorMod(Expr):
    """Remainder of the flooring division (sign of ``b``)."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Min(Expr):
    """Smaller of two; NaN if either is NaN."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Max(Expr):
    """Larger of two; NaN if either is NaN."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class EQ(Expr):
    """``a == b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class NE(Expr):
    """``a != b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class LT(Expr):
    """``a < b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class LE(Expr):
    """``a <= b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class GT(Expr):
    """``a > b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class GE(Expr):
    """``a >= b``."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class And(Expr):
    """Logical and, right side evaluated only when the left holds."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Or(Expr):
    """Logical or, right side evaluated only when the left does not hold."""

    a: Expr
    b: Expr
    ty: PrimType
    span: Aside[Span | None] = None


Compare = EQ | NE | LT | LE | GT | GE
"""A comparison; ``ty`` is bool with the operands' lanes."""
Arithmetic = Add | Sub | Mul | Div | Mod | FloorDiv | FloorMod | Min | Max
"""An operator whose value is of the operands' type."""
Binary = Arithmetic | Compare | And | Or
"""An operator of two operands, which have one type; ``is_binary`` asks for it."""


@node
class Not(Expr):
    """Logical negation."""

    a: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Select(Expr):
    """``cond ? true_value : false_value`` with both sides evaluated (``T.if_then_else`` is the lazy form)."""

    cond: Expr
    true_value: Expr
    false_value: Expr
    ty: PrimType
    span: Aside[Span | None] = None


@node
class BufferLoad(Expr):
    """Read of a buffer element, or of lanes when the last index is a vector; ``predicate`` masks lanes."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    ty: PrimType
    predicate: Expr | None = None
    span: Aside[Span | None] = None


@node
class Ramp(Expr):
    """Vector ``base, base + stride, ...``; ``lanes`` is an int or an expression with ``vscale``."""

    base: Expr
    stride: Expr
    lanes: int
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Broadcast(Expr):
    """Vector of ``lanes`` equal values."""

    value: Expr
    lanes: int
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Shuffle(Expr):
    """Lanes picked by constant ``indices`` from the concatenated ``vectors``."""

    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    ty: PrimType
    span: Aside[Span | None] = None


@node
class Let(Expr):
    """``body`` with ``var`` bound to ``value``."""

    var: Def[Var]
    value: Expr
    body: Expr
    span: Aside[Span | None] = None

    @property
    def ty(self) -> Type:
        return self.body.ty


@node
class IterVar(Node):
    """Iterator: ``kind`` is "S" (spatial), "R" (reduction), "scan", "opaque" or "thread"; ``dom`` may be unknown."""

    var: Def[Var]
    dom: Range | None
    kind: str
    thread_tag: str = ""
    span: Aside[Span | None] = None

    @property
    def domain(self) -> Range:
        """The domain of an iterator of a block, which always has one (E344)."""
        if self.dom is None:
            raise VerifyError("E344", f"iterator {self.var.name} has no domain")
        return self.dom


@node
class CommReducer(Node):
    """Commutative, associative combination of tuples: ``result`` from ``lhs`` and ``rhs``, neutral element ``identity``."""

    lhs: Def[tuple[Var, ...]]
    rhs: Def[tuple[Var, ...]]
    result: tuple[Expr, ...]
    identity: tuple[Expr, ...]
    span: Aside[Span | None] = None


@node
class Reduce(Expr):
    """Field ``value_index`` of the reduction of ``source`` over ``axis`` where ``condition`` holds (tensor expressions)."""

    combiner: CommReducer
    source: tuple[Expr, ...]
    axis: Def[tuple[IterVar, ...]]
    condition: Expr
    value_index: int
    init: tuple[Expr, ...]
    ty: Derived[Type]
    span: Aside[Span | None] = None


COMPARISONS, ARITHMETIC = frozenset(get_args(Compare)), frozenset(get_args(Arithmetic))
OPERATOR_NAMES: dict[type, str] = {
    Add: "add", Sub: "sub", Mul: "mul", FloorDiv: "floordiv", FloorMod: "floormod", Div: "truncdiv", Mod: "truncmod",
    Min: "min", Max: "max", EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge", And: "and", Or: "or",
}  # fmt: skip
"""Operators of two operands by the name of what they do to whole numbers (``ffi.abi.INTEGERS``)."""


def is_binary(expr: object) -> TypeGuard[Binary]:
    """True for an operator of two operands: one look into a table, where ``isinstance`` would ask for each class."""
    return type(expr) in OPERATOR_NAMES
