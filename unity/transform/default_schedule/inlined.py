"""The first decision about a program: which blocks are computed where they are read, before any rule looks at it.

Rewrite: ``P[i] = border(X[i]); Y[i] += P[i + k] * W[k]``, with ``inline`` decided at ``P`` -> ``Y[i] += border(X[i + k]) * W[k]``.
A border in the cells of a short window costs less than a copy of the image, where vectors have masks; in a long sum it costs many
times more. The own choice is to leave other blocks as they are.
"""

from __future__ import annotations

import math

from ...ir.build import int_value
from ...ir.expr import IntImm
from ...ir.function import PrimFunc
from ...ir.scalar import Add, BufferLoad
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect, used_vars
from ...support.errors import ScheduleError
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import is_choice
from .base import program_of, schedule_of
from .common.choices import choose_whether

ITEM = 4
"""Bytes of elements that borders were measured with."""
AXES, READS, READS_OF_OTHERS = 2, 9, 4
"""Axes that a window goes along, and how often it reads an element of the image, at most, where its border is in the cells: in a
sum; in another reduction, whose lanes outside have no zeros, which masks give for nothing."""


def inlined(fn: PrimFunc, machine: Machine) -> PrimFunc:
    """The program with the blocks inlined that were decided to be; one that cannot be stays."""
    arguments = fn.buffer_map.values()
    blocks = collect(fn.body, Block)
    found = [b for b in blocks if b.iter_vars and b.init is None and type(b.body) is BufferStore]
    inner = [block for block in found if block.body.buffer not in arguments]
    wanted = [b.name for b in inner if choose_whether(b, "inline", _is_border_of_window(b, blocks, machine))]
    if not wanted:
        return fn
    sch = schedule_of(fn)
    for name in wanted:
        try:
            sch.compute_inline(sch.get_block(name))
        except ScheduleError:
            continue
    return program_of(sch)


def _is_border_of_window(block: Block, blocks: list[Block], machine: Machine) -> bool:
    """True if a block copies an image with a border along its lines, and one short window over it alone reads the copy."""
    store = block.body
    assert type(store) is BufferStore
    dtype, last = store.buffer.dtype, store.indices[-1] if store.indices else None
    if not machine.masks or not dtype.is_float or dtype.itemsize != ITEM or not is_choice(store.value):
        return False
    if last not in used_vars(store.value.args[0]) or not all([type(e) is IntImm for e in store.buffer.shape]):
        return False
    readers = [b for b in blocks if any([load.buffer is store.buffer for load in collect(b.body, BufferLoad)])]
    if len(readers) != 1 or readers[0].init is None or type(readers[0].body) is not BufferStore:
        return False
    extents = [(axis.kind, int_value(axis.domain.extent, 0)) for axis in readers[0].iter_vars]
    along = [extent for kind, extent in extents if kind == "R" and extent != 1]
    most = READS if type(readers[0].body.value) is Add else READS_OF_OTHERS
    cells = math.prod([int_value(e, 1) for e in store.buffer.shape])
    reads = math.prod([extent for _, extent in extents])
    return 0 < len(along) <= AXES and 0 < math.prod(along) <= READS and reads <= most * cells
