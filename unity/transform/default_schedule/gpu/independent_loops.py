"""Loops of plain statements with independent iterations, and buffers that are used inside one iteration only.

Iterations are independent if every buffer that is written has an axis along which the accesses of an iteration reach no further
than the loop variable moves them. Not here: how such loops are bound (`plain_loops.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith.analyzer import Analyzer
from ....ir.buffer import Buffer, Range
from ....ir.build import const, dtype_of, mul, sub
from ....ir.expr import Call, IntImm, Var
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, Bind, BufferStore, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.types import Expr
from ....ir.walk import collect, free_vars, substitute, used_vars
from ...tir.analysis.loop_nests import PURE_CALLS, slope

_UNDERSTOOD = (For, SeqStmt, IfThenElse, BufferStore, AllocBuffer, Bind, While)


def is_independent(loop: For, own: Sequence[Buffer] = ()) -> bool:
    """True if no iteration of a loop accesses elements that another one writes. ``own``: buffers that each iteration has for
    itself."""
    if loop.kind not in ("serial", "unrolled") or loop.step is not None:
        return False
    if any([type(stmt) not in _UNDERSTOOD for stmt in collect(loop, Stmt)]):
        return False
    if not all([getattr(call.op, "name", "") in PURE_CALLS for call in collect(loop, Call)]):
        return False
    private = {alloc.buffer.data for alloc in collect(loop, AllocBuffer)} | {buffer.data for buffer in own}
    accesses: dict[Var, list[BufferLoad | BufferStore]] = {}
    for node in collect(loop.body, (BufferLoad, BufferStore)):
        accesses.setdefault(node.buffer.data, []).append(node)
    written = [nodes for data, nodes in accesses.items() if data not in private and _is_written(nodes)]
    return all([_apart(nodes, loop) for nodes in written])


def _is_written(nodes: list[BufferLoad | BufferStore]) -> bool:
    return any([type(node) is BufferStore for node in nodes])


def _apart(nodes: list[BufferLoad | BufferStore], loop: For) -> bool:
    """True if accesses of two iterations never meet along some axis."""
    buffer = nodes[0].buffer
    if buffer.strides or any([node.buffer is not buffer for node in nodes]):
        return False
    analyzer = Analyzer()
    inside = {inner.loop_var for inner in collect(loop.body, For)} | {bind.var for bind in collect(loop.body, Bind)}
    for inner in collect(loop.body, For):
        analyzer.bind(inner.loop_var, Range(inner.min, inner.extent))
    return any(
        [_axis_apart([n.indices[axis] for n in nodes], loop.loop_var, inside, analyzer) for axis in range(buffer.ndim)]
    )


def _axis_apart(indices: list[Expr], var: Var, inside: set[Var], analyzer: Analyzer) -> bool:
    """True if every index is ``step * var + rest`` with all rests within less than a step."""
    if all([index is var for index in indices]):
        return True
    step = slope(indices[0], var)
    if not step or any([slope(index, var) != step for index in indices]):
        return False
    rests = [analyzer.simplify(sub(index, mul(const(step, dtype_of(var)), var))) for index in indices]
    zeros = {v: const(0, dtype_of(v)) for v in free_vars(rests[0]) if v in inside}
    base = substitute(rests[0], zeros) if zeros else rests[0]
    low, high = 0, 0
    for rest in rests:
        moved = analyzer.simplify(sub(rest, base))
        if any([v not in inside for v in used_vars(moved)]) or collect(moved, BufferLoad):
            return False
        bound = analyzer.const_int_bound(moved)
        if not isinstance(bound.low, int) or not isinstance(bound.high, int):
            return False
        low, high = min(low, bound.low), max(high, bound.high)
    return high - low < abs(step)


def is_set_first(program: Stmt, loop: For, buffer: Buffer) -> bool:
    """True if a buffer is used only inside a loop, at constant elements, and each iteration sets all of them before anything
    else."""
    if _uses(program, buffer) != _uses(loop, buffer):
        return False
    body: Stmt = loop.body
    while type(body) is For:
        body = body.body
    cells: set[tuple[int, ...]] = set()
    for part in body.stmts if type(body) is SeqStmt else (body,):
        place = _cell(part.indices) if type(part) is BufferStore and part.buffer is buffer else None
        if place is None or buffer in [load.buffer for load in collect(part, BufferLoad)]:
            break
        cells.add(place)
    touched = [node for node in collect(loop, (BufferLoad, BufferStore)) if node.buffer.data is buffer.data]
    return bool(cells) and all([node.buffer is buffer and _cell(node.indices) in cells for node in touched])


def _uses(stmt: Stmt, buffer: Buffer) -> int:
    return len([n for n in collect(stmt, (BufferLoad, BufferStore)) if n.buffer.data is buffer.data])


def _cell(indices: tuple[Expr, ...]) -> tuple[int, ...] | None:
    return tuple([i.value for i in indices if type(i) is IntImm]) if all([type(i) is IntImm for i in indices]) else None
