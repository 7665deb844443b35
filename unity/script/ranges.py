"""Intervals between their two spellings: ``start:stop`` in script, ``(min, extent)`` in the IR.

Invariant: ``extent_of(start, stop_of(start, extent))`` is structurally ``extent``, so printing and reading lose nothing.
"""

from __future__ import annotations

from ..ir.build import sub
from ..ir.expr import FloatImm, IntImm
from ..ir.node import Node
from ..ir.scalar import Add, Sub
from ..ir.types import Expr, PrimType


def same_expr(a: Expr, b: Expr) -> bool:
    """True when two expressions over the same variables are written alike."""
    stack: list[tuple[object, object]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y):
            return False
        if isinstance(x, Node):
            if x.is_reference or isinstance(x, PrimType):
                return False
            if type(x) is FloatImm and repr(x.value) != repr(y.value):  # type: ignore[attr-defined]
                return False
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
    """Extent of ``start:stop``: constants are subtracted, ``start + e`` gives ``e``, anything else ``stop - start``."""
    if type(start) is IntImm and (start.value == 0 or type(stop) is IntImm) and start.ty is stop.ty:
        return sub(stop, start)
    if type(stop) is Add and same_expr(stop.a, start):
        return stop.b
    if start.ty is stop.ty and isinstance(start.ty, PrimType):
        return Sub(stop, start, start.ty)
    return sub(stop, start)


def stop_of(start: Expr, extent: Expr) -> Expr | None:
    """The ``stop`` that reads back as ``extent``; None where no single expression does (mixed types)."""
    ty = start.ty
    if ty is not extent.ty or not isinstance(ty, PrimType):
        return None
    if type(start) is IntImm:
        if start.value == 0:
            return extent
        if type(extent) is IntImm:
            return IntImm(start.value + extent.value, ty)
    if type(extent) is Sub and same_expr(extent.b, start):
        stop = extent.a
        inverse_ok = not (type(stop) is Add and same_expr(stop.a, start))
        if inverse_ok and not (type(start) is IntImm and type(stop) is IntImm):
            return stop
    return Add(start, extent, ty)
