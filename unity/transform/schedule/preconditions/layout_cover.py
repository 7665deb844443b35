"""Region cover through a layout: a producer fills a buffer cell by cell through a map, a consumer reads it through the same.

A layout such as ``(v // 64, k, v % 64)`` where 64 does not divide the extent leaves holes that no box describes; that the
consumer reads no hole follows from both using one map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....arith import Analyzer
from ....arith.itermap import detect_iter_map
from ....ir.buffer import BufferRegion
from ....ir.build import add, ge, is_int, lt
from ....ir.expr import IntImm, Var
from ....ir.scalar import Add, FloorDiv, FloorMod, Mul, Sub
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import free_vars
from ..core.sref import Sref
from ..core.state import ScheduleState
from ..rewrites.rewriting import loop_range, size_vars, takes_all

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
    return all([takes_all(s, axis.domain, ana) for (axis, _), s in zip(chosen, found.indices)])
