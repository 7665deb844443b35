"""Definitions at a binding position: the symbols that stand bare in types and buffers.

Not here: which positions bind (the ``Def`` fields of nodes). Invariant: a binding field defines its symbols as a whole, before
anything in it is used: in ``x: (n + 1,), y: (n,)`` the ``n`` of ``y`` is the ``n`` of ``x``.
"""

from __future__ import annotations

from typing import Any

from .buffer import Buffer
from .expr import ShapeExpr, Var
from .types import Expr, ShapeType, TensorType, TupleType


def bound_symbols(binding: Any) -> list[Var]:
    """Symbols a type, a variable with its type, a buffer, or a tuple or dict of these define, in order."""
    found: dict[Var, None] = {}
    pending = [binding]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind is TensorType:
            if isinstance(item.shape, Var):
                found[item.shape] = None
            _note(_extents(item.shape), found)
        elif kind is ShapeType:
            _note(item.values or (), found)
        elif kind is Buffer:
            _note((*item.shape, *item.strides, item.elem_offset), found)
        elif kind is TupleType:
            pending.extend(reversed(item.fields))
        elif kind is tuple:
            pending.extend(reversed(item))
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, Var):
            pending.append(item.ty)
    return list(found)


def _extents(shape: Expr | None) -> tuple[Expr, ...]:
    if type(shape) is ShapeExpr:
        return shape.values
    return (shape.ty.values or ()) if shape is not None and isinstance(shape.ty, ShapeType) else ()


def _note(extents: tuple[Expr | None, ...], found: dict[Var, None]) -> None:
    for extent in extents:
        if isinstance(extent, Var):
            found[extent] = None
