"""The first decision about a program: which blocks are computed where they are read, before any rule looks at it.

Rewrite: ``P[i] = border(X[i]); Y[i] += P[i + k] * W[k]``, with ``inline`` decided at ``P`` -> ``Y[i] += border(X[i + k]) * W[k]``.
A border in the cells of a short window costs less than a copy of the image; in a long sum it costs many times more. The own
choice is to leave the blocks as they are.
"""

from __future__ import annotations

from ...ir.function import PrimFunc
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect
from ...support.errors import ScheduleError
from ..tir.analysis.choices import choose
from .base import program_of, schedule_of


def inlined(fn: PrimFunc) -> PrimFunc:
    """The program with the blocks inlined that were decided to be; one that cannot be stays."""
    arguments = fn.buffer_map.values()
    found = [b for b in collect(fn.body, Block) if b.iter_vars and b.init is None and type(b.body) is BufferStore]
    inner = [block for block in found if block.body.buffer not in arguments]
    wanted = [block.name for block in inner if choose(block, "inline", (0, 1), 0)]
    if not wanted:
        return fn
    sch = schedule_of(fn)
    for name in wanted:
        try:
            sch.compute_inline(sch.get_block(name))
        except ScheduleError:
            continue
    return program_of(sch)
