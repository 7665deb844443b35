"""Proofs that one instance of a block writes every cell of a region that it declares, or that was derived from its accesses.

A derived region is a box around what is written: a store under a condition, or in a layout with holes, leaves cells out. Not
here: what the loops around a block add (``coverage.py``).
Blocks inside, views and calls that take the buffer's memory are believed.

Also region cover through a layout: a producer fills a buffer cell by cell through a map, a consumer reads it through the same.
A layout such as ``(v // 64, k, v % 64)`` where 64 does not divide the extent leaves holes that no box describes; that the
consumer reads no hole follows from both using one map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....arith import Analyzer
from ....arith.itermap import detect_iter_map
from ....ir.analysis import opaque_buffers
from ....ir.buffer import BufferRegion, Range
from ....ir.build import add, const, dtype_of, ge, is_int, lt, mul, sub
from ....ir.expr import IntImm, Var
from ....ir.scalar import Add, FloorDiv, FloorMod, Mul, Sub
from ....ir.stmt import BlockRealize, BufferStore, DeclBuffer, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, free_vars
from ..core.sref import Sref, inner_statements
from ..core.state import ScheduleState
from ..rewrites.rewriting import iteration_map, loop_range, size_vars

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
    if not found:
        return False
    for s, r in zip(found.indices, region.region):
        one = const(1, dtype_of(r.min))
        if not s.args:
            if not is_int(r.extent, 1) or not ana.can_prove_equal(s.base, r.min):
                return False
            continue
        if len(s.args) > 1 or not is_int(s.args[0].scale, 1):
            return False
        reach = mul(sub(s.args[0].extent, one), s.args[0].scale)
        last = sub(add(r.min, r.extent), one)
        if not ana.can_prove_equal(s.base, r.min) or not ana.can_prove_equal(add(s.base, reach), last):
            return False
    return True


_BINARY = (Add, Sub, Mul, FloorDiv, FloorMod)


def reads_written_layout(
    state: ScheduleState, consumer: Sref, read: BufferRegion, producer: Sref, write: BufferRegion, inner: Sequence[Sref]
) -> bool:
    """True if every cell the consumer reads lies on the producer's map, for iterators the producer runs inside the loops
    ``inner``."""
    if not all([is_int(r.extent, 1) for r in (*read.region, *write.region)]):
        return False
    values: dict[Var, Expr] = {}
    axes = {axis.var: axis for axis in producer.block.iter_vars}
    for pattern, found in zip(write.region, read.region):
        if not _match(pattern.min, found.min, axes, values):
            return False
    ana = Analyzer(size_vars(state, consumer.func))
    ana.bind_iterators(consumer.block.iter_vars)
    for var, value in values.items():
        dom = axes[var].domain
        if not ana.can_prove(ge(value, dom.min)) or not ana.can_prove(lt(value, add(dom.min, dom.extent))):
            return False
    return _runs_all(producer, set(values), inner, ana)


def _match(pattern: Expr, found: Expr, axes: Mapping[Var, object], values: dict[Var, Expr]) -> bool:
    """True if ``found`` is the pattern with expressions for its iterators."""
    if isinstance(pattern, Var) and pattern in axes:
        known = values.setdefault(pattern, found)
        return known is found or structural_equal(known, found)
    if type(pattern) is not type(found):
        return False
    if isinstance(pattern, _BINARY):
        return _match(pattern.a, found.a, axes, values) and _match(pattern.b, found.b, axes, values)  # type: ignore[attr-defined]
    return structural_equal(pattern, found)


def _runs_all(producer: Sref, used: set[Var], inner: Sequence[Sref], ana: Analyzer) -> bool:
    """True if the loops ``inner`` run the whole domain of the iterators, independently."""
    ranges = {s.loop.loop_var: loop_range(s.loop) for s in inner}
    chosen = [(a, v) for a, v in producer.realize.bindings if a.var in used]
    if any([var not in ranges and type(value) is not IntImm for _, value in chosen for var in free_vars(value)]):
        return False
    predicate = None if is_int(producer.realize.predicate, 1) else producer.realize.predicate
    found = detect_iter_map([value for _, value in chosen], ranges, predicate, "surjective", ana)
    if not found or not found.exact:
        return False
    for (axis, _), s in zip(chosen, found.indices):
        if len(s.args) > 1 or (s.args and not is_int(s.args[0].scale, 1)):
            return False
        extent = s.args[0].extent if s.args else const(1, dtype_of(axis.var))
        if not ana.can_prove_equal(s.base, axis.domain.min) or not ana.can_prove_equal(extent, axis.domain.extent):
            return False
    return True
