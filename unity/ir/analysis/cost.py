"""Estimates: arithmetic operations, bytes allocated per scope, bytes of a graph function's values."""

from __future__ import annotations

import math
from typing import Any

from ..build import int_value
from ..expr import Call, IntImm, Op
from ..function import Function, PrimFunc
from ..intrinsic import BINARY_MATH, UNARY_MATH
from ..node import Node
from ..relation import dims
from ..scalar import ARITHMETIC, BufferLoad, Cast, Select
from ..stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, IfThenElse, SeqStmt, While
from ..types import TensorType
from ..walk import children, collect
from .use import bindings

_MATH = {f"T.{name}" for name in (*UNARY_MATH.split(), *BINARY_MATH.split())}


def expression_flops(expr: Node) -> int:
    """Floating-point operations of one evaluation of an expression (indices of loads do not count)."""
    total = 0
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            continue
        lanes = getattr(getattr(node.ty, "dtype", None), "lanes", 1) if hasattr(node, "ty") else 1
        if type(node) in ARITHMETIC and node.ty.dtype.is_float:
            total += lanes
        elif isinstance(node, Call) and type(node.op) is Op:
            if node.op.name in _MATH:
                total += lanes
            elif node.op.name == "T.fma":
                total += 2 * lanes
        elif isinstance(node, (Select, Cast)):
            pass
        stack.extend([c for c in children(node) if not c.is_reference])
    return total


def estimate_flops(fn: PrimFunc | Node, default_extent: int = 1) -> int:
    """Floating-point operations of a run. Unknown extents count ``default_extent``; a conditional counts its dearer branch;
    a while loop counts one round; initialisations of reductions run once per spatial point."""

    def visit(stmt: Any) -> int:
        if isinstance(stmt, For):
            extent = int_value(stmt.extent, default_extent)
            return int(extent) * visit(stmt.body)
        if isinstance(stmt, SeqStmt):
            return sum([visit(s) for s in stmt.stmts])
        if isinstance(stmt, IfThenElse):
            other = visit(stmt.else_case) if stmt.else_case is not None else 0
            return expression_flops(stmt.cond) + max(visit(stmt.then_case), other)
        if isinstance(stmt, BlockRealize):
            return visit(stmt.block.body)
        if isinstance(stmt, BufferStore):
            return expression_flops(stmt.value)
        if isinstance(stmt, While):
            return visit(stmt.body)
        total = 0
        for child in children(stmt):
            total += (
                visit(child) if hasattr(child, "walked") and not hasattr(child, "ty") and not child.is_reference else 0
            )
            if hasattr(child, "ty") and not child.is_reference:
                total += expression_flops(child)
        return total

    return visit(fn.body if isinstance(fn, PrimFunc) else fn)


def _size(shape: tuple[Any, ...], itemsize: int) -> int | None:
    known = [dim.value for dim in shape if type(dim) is IntImm]
    return itemsize * math.prod(known) if len(known) == len(shape) else None


def allocated_bytes(fn: PrimFunc) -> dict[str, int | None]:
    """Bytes allocated per storage scope (None where a size is not constant); allocations are counted once each."""
    totals: dict[str, int | None] = {}
    buffers = [s.buffer for s in collect(fn.body, AllocBuffer)]
    buffers += [b for block in collect(fn.body, Block) for b in block.alloc_buffers]
    for buffer in buffers:
        size = _size(buffer.shape, buffer.dtype.itemsize)
        before = totals.get(buffer.scope, 0)
        totals[buffer.scope] = None if size is None or before is None else before + size
    return totals


def estimate_bytes(fn: Function) -> dict[str, int | None]:
    """Bytes of the tensors a graph function binds: ``total`` (every binding its own memory); None where a shape is symbolic."""
    total: int | None = 0
    for binding in bindings(fn):
        ty = binding.var.ty
        if isinstance(ty, TensorType):
            known = dims(ty)
            size = _size(known, ty.dtype.itemsize) if known is not None and ty.dtype is not None else None
            total = None if size is None or total is None else total + size
    return {"total": total}
