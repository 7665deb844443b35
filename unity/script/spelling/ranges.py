"""Intervals between their two spellings: ``start:stop`` in script, ``(min, extent)`` in the IR.

Invariant: ``extent_of(start, stop_of(start, extent))`` is structurally ``extent``, so printing and reading lose nothing.
"""

from __future__ import annotations

from ...ir.build import int_imm, sub
from ...ir.expr import FloatImm, IntImm
from ...ir.node import Node
from ...ir.scalar import Add, Let, Sub
from ...ir.structural import structural_equal
from ...ir.types import Expr, PrimType, Type


def same_expr(a: Expr | Type, b: Expr | Type) -> bool:
    """True when two expressions or types over the same variables are written alike."""
    stack: list[tuple[object, object]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y):
            return False
        if type(x) is Let:  # binds a name of its own
            if not structural_equal(x, y):
                return False
        elif isinstance(x, Node):
            if x.is_reference or isinstance(x, PrimType):
                return False
            if isinstance(x, FloatImm) and isinstance(y, FloatImm):
                if x.ty is not y.ty or x.value.hex() != y.value.hex():
                    return False
                continue
            stack += [(getattr(x, name), getattr(y, name)) for name, role in x.plan if role != "aside"]
        elif isinstance(x, tuple):
            assert isinstance(y, tuple)
            if len(x) != len(y):
                return False
            stack += list(zip(x, y))
        elif x != y:
            return False
    return True


def extent_of(start: Expr, stop: Expr) -> Expr:
    """Extent of ``start:stop``: constants are subtracted, a common part falls away, anything else is ``stop - start``."""
    if type(start) is IntImm and start.value == 0 and start.ty is stop.ty:
        return stop
    if type(stop) is Add:
        if same_expr(stop.a, start):
            return stop.b
        if type(start) is Add and type(stop.b) is IntImm and type(start.b) is IntImm and same_expr(stop.a, start.a):
            return sub(stop.b, start.b)
        if same_expr(stop.b, start):
            return stop.a
    return sub(stop, start)


def stop_of(start: Expr, extent: Expr) -> Expr | None:
    """The ``stop`` that reads back as ``extent``; None where there is none (mixed types)."""
    ty = start.ty
    if ty is not extent.ty or not isinstance(ty, PrimType):
        return None
    if type(start) is IntImm:
        if start.value == 0:
            return extent
        if type(extent) is IntImm:
            return int_imm(start.value + extent.value, ty)
    candidates: list[Expr] = []
    if type(extent) is Sub:
        candidates.append(extent.a)
    if type(start) is Add and type(start.b) is IntImm and type(extent) is IntImm and start.b.value + extent.value:
        candidates.append(Add(start.a, int_imm(start.b.value + extent.value, ty), ty))
    candidates.append(Add(start, extent, ty))
    for stop in candidates:
        if same_expr(extent_of(start, stop), extent):
            return stop
    return None
