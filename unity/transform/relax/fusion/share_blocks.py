"""share_blocks: a block that computes what another one has computed before disappears, and its readers read the other buffer.

Rewrite: ``for i, k: S[i] += X[i, k]; ...; for i, k: T[i] += X[i, k]; Y[i] = X[i] - T[i]`` -> ``...; Y[i] = X[i] - S[i]``.
Only for buffers of the program's own, each written by one statement, whose sources are written before the first of the two alone.
"""

from __future__ import annotations

from ....ir.buffer import Buffer
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc, is_scheduled
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import NOTHING, Block, BufferStore, For, SeqStmt, Stmt, seq
from ....ir.structural import structural_equal, structural_hash
from ....ir.types import Expr
from ....ir.walk import collect, rewrite, substitute
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import calls_are_pure
from .auto_inline import Statements


class _Computed(Statements):
    """The statements that compute one buffer each, and what is the same of two of them."""

    def result(self, index: int) -> Buffer | None:
        """The one buffer of its own that a statement computes, and nothing else; None where it does more."""
        stmt = self.stmts[index]
        if type(stmt) is not For:
            return None
        written = {store.buffer for store in collect(stmt, BufferStore)}
        if len(written) != 1 or any([b.alloc_buffers or b.match_buffers for b in collect(stmt, Block)]):
            return None
        buffer = written.pop()
        alone = self.writers[buffer.data] == [index] and buffer in self.own and buffer not in self.blocked
        pure = all([calls_are_pure(call) for call in collect(stmt, Call)])
        return buffer if alone and pure else None

    def unchanged(self, first: int, second: int) -> bool:
        """True when nothing that the second statement reads is written from the first on, but its own result."""
        reads = {load.buffer.data for load in collect(self.stmts[second], BufferLoad)}
        own = {store.buffer.data for store in collect(self.stmts[second], BufferStore)}
        return not any([first <= at < second for data in reads - own for at in self.writers.get(data, ())])

    def drop(self, index: int, buffer: Buffer, instead: Buffer) -> None:
        """Remove a statement and its buffer; later statements read ``instead``."""
        self.stmts[index] = self.stmts[self.own.pop(buffer)] = NOTHING
        for later in range(index + 1, len(self.stmts)):
            self.stmts[later] = substitute(self.stmts[later], {buffer: instead, buffer.data: instead.data})


def share(body: Stmt) -> Stmt:
    """The body with equal statements computed once."""
    if type(body) is not SeqStmt or sum([type(s) is For for s in body.stmts]) < 2:
        return body
    found = _Computed(body)
    known: dict[int, list[tuple[int, Buffer]]] = {}
    stand_ins: dict[tuple[str, int], Buffer] = {}
    for index in range(len(found.stmts)):
        buffer = found.result(index)
        if buffer is None:
            continue
        stand_in = stand_ins.setdefault((buffer.dtype.name, structural_hash(buffer.shape)), buffer)
        key = structural_hash(_over(found.stmts[index], buffer, stand_in))
        for earlier, other in known.get(key, ()):
            if _same(found.stmts[earlier], found.stmts[index], other, buffer) and found.unchanged(earlier, index):
                found.drop(index, buffer, other)
                break
        else:
            known.setdefault(key, []).append((index, buffer))
    return seq(*found.stmts, old=body)


def _same(first: Stmt, second: Stmt, a: Buffer, b: Buffer) -> bool:
    """True when two statements differ in the buffer they compute alone."""
    shapes: tuple[tuple[Expr, ...], tuple[Expr, ...]] = (a.shape, b.shape)
    if a.dtype is not b.dtype or a.scope != b.scope or a.strides or b.strides or not structural_equal(*shapes):
        return False
    return structural_equal(_over(first, a, a), _over(second, b, a))


def _over(stmt: Stmt, buffer: Buffer, other: Buffer) -> Stmt:
    """A statement that computes another buffer, with the names of its blocks left out."""
    mapping: dict[Buffer | Var, Buffer | Var] = {buffer: other, buffer.data: other.data}
    moved = stmt if buffer is other else substitute(stmt, mapping)
    return rewrite(moved, {Block: lambda block: replace(block, name="")})


@prim_func_pass()
def share_blocks(func: PrimFunc) -> PrimFunc:
    """Compute equal intermediate results of a tensor program once. For programs with blocks."""
    if is_scheduled(func):
        return func
    return replace(func, body=share(func.body))
