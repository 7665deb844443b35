"""Proofs that one instance of a block writes every cell of a region that it declares, or that was derived from its accesses.

A derived region is a box around what is written: a store under a condition, or in a layout with holes, leaves cells out. Not
here: what the loops around a block add (``coverage.py``).
Blocks inside, views and calls that take the buffer's memory are believed.
"""

from __future__ import annotations

from ....arith import Analyzer
from ....ir.analysis import opaque_buffers
from ....ir.buffer import BufferRegion, Range
from ....ir.build import dtype_of, is_int
from ....ir.expr import Var
from ....ir.stmt import BlockRealize, BufferStore, DeclBuffer, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.walk import collect
from ..core.sref import Sref, inner_statements
from ..core.state import ScheduleState
from ..rewrites.rewriting import iteration_map, loop_range, takes_all

_Store = tuple[BufferStore, dict[Var, Range]]


def fills(state: ScheduleState, block: Sref, region: BufferRegion) -> bool:
    """True if every cell of ``region`` (in the block's iterators) is written in each instance of the block."""
    return state.cached(("fills", block.block, region), lambda: _fills(block, region))


def _fills(block: Sref, region: BufferRegion) -> bool:
    body = block.block.body
    if type(body) is BufferStore and body.buffer is region.buffer and body.predicate is None:
        return _reached(block, region, (body, {}))
    views = [m.source.buffer for m in block.block.match_buffers] + [d.buffer for d in collect(body, DeclBuffer)]
    if any([b.data is region.buffer.data for b in views]):
        return True
    found: list[_Store] = []
    if _believed(body, region, {}, found):
        return True
    return any([_reached(block, region, store) for store in found])


def _believed(stmt: Stmt, region: BufferRegion, loops: dict[Var, Range], found: list[_Store]) -> bool:
    """True if there is a block inside, or an opaque access; unconditional stores with the loops around them go to ``found``."""
    if type(stmt) is BufferStore:
        if stmt.buffer is region.buffer and stmt.predicate is None:
            found.append((stmt, loops))
        return False
    if type(stmt) is BlockRealize:
        return True
    if isinstance(stmt, (IfThenElse, While)):
        return False
    if type(stmt) is For:
        loops = {**loops, stmt.loop_var: loop_range(stmt)}
    inner = inner_statements(stmt)
    if not inner and type(stmt) is not SeqStmt:
        return any([b.data is region.buffer.data for b in opaque_buffers(stmt)])
    return any([_believed(s, region, loops, found) for s in inner])


def _reached(block: Sref, region: BufferRegion, store: _Store) -> bool:
    """True if the indices of a store take every value of the region while the loops inside the block run."""
    access, loops = store
    if not loops and all([i is r.min and is_int(r.extent, 1) for i, r in zip(access.indices, region.region)]):
        return True
    if any([dtype_of(i).lanes > 1 for i in access.indices]):
        return True  # lanes are contiguous: the region was made from them
    ana = Analyzer()
    ana.bind_iterators(block.block.iter_vars)
    found = iteration_map(access.indices, loops, None, ana)
    return bool(found) and all([takes_all(s, r, ana) for s, r in zip(found.indices, region.region)])
