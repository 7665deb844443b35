"""Predicates of vector reads: what `vectorize_loop` does to expressions that only some lanes may evaluate."""

from __future__ import annotations

import math
from typing import Any

from ....ir.build import broadcast, dtype_of, is_int, logical_and, lt
from ....ir.expr import FloatImm, IntImm
from ....ir.node import replace
from ....ir.scalar import LT, Broadcast, BufferLoad, Div, FloorDiv, FloorMod, Mod, Ramp
from ....ir.types import Expr
from ....ir.walk import Rewriter


class CannotVectorize(Exception):
    """A part has no vector form: its statement is to run lane by lane."""


class _Mask(Rewriter):
    """Gives reads a predicate; a read of one cell becomes a read of that cell by every lane that wants it."""

    def __init__(self, cond: Expr, lanes: int) -> None:
        super().__init__()
        self.cond, self.lanes = cond, lanes

    def enter(self, node: Any) -> Any | None:
        if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and not dtype_of(node).is_float:
            divisor: Expr = node.b
            divisor = divisor.value if type(divisor) is Broadcast else divisor
            if type(divisor) is not IntImm or divisor.value == 0:
                raise CannotVectorize  # dividing in a lane that does not count must not fail
        if (
            type(node) is Broadcast
            and type(node.value) is BufferLoad
            and node.value.predicate is None
            and node.value.indices
        ):
            load = node.value
            last = self.visit(broadcast(load.indices[-1], node.lanes))
            return replace(load, indices=(*load.indices[:-1], last), ty=node.ty, predicate=self.cond)
        if type(node) is BufferLoad and dtype_of(node).lanes == 1 < self.lanes:
            if not some_lane(self.cond):  # a cell that all lanes share, as the start of a run of neighbours
                raise CannotVectorize
            return None
        if type(node) is BufferLoad:
            if dtype_of(node).lanes != self.lanes:
                raise CannotVectorize
            indices = tuple([self.visit(i) for i in node.indices])
            cond = self.cond if node.predicate is None else logical_and(self.cond, self.visit(node.predicate))
            return replace(node, indices=indices, predicate=cond)
        return None


def masked(expr: Expr, cond: Expr, lanes: int) -> Expr:
    """A vector expression whose reads happen only in lanes where ``cond`` holds. Raises CannotVectorize."""
    return _Mask(cond, lanes)(expr)


def some_lane(cond: Expr) -> bool:
    """True if a condition is known to hold in a lane: ``Ramp(0, 1, 16) < Broadcast(15, 16)`` does in the first."""
    if type(cond) is not LT or type(cond.a) is not Ramp or type(cond.b) is not Broadcast:
        return False
    return is_int(lt(cond.a.base, cond.b.value), 1)


def is_zero(expr: Expr) -> bool:
    """The constant 0 (of floats: the positive one), in one lane or all."""
    value = expr.value if type(expr) is Broadcast else expr
    if type(value) is FloatImm:
        return value.value == 0 and math.copysign(1.0, value.value) > 0
    return is_int(value, 0)
