"""Construction of nests for rules: iterators, a block under its loops, buffers, and their replacement in a program.

Not here: any rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....ir.buffer import Buffer, Range
from .....ir.build import const
from .....ir.expr import Var
from .....ir.scalar import IterVar
from .....ir.stmt import AllocBuffer, Block, BlockRealize, For, SeqStmt, Stmt
from .....ir.types import Expr, PointerType, prim_type
from .....ir.walk import collect

INT = "int64"


def iterators_of(names: str, extents: Sequence[Expr], kinds: str) -> list[IterVar]:
    """Iterators that begin at zero, named ``v...``."""
    zero = const(0, INT)
    return [
        IterVar(Var(f"v{name}", prim_type(INT)), Range(zero, extent), kind)
        for name, extent, kind in zip(names.split(), extents, kinds)
    ]


def nest_of(name: str, axes: Sequence[IterVar], body: Stmt, init: Stmt | None = None) -> Stmt:
    """A block under a loop for each iterator."""
    loops = [Var(axis.var.name[1:], axis.var.ty) for axis in axes]
    block = Block(tuple(axes), None, None, (), (), {}, name, body, init)
    made: Stmt = BlockRealize(tuple(loops), const(True), block)
    for loop, axis in reversed(list(zip(loops, axes))):
        made = For(loop, const(0, INT), axis.domain.extent, "serial", made)
    return made


def buffer_of(name: str, like: str, shape: Sequence[Expr], scope: str) -> Buffer:
    """A buffer that the program allocates; it has the data type of ``like``."""
    dtype = prim_type(like)
    return Buffer(Var(name, PointerType(dtype, scope)), dtype.dtype, tuple(shape), name=name)


def replace_nests(
    body: Stmt, gone: Mapping[Block, Stmt], dead: Block | None = None, buffer: Buffer | None = None
) -> list[Stmt]:
    """The statements of a body with some nests replaced; the nest of a block and the allocation of a buffer are left out."""
    found: list[Stmt] = []
    for part in body.stmts if type(body) is SeqStmt else (body,):
        blocks = collect(part, Block)
        if dead is not None and (dead in blocks or (type(part) is AllocBuffer and part.buffer is buffer)):
            continue
        found.append(next((made for block, made in gone.items() if block in blocks), part))
    return found
