"""A block beside the description of an intrinsic: which access of the block is which of the description's.

Both compute one store. Their values are compared as trees; indices are not, nor are scopes. Invariant: each buffer of the
description stands for one access of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.buffer import Buffer
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.scalar import IterVar
from ...ir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from ...ir.structural import shown, structural_equal
from ...ir.walk import free_vars
from ..schedule.preconditions.matching import Access, ValueMatcher


@dataclass(slots=True, frozen=True)
class Description:
    """The block inside the description of an intrinsic that computes one element, and the loop of each of its iterators."""

    block: Block
    store: BufferStore
    loops: tuple[For, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations of each iterator."""
        return tuple([loop.extent.value for loop in self.loops if type(loop.extent) is IntImm])


@dataclass(slots=True, frozen=True)
class Pairing:
    """For each buffer of a description its access there, and the one of the block that it stands for. ``number``: the position
    among the pairings of the block; other layouts of its operands do not change it."""

    description: Description
    block: Block
    accesses: dict[Buffer, tuple[Access, Access]]
    number: int

    def buffers_of(self, axis: IterVar, described: bool) -> frozenset[Buffer]:
        """The description's buffers whose elements an iterator selects: one of the description's (``described``) or the block's."""
        side = 0 if described else 1
        return frozenset([buffer for buffer, pair in self.accesses.items() if axis.var in _variables(pair[side])])


def _variables(access: Access) -> set[Var]:
    return {var for index in access.indices for var in free_vars(index)}


def describe(desc: PrimFunc) -> Description | str:
    """The element that a description computes, or why there is not one."""
    body: Stmt = desc.body
    loops: list[For] = []
    while True:
        if type(body) is SeqStmt:
            rest = [stmt for stmt in body.stmts if type(stmt) is not AllocBuffer]
            if len(rest) != 1:
                return "the description has several statements"
            body = rest[0]
        elif type(body) is For:
            loops.append(body)
            body = body.body
        elif type(body) is BlockRealize and not body.block.iter_vars:
            body = body.block.body
        else:
            break
    if type(body) is not BlockRealize or type(body.block.body) is not BufferStore:
        return "the description is not one block of one store"
    by_var = {loop.loop_var: loop for loop in loops}
    own = [by_var.get(value) if isinstance(value, Var) else None for value in body.iter_values]
    found = [loop for loop in own if loop is not None and type(loop.extent) is IntImm]
    if len(found) != len(own):
        return "iterators of the description are not loops of constant extent"
    return Description(body.block, body.block.body, tuple(found))


def pairings(description: Description, block: Block) -> list[Pairing] | str:
    """The ways in which accesses of a block compute what a description says, or the first difference."""
    store = block.body
    if type(store) is not BufferStore:
        return f"block {block.name} is not one store"
    if description.block.init is not None and block.init is None:
        return f"block {block.name} has no initialisation, the description has one"
    matcher = _Matcher()
    found = [
        accesses
        for start in matcher.access(description.store, store, {})
        for accesses in matcher.value(description.store.value, store.value, start)
    ]
    return [Pairing(description, block, accesses, k) for k, accesses in enumerate(found)] or matcher.reason


Accesses = dict[Buffer, tuple[Access, Access]]


class _Matcher(ValueMatcher[Accesses]):
    def access(self, d: Access, t: Access, known: Accesses) -> Iterator[Accesses]:
        """Two accesses."""
        if d.buffer.dtype is not t.buffer.dtype:
            kinds = t.buffer.dtype.name, d.buffer.dtype.name
            return self.differs(f"{t.buffer.name} holds {kinds[0]}, {d.buffer.name} of the description {kinds[1]}")
        if d.predicate is not None or t.predicate is not None:
            return self.differs(f"the access of {t.buffer.name} is under a mask")
        own, other = known.get(d.buffer, (d, t))
        same = other.buffer is t.buffer and structural_equal(other.indices, t.indices)
        if not same or not structural_equal(own.indices, d.indices):
            return self.differs(f"{d.buffer.name} of the description is {shown(other)} and {shown(t)}")
        return iter([{**known, d.buffer: (own, other)}])
