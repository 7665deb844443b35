"""Loop nests over one block, for lowerings that write their own statements: what the passes that tile reductions look for.

Not here: what is computed. Invariant: one cell of the output for each point of the spatial iterators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import build
from ...ir.buffer import Buffer, Range
from ...ir.expr import Var
from ...ir.scalar import IterVar
from ...ir.stmt import Block, BlockRealize, BufferStore, For, Stmt
from ...ir.types import Expr, prim_type
from .type_rules import ZERO

Value = Callable[..., Expr]
"""Iterators, first those of the cell, then those reduced over -> a value."""


def loops(shape: Sequence[Expr], body: Callable[[list[Var]], Stmt], hint: str = "i") -> Stmt:
    """Serial loops over a shape around ``body(indices)``."""
    indices = [Var(f"{hint}{n}", prim_type("int64")) for n in range(len(shape))]
    stmt = body(indices)
    for index, extent in zip(reversed(indices), reversed(shape)):
        stmt = For(index, ZERO, extent, "serial", stmt)
    return stmt


def read(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """Element of a buffer."""
    return build.buffer_load(buffer, *indices)


def serial_loop(extent: Expr, body: Callable[[Var], Stmt], name: str, kind: str = "serial") -> Stmt:
    """A loop from 0 up to an extent."""
    index = Var(name, prim_type("int64"))
    return For(index, ZERO, extent, kind, body(index))


def unit_loop(extent: Expr, body: Callable[[Var], Stmt]) -> Stmt:
    """A loop over independent units."""
    index = Var("j", prim_type("int64"))
    return For(index, ZERO, extent, "serial", body(index), annotations={"vectorize": 1})


def spatial_nest(out: Buffer, value: Value, extents: Sequence[Expr] | None = None) -> Stmt:
    """``out[i, ..] = value(i, ..)`` for all cells, or those below ``extents``."""
    return _nest(out, list(extents or out.shape), [], value, None, None, out.name, {})


def reduction_nest(
    out: Buffer,
    over: Sequence[Expr],
    value: Value,
    combine: Callable[[Expr, Expr], Expr] = build.add,
    init: float = 0.0,
    extents: Sequence[Expr] | None = None,
    name: str = "",
    **annotations: Any,
) -> Stmt:
    """``out[i, ..] = start`` joined with ``value(i, .., k, ..)`` for all k below ``over``; for all cells, or those below
    ``extents``."""
    first = build.const(init, out.dtype)
    return _nest(out, list(extents or out.shape), list(over), value, combine, first, name, annotations)


def _nest(
    out: Buffer,
    spatial: list[Expr],
    over: list[Expr],
    value: Value,
    combine: Callable[[Expr, Expr], Expr] | None,
    init_value: Expr | None,
    name: str,
    annotations: dict[str, Any],
) -> Stmt:
    extents = [*spatial, *over]
    axes = [
        IterVar(Var(f"v{n}", prim_type("int64")), Range(ZERO, extent), "S" if n < len(spatial) else "R")
        for n, extent in enumerate(extents)
    ]
    names = [axis.var for axis in axes]
    cell = tuple(names[: len(spatial)])
    element = value(*names)
    body = BufferStore(out, element if combine is None else combine(read(out, cell), element), cell)
    init = None if init_value is None else BufferStore(out, init_value, cell)
    block = Block(tuple(axes), None, None, (), (), annotations, name or out.name, body, init)
    loops = [Var(f"i{n}", prim_type("int64")) for n in range(len(extents))]
    stmt: Stmt = BlockRealize(tuple(loops), build.const(True), block)
    for loop, extent in zip(reversed(loops), reversed(extents)):
        stmt = For(loop, ZERO, extent, "serial", stmt)
    return stmt
