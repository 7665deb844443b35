"""Pointers that loops and blocks use and allocate, looked up by the nodes that stand in the program.

Not here: whom a buffer belongs to (``transform/schedule/preconditions/ownership.py``).
"""

from __future__ import annotations

from ....ir.expr import Var
from ....ir.stmt import AllocBuffer
from ....ir.types import PointerType
from ....ir.walk import nodes_in
from .sref import Item, items_below
from .state import ScheduleState

Pointers = tuple[frozenset[Var], tuple[Var, ...], bool]


def pointers(state: ScheduleState, item: Item) -> Pointers:
    """Pointers used anywhere in a loop or block; those it allocates outside of inner loops and blocks; whether any stand inside."""
    found: Pointers | None = state.cache.get(("held", item))
    if found is None:
        below = items_below(item)
        inner = [pointers(state, i) for i in below]
        nodes = nodes_in(item, {id(i) for i in below})
        used = frozenset([n for n in nodes if type(n) is Var and type(n.ty) is PointerType])
        own = tuple([n.buffer.data for n in nodes if type(n) is AllocBuffer])
        found = used.union(*[i[0] for i in inner]), own, bool(own) or any([i[2] for i in inner])
        state.cache["held", item] = found
    return found
