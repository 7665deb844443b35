"""Dependences inside one scope: which blocks write and read which buffers, producers, consumers, outputs.

Not here: whether a block is complete or covered (``conditions.py``). Invariant: a scope is computed from the blocks as
they stand and kept until the program changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.analysis import block_regions
from ....ir.buffer import Buffer, BufferRegion
from ....ir.stmt import Block
from ..core.sref import Sref
from ..core.state import ScheduleState, cached_until_change
from .enclosing import loads_around

Regions = tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]


def regions(state: ScheduleState, block: Block) -> Regions:
    """(reads, writes) of a block, in terms of its iterators."""
    return state.cached(("regions", block), lambda: block_regions(block))


def scope_of(at: Sref) -> Sref:
    """The nearest enclosing block (a root block encloses itself)."""
    for above in at.above():
        if above.is_block:
            return above
    return at


@dataclass(slots=True)
class Scope:
    """Blocks of a scope in program order and the buffers they touch, in order of first access."""

    root: Sref
    blocks: list[Sref]
    reads: dict[Sref, list[Buffer]]
    writes: dict[Sref, list[Buffer]]

    def producers(self, block: Sref) -> list[Sref]:
        """Blocks that write before ``block`` what it reads."""
        wanted = set(self.reads[block])
        return [b for b in self.before(block) if not wanted.isdisjoint(self.writes[b])]

    def consumers(self, block: Sref) -> list[Sref]:
        """Blocks that read after ``block`` what it writes."""
        given = set(self.writes[block])
        return [b for b in self.after(block) if not given.isdisjoint(self.reads[b])]

    def writers(self, buffer: Buffer) -> list[Sref]:
        """Blocks that write a buffer."""
        return [b for b in self.blocks if buffer in self.writes[b]]

    def readers(self, buffer: Buffer) -> list[Sref]:
        """Blocks that read a buffer."""
        return [b for b in self.blocks if buffer in self.reads[b]]

    def before(self, block: Sref) -> list[Sref]:
        """Blocks earlier in the program."""
        return self.blocks[: self.blocks.index(block)]

    def after(self, block: Sref) -> list[Sref]:
        """Blocks later in the program."""
        return self.blocks[self.blocks.index(block) + 1 :]

    def is_output(self, block: Sref) -> bool:
        """True if the block writes a buffer that lives outside the scope."""
        local = set(self.root.block.alloc_buffers)
        return any([buffer not in local for buffer in self.writes[block]])


def block_scope(state: ScheduleState, block: Sref) -> Scope:
    """The scope a block stands in."""
    return _scope_at(state, scope_of(block))


@cached_until_change
def _scope_at(state: ScheduleState, root: Sref) -> Scope:
    blocks = state.blocks_below(root)
    reads: dict[Sref, list[Buffer]] = {}
    writes: dict[Sref, list[Buffer]] = {}
    for block in blocks:  # what decides whether a block runs is read too
        read, written = regions(state, block.block)
        reads[block] = list(dict.fromkeys([*[r.buffer for r in read], *loads_around(state, block)]))
        writes[block] = list(dict.fromkeys([w.buffer for w in written]))
    return Scope(root, list(blocks), reads, writes)
