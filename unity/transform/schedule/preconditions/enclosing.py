"""Statements around a block besides loops: conditions, definitions, and loads outside of every block (in loop bounds, bindings
and predicates).

Most primitives reason about loops and regions alone. Invariant: a block for which ``why_irregular`` is None runs for every
iteration of its loops that its predicate lets through, and what decides that is not data.
"""

from __future__ import annotations

from typing import Any

from ....ir.buffer import Buffer
from ....ir.expr import IntImm, Var
from ....ir.node import Node
from ....ir.scalar import BufferLoad
from ....ir.stmt import Bind, BlockRealize, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.types import Expr
from ....ir.walk import collect, free_vars
from ..core.sref import Item, Sref, inner_statements
from ..core.state import ScheduleState, cached_until_change

_Around = dict[int, tuple[tuple[str, Node], ...]]
_NOTHING: _Around = {}


def _around(state: ScheduleState, item: Item) -> _Around:
    """For the items directly below a loop or block: what stands between, as (words, node)."""
    if type(item) is For and isinstance(item.body, (For, BlockRealize)):
        return _NOTHING

    def find() -> _Around:
        found: _Around = {}
        for inner in inner_statements(item):
            _visit(inner, (), found)
        return found

    return state.cached(("around", item), find)


def _visit(stmt: Stmt, above: tuple[tuple[str, Node], ...], found: _Around) -> None:
    kind = type(stmt)
    if kind is For or kind is BlockRealize:
        if above:
            found[id(stmt)] = above
        return
    if kind is SeqStmt:
        for inner in inner_statements(stmt):
            if isinstance(inner, Bind) and collect(inner, BufferLoad):
                above = (*above, ("after a value that is loaded outside of every block", inner))
            else:
                _visit(inner, above, found)
        return
    if isinstance(stmt, IfThenElse):
        above = (*above, ("under an if", stmt.cond))
    elif isinstance(stmt, While):
        above = (*above, ("in a while loop", stmt.cond))
    for inner in inner_statements(stmt):
        _visit(inner, above, found)


def _own_loads(state: ScheduleState, item: Item) -> tuple[Node, ...]:
    """Loads in the bounds of a loop, or in a block's bindings, domains and predicate."""
    if type(item) is For and type(item.min) is type(item.extent) is IntImm:
        return ()

    def find() -> tuple[Node, ...]:
        if isinstance(item, For):
            parts = [item.min, item.extent]
        else:
            domains = [axis.domain for axis in item.block.iter_vars]
            parts = [*item.iter_values, item.predicate, *[e for d in domains for e in (d.min, d.extent)]]
        return tuple([x for part in parts if not isinstance(part, (Var, IntImm)) for x in _loads_in(state, part)])

    return state.cached(("own loads", item), find)


def _loads_in(state: ScheduleState, expr: Expr) -> list[Node]:
    return state.cached(("loads", expr), lambda: collect(expr, BufferLoad))


def _chain(block: Sref) -> list[tuple[Sref, Sref]]:
    """(item, what stands around it) from a block out to the block of its scope."""
    found = []
    at = block
    while at.parent is not None:
        found.append((at, at.parent))
        at = at.parent
        if at.is_block:
            break
    return found


@cached_until_change
def instance_key(state: ScheduleState, block: Sref) -> tuple[Any, ...]:
    """A key of all that decides which instances of a block run: its iterators and their values, its predicate, the loops around it,
    what else stands between."""
    found: list[Any] = [*block.block.iter_vars, *block.realize.iter_values, block.realize.predicate]
    for item, parent in _chain(block):
        assert parent.node is not None
        found.append(_around(state, parent.node).get(id(item.node)))
    for above in block.above():
        if above.is_block:
            found += above.block.iter_vars
        else:
            found += [above.loop.loop_var, value_key(above.loop.min), value_key(above.loop.extent)]
    return tuple(found)


def value_key(expr: Expr) -> Any:
    """A key that equal constants share."""
    return (expr.value, expr.ty) if type(expr) is IntImm else expr


@cached_until_change
def why_irregular(state: ScheduleState, block: Sref) -> str | None:
    """The reason why a block may not run in every iteration of its loops, or runs depending on data; None if neither is so."""
    for item, parent in _chain(block):
        assert item.node is not None and parent.node is not None
        for load in _own_loads(state, item.node):
            what = f"loop {item.name} runs" if not item.is_block else f"block {item.name} is bound"
            return f"{what} as {load.buffer.name} says"  # type: ignore[attr-defined]
        if item.is_block:
            loops = {s.loop.loop_var for s in item.above() if not s.is_block}
            for axis in item.block.iter_vars:
                if loops & set(free_vars(axis.domain.extent)):
                    return f"the domain of {axis.var.name} of block {item.name} uses a loop"
        between = _around(state, parent.node).get(id(item.node))
        if between is not None:
            return f"block {block.name} stands {between[0][0]}"
    return None


@cached_until_change
def loads_around(state: ScheduleState, block: Sref) -> list[Buffer]:
    """Buffers that are read outside of a block to know whether and where it runs."""
    found: list[Buffer] = []
    for item, parent in _chain(block):
        assert item.node is not None and parent.node is not None
        found += [load.buffer for load in _own_loads(state, item.node)]  # type: ignore[attr-defined]
        for _, node in _around(state, parent.node).get(id(item.node), ()):
            found += [load.buffer for load in collect(node, BufferLoad)]
    return found


def loads_outside(stmt: Stmt) -> bool:
    """True if a statement loads anything outside of blocks, except in their predicates."""
    pending = [stmt]
    while pending:
        at = pending.pop()
        if type(at) is BlockRealize:
            if any([collect(v, BufferLoad) for v in at.iter_values]):
                return True
            continue
        if type(at) is For and (collect(at.min, BufferLoad) or collect(at.extent, BufferLoad)):
            return True
        if isinstance(at, (IfThenElse, While)) and collect(at.cond, BufferLoad):
            return True
        if isinstance(at, Bind) and collect(at, BufferLoad):
            return True
        pending.extend(inner_statements(at))
    return False


def triangular(loops: list[Sref]) -> Sref | None:
    """A loop whose bounds use another of the loops."""
    variables = {s.loop.loop_var for s in loops}
    for s in loops:
        for bound in (s.loop.min, s.loop.extent):
            if type(bound) is not IntImm and not variables.isdisjoint(free_vars(bound)):
                return s
    return None
