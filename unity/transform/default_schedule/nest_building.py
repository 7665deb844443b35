"""Construction of nests for rules: iterators, buffers, a block under its loops, and the replacement of nests in a program.

Not here: any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.buffer import Buffer, Range
from ...ir.build import const, dtype_of
from ...ir.expr import Var
from ...ir.scalar import IterVar
from ...ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, Stmt, statements_of
from ...ir.types import Expr, prim_type
from ...ir.walk import collect

INT = "int64"


def iterator(name: str, extent: Expr, kind: str = "S") -> IterVar:
    """A new iterator from zero."""
    dtype = dtype_of(extent)
    return IterVar(Var(name, prim_type(dtype)), Range(const(0, dtype), extent), kind)


def iterators_of(names: str, extents: Sequence[Expr], kinds: str) -> list[IterVar]:
    """Iterators named ``v...``."""
    return [
        IterVar(Var(f"v{name}", prim_type(INT)), Range(const(0, INT), extent), kind)
        for name, extent, kind in zip(names.split(), extents, kinds)
    ]


def output_axes(output: Buffer) -> list[IterVar]:
    """An iterator for each axis of a buffer."""
    return [iterator(f"o{k}", n) for k, n in enumerate(output.shape)]


def nest_of(
    name: str, axes: Sequence[IterVar], body: Stmt, init: Stmt | None = None, notes: Mapping[str, Any] | None = None
) -> Stmt:
    """A block with annotations under a loop for each iterator."""
    loops = [Var(axis.var.name.removeprefix("v") or axis.var.name, axis.var.ty) for axis in axes]
    block = Block(tuple(axes), None, None, (), (), dict(notes or {}), name, body, init)
    made: Stmt = BlockRealize(tuple(loops), const(True), block)
    for loop, axis in reversed(list(zip(loops, axes))):
        made = For(loop, axis.domain.min, axis.domain.extent, "serial", made)
    return made


def nest_over(name: str, buffer: Buffer, value: Callable[[tuple[Var, ...]], Expr]) -> Stmt:
    """A nest that stores a value in each cell of a buffer."""
    axes = output_axes(buffer)
    cell = tuple([axis.var for axis in axes])
    return nest_of(name, axes, BufferStore(buffer, value(cell), cell))


def replace_nests(
    body: Stmt, gone: Mapping[Block, Stmt], dead: Block | None = None, buffer: Buffer | None = None
) -> list[Stmt]:
    """The statements of a body with some nests replaced; the nest of a block and the allocation of a buffer are left out."""
    found: list[Stmt] = []
    for part in statements_of(body):
        blocks = collect(part, Block)
        if dead is not None and (dead in blocks or (type(part) is AllocBuffer and part.buffer is buffer)):
            continue
        found.append(next((made for block, made in gone.items() if block in blocks), part))
    return found
